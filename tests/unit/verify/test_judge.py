"""Verdicts: one a scheduled pair, never a pass without evidence, the worst wins in any order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricctl.model.fabric import Fabric
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import BandwidthLimit, LatencyLimit, Limits, LossLimit, OutlierLimit, Stance
from fabricctl.model.probe import AgentReport, Sample
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.model.verdict import Finding, Outcome, Verdict
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Probe
from fabricctl.verify.classproof import Place, Proof
from fabricctl.verify.judge import Bench, judge, judged_beside

Build = Callable[..., Fabric]
PAIR = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
LIMITS = Limits(
    (LatencyLimit("read_latency", 99, 2_000_000),),
    LossLimit(0.0, 1e-3, 0.95),
    latency_samples=300,
    outliers=OutlierLimit(Stance.ALLOW),
)


def probes(*names: str) -> Mapping[str, Probe]:
    return {name: finder.probe(name) for name in names}


def mtu(used: int = 4096, **ends: int) -> Mapping[str, int]:
    return {"path_mtu_bytes": used, "wanted_path_mtu_bytes": 4096, **ends}


def latency(*, slow: bool = False, counters: Mapping[str, Entry] | None = None) -> Sample:
    took = 9_000_000 if slow else 500
    held = counters or {}
    return Sample(
        *(PAIR, "read_latency", "pyverbs", 0, 1),
        latencies=Histogram.of((took,) * 3000),
        counters=held,
        parameters=mtu(),
    )


def loss(missing: int = 0) -> Sample:
    counts = {"sent": 6000, "missing": missing}
    return Sample(PAIR, "loss", "pyverbs", 0, 1, numbers=counts, parameters=mtu())


@pytest.fixture
def bench(star: Build) -> Callable[..., Bench]:
    def build(*names: str, limits: Limits = LIMITS, agents: Mapping[str, AgentReport] | None = None) -> Bench:
        return Bench(star(2), limits, probes(*(names or ("read_latency", "loss"))), agents or {})

    return build


def only(verdicts: tuple[Verdict, ...]) -> Verdict:
    (verdict,) = verdicts
    return verdict


def test_all_probes_passed(bench: Callable[..., Bench]) -> None:
    verdict = only(judge([PAIR, PAIR], [latency(), loss()], bench()))
    assert (verdict.pair, verdict.topology, verdict.outcome) == (PAIR, "same_leaf", Outcome.PASS)
    assert [f.check for f in verdict.findings] == ["read_latency", "loss", "path_mtu"]


def test_every_scheduled_pair_gets_a_verdict(bench: Callable[..., Bench]) -> None:
    verdicts = judge([PAIR, PAIR.reverse], [latency(), loss()], bench())
    assert [v.pair for v in verdicts] == [PAIR, PAIR.reverse]
    assert [v.outcome for v in verdicts] == [Outcome.PASS, Outcome.UNKNOWN]
    assert verdicts[1].findings[0].what == "read_latency was not measured"


def test_a_node_without_an_agent_is_unknown_with_its_reason(bench: Callable[..., Bench]) -> None:
    agents = {"node1": AgentReport("node1"), "node2": AgentReport("node2", error="no route to host")}
    verdict = only(judge([PAIR], [], bench(agents=agents)))
    (finding,) = verdict.findings
    assert (finding.check, finding.subject, finding.outcome) == ("agent", "node2", Outcome.UNKNOWN)
    assert finding.what == "not measured: node2: no route to host"
    assert 'fabricctl verify --pairs node2:all"' in finding.next_step


def test_an_agent_that_died_later_does_not_hide_what_was_measured(bench: Callable[..., Bench]) -> None:
    agents = {"node2": AgentReport("node2", error="gone")}
    verdict = only(judge([PAIR], [latency(slow=True)], bench(agents=agents)))
    assert [f"{f.check} {f.outcome}" for f in verdict.findings] == [
        "agent unknown",
        "read_latency fail",
        "loss unknown",
        "path_mtu pass",
    ]
    assert verdict.outcome is Outcome.FAIL


def test_a_limit_whose_probe_did_not_run_is_unknown(bench: Callable[..., Bench]) -> None:
    verdict = only(judge([PAIR], [loss()], bench("loss")))
    assert verdict.outcome is Outcome.UNKNOWN
    assert "the policy limits read_latency, which this run did not probe" in verdict.findings[1].what


@pytest.mark.parametrize(("topology", "unasked"), [("any", True), ("same_leaf", True), ("cross_pod", False)])
def test_so_is_a_bandwidth_whose_probe_did_not_run(
    bench: Callable[..., Bench],
    topology: str,
    unasked: bool,  # noqa: FBT001  parametrized
) -> None:
    limits = Limits((), None, bandwidth=(BandwidthLimit("write_bandwidth", 0.9, topology=topology),))
    (verdict,) = judge([PAIR], [latency()], bench("read_latency", limits=limits))
    assert ("write_bandwidth" in {finding.check for finding in verdict.findings}) is unasked
    elsewhere = Limits((LatencyLimit("read_latency", 99, 1, "cross_leaf"),), LIMITS.loss)
    assert only(judge([PAIR], [loss()], bench("loss", limits=elsewhere))).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("counters", "outcome", "words"),
    [
        ({"source/rcvd_seq_err": Known(0)}, Outcome.PASS, "none moved; loss < 0.001 at 95 %, bound 0.001"),
        (
            {"source/rcvd_seq_err": Known(2)},
            Outcome.UNKNOWN,
            "no loss probe: rcvd_seq_err +2; rate 8.1e-05 ..",
        ),
        ({"source/rcvd_seq_err": Known(9999)}, Outcome.UNKNOWN, "rcvd_seq_err +9999"),
        # A slow host retries by timer: that proves no loss.
        (
            {"source/completer_retry_err": Known(4), "source/rcvd_seq_err": Known(0)},
            Outcome.PASS,
            "none moved",
        ),
        ({"source/completer_retry_err": Known(4)}, Outcome.UNKNOWN, "no counter of sequence errors"),
        ({"source/rcvd_seq_err": Missing("no such file")}, Outcome.UNKNOWN, "no counter of sequence errors"),
        ({"target/rcvd_seq_err": Known(0)}, Outcome.UNKNOWN, "no counter of sequence errors"),
        ({}, Outcome.UNKNOWN, "no counter of sequence errors"),
    ],
)
def test_without_the_loss_probe_sequence_errors_decide(
    bench: Callable[..., Bench], counters: Mapping[str, Entry], outcome: Outcome, words: str
) -> None:
    verdict = only(judge([PAIR], [latency(counters=counters)], bench("read_latency")))
    finding = next(f for f in verdict.findings if f.check == "loss")
    assert (finding.check, finding.outcome, verdict.outcome) == ("loss", outcome, outcome)
    assert words in finding.what
    assert (finding.next_step == "") is (outcome is Outcome.PASS)


def test_too_few_operations_prove_no_bound(bench: Callable[..., Bench]) -> None:
    short = Sample(
        PAIR,
        "read_latency",
        "p",
        0,
        1,
        latencies=Histogram.of((5,) * 1000),
        counters={"source/rcvd_seq_err": Known(0)},
    )
    assert only(judge([PAIR], [short], bench("read_latency"))).findings[-1].outcome is Outcome.UNKNOWN
    failed = Sample(PAIR, "read_latency", "p", 0, 1, error="x", counters={"source/rcvd_seq_err": Known(0)})
    assert "was not measured" in only(judge([PAIR], [failed], bench("read_latency"))).findings[-1].what


def test_without_a_loss_limit_the_counters_are_not_asked(bench: Callable[..., Bench]) -> None:
    limits = Limits(LIMITS.latency, None, latency_samples=300)
    verdict = only(judge([PAIR], [latency()], bench("read_latency", limits=limits)))
    assert [f.check for f in verdict.findings] == ["read_latency", "path_mtu", "outlier"]
    assert verdict.findings[-1].what.startswith("not compared with others of same_leaf")
    assert verdict.outcome is Outcome.PASS


SAMPLES = [latency(), latency(slow=True), loss(), loss(3), Sample(PAIR, "loss", "p", 0, 1, error="x")]


@settings(deadline=None)
@given(st.lists(st.sampled_from(SAMPLES)), st.integers(0, 99))
def test_the_order_of_samples_does_not_matter(samples: list[Sample], seed: int) -> None:
    bench = Bench(_two(), LIMITS, probes("read_latency", "loss"), {})
    shuffled = random.Random(seed).sample(samples, len(samples))  # noqa: S311  an order
    first, second = (only(judge([PAIR], held, bench)).outcome for held in (samples, shuffled))
    assert first is second
    measured = {sample.probe for sample in samples if not sample.error}
    if measured != {"read_latency", "loss"} or any(sample.error for sample in samples):
        assert first is not Outcome.PASS


def _two() -> Fabric:
    from fabricctl.model.fabric import Device, Endpoint, Port, Role  # noqa: PLC0415  only here

    return Fabric(
        tuple(
            Device(p.device, Role.NODE, "rxe", Endpoint("h"), (Port(p, rail=0),))
            for p in (PAIR.source, PAIR.target)
        ),
        (),
    )


@pytest.mark.parametrize(
    ("ends", "where"),
    [
        ({"source_mtu_bytes": 1024, "target_mtu_bytes": 4096}, "on node1/eth1, "),
        ({"source_mtu_bytes": 4096, "target_mtu_bytes": 1024}, "on node2/eth1, "),
        ({"source_mtu_bytes": 1024, "target_mtu_bytes": 2048}, "on node1/eth1 and node2/eth1, "),
        ({}, "on node1/eth1 or node2/eth1, "),
    ],
)
def test_s32_a_small_path_mtu_fails_however_fast_the_pair_is(
    bench: Callable[..., Bench], ends: Mapping[str, int], where: str
) -> None:
    held = [replace(latency(), parameters=mtu(1024, **ends)), loss()]
    verdict = only(judge([PAIR], held, bench()))
    assert verdict.outcome is Outcome.FAIL
    assert [f.outcome for f in verdict.findings] == [Outcome.PASS, Outcome.PASS, Outcome.FAIL]
    finding = verdict.findings[-1]
    assert finding.what == (f"path MTU 1024 {where}the policy wants 4096: the port's MTU is too small")
    assert (finding.check, finding.measured, finding.limit, finding.samples) == (
        "path_mtu",
        "1024 B",
        "4096 B",
        2,
    )
    assert "fabricctl drift" in finding.next_step


def test_s32_a_sample_that_does_not_say_its_path_mtu_is_unknown(bench: Callable[..., Bench]) -> None:
    for parameters in ({}, {"path_mtu_bytes": 4096}, {"wanted_path_mtu_bytes": 4096}):
        verdict = only(judge([PAIR], [replace(latency(), parameters=parameters), loss()], bench()))
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.findings[-1].what == "path MTU unknown: 1 of 2 samples do not say it"
    silent, small = replace(latency(), parameters={}), replace(loss(), parameters=mtu(512))
    assert only(judge([PAIR], [silent, small], bench())).findings[-1].outcome is Outcome.FAIL


def test_s32_without_a_good_sample_nothing_is_said_of_the_path_mtu(bench: Callable[..., Bench]) -> None:
    failed = Sample(PAIR, "loss", "p", 0, 1, error="x", parameters=mtu(1024))
    verdict = only(judge([PAIR], [failed], bench()))
    assert "path_mtu" not in {f.check for f in verdict.findings}
    assert verdict.outcome is Outcome.UNKNOWN


def test_s32_the_wanted_path_mtu_passes_and_is_shown(bench: Callable[..., Bench]) -> None:
    finding = only(judge([PAIR], [latency(), loss()], bench())).findings[-1]
    assert finding.what == "path MTU 4096, as the policy wants, in 2 samples"
    assert (finding.outcome, finding.measured, finding.samples) == (Outcome.PASS, "4096 B", 2)


def test_a_port_that_is_not_set_as_meant_fails_its_pairs_however_good_they_are(star: Build) -> None:
    fabric = star(2)
    across = fabric.peer(PAIR.target)
    assert across is not None
    meant = Bench(fabric, LIMITS, probes("read_latency", "loss"), {})
    assert only(judge([PAIR], [latency(), loss()], meant)).outcome is Outcome.PASS
    for port in (PAIR.source, across):
        bench = replace(meant, deviations={port: "pfc_priorities"})
        verdict = only(judge([PAIR], [latency(), loss()], bench))
        assert verdict.outcome is Outcome.FAIL
        (finding,) = [f for f in verdict.findings if f.check == "settings"]
        assert finding.what == f"{port} is not set as the policy says: pfc_priorities"


def test_pairs_that_were_compared_already_are_judged_by_what_came_of_it(bench: Callable[..., Bench]) -> None:
    note = Finding("outlier", str(PAIR), Outcome.FAIL, "slow", measured="p50 = 9 us")
    verdict = only(judged_beside([PAIR], [latency(), loss()], bench(), {PAIR: [note]}))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.findings[-1] == note
    alone = only(judged_beside([PAIR], [latency(), loss()], bench(), {}))
    assert alone == only(judge([PAIR], [latency(), loss()], bench()))


def test_a_slow_pair_among_many_says_so(star: Build) -> None:
    fabric = star(6)
    ports = [port.id for port in fabric.node_ports()]
    pairs = [PairId(a, b) for a in ports for b in ports if a != b]
    limits = replace(LIMITS, outliers=OutlierLimit(Stance.REFUSE), loss=None)
    bench = Bench(fabric, limits, probes("read_latency"), {})

    def sample(pair: PairId) -> Sample:
        took = 90_000 if pair == pairs[7] else 5000
        return replace(latency(), pair=pair, latencies=Histogram.of([took] * 3000))

    verdicts = judge(pairs, map(sample, pairs), bench)
    assert [v.pair for v in verdicts if v.outcome is Outcome.FAIL] == [pairs[7]]
    assert {v.outcome for v in verdicts if v.pair != pairs[7]} == {Outcome.PASS}


def test_a_class_that_is_wrong_fails_the_pair_only_where_something_was_measured(
    bench: Callable[..., Bench],
) -> None:
    proof = Proof(Place.SENDS, Outcome.FAIL, "10 packets, 0 in priority 3, 10 in priority 0", "node1/eth1")
    wrong = replace(bench(), classes={PAIR.source: (proof,)})
    measured = only(judge([PAIR], [latency(), loss()], wrong))
    assert (measured.outcome, measured.culprits) == (Outcome.FAIL, ("node1/eth1",))
    assert [f.outcome for f in measured.findings if f.check == "traffic_class"] == [Outcome.FAIL]
    absent = only(judge([PAIR], [], wrong))
    assert not [f for f in absent.findings if f.check == "traffic_class"]
