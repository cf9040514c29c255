"""What the checks of InfiniBand share: the cables of a subnet, each with what was seen of its ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from fabricctl.model.fabric import Link, Role
from fabricctl.model.names import PortId
from fabricctl.model.subnet import Subnet, SubnetPort
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.surveying import Survey

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class End:
    """One end of a cable.

    Parameters
    ----------
    label
        Its name in findings.
    id
        The inventory's port; None if it knows none.
    key
        Where it is in `Subnet.ports`; None if it was not seen.
    port
        What was seen of it.
    """

    label: str
    id: PortId | None
    key: Key | None = None
    port: SubnetPort | None = None


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable: of the inventory, or one that only the subnet has. A node's end comes first.

    Parameters
    ----------
    ends
        One if the inventory names no cable for a node's port and none was seen.
    intended
        Whether the inventory has it.
    """

    ends: tuple[End, ...]
    intended: bool

    @property
    def subject(self) -> str:
        """Both ends, as findings name them."""
        return " - ".join(end.label for end in self.ends)

    def other(self, end: End) -> End | None:
        """Return the other end; None if there is none."""
        others = [one for one in self.ends if one is not end]
        return others[0] if others else None


def cables(survey: Survey, subnet: Subnet) -> tuple[Cable, ...]:
    """Return the inventory's cables of a plane, then what else is plugged in; only those that were asked for.

    Of what else is plugged in, a cable of which both ends are in the inventory's cables is left out: they
    were seen there.
    """
    found = [*_intended(survey, subnet), *_lone(survey, subnet)]
    known = {end.key for one in found for end in one.ends if end.key is not None}
    found.extend(_others(survey, subnet, known))
    return tuple(found)


def concerns(survey: Survey, devices: Iterable[str]) -> bool:
    """Say whether a run is about one of `devices`."""
    return not survey.limited or any(device in survey.devices or device in survey.named for device in devices)


def each(
    name: str, part: str, survey: Survey, judge: Callable[[Survey, Subnet], Iterable[Finding]]
) -> tuple[Finding, ...]:
    """Return what a check finds in each plane, and that it is unknown where a plane was not seen.

    Parameters
    ----------
    part
        What must not be missing: ``links``, ``counters``, ...
    """
    found: list[Finding] = []
    for subnet in survey.subnets:
        if part in subnet.missing:
            found.append(unseen(name, subnet, part))
            continue
        judged = tuple(judge(survey, subnet))
        if not judged and not survey.limited:
            judged = (Finding(name, subnet.plane, Outcome.UNKNOWN, "nothing of it was seen"),)
        found.extend(judged)
    return tuple(found)


def unseen(name: str, subnet: Subnet, part: str) -> Finding:
    """Return that a plane was not seen, and why."""
    if subnet.vantage is None:
        step = "give --limit a node that has a port in it, or leave --limit out"
        return Finding(name, subnet.plane, Outcome.UNKNOWN, subnet.missing[part], next_step=step)
    host = subnet.vantage.device
    # A reason begins with the program that has no answer: it need not be the part's own.
    program = subnet.missing[part].partition(":")[0]
    command = program if program in PROGRAMS.values() else PROGRAMS[part]
    what = f"{part} could not be seen from {subnet.vantage}: {subnet.missing[part]}"
    step = f"run {command} on {host} (it needs infiniband-diags), or look from elsewhere with --from"
    return Finding(name, subnet.plane, Outcome.UNKNOWN, what, next_step=step)


PROGRAMS: Mapping[str, str] = {
    "topology": "ibnetdiscover",
    "links": "iblinkinfo",
    **dict.fromkeys(("errors", "counters"), "ibqueryerrors"),
    **dict.fromkeys(("master", "managers"), "sminfo"),
    "offers": "saquery",
    "routes": "dump_fts",
}
"""Which program a part is of, under the script's name for it and under that of `Subnet.missing`."""


def _end(subnet: Subnet, places: dict[PortId, Key], port: PortId) -> End:
    key = places.get(port)
    return End(str(port), port, key, subnet.ports[key] if key is not None else None)


def _places(subnet: Subnet) -> dict[PortId, Key]:
    return {port.id: key for key, port in subnet.ports.items() if port.id is not None}


def links(survey: Survey, subnet: Subnet) -> Iterator[tuple[PortId, PortId]]:
    """Walk the inventory's cables of a plane that were asked for; a node's end comes first."""
    members = frozenset(subnet.members)
    for link in survey.fabric.links:
        both = members.issuperset((link.a, link.b))
        if both and concerns(survey, (link.a.device, link.b.device)):
            yield _ordered(survey, link)


def _intended(survey: Survey, subnet: Subnet) -> Iterator[Cable]:
    places = _places(subnet)
    for one, other in links(survey, subnet):
        yield Cable((_end(subnet, places, one), _end(subnet, places, other)), intended=True)


def _ordered(survey: Survey, link: Link) -> tuple[PortId, PortId]:
    if survey.fabric.device(link.b.device).role is Role.NODE:
        return link.b, link.a
    return link.a, link.b


def _lone(survey: Survey, subnet: Subnet) -> Iterator[Cable]:
    """Walk nodes' ports without a cable in the inventory, with what they are plugged into."""
    places = _places(subnet)
    for member in subnet.members:
        node = survey.fabric.device(member.device).role is Role.NODE
        if not node or survey.fabric.link(member) is not None or not concerns(survey, (member.device,)):
            continue
        end = _end(subnet, places, member)
        peer = subnet.ports.get(end.port.peer) if end.port is not None and end.port.peer else None
        if peer is None:
            yield Cable((end,), intended=False)
        else:
            yield Cable((end, _seen_end(peer)), intended=False)


def _others(survey: Survey, subnet: Subnet, known: Collection[Key]) -> Iterator[Cable]:
    done: set[Key] = set()
    for key, port in subnet.ports.items():
        if port.peer is None or key in done or (key in known and port.peer in known):
            continue
        peer = subnet.ports.get(port.peer)
        if peer is None or not concerns(survey, (port.device, peer.device)):
            continue
        done.update((key, (peer.node_guid, peer.number)))
        one, other = (peer, port) if port.kind == "SW" else (port, peer)
        yield Cable((_seen_end(one), _seen_end(other)), intended=False)


def _seen_end(port: SubnetPort) -> End:
    return End(port.label, port.id, (port.node_guid, port.number), port)


_FULL = {
    **dict.fromkeys(
        (
            "SymbolErrorCounter",
            "PortRcvErrors",
            "PortRcvRemotePhysicalErrors",
            "PortRcvSwitchRelayErrors",
            "PortXmitDiscards",
            "QP1Dropped",
            "VL15Dropped",
        ),
        0xFFFF,
    ),
    **dict.fromkeys(
        (
            "LinkErrorRecoveryCounter",
            "LinkDownedCounter",
            "PortXmitConstraintErrors",
            "PortRcvConstraintErrors",
        ),
        0xFF,
    ),
    **dict.fromkeys(("LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors"), 0xF),
    "PortXmitWait": 0xFFFFFFFF,
}
"""Where the counters of PortCounters (IBTA, 16.1.3.5) stay: they do not wrap."""


def full(subnet: Subnet, key: Key, counters: Iterable[str]) -> tuple[str, ...]:
    """Return which of a port's counters are full, as ``SymbolErrorCounter (65535) is``; 64 bits never are."""
    if key in subnet.extended:
        return ()
    held = subnet.later.get(key)
    if not held:
        return ()
    return tuple(
        f"{name} ({_FULL[name]}) is" for name in counters if name in _FULL and held.get(name) == _FULL[name]
    )


_ZEROS: Mapping[str, int] = {}


def idle(subnet: Subnet, key: Key) -> bool:
    """Say whether a port's counters were all 0, at both ends of the interval."""
    read = subnet.interval_s > 0 and key not in subnet.uncounted
    return read and not subnet.counters.get(key) and not subnet.later.get(key)


def risen(subnet: Subnet, key: Key, counter: str) -> int | str:
    """Return by how much a counter rose within the interval, or why that is not known.

    The tools print no counter that is 0; what they did not read is in `Subnet.uncounted`.
    """
    if subnet.interval_s <= 0:
        return "the counters were read only once"
    if key in subnet.uncounted:
        return subnet.uncounted[key]
    first = subnet.counters.get(key, _ZEROS).get(counter, 0)
    later = subnet.later.get(key, _ZEROS).get(counter, 0)
    if later < first:
        return f"{counter} went back from {first} to {later}: somebody cleared it"
    return later - first
