"""Where a pair lies in the fabric: its topology class, and what stands on its way."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
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
        Both ends of a link, a node's first; empty for a device.
    near_node
        Whether a link has a node at its first end.
    """

    kind: Kind
    name: str
    ports: tuple[PortId, ...] = ()
    near_node: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def trunk(self) -> bool:
        """Whether it is a link between two switches."""
        return self.kind is Kind.LINK and not self.near_node

    def __hash__(self) -> int:
        return hash(self.name)  # names are unique enough, and a string remembers its hash


@dataclass(frozen=True, slots=True)
class Way:
    """What lies between two switches, in the direction from the first to the last.

    Parameters
    ----------
    certain
        The switches that every packet crosses, and the links between them.
    possible
        Switches and links that lie on some shortest path only, each with the part of the traffic, 0..1, that
        crosses it if every switch spreads evenly over its next links (RFC 2992).
    onward
        The links, certain or possible, that are crossed from their first end to their second.
    hops
        Number of links between the two; None where the inventory names no way.
    """

    certain: frozenset[Element] = frozenset()
    possible: Mapping[Element, float] = field(default_factory=dict)
    onward: frozenset[Element] = frozenset()
    hops: int | None = None


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
    _neighbours: Mapping[str, Mapping[str, tuple[Element, ...]]] = field(init=False)
    _links: dict[PortId, Element | None] = field(init=False, default_factory=dict)
    _ways: dict[tuple[str, str], Way] = field(init=False, default_factory=dict)
    _far: dict[str, Mapping[str, int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Index the links between switches."""
        self._neighbours = _switch_links(self.fabric)

    def of(self, pair: PairId) -> Path:
        """Return what lies on the way of a pair; all shortest paths between the switches count."""
        source, target = self.link(pair.source), self.link(pair.target)
        first, last = self.fabric.peer(pair.source), self.fabric.peer(pair.target)
        if first is None or last is None or first == pair.target:
            return Path(source, target)
        way = self.way(first.device, last.device)
        return Path(source, target, way.certain, frozenset(way.possible))

    def link(self, port: PortId) -> Element | None:
        """Return the cable of a port, None if the inventory does not name it."""
        if port not in self._links:
            link = self.fabric.link(port)
            self._links[port] = _link_element(self.fabric, link) if link else None
        return self._links[port]

    def way(self, start: str, end: str) -> Way:
        """Return what lies between two switches."""
        ends = (start, end)
        if ends not in self._ways:
            self._ways[ends] = self._walk(start, end)
        return self._ways[ends]

    def _walk(self, start: str, end: str) -> Way:
        far = self._distances(end)
        length = far.get(start)
        if length is None:  # the inventory names no way: only the two ends are known
            return Way(frozenset(Element(Kind.SWITCH, name) for name in (start, end)))
        certain: set[Element] = set()
        possible: dict[Element, float] = {}
        onward: set[Element] = set()
        here = {start: 1.0}
        while True:
            layer = {Element(Kind.SWITCH, name): share for name, share in here.items()}
            _keep(layer, certain, possible)
            if end in here:
                return Way(frozenset(certain), possible, frozenset(onward), length)
            here, links = self._step(here, far, onward)
            _keep(links, certain, possible)

    def _step(
        self, here: Mapping[str, float], far: Mapping[str, int], onward: set[Element]
    ) -> tuple[dict[str, float], dict[Element, float]]:
        """Return the next switches and the links to them, each with its part of the traffic."""
        there: dict[str, float] = {}
        crossed: dict[Element, float] = {}
        for name, share in here.items():
            nearer = {o: k for o, k in self._neighbours[name].items() if far.get(o) == far[name] - 1}
            each = share / sum(map(len, nearer.values()))
            for other, links in nearer.items():
                there[other] = there.get(other, 0.0) + each * len(links)
                crossed.update(dict.fromkeys(links, each))
                onward.update(link for link in links if link.ports[0].device == name)
        return there, crossed

    def _distances(self, end: str) -> Mapping[str, int]:
        if end in self._far:
            return self._far[end]
        found = {end: 0}
        queue = deque([end])
        while queue:
            name = queue.popleft()
            for other in self._neighbours.get(name, {}):
                if other not in found:
                    found[other] = found[name] + 1
                    queue.append(other)
        self._far[end] = found
        return found


@dataclass(frozen=True, slots=True)
class _Place:
    """What matters of a port for the class of its pairs.

    Parameters
    ----------
    switch
        At the other end of its cable; empty if there is none.
    kind
        Its NIC's driver and its speed.
    """

    switch: str
    rail: int | None
    pod: str
    kind: str


@dataclass
class Classes:
    """Tells the topology class of many pairs fast, and which pairs are alike enough to be compared."""

    paths: Paths
    _places: dict[PortId, _Place] = field(init=False, default_factory=dict)
    _known: dict[tuple[int, int], tuple[Topology, str]] = field(init=False, default_factory=dict)
    _numbers: dict[_Place, int] = field(init=False, default_factory=dict)
    _numbered: dict[PortId, int] = field(init=False, default_factory=dict)

    def of(self, pair: PairId) -> tuple[Topology, str]:
        """Return the topology class of a pair, and its name among those with as long a way and like NICs."""
        numbers = self._number(pair.source), self._number(pair.target)
        found = self._known.get(numbers)
        if found is None or pair.source == pair.target:
            topology = classify(self.paths.fabric, pair)
            found = (topology, self._alike(pair, topology))
            if pair.source != pair.target:
                self._known[numbers] = found
        return found

    def _number(self, port: PortId) -> int:
        """Return the same number for ports that are in the same place."""
        if port not in self._numbered:
            place = self._place(port)
            # Ports without a switch (back to back, or not known) are each a place of their own.
            own = _Place(str(port), None, "", "") if not place.switch else place
            self._numbered[port] = self._numbers.setdefault(own, len(self._numbers))
        return self._numbered[port]

    def _place(self, port: PortId) -> _Place:
        fabric = self.paths.fabric
        device, held, peer = fabric.device(port.device), fabric.port(port), fabric.peer(port)
        switch = peer.device if peer and fabric.device(peer.device).role is Role.SWITCH else ""
        kind = f"{device.driver or 'NIC'} {held.speed_gbps or '?'}G"
        return _Place(switch, held.rail, device.pod, kind)

    def _alike(self, pair: PairId, topology: Topology) -> str:
        source, target = self._place(pair.source), self._place(pair.target)
        hops = self.paths.way(source.switch, target.switch).hops if source.switch and target.switch else None
        over = "" if hops is None else f" over {hops + 1} switch{'es' if hops else ''}"
        kinds = source.kind if source.kind == target.kind else f"{source.kind} to {target.kind}"
        return f"{topology}{over}, {kinds}"


def _keep(layer: Mapping[Element, float], certain: set[Element], possible: dict[Element, float]) -> None:
    # What is alone in its layer is crossed by every path.
    if len(layer) == 1:
        certain.update(layer)
    else:
        possible.update(layer)


def _switch_links(fabric: Fabric) -> Mapping[str, Mapping[str, tuple[Element, ...]]]:
    switches = {device.name for device in fabric.switches()}
    found: dict[str, dict[str, tuple[Element, ...]]] = {name: {} for name in switches}
    for link in fabric.links:
        a, b = link.a.device, link.b.device
        if a in switches and b in switches and a != b:
            element = _link_element(fabric, link)
            found[a][b] = (*found[a].get(b, ()), element)
            found[b][a] = (*found[b].get(a, ()), element)
    return found


def _link_element(fabric: Fabric, link: Link) -> Element:
    first, second = link.a, link.b
    if fabric.device(first.device).role is Role.SWITCH:
        first, second = second, first  # the node's end reads first
    near_node = fabric.device(first.device).role is Role.NODE
    if not near_node:
        first, second = link.a, link.b
    return Element(Kind.LINK, f"{first} - {second}", (first, second), near_node)
