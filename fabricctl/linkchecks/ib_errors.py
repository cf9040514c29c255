"""No InfiniBand port counts errors faster than the policy allows, at either end of any link.

The counters are read twice with ``ibqueryerrors``: what counts is by how much they rose. A counter that is 0
is not printed; it is taken for 0 only where the tool has said that it read the whole subnet. The line of all
ports of a switch together is not used: it is full long before theirs.

Passes if every fault counter (symbol errors, link recoveries and downs, received errors, local integrity,
buffer overruns, constraints) rose by no more than the policy's ``links.errors_per_s``; old errors are told.
Fails if one rose faster. PortRcvRemotePhysicalErrors blame what is behind the other end: that one passes on
what it received damaged.
Unknown if a port was not read, if a counter went back (somebody cleared it), and if one was full before: it
cannot rise any more until it is cleared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabricctl.linkparts.subnets import Cable, End, cables, each, full, idle, risen
from fabricctl.model.fabric import Device
from fabricctl.model.subnet import Subnet
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_NAME = "ib_errors"

_STEPS: Mapping[str, str] = {
    "SymbolErrorCounter": "clean and reseat the cable at both ends, then replace it",
    "LinkErrorRecoveryCounter": "reseat the cable at both ends, then replace it",
    "LinkDownedCounter": "see whether the other end was restarted; else reseat the cable, then replace it",
    "PortRcvErrors": "clean and reseat the cable at both ends, then replace it",
    "LocalLinkIntegrityErrors": "replace the cable or the module",
    "ExcessiveBufferOverrunErrors": "see that both ends run current firmware; then replace the device",
    "PortRcvRemotePhysicalErrors": "",
    "PortXmitConstraintErrors": "see that both ends are in the same partitions: smpquery pkeys",
    "PortRcvConstraintErrors": "see that both ends are in the same partitions: smpquery pkeys",
}
"""The counters that are faults, and what helps."""

_SEE = "see why ib_links did not see {cable}"
_REMOTE = "PortRcvRemotePhysicalErrors"


class _Errors:
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
    limit = f"{survey.rules.error_per_s:g}/s"
    for cable in cables(survey, subnet):
        gone = [end for end in cable.ends if end.key is None]
        if gone and len(gone) == len(cable.ends):
            names = " and ".join(end.label for end in gone)
            yield _unknown(subnet, cable, f"{_not_seen(names, len(gone))}", _SEE.format(cable=cable.subject))
            continue
        bad = [one for end in cable.ends for one in _end(survey, subnet, cable, end)]
        if bad:
            yield from bad
            continue
        old = ", ".join(text for end in cable.ends for text in _old(subnet, end))
        within = f"no fault counter rose by more than {limit} in {subnet.interval_s:.1f} s"
        what = f"{within}; from before: {old}" if old else within
        yield Finding(_NAME, cable.subject, Outcome.PASS, what, "0", limit, interval_s=subnet.interval_s)


def _end(survey: Survey, subnet: Subnet, cable: Cable, end: End) -> Iterator[Finding]:
    """Walk what is wrong with the counters of one end."""
    limit = f"{survey.rules.error_per_s:g}/s"
    if end.key is None:
        yield _unknown(subnet, cable, _not_seen(end.label, 1), _SEE.format(cable=cable.subject))
        return
    if idle(subnet, end.key):
        return
    if end.key in subnet.uncounted:
        what = f"the counters of {end.label} were not read: {subnet.uncounted[end.key]}"
        yield _unknown(subnet, cable, what, f"see that it answers: {_by_hand(end)}")
        return
    # One that was filled while we looked has risen, and is told so.
    quiet = [counter for counter in _STEPS if risen(subnet, end.key, counter) == 0]
    stuck = full(subnet, end.key, quiet)
    if stuck:
        what = f"{end.label}: {', '.join(stuck)} full: what came since is not counted"
        yield _unknown(
            subnet, cable, what, f"clear the counters, then run this again: {_by_hand(end, '-R ')}"
        )
    for counter, step in _STEPS.items():
        rise = risen(subnet, end.key, counter)
        if isinstance(rise, str):
            yield _unknown(subnet, cable, f"{end.label}: {rise}", "run this again")
        elif rise and rise > survey.rules.error_per_s * subnet.interval_s:
            yield _rising(subnet, cable, end, (counter, rise, step), limit)


def _not_seen(names: str, ends: int) -> str:
    verb, whose = ("was", "its") if ends == 1 else ("were", "their")
    return f"{names} {verb} not seen, and {whose} counters not read"


def _by_hand(end: End, option: str = "") -> str:
    port = end.port
    where = f"{port.lid} {port.number}" if port is not None and port.lid else "LID PORT"
    return f"perfquery {option}{where}"


def _rising(subnet: Subnet, cable: Cable, end: End, counted: tuple[str, int, str], limit: str) -> Finding:
    counter, rise, step = counted
    rate = f"{rise / subnet.interval_s:.3g}/s"
    what = f"{end.label}: {counter} rose by {rise} in {subnet.interval_s:.1f} s ({rate}); {limit} is allowed"
    other = cable.other(end)
    if counter == _REMOTE and other is not None:
        what = f"{what}; {other.label} passes on what it received damaged"
        device = other.label.partition("/")[0]
        step = f"look for the other ports of {device} that count PortRcvErrors or symbol errors"
    return Finding(
        _NAME,
        cable.subject,
        Outcome.FAIL,
        what,
        rate,
        limit,
        next_step=step,
        interval_s=subnet.interval_s,
    )


def _unknown(subnet: Subnet, cable: Cable, what: str, step: str) -> Finding:
    return Finding(_NAME, cable.subject, Outcome.UNKNOWN, what, next_step=step, interval_s=subnet.interval_s)


def _old(subnet: Subnet, end: End) -> Iterator[str]:
    """Walk what a port had counted before."""
    if end.key is None:
        return
    for counter, value in subnet.later.get(end.key, {}).items():
        if counter in _STEPS and value:
            yield f"{end.label} {counter} {value}"


PLUGIN = _Errors()
