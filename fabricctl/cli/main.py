"""The command line: subcommands are loaded only when called, errors become one line and an exit code."""

from __future__ import annotations

import errno
import gc
import importlib
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from types import FrameType

import click

from fabricctl import __version__
from fabricctl.cli.exits import Exit
from fabricctl.cli.streams import patient
from fabricctl.errors import (
    BusyError,
    DeadlineError,
    FabricctlError,
    InventoryError,
    OutputError,
    StoreError,
    UnreachableError,
    UsageError,
)

COMMANDS: dict[str, str] = {
    "init": "Write a commented starter inventory and policy.",
    "check": "Check inventory and policy offline: both ends of every link, and the chain of classes.",
    "plan": "Show what apply would change, how to undo it, and what it disrupts.",
    "apply": "Set NICs and switches as intended, and prove it by reading back.",
    "confirm": "Keep an apply that was started with --confirm-within.",
    "drift": "Say what differs from the last apply, and would it survive a reboot.",
    "rollback": "Restore what was read before an apply.",
    "links": "Check every link and host: state, speed, cabling, errors over an interval, limits.",
    "verify": "Probe pairs of ports with RDMA reads and writes, judge them, and certify what passed.",
    "explain": "Show the evidence behind a mark on a pair, a node or a run, and what to do.",
    "certs": "List, show and revoke certificates.",
    "gate": "May a job run on these nodes, now?",
    "report": "Print a run as text or JSON.",
    "runs": "List what was done, when and by whom.",
    "lab": "Run a small RDMA fabric of virtual machines on this machine.",
}
"""By name: the first line of the command's help; a test holds the two together."""


class LazyGroup(click.Group):
    """A group whose commands are modules of this package, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of a day's work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of the command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"fabricctl.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fabricctl")
def cli() -> None:
    """Set up, prove and guard the RDMA fabric of a GPU cluster.

    \b
    A first day:
      fabricctl init                      inventory.yml and policy.yml to fill in
      fabricctl check                     are they sound? (contacts nothing)
      fabricctl plan                      what would change on NICs and switches?
      fabricctl apply                     set it, and prove it by reading back
      fabricctl links                     is every link what it should be, and without errors?
      fabricctl verify --pairs all        probe every pair, certify every port
      fabricctl gate --nodes node1,node2  may a job run there?

    \b
    No cluster at hand: "fabricctl lab up" boots a small one on this machine.

    \b
    Exit codes: 0 pass or nothing to do, 1 failed, 2 usage or inventory error, 3 changes
    pending or drift, 4 unknown, 5 busy, 70 internal error, 130 interrupted.
    """


def exit_code(error: FabricctlError) -> Exit:
    """Return the exit code that belongs to an error."""
    if isinstance(error, UsageError | InventoryError):
        return Exit.USAGE
    if isinstance(error, BusyError):
        return Exit.BUSY
    if isinstance(error, UnreachableError | DeadlineError | StoreError | OutputError):
        return Exit.UNKNOWN
    return Exit.FAILED


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit.

    After an interrupt nobody waits for threads whose devices have yet to answer.
    """
    # Reading a large fabric makes millions of values and hardly a cycle: looking for those takes a tenth.
    gc.set_threshold(100_000, 50, 100)
    code = run(argv)
    if code == Exit.INTERRUPTED:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def run(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    SIGTERM and SIGHUP (the terminal is gone) are handled as Ctrl-C is, so that a stopped run cleans up in the
    same way; a signal that whoever called us has made us ignore (as nohup does) stays ignored. A command that
    was called with ``--json`` and ends by an error says so as JSON too.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    with patient() as out:
        code, errors = _call(argv)
        # What the command printed is a whole answer already; a second one would not be JSON any more.
        words = sys.argv[1:] if argv is None else argv
        if errors and out is not None and not out.used and "--json" in words and wants_json(words):
            with suppress(OutputError):
                click.echo(_as_json(code, errors))
    return code


Errors = tuple[FabricctlError, ...]


def _call(argv: list[str] | None) -> tuple[int, Errors]:
    """Call the command; return its exit code and the errors it ended by, told on standard error."""
    try:
        code = cli.main(args=argv, prog_name="fabricctl", standalone_mode=False)
    except SystemExit as exc:
        return (exc.code if isinstance(exc.code, int) else Exit.PASS), ()
    except click.ClickException as exc:
        exc.show()
        return Exit.USAGE, (_usage(exc),)
    except (click.Abort, KeyboardInterrupt):
        click.echo("fabricctl: interrupted", err=True)
        return Exit.INTERRUPTED, (FabricctlError("interrupted"),)
    except FabricctlError as exc:
        return _told(exc)
    except Exception as exc:  # noqa: BLE001  the outermost boundary: a bug is shown whole, with its own exit code
        if isinstance(exc, OSError) and exc.errno in {errno.ENOSPC, errno.EDQUOT}:
            where = str(exc.filename or "")
            return _told(OutputError("no space is left", where=where, next_step="make room on the disk"))
        click.echo(traceback.format_exc(), err=True, nl=False)
        click.echo("fabricctl: internal error; please report the lines above", err=True)
        step = "please report the lines on standard error"
        return Exit.INTERNAL, (FabricctlError(f"internal error: {type(exc).__name__}", next_step=step),)
    return (code if isinstance(code, int) else Exit.PASS), ()


def _told(error: FabricctlError) -> tuple[int, Errors]:
    for line in getattr(error, "lines", None) or (str(error),):
        click.echo(f"fabricctl: {line}", err=True)
    return exit_code(error), (error, *getattr(error, "others", ()))


def _usage(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "fabricctl"
    return UsageError(error.format_message(), where=where, next_step=f'see "{where} --help"')


def wants_json(words: list[str]) -> bool:
    """Say whether a command line asks for JSON: not where --json is for a program that is run elsewhere."""
    given = words[: words.index("--")] if "--" in words else words
    command: click.Command | None = cli
    for word in given:
        if isinstance(command, click.Group) and not word.startswith("-"):
            try:
                command = command.get_command(click.Context(command), word)
            except Exception:  # noqa: BLE001  a bug that kept the command from loading was told already
                break
    foreign = command is not None and command.context_settings.get("ignore_unknown_options")
    return "--json" in given and not foreign


def _as_json(code: int, errors: Errors) -> str:
    shown = [
        {"what": " ".join(e.what.split()), "where": e.where, "next_step": " ".join(e.next_step.split())}
        for e in errors
    ]
    others = {"others": shown[1:]} if len(shown) > 1 else {}
    return json.dumps({"error": shown[0], **others, "exit_code": int(code)}, indent=2, ensure_ascii=False)


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
