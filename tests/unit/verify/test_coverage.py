"""What a time budget covers and leaves, what changed, and whom suspects are paired with again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricctl.model.certificate import Certificate
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId
from fabricctl.model.past import Basis, Past, Result
from fabricctl.model.verdict import Finding, Outcome, Verdict
from fabricctl.verify import coverage
from fabricctl.verify.coverage import Chosen, choose, estimate_s, repair
from fabricctl.verify.pairs import Pairs
from fabricctl.verify.risk import RISKS, Risk, change, risks
from fabricctl.verify.schedule import expand, rounds
from tests.fakes.certificates import FAIL, LIFE, NOW, PASS, SAME, UNKNOWN, certificate, port
from tests.fakes.fabrics import build

Build = Callable[..., Fabric]
Judged = Callable[[Iterable[PairId], Callable[[PairId], Outcome]], tuple[Verdict, ...]]


def past_of(fabric: Fabric, tested: Mapping[tuple[int, int], Result] | None = None) -> Past:
    """Return a past in which every couple passed a minute ago, except those that are given."""
    ports = [p.id for p in fabric.node_ports()]
    fresh = Result(NOW - 60, PASS)
    results = {a: {b: fresh for b in ports if a < b} for a in ports}
    for (low, high), result in (tested or {}).items():
        results[port(low)][port(high)] = result
    times = {fresh.at, *(result.at for result in (tested or {}).values())}
    return Past(
        now=NOW,
        max_age_s=LIFE,
        results=results,
        bases={p: {at: Basis(at + LIFE, "", "d", SAME) for at in times} for p in ports},
        certificates={p: certificate(p) for p in ports},
        fingerprints=dict.fromkeys(ports, SAME),
        policy_digest="d",
    )


def by_couple(pairs: Pairs, past: Past) -> dict[str, Risk]:
    kinds = risks(pairs, past).of
    return {f"{p.source.device} {p.target.device}": RISKS[k] for p, k in zip(pairs, kinds, strict=True)}


def test_the_risk_of_a_couple(star: Build) -> None:
    fabric = star(5)
    past = past_of(
        fabric,
        {
            (1, 2): Result(NOW - 60, FAIL),
            (1, 3): Result(NOW - 60, UNKNOWN),
            (1, 4): Result(NOW - 60, Outcome.ERROR),
            (1, 5): Result(NOW - LIFE, PASS),
            (2, 3): Result(NOW + 1, PASS),
        },
    )
    past = replace(past, results={**past.results, port(4): {}})
    found = by_couple(expand(fabric, "all"), past)
    assert found["node1 node2"] is found["node2 node1"] is Risk.FAILED
    assert found["node1 node3"] is found["node1 node4"] is Risk.UNKNOWN
    assert found["node1 node5"] is found["node2 node3"] is Risk.EXPIRED
    assert found["node4 node5"] is Risk.NEVER
    assert found["node5 node2"] is Risk.FRESH
    assert set(by_couple(expand(fabric, "all"), Past()).values()) == {Risk.NEVER}


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (certificate(port(1)), ""),
        (None, "no certificate"),
        (certificate(port(1), revoked="by ops"), "revoked by ops"),
        (certificate(port(1), FAIL), "its certificate says fail"),
        (certificate(port(1), UNKNOWN), "its certificate says unknown"),
        (certificate(port(1), at=NOW - LIFE), "its certificate is not valid now"),
        (certificate(port(1), at=NOW + 1), "its certificate is not valid now"),
        (certificate(port(1), policy_digest="e"), "certified by other limits"),
        (certificate(port(1), fingerprint={**SAME, "boot_id": "c"}), "changed: boot_id"),
        # It cannot be read now: whether it is the same is not known.
        (certificate(port(1), fingerprint={**SAME, "gids": "g", "firmware": "0"}), "changed: firmware, gids"),
        (certificate(port(1), fingerprint={"firmware": "1"}), ""),
    ],
)
def test_what_changed_of_a_port(star: Build, held: Certificate | None, why: str) -> None:
    fabric = star(3)
    past = past_of(fabric)
    others = {p: c for p, c in past.certificates.items() if p != port(1)}
    past = replace(past, certificates=others | ({port(1): held} if held else {}))
    assert change(port(1), past) == why
    changed = expand(fabric, "changed", past=past)
    assert {p.device for pair in changed for p in (pair.source, pair.target)} == (
        {"node1", "node2", "node3"} if why else set()
    )
    assert len(changed) == (4 if why else 0)


@pytest.mark.parametrize("end", [1, 2])
@pytest.mark.parametrize(
    ("changes", "risk"),
    [
        ({}, Risk.FRESH),
        ({"fingerprint": {"firmware": "1"}}, Risk.FRESH),
        ({"fingerprint": {**SAME, "firmware": "0"}}, Risk.CHANGED),
        ({"fingerprint": {**SAME, "gids": "g"}}, Risk.CHANGED),
        ({"revoked": "by ops"}, Risk.CHANGED),
        ({"policy_digest": "e"}, Risk.CHANGED),
        ({"expires_at": NOW}, Risk.EXPIRED),
        (None, Risk.CHANGED),
    ],
)
def test_a_couple_is_as_fresh_as_what_its_own_result_rests_on(
    star: Build, end: int, changes: dict[str, Any] | None, risk: Risk
) -> None:
    """The newest certificates of all ports hold: they are of other couples, tested later."""
    fabric = star(3)
    past = past_of(fabric, {(1, 2): Result(NOW - 90, PASS)})
    own = {} if changes is None else {NOW - 90: past.bases[port(end)][NOW - 90]._replace(**changes)}
    rests = {**past.bases[port(end)], **own}
    if changes is None:
        del rests[NOW - 90]
    past = replace(past, bases={**past.bases, port(end): rests})
    assert {change(p.id, past) for p in fabric.node_ports()} == {""}
    found = by_couple(expand(fabric, "all"), past)
    assert found.pop("node1 node2") is found.pop("node2 node1") is risk
    assert set(found.values()) == {Risk.FRESH}
    assert len(expand(fabric, "changed", past=past)) == (0 if risk is Risk.FRESH else 2)


def test_a_couple_that_only_one_end_vouches_for_is_not_fresh(star: Build) -> None:
    past = past_of(star(2), {(1, 2): Result(NOW - 60, PASS, by_both=False)})
    assert set(by_couple(expand(star(2), "all"), past).values()) == {Risk.CHANGED}


def test_a_port_that_was_not_read_counts_as_changed(star: Build) -> None:
    past = replace(past_of(star(3)), fingerprints={port(2): SAME})
    assert change(port(1), past) == "not read"
    assert change(port(2), past) == ""


def kinds_of(found: Chosen) -> list[set[Risk]]:
    return [{risk for risk, number in zip(RISKS, c, strict=True) if number} for c in found.counts]


def test_without_a_budget_all_is_covered_in_the_fewest_rounds(star: Build) -> None:
    fabric = star(8)
    found = choose(expand(fabric, "all"), past_of(fabric), None, 2.0, fabric)
    assert found.rounds == rounds(expand(fabric, "all"), fabric)
    assert found.left_out == ()
    assert found.left == {}
    assert found.why == "all 56 pairs, 7 rounds of about 2 s: 56 passed and unchanged"


def test_what_needs_it_most_comes_first(star: Build) -> None:
    fabric = star(8)
    tested = {
        (1, 2): Result(NOW - 60, FAIL),
        (1, 3): Result(NOW - 60, UNKNOWN),
        (3, 4): Result(NOW - 2 * LIFE, PASS),
        (5, 6): Result(NOW - 3 * LIFE, PASS),
        (5, 7): Result(NOW - 120, PASS),
    }
    past = past_of(fabric, tested)
    past = replace(
        past, results={p: {q: t for q, t in r.items() if q != port(8)} for p, r in past.results.items()}
    )
    pairs = expand(fabric, "all")
    found = choose(pairs, past, 16.0, 2.0, fabric)
    assert sorted(map(str, (p for r in found.turns for p in r.pairs))) == sorted(map(str, pairs))
    # All with node8 were never tested: one a round, from the first to the seventh.
    assert [Risk.NEVER in kinds for kinds in kinds_of(found)[:7]] == [True] * 7
    place = {str(p): r.number for r in found.turns for p in r.pairs}
    assert place["node5/eth1 -> node6/eth1"] <= place["node5/eth1 -> node7/eth1"]
    assert all(len(r.pairs) >= 6 for r in found.rounds[:5])
    short = choose(pairs, past, 5.0, 2.0, fabric)
    assert [r.number for r in short.rounds] == [1, 2]
    assert short.covered[Risk.NEVER] == 4
    assert short.left[Risk.NEVER] == 10
    assert Risk.FAILED in short.covered
    assert Risk.FAILED not in short.left
    assert short.why.startswith(
        "the time budget has 5 s left: 2 rounds of about 2 s cover 16 of 56 pairs (4 never"
    )
    assert short.why.endswith(" passed and unchanged)")
    assert sum(short.covered.values()) + sum(short.left.values()) == 56
    told = json.loads(json.dumps(short.as_json()))
    assert told["rounds"] == 2
    assert told["left_out"]["never"] == 10
    assert told["rounds_left_out"] == len(short.turns) - 2


def test_where_only_the_fewest_rounds_fit_nothing_is_left(star: Build) -> None:
    fabric = star(16)
    hot = {(a, b): Result(NOW, FAIL) for a in range(1, 17) for b in range(a + 1, 17) if (a * b) % 3 == 0}
    pairs = expand(fabric, "all")
    past = past_of(fabric, {e: t for e, t in hot.items() if port(e[0]) < port(e[1])})
    by_risk = choose(pairs, past, 14.0, 1.0, fabric)
    assert len(by_risk.turns) > 15
    found = choose(pairs, past, 15.0, 1.0, fabric)
    assert len(found.rounds) == 15
    assert not found.left


def test_each_round_is_measured_and_the_rest_chosen_again(star: Build) -> None:
    fabric = star(8)
    found = choose(expand(fabric, "all"), Past(), 100.0, 1.0, fabric)
    assert len(found.rounds) == 7
    assert found.why.endswith("enough for all 56 pairs: 56 never tested")
    slower = found.again(1, 90.0, 30.0)
    assert [r.number for r in slower.rounds] == [2, 3, 4]
    assert slower.covered == {Risk.NEVER: 32}
    assert slower.left == {Risk.NEVER: 24}
    assert [r.number for r in slower.again(3, 20.0, 30.0).left_out] == [4, 5, 6, 7]
    assert slower.again(3, 20.0, 30.0).rounds == ()
    assert slower.again(3, -5.0, 30.0).rounds == ()
    assert slower.again(3, None, 30.0).left_out == ()
    assert slower.again(2, 4.0, 0.5).left_out == ()


def test_the_first_round_always_runs(star: Build) -> None:
    fabric = star(4)
    assert len(choose(expand(fabric, "all"), Past(), 0.0, 1.0, fabric).rounds) == 1
    none = choose((), Past(), 0.0, 1.0, fabric)
    assert none.rounds == none.left_out == ()
    assert none.why == "the time budget has 0 s left: 0 rounds of about 1 s, enough for all 0 pairs: none"


def test_rounds_that_fill_links_keep_within_uplinks() -> None:
    fabric = build(leaves=4, nodes=4, uplinks=2)
    pairs = expand(fabric, "all")
    one = fabric.device("n0-0").ports[0].id
    past = Past(results={p: {q: Result(1.0, PASS) for q in pairs.ports} for p in pairs.ports if p != one})
    for held in (past, Past()):
        found = choose(pairs, held, 1e6, 1.0, fabric, fills_link=True)
        for this in found.rounds:
            leaves = [
                fabric.peer(end).device  # type: ignore[union-attr]  all are cabled
                for pair in this.pairs
                for end in (pair.source, pair.target)
                if fabric.peer(pair.source).device != fabric.peer(pair.target).device  # type: ignore[union-attr]
            ]
            assert all(leaves.count(leaf) <= 2 * 2 for leaf in set(leaves))
        assert len(found.left_out) == 0


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_every_pair_is_either_covered_or_left(data: st.DataObject) -> None:
    fabric = build(2, data.draw(st.integers(1, 4)))
    pairs = expand(fabric, "all")
    results = {
        p: {
            q: Result(data.draw(st.floats(NOW - 2 * LIFE, NOW)), data.draw(st.sampled_from(list(Outcome))))
            for q in pairs.ports
            if data.draw(st.booleans())
        }
        for p in pairs.ports
    }
    past = Past(NOW, LIFE, results)
    budget = data.draw(st.floats(0, 20))
    found = choose(pairs, past, budget, 1.0, fabric)
    ran, left = ([p for r in part for p in r.pairs] for part in (found.rounds, found.left_out))
    assert sorted([*ran, *left]) == sorted(pairs)
    assert len(found.rounds) <= max(1, budget)
    assert sum(found.covered.values()) == len(ran)
    assert sum(found.left.values()) == len(left)


def test_a_round_is_estimated_from_what_the_probes_are_to_do() -> None:
    latency = {"samples": 900, "warmup": 100, "message_bytes": 8, "deadline_s": 90.0}
    assert estimate_s([latency]) == pytest.approx(coverage.SETUP_S + 2 * 1000 * coverage.OPERATION_S)
    assert estimate_s([{"seconds": 2.0}, {"packets": 3000}]) == pytest.approx(
        coverage.SETUP_S + 4.0 + 6000 * coverage.PACKET_S
    )
    assert estimate_s([{"deadline_s": 5}, {"odd": 1}]) == coverage.SETUP_S + 10
    assert estimate_s([]) == coverage.SETUP_S


def touching(*ends: str) -> Callable[[PairId], Outcome]:
    """Return what fails the pair of two nodes, or all pairs of one."""
    return lambda pair: FAIL if set(ends) <= {pair.source.device, pair.target.device} else PASS


def test_suspects_meet_good_ports_of_their_own_leaf_first(clos: Build, judged: Judged) -> None:
    fabric = clos(3)
    ring = expand(fabric, "node11:node21,node21:node12,node12:node31,node31:node22,node22:node32")
    found = repair(judged(ring, touching("node11", "node21")), fabric)
    # node12 is on node11's leaf, node22 on node21's.
    assert [str(p) for p in found] == [
        "node11/eth1 -> node12/eth1",
        "node12/eth1 -> node11/eth1",
        "node11/eth1 -> node31/eth1",
        "node31/eth1 -> node11/eth1",
        "node21/eth1 -> node22/eth1",
        "node22/eth1 -> node21/eth1",
    ]  # node21 has passed with node12 already
    assert repair(judged(ring, touching("node11", "node21")), fabric, tried=found) == ()


def test_pods_come_after_leaves_and_the_load_is_spread(clos: Build, judged: Judged) -> None:
    fabric = clos(4, pods=False)
    pods = {d.name: "a" if d.name < "node3" else "b" for d in fabric.nodes()}
    fabric = replace(fabric, devices=tuple(replace(d, pod=pods.get(d.name, "")) for d in fabric.devices))
    pairs = expand(fabric, "node11:node12,node21:node22,node31:node41,node32:node42")
    bad = judged(pairs, lambda p: FAIL if p.source.device < "node3" else PASS)
    found = repair(bad, fabric)
    met = {(p.source.device, p.target.device) for p in found}
    assert {t for s, t in met if s in {"node11", "node12"}} == {"node31", "node41", "node32", "node42"}
    assert len(found) == 16
    assert len(repair(bad, fabric, partners=1)) == 8


def test_who_is_no_suspect_and_who_is_no_partner(star: Build, judged: Judged) -> None:
    fabric = star(4, 2)
    pairs = expand(fabric, "node1/eth1:node2,node3/eth1:node4")
    # Unknown is no failure, yet nobody that is known to be good.
    assert repair(judged(pairs, lambda p: UNKNOWN if "node1" in str(p) else PASS), fabric) == ()
    found = repair(judged(pairs, touching("node1")), fabric)
    assert {str(p.target) for p in found if p.source.device == "node1"} == {"node3/eth1", "node4/eth1"}
    settings_differ = tuple(
        replace(v, findings=(Finding("settings", "", FAIL, "differ", culprit="node1/eth1"),))
        if v.outcome is FAIL
        else v
        for v in judged(pairs, touching("node1"))
    )
    assert repair(settings_differ, fabric) == ()
    # Other rails and other ports of the same node prove nothing.
    across = expand(fabric, "node1/eth1:node2,node1/eth2:node3,node2/eth2:node3")
    assert repair(judged(across, lambda p: FAIL if p.source.port == "eth1" else PASS), fabric) == ()
    assert repair((), fabric) == ()
