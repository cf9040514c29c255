"""How a command ends: errors as JSON, output that cannot be written, signals that are ignored."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from fabricctl.cli import main
from fabricctl.cli.exits import Exit
from fabricctl.errors import BusyError, FabricctlError, InventoryError, StoreError
from fabricctl.inventory.problems import InventoryFileError
from fabricctl.model.run import RunKind
from fabricctl.store import Store

PASSES_ON = ["lab", "ssh"]
"""What follows here is for a program on a node."""


def _paths(command: click.Command, path: list[str]) -> Iterator[list[str]]:
    yield path
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _paths(child, [*path, name])


EVERY = [
    path
    for name in main.COMMANDS
    for path in _paths(importlib.import_module(f"fabricctl.cli.{name}").command, [name])
]


def _error(text: str) -> dict[str, Any]:
    said = json.loads(text)
    assert set(said) <= {"error", "others", "exit_code"}
    assert set(said["error"]) == {"what", "where", "next_step"}
    return dict(said)


@pytest.mark.parametrize("path", [p for p in EVERY if p != PASSES_ON], ids=" ".join)
def test_every_command_says_a_usage_error_as_json(
    path: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([*path, "--json", "--no-such-option"]) == Exit.USAGE
    printed = capsys.readouterr()
    said = _error(printed.out)
    assert said["exit_code"] == 2
    assert said["error"]["what"].startswith("No such option")
    assert said["error"]["where"] == " ".join(["fabricctl", *path])
    assert said["error"]["next_step"] == f'see "fabricctl {" ".join(path)} --help"'
    assert "No such option" in printed.err


def test_an_unknown_command_is_said_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["aply", "--json"]) == Exit.USAGE
    assert "aply" in _error(capsys.readouterr().out)["error"]["what"]


@pytest.mark.parametrize("words", [["runs"], ["runs", "--", "--json"], [*PASSES_ON, "n", "cmd", "--json"]])
def test_json_is_printed_only_where_it_was_asked_for(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main.cli, "main", _raising(StoreError("no")))
    assert main.run(words) == Exit.UNKNOWN
    assert capsys.readouterr().out == ""


def _raising(error: BaseException) -> Any:
    def fail(**_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "what", "where"),
    [
        (BusyError("a run is\n at work", where="i.yml", next_step="wait"), 5, "a run is at work", "i.yml"),
        (KeyboardInterrupt(), 130, "interrupted", ""),
        (RuntimeError("boom"), 70, "internal error: RuntimeError", ""),
        (OSError(28, "No space left on device", "/x"), 4, "no space is left", "/x"),
        (FabricctlError("no"), 1, "no", ""),
    ],
)
def test_errors_are_json_with_their_exit_code(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    what: str,
    where: str,
) -> None:
    monkeypatch.setattr(main.cli, "main", _raising(error))
    assert main.run(["runs", "--json"]) == code
    printed = capsys.readouterr()
    said = _error(printed.out)
    assert (said["exit_code"], said["error"]["what"], said["error"]["where"]) == (code, what, where)
    assert printed.err.splitlines()[-1].startswith("fabricctl: ")


def test_all_mistakes_of_a_file_are_in_the_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = InventoryFileError([InventoryError(what, where=f"f:{what}") for what in "123"])
    monkeypatch.setattr(main.cli, "main", _raising(error))
    assert main.run(["check", "--json"]) == Exit.USAGE
    said = _error(capsys.readouterr().out)
    assert [said["error"]["what"], *(other["what"] for other in said["others"])] == ["1", "2", "3"]


def test_what_has_been_printed_stays_one_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(**_: object) -> None:
        click.echo("[]")
        raise StoreError("no")

    monkeypatch.setattr(main.cli, "main", show)
    assert main.run(["plan", "--json"]) == Exit.UNKNOWN
    assert capsys.readouterr().out == "[]\n"


@pytest.mark.parametrize("words", [["gate", "--json"], ["report", "--json"], ["explain", "--json", "n1"]])
def test_commands_that_find_nothing_say_so_as_json(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    code = main.run(words)
    said = _error(capsys.readouterr().out)
    assert said["exit_code"] == code
    assert said["error"]["next_step"]


# Where the output goes

OUTPUTS = {
    "a closed pipe": "import os; r, w = os.pipe(); os.close(r); os.dup2(w, 1)",
    "a full disk": "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1)",
    "nothing": "import os; os.close(1)",
}


def _run(words: list[str], output: str, *, module: str = "fabricctl") -> subprocess.CompletedProcess[str]:
    program = (
        f"{OUTPUTS[output]}; os.execv({sys.executable!r}, [{sys.executable!r}, '-m', {module!r}, *{words!r}])"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "store.sqlite"))
    with Store.open() as opened:
        for _ in range(3):
            opened.begin(RunKind.APPLY, "ops", "/i.yml")
    return tmp_path


@pytest.mark.usefixtures("store")
def test_a_reader_that_has_left_changes_no_exit_code() -> None:
    done = _run(["runs"], "a closed pipe")
    assert (done.returncode, done.stderr) == (0, "")
    done = _run(["explain", "node1"], "a closed pipe")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    done = _run(["runs", "--json", "--limit", "none"], "a closed pipe")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("store")
def test_a_full_disk_is_one_line_and_unknown() -> None:
    done = _run(["runs"], "a full disk")
    assert done.returncode == 4
    assert done.stderr == (
        "fabricctl: the output cannot be written: No space left on device; send it elsewhere\n"
    )


@pytest.mark.usefixtures("store")
def test_a_closed_output_is_silent() -> None:
    assert (_run(["runs"], "nothing").returncode, _run(["runs"], "nothing").stderr) == (0, "")


def test_messages_that_nobody_reads_do_not_end_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stderr", gone)

        def work(**_: object) -> int:
            for _ in range(3):
                click.echo("progress", err=True)
            return 3

        monkeypatch.setattr(main.cli, "main", work)
        assert main.run(["apply"]) == 3
        monkeypatch.undo()


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", [True, False])
def test_a_signal_that_was_ignored_from_the_beginning_stays_so(
    monkeypatch: pytest.MonkeyPatch,
    ignored: bool,  # noqa: FBT001
    number: signal.Signals,
) -> None:
    seen: list[object] = []
    monkeypatch.setattr(main.cli, "main", lambda **_: seen.append(signal.getsignal(number)))
    others = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        main.run([])
    finally:
        for other, handler in others.items():
            signal.signal(other, handler)
    assert (seen == [signal.SIG_IGN]) is ignored


def test_an_interrupt_that_was_ignored_from_the_beginning_stays_so() -> None:
    program = (
        "import os, signal, sys; from fabricctl.cli import main; import fabricctl.cli.runs as runs;"
        "main.cli.main = lambda **_: os.kill(os.getpid(), signal.SIGINT);"
        "sys.exit(main.run([]))"
    )
    for handler, code in ((signal.SIG_IGN, 0), (signal.SIG_DFL, 130)):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            preexec_fn=lambda handler=handler: signal.signal(signal.SIGINT, handler),
        )
        assert done.returncode == code, done.stderr
