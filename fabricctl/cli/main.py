"""The command line: subcommands are loaded only when called, errors become one line and an exit code."""

from __future__ import annotations

import importlib
import signal
import sys
import traceback
from types import FrameType

import click

from fabricctl import __version__
from fabricctl.cli.exits import Exit
from fabricctl.errors import (
    BusyError,
    DeadlineError,
    FabricctlError,
    InventoryError,
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
    if isinstance(error, UnreachableError | DeadlineError | StoreError):
        return Exit.UNKNOWN
    return Exit.FAILED


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(argv))


def run(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    SIGTERM is handled as Ctrl-C is, so that a stopped run cleans up in the same way.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = cli.main(args=argv, prog_name="fabricctl", standalone_mode=False)
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else Exit.PASS
    except click.ClickException as exc:
        exc.show()
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("fabricctl: interrupted", err=True)
        return Exit.INTERRUPTED
    except FabricctlError as exc:
        for line in getattr(exc, "lines", None) or (str(exc),):
            click.echo(f"fabricctl: {line}", err=True)
        return exit_code(exc)
    except BrokenPipeError:
        sys.stdout = None  # the reader has gone: nothing more to flush
        return Exit.PASS
    except Exception:  # noqa: BLE001  the outermost boundary: a bug is shown whole, with its own exit code
        traceback.print_exc()
        click.echo("fabricctl: internal error; please report the lines above", err=True)
        return Exit.INTERNAL
    return code if isinstance(code, int) else Exit.PASS


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
