"""Where a pair lies in the fabric: its topology class, and what stands on its way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fabricctl.model.fabric import Fabric, Link, Role
from fabricctl.model.names import PairId, PortId


class Topology(StrEnum):
    """How far apart the two ports of a pair are; policies set limits by these names."""

    LOOPBACK = "loopback"
    SAME_LEAF = "same_leaf"
    CROSS_LEAF = "cross_leaf"
    CROSS_POD = "cross_pod"
    CROSS_RAIL = "cross_rail"


def classify(fabric: Fabric, pair: PairId) -> Topology:
    """Return the topology class of a pair.

    A port whose cable the inventory does not name counts as ``same_leaf``: that class has the strictest
    limits, so a gap in the inventory never loosens one.
    """
    if pair.source == pair.target:
        return Topology.LOOPBACK
    rails = {fabric.port(port).rail for port in (pair.source, pair.target)}
    if len(rails - {None}) > 1:
        return Topology.CROSS_RAIL
    pods = {fabric.device(port.device).pod for port in (pair.source, pair.target)}
    if len(pods - {""}) > 1:
        return Topology.CROSS_POD
    source, target = fabric.peer(pair.source), fabric.peer(pair.target)
    if source is None or target is None or source.device == target.device or source == pair.target:
        return Topology.SAME_LEAF
    return Topology.CROSS_LEAF


class Kind(StrEnum):
    """What kind of thing can be at fault."""

    NODE = "node"
    LINK = "link"
    SWITCH = "switch"


@dataclass(frozen=True, order=True, slots=True)
class Element:
    """A thing that can be at fault: ``node node2``, ``link leaf1/eth2 - node2/eth1``, ``switch leaf1``.

    Parameters
    ----------
    ports
        Both ends of a link; empty for a device.
    """

    kind: Kind
    name: str
    ports: tuple[PortId, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def __hash__(self) -> int:
        return hash(self.name)  # names are unique enough, and a string remembers its hash


@dataclass(frozen=True, slots=True)
class Path:
    """What a directed pair crosses.

    Parameters
    ----------
    source_link, target_link
        The cable of each end; None if the inventory does not name it.
    certain
        The switches that every packet of the pair crosses, and the links between them.
    possible
        Switches and links that lie on some shortest path only: which, the switches' hash decides.
    """

    source_link: Element | None
    target_link: Element | None
    certain: frozenset[Element] = frozenset()
    possible: frozenset[Element] = frozenset()


def node_element(name: str) -> Element:
    """Return the element that stands for a node."""
    return Element(Kind.NODE, name)


@dataclass
class Paths:
    """Finds the paths of pairs, remembering what lies between each two switches."""

    fabric: Fabric
    _neighbours: Mapping[str, Mapping[str, tuple[Link, ...]]] = field(init=False)
    _links: dict[PortId, Element | None] = field(init=False, default_factory=dict)
    _between: dict[tuple[str, str], tuple[frozenset[Element], frozenset[Element]]] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        """Index the links between switches."""
        self._neighbours = _switch_links(self.fabric)

    def of(self, pair: PairId) -> Path:
        """Return what lies on the way of a pair; all shortest paths between the switches count."""
        source, target = self._link(pair.source), self._link(pair.target)
        first, last = self.fabric.peer(pair.source), self.fabric.peer(pair.target)
        if first is None or last is None or first == pair.target:
            return Path(source, target)
        ends = (min(first.device, last.device), max(first.device, last.device))
        if ends not in self._between:
            self._between[ends] = self._search(*ends)
        certain, possible = self._between[ends]
        return Path(source, target, certain, possible)

    def _link(self, port: PortId) -> Element | None:
        if port not in self._links:
            link = self.fabric.link(port)
            self._links[port] = _link_element(self.fabric, link) if link else None
        return self._links[port]

    def _search(self, start: str, end: str) -> tuple[frozenset[Element], frozenset[Element]]:
        from_start, from_end = self._distances(start), self._distances(end)
        length = from_start.get(end)
        ends = {Element(Kind.SWITCH, name) for name in (start, end)}
        if length is None:  # the inventory names no way: only the two ends are known
            return frozenset(ends), frozenset()
        layers: list[set[Element]] = [set() for _ in range(2 * length + 1)]
        for name, near in from_start.items():
            if near + from_end[name] != length:
                continue
            layers[2 * near].add(Element(Kind.SWITCH, name))
            for other, links in self._neighbours[name].items():
                if from_start[other] == near + 1 and near + 1 + from_end[other] == length:
                    layers[2 * near + 1] |= {_link_element(self.fabric, link) for link in links}
        # What is alone in its layer is crossed by every path.
        certain = {element for layer in layers if len(layer) == 1 for element in layer}
        every = {element for layer in layers for element in layer}
        return frozenset(certain), frozenset(every - certain)

    def _distances(self, start: str) -> dict[str, int]:
        found = {start: 0}
        queue = deque([start])
        while queue:
            name = queue.popleft()
            for other in self._neighbours.get(name, {}):
                if other not in found:
                    found[other] = found[name] + 1
                    queue.append(other)
        return found


def _switch_links(fabric: Fabric) -> Mapping[str, Mapping[str, tuple[Link, ...]]]:
    switches = {device.name for device in fabric.switches()}
    found: dict[str, dict[str, tuple[Link, ...]]] = {name: {} for name in switches}
    for link in fabric.links:
        a, b = link.a.device, link.b.device
        if a in switches and b in switches:
            found[a][b] = (*found[a].get(b, ()), link)
            found[b][a] = (*found[b].get(a, ()), link)
    return found


def _link_element(fabric: Fabric, link: Link) -> Element:
    ends: Iterable[PortId] = (link.a, link.b)
    if fabric.device(link.a.device).role is Role.SWITCH and fabric.device(link.b.device).role is Role.NODE:
        ends = (link.b, link.a)  # the node's end reads first
    first, second = ends
    return Element(Kind.LINK, f"{first} - {second}", (first, second))
