"""The planes of InfiniBand that an inventory has, and from which host each of them is looked at."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl.errors import UsageError
from fabricctl.infiniband import asking
from fabricctl.infiniband import seen as seeing
from fabricctl.infiniband.asking import Hca
from fabricctl.infiniband.naming import infiniband
from fabricctl.model.fabric import NETWORK_CLI, REST, Device, Fabric, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.subnet import Subnet
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Observation

OTHERS = 2
"""So many more hosts are asked if the first one does not see its plane."""


@dataclass(frozen=True, slots=True)
class View:
    """A plane, and the port from which it is looked at; `others` are the next choices.

    Parameters
    ----------
    hcas
        By each of these ports: what the host itself calls it.
    """

    plane: str
    members: tuple[PortId, ...]
    vantage: PortId | None
    others: tuple[PortId, ...] = ()
    hcas: Mapping[PortId, Hca] = field(default_factory=dict)


def views(fabric: Fabric, devices: Sequence[Device], vantage: str) -> tuple[View, ...]:
    """Return the planes that `devices` have a port in; none where that is no InfiniBand.

    Parameters
    ----------
    vantage
        Name of the node from which to look; empty is the first of `devices` that has a port in the plane.

    Raises
    ------
    UsageError
        The named node is not of the inventory, not asked, or has no port in any plane.
    """
    asked = {device.name: device for device in devices}
    if vantage:
        _check(fabric, asked, vantage)
    planes = _planes(fabric)
    found = []
    for number, members in enumerate(planes, 1):
        if not any(port.device in asked for port in members):
            continue
        first, others = _choices([port for port in members if _can_look(asked.get(port.device))], vantage)
        chosen = (*((first,) if first is not None else ()), *others)
        hcas = {port: Hca.parse(fabric.port(port).rdma) for port in chosen}
        name = "InfiniBand" if len(planes) == 1 else f"plane {number}"
        found.append(View(name, members, first, others, hcas))
    return tuple(found)


def _check(fabric: Fabric, asked: Mapping[str, Device], vantage: str) -> None:
    """UsageError if a node cannot be looked from at all."""
    where = fabric.source
    if not fabric.has_device(vantage) or fabric.device(vantage).role is not Role.NODE:
        raise UsageError(f"--from {vantage}: the inventory has no such node", where=where)
    if not infiniband(fabric.device(vantage)):
        raise UsageError(
            f"--from {vantage}: the inventory gives it no InfiniBand port",
            where=where,
            next_step="give one of its fabric_ports link_layer: infiniband, or name another node",
        )
    if vantage not in asked:
        raise UsageError(f"--from {vantage}: it is not among the devices to ask", next_step="see --limit")
    if not _can_look(fabric.device(vantage)):
        raise UsageError(f"--from {vantage}: it has no shell, and infiniband-diags need one", where=where)


def _choices(can: Sequence[PortId], vantage: str) -> tuple[PortId | None, tuple[PortId, ...]]:
    """Return the port to look from, and one port of each of the next hosts; none where one was named."""
    named = [port for port in can if port.device == vantage]
    if named:
        return named[0], ()
    by_host: dict[str, PortId] = {}
    for port in can:
        by_host.setdefault(port.device, port)
    ordered = tuple(by_host.values())
    return (ordered[0] if ordered else None), ordered[1 : OTHERS + 1]


def _can_look(device: Device | None) -> bool:
    return (
        device is not None
        and device.role is Role.NODE
        and device.endpoint.connection not in {NETWORK_CLI, REST}
    )


def _planes(fabric: Fabric) -> list[tuple[PortId, ...]]:
    """Return the ports of each plane, in inventory order: what cables join, a switch with all its ports."""
    ports = [port for device in fabric.devices for port in infiniband(device)]
    kind = {device.name: device.role for device in fabric.devices}
    leads: dict[PortId | str, PortId | str] = {}

    def place(port: PortId) -> PortId | str:
        return port if kind[port.device] is Role.NODE else port.device

    def top(of: PortId | str) -> PortId | str:
        while leads.setdefault(of, of) != of:
            leads[of] = of = leads[leads[of]]
        return of

    known = {port.id for port in ports}
    for link in fabric.links:
        if link.a in known and link.b in known:
            leads[top(place(link.a))] = top(place(link.b))
    joined: dict[PortId | str, list[PortId]] = {}
    loose: list[Port] = []
    for port in ports:
        if place(port.id) in leads:
            joined.setdefault(top(place(port.id)), []).append(port.id)
        else:
            loose.append(port)
    return _with_loose(fabric, list(joined.values()), loose, ports)


def _with_loose(
    fabric: Fabric, planes: list[list[PortId]], loose: Sequence[Port], ports: Sequence[Port]
) -> list[tuple[PortId, ...]]:
    """Add ports without a cable: to the only plane, else to that of their rail, or to one of their own."""
    by_rail: dict[int | None, list[PortId]] = {}
    for plane in planes:
        rails = {fabric.port(port).rail for port in plane if fabric.port(port).rail is not None}
        if len(rails) == 1:
            by_rail.setdefault(rails.pop(), plane)
    only = planes[0] if len(planes) == 1 else None
    for port in loose:
        joined = only if only is not None else by_rail.get(port.rail)
        if joined is None:
            joined = by_rail[port.rail] = []
            planes.append(joined)
        joined.append(port.id)
    order = {port.id: place for place, port in enumerate(ports)}
    ordered = (tuple(sorted(plane, key=order.__getitem__)) for plane in planes)
    return sorted(ordered, key=lambda plane: order[plane[0]])


def queries(views: Sequence[View], device: Device) -> tuple[Query, ...]:
    """Return what to ask of a device that is the vantage of planes."""
    ours = ((view.vantage, view.hcas) for view in views)
    return tuple(
        asking.query(hcas[port]) for port, hcas in ours if port is not None and port.device == device.name
    )


def second_choices(
    views: Sequence[View], seen: Mapping[str, Observation]
) -> tuple[tuple[View, ...], tuple[str, ...]]:
    """Return the planes, with another vantage where one saw nothing, and the names of devices to ask again.

    Call it again with what they answered, until it names none.
    """
    found, again = [], []
    for view in views:
        chosen = view if view.vantage is None or _saw(view, seen) else _next(view, seen)
        found.append(chosen)
        if chosen is not view and chosen.vantage is not None:
            again.append(chosen.vantage.device)
    return tuple(found), tuple(dict.fromkeys(again))


def subnets(fabric: Fabric, views: Sequence[View], seen: Mapping[str, Observation]) -> tuple[Subnet, ...]:
    """Return what was seen of each plane; planes that turn out to be one subnet are one.

    So they do where an inventory leaves out the cables between its switches.
    """
    found: list[Subnet] = []
    switches: list[frozenset[str]] = []
    for view in views:
        subnet = _subnet(fabric, view, seen)
        # A HCA with two ports may be in two planes; a switch is in one.
        mine = frozenset(port.node_guid for port in subnet.ports.values() if port.kind == "SW")
        same = next((at for at, others in enumerate(switches) if not mine.isdisjoint(others)), None)
        if same is None:
            found.append(subnet)
            switches.append(mine)
        else:
            members = (*found[same].members, *subnet.members)
            found[same] = dataclasses.replace(found[same], members=members)
    if len(found) == 1 and len(views) > 1:
        found[0] = dataclasses.replace(found[0], plane="InfiniBand")
    return tuple(found)


def _saw(view: View, seen: Mapping[str, Observation]) -> bool:
    if view.vantage is None:
        return False
    observed = seen.get(view.vantage.device)
    return observed is not None and seeing.answered(observed, view.hcas[view.vantage])


def _next(view: View, seen: Mapping[str, Observation]) -> View:
    """Return the plane seen from the next host that can be asked; as it is if there is none."""
    for place, other in enumerate(view.others):
        observed = seen.get(other.device)
        if observed is None or not observed.error:
            return dataclasses.replace(view, vantage=other, others=view.others[place + 1 :])
    return view


def _subnet(fabric: Fabric, view: View, seen: Mapping[str, Observation]) -> Subnet:
    empty = Subnet(view.plane, view.vantage, view.members)
    if view.vantage is None:
        return _unseen(empty, "none of the nodes that were asked has a port in it")
    observed = seen.get(view.vantage.device)
    if observed is None:
        return _unseen(empty, f"{view.vantage.device} was not asked")
    if observed.error:
        return _unseen(empty, f"{view.vantage.device} could not be asked: {observed.error}")
    try:
        return seeing.look(fabric, empty, observed, view.hcas[view.vantage])
    except Exception as exc:  # noqa: BLE001  the boundary of one plane: a bug in reading it must not hide the rest
        why = f"reading what {view.vantage.device} said failed inside fabricctl ({exc!r}); please report this"
        return _unseen(empty, why)


def _unseen(empty: Subnet, why: str) -> Subnet:
    return dataclasses.replace(empty, missing=dict.fromkeys(seeing.PARTS, why))
