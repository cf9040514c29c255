"""How a Nexus 9000 is changed: by lines at its command line, with a checkpoint and a timer of its scheduler.

NX-OS has no commit that must be confirmed, except in ``configure replace ... commit-timeout``, which takes a
file that holds the whole configuration of the device. And its event manager has no timers. So the revert is
a job of its scheduler (``feature scheduler``) that runs once: ``rollback running-config checkpoint``. All of
this is from Cisco's documents alone. What follows from it:

- Scheduler and schedule come before the checkpoint, so that going back to it does not take away the job that
  does it. The feature stays on. Job and schedule of a timer that has fired go with the next change.
- The scheduler knows minutes: a device reverts by up to a minute early, but not within the first minute. Its
  clock must not jump.
- Where users are authenticated by a remote server, the scheduler wants ``scheduler aaa-authentication`` set
  first; without it NX-OS refuses the job, and nothing is changed.
- A checkpoint is of the whole device: what others change in the meantime is taken back too.

The playbook puts the device's time plus the seconds of the first line in the place of ``@REVERT_AT@``. Lines
that begin with ``!fabricctl`` say what the answer to the line before them has to be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fabricctl.drivers import lines
from fabricctl.drivers.switch.nxos import push, terms
from fabricctl.errors import UsageError
from fabricctl.plugin.protocols import PortGoal

_LONGEST = 31
"""Characters of the name of a job of NX-OS's scheduler."""
_SCHEDULES = "show scheduler schedule"
_SCHEDULER = "show running-config | include scheduler"
_CHECKPOINTS = "show checkpoint summary"
_NOT_RUN = r"(?:(?!Schedule Name)[\s\S])*?(?:Yet to be executed|-NA-)"
"""What a schedule shows that has not run yet, up to the next schedule."""
_WAITS = "another change waits to be confirmed here; confirm it or let its timer revert it"
_SAVE = ("copy running-config startup-config", lines.require("Copy complete", "it was not saved"))


class NxosMethod:
    """A :class:`fabricctl.plugin.protocols.Method`; its members do what the protocol says."""

    whole = True

    def push(self, apply_id: str, slot: int, goals: Sequence[PortGoal], within_s: int) -> str:
        """Return what arms the revert and then sets the ports."""
        del slot  # a device that is taken back as a whole has one change that waits, and no more
        name = change_name(apply_id)
        return lines.text(
            (
                f"! fabricctl {apply_id} within {int(within_s)}",
                _SCHEDULES,
                # Without the feature there is no such command, and nothing waits.
                lines.allow("Invalid"),
                lines.refuse_if(rf"Schedule Name\s*: {terms.OURS}{_NOT_RUN}", _WAITS, lines.RC_BUSY),
                *_forget(terms.OURS + r"[\w-]+"),
                "configure terminal",
                "feature scheduler",
                f"scheduler job name {name}",
                f"rollback running-config checkpoint {name} atomic",
                "end-job",
                f"scheduler schedule name {name}",
                f"job name {name}",
                "time start @REVERT_AT@",
                "end",
                f"checkpoint {name}",
                "configure terminal",
                *push.configuration(goals),
                "end",
            )
        )

    def revert(self, apply_id: str, ports: Sequence[str]) -> str:
        """Return what goes back to the checkpoint, and takes timer and checkpoint away."""
        del ports
        name = change_name(apply_id)
        back = lines.each(rf"({name})(?![\w-])", "rollback running-config checkpoint {} atomic")
        return lines.text((f"! fabricctl {apply_id}", _CHECKPOINTS, back, *_forget(name)))

    def confirm(self, apply_id: str, slots: Sequence[int]) -> str:
        """Return what takes timer and checkpoint away and saves; without slots only what saves."""
        name = change_name(apply_id)
        if not slots:
            return lines.text((f"! fabricctl {apply_id}", *_SAVE))
        late = f"{apply_id} was reverted before it was confirmed"
        # A confirm that broke off has left the checkpoint and no schedule: it goes on from there.
        armed = rf"Schedule Name\s*: {name}(?![\w-]){_NOT_RUN}|^(?![\s\S]*{name}(?![\w-]))"
        return lines.text(
            (
                f"! fabricctl {apply_id}",
                _CHECKPOINTS,
                lines.require(rf"{name}(?![\w-])", late, lines.RC_TOO_LATE),
                _SCHEDULES,
                lines.require(armed, late, lines.RC_TOO_LATE),
                *_disarm(name),
                *_SAVE,
                f"no checkpoint {name}",
            )
        )


def change_name(apply_id: str) -> str:
    """Return how checkpoint, job and schedule of a change are called; UsageError if that is no name."""
    name = f"{terms.OURS}{apply_id}"
    if len(name) > _LONGEST or not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise UsageError(f"{apply_id!r} cannot be part of a name on NX-OS")
    return name


def _forget(name: str) -> tuple[str, ...]:
    """Return what takes timers and checkpoints away whose name is of a pattern; having none is no error."""
    gone = lines.each(rf"(?<![\w-])({name})(?![\w-])", "no checkpoint {}")
    return (*_disarm(name), _CHECKPOINTS, gone)


def _disarm(name: str) -> tuple[str, ...]:
    kinds = (rf"scheduler ({kind} name {name})(?![\w-])" for kind in ("schedule", "job"))
    gone = (lines.each(pattern, "no scheduler {}") for pattern in kinds)
    return ("configure terminal", _SCHEDULER, *gone, "end")
