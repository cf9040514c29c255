"""How a Nexus 9000 is changed: by lines at its command line, with a checkpoint and a timer of its scheduler.

NX-OS has no commit that must be confirmed, except in ``configure replace ... commit-timeout``, which takes a
file that holds the whole configuration of the device. And its event manager has no timers. So the revert is
a job of its scheduler (``feature scheduler``) that runs once: ``rollback running-config checkpoint``. All of
this is from Cisco's documents alone. What follows from it:

- Scheduler and schedule come before the checkpoint, so that going back to it does not take away the job that
  does it. The feature stays on. Job and schedule of a timer that has fired go with the next change.
- Two timers on one device would take back each other's change: while one is armed nothing else is pushed or
  saved. It is armed unless it has run, or its time is past by the device's own clock (``nxos.timers``).
- The scheduler knows minutes, and takes none that has begun: a device never reverts before its time, but up
  to a minute late, and never within the first minute. Its clock must not jump.
- Where users are authenticated by a remote server, the scheduler wants ``scheduler aaa-authentication`` set
  first; without it NX-OS refuses the job, and nothing is changed.
- A checkpoint is of the whole device: what others change in the meantime is taken back too.
- Nothing is set before the device shows the checkpoint, the job and the schedule that waits.

The playbook puts the minute of the device's time plus the seconds of the first line in the place of
``@REVERT_AT@``, rounded down; a minute was added to the seconds, so that is never before the time meant.
Lines that begin with ``!fabricctl`` say what the answer to the line before them has to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricctl.drivers import lines
from fabricctl.drivers.switch.nxos import push, terms, timers
from fabricctl.drivers.switch.nxos.timers import Timer
from fabricctl.errors import UsageError
from fabricctl.plugin.protocols import PortGoal

RC_UNARMED = 77
"""What would revert could not be armed: nothing was set."""
_LONGEST = 31
"""Characters of the name of a job of NX-OS's scheduler."""
_MINUTE_S = 60
_ALL = terms.OURS + r"[\w-]+"
_SCHEDULES = "show scheduler schedule"
_SCHEDULER = "show running-config | include scheduler"
_CHECKPOINTS = "show checkpoint summary"
_SAME = r"(?:(?!Schedule Name)[\s\S])*?"
"""What is shown of a schedule, up to the next."""
_NOT_RUN = rf"{_SAME}(?:Yet to be executed|-NA-)"
# Without the feature there is no such command, and nothing waits.
_IF_FEATURE = lines.allow("Invalid")
_WAITS = (
    'another apply waits to be confirmed here, "show scheduler schedule" names it: confirm it or let it'
    ' revert; if it is over, "no scheduler schedule name" ends its timer'
)
_UNARMED = "the timer that would revert could not be started; nothing was changed"
_SAVE = ("copy running-config startup-config", lines.require("Copy complete", "it was not saved"))


class NxosMethod:
    """A :class:`fabricctl.plugin.protocols.Method`; its members do what the protocol says."""

    whole = True

    def push(self, apply_id: str, slot: int, goals: Sequence[PortGoal], within_s: int) -> str:
        """Return what arms the revert and then sets the ports."""
        del slot  # a device that is taken back as a whole has one change that waits, and no more
        name = change_name(apply_id)
        told = next((goal.before[terms.TIMERS] for goal in goals if terms.TIMERS in goal.before), ())
        return lines.text(
            (
                f"! fabricctl {apply_id} within {int(within_s) + _MINUTE_S}",
                *_refuse_if_armed(timers.read(told)),
                *_forget(_ALL),
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
                *_require_armed(name),
                "configure terminal",
                *push.configuration(goals),
                "end",
            )
        )

    def revert(self, apply_id: str, ports: Sequence[str]) -> str:
        """Return what goes back to the checkpoint, and takes timer and checkpoint away."""
        del ports
        name = change_name(apply_id)
        # A timer that has done it does not do it twice: others may have set something since.
        done = lines.each(_schedule(f"({name})") + rf"(?![\w-]){_SAME}Success", "no checkpoint {}")
        back = lines.each(rf"({name})(?![\w-])", "rollback running-config checkpoint {} atomic")
        return lines.text(
            (
                f"! fabricctl {apply_id}",
                *(_SCHEDULES, _IF_FEATURE, done),
                *(_CHECKPOINTS, back),
                *_forget(name),
            )
        )

    def confirm(self, apply_id: str, slots: Sequence[int]) -> str:
        """Return what takes timers and checkpoints away and saves; without slots nothing of its own is there.

        What is saved never holds a timer: one that is over goes first, and with one that is armed nothing is
        saved.
        """
        name = change_name(apply_id)
        if not slots:
            return lines.text((f"! fabricctl {apply_id}", *_refuse_if_armed(()), *_forget(_ALL), *_SAVE))
        late = f"{apply_id} was reverted before it was confirmed"
        own = rf"{name}(?![\w-])"
        # A confirm that broke off has left the checkpoint and no schedule: it goes on from there.
        armed = rf"{_schedule(own)}{_NOT_RUN}|^(?![\s\S]*{own})"
        return lines.text(
            (
                f"! fabricctl {apply_id}",
                _CHECKPOINTS,
                lines.require(own, late, lines.RC_TOO_LATE),
                _SCHEDULES,
                lines.require(armed, late, lines.RC_TOO_LATE),
                _refuse_others((name,)),
                *_forget(_ALL, but=name),
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


def _refuse_if_armed(known: Sequence[Timer]) -> Iterator[str]:
    """Walk what ends before anything is changed if a timer is armed.

    Parameters
    ----------
    known
        As the device was read: those that wait can be named, and those whose time is past are not armed.
    """
    yield _SCHEDULES
    yield _IF_FEATURE
    for timer in known:
        if not timer.over:
            pattern = rf"{_schedule(re.escape(timer.name))}(?![\w-]){_NOT_RUN}"
            yield lines.refuse_if(pattern, _named(timer), lines.RC_BUSY)
    yield _refuse_others([timer.name for timer in known if timer.over])


def _refuse_others(but: Sequence[str]) -> str:
    """Return the rule about schedules that ends if a timer is armed that is none of these."""
    names = "|".join(map(re.escape, but))
    others = rf"(?!(?:{names})(?![\w-]))" if names else ""
    return lines.refuse_if(_schedule(f"{others}{terms.OURS}") + _NOT_RUN, _WAITS, lines.RC_BUSY)


def _require_armed(name: str) -> Iterator[str]:
    """Walk what ends before anything is set unless checkpoint, job and schedule are there and wait."""
    own = rf"{name}(?![\w-])"
    # By the name of the job in the table under it, which a schedule without a job does not have.
    waits = rf"{_schedule(own)}{_SAME}Schedule Type\s*: Run once[^\n]*\d{_NOT_RUN}{_SAME}{own}"
    shown = {
        _CHECKPOINTS: rf"(?<![\w-]){own}",
        f"show running-config | include {name}": f"rollback running-config checkpoint {own}",
        _SCHEDULES: waits,
    }
    for line, pattern in shown.items():
        yield line
        yield lines.require(pattern, _UNARMED, RC_UNARMED)


def _named(timer: Timer) -> str:
    until = "" if timer.start == timers.UNKNOWN else f", until {timer.start} by the switch's clock"
    return (
        f"apply {timer.apply_id} waits to be confirmed here{until}: confirm it or let it revert;"
        f' if it is over, "no scheduler schedule name {timer.name}" ends its timer'
    )


def _schedule(name: str) -> str:
    return rf"Schedule Name\s*: {name}"


def _forget(name: str, but: str = "") -> tuple[str, ...]:
    """Return what takes timers and checkpoints away whose name is of a pattern; having none is no error.

    Parameters
    ----------
    but
        The checkpoint that is left.
    """
    kinds = (rf"scheduler ({kind} name {name})(?![\w-])" for kind in ("schedule", "job"))
    disarmed = (lines.each(pattern, "no scheduler {}") for pattern in kinds)
    others = rf"(?!{but}(?![\w-]))" if but else ""
    gone = lines.each(rf"(?<![\w-])({others}{name})(?![\w-])", "no checkpoint {}")
    return ("configure terminal", _SCHEDULER, *disarmed, "end", _CHECKPOINTS, gone)
