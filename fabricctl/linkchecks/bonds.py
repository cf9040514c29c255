"""The members of a node's bonds are all up, at one speed, and stay up.

One queue pair uses one member only: a member less is that much less for some of them, and none for others.

Passes: the bond has members, all are up, of one speed, and with LACP (mode 802.3ad) in one aggregator.

Fails: a member is down or slower than another, has failed while it was watched, LACP has not joined it to the
others, or there is no member.

Unknown: the kernel does not say what the members are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabricctl.linkparts.ends import End, all_cables
from fabricctl.model import facts
from fabricctl.model.fabric import Device, LinkLayer, Role
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread, partial
from fabricctl.plugin.protocols import Answers, Query
from fabricctl.plugin.surveying import Need, Survey

_KEY = "bond members"
_ASK = """\
for port; do
    [ ! -r "/proc/net/bonding/$port" ] || { echo "== $port"; cat "/proc/net/bonding/$port"; }
done
:
"""
_FAILURES = "Link Failure Count"


@dataclass(frozen=True, slots=True)
class _Member:
    """A member as ``/proc/net/bonding`` has it; the speed in its words (``100000 Mbps``, ``Unknown``)."""

    name: str
    status: str
    speed: str
    failures: int
    aggregator: str


@dataclass(frozen=True)
class _Bonds:
    name: str = "bonds"
    needs: Need = Need.READINGS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for the members of those ports that are bonds."""
        names = [port.id.port for port in device.ports if port.link_layer is LinkLayer.ETHERNET]
        if device.role is not Role.NODE or not names:
            return ()
        return (Query(_KEY, ("sh", "-c", _ASK, "sh", *names), counts=True),)

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return findings about each port that is a bond; none if there is no bond."""
        ends = (end for link in all_cables(survey) for end in link.ends if end.role is Role.NODE)
        return tuple(finding for end in ends for finding in self._of(end))

    def _of(self, end: End) -> tuple[Finding, ...]:
        if end.seen is None or end.seen.error:
            return ()
        now = _members(end, end.seen.later) or _members(end, end.seen.answers)
        if now is None:
            several = end.words(facts.FUNCTIONS)
            if len(several) > 1:
                what = f"{end} is carried by {' and '.join(several)}, the kernel does not say how they do"
                step = f"on {end.port.id.device}: cat /proc/net/bonding/{end.port.id.port}"
                return (Finding(self.name, str(end), Outcome.UNKNOWN, what, next_step=step),)
            return ()
        if isinstance(now, str):
            step = f"on {end.port.id.device}: cat /proc/net/bonding/{end.port.id.port}"
            return (Finding(self.name, str(end), Outcome.UNKNOWN, f"{end}: {now}", next_step=step),)
        told = _members(end, end.seen.answers)
        before = {member.name: member for member in told or () if isinstance(member, _Member)}
        bad = tuple(self._wrong(end, now, before))
        if bad:
            return bad
        speed = now[0].speed
        said = ", ".join(member.name for member in now)
        return (Finding(self.name, str(end), Outcome.PASS, f"{said}: all up, each {speed}"),)

    def _wrong(self, end: End, now: tuple[_Member, ...], before: dict[str, _Member]) -> Iterator[Finding]:
        if not now:
            what, step = f"{end} is a bond without members", f"on {end.port.id.device}: ip link show"
            yield Finding(self.name, str(end), Outcome.FAIL, what, next_step=step, culprit=str(end))
            return
        interval_s = end.seen.interval_s if end.seen is not None else 0.0
        known = {member.name: member.speed for member in now if member.status == "up" and _mbps(member)}
        for member in now:
            was = before.get(member.name, member)
            if member.status != "up":
                what = f"member {member.name} of {end} is {member.status}"
                step = f"see cable and switch port of {end.port.id.device}/{member.name}"
                yield Finding(self.name, str(end), Outcome.FAIL, what, next_step=step)
            elif member.failures > was.failures:
                what = (
                    f"member {member.name} of {end} lost its link {member.failures - was.failures} times "
                    f"in {interval_s:.1f} s"
                )
                step = f"reseat or change the cable of {end.port.id.device}/{member.name}"
                yield Finding(self.name, str(end), Outcome.FAIL, what, next_step=step, interval_s=interval_s)
        if len({member.aggregator for member in now}) > 1:
            said = ", ".join(f"{one.name} is in aggregator {one.aggregator or 'none'}" for one in now)
            what = f"LACP has not joined the members of {end} to one: {said}"
            step = "see that all members are in one LACP port channel at the other end (one switch, or MLAG)"
            yield Finding(self.name, str(end), Outcome.FAIL, what, measured=said, next_step=step)
        if len(set(known.values())) > 1:
            said = ", ".join(f"{name} {speed}" for name, speed in known.items())
            what = f"the members of {end} are not of one speed: {said}"
            step = "give them cables and switch ports of one speed"
            yield Finding(self.name, str(end), Outcome.FAIL, what, measured=said, next_step=step)


def _members(end: End, answers: Answers) -> tuple[_Member, ...] | str | None:
    """Return the members of a bond, or why they are not known; None if the port is none, or was not asked."""
    try:
        said = partial(answers, _KEY)
    except Unread:
        return None
    for part in said.split("== ")[1:]:
        name, _, body = part.partition("\n")
        if name == end.port.id.port:
            head, *blocks = body.split("Slave Interface: ")
            members = tuple(map(_member, blocks))
            if "MII Status:" in head and all(member.status for member in members):
                return members
            return "what the kernel says of its members is not whole"
    return None


def _member(block: str) -> _Member:
    name, *lines = ("".join(filter(str.isprintable, line)) for line in block.splitlines())
    said = {label.strip(): value.strip() for label, _, value in (line.partition(":") for line in lines)}
    failures = said.get(_FAILURES, "")
    return _Member(
        name.strip(),
        said.get("MII Status", ""),
        said.get("Speed", ""),
        int(failures) if failures.isdecimal() else 0,
        said.get("Aggregator ID", ""),
    )


def _mbps(member: _Member) -> int | None:
    number = member.speed.partition(" ")[0]
    return int(number) if number.isdecimal() else None


PLUGIN = _Bonds()
