"""Exit codes: part of the interface, the same for every command."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import assert_never

from fabricctl.model.verdict import Outcome, worst


class Exit(IntEnum):
    """What a command's exit status says."""

    PASS = 0
    """Pass, or nothing to do."""
    FAILED = 1
    """A verdict or a check failed, or the gate says no."""
    USAGE = 2
    """A wrong option, or a mistake in an inventory or policy file."""
    PENDING = 3
    """Changes are pending or wait (for a reset, for a node to be free), or a device has drifted."""
    UNKNOWN = 4
    """It could not be measured: unreachable, stale, too few samples."""
    BUSY = 5
    """Another run holds the lock."""
    INTERNAL = 70
    """A bug in fabricctl."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C or a signal."""


def exit_for(outcomes: Iterable[Outcome]) -> Exit:
    """Return the exit code of the worst outcome; no outcome at all is UNKNOWN."""
    outcome = worst(outcomes)
    match outcome:
        case Outcome.PASS:
            return Exit.PASS
        case Outcome.FAIL:
            return Exit.FAILED
        case Outcome.UNKNOWN | Outcome.ERROR:
            return Exit.UNKNOWN
        case _:
            assert_never(outcome)
