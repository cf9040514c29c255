"""The limit on locked memory that jobs start with is what the policy asks for.

Verbs lock the memory that they use: with the 64 kB or 8 MB of a stock system a job ends with "Cannot
allocate memory". Jobs inherit the limit from what starts them, so that is looked at: the daemon of a
scheduler on the node (slurmd and its steps, pbs_mom, ...), else the runtime of containers where a kubelet
runs, else this SSH session.

Passes if the soft limit of all of these is at least the policy's ``links.memlock``.
Fails if that of one is less; and if only root's own session is there, and PAM's files give all users less
(``*`` in ``limits.conf`` or ``limits.d`` of ``/etc/security``; it does not hold for root, so its session
does not show it).
Unknown if it cannot be read; if the inventory names Slurm and no slurmd runs; if only root's own session is
there and PAM's files give some users or groups less, or that session has less and they give users enough.
"""

from __future__ import annotations

from fabricctl.linkparts import launchers
from fabricctl.linkparts.hosts import bytes_said, each, listed
from fabricctl.linkparts.launchers import LOCKED, Found, Launcher, Limit, Users
from fabricctl.model.fabric import Device, Role
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Observation, Survey

_STEPS = {
    "slurmd": "LimitMEMLOCK=infinity in slurmd.service (systemctl edit slurmd), "
    "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, then restart slurmd",
    "": "LimitMEMLOCK=infinity for sshd (systemctl edit ssh, or sshd), "
    "and a line '* - memlock unlimited' in /etc/security/limits.d/rdma.conf for users",
}
_NAME = "memlock"


class _Memlock:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for the limits of what starts jobs."""
        return launchers.queries() if device.role is Role.NODE else ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge the limit of every node."""
        return each(self.name, survey, lambda device, seen: (_judge(survey, device, seen),))


def _judge(survey: Survey, device: Device, seen: Observation) -> Finding:
    wanted = survey.rules.memlock_bytes
    limit = f">= {bytes_said(wanted)}" if wanted is not None else "unlimited"
    try:
        found = launchers.read(seen.answers)
        judged = found.judged(survey.fabric)
        launcher, held = launchers.weakest(judged, LOCKED)
    except Unread as exc:
        step = f"on {device.name}: grep locked /proc/$(pgrep -o slurmd)/limits"
        return Finding(_NAME, device.name, Outcome.UNKNOWN, str(exc), limit=limit, next_step=step)
    users = found.users(launcher, "memlock", wanted, ("soft", "hard"))
    if users.low:
        return _of_users(device.name, users, held, wanted, limit)
    measured = bytes_said(held.soft)
    asked = f"the policy asks for {bytes_said(wanted)}"
    if launchers.enough(held.soft, wanted):
        seen_of = listed(str(one) for one in judged)
        what = f"{measured} of locked memory for what is started by {seen_of}; {asked}"
        return Finding(_NAME, device.name, Outcome.PASS, what, measured, limit)
    what = f"{launcher} lets its jobs lock {measured}, {asked}{_whose(found, launcher)}"
    if users.lines:
        what = f"{what}; what users get was not seen ({listed(map(str, users.lines), 2)})"
        step = f"on {device.name}, as a user who runs jobs: ulimit -l"
        return Finding(_NAME, device.name, Outcome.UNKNOWN, what, measured, limit, next_step=step)
    step = _STEPS.get("slurmd" if launcher.name.startswith("slurm") else launcher.name) or (
        f"LimitMEMLOCK=infinity in the systemd unit of {launcher.name}, then restart it"
    )
    return Finding(
        _NAME, device.name, Outcome.FAIL, what, measured, limit, next_step=step, culprit=device.name
    )


def _of_users(node: str, users: Users, root: Limit, wanted: int | None, limit: str) -> Finding:
    """Return what PAM's files that give users less make of a node."""
    measured = bytes_said(users.least)
    what = (
        f"PAM lets {'users' if users.everybody else 'some users'} lock {measured} "
        f"({listed(map(str, users.low), 2)}), the policy asks for {bytes_said(wanted)}; "
        f"root's own session has {bytes_said(root.soft)}{users.doubt}"
    )
    if not users.sure:
        step = f"on {node}, as a user who runs jobs: ulimit -l"
        return Finding(_NAME, node, Outcome.UNKNOWN, what, measured, limit, next_step=step)
    line = f"* - memlock {'unlimited' if wanted is None else -(-wanted // 1024)}"
    places = listed((one.place for one in users.low), 2)
    step = f"on {node}: '{line}' in place of {places}, then let users log in anew"
    return Finding(_NAME, node, Outcome.FAIL, what, measured, limit, next_step=step, culprit=node)


def _whose(found: Found, launcher: Launcher) -> str:
    """Say that the limit of root's session does not hold for root itself."""
    if launcher.name or not found.may_lock:
        return ""
    return "; root itself may lock more (CAP_IPC_LOCK), its users' jobs may not"


PLUGIN = _Memlock()
