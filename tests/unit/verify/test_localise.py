"""Localisation: the right element, no other, and honest where the evidence does not decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Outcome, Suspect, Verdict
from fabricctl.verify.localise import localise
from fabricctl.verify.schedule import expand

Build = Callable[..., Fabric]
Judged = Callable[[Iterable[PairId], Callable[[PairId], Outcome]], tuple[Verdict, ...]]


@pytest.fixture
def suspects(judged: Judged) -> Callable[..., tuple[Suspect, ...]]:
    """Localise in a fabric in which `bad` pairs fail and `dark` ones are unknown."""

    def run(
        fabric: Fabric,
        bad: Callable[[PairId], bool],
        dark: Callable[[PairId], bool] = lambda _: False,
        spec: str = "all",
    ) -> tuple[Suspect, ...]:
        def outcome(pair: PairId) -> Outcome:
            if dark(pair):
                return Outcome.UNKNOWN
            return Outcome.FAIL if bad(pair) else Outcome.PASS

        return localise(judged(expand(fabric, spec), outcome), fabric)

    return run


Run = Callable[..., tuple[Suspect, ...]]


def touches(*names: str) -> Callable[[PairId], bool]:
    """Pairs with one of the nodes or ports at either end."""
    return lambda pair: any(
        name in {port.device, str(port)} for port in (pair.source, pair.target) for name in names
    )


def test_nothing_failed_nothing_suspected(star: Build, suspects: Run) -> None:
    assert suspects(star(), lambda _: False) == ()
    assert suspects(star(), lambda _: False, dark=touches("node1")) == ()


def test_one_link(star: Build, suspects: Run) -> None:
    (found,) = suspects(star(), touches("node2"))
    assert found.element == "link node2/eth1 - leaf1/eth2"
    assert found.ambiguous_with == ()
    assert len(found.explains) == 6
    assert found.ports == (PortId("node2", "eth1"), PortId("leaf1", "eth2"))
    assert found.evidence == (
        "all 6 failed pairs cross it; the 6 that passed clear leaf1, node1, node3, node4;"
        " the pairs alone cannot tell the cable from the ports at its two ends"
    )


def test_one_direction_of_a_link(star: Build, suspects: Run) -> None:
    (found,) = suspects(star(), lambda pair: pair.source.device == "node2")
    assert found.element == "link node2/eth1 - leaf1/eth2 (sending side of node2/eth1)"
    assert "the other direction passed: look at what is sending there" in found.evidence
    (found,) = suspects(star(), lambda pair: pair.target.device == "node2")
    assert found.element == "link node2/eth1 - leaf1/eth2 (receiving side of node2/eth1)"


def test_a_direction_that_was_not_measured_is_not_called_good(star: Build, suspects: Run) -> None:
    (found,) = suspects(
        star(), lambda pair: pair.source.device == "node2", dark=lambda pair: pair.target.device == "node2"
    )
    assert found.element == "link node2/eth1 - leaf1/eth2"


def test_a_node_with_two_rails(star: Build, suspects: Run) -> None:
    (found,) = suspects(star(4, 2), touches("node2"))
    assert found.element == "node node2"
    assert found.ports == (PortId("node2", "eth1"), PortId("node2", "eth2"))
    assert len(found.explains) == 12


def test_one_rail_of_a_node_is_its_link(star: Build, suspects: Run) -> None:
    (found,) = suspects(star(4, 2), touches("node2/eth2"))
    assert found.element == "link node2/eth2 - leaf1/eth4"


def test_a_node_that_cannot_send_on_any_rail(star: Build, suspects: Run) -> None:
    (found,) = suspects(star(4, 2), lambda pair: pair.source.device == "node3")
    assert found.element == "node node3 (sending side of node3)"


def test_one_leaf(star: Build, suspects: Run) -> None:
    fabric = star(4, 2, leaf_per_rail=True)
    (found,) = suspects(fabric, lambda pair: pair.source.port == "eth2")
    assert found.element == "switch leaf2"
    assert found.ports == ()
    assert (
        found.evidence == "all 12 failed pairs cross it; the 12 that passed clear node1, node2, node3, node4"
    )


def test_all_failed(star: Build, suspects: Run) -> None:
    (found,) = suspects(star(), lambda _: True)
    assert found.element == "switch leaf1"
    assert found.evidence == (
        "all 12 failed pairs cross it; no pair passed; a setting that all ports share would look the same"
    )


def test_two_bad_links_are_two_suspects(star: Build, suspects: Run) -> None:
    found = suspects(star(5), touches("node2", "node4"))
    assert [s.element for s in found] == ["link node2/eth1 - leaf1/eth2", "link node4/eth1 - leaf1/eth4"]
    assert found[0].evidence.startswith("8 of 14 failed pairs cross it; the 6 that passed clear leaf1, ")


def test_five_bad_links_are_five_suspects(star: Build, suspects: Run) -> None:
    names = [f"node{n}" for n in range(1, 6)]
    found = suspects(star(8), touches(*names))
    assert [s.element.split("/")[0] for s in found] == [f"link {name}" for name in names]


def test_with_two_nodes_every_explanation_is_named(star: Build, suspects: Run) -> None:
    (found,) = suspects(star(2), lambda _: True)
    assert {found.element, *found.ambiguous_with} == {
        "link node1/eth1 - leaf1/eth1",
        "link node2/eth1 - leaf1/eth2",
        "switch leaf1",
    }


def test_with_two_nodes_and_one_direction_both_ends_are_named(star: Build, suspects: Run) -> None:
    (found,) = suspects(star(2), lambda pair: pair.source.device == "node1")
    assert found.element == "link node1/eth1 - leaf1/eth1 (sending side of node1/eth1)"
    assert found.ambiguous_with == ("link node2/eth1 - leaf1/eth2 (receiving side of node2/eth1)",)
    assert found.evidence.startswith("the one failed pair crosses it; the 1 that passed clear leaf1;")


def test_unknown_pairs_neither_blame_nor_clear(star: Build, suspects: Run) -> None:
    # node2 fails with node1 only; the rest of node2 was not measured: node2's link is not cleared.
    (found,) = suspects(
        star(),
        lambda pair: touches("node2")(pair) and touches("node1")(pair),
        dark=lambda pair: touches("node2")(pair) and not touches("node1")(pair),
    )
    assert found.element == "link node2/eth1 - leaf1/eth2"
    assert found.ambiguous_with == ()


def test_a_pair_whose_elements_all_pass_with_others_stands_alone(star: Build, suspects: Run) -> None:
    def one(pair: PairId) -> bool:
        return (pair.source.device, pair.target.device) == ("node1", "node3")

    (found,) = suspects(star(), one)
    assert found.element == "pair node1/eth1 -> node3/eth1"
    assert found.ambiguous_with == ()
    assert 'fabricctl verify --pairs node1/eth1:node3/eth1"' in found.evidence


def test_a_link_on_which_most_pairs_fail_is_flaky(star: Build, suspects: Run) -> None:
    def most(pair: PairId) -> bool:
        lucky = {("node2", "node4"), ("node4", "node2")}
        return touches("node2")(pair) and (pair.source.device, pair.target.device) not in lucky

    (found,) = suspects(star(), most)
    assert found.element == "link node2/eth1 - leaf1/eth2"
    assert found.evidence.startswith("4 of 6 pairs that cross it failed; the 2 that passed speak against")


def test_two_flaky_links_do_not_claim_the_same_pair_twice(star: Build, suspects: Run) -> None:
    # Of node2 and node3 with each other both ways, and of each with one more: the first link explains the
    # shared pairs, the second what is left.
    bad = {(2, 3), (3, 2), (2, 1), (1, 2), (3, 4), (4, 3)}

    def failed(pair: PairId) -> bool:
        return (int(pair.source.device[4:]), int(pair.target.device[4:])) in bad

    found = suspects(star(4), failed)
    assert [(s.element, len(s.explains)) for s in found] == [
        ("link node2/eth1 - leaf1/eth2", 4),
        ("link node3/eth1 - leaf1/eth3", 2),
    ]


def test_a_flaky_link_whose_pairs_others_explain_is_not_named(star: Build, suspects: Run) -> None:
    bad = {(1, 2), (2, 1), (1, 3), (3, 1), (2, 3)}

    def numbers(pair: PairId) -> tuple[int, int]:
        return int(pair.source.device[4:]), int(pair.target.device[4:])

    found = suspects(star(4), lambda pair: numbers(pair) in bad, dark=lambda pair: numbers(pair) == (3, 2))
    assert [(s.element, len(s.explains)) for s in found] == [
        ("link node1/eth1 - leaf1/eth1", 4),
        ("link node2/eth1 - leaf1/eth2", 1),
    ]


def test_an_uplink_of_one_leaf_is_preferred_to_a_spine_that_others_cross(clos: Build, suspects: Run) -> None:
    def across(pair: PairId) -> bool:
        leaves = {pair.source.device[4], pair.target.device[4]}
        return len(leaves) == 2 and "1" in leaves

    (found,) = suspects(clos(3, 2), across)
    assert found.element == "link leaf1/up1 - spine1/eth1"
    assert found.ambiguous_with == ("link leaf1/up2 - spine2/eth1",)
    assert found.evidence.startswith("all 16 failed pairs cross it; the 14 that passed clear leaf1, leaf2, ")


def test_many_bad_cables_do_not_bring_a_spine_under_suspicion(clos: Build, suspects: Run) -> None:
    names = ["node11", "node22", "node31", "node42"]
    found = suspects(clos(6, 2), touches(*names))
    assert [s.element.split("/")[0] for s in found] == [f"link {name}" for name in names]


def test_a_spine_that_passing_pairs_may_have_gone_around(clos: Build, suspects: Run) -> None:
    def one_way(pair: PairId) -> bool:
        return pair.source.device[4] != pair.target.device[4] and pair.source.device < pair.target.device

    (found,) = suspects(clos(2, 2), one_way)
    assert found.element.startswith("link leaf1/up1 - spine1/eth1")
    assert len(found.ambiguous_with) == 5
    assert "4 of them may have gone around it" in found.evidence


def test_a_single_spine_is_on_every_path(clos: Build, suspects: Run) -> None:
    (found,) = suspects(clos(3, 1), lambda pair: pair.source.device[4] != pair.target.device[4])
    assert found.element == "switch spine1"


def test_back_to_back_nodes(star: Build, judged: Judged) -> None:
    base = star(2)
    a, b = PortId("node1", "eth1"), PortId("node2", "eth1")
    link = base.links[0].__class__(a, b)
    fabric = Fabric(base.nodes(), (link,))
    pairs = expand(fabric, "all")
    (found,) = localise(judged(pairs, lambda _: Outcome.FAIL), fabric)
    assert found.element == "link node1/eth1 - node2/eth1"
    (found,) = localise(judged(pairs, lambda p: Outcome.FAIL if p.source == b else Outcome.PASS), fabric)
    assert found.element == "link node1/eth1 - node2/eth1 (receiving side of node1/eth1)"
    assert "clear nothing on its way" in found.evidence


def test_without_cables_in_the_inventory_the_node_is_named(star: Build, suspects: Run) -> None:
    fabric = Fabric(star(4).nodes(), ())
    (found,) = suspects(fabric, touches("node2"))
    assert found.element == "node node2"
    (lone,) = suspects(fabric, lambda pair: str(pair) == "node1/eth1 -> node2/eth1")
    assert lone.element == "pair node1/eth1 -> node2/eth1"


def test_only_a_few_cleared_devices_are_named(star: Build, suspects: Run) -> None:
    (found,) = suspects(star(12), touches("node2"))
    assert "clear leaf1, node1, node10, node11, node12, node3 and 6 more" in found.evidence
