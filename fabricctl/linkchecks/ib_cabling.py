"""InfiniBand's cables are where the inventory, or a saved ibnetdiscover, says that they are.

What is meant is the inventory's cables, or with ``--topology FILE`` those of a saved ``ibnetdiscover`` of a
fabric that was right. What is seen is from one host of the plane; switches need not be asked.

Passes if the two ports see each other. A HCA that nobody knows passes with a note: an inventory need not have
all that is plugged in.
Fails if a port is plugged into another one than meant (swapped cables are told as such), if nothing is
plugged in, if a device is missing from the subnet and its ports' other ends are down, if a cable between two
known devices is not in what is meant, and if there is a switch that nobody knows.
Unknown if what is plugged in does not answer or has a name that nobody knows while the device that is meant
was not seen, if both ends are missing, and where a GUID or the description of a device occurs twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fabricctl.linkparts.subnets import concerns, each, links
from fabricctl.model.fabric import Device, Fabric, Role
from fabricctl.model.subnet import Subnet, SubnetPort
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.model.words import count
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_NAME = "ib_cabling"
_LOOK = "look at the label at both ends of the cable"
_NAME_IT = (
    "see what it is; give a node its name (rdma-ndd, or its node_desc in sysfs) and a switch too "
    "(/etc/infiniband-diags/ib-node-name-map where the tools run)"
)


class _Cabling:
    name = _NAME
    needs = Need.SUBNETS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Nothing: the subnet is looked at from one host."""
        del device
        return ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge every plane."""
        return each(self.name, "links", survey, _judge)


@dataclass(frozen=True)
class _View:
    """What is meant and what is seen, by the labels of ports.

    Parameters
    ----------
    meant
        By each end of a cable: the other end.
    seen
        By each port that is plugged into something that answers: the other end.
    ports
        By label.
    devices
        Those of which a port was seen.
    twice
        Labels that several ports have: what is seen there may be the other one.
    doubtful
        Whether a GUID occurs twice: then what is seen may be of two devices.
    wanted
        Where it stands how cables are meant to be.
    """

    fabric: Fabric

    meant: Mapping[str, str]
    seen: Mapping[str, str]
    ports: Mapping[str, SubnetPort]
    devices: frozenset[str]
    twice: frozenset[str]
    doubtful: bool
    wanted: str

    def device(self, label: str) -> str:
        """Return the device, or what calls itself so, that a label belongs to."""
        port = self.ports.get(label)
        return _named(port) if port is not None else _device(self.fabric, label)


def _judge(survey: Survey, subnet: Subnet) -> Iterator[Finding]:
    cables = _meant(survey, subnet)
    view = _view(survey, subnet, cables)
    missing = _missing(view, cables)
    yield _whole(subnet, view, cables, missing)
    for device, ends in missing.items():
        if len(ends) > 1:
            yield _gone(view, device, device, ends)
    for one, other in cables:
        both = ((one, other), (other, one))
        gone = [(view.device(end), far) for end, far in both if len(missing.get(view.device(end), ())) == 1]
        # A device that is missing and has this cable alone: then one finding says both.
        if len(gone) == 1 and gone[0][1] in view.ports and gone[0][1] not in view.seen:
            yield _gone(view, f"{one} - {other}", gone[0][0], [gone[0][1]])
        else:
            yield _cable(view, one, other)
    yield from _extra(survey, subnet, view)
    switches = any(survey.fabric.has_device(name) and _is_switch(survey, name) for name in missing)
    yield from _strangers(survey, subnet, view, switches)


def _meant(survey: Survey, subnet: Subnet) -> tuple[tuple[str, str], ...]:
    """Return the cables that are meant; a node's end comes first."""
    if survey.wiring is None:
        return tuple((str(one), str(other)) for one, other in links(survey, subnet))
    members = {str(port) for port in subnet.members} | {port.label for port in subnet.ports.values()}
    switches = {device.name for device in survey.fabric.switches()}
    owner = partial(_device, survey.fabric)
    return tuple(
        cable[::-1] if owner(cable[0]) in switches and owner(cable[1]) not in switches else cable
        for cable in survey.wiring.cables
        if not members.isdisjoint(cable) and concerns(survey, map(owner, cable))
    )


def _view(survey: Survey, subnet: Subnet, cables: tuple[tuple[str, str], ...]) -> _View:
    meant = {end: other for one, two in cables for end, other in ((one, two), (two, one))}
    if survey.limited and survey.wiring is None:
        # A cable that a limited run is not about may still explain one that it is about.
        for link in survey.fabric.links:
            meant.setdefault(str(link.a), str(link.b))
            meant.setdefault(str(link.b), str(link.a))
    ports = {port.label: port for port in subnet.ports.values()}
    seen = {
        port.label: subnet.ports[port.peer].label
        for port in subnet.ports.values()
        if port.peer is not None and port.peer in subnet.ports
    }
    devices = frozenset(map(_named, ports.values()))
    times = Counter(port.label for port in subnet.ports.values())
    twice = frozenset(label for label, held in times.items() if held > 1)
    wanted = f"save {survey.wiring.source} again" if survey.wiring is not None else "correct the inventory"
    return _View(survey.fabric, meant, seen, ports, devices, twice, bool(subnet.duplicates), wanted)


def _named(port: SubnetPort) -> str:
    return port.device or port.node or port.node_guid


def _device(fabric: Fabric, label: str) -> str:
    """Return the device of a label; what is no device's has a node description, with slashes of its own."""
    name = label.partition("/")[0]
    return name if fabric.has_device(name) else label.rpartition("/")[0]


def _missing(view: _View, cables: tuple[tuple[str, str], ...]) -> dict[str, list[str]]:
    """Return the devices of which no port was seen, each with the other ends of its cables."""
    found: dict[str, list[str]] = {}
    for cable in cables:
        for end, other in (cable, cable[::-1]):
            if end not in view.ports and view.device(end) not in view.devices:
                found.setdefault(view.device(end), []).append(other)
    return found


def _whole(
    subnet: Subnet, view: _View, cables: tuple[tuple[str, str], ...], missing: Mapping[str, list[str]]
) -> Finding:
    """Return how many of the devices were seen, and what the tools complained of."""
    wanted = {view.device(end) for cable in cables for end in cable}
    nodes = count(len({port.node_guid for port in subnet.ports.values()}), "node")
    measured = f"{len(wanted) - len(missing)} of {count(len(wanted), 'device')}"
    what = f"{measured} were seen from {subnet.vantage}, {nodes} in all"
    if subnet.complaints:
        queries = count(len(subnet.complaints), "query", "queries")
        what = f"{what}; {queries} had no answer: {subnet.complaints[0]}"
    # Whoever is missing has a finding of its own.
    odd = missing or subnet.complaints
    step = "run ibnetdiscover by hand: what does not answer is off, hangs, or loses packets" if odd else ""
    return _finding(subnet.plane, Outcome.PASS, what, measured, step)


def _gone(view: _View, subject: str, device: str, others: list[str]) -> Finding:
    """Return what is to be said of a device that is not in the subnet."""
    down = [end for end in others if end in view.ports and view.ports[end].state == "Down"]
    silent = [end for end in others if end in view.ports and view.ports[end].silent]
    measured = "not seen"
    if silent:
        what = f"{device} is plugged in at {silent[0]}, but does not answer"
        step = f"see whether {device} hangs, and whether a GUID occurs twice: ibstat there, then restart it"
        return _finding(subject, Outcome.UNKNOWN, what, measured, step)
    if len(down) == len(others):
        where = down[0] if len(down) == 1 else f"{down[0]} and {len(down) - 1} more"
        what = f"{device} is missing: nothing is plugged in at {where} (Down), or it is off"
        step = f"see that {device} is on, then reseat its cable"
        return _finding(subject, Outcome.FAIL, what, measured, step)
    what = f"{device} was not seen, and the other ends of its cables do not say whether it is there"
    if down and not any(end in view.ports and end not in down for end in others):
        what = f"{device} was not seen: {_listed(down)} Down, and what its other cables lead to was not seen"
        step = f"see that {device} is on, then reseat the cables that lead to it"
        return _finding(subject, Outcome.UNKNOWN, what, measured, step)
    return _finding(subject, Outcome.UNKNOWN, what, measured, f"see that {device} is on")


def _cable(view: _View, one: str, other: str) -> Finding:
    subject = f"{one} - {other}"
    if view.seen.get(one) == other and view.seen.get(other) == one:
        return _finding(subject, Outcome.PASS, "the two ports see each other", "as meant")
    wrong = _wrong(view, one, other)
    if wrong:
        measured = _measured(view, one, other)
        if view.doubtful:
            step = "first see to the GUID that occurs twice"
            return _finding(subject, Outcome.UNKNOWN, wrong, measured, step)
        if _nameless(view, one, other):
            return _finding(subject, Outcome.UNKNOWN, f"{wrong}: it may be the same", measured, _NAME_IT)
        odd = [label for label in (view.seen.get(one, ""), view.seen.get(other, "")) if label in view.twice]
        if odd:
            what = f"{wrong}; but several nodes call themselves {view.device(odd[0])}"
            step = "give each its own name first (ib_identity)"
            return _finding(subject, Outcome.UNKNOWN, what, measured, step)
        return _finding(subject, Outcome.FAIL, wrong, measured, _swap_step(view, one, other))
    return _absent(view, one, other)


def _wrong(view: _View, one: str, other: str) -> str:
    """Return in plain words where a cable's ends are instead; empty if neither is plugged into anything."""
    for end, far in ((one, other), (other, one)):
        actual = view.seen.get(end)
        if actual is None or actual == far:
            continue
        what = f"{end} should be on {far}, is on {actual}"
        swapped = view.seen.get(far)
        if swapped is not None and view.meant.get(swapped) == actual:
            return f"{what}; {swapped} the other way round"
        return what
    return ""


def _nameless(view: _View, one: str, other: str) -> bool:
    """Say whether what is at one end is nobody that is known, and the device that is meant was not seen."""
    for end, far in ((one, other), (other, one)):
        actual = view.ports.get(view.seen.get(end, ""))
        if actual is not None and not actual.device and view.device(far) not in view.devices:
            return True
    return False


def _swap_step(view: _View, one: str, other: str) -> str:
    for end, far in ((one, other), (other, one)):
        actual = view.seen.get(end)
        if actual is not None and actual != far:
            if view.meant.get(view.seen.get(far, "")) == actual:
                return f"swap the cables at {far} and {actual}, or {view.wanted}{_exchanged(view, one)}"
            return f"plug {end} into {far}, or {view.wanted}; {_LOOK}"
    return _LOOK


def _exchanged(view: _View, one: str) -> str:
    """Return the other way in which two HCAs seem swapped, as the tail of a step."""
    port = view.ports.get(one)
    hca = port is not None and port.kind == "CA"
    return "; if they are right, the hosts have each other's node description (ibstat there)" if hca else ""


def _measured(view: _View, one: str, other: str) -> str:
    return ", ".join(f"{end} - {view.seen[end]}" for end in (one, other) if end in view.seen)


def _absent(view: _View, one: str, other: str) -> Finding:
    """Return what is to be said of a cable of which neither end is plugged into something that answers."""
    subject = f"{one} - {other}"
    ends = [view.ports[end] for end in (one, other) if end in view.ports]
    down = [port for port in ends if port.state == "Down"]
    if down:
        names = [port.label for port in down]
        what = f"there is no link: {_listed(names)} Down ({down[0].physical})"
        dark = [view.device(end) for end in (one, other) if view.device(end) not in view.devices]
        on = f"see that {' and '.join(dark)} is on, then " if dark else ""
        step = f"{on}reseat the cable at both ends, then replace it"
        return _finding(subject, Outcome.FAIL, what, "no link", step)
    if ends:
        far = other if ends[0].label == one else one
        what = f"{ends[0].label} is plugged into something that does not answer; {far} is meant"
        return _finding(
            subject, Outcome.UNKNOWN, what, "no answer", f"see that {view.device(far)} answers: ibstat"
        )
    what = "neither end was seen"
    step = f"see that {view.device(one)} and {view.device(other)} are on and cabled"
    return _finding(subject, Outcome.UNKNOWN, what, "not seen", step)


def _listed(labels: Sequence[str]) -> str:
    """Return ``a is``, ``a and b are``, ``a and 3 more are``."""
    if len(labels) == 1:
        return f"{labels[0]} is"
    return f"{labels[0]} and {labels[1] if len(labels) == 2 else f'{len(labels) - 1} more'} are"  # noqa: PLR2004


def _extra(survey: Survey, subnet: Subnet, view: _View) -> Iterator[Finding]:
    """Walk the cables between known devices of which neither end is meant to have one."""
    between = [
        link
        for link in survey.fabric.links
        if all(_is_switch(survey, end.device) for end in (link.a, link.b))
    ]
    silent = survey.wiring is None and not between
    untold = 0
    for port in subnet.ports.values():
        peer = subnet.ports.get(port.peer) if port.peer is not None else None
        if peer is None or not port.device or not peer.device or not _first(port, peer):
            continue
        lone = port.label not in view.meant and peer.label not in view.meant
        # A node's port of which the inventory says no cable may be on any.
        bare = any(one.kind == "CA" and one.id is not None for one in (port, peer)) and survey.wiring is None
        if lone and silent and port.kind == peer.kind == "SW":
            untold += 1
        elif lone and not bare and concerns(survey, (port.device, peer.device)):
            what = f"there is a cable that is not meant to be: {port.label} - {peer.label}"
            add = "add it to the inventory" if survey.wiring is None else view.wanted
            step = f"pull it, or {add}"
            yield _finding(f"{port.label} - {peer.label}", Outcome.FAIL, what, "extra cable", step)
    if untold:
        what = f"the inventory names no cable between switches: {untold} were seen and not compared"
        step = "add fabric_uplinks, or compare with a saved topology: --topology FILE"
        yield _finding(subnet.plane, Outcome.UNKNOWN, what, f"{untold} cables", step)


def _first(port: SubnetPort, peer: SubnetPort) -> bool:
    """Say whether a cable is to be told from this end: a node's, else the lesser."""
    if port.kind != peer.kind:
        return peer.kind == "SW"
    return (port.node_guid, port.number) < (peer.node_guid, peer.number)


def _is_switch(survey: Survey, name: str) -> bool:
    return survey.fabric.device(name).role is Role.SWITCH


def _strangers(survey: Survey, subnet: Subnet, view: _View, missed: bool) -> Iterator[Finding]:  # noqa: FBT001
    """Walk the nodes that nobody knows, each with where it is plugged in.

    Parameters
    ----------
    missed
        Whether a switch of the inventory is missing: then a strange one may be it.
    """
    nodes: dict[str, list[SubnetPort]] = {}
    for port in subnet.ports.values():
        if not port.device and port.label not in view.meant:
            nodes.setdefault(port.node_guid, []).append(port)
    for guid, ports in nodes.items():
        if any(port.label in view.meant for port in subnet.ports.values() if port.node_guid == guid):
            continue
        peers = [
            subnet.ports[port.peer] for port in ports if port.peer is not None and port.peer in subnet.ports
        ]
        if _told(view, ports[0], peers):
            continue
        if concerns(survey, (peer.device for peer in peers)):
            yield _stranger(ports[0], [peer.label for peer in peers], missed)


def _told(view: _View, port: SubnetPort, peers: Sequence[SubnetPort]) -> bool:
    """Say whether a HCA without a name is where one that was not seen is meant: then the cable says so."""
    wanted = [view.meant[peer.label] for peer in peers if peer.label in view.meant]
    return port.kind == "CA" and any(view.device(end) not in view.devices for end in wanted)


def _stranger(port: SubnetPort, plugged: list[str], missed: bool) -> Finding:  # noqa: FBT001
    where = f"plugged in at {plugged[0]}" if plugged else "plugged into nothing that answers"
    more = f" and {count(len(plugged) - 1, 'other port')}" if len(plugged) > 1 else ""
    switch = port.kind == "SW"
    kind = "switch" if switch else "HCA"
    what = f"a {kind} that is not in what is meant: {port.node!r} ({port.node_guid}), {where}{more}"
    step = (
        "add it to the inventory, or take it out; if it is a switch of the inventory, give it its name "
        "(/etc/infiniband-diags/ib-node-name-map where the tools run)"
        if switch
        else "add it to the inventory if it belongs there"
    )
    bad = Outcome.UNKNOWN if missed else Outcome.FAIL
    return _finding(port.node or port.node_guid, bad if switch else Outcome.PASS, what, "unexpected", step)


def _finding(subject: str, outcome: Outcome, what: str, measured: str, step: str = "") -> Finding:
    limit = "" if outcome is Outcome.PASS else "as meant"
    return Finding(_NAME, subject, outcome, what, measured, limit, next_step=step)


PLUGIN = _Cabling()
