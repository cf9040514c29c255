"""``fabricctl verify`` as a command: options, exit codes, JSON."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fabricctl import transport
from fabricctl.cli import common
from fabricctl.cli.draining import prover
from fabricctl.cli.verify import command
from fabricctl.errors import UsageError
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.policy import Limits, LossLimit, MtuPolicy, Policy
from fabricctl.model.run import RunKind
from fabricctl.model.verdict import Outcome
from fabricctl.store import Store
from fabricctl.verify import agents

POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=None,
    cnp=None,
    mtu=MtuPolicy(9000, 9216, 1024),
    pfc_priorities=(),
    ecn={},
    limits=Limits(
        (), LossLimit(0.0, 0.05, 0.95), 10, 2, 8, 1, bandwidth_seconds=0.1, bandwidth_sizes=(8192,)
    ),
)


def _load(name: str) -> Any:
    path = Path(__file__).parents[2] / "fakes" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"fakes_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fakes = _load("nodes")


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    fabric = replace(fakes.make_fabric(2), source="/inventory.yml")
    with fakes.FakeNodes(tmp_path, fabric) as made:
        monkeypatch.setattr(agents, "PYTHON", str(made.python))
        monkeypatch.setattr(transport, "connect", lambda: made)
        monkeypatch.setattr(common, "load", lambda _path, _policy=None: (fabric, POLICY))
        yield made


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["inventory.yml", *arguments], catch_exceptions=True)


def test_clean_fabric_exits_0_with_a_table(nodes: Any) -> None:
    del nodes
    done = _run()
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("run v")
    quiet, filling = (
        ["read_latency", "write_latency", "write_pingpong"],
        ["read_bandwidth", "write_bandwidth"],
    )
    assert lines[4].split()[:3] == ["pair", "class", "outcome"]
    assert sorted(lines[4].split()[3:]) == sorted(["loss", *quiet, *filling, "outlier", "path_mtu"])
    assert done.stderr.startswith("kept in ")
    assert done.stderr.endswith("store.sqlite\n")
    assert "node1/eth1 -> node2/eth1  same_leaf  pass" in done.stdout
    assert re.search(r"0 of \d\d\d? \(< 0\.0[0-4]\d* at 95 %\)", done.stdout)
    assert lines[-1].endswith('next: "fabricctl certs list"')


def test_loss_exits_1(nodes: Any) -> None:
    nodes.environment["node1"] = {"FAKE_LOSS": "0.5"}
    done = _run("--probes", "loss")
    assert done.exit_code == 1
    assert "FAIL node1/eth1 -> node2/eth1\n" in done.stdout
    assert "FAIL node2/eth1 -> node1/eth1" not in done.stdout


def test_unreachable_node_exits_4_and_json_says_why(nodes: Any) -> None:
    nodes.environment["node2"] = {"UNREACHABLE": "1"}
    done = _run("--json", "--probes", "read_latency")
    assert done.exit_code == 4
    said = json.loads(done.stdout)
    assert said["agents"]["node2"]["error"] == "no route to host; is it on?"
    assert [pair["outcome"] for pair in said["pairs"]] == ["unknown", "unknown"]
    assert said["run"]["outcome"] == "unknown"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--time-budget", "soon"), "--time-budget 'soon': not a time above 0; write 90s, 10m or 1h"),
        (("--time-budget", ""), "--time-budget '': not a time above 0; write 90s, 10m or 1h"),
        (("--time-budget", "0s"), "--time-budget '0s': not a time above 0; write 90s, 10m or 1h"),
        (("--probes", "read_latenci"), "there is no probe called 'read_latenci'; did you mean read_latency?"),
    ],
)
def test_wrong_options_are_usage_errors(nodes: Any, arguments: tuple[str, ...], message: str) -> None:
    done = _run(*arguments)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == message
    assert nodes.started == {}


def test_drained_nodes_are_verified_and_recorded_as_any_others(nodes: Any) -> None:
    del nodes
    fabric, _ = common.load(Path("inventory.yml"))
    with Store.open() as store:
        verdicts = prover(fabric, POLICY, store)("node1/eth1:node2/eth1")
        assert [str(verdict.pair) for verdict in verdicts] == [
            "node1/eth1 -> node2/eth1",
            "node2/eth1 -> node1/eth1",
        ]
        assert {verdict.outcome for verdict in verdicts} == {Outcome.PASS}
        assert [run.kind for run in store.runs()] == [RunKind.VERIFY]


def test_engine_that_a_node_has_not_is_said_with_the_reason(nodes: Any) -> None:
    del nodes
    done = _run("--json", "--probes", "read_latency", "--engine", "native")
    assert done.exit_code == 4
    said = json.loads(done.stdout)
    assert said["agents"]["node1"]["error"] == "native: a stand-in for pyverbs is all there is here"


def test_json_has_the_share_of_time_spent_measuring(nodes: Any) -> None:
    del nodes
    done = _run("--json", "--probes", "loss", "--engine", "pyverbs")
    assert done.exit_code == 0
    said = json.loads(done.stdout)
    assert 0 < said["measuring_share"] < 1
    assert said["coverage"]["quiet"]["left_out"] == {}
