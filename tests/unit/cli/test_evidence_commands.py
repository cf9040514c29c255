"""runs, report, explain, certs and gate on a store with one verify run: node2's cable is bad."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fabricctl.cli import main
from fabricctl.cli.main import cli
from fabricctl.errors import UsageError
from fabricctl.model.evidence import Evidence
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import GatePolicy, LatencyLimit, Limits, LossLimit, MtuPolicy, Policy, Stance
from fabricctl.model.probe import AgentReport, Sample
from fabricctl.model.reading import Known, Missing
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder
from fabricctl.store import Store
from fabricctl.verify.certify import Occasion, certify
from fabricctl.verify.judge import Bench, judge
from fabricctl.verify.localise import localise
from fabricctl.verify.schedule import expand

Run_ = Callable[..., Result]
MTU = {"path_mtu_bytes": 1024, "wanted_path_mtu_bytes": 1024}
LIMITS = Limits((LatencyLimit("read_latency", 99, 10_000),), LossLimit(0, 1e-3, 0.95))


def fabric() -> Fabric:
    ports = [PortId(f"node{n}", "eth1") for n in range(1, 5)]
    nodes = [Device(p.device, Role.NODE, "rxe", Endpoint("h"), (Port(p, rail=0),)) for p in ports]
    leaf = Device("leaf1", Role.SWITCH, "linux", Endpoint("h"), ())
    links = tuple(Link(PortId("leaf1", f"eth{n}"), port) for n, port in enumerate(ports, start=1))
    return Fabric((*nodes, leaf), links, "/inventory.yml", "lab")


def samples(pair: PairId) -> tuple[Sample, ...]:
    if "node4" in {pair.source.device, pair.target.device}:
        return ()
    lost = 118 if "node2" in {pair.source.device, pair.target.device} else 0
    return (
        Sample(
            pair,
            "read_latency",
            "pyverbs 56",
            0,
            1.5,
            latencies=Histogram.of(range(5000, 6000)),
            parameters=MTU,
        ),
        Sample(
            pair,
            "loss",
            "pyverbs 56",
            0,
            1.5,
            numbers={"sent": 6000, "missing": lost},
            numbers_by_path=({"sent": 6000, "missing": lost},),
            counters={
                "source/rcvd_seq_err": Known(2 if lost else 0),
                "target/x": Missing("none"),
                "source/y": Known(0),
            },
            parameters={"packets": 6000, **MTU},
        ),
    )


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    where = fabric()
    gate = GatePolicy(simulated=Stance.ALLOW)
    policy = Policy("site", LinkLayer.ETHERNET, None, None, MtuPolicy(1500, 1500, 1024), (), {}, LIMITS, gate)
    pairs = expand(where, "all")
    seen = tuple(sample for pair in pairs for sample in samples(pair))
    agents = {"node4": AgentReport("node4", error="no route to host")}
    probes = {name: finder.probe(name) for name in ("read_latency", "loss")}
    verdicts = judge(pairs, seen, Bench(where, LIMITS, probes, agents))
    suspects = localise(verdicts, where)
    with Store.open() as opened:
        opened.begin(RunKind.APPLY, "kim", "/inventory.yml")
        run = opened.begin(RunKind.VERIFY, "kim", "/inventory.yml")
        opened.put_verify(run.id, Evidence(where, policy, agents, verdicts, suspects, seen))
        opened.put_certificates(
            certify(verdicts, suspects, seen, Occasion(run.id, where, policy, {}, time.time()))
        )
        return opened.finish(run, Outcome.FAIL, "12 pairs: 4 fail")


@pytest.fixture
def run(store: Run) -> Run_:
    def call(*argv: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, argv)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    assert store.id
    return call


def test_runs(run: Run_, store: Run) -> None:
    lines = run("runs").output.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith(f"{store.id}  verify")
    assert "fail, 12 pairs: 4 fail" in lines[1]
    assert "running" in lines[2]
    assert [r["kind"] for r in json.loads(run("runs", "--json").output)] == ["verify", "apply"]
    assert run("runs", "--kind", "rollback").output == "no runs on record\n"
    assert len(json.loads(run("runs", "--json", "--limit", "1").output)) == 1


def test_report(run: Run_, store: Run) -> None:
    text = run("report").output
    assert text.splitlines()[1].startswith(f"run {store.id} (verify) by kim: fail")
    assert "SUSPECT link node2/eth1 - leaf1/eth2" in text
    assert run("report", store.id).output == text
    assert json.loads(run("report", "--json").output)["run"]["id"] == store.id
    assert run("report", "--format", "json").output == run("report", "--json").output
    with pytest.raises(UsageError, match="did you mean json"):
        run("report", "--format", "jsn")
    with pytest.raises(UsageError, match="there is no run"):
        run("report", "v1")


def test_a_run_that_judged_nothing_cannot_be_reported(run: Run_) -> None:
    apply = json.loads(run("runs", "--json", "--kind", "apply").output)[0]["id"]
    with pytest.raises(UsageError, match="has no verdicts"):
        run("report", apply)


def test_without_a_verify_run_there_is_nothing_to_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "empty.sqlite"))
    with Store.open() as opened:
        opened.begin(RunKind.VERIFY, "kim", "/i")
    with pytest.raises(UsageError, match="no verify run is on record; run"):
        CliRunner().invoke(cli, ["report"], catch_exceptions=False)


def test_explain_a_pair_shows_numbers_reasoning_and_the_way_out(run: Run_) -> None:
    text = run("explain", "node2:node1").output
    assert "2 fail" in text.splitlines()[0]
    assert "SIMULATED: lab" in text
    assert (
        "suspect link node2/eth1 - leaf1/eth2: all 4 failed pairs cross it; the 2 that passed clear" in text
    )
    assert "way: node1/eth1 over leaf1 to node2/eth1" in text
    assert "fail: 118 of 6000 packets lost; rate 0.011 .. 0.032 at 95 %, wider for bursts, limit 0;" in text
    assert "min 5.0, p50 5.5, p90 5.9, p99 6.0, p99.9 6.0, max 6.0 us (n=1000)" in text
    assert (
        "\n    95 % intervals: p50 5.5 us .. 5.5 us, p90 5.9 us .. 5.9 us, p99 6.0 us .. 6.0 us,"
        " p99.9 too few samples\n"
    ) in text
    assert "counters: source/rcvd_seq_err +2\n" in text
    assert "counters that could not be read: target/x" in text
    assert "ran with: packets 6000" in text
    assert "queue pair 0: sent 6000, missing 118" in text
    assert "loss measures: Packets lost one way" in text
    assert "certificate of node2/eth1 from this run: fail" in text
    assert 'after the repair: "fabricctl verify --pairs node1:all"' in text
    assert run("explain", "node1/eth1 -> node2/eth1").output.splitlines()[1:] == text.splitlines()[1:]


def test_explain_a_node_a_port_and_a_run(run: Run_, store: Run) -> None:
    node = run("explain", "node4").output
    assert "6 unknown" in node
    assert "agent node4: no route to host" in node
    assert "unknown: not measured: node4: no route to host" in node
    assert run("explain", "node4/eth1").output.splitlines()[1:] == node.splitlines()[1:]
    whole = run("explain", store.id).output
    assert "12" not in whole.splitlines()[0].split(": ")[1]
    assert "4 fail, 6 unknown, 2 pass" in whole.splitlines()[0]
    assert run("explain", store.id, "--run", store.id).output == whole
    said = json.loads(run("explain", "node3:node1", "--json").output)
    assert [v["outcome"] for v in said["verdicts"]] == ["pass", "pass"]
    assert said["suspects"] == []
    assert {c["port"] for c in said["certificates"]} == {"node1/eth1", "node3/eth1"}


def test_explain_what_was_not_verified(run: Run_) -> None:
    for target in ("node9", "node1:node9", "no;reboot"):
        with pytest.raises(UsageError, match="its inventory had no '") as caught:
            run("explain", target)
        assert "verify" not in caught.value.next_step
    with pytest.raises(UsageError, match="did you mean node1"):
        run("explain", "ndoe1")


@pytest.mark.parametrize("target", ["", " ", ":", " : "])
def test_explain_nothing_is_wrong_usage(run: Run_, target: str) -> None:
    with pytest.raises(UsageError, match="no pair, node, port or run is named; name one"):
        run("explain", target)


@pytest.mark.parametrize("target", ["leaf1", "leaf1/eth1", "node1:leaf1"])
def test_explain_a_switch_advises_no_verify(run: Run_, target: str) -> None:
    with pytest.raises(UsageError, match="leaf1 is a switch, and pairs are of nodes") as caught:
        run("explain", target)
    assert "verify" not in caught.value.next_step


@pytest.mark.parametrize(
    ("target", "spec"), [("node1/eth9", "node1/eth9:all"), ("node1/e;x:node2", "'node1/e;x:node2'")]
)
def test_explain_advises_a_verify_of_a_quoted_name(run: Run_, target: str, spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        run("explain", target)
    assert caught.value.next_step.endswith(f'run "fabricctl verify --pairs {spec}"')


def test_certs_list(run: Run_) -> None:
    lines = run("certs", "list").output.splitlines()
    states = {line.split()[0]: line.split()[1] for line in lines[1:5]}
    assert states == {
        "node1/eth1": "valid",
        "node2/eth1": "fail",
        "node3/eth1": "valid",
        "node4/eth1": "unknown",
    }
    assert lines[2].endswith("0 of 3        link node2/eth1 - leaf1/eth2")
    assert lines[5].startswith("SIMULATED: lab")
    assert len(run("certs", "list", "--valid").output.splitlines()) == 4
    (held,) = json.loads(run("certs", "list", "node1", "--json").output)
    assert (held["state"], held["certificate"]["port"]) == ("valid", "node1/eth1")
    for names in (["node9"], ["node1", "node9"], ["node9", "--valid"]):
        with pytest.raises(UsageError, match="there is no certificate for 'node9'"):
            run("certs", "list", *names)
    assert run("certs", "list", "node2", "--valid", code=4).output == "no certificate counts now\n"


def test_certs_show(run: Run_) -> None:
    text = run("certs", "show", "node2").output
    assert "certificate v" in text
    assert ": fail" in text.splitlines()[0]
    assert "  peer node1/eth1: fail" in text
    assert "  suspect link node2/eth1 - leaf1/eth2" in text
    assert "bound to nothing: the device could not be read" in text
    assert json.loads(run("certs", "show", "node2/eth1", "--json").output)[0]["state"] == "fail"
    with pytest.raises(UsageError, match="no certificate for 'node9'"):
        run("certs", "show", "node9")


def test_certs_revoke_and_the_gate(run: Run_) -> None:
    assert run("gate", "--nodes", "node[1,3]").output.startswith("yes: 2 nodes, 2 ports certified")
    assert run("gate", "--nodes", "node1,node2", code=1).output.startswith("no: node2/eth1 failed")
    assert run("gate", "--nodes", "node4", code=4).output.startswith(
        "unknown: node4/eth1 could not be judged"
    )
    said: Mapping[str, object] = json.loads(run("gate", "--nodes", "node1", "--json").output)
    assert said["answer"] == "yes"
    revoked = run("certs", "revoke", "node1", "--why", " cable\nswapped ").output
    assert revoked.splitlines()[0].endswith(":node1/eth1")
    assert 'fabricctl verify --pairs node1:all"' in revoked
    assert "cable swapped" in run("gate", "--nodes", "node1", code=1).output
    assert "  revoked by " in run("certs", "show", "node1").output
    assert "were revoked before" in run("certs", "revoke", "node1", "--why", "x").output
    assert json.loads(run("certs", "revoke", "node3", "--why", "x", "--json").output)[0].endswith(
        ":node3/eth1"
    )
    with pytest.raises(UsageError, match="no certificate for"):
        run("certs", "revoke", "node9", "--why", "x")
    with pytest.raises(UsageError, match="--why is empty"):
        run("certs", "revoke", "node1", "--why", "  ")


def test_without_a_store_lists_are_empty_and_all_else_is_said_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none" / "store.sqlite"
    monkeypatch.setenv("FABRICCTL_STORE", str(path))
    for words in (["runs"], ["certs", "list"], ["certs", "list", "--valid"]):
        assert main.run(words) == 0
        assert capsys.readouterr() == (f"nothing yet: there is no store at {path}\n", "")
        assert main.run([*words, "--json"]) == 0
        assert capsys.readouterr() == ("[]\n", "")
    missing = f'{path}: there is no store; run "fabricctl verify" or set FABRICCTL_STORE\n'
    revoke = ["certs", "revoke", "node1", "--why", "x"]
    for words in (["report"], ["explain", "node1"], ["certs", "show", "n"], ["certs", "list", "n"], revoke):
        assert main.run(words) == 4
        assert capsys.readouterr() == ("", f"fabricctl: {missing}")
    assert main.run(["gate", "--nodes", "node1"]) == 4
    assert capsys.readouterr() == (f"unknown: {missing}", "")
    assert not path.parent.exists()


def test_reading_commands_write_nothing_into_a_file_that_is_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.sqlite"
    monkeypatch.setenv("FABRICCTL_STORE", str(path))
    path.touch()
    for words in (["runs"], ["certs", "list"], ["report"], ["explain", "n1"], ["gate", "--nodes", "n1"]):
        assert main.run(words) == 4
    assert path.read_bytes() == b""
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_run_that_was_stopped_is_shown_as_interrupted(run: Run_, store: Run) -> None:
    with Store.open() as opened:
        opened.finish(store, Outcome.UNKNOWN, "interrupted")
        stopped = opened.begin(RunKind.APPLY, "kim", "/inventory.yml")
        opened.finish(stopped, Outcome.ERROR, "interrupted; what was not confirmed was reverted")
    first, second = run("runs", "--limit", "2").output.splitlines()[1:]
    assert "interrupted; what was not confirmed was reverted  /inventory.yml" in first
    assert second.split()[4:] == ["interrupted", "/inventory.yml"]


@pytest.mark.parametrize(
    "words", [["status"], ["reboot", "node1"], ["clear"], ["ssh", "node1"]], ids=" ".join
)
def test_a_lab_that_is_not_there_is_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["lab", words[0], "--name", "nothere", *words[1:]]) == 2
    assert "there is no lab 'nothere'; bring it up" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["loss", "node1", "--percent", "1"],
        ["delay", "node1", "--ms", "1"],
        ["link-down", "node1"],
        ["swap", "node1", "--with", "node2"],
        ["mtu", "node1", "--bytes", "1500"],
        ["pfc-off", "node1"],
        ["freeze", "node1"],
        ["kill", "node1"],
    ],
    ids=" ".join,
)
def test_a_fault_in_a_lab_that_is_not_there_is_wrong_usage(words: list[str]) -> None:
    assert main.run(["lab", "fault", *words, "--name", "nothere"]) == 2


@pytest.mark.parametrize(
    "words",
    [["certs"], ["certs", "list"], ["report"], ["explain"], ["runs"], ["lab"], ["plan"]],
    ids=" ".join,
)
def test_help_names_the_exit_codes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*words, "--help"]) == 0
    told = capsys.readouterr().out
    assert "Exit codes: 0 " in told
    assert " 2 " in told.split("Exit codes:")[1]
