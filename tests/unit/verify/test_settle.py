"""The probe that decides: across one explanation's element and no other's, between good ends, never tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Finding, Outcome, Suspect, Verdict
from fabricctl.verify.localise import localise
from fabricctl.verify.schedule import expand
from fabricctl.verify.settle import MOST, advise, settle

Build = Callable[..., Fabric]
Judged = Callable[[Iterable[PairId], Callable[[PairId], Outcome]], tuple[Verdict, ...]]


def port(name: str) -> PortId:
    return PortId(name, "eth1")


def tried(fabric: Fabric, spec: str, judged: Judged, *bad: str) -> tuple[Verdict, ...]:
    def outcome(pair: PairId) -> Outcome:
        return Outcome.FAIL if {pair.source.device, pair.target.device} & set(bad) else Outcome.PASS

    return judged(expand(fabric, spec), outcome)


def test_nothing_ambiguous_needs_no_probe(star: Build, judged: Judged) -> None:
    fabric = star(4)
    verdicts = tried(fabric, "all", judged, "node2")
    suspects = localise(verdicts, fabric)
    assert settle(suspects, fabric, verdicts) == ()
    assert advise(suspects, fabric, verdicts) == suspects


def test_which_of_two_cables(star: Build, judged: Judged) -> None:
    # node1 with node2 failed, node3 with node4 passed: node1 with a good one tells the two cables apart.
    fabric = star(5)
    verdicts = tried(fabric, "node1:node2,node3:node4", judged, "node1")
    suspects = localise(verdicts, fabric)
    assert [(s.element, s.ambiguous_with) for s in suspects] == [
        ("link node1/eth1 - leaf1/eth1", ("link node2/eth1 - leaf1/eth2",))
    ]
    asked = settle(suspects, fabric, verdicts)
    assert asked == (PairId(port("node1"), port("node3")), PairId(port("node3"), port("node1")))
    (advised,) = advise(suspects, fabric, verdicts)
    assert advised.evidence.endswith(
        '; "fabricctl verify --pairs node1/eth1:node3/eth1" would tell them apart'
    )
    # What it says is true: after it one cable is left.
    for outcome, culprit in ((Outcome.FAIL, "link node1"), (Outcome.PASS, "link node2")):
        more = judged(asked, lambda _, held=outcome: held)  # type: ignore[misc]
        (found,) = localise((*verdicts, *more), fabric)
        assert (found.element.split("/")[0], found.ambiguous_with) == (culprit, ())


def test_a_leaf_or_two_nics_is_settled_by_a_third_port_of_the_leaf(star: Build, judged: Judged) -> None:
    fabric = star(4)
    verdicts = tried(fabric, "node1:node2", judged, "node1")
    (suspect,) = localise(verdicts, fabric)
    assert set(suspect.ambiguous_with) == {"link node2/eth1 - leaf1/eth2", "switch leaf1"}
    # Nobody else was tried: two ports of which nothing bad is known cross the leaf alone.
    pair, back = settle((suspect,), fabric, verdicts)
    assert {pair.source.device, pair.target.device} == {"node3", "node4"}
    assert back == pair.reverse


def test_a_node_with_two_rails_or_its_leaf(star: Build, judged: Judged) -> None:
    fabric = star(3, 2)
    suspect = Suspect("node node1", (), "why", ("link node2/eth1 - leaf1/eth3 (sending side of node2/eth1)",))
    verdicts = tried(fabric, "node2:node3", judged)
    (pair, _) = settle((suspect,), fabric, verdicts)
    assert (pair.source.device, pair.target.device) == ("node1", "node3")


def test_when_all_was_tried_no_probe_is_left(clos: Build, judged: Judged) -> None:
    fabric = clos(3, 2)

    def across(pair: PairId) -> Outcome:
        leaves = {pair.source.device[4], pair.target.device[4]}
        return Outcome.FAIL if len(leaves) == 2 and "1" in leaves else Outcome.PASS

    verdicts = judged(expand(fabric, "all"), across)
    suspects = localise(verdicts, fabric)
    assert suspects[0].ambiguous_with
    assert settle(suspects, fabric, verdicts) == ()
    (advised, *_) = advise(suspects, fabric, verdicts)
    assert advised.evidence.endswith(
        "; no pair that was not tried would tell them apart: look at counters, swap a cable"
    )


def test_a_suspect_that_is_sure_keeps_its_words(star: Build, judged: Judged) -> None:
    fabric = star(6)
    verdicts = tried(fabric, "node1:node2,node3:node4", judged, "node1")
    sure = Suspect("pair of something", (), "sure")
    advised = advise((sure, *localise(verdicts, fabric)), fabric, verdicts)
    assert advised[0] == sure
    assert "would tell them apart" in advised[1].evidence


def test_slow_ends_are_not_good(star: Build, judged: Judged) -> None:
    fabric = star(5)
    verdicts = tried(fabric, "node1:node2,node3:node4", judged, "node1")
    slow = Finding("outlier", "", Outcome.PASS, "slow", measured="p50 = 9 us")
    verdicts = tuple(
        replace(v, findings=(*v.findings, slow)) if v.outcome is Outcome.PASS else v for v in verdicts
    )
    pair, _ = settle(localise(verdicts, fabric)[:1], fabric, verdicts)
    assert (pair.source.device, pair.target.device) == ("node1", "node5")


def test_no_more_than_a_few_at_a_time(star: Build, judged: Judged) -> None:
    fabric = star(40)
    spec = ",".join(f"node{n}:node{n + 1}" for n in range(1, 30, 2)) + ",node35:node36"
    verdicts = tried(fabric, spec, judged, *(f"node{n}" for n in range(1, 31)))
    suspects = localise(verdicts, fabric)
    assert len(suspects) == 15
    assert len(settle(suspects, fabric, verdicts)) == 2 * MOST
