"""Reports of a run in which one cable is bad, one node gave nothing, and the rest is well."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import LatencyLimit, Limits, LossLimit, MtuPolicy, Policy
from fabricctl.model.probe import AgentReport, Sample
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Finding, Outcome, Verdict
from fabricctl.plugin import finder
from fabricctl.plugin.layout import moment, state
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
        verdicts[0].pair, "read_latency", "pyverbs 44", STARTED, 1.0, latencies_ns=tuple(range(1000))
    )
    empty = replace(sample, probe="loss", latencies_ns=(), numbers={"sent": 6000, "missing": 118})
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
    assert lines[0] == "run v20261130-001320-3f2a (verify) by kim: fail, 12 pairs"
    assert lines[1].startswith(f"from {moment(STARTED)} to {moment(STARTED + 60)}, inventory /inventory.yml")
    assert lines[2] == "SIMULATED: lab of virtual machines; these results say nothing about real hardware"
    assert lines[3] == "12 directed pairs: 4 fail, 6 unknown, 2 pass"
    assert lines[4] == "engine: pyverbs 44"
    assert "FAIL node1/eth1 -> node2/eth1 (same_leaf)" in lines
    assert "  fail: 118 of 6000 packets lost" in lines
    assert "  next: look at the cable" in lines
    assert "  unknown: not measured: node4: no route" in lines
    assert "SUSPECT link node2/eth1 - leaf1/eth2" in lines
    assert "AGENT node4: no route to host" in lines
    table = "\n".join(lines[lines.index("AGENT node4: no route to host") + 2 :])
    assert "node1/eth1 -> node2/eth1  same_leaf  fail" in table
    assert "p99 = 9.0 us n=1000  118 of 6000 (< 0.02 at 95 %)" in table
    assert "node1/eth1 -> node3/eth1  same_leaf  pass" in table
    assert "node2/eth1      fail     " in table
    assert table.endswith("-")


def test_failures_come_first_and_are_never_left_out(report: RunReport) -> None:
    many = tuple(
        Verdict(
            PairId(PortId(f"n{i}", "e"), PortId("m", "e")), "same_leaf", (Finding("loss", "x", PASS, "y"),)
        )
        for i in range(100)
    )
    text = finder.report("text").render(replace(report, verdicts=(*many, *report.verdicts)))
    assert "and 38 more pairs that passed" in text
    assert text.count("FAIL node") == 4
    table = text[text.index("pair  ") :].splitlines()
    assert [row.split()[4] for row in table[1:11]] == ["fail"] * 4 + ["unknown"] * 6
    assert "pass" in table[11].split()


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
    assert "UNKNOWN node1/eth1 -> node2/eth1 (same_leaf)" in finder.report("text").render(bare)


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
    assert "latencies_ns" not in text
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
