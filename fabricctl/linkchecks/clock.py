"""Every node's clock agrees with this machine's.

How far a clock is ahead lies between two bounds: it was read after the question was sent and before the
answer was here, so a slow connection makes them wide. Certificates expire by these clocks, and logs of two
nodes can only be laid side by side if they agree.

Passes if both bounds are within the policy's ``links.clock_skew_s``. What keeps the clock in step is told.
Fails if both are beyond it on the same side.
Unknown if only one is, for then the connection was too slow to tell; or if the node did not say its time.
"""

from __future__ import annotations

from fabricctl.linkparts.hosts import each, whole
from fabricctl.model.fabric import Device, Role
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Answers, Query
from fabricctl.plugin.surveying import Clock, Need, Observation, Survey

_NAME = "clock"
_KEEPERS = ("chronyd", "ntpd", "ptp4l", "phc2sys", "systemd-timesyn", "openntpd")
# The kernel keeps 15 characters of a program's name. systemd-timesyncd says by a file that it has the time.
_ASK = f"""\
for one in /proc/[0-9]*/comm; do
    read -r name <"$one" || continue
    case $name in {"|".join(_KEEPERS)}) echo "$name" ;; esac
done 2>/dev/null
[ ! -e /run/systemd/timesync/synchronized ] || echo synchronized
echo done
"""


class _ClockCheck:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask what keeps the clock in step; the time itself is asked of every device."""
        return (Query("timekeepers", ("sh", "-c", _ASK)),) if device.role is Role.NODE else ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge the clock of every node."""
        most_s = survey.rules.clock_skew_s
        return each(self.name, survey, lambda device, seen: (_judge(device.name, seen, most_s),))


def _judge(node: str, seen: Observation, most_s: float) -> Finding:
    kept = _kept(seen.answers)
    step = f"on {node}: chronyc tracking, or timedatectl; let chronyd or systemd-timesyncd run"
    limit = f"<= {most_s:g} s"
    clock = seen.clock
    if clock is None:
        return Finding(_NAME, node, Outcome.UNKNOWN, "it did not say its time", "", limit, next_step=step)
    measured = f"{clock.low_s:+.3f} .. {clock.high_s:+.3f} s"
    what = f"{_said(clock)}, the policy allows {most_s:g} s; {kept}"
    if clock.low_s > most_s or clock.high_s < -most_s:
        return Finding(_NAME, node, Outcome.FAIL, what, measured, limit, next_step=step, culprit=node)
    if clock.low_s < -most_s or clock.high_s > most_s:
        what = f"{what}: the connection was too slow to tell"
        step = "run this again when the node is less busy, or raise links.clock_skew_s of the policy"
        return Finding(_NAME, node, Outcome.UNKNOWN, what, measured, limit, next_step=step)
    return Finding(_NAME, node, Outcome.PASS, what, measured, limit)


def _said(clock: Clock) -> str:
    if clock.low_s >= 0:
        return f"its clock is {clock.low_s:.3f} to {clock.high_s:.3f} s ahead of this machine's"
    if clock.high_s <= 0:
        return f"its clock is {-clock.high_s:.3f} to {-clock.low_s:.3f} s behind this machine's"
    return (
        f"its clock is at most {-clock.low_s:.3f} s behind and {clock.high_s:.3f} s ahead of this machine's"
    )


def _kept(answers: Answers) -> str:
    """Say what keeps the clock in step."""
    try:
        lines = whole(answers, "timekeepers")
    except Unread as exc:
        return f"what keeps it in step is not known ({exc})"
    names = [name for name in _KEEPERS if name in lines]
    if not names:
        return "nothing was seen that keeps it in step"
    has = " and has the time" if "synchronized" in lines else ""
    return f"{', '.join(names).replace('systemd-timesyn', 'systemd-timesyncd')} runs{has}"


PLUGIN = _ClockCheck()
