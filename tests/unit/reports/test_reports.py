"""Reports of a run in which one cable is bad, one node gave nothing, and the rest is well."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import LatencyLimit, Limits, LossLimit, MtuPolicy, Policy
from fabricctl.model.probe import AgentReport, Sample
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Finding, Outcome, Verdict
from fabricctl.plugin import finder
from fabricctl.plugin.layout import duration, durations, moment, state
from fabricctl.plugin.protocols import RunReport
from fabricctl.verify.certify import Occasion, certify
from fabricctl.verify.localise import localise
from fabricctl.verify.schedule import expand

PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN
STARTED = 1_796_000_000.0


def fabric() -> Fabric:
    ports = [PortId(f"node{n}", "eth1") for n in range(1, 5)]
    nodes = [Device(p.device, Role.NODE, "rxe", Endpoint("h"), (Port(p, rail=0),)) for p in ports]
    leaf = Device("leaf1", Role.SWITCH, "linux", Endpoint("h"), ())
    links = tuple(Link(PortId("leaf1", f"eth{n}"), port) for n, port in enumerate(ports, start=1))
    return Fabric((*nodes, leaf), links, "/inventory.yml", "lab of virtual machines")


def verdict(pair: PairId) -> Verdict:
    names = {pair.source.device, pair.target.device}
    latency = Finding("read_latency", str(pair), PASS, "read_latency p99 ...", "p99 = 9.0 us", "", 1000)
    if "node4" in names:
        gone = Finding(
            "agent", "node4", UNKNOWN, "not measured: node4: no route", next_step="make node4 work"
        )
        return Verdict(pair, "same_leaf", (gone,))
    outcome = FAIL if "node2" in names else PASS
    lost = 118 if outcome is FAIL else 0
    return Verdict(
        pair,
        "same_leaf",
        (
            latency,
            Finding(
                "loss",
                str(pair),
                outcome,
                f"{lost} of 6000 packets lost",
                f"{lost} of 6000 (< 0.02 at 95 %)",
                "rate <= 0",
                6000,
                "look at the cable" if lost else "",
            ),
        ),
    )


@pytest.fixture
def report() -> RunReport:
    where = fabric()
    limits = Limits((LatencyLimit("read_latency", 99, 10_000),), LossLimit(0, 1e-3, 0.95))
    policy = Policy("site", LinkLayer.ETHERNET, None, None, MtuPolicy(9000, 9216, 4096), (), {}, limits)
    verdicts = tuple(verdict(pair) for pair in expand(where, "all"))
    suspects = localise(verdicts, where)
    run = Run(
        "v20261130-001320-3f2a", RunKind.VERIFY, STARTED, "kim", where.source, STARTED + 60, FAIL, "12 pairs"
    )
    sample = Sample(
        verdicts[0].pair, "read_latency", "pyverbs 44", STARTED, 1.0, latencies=Histogram.of(range(1000))
    )
    empty = replace(sample, probe="loss", latencies=Histogram(), numbers={"sent": 6000, "missing": 118})
    return RunReport(
        fabric=where,
        policy=policy,
        run=run,
        agents={"node1": AgentReport("node1"), "node4": AgentReport("node4", error="no route to host")},
        verdicts=verdicts,
        suspects=suspects,
        samples=(sample, empty),
        certificates=certify(verdicts, suspects, (sample,), Occasion(run.id, where, policy, {}, STARTED)),
    )


def test_text_says_everything_with_counts_and_bounds(report: RunReport) -> None:
    lines = finder.report("text").render(report).splitlines()
    assert lines[0] == "SIMULATED: lab of virtual machines; these results say nothing about real hardware"
    assert lines[1] == "run v20261130-001320-3f2a (verify) by kim: fail, 12 pairs"
    assert lines[2].startswith(f"from {moment(STARTED)} to {moment(STARTED + 60)}, inventory /inventory.yml")
    assert lines[3:5] == ["engine: pyverbs 44", ""]
    assert [" ".join(line.split()) for line in lines[5:8]] == [
        "pair class outcome read_latency loss",
        "p50/p99 us n=1000",
        "node1/eth1 -> node2/eth1 same_leaf fail 0.5/1.0 118 of 6000 (< 0.02 at 95 %)",
    ]
    table = "\n".join(lines[7:19])
    assert "node1/eth1 -> node4/eth1  same_leaf  unknown  -                  -\n" in table
    assert "node1/eth1 -> node3/eth1  same_leaf  pass     p99 = 9.0 us       0 of 6000" in table
    assert "read_latency: Round trip of one RDMA READ at a time on a reliable connection" in lines
    assert (
        "FAIL node1/eth1 -> node2/eth1, node2/eth1 -> node1/eth1, node2/eth1 -> node3/eth1,"
        " node3/eth1 -> node2/eth1"
    ) in lines
    assert "  fail: 118 of 6000 packets lost" in lines
    assert "  next: look at the cable" in lines
    assert "  unknown: not measured: node4: no route" in lines
    assert any(line.startswith("UNKNOWN ") and line.endswith(" and 2 more") for line in lines)
    assert "SUSPECT link node2/eth1 - leaf1/eth2: explains 4 pairs" in lines
    assert "AGENT node4: no route to host" in lines
    assert "no certificate for node2/eth1: fail; suspect link node2/eth1 - leaf1/eth2" in lines
    assert "no certificate for node4/eth1: unknown" in lines
    assert f"2 ports certified until {moment(STARTED + 7 * 24 * 3600)}" in lines
    assert lines[-1] == ('next: "fabricctl explain node1/eth1:node2/eth1 --run v20261130-001320-3f2a"')


def _with_latencies(report: RunReport, *columns: tuple[str, str, tuple[int, ...]]) -> list[list[str]]:
    """Return the table (without the pairs' names) of pairs with these probes, topologies and latencies."""
    verdicts, samples = [], []
    for number, (probe, topology, values) in enumerate(columns):
        pair = PairId(PortId(f"n{number}", "e"), PortId("m", "e"))
        verdicts.append(Verdict(pair, topology, (Finding(probe, str(pair), PASS, "x"),)))
        samples.append(Sample(pair, probe, "pyverbs 44", STARTED, 1.0, latencies=Histogram.of(values)))
    rows = replace(report, verdicts=tuple(verdicts), samples=tuple(samples), suspects=(), certificates=())
    lines = finder.report("text").render(rows).splitlines()
    return [line.split() for line in lines[5 : 7 + len(columns)]]


def test_a_column_says_once_what_its_cells_share(report: RunReport) -> None:
    limits = Limits((LatencyLimit("read_latency", 95, 1), LatencyLimit("read_latency", 50, 1)), None)
    slow = replace(report, policy=replace(report.policy, limits=limits))
    values = tuple(range(1_000_000, 101_000_000, 1_000_000))
    table = _with_latencies(slow, *[("read_latency", "same_leaf", values)] * 2)
    assert table[1] == ["p50/p95", "ms", "n=100"]
    assert [row[-1] for row in table[2:]] == ["50.00/95.03"] * 2


def test_cells_say_themselves_what_differs(report: RunReport) -> None:
    limits = Limits((LatencyLimit("read_latency", 95, 1, "cross_leaf"),), None)
    mixed = replace(report, policy=replace(report.policy, limits=limits))
    table = _with_latencies(
        mixed,
        ("read_latency", "same_leaf", (400_000,) * 10),
        ("read_latency", "cross_leaf", (999_000,) * 10 + (1_500_000,) * 10),
    )
    assert table[1] == []
    assert [" ".join(row[5:]) for row in table[2:]] == [
        "p50 400.0 us n=10",
        "p50 999.4 us/p95 1.50 ms n=20",
    ]


def _distributions(report: RunReport, *samples: Sample) -> list[str]:
    lines = finder.report("text").render(replace(report, samples=samples)).splitlines()
    heads = ("latency ", "floor:", "more ")
    start = next((n for n, line in enumerate(lines) if line.startswith(heads)), None)
    return [] if start is None else lines[start : lines.index("", start)]


def _sample(report: RunReport, number: int, values: Iterable[int], **parameters: int) -> Sample:
    pair, held = report.verdicts[number].pair, Histogram.of(values)
    return Sample(pair, "read_latency", "native 1", STARTED, 1.0, latencies=held, parameters=parameters)


def test_text_shows_the_distribution_of_each_probe_and_class(report: RunReport) -> None:
    crossing = replace(report.verdicts[1], topology="cross_leaf")
    apart = replace(report, verdicts=(report.verdicts[0], crossing, *report.verdicts[2:]))
    assert _distributions(
        apart,
        _sample(apart, 0, range(1000, 3000)),
        _sample(apart, 2, range(3000, 5000)),
        _sample(apart, 1, (1_500_000, 9_000_000)),
        replace(_sample(apart, 2, range(9)), error="gone"),
    ) == [
        "latency       class       n     min   p50  p90  p99  p99.9  max   unit",
        "read_latency  cross_leaf  2     1.50  -    -    -    -      9.00  ms",
        "read_latency  same_leaf   4000  1.0   3.0  4.6  5.0  5.0    5.0   us",
        "-: too few samples to bound that percentile at 95 %",
    ]


def test_text_names_the_floor_of_the_engine(report: RunReport) -> None:
    few = [_sample(report, n, range(1000, 5000), floor_ns=floor) for n, floor in ((0, 900), (1, 1100))]
    assert _distributions(report, *few) == [
        "floor: p50 of the same operation of the engine with itself",
        "latency       class      n     min  p50  p90  p99  p99.9  max  unit  floor",
        "read_latency  same_leaf  8000  1.0  3.0  4.6  5.0  5.0    5.0  us    0.9 .. 1.1",
    ]
    assert _distributions(report, few[0])[-1].endswith("  us    0.9")
    odd = replace(few[1], parameters={"floor_ns": "none"})
    assert _distributions(report, few[0], odd)[-1].endswith("  us    0.9")
    assert all(len(line) <= 80 for line in _distributions(report, *few))


def test_a_run_of_very_many_samples_has_its_distributions_in_json(
    report: RunReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fabricctl.reports.text.MOST_MERGED", 1)
    two = [_sample(report, n, range(1000)) for n in (0, 1)]
    assert _distributions(report, *two) == ["more than 1 samples: their distributions are in the report json"]
    assert _distributions(report, two[0])[0].startswith("latency ")
    assert _distributions(report, replace(two[0], latencies=Histogram())) == []


def test_only_limited_percentiles_are_shown(report: RunReport) -> None:
    table = _with_latencies(report, ("write_pingpong", "same_leaf", tuple(range(1000, 2000, 10))))
    assert table[1] == ["p50", "us", "n=100"]
    text = finder.report("text").render(
        replace(
            report,
            verdicts=(
                Verdict(
                    report.verdicts[0].pair,
                    "same_leaf",
                    (Finding("write_pingpong", str(report.verdicts[0].pair), UNKNOWN, "not measured"),),
                ),
            ),
        )
    )
    assert "write_pingpong: Half of the round trip of two RDMA WRITEs" in text


def test_what_all_pairs_passed_leads_to_the_certificates(report: RunReport) -> None:
    good = tuple(v for v in report.verdicts if v.outcome is PASS)
    lines = finder.report("text").render(replace(report, verdicts=good, suspects=())).splitlines()
    assert lines[-1] == 'run v20261130-001320-3f2a; next: "fabricctl certs list"'


def test_durations_take_the_unit_that_reads_best() -> None:
    assert [duration(n) for n in (0, 812_400, 999_999, 1_000_000, 12_345_678)] == [
        "0.0 us",
        "812.4 us",
        "1000.0 us",
        "1.00 ms",
        "12.35 ms",
    ]


def test_the_unit_stands_once_where_all_share_it() -> None:
    assert durations([("p50", 5200), ("p99", None), ("max", 40_700)]) == "p50 5.2, p99 too few, max 40.7 us"
    assert durations([("p50", 5200), ("p99", None), ("max", 4_070_000)]) == (
        "p50 5.2 us, p99 too few, max 4.07 ms"
    )
    assert durations([("min", 1_000_000), ("max", 4_070_000)]) == "min 1.00, max 4.07 ms"


def test_failures_come_first_and_are_never_left_out(report: RunReport) -> None:
    many = tuple(
        Verdict(
            PairId(PortId(f"n{i}", "e"), PortId("m", "e")), "same_leaf", (Finding("loss", "x", PASS, "y"),)
        )
        for i in range(100)
    )
    text = finder.report("text").render(replace(report, verdicts=(*many, *report.verdicts)))
    assert "and 38 more pairs that passed" in text
    table = text[text.index("pair  ") :].splitlines()
    assert [row.split()[4] for row in table[2:12]] == ["fail"] * 4 + ["unknown"] * 6
    assert "pass" in table[12].split()


def test_an_ambiguous_suspect_is_called_so(report: RunReport) -> None:
    (suspect,) = report.suspects
    text = finder.report("text").render(
        replace(report, suspects=(replace(suspect, ambiguous_with=("switch leaf1",)),))
    )
    assert "  ambiguous: switch leaf1 would explain as much" in text


def test_an_empty_run_is_not_called_good(report: RunReport) -> None:
    bare = replace(
        report,
        run=replace(report.run, outcome=None, ended_at=None, interrupted=True),
        fabric=replace(report.fabric, simulated=""),
        agents={},
        verdicts=(),
        suspects=(),
        samples=(),
        certificates=(),
    )
    lines = finder.report("text").render(bare).splitlines()
    assert lines[0].endswith(": interrupted")
    assert " to no end, " in lines[1]
    assert lines[2:] == ["no pair was judged"]


def test_a_verdict_without_findings_is_unknown_in_the_table(report: RunReport) -> None:
    bare = replace(report, verdicts=(Verdict(report.verdicts[0].pair, "same_leaf", ()),))
    assert "UNKNOWN node1/eth1 -> node2/eth1\n  unknown: nothing was measured" in finder.report(
        "text"
    ).render(bare)


def test_json_holds_percentiles_with_counts_and_no_raw_samples(report: RunReport) -> None:
    text = finder.report("json").render(report)
    said = json.loads(text)
    assert said["format"] == 1
    assert said["simulated"] == "lab of virtual machines"
    assert said["run"]["outcome"] == "fail"
    assert said["pairs"][0]["outcome"] == "fail"
    assert said["pairs"][0]["source"] == "node1/eth1"
    latency, loss = said["samples"]
    assert latency["samples"] == 1000
    assert latency["latency_ns"][0] == {"percent": 50, "value": 499, "samples": 1000, "low": 468, "high": 531}
    assert latency["latency_ns"][3]["high"] is None
    assert (latency["latency_min_ns"], latency["latency_max_ns"]) == (0, 999)
    assert "latencies" not in text
    assert (loss["samples"], loss["latency_min_ns"], loss["latency_max_ns"]) == (0, None, None)
    assert (loss["latency_ns"], loss["numbers"]) == ([], {"sent": 6000, "missing": 118})
    assert len(said["certificates"]) == 4
    assert said["suspects"][0]["element"] == "link node2/eth1 - leaf1/eth2"


def test_states_of_a_run() -> None:
    run = Run("v1", RunKind.VERIFY, STARTED, "kim", "/i")
    assert state(run) == "running"
    assert state(replace(run, interrupted=True)) == "interrupted"
    assert state(replace(run, outcome=PASS)) == "pass"


def test_every_report_has_its_own_name() -> None:
    assert finder.names("report") == ("json", "text")
    assert [finder.report(name).name for name in finder.names("report")] == ["json", "text"]
