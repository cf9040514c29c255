from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import Result

from fabricctl.cli import apply as apply_command
from fabricctl.cli.main import run as run_main
from fabricctl.errors import UsageError
from fabricctl.model.names import PortId

Make = Callable[..., Any]
Call = Callable[..., Result]


def test_plan_shows_and_changes_nothing(call: Call, world: Any) -> None:
    result = call("plan")
    assert result.exit_code == 3
    lines = result.stdout.splitlines()
    assert lines == [
        "node1/eth1, node2/eth1, leaf1/eth1, leaf1/eth2",
        "    mtu_bytes: 1500 -> 4200  (undo: 1500; disrupts: mtu change)",
        "    pfc_priorities: none -> 3  (undo: none)",
        "    boot: lost at reboot -> kept over reboots  (undo: lost at reboot)",
        (
            "now, until it is applied: leaf1/eth1 - node1/eth1, leaf1/eth2 - node2/eth1: "
            "both ends agree, but not with the policy (in parentheses): PFC priorities none (3)"
        ),
        (
            "now, until it is applied: node1/eth1, node2/eth1, leaf1/eth1, leaf1/eth2: "
            "priority 3 has no PFC: the chain ends there"
        ),
        "12 settings to change on 3 devices; disrupts: mtu change; no scheduler was asked",
    ]
    assert world.pushes == []


def test_plan_as_json_names_old_and_new(call: Call) -> None:
    result = call("plan", "--json", "--limit", "node1")
    step = json.loads(result.stdout)["devices"][0]["steps"][0]
    assert step == {
        "port": "node1/eth1",
        "setting": "mtu_bytes",
        "old": {"known": 1500},
        "new": 4200,
        "disruption": "mtu change",
    }


def test_plan_with_an_unreadable_device_is_unknown(call: Call, world: Any) -> None:
    world.silent.add("leaf1")
    result = call("plan")
    assert result.exit_code == 4
    assert "could not be read: leaf1: no route to host" in result.stdout


def test_apply_ends_with_a_line_that_says_what_was_proved(call: Call, world: Any) -> None:
    result = call("apply", "--yes")
    assert result.exit_code == 0
    *_, summary, simulated = result.stdout.splitlines()
    assert ": done; 12 settings to change on 3 devices; 6 tasks on 3 devices, at most 2 each; " in summary
    assert "read back: 12 of 12 settings as intended; " in summary
    assert simulated == "simulated: a test"
    again = call("apply", "--yes")
    assert again.exit_code == 0
    assert again.stdout.startswith(
        "nothing to do; 0 tasks on 0 devices; read back: 12 of 12 settings as intended"
    )
    assert call("plan").exit_code == 0
    assert len(world.pushes) == 3


def test_apply_asks_nobody_without_a_terminal(call: Call, world: Any) -> None:
    result = call("apply")
    assert isinstance(result.exception, UsageError)
    assert world.pushes == []


def test_dry_run_is_plan(call: Call, world: Any) -> None:
    result = call("apply", "--dry-run")
    assert result.exit_code == 3
    assert result.stdout == call("plan").stdout
    assert world.pushes == []


def test_failed_apply_names_port_and_reason(call: Call, world: Any) -> None:
    (world.root / "node1/refuse/mtu_bytes").touch()
    result = call("apply", "--yes")
    assert result.exit_code == 1
    assert "node1/eth1: failed: fabricctl: eth1: mtu_bytes: the NIC refuses" in result.stdout
    assert "read back: 6 of 12 settings as intended" in result.stdout


def test_apply_as_json(call: Call) -> None:
    facts = json.loads(call("apply", "--yes", "--json").stdout)
    assert facts["state"] == "done"
    assert facts["read_back"] == {"as_intended": 12, "settings": 12}
    assert facts["tasks"] == {"leaf1": 2, "node1": 2, "node2": 2}
    assert facts["simulated"] == "a test"


def test_confirm_within_says_until_when(call: Call) -> None:
    result = call("apply", "--yes", "--confirm-within", "5m")
    assert result.exit_code == 0
    assert "not confirmed: the devices revert at " in result.stdout
    kept = call("confirm")
    assert kept.exit_code == 0
    assert "read back: 12 of 12 settings as intended" in kept.stdout
    assert isinstance(call("confirm").exception, UsageError)


def test_drift_exit_codes_and_lines(call: Call, world: Any) -> None:
    assert isinstance(call("drift").exception, UsageError)
    call("apply", "--yes")
    clean = call("drift")
    assert (clean.exit_code, clean.stdout) == (0, "no drift (12 settings compared)\n")
    world.silent.add("node1")
    blind = call("drift")
    assert blind.exit_code == 4
    assert blind.stdout.splitlines()[-1] == (
        "nothing differs on the devices that were read; node1 could not be read (9 settings compared)"
    )
    world.set(PortId("node2", "eth1"), "pfc_priorities", "()")
    found = call("drift")
    assert found.exit_code == 3
    assert "node2/eth1 pfc_priorities: should be 3, is none (since apply a" in found.stdout
    assert "node1: could not be read: no route to host" in found.stdout
    assert found.stdout.splitlines()[-1] == "drift: 1 of 9 settings differs; node1 could not be read"


def test_drift_passes_on_nothing(call: Call) -> None:
    call("apply", "--yes", "--limit", "node1,leaf1")
    found = call("drift", "--limit", "node2")
    assert found.exit_code == 4
    assert found.stdout.splitlines() == [
        "not compared, as no apply has proved it: node2/eth1",
        "nothing was compared (0 settings compared)",
    ]


def test_drift_is_not_called_none_where_an_apply_failed(call: Call, world: Any) -> None:
    (world.root / "node2/refuse/mtu_bytes").touch()
    call("apply", "--yes")
    found = call("drift")
    assert found.exit_code == 4
    assert found.stdout.splitlines() == [
        "an apply was to set it and did not prove it: node2/eth1, leaf1/eth2",
        "not compared, as no apply has proved it: node2/eth1 and 1 more",
        "nothing differs where an apply was proved (6 settings compared)",
    ]


def test_links_that_change_at_one_end_only_are_named(call: Call) -> None:
    found = call("plan", "--limit", "leaf1")
    said = "changed at one end only: leaf1/eth1 - node1/eth1 and 1 more; for both ends add "
    assert f"{said}node1,node2 to --limit" in found.stderr.splitlines()
    assert "one end" not in call("plan").stderr


def test_a_port_that_is_not_there_is_unknown_and_no_step(call: Call, world: Any) -> None:
    for setting in ("mtu_bytes", "pfc_priorities"):
        world.set(PortId("node2", "eth1"), setting, "unreadable")
    found = call("plan", "--limit", "node2")
    assert found.exit_code == 4
    lines = found.stdout.splitlines()
    assert "could not be read: node2/eth1: unparsable" in lines
    assert lines[-1] == "0 settings to change on 0 devices; 1 port could not be read"
    done = call("apply", "--yes", "--limit", "node2")
    assert done.exit_code == 4
    assert done.stdout.splitlines()[0] == "node2/eth1: not changed: unparsable"
    assert "1 port not read" in done.stdout.splitlines()[-2]


def test_rollback(call: Call, world: Any) -> None:
    call("apply", "--yes")
    result = call("rollback", "--yes")
    assert result.exit_code == 0
    assert world.get("node1/eth1", "mtu_bytes") == "1500"


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90), ("5m", 300), ("1h", 3600), ("45", 45), (None, None)]
)
def test_times(text: str | None, expected: int | None) -> None:
    context = click.Context(apply_command.command)
    assert apply_command.seconds(context, apply_command.command.params[0], text) == expected


@pytest.mark.parametrize("text", ["5", "2d", "-5m", "25h", "", "m"])
def test_impossible_times(text: str) -> None:
    context = click.Context(apply_command.command)
    with pytest.raises(click.BadParameter):
        apply_command.seconds(context, apply_command.command.params[0], text)


@pytest.mark.parametrize("name", ["plan", "apply", "drift", "rollback", "confirm"])
def test_help_teaches_by_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main([name, "--help"]) == 0
    said = capsys.readouterr().out
    assert "Examples:" in said
    assert f"fabricctl {name}" in said
    assert "Exit codes:" in said
