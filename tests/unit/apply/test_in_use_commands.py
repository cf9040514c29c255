from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from fabricctl.apply.usage import scheduler_of
from fabricctl.cli.apply import drain_seconds
from fabricctl.errors import UsageError
from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Finding, Outcome, Verdict

Call = Callable[..., Result]


@pytest.fixture
def slurm(make_slurm: Any) -> Any:
    world = make_slurm("node1", "node2")
    world.job("1234", "alice", "node2")
    return world


@pytest.fixture
def world(make_world: Any, fakes: Any, slurm: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a world with a scheduler that the commands meet in place of the inventory's."""
    del slurm
    made = make_world()

    def sleep(seconds: float) -> None:
        made.time += seconds

    @contextlib.contextmanager
    def connected(fabric: Any, report: Callable[[str], None]) -> Iterator[Any]:
        yield replace(made.tools(), report=report, scheduler=lambda: scheduler_of(fabric), sleep=sleep)

    def prover(*_: object) -> Callable[[str], Sequence[Verdict]]:
        def prove(spec: str) -> Sequence[Verdict]:
            pairs = [PairId(*(PortId.parse(end) for end in pair.split(":"))) for pair in spec.split(",")]
            return [Verdict(p, "same_leaf", (Finding("x", str(p), Outcome.PASS, "y"),)) for p in pairs]

        return prove

    for name in ("plan", "apply", "rollback"):
        module = importlib.import_module(f"fabricctl.cli.{name}")
        monkeypatch.setattr(module, "load", lambda *_: (made.fabric, fakes.policy()))
    monkeypatch.setattr("fabricctl.apply.tools.connected", connected)
    monkeypatch.setattr("fabricctl.cli.draining.prover", prover)
    monkeypatch.setenv("FABRICCTL_INVENTORY", "/dev/null")
    return made


@pytest.fixture
def call(world: Any) -> Call:
    del world

    def run(name: str, *arguments: str) -> Result:
        command: click.Command = importlib.import_module(f"fabricctl.cli.{name}").command
        return CliRunner().invoke(command, arguments)

    return run


def test_plan_shows_the_busy_node_beside_the_port_and_holds_nothing(call: Call, world: Any) -> None:
    result = call("plan")
    assert result.exit_code == 3
    lines = result.stdout.splitlines()
    assert lines[lines.index("node2/eth1, leaf1/eth2") + 4] == "    in use: node2 runs job 1234 of alice"
    assert lines[-1].endswith("disrupts: mtu change; slurm: 2 ports in use, or may be")
    facts = json.loads(call("plan", "--json").stdout)
    assert facts["scheduler"] == "slurm"
    assert facts["in_use"]["node2/eth1"] == "node2 runs job 1234 of alice"
    assert world.pushes == []


def test_apply_holds_with_one_line_and_exits_with_3(call: Call) -> None:
    result = call("apply", "--yes")
    assert result.exit_code == 3
    assert (
        "node2/eth1, leaf1/eth2: not attempted: node2 runs job 1234 of alice (slurm); "
        "drain it first (--drain), or --disrupt"
    ) in result.stdout.splitlines()
    assert "read back: 6 of 12 settings as intended" in result.stdout
    facts = json.loads(call("apply", "--yes", "--json").stdout)
    assert facts["state"] == "held"
    assert facts["outcome"] == "unknown"
    assert set(facts["in_use"]) == set(facts["not_attempted"]) == {"node2/eth1", "leaf1/eth2"}
    assert (facts["scheduler"], facts["drain"], facts["run"]) == ("slurm", None, None)
    assert "nothing was changed; 0 tasks" in call("apply", "--yes").stdout


def test_disrupt_goes_on(call: Call) -> None:
    result = call("apply", "--yes", "--disrupt")
    assert result.exit_code == 0
    assert "--disrupt: node2 runs job 1234 of alice (slurm)" in result.stdout
    assert call("rollback", "--yes").exit_code == 3
    assert call("rollback", "--yes", "--disrupt").exit_code == 0


def test_drain_waits_verifies_and_undrains(call: Call, slurm: Any) -> None:
    slurm.set(script=[{}, {}, {}, {}, {"jobs": []}])
    result = call("apply", "--yes", "--drain", "--drain-wait", "2h", "--json")
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts["drain"]["undrained"] == ["node1", "node2"]
    assert facts["drain"]["reason"] == f"fabricctl {facts['run']}"
    assert facts["notes"] == ["undrained, read back and verified: node1, node2"]
    assert "waiting, 120 min left: node2 runs job 1234 of alice" in result.stderr
    assert slurm.drained() == {}


def test_drain_that_is_over_before_the_job_is(call: Call, slurm: Any) -> None:
    result = call("apply", "--yes", "--drain", "--drain-wait", "20s")
    assert result.exit_code == 3
    assert "node2/eth1, leaf1/eth2: not attempted: node2 runs job 1234 of alice (slurm)" in result.stdout
    assert slurm.drained() == {}


def test_how_long_to_wait() -> None:
    assert [drain_seconds(None, drain=True), drain_seconds(60, drain=True)] == [3600, 60]
    assert drain_seconds(None, drain=False) is None
    with pytest.raises(UsageError, match="--drain-wait means nothing without --drain"):
        drain_seconds(60, drain=False)
