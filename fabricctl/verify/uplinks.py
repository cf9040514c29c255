"""How many couples of ports may load the fabric at once, by what the inventory says of links and speeds.

Two kinds of groups of links are looked at: those that lead up from a leaf, and those that lead out of a pod.
A couple takes its line rate, which is that of its slower port, from each group that it crosses: going up at
one end and coming down at the other, whichever direction it is measured in, so both ends' groups are charged.

What is assumed of ECMP: the couples that cross a group spread over its links so that only the sum counts. The
limit of that: a switch hashes each flow to one link, so two flows can meet on one link while another is idle.
A share of the line rate below the wanted one across leaves can therefore be the hash's doing; several queue
pairs with differing source ports a couple make it less likely, they do not rule it out. Layers above the
leaves of which the inventory names no pods are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fabricctl.model.fabric import Fabric, Link
from fabricctl.model.names import PortId


@dataclass(frozen=True)
class Uplinks:
    """The groups of links that some ports cross, by the numbers of the ports.

    Parameters
    ----------
    names
        Of the groups, for a reader: ``leaf leaf1``, ``pod pod2``.
    capacities
        Of the groups: Gb/s, or the number of couples where no port's speed is known. 0 where the inventory
        names no link that leads out; such a group carries one couple at a time.
    rates
        All line rates that occur, in the same unit, ascending.
    rate_of
        By port: its line rate, as a place in `rates`.
    place_of
        By port: where it is; ports in the same groups are in the same place.
    groups_of
        By place: the groups that it is in.
    """

    names: tuple[str, ...]
    capacities: tuple[int, ...]
    rates: tuple[int, ...]
    rate_of: tuple[int, ...]
    place_of: tuple[int, ...]
    groups_of: tuple[frozenset[int], ...]

    def groups_at(self, port: int) -> frozenset[int]:
        """Return the groups that a port is in."""
        return self.groups_of[self.place_of[port]]

    def crossed(self) -> list[list[tuple[int, ...]]]:
        """Return by the places of two ports which groups a couple of them crosses."""
        return [[tuple(sorted(one ^ other)) for other in self.groups_of] for one in self.groups_of]

    def narrow(self) -> tuple[str, ...]:
        """Return the groups that cannot carry all their ports at once, of those that have ports outside."""
        wanted = [0] * len(self.names)
        for place, rate in zip(self.place_of, self.rate_of, strict=True):
            for group in self.groups_of[place]:
                wanted[group] += self.rates[rate]
        return tuple(
            name
            for group, name in enumerate(self.names)
            if wanted[group] > self.capacities[group] and any(group not in held for held in self.groups_of)
        )


def uplinks(fabric: Fabric, ports: Sequence[PortId]) -> Uplinks:
    """Return the groups of links that these ports of nodes are behind, all in the same unit."""
    unit = max((port.speed_gbps for port in fabric.node_ports()), default=0)
    pods = _pods(fabric)
    names: dict[str, int] = {}
    places: dict[frozenset[int], int] = {}
    place_of = []
    for port in ports:
        held = [names.setdefault(name, len(names)) for name in _groups(fabric, port, pods)]
        place_of.append(places.setdefault(frozenset(held), len(places)))
    speeds = [fabric.port(port).speed_gbps or unit or 1 for port in ports]
    rates = sorted(set(speeds))
    leading_out, speed = _leading_out(fabric, pods), _speed_of(fabric, unit)
    return Uplinks(
        names=tuple(names),
        capacities=tuple(sum(map(speed, leading_out(name))) for name in names),
        rates=tuple(rates),
        rate_of=tuple(rates.index(speed) for speed in speeds),
        place_of=tuple(place_of),
        groups_of=tuple(places),
    )


def _groups(fabric: Fabric, port: PortId, pods: Mapping[str, str]) -> list[str]:
    peer = fabric.peer(port)
    if peer is None or peer.device not in pods:
        pod = fabric.device(port.device).pod
        return [f"pod {pod}"] if pod else []
    pod = pods[peer.device]
    return [f"leaf {peer.device}", *([f"pod {pod}"] if pod else [])]


def _pods(fabric: Fabric) -> dict[str, str]:
    """Return the pod of every switch; one that has none of its own is in that of all the nodes below it."""
    found = {switch.name: switch.pod for switch in fabric.switches()}
    below: dict[str, set[str]] = {}
    for port in fabric.node_ports():
        peer = fabric.peer(port.id)
        if peer is not None:
            below.setdefault(peer.device, set()).add(fabric.device(port.id.device).pod)
    return {
        name: pod or (next(iter(nodes)) if len(nodes := below.get(name, set())) == 1 else "")
        for name, pod in found.items()
    }


def _leading_out(fabric: Fabric, pods: Mapping[str, str]) -> Callable[[str], Iterable[Link]]:
    """Return what finds the links that lead out of a group, by its name."""
    found: dict[str, list[Link]] = {}
    level: dict[str, list[Link]] = {}
    for link in fabric.links:
        a, b = link.a.device, link.b.device
        if a not in pods or b not in pods:
            continue
        # Between two leaves: the peer link of a pair of switches, or all there is in a fabric without spines.
        same = fabric.device(a).tier == fabric.device(b).tier != ""
        for name in (a, b):
            (level if same else found).setdefault(f"leaf {name}", []).append(link)
        if pods[a] != pods[b]:
            for pod in {pods[a], pods[b]} - {""}:
                found.setdefault(f"pod {pod}", []).append(link)
    return lambda name: found.get(name) or level.get(name, [])


def _speed_of(fabric: Fabric, unit: int) -> Callable[[Link], int]:
    """Return what tells what a link carries; one of unknown speed carries one couple.

    Where no node says its speed, no couple's rate is known: then every link carries one couple.
    """
    known = {
        port.id: port.speed_gbps for device in fabric.devices for port in device.ports if port.speed_gbps
    }

    def speed(link: Link) -> int:
        return min((known[end] for end in (link.a, link.b) if end in known), default=unit)

    return speed if unit else lambda _: 1
