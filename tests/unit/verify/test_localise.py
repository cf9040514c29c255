"""Localisation: the right element, no other, and honest where the evidence does not decide."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Finding, Outcome, Suspect, Verdict
from fabricctl.verify.covers import Cover
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
    # Those that passed went the other way over these links, which says nothing of this one.
    assert found.evidence.startswith(
        "all 4 failed pairs cross it; the 8 that passed clear leaf1, leaf2, node11"
    )


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


def test_two_nics_under_a_leaf_or_the_leaf_itself_is_ambiguous(clos: Build, suspects: Run) -> None:
    # Both nodes of leaf1 fail with everyone: the leaf, or the two NICs that are all that was seen of it.
    (found,) = suspects(clos(3, 1), touches("node11", "node12"))
    assert found.element == "switch leaf1"
    assert found.ambiguous_with == ("link node11/eth1 - leaf1/eth1 and link node12/eth1 - leaf1/eth2",)
    # A third node there that works clears the leaf.
    star_like = suspects(clos(3, 1), touches("node11"))
    assert [(s.element, s.ambiguous_with) for s in star_like] == [("link node11/eth1 - leaf1/eth1", ())]


def test_one_direction_of_a_trunk(clos: Build, suspects: Run) -> None:
    def up(pair: PairId) -> bool:
        return pair.source.device[4] == "1" != pair.target.device[4]

    (found,) = suspects(clos(3, 1), up)
    assert found.element == "link leaf1/up1 - spine1/eth1 (sending side of leaf1/up1)"
    assert found.ambiguous_with == ()
    assert "look at what is sending there" in found.evidence


SIGN = "rx_crc_errors_phy +12"


def test_a_counter_at_one_end_breaks_a_tie(star: Build, judged: Judged) -> None:
    fabric = star(2)
    verdicts = judged(expand(fabric, "all"), lambda _: Outcome.FAIL)
    (found,) = localise(verdicts, fabric, {PortId("node2", "eth1"): SIGN})
    assert found.element == "link node2/eth1 - leaf1/eth2"
    assert found.ambiguous_with == ()
    assert f"; node2/eth1: {SIGN}; the pairs alone leave it open between this" in found.evidence
    # A sign at both ends breaks nothing.
    both = dict.fromkeys((PortId("node1", "eth1"), PortId("node2", "eth1")), SIGN)
    (found,) = localise(verdicts, fabric, both)
    assert found.ambiguous_with == ("link node2/eth1 - leaf1/eth2",)


def test_a_counter_decides_between_a_leaf_and_two_nics(clos: Build, judged: Judged) -> None:
    fabric = clos(3, 1)
    failed = touches("node11", "node12")
    verdicts = judged(expand(fabric, "all"), lambda p: Outcome.FAIL if failed(p) else Outcome.PASS)
    signs = dict.fromkeys((PortId("node11", "eth1"), PortId("node12", "eth1")), SIGN)
    found = localise(verdicts, fabric, signs)
    assert [s.element for s in found] == ["link node11/eth1 - leaf1/eth1", "link node12/eth1 - leaf1/eth2"]
    assert all(s.ambiguous_with == () and "the counters do not" in s.evidence for s in found)


def slowed(verdicts: Iterable[Verdict], slow: Callable[[PairId], bool]) -> tuple[Verdict, ...]:
    return tuple(
        replace(
            v, findings=(*v.findings, Finding("outlier", "", Outcome.PASS, "slow", measured="p50 = 9 us"))
        )
        if slow(v.pair)
        else v
        for v in verdicts
    )


def test_slow_pairs_are_localised_apart_from_failed_ones(star: Build, judged: Judged) -> None:
    fabric, bad = star(6), touches("node2")
    verdicts = judged(expand(fabric, "all"), lambda p: Outcome.FAIL if bad(p) else Outcome.PASS)
    found = localise(slowed(verdicts, lambda p: touches("node4")(p) and not bad(p)), fabric)
    assert [s.element for s in found] == ["link node2/eth1 - leaf1/eth2", "link node4/eth1 - leaf1/eth4"]
    assert found[0].evidence.startswith("all 10 failed pairs cross it; the 20 that passed clear leaf1, ")
    assert found[1].evidence.startswith(
        "all 8 slow pairs cross it; the 12 that are as fast as their class clear leaf1, node1, "
    )
    all_slow = slowed(judged(expand(fabric, "all"), lambda _: Outcome.PASS), lambda _: True)
    assert "; no pair is as fast as its class; " in localise(all_slow, fabric)[0].evidence


def test_a_slow_pair_whose_way_is_fast_with_others(star: Build, judged: Judged) -> None:
    fabric = star(4)
    verdicts = judged(expand(fabric, "all"), lambda _: Outcome.PASS)

    def most(pair: PairId) -> bool:
        lucky = {("node2", "node4"), ("node4", "node2")}
        return touches("node2")(pair) and (pair.source.device, pair.target.device) not in lucky

    (found,) = localise(slowed(verdicts, most), fabric)
    assert found.evidence.startswith(
        "4 of 6 pairs that cross it are slow; the 2 that are as fast as their class"
    )


def test_what_is_too_much_to_search_is_said(star: Build, suspects: Run) -> None:
    # Five nodes fail among themselves and nothing else of them was measured: four links explain it, at least.
    names = [f"node{n}" for n in range(1, 6)]

    def among(pair: PairId) -> bool:
        return {pair.source.device, pair.target.device} <= set(names)

    found = suspects(star(7), among, dark=lambda p: touches(*names)(p) and not among(p))
    assert len(found) == 4
    assert all("too many elements at once to be sure that these are the fewest" in s.evidence for s in found)
    assert {pair for s in found for pair in s.explains} == {p for p in expand(star(7), "all") if among(p)}


def test_other_sets_are_named_where_they_differ(star: Build, suspects: Run) -> None:
    # A ring of four that fails, the leaf cleared by two others: nodes 1 and 3, or nodes 2 and 4.
    ring = {frozenset(("node1", "node2")), frozenset(("node2", "node3"))}
    ring |= {frozenset(("node3", "node4")), frozenset(("node4", "node1"))}

    def failed(pair: PairId) -> bool:
        return frozenset((pair.source.device, pair.target.device)) in ring

    names = [f"node{n}" for n in range(1, 5)]
    found = suspects(star(6), failed, dark=lambda p: touches(*names)(p) and not failed(p))
    assert [s.element.split("/")[0] for s in found] == ["link node1", "link node3"]
    assert {s.ambiguous_with for s in found} == {
        ("link node2/eth1 - leaf1/eth2 and link node4/eth1 - leaf1/eth4",)
    }


def test_sets_that_single_swaps_come_to_are_not_named_again(
    star: Build, suspects: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, third, fourth = (0,), (1,), (2,), (3,)
    found = Cover(((one, third), (one, fourth), (other, third), (other, fourth)))
    monkeypatch.setattr("fabricctl.verify.localise.covers", lambda *_: (found,))
    held = suspects(star(4), lambda _: True)
    assert sorted(len(s.ambiguous_with) for s in held) == [1, 1]
    assert not any(" and " in name for s in held for name in s.ambiguous_with)


def test_a_cable_in_the_shadow_of_a_spine_is_named_with_it(clos: Build, suspects: Run) -> None:
    # All of node11 across leaves fails and a quarter of the rest: one spine would explain it, but by luck.
    def across(pair: PairId) -> bool:
        return pair.source.device[4] != pair.target.device[4]

    def failed(pair: PairId) -> bool:
        some = (int(pair.source.device[4:]) + int(pair.target.device[4:])) % 4 == 0
        return across(pair) and (some or touches("node11")(pair))

    (found,) = suspects(clos(4, 2), failed, dark=lambda p: touches("node11")(p) and not across(p))
    assert found.element == "switch spine1"
    assert found.ambiguous_with[0] == "switch spine2"
    together = [name for name in found.ambiguous_with if " and link node11/eth1 - leaf1/eth1" in name]
    assert together
    assert together[0].startswith("switch spine1 or switch spine2 and ")
    assert "; by how many passed, one element more may well be at fault" in found.evidence


def test_a_failed_pair_whose_target_has_no_cable_in_the_inventory(clos: Build, judged: Judged) -> None:
    base = clos(2, 1)
    fabric = replace(base, links=tuple(link for link in base.links if "node22" not in str(link)))
    bad = touches("node11")
    verdicts = judged(expand(fabric, "all"), lambda p: Outcome.FAIL if bad(p) else Outcome.PASS)
    (found,) = localise(verdicts, fabric)
    assert found.element == "link node11/eth1 - leaf1/eth1"
    assert "clear leaf1, leaf2, node12, node21, node22, spine1" in found.evidence


@settings(max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 30))
def test_the_true_element_is_named_and_alone_if_it_can_be_known(faults: Any, seed: int) -> None:
    """As ``tests/bench/localise.py`` counts over thousands: a single fault is always found."""
    case = faults.random_case(random.Random(seed))  # noqa: S311  fabrics to be repeated
    truth = frozenset(min(case.same(f.element)) for f in case.visible)
    suspects = localise(case.verdicts(), case.world.fabric)
    names = faults.named(suspects)
    assert bool(names) == bool(any(case.causes.values()))
    if not case.visible or not case.alone:
        return
    everything = set().union(*names)
    fewer = len(truth) > 1 and case.explanations(len(truth) - 1)
    if not fewer:
        assert all(case.same(f.element) & everything for f in case.visible)
    if case.explanations(len(truth)) == [truth] and not case.two_for_one(truth):
        said = {frozenset(min(case.same(name)) for name in held) for held in names}
        assert said == {frozenset({name}) for name in truth}
