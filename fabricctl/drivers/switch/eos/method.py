"""How an EOS switch is changed: a configuration session that is committed with a timer of EOS's own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fabricctl.drivers import lines
from fabricctl.drivers.switch.eos.push import session_lines
from fabricctl.errors import UsageError
from fabricctl.plugin.protocols import PortGoal

_SESSIONS = "show configuration sessions detail | json"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Until 4.31 a session waits in a state of its own; from 4.32 on it is "committed" like all others, and named
# above the list.
_TIMED = r'"pendingCommitTimer"|"commitTimerSessionName": *"[^"]'
_INSIDE = r"(?:[^{}]|\{[^{}]*\})*"
_LOCKED = r"(?i)%.*\blocked\b"
_LONGEST_S = 86_399
_UNKNOWN = "the switch does not show its configuration sessions: what waits to be confirmed is not known"
_WAITS = (
    "another change waits to be confirmed here (show configuration sessions); confirm it or let its timer "
    "revert it"
)


class EosMethod:
    """A :class:`fabricctl.plugin.protocols.Method`; the commit timer restores the whole switch."""

    whole = True

    def push(self, apply_id: str, slot: int, goals: Sequence[PortGoal], within_s: int) -> str:
        """Return the lines that make a session and commit it with a timer.

        What other hands change between the first line and the commit is overwritten: EOS commits a session's
        copy of the whole configuration.
        """
        name = _session(apply_id, f"{slot:04d}")
        return lines.text(
            (
                _SESSIONS,
                *_refuse_others(),
                f"configure session {name}",
                *session_lines(goals),
                "show session-config diffs",
                "end",
                f"configure session {name} commit timer {_clock(within_s)}",
                _SESSIONS,
                lines.require(_waiting(name), f"{name} was not committed with a timer"),
            )
        )

    def revert(self, apply_id: str, ports: Sequence[str]) -> str:
        """Return the lines that abort all sessions of an apply; EOS restores what was before by itself."""
        del ports  # the switch is restored as a whole
        name = _session(apply_id, "[0-9]{4}")
        return lines.text(
            (
                _SESSIONS,
                lines.end_unless(f'"{name}"'),
                lines.each(
                    rf'"({name})": *\{{{_INSIDE}"pending(?:CommitTimer)?"',
                    "configure session {} abort",
                ),
                lines.each(rf'"commitTimerSessionName": *"({name})"', "configure session {} abort"),
                _SESSIONS,
                lines.refuse_if(_waiting(name), f"{_session(apply_id, '*')} was not taken back"),
            )
        )

    def confirm(self, apply_id: str, slots: Sequence[int]) -> str:
        """Return the lines that end the timers and save the configuration, if no other timer runs by then."""
        found: list[str] = []
        for slot in slots:
            name = _session(apply_id, f"{slot:04d}")
            late = f"{name} was reverted before it was confirmed"
            found += [_SESSIONS, lines.require(_waiting(name), late, lines.RC_TOO_LATE)]
            locked = (
                f"the switch's configuration is locked: {name} is not confirmed and reverts by itself "
                "unless a later confirm succeeds"
            )
            found += [
                f"configure session {name} commit",
                lines.allow(_LOCKED),
                lines.refuse_if(_LOCKED, locked),
            ]
            runs = f"the timer of {name} still runs: it reverts by itself"
            found += [_SESSIONS, lines.refuse_if(_waiting(name), runs)]
        unsaved = f"what {apply_id} set was not saved: it holds until the switch boots"
        return lines.text(
            (
                *(found or [_SESSIONS]),
                *_refuse_others(),
                "copy running-config startup-config",
                lines.require("Copy completed successfully", unsaved),
            )
        )


def _refuse_others() -> tuple[str, ...]:
    """Return the rules about the sessions that end where a timer runs, or none is shown to run or not."""
    return lines.require('"sessions"', _UNKNOWN), lines.refuse_if(_TIMED, _WAITS, lines.RC_BUSY)


def _session(apply_id: str, slot: str) -> str:
    if not _ID.fullmatch(apply_id):
        raise UsageError(f"{apply_id!r} is no name of an apply")
    return f"fabricctl-{apply_id}-{slot}"


def _waiting(name: str) -> str:
    """Return the pattern of a session whose timer runs."""
    before = rf'"{name}": *\{{{_INSIDE}"pendingCommitTimer"'
    return rf'{before}|"commitTimerSessionName": *"{name}"'


def _clock(seconds: int) -> str:
    whole = min(max(1, seconds), _LONGEST_S)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
