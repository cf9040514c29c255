"""How Enterprise SONiC is changed: by lines at ``sonic-cli``, taken back by a timer in the Linux beneath it.

``sonic-cli`` has no session that must be confirmed and no checkpoint that could be gone back to in part: to
copy a saved configuration over the running one restarts the switch's services. But whoever logs in over SSH
lands in the switch's Linux shell and starts ``sonic-cli`` from there (as Dell's Ansible collection and
netmiko do), so a change leaves it for a moment, arms a timer of systemd, and comes back. Where a login leads
into ``sonic-cli`` and nowhere else, or may not ``sudo`` without a password, nothing is changed: no timer, no
change.

None of this was run on hardware; it is from documents and other people's programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fabricctl.drivers import lines
from fabricctl.drivers.switch.dell_sonic import push, script, terms
from fabricctl.errors import UsageError
from fabricctl.plugin.protocols import PortGoal

_NOTHING_DONE = "nothing was changed"
_NO_SHELL = (
    "the switch's Linux shell did not answer (the login must lead to it, and may sudo without a password)"
)
_NEVER = r"(?!)"


class DellSonicMethod:
    """A :class:`fabricctl.plugin.protocols.Method`; its members do what the protocol says."""

    whole = False

    def push(self, apply_id: str, slot: int, goals: Sequence[PortGoal], within_s: int) -> str:
        """Return what arms the timer and then sets the ports."""
        name = script.slot_name(_checked(apply_id), slot)
        terms.check_names([goal.port for goal in goals])
        first = f"! fabricctl push {name} within {int(within_s)} s"
        refused = push.change(goals).refused
        able = [goal for goal in goals if goal.port.id.port not in refused]
        told = _told(name, able, within_s, tuple(refused)) if able else []
        return lines.text([first, *told, *_end(first, refused)])

    def revert(self, apply_id: str, ports: Sequence[str]) -> str:
        """Return what takes back an apply, or only some ports of it."""
        body = script.revert(_checked(apply_id), ports)
        return lines.text([f"! fabricctl revert {apply_id}", *_in_shell(body, "")])

    def confirm(self, apply_id: str, slots: Sequence[int]) -> str:
        """Return what stops the timers and saves the configuration."""
        body = script.confirm(_checked(apply_id), slots)
        first = f"! fabricctl confirm {apply_id}"
        return lines.text([first, *_in_shell(body, ""), "sonic-cli", "terminal length 0", "write memory"])


def _told(name: str, goals: Sequence[PortGoal], within_s: int, refused: Sequence[str]) -> list[str]:
    change = push.change(goals)
    arm = script.arm(name, change.undo, change.common_undo, within_s, refused)
    return [
        *_in_shell(arm, f"; {_NOTHING_DONE}"),
        "sonic-cli",
        "terminal length 0",
        "configure terminal",
        *change.lines,
        "end",
    ]


def _end(comment: str, refused: Mapping[str, str]) -> list[str]:
    """Return what fails a push in the end for the ports of which nothing was told to the switch."""
    why = "\nfabricctl: ".join(f"{port}: {text}" for port, text in refused.items())
    return [comment, lines.require(_NEVER, why)] if refused else []


def _in_shell(body: str, then: str) -> list[str]:
    """Return the lines that leave ``sonic-cli`` and run a script, and what it must have said."""
    busy = "another change waits to be confirmed on the switch; confirm it or let its timer revert it"
    whys = (
        (lines.RC_BUSY, busy),
        (script.RC_NO_CLI, f"no timer could run sonic-cli on the switch{then}"),
        (script.RC_UNARMED, f"the timer that would revert could not be started (systemd-run){then}"),
        (lines.RC_TOO_LATE, "the change was reverted before it was confirmed"),
        (1, "not all of it was done; the switch's timer tries again" if not then else f"/run is full{then}"),
    )
    return [
        "exit",
        script.command(body),
        *(lines.refuse_if(rf"{script.RESULT} {rc}\b", why, rc) for rc, why in whys),
        lines.require(rf"{script.RESULT} 0\b", f"{_NO_SHELL}{then}", script.RC_UNARMED),
    ]


def _checked(apply_id: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", apply_id):
        raise UsageError(f"{apply_id!r} cannot be part of a file's name")
    return apply_id
