"""Whether InfiniBand ports wait for credits or discard packets that waited too long: congestion, no fault.

PortXmitWait counts how often a port had something to send and no credit. PortXmitDiscards are told by their
reason where the port has one: packets that waited too long (head-of-queue lifetime) are congestion, those of
a port that was down are not.

Passes always where the counters were read: a rate of discards above the policy's ``links.congestion_per_s``
is told as a note.
Unknown if a port was not read, if a counter went back, and if it is full.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabricctl.linkparts.subnets import Cable, End, cables, each, full, idle, risen
from fabricctl.model.fabric import Device
from fabricctl.model.subnet import Subnet
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_NAME = "ib_congestion"
_WAIT, _DISCARDS = "PortXmitWait", "PortXmitDiscards"
_COUNTERS = (_WAIT, _DISCARDS, "PortRcvSwitchRelayErrors", "VL15Dropped", "QP1Dropped")
_REASONS = {
    "PortInactiveDiscards": "the port was down",
    "PortNeighborMTUDiscards": "they were larger than the other end's MTU",
    "PortSwLifetimeLimitDiscards": "they were too long in the switch",
    "PortSwHOQLifetimeLimitDiscards": "they waited too long at the head of the queue",
}


class _Congestion:
    name = _NAME
    needs = Need.SUBNETS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Nothing: the subnet is looked at from one host."""
        del device
        return ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge every cable of every plane."""
        return each(self.name, "counters", survey, _judge)


def _judge(survey: Survey, subnet: Subnet) -> Iterator[Finding]:
    for cable in cables(survey, subnet):
        yield _cable(survey, subnet, cable)


def _cable(survey: Survey, subnet: Subnet, cable: Cable) -> Finding:
    limit = survey.rules.congestion_per_s
    said: list[str] = []
    told = False
    for end in cable.ends:
        gap = _gap(subnet, end)
        if gap:
            return _finding(subnet, cable, Outcome.UNKNOWN, gap, next_step=_gap_step(end))
        if end.key is not None and idle(subnet, end.key):
            continue
        for counter, rise in _rises(subnet, end):
            told |= counter != _WAIT and rise > limit * subnet.interval_s
            rate = f"{rise / subnet.interval_s:.4g}/s"
            said.append(f"{end.label}: {counter} rose by {rise} ({rate}){_why(subnet, end, counter)}")
    seconds = f"in {subnet.interval_s:.1f} s"
    if not said:
        return _finding(subnet, cable, Outcome.PASS, f"nothing waited and nothing was discarded {seconds}")
    what = f"{'; '.join(said)} {seconds}"
    step = "see who sends to the ports behind it, and whether routes are even (ib_routing)" if told else ""
    return _finding(subnet, cable, Outcome.PASS, what, f"{limit:g}/s", step)


def _gap(subnet: Subnet, end: End) -> str:
    """Return why the counters of an end are not known; empty if they are."""
    if end.key is None:
        return f"{end.label} was not seen, and its counters not read"
    if idle(subnet, end.key):
        return ""
    for counter in _COUNTERS:
        rise = risen(subnet, end.key, counter)
        if isinstance(rise, str):
            return f"{end.label}: {rise}"
    stuck = full(subnet, end.key, _COUNTERS)
    return f"{end.label}: {', '.join(stuck)} full: what came since is not counted" if stuck else ""


def _gap_step(end: End) -> str:
    if end.port is None:
        return "see why ib_links did not see it"
    where = f"{end.port.lid or 'LID'} {end.port.number}"
    return f"read the port by hand (perfquery {where}); if a counter is full, clear it (perfquery -R {where})"


def _rises(subnet: Subnet, end: End) -> Iterator[tuple[str, int]]:
    for counter in _COUNTERS:
        rise = risen(subnet, end.key, counter) if end.key is not None else 0
        if isinstance(rise, int) and rise:
            yield counter, rise


def _why(subnet: Subnet, end: End, counter: str) -> str:
    """Return the reasons that the port gives for its discards."""
    if counter != _DISCARDS or end.key is None:
        return ""
    rises = {name: risen(subnet, end.key, name) for name in _REASONS}
    given = [
        f"{rise} since {_REASONS[name]}" for name, rise in rises.items() if isinstance(rise, int) and rise
    ]
    return f": {', '.join(given)}" if given else ""


def _finding(
    subnet: Subnet, cable: Cable, outcome: Outcome, what: str, limit: str = "", next_step: str = ""
) -> Finding:
    return Finding(
        _NAME,
        cable.subject,
        outcome,
        what,
        limit=limit,
        next_step=next_step,
        interval_s=subnet.interval_s,
    )


PLUGIN = _Congestion()
