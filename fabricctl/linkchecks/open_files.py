"""The limit on open files that jobs start with is what the policy asks for.

Every queue pair, completion channel and socket of a job is an open file. Looked at is what starts jobs on
the node, as for ``memlock``. NCCL and Open MPI raise their soft limit to the hard one, so the hard one
decides.

Passes if the hard limit of what starts jobs is at least the policy's ``links.open_files``.
Fails if a hard limit is less; and if only root's own session is there, and PAM's files give all users less
(``*`` in ``limits.conf`` or ``limits.d`` of ``/etc/security``; it does not hold for root, so its session
does not show it).
Unknown if it cannot be read; if the inventory names Slurm and no slurmd runs; if only root's own session is
there and PAM's files give some users or groups less, or that session has less and they give users enough.
"""

from __future__ import annotations

from fabricctl.linkparts import launchers
from fabricctl.linkparts.hosts import each, listed
from fabricctl.linkparts.launchers import OPEN, Launcher, Limit, Users
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
    users = found.users(judged[0], "nofile", wanted, ("hard",))
    if users.low:
        return _of_users(device.name, users, held[0][1], wanted)
    low = [(one, has) for one, has in held if not launchers.enough(has.hard, wanted)]
    if low:
        launcher, has = low[0]
        return _too_few(device.name, users, launcher, has.hard or 0, wanted)
    _, has = min(held, key=lambda item: float("inf") if item[1].hard is None else item[1].hard)
    hard = _files(has.hard)
    raised = "" if launchers.enough(has.soft, wanted) else f" (from {_files(has.soft)}, by itself)"
    what = (
        f"what is started by {listed(str(one) for one, _ in held)} may raise its limit to {hard} open files"
        f"{raised}; the policy asks for {wanted}"
    )
    return Finding(_NAME, device.name, Outcome.PASS, what, hard, limit)


def _files(amount: int | None) -> str:
    return "unlimited" if amount is None else str(amount)


def _of_users(node: str, users: Users, root: Limit, wanted: int) -> Finding:
    """Return what PAM's files that give users less make of a node."""
    what = (
        f"PAM lets {'users' if users.everybody else 'some users'} open {users.least} files "
        f"({listed(map(str, users.low), 2)}), the policy asks for {wanted}; "
        f"root's own session may open {_files(root.hard)}{users.doubt}"
    )
    step = (
        f"on {node}: '* - nofile {wanted}' in place of {listed((one.place for one in users.low), 2)}, "
        "then let users log in anew"
    )
    return Finding(
        _NAME,
        node,
        Outcome.FAIL if users.sure else Outcome.UNKNOWN,
        what,
        measured=str(users.least),
        limit=f">= {wanted}",
        next_step=step if users.sure else f"on {node}, as a user who runs jobs: ulimit -Hn",
        culprit=node if users.sure else "",
    )


def _too_few(node: str, users: Users, launcher: Launcher, hard: int, wanted: int) -> Finding:
    what = f"what is started by {launcher} may open {hard} files, the policy asks for {wanted}"
    if users.lines:
        what = f"{what}; what users get was not seen ({listed(map(str, users.lines), 2)})"
    return Finding(
        _NAME,
        node,
        Outcome.UNKNOWN if users.lines else Outcome.FAIL,
        what,
        measured=str(hard),
        limit=f">= {wanted}",
        next_step=f"on {node}, as a user who runs jobs: ulimit -Hn"
        if users.lines
        else _step(launcher, wanted),
        culprit="" if users.lines else node,
    )


def _step(launcher: Launcher, wanted: int) -> str:
    if not launcher.name:
        return f"a line '* - nofile {wanted}' and one for root in /etc/security/limits.d/rdma.conf"
    unit = "slurmd" if launcher.name.startswith("slurm") else launcher.name
    return f"LimitNOFILE={wanted} in the systemd unit of {unit} (systemctl edit {unit}), then restart it"


PLUGIN = _OpenFiles()
