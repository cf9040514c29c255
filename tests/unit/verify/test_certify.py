"""Certificates: the worst of a port's own pairs, and one bad node does not take the others' certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricctl.gate.decide import decide
from fabricctl.model import facts
from fabricctl.model.certificate import Certificate
from fabricctl.model.fabric import Fabric, LinkLayer
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import GatePolicy, Limits, MtuPolicy, Policy, Stance
from fabricctl.model.probe import Sample
from fabricctl.model.reading import DeviceReading, Known, Missing, PortReading
from fabricctl.model.verdict import Finding, Outcome, Verdict
from fabricctl.verify.certify import BUDGET, Occasion, certify, fingerprint, policy_digest
from fabricctl.verify.localise import localise
from fabricctl.verify.schedule import expand

Build = Callable[..., Fabric]
Judged = Callable[[Iterable[PairId], Callable[[PairId], Outcome]], tuple[Verdict, ...]]
NOW = 1_796_000_000.0
PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN
GATE = GatePolicy(max_age_s=1000, simulated=Stance.ALLOW)


def occasion(fabric: Fabric, gate: GatePolicy = GATE) -> Occasion:
    policy = Policy(
        "site", LinkLayer.ETHERNET, None, None, MtuPolicy(9000, 9216, 4096), (), {}, Limits((), None), gate
    )
    return Occasion("v1", fabric, policy, {}, NOW)


@pytest.fixture
def issue(judged: Judged) -> Callable[..., dict[str, Certificate]]:
    """Judge pairs by a function, localise, certify; certificates by port."""

    def run(
        fabric: Fabric,
        outcome: Callable[[PairId], Outcome],
        *,
        spec: str = "all",
        gate: GatePolicy = GATE,
    ) -> dict[str, Certificate]:
        verdicts = judged(expand(fabric, spec), outcome)
        issued = certify(verdicts, localise(verdicts, fabric), (), occasion(fabric, gate))
        return {str(c.port): c for c in issued}

    return run


Issue = Callable[..., dict[str, Certificate]]


def outcomes(issued: dict[str, Certificate]) -> dict[str, Outcome]:
    return {name.split("/")[0]: c.outcome for name, c in issued.items()}


def touches(name: str, outcome: Outcome) -> Callable[[PairId], Outcome]:
    return lambda pair: outcome if name in {pair.source.device, pair.target.device} else PASS


def test_all_passed(star: Build, issue: Issue) -> None:
    issued = issue(star(3), lambda _: PASS)
    held = issued["node1/eth1"]
    assert list(issued) == ["node1/eth1", "node2/eth1", "node3/eth1"]
    assert held == Certificate(
        id="v1:node1/eth1",
        port=PortId("node1", "eth1"),
        run_id="v1",
        outcome=PASS,
        peers={"node2/eth1": PASS, "node3/eth1": PASS},
        findings=(Finding("loss", "node1/eth1 -> node2/eth1", PASS, "counted"),),
        fingerprint={},
        engine="",
        policy="site",
        policy_digest=policy_digest(Limits((), None)),
        issued_at=NOW,
        expires_at=NOW + 1000,
        simulated="lab",
        rail=0,
        node_ports=(PortId("node1", "eth1"),),
        gate=GATE,
        inventory=star(3).source,
    )


def test_one_bad_link_fails_its_own_port_only(star: Build, issue: Issue) -> None:
    issued = issue(star(4), touches("node2", FAIL))
    assert outcomes(issued) == {"node1": PASS, "node2": FAIL, "node3": PASS, "node4": PASS}
    assert issued["node1/eth1"].peers == {"node2/eth1": FAIL, "node3/eth1": PASS, "node4/eth1": PASS}
    assert issued["node2/eth1"].suspects == ("link node2/eth1 - leaf1/eth2",)
    assert issued["node1/eth1"].suspects == ()
    assert {f.outcome for f in issued["node2/eth1"].findings} == {FAIL}
    held = list(issued.values())
    assert decide(held, ("node1", "node3"), NOW).allow
    assert not decide(held, ("node1", "node2"), NOW).allow
    assert not decide(held, ("node2",), NOW).allow


def test_a_node_that_is_not_there_does_not_take_the_others(star: Build, issue: Issue) -> None:
    issued = issue(star(4), touches("node2", UNKNOWN))
    assert outcomes(issued) == {"node1": PASS, "node2": UNKNOWN, "node3": PASS, "node4": PASS}
    assert issued["node1/eth1"].peers["node2/eth1"] is UNKNOWN


def test_one_direction(star: Build, issue: Issue) -> None:
    issued = issue(star(4), lambda pair: FAIL if pair.source.device == "node2" else PASS)
    assert outcomes(issued) == {"node1": PASS, "node2": FAIL, "node3": PASS, "node4": PASS}
    assert issued["node1/eth1"].peers["node2/eth1"] is FAIL


def test_an_ambiguous_suspect_excuses_nobody(star: Build, issue: Issue) -> None:
    issued = issue(star(2), lambda _: FAIL)
    assert outcomes(issued) == {"node1": FAIL, "node2": FAIL}
    (words,) = issued["node1/eth1"].suspects
    assert words.count(" or ") == 2


def test_a_gap_between_two_live_ports_counts_against_both(star: Build, issue: Issue) -> None:
    def gap(pair: PairId) -> Outcome:
        return UNKNOWN if {pair.source.device, pair.target.device} == {"node1", "node2"} else PASS

    assert outcomes(issue(star(4), gap)) == {
        "node1": UNKNOWN,
        "node2": UNKNOWN,
        "node3": PASS,
        "node4": PASS,
    }


def test_a_lone_failed_pair_counts_against_both(star: Build, issue: Issue) -> None:
    def lone(pair: PairId) -> Outcome:
        return FAIL if str(pair) == "node1/eth1 -> node3/eth1" else PASS

    assert outcomes(issue(star(4), lone)) == {"node1": FAIL, "node2": PASS, "node3": FAIL, "node4": PASS}


def test_a_leaf_that_fails_takes_all_its_ports(star: Build, issue: Issue) -> None:
    assert set(outcomes(issue(star(4), lambda _: FAIL)).values()) == {FAIL}


def across(pair: PairId) -> Outcome:
    return FAIL if pair.source.device[4] != pair.target.device[4] else PASS


def test_a_fault_between_leaves_is_the_pairs_not_the_ports(clos: Build, issue: Issue) -> None:
    issued = issue(clos(2, 1), across, gate=replace(GATE, pairs="all"))
    assert set(outcomes(issued).values()) == {PASS}
    held = list(issued.values())
    assert decide(held, ("node11", "node12"), NOW).allow
    assert not decide(held, ("node11", "node21"), NOW).allow


def test_a_fault_between_leaves_is_the_ports_where_the_gate_looks_at_ports(clos: Build, issue: Issue) -> None:
    issued = issue(clos(2, 1), across, gate=replace(GATE, pairs="ports"))
    assert set(outcomes(issued).values()) == {FAIL}


def test_a_port_tested_only_with_a_bad_one_has_no_evidence(star: Build, issue: Issue) -> None:
    issued = issue(star(4), touches("node2", FAIL), spec="node2:all")
    assert issued["node2/eth1"].outcome is FAIL
    assert not decide(list(issued.values()), ("node1",), NOW).allow


def test_a_node_with_two_rails(star: Build, issue: Issue) -> None:
    issued = issue(star(4, 2), touches("node2", FAIL))
    assert outcomes(issued) == {"node1": PASS, "node2": FAIL, "node3": PASS, "node4": PASS}
    assert issued["node1/eth2"].rail == 1
    assert issued["node1/eth2"].node_ports == (PortId("node1", "eth1"), PortId("node1", "eth2"))


def test_a_pair_tested_one_way_only_is_unknown_at_best(star: Build, judged: Judged) -> None:
    fabric = star(2)
    pairs = expand(fabric, "all")[:1]
    issued = certify(judged(pairs, lambda _: PASS), (), (), occasion(fabric))
    assert [c.peers for c in issued] == [{"node2/eth1": UNKNOWN}, {"node1/eth1": UNKNOWN}]


def test_the_engine_is_named(star: Build, judged: Judged) -> None:
    fabric = star(2)
    pairs = expand(fabric, "all")
    samples = [
        Sample(pairs[0], "loss", engine, 0, 1) for engine in ("pyverbs 44", "", "pyverbs 59", "pyverbs 44")
    ]
    (first, _) = certify(judged(pairs, lambda _: PASS), (), samples, occasion(fabric))
    assert first.engine == "pyverbs 44, pyverbs 59"


def budget(pair: PairId, *probes: str) -> list[Sample]:
    return [Sample(pair, probe, "", NOW, 0, error="left out", error_kind=BUDGET) for probe in probes]


def short_of_time(left: Iterable[PairId], verdicts: Iterable[Verdict], *more: Finding) -> tuple[Verdict, ...]:
    """Say of pairs that there was no time for the loss probe, and whatever else is known."""
    gone = set(left)
    unknown = Finding("loss", "", UNKNOWN, "loss not measured: left out")
    return tuple(replace(v, findings=(unknown, *more)) if v.pair in gone else v for v in verdicts)


def with_node3(pairs: Iterable[PairId]) -> list[PairId]:
    return [p for p in pairs if "node3" in str(p)]


def test_what_there_was_no_time_for_is_as_if_nobody_had_asked(star: Build, judged: Judged) -> None:
    fabric = star(3)
    pairs = expand(fabric, "all")
    left = with_node3(pairs)
    whole = judged(pairs, lambda _: PASS)
    samples = [s for pair in left for s in budget(pair, "loss")]
    before = certify(whole, (), (), replace(occasion(fabric), run_id="v0", now=NOW - 10))
    issued = certify(short_of_time(left, whole), (), samples, occasion(fabric))
    asked = judged([p for p in pairs if p not in left], lambda _: PASS)
    assert issued == certify(asked, (), (), occasion(fabric))
    assert [(str(c.port), c.outcome, c.peers) for c in issued] == [
        ("node1/eth1", PASS, {"node2/eth1": PASS}),
        ("node2/eth1", PASS, {"node1/eth1": PASS}),
    ]
    # What was proved before stands.
    assert decide([*before, *issued], ("node1", "node2", "node3"), NOW).allow


def test_a_large_run_says_it_by_the_finding_alone(star: Build, judged: Judged) -> None:
    pairs = expand(star(3), "all")
    unknown = (Finding(BUDGET, "", UNKNOWN, "not measured: left out"),)
    left = with_node3(pairs)
    verdicts = [replace(v, findings=unknown) if v.pair in left else v for v in judged(pairs, lambda _: PASS)]
    issued = certify(verdicts, (), (), occasion(star(3)))
    assert [(str(c.port), c.outcome) for c in issued] == [("node1/eth1", PASS), ("node2/eth1", PASS)]


@pytest.mark.parametrize(
    ("rest", "outcome"),
    [(None, PASS), (PASS, PASS), (UNKNOWN, UNKNOWN), (Outcome.ERROR, Outcome.ERROR), (FAIL, FAIL)],
)
def test_of_a_pair_left_out_in_part_only_bad_news_count(
    star: Build, judged: Judged, rest: Outcome | None, outcome: Outcome
) -> None:
    fabric = star(3)
    pairs = expand(fabric, "all")
    (there, *_) = left = with_node3(pairs)
    known = [Finding("read_latency", "", rest, "measured")] if rest else []
    verdicts = short_of_time([there, there.reverse], judged(pairs, lambda _: PASS), *known)
    samples = [s for p in (there, there.reverse) for s in budget(p, "loss")]
    samples += [Sample(p, "read_latency", "native 1", NOW, 1) for p in (there, there.reverse)]
    issued = {c.port: c for c in certify(verdicts, (), samples, occasion(fabric))}
    assert len(left) == 4
    for end, peer in ((there.source, there.target), (there.target, there.source)):
        assert issued[end].outcome is outcome
        assert issued[end].peers.get(str(peer)) is (None if outcome is PASS else rest)
        assert all(f.check != "loss" or f.outcome is PASS for f in issued[end].findings)


def test_one_way_that_there_was_no_time_for_takes_the_other_along(star: Build, judged: Judged) -> None:
    fabric = star(3)
    pairs = expand(fabric, "all")
    (there, *_) = with_node3(pairs)
    verdicts = short_of_time([there], judged(pairs, lambda _: PASS))
    issued = {c.port: c for c in certify(verdicts, (), budget(there, "loss"), occasion(fabric))}
    assert {c.outcome for c in issued.values()} == {PASS}
    assert str(there.target) not in issued[there.source].peers
    failed = short_of_time([there], judged(pairs, lambda p: FAIL if p == there.reverse else PASS))
    issued = {c.port: c for c in certify(failed, (), budget(there, "loss"), occasion(fabric))}
    assert issued[there.source].peers[str(there.target)] is FAIL


@pytest.mark.parametrize(("outcome", "ports"), [(FAIL, {"node3/eth1": FAIL}), (UNKNOWN, {})])
def test_without_a_measurement_only_a_known_fault_of_its_own_costs_a_port_its_certificate(
    star: Build, judged: Judged, outcome: Outcome, ports: dict[str, Outcome]
) -> None:
    fabric = star(3)
    left = with_node3(expand(fabric, "all"))
    wrong = Finding("settings", "", outcome, "differs", culprit="node3/eth1")
    verdicts = short_of_time(left, judged(left, lambda _: PASS), wrong)
    samples = [s for pair in left for s in budget(pair, "loss")]
    issued = certify(verdicts, (), samples, occasion(fabric))
    assert {str(c.port): c.outcome for c in issued} == ports


def test_a_certificate_does_not_hold_all_findings_of_a_large_run(star: Build, issue: Issue) -> None:
    issued = issue(star(12), touches("node2", FAIL))
    assert len(issued["node2/eth1"].findings) == 12
    assert len(issued["node1/eth1"].findings) == 1


def test_fingerprint() -> None:
    port = PortId("node1", "eth1")
    reading = DeviceReading(
        "node1",
        NOW,
        {
            port: PortReading(
                port,
                settings={"mtu_bytes": Known(9000), "trust": Missing("no dcb")},
                facts={
                    facts.DRIVER: Known("rdma_rxe"),
                    facts.GIDS: Known(("0 v2 fe80::1", "1 v2 ::1")),
                    facts.FIRMWARE: Missing("none"),
                    facts.MAC: Known("02:00"),
                },
            )
        },
        facts={facts.BOOT_ID: Known("abc"), facts.KERNEL: Known("6.1")},
    )
    found = fingerprint(port, reading)
    assert found == {
        "driver": "rdma_rxe",
        "gids": "0 v2 fe80::1, 1 v2 ::1",
        "boot_id": "abc",
        "kernel": "6.1",
        "settings": found["settings"],
    }
    changed = replace(reading.ports[port], settings={"mtu_bytes": Known(1500)})
    assert fingerprint(port, replace(reading, ports={port: changed}))["settings"] != found["settings"]
    assert "settings" not in fingerprint(port, replace(reading, ports={port: PortReading(port, {})}))
    assert fingerprint(port, None) == {}
    assert fingerprint(PortId("node1", "eth9"), reading) == {}


def test_the_policy_digest_follows_the_limits() -> None:
    assert policy_digest(Limits((), None)) == policy_digest(Limits((), None))
    assert policy_digest(Limits((), None)) != policy_digest(Limits((), None, latency_samples=1))


@settings(deadline=None)
@given(st.lists(st.sampled_from([PASS, FAIL, UNKNOWN, Outcome.ERROR]), min_size=12, max_size=12))
def test_no_port_passes_without_a_pair_that_passed_and_no_job_with_a_bad_pair(drawn: list[Outcome]) -> None:
    fabric = _four()
    pairs = expand(fabric, "all")
    by_pair = dict(zip(pairs, drawn, strict=True))
    verdicts = tuple(
        Verdict(pair, "same_leaf", (Finding("loss", str(pair), outcome, "x"),))
        for pair, outcome in by_pair.items()
    )
    issued = certify(verdicts, localise(verdicts, fabric), (), occasion(fabric))
    for certificate in issued:
        if certificate.outcome is PASS:
            assert PASS in (
                o for pair, o in by_pair.items() if certificate.port in {pair.source, pair.target}
            )
    for pair in pairs:
        if {by_pair[pair], by_pair[pair.reverse]} != {PASS}:
            assert not decide(issued, (pair.source.device, pair.target.device), NOW).allow


def _four() -> Fabric:
    from fabricctl.model.fabric import Device, Endpoint, Link, Port, Role  # noqa: PLC0415  only here

    ports = [PortId(f"node{n}", "eth1") for n in range(1, 5)]
    nodes = [Device(p.device, Role.NODE, "rxe", Endpoint("h"), (Port(p, rail=0),)) for p in ports]
    leaf = Device("leaf1", Role.SWITCH, "linux", Endpoint("h"), ())
    links = tuple(Link(PortId("leaf1", f"eth{n}"), port) for n, port in enumerate(ports, start=1))
    return Fabric((*nodes, leaf), links)


def test_no_certificate_outlives_a_change_that_nobody_confirmed(star: Build, judged: Judged) -> None:
    fabric = star(2)
    verdicts = judged(expand(fabric, "all"), lambda _: PASS)
    soon = replace(occasion(fabric), unsettled_until=NOW + 60)
    assert {c.expires_at for c in certify(verdicts, (), (), soon)} == {NOW + 60}
    later = replace(occasion(fabric), unsettled_until=NOW + 5000)
    assert {c.expires_at for c in certify(verdicts, (), (), later)} == {NOW + 1000}


def _blaming(pair: PairId, culprit: str, outcome: Outcome) -> Verdict:
    return Verdict(pair, "same_leaf", (Finding("settings", str(pair), outcome, "differs", culprit=culprit),))


@pytest.mark.parametrize("outcome", [FAIL, UNKNOWN])
@pytest.mark.parametrize("culprit", ["node3", "node3/eth1", "leaf1/eth3"])
def test_what_was_looked_at_itself_costs_its_own_port_only(
    star: Build, judged: Judged, culprit: str, outcome: Outcome
) -> None:
    fabric = star(4)
    verdicts = tuple(
        _blaming(v.pair, culprit, outcome) if "node3" in str(v.pair) else v
        for v in judged(expand(fabric, "all"), lambda _: PASS)
    )
    issued = {str(c.port): c for c in certify(verdicts, (), (), occasion(fabric))}
    assert outcomes(issued) == {"node1": PASS, "node2": PASS, "node3": outcome, "node4": PASS}
    assert issued["node1/eth1"].peers["node3/eth1"] is outcome


def test_a_known_culprit_excuses_nobody_from_what_is_left_unexplained(star: Build, judged: Judged) -> None:
    fabric = star(2)
    (there, back) = judged(expand(fabric, "all"), lambda _: PASS)
    slow = Finding("read_latency", str(there.pair), FAIL, "slow")
    mixed = replace(there, findings=(*_blaming(there.pair, "node2", FAIL).findings, slow))
    issued = {str(c.port): c for c in certify((mixed, back), (), (), occasion(fabric))}
    assert outcomes(issued) == {"node1": FAIL, "node2": FAIL}
