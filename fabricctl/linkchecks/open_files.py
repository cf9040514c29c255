"""The limit on open files that jobs start with is what the policy asks for.

Every queue pair, completion channel and socket of a job is an open file. Looked at is what starts jobs on
the node, as for ``memlock``. NCCL and Open MPI raise their soft limit to the hard one, so the hard one
decides.

Passes if the hard limit of what starts jobs is at least the policy's ``links.open_files``; where only the
soft limit is less, that is told.
Fails if a hard limit is less.
Unknown if it cannot be read; if the inventory names Slurm and no slurmd runs; and if only root's own session
is there and has less, but PAM's files set another limit for users.
"""

from __future__ import annotations

from fabricctl.linkparts import launchers
from fabricctl.linkparts.hosts import each, listed
from fabricctl.linkparts.launchers import OPEN, Found, Launcher
from fabricctl.model.fabric import Device, Role
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Observation, Survey

_NAME = "open_files"


class _OpenFiles:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for the limits of what starts jobs."""
        return launchers.queries() if device.role is Role.NODE else ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge the limit of every node."""
        return each(self.name, survey, lambda device, seen: (_judge(survey, device, seen),))


def _judge(survey: Survey, device: Device, seen: Observation) -> Finding:
    wanted = survey.rules.open_files
    limit = f">= {wanted}"
    try:
        found = launchers.read(seen.answers)
        judged = found.judged(survey.fabric)
        held = [(one, launchers.weakest((one,), OPEN)[1]) for one in judged]
    except Unread as exc:
        step = f"on {device.name}: grep 'open files' /proc/$(pgrep -o slurmd)/limits"
        return Finding(_NAME, device.name, Outcome.UNKNOWN, str(exc), limit=limit, next_step=step)
    low = [(one, has) for one, has in held if not launchers.enough(has.hard, wanted)]
    if low:
        launcher, has = low[0]
        return _too_few(device.name, found, launcher, has.hard or 0, wanted)
    launcher, has = min(held, key=lambda item: float("inf") if item[1].soft is None else item[1].soft)
    started = f"what is started by {listed(str(one) for one, _ in held)}"
    measured = "unlimited" if has.soft is None else str(has.soft)
    if launchers.enough(has.soft, wanted):
        what = f"{started} may open {measured} files; the policy asks for {wanted}"
        return Finding(_NAME, device.name, Outcome.PASS, what, measured, limit)
    hard = "unlimited" if has.hard is None else str(has.hard)
    what = f"{started} may open {measured} files and raise that to {hard}; the policy asks for {wanted}"
    return Finding(_NAME, device.name, Outcome.PASS, what, measured, limit, next_step=_step(launcher, wanted))


def _too_few(node: str, found: Found, launcher: Launcher, hard: int, wanted: int) -> Finding:
    what = f"what is started by {launcher} may open {hard} files, the policy asks for {wanted}"
    users = found.unseen(launcher, "nofile")
    if users:
        what = f"{what}; what users get was not seen ({listed(users, 2)})"
    return Finding(
        _NAME,
        node,
        Outcome.UNKNOWN if users else Outcome.FAIL,
        what,
        measured=str(hard),
        limit=f">= {wanted}",
        next_step=f"on {node}, as a user who runs jobs: ulimit -Hn" if users else _step(launcher, wanted),
        culprit="" if users else node,
    )


def _step(launcher: Launcher, wanted: int) -> str:
    if not launcher.name:
        return f"a line '* - nofile {wanted}' and one for root in /etc/security/limits.d/rdma.conf"
    unit = "slurmd" if launcher.name.startswith("slurm") else launcher.name
    return f"LimitNOFILE={wanted} in the systemd unit of {unit} (systemctl edit {unit}), then restart it"


PLUGIN = _OpenFiles()
