from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from fabricctl.cli import common, main
from fabricctl.cli.exits import Exit, exit_for
from fabricctl.errors import (
    BusyError,
    DeadlineError,
    FabricctlError,
    InventoryError,
    StoreError,
    UnreachableError,
    UsageError,
)
from fabricctl.model.verdict import Outcome


@pytest.mark.parametrize("name", sorted(main.COMMANDS))
def test_the_listed_help_is_the_commands_own(name: str) -> None:
    command = importlib.import_module(f"fabricctl.cli.{name}").command
    assert isinstance(command, click.Command)
    first = (command.help or "").strip().split("\n\n")[0]
    assert re.sub(r"\s+", " ", first) == main.COMMANDS[name]


def _imported(arguments: list[str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}


def test_help_imports_nothing_heavy() -> None:
    loaded = _imported(["-m", "fabricctl", "--help"])
    assert "click" in loaded
    assert not loaded & {"paramiko", "ansible", "ansible_runner", "pydantic", "jinja2", "yaml", "sqlite3"}


def test_the_gate_imports_nothing_heavy(tmp_path: Path) -> None:
    loaded = _imported(["-m", "fabricctl.gate.command", "--store", str(tmp_path / "none"), "--nodes", "n1"])
    assert "sqlite3" in loaded
    assert not loaded & {"paramiko", "ansible", "ansible_runner", "pydantic", "jinja2", "yaml", "click"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), Exit.USAGE),
        (InventoryError("x", where="f:1"), Exit.USAGE),
        (BusyError("x"), Exit.BUSY),
        (UnreachableError("x", device="d"), Exit.UNKNOWN),
        (DeadlineError("x", device="d", after_s=1.0), Exit.UNKNOWN),
        (StoreError("x"), Exit.UNKNOWN),
    ],
)
def test_the_exit_code_of_an_error(error: FabricctlError, code: Exit) -> None:
    assert main.exit_code(error) is code


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], Exit.UNKNOWN),
        ([Outcome.PASS], Exit.PASS),
        ([Outcome.PASS, Outcome.UNKNOWN], Exit.UNKNOWN),
        ([Outcome.ERROR, Outcome.PASS], Exit.UNKNOWN),
        ([Outcome.UNKNOWN, Outcome.FAIL], Exit.FAILED),
    ],
)
def test_the_exit_code_of_outcomes(outcomes: list[Outcome], code: Exit) -> None:
    assert exit_for(outcomes) is code


def _run_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise error

    monkeypatch.setattr(main.cli, "main", fail)
    return main.run([])


def test_an_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code = _run_with(monkeypatch, InventoryError("unknown key", where="f.yml:3", next_step="remove it"))
    assert code == Exit.USAGE
    assert capsys.readouterr().err == "fabricctl: f.yml:3: unknown key; remove it\n"


def test_a_bug_is_shown_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run_with(monkeypatch, RuntimeError("boom")) == Exit.INTERNAL
    assert "RuntimeError: boom" in capsys.readouterr().err


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run_with(monkeypatch, KeyboardInterrupt()) == Exit.INTERRUPTED


def test_after_an_interrupt_nobody_waits_for_threads() -> None:
    script = """
import threading, time
from fabricctl.cli import main
main.run = lambda argv: print("said") or main.Exit.INTERRUPTED
threading.Thread(target=time.sleep, args=(60,)).start()
main.main([])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout) == (130, "said\n")


@pytest.mark.parametrize("words", [["runs"], ["runs", "--json"]])
def test_a_bug_that_keeps_a_command_from_loading_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def broken(name: str) -> None:
        raise TypeError(name)

    monkeypatch.setattr(main.importlib, "import_module", broken)
    assert main.run(words) == Exit.INTERNAL


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["aply"]) == Exit.USAGE
    assert "aply" in capsys.readouterr().err


def test_the_last_inventory_is_remembered_beside_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "mine" / "store.sqlite"))
    inventory = tmp_path / "site.yml"
    inventory.touch()
    with pytest.raises(UsageError, match="no inventory was named"):
        common.find_inventory(None)
    common.remember_inventory(inventory)
    assert common.find_inventory(None) == inventory
    assert (tmp_path / "mine" / "last-inventory").read_text() == f"{inventory}\n"
