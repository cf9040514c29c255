"""Random fabrics with injected faults, their verdicts by walking packets, and what could be known of them.

Shares nothing with ``verify/topology.py``: paths are listed one by one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Finding, Outcome, Suspect, Verdict
from fabricctl.verify.schedule import expand

KINDS = ("node", "nic", "leaf", "spine", "trunk")
TO, FRO, BOTH = "to", "fro", "both"
"""Directions of a link as seen from its end `a`, which is a node's if it has one."""

Step = tuple[str, str]
"""An element (``link a - b``) and the direction in which a packet crosses it; devices have BOTH."""


@dataclass(frozen=True)
class Fault:
    """An element that drops what crosses it in one direction or in both."""

    element: str
    direction: str

    def hits(self, steps: Sequence[Step]) -> bool:
        return any(e == self.element and (self.direction in {BOTH, way} or way == BOTH) for e, way in steps)


@dataclass
class Site:
    """A fabric under construction."""

    devices: dict[str, list[Port]] = field(default_factory=dict)
    tiers: dict[str, str] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    layer: LinkLayer = LinkLayer.ETHERNET

    def cable(self, one: str, other: str, rail: int | None = None) -> None:
        """Connect two devices by new ports."""
        ends = []
        for name in (one, other):
            ports = self.devices.setdefault(name, [])
            ends.append(PortId(name, f"eth{len(ports) + 1}"))
            ports.append(
                Port(ends[-1], rail=rail if name.startswith("node") else None, link_layer=self.layer)
            )
        self.links.append(Link(min(ends), max(ends)))

    def lift(self, name: str, tier: str, above: Sequence[str], links: int) -> None:
        """Connect a switch to those above it, with so many links each."""
        self.tiers[name] = tier
        for other in above:
            for _ in range(links):
                self.cable(name, other)

    def fabric(self) -> Fabric:
        """Return what was built."""
        return Fabric(
            tuple(
                Device(
                    name,
                    Role.NODE if name.startswith("node") else Role.SWITCH,
                    "",
                    Endpoint("h"),
                    tuple(ports),
                    self.tiers.get(name, ""),
                    self.pods.get(name, ""),
                )
                for name, ports in self.devices.items()
            ),
            tuple(self.links),
            "/inventory.yml",
            "random",
        )


def random_fabric(rng: random.Random, layer: LinkLayer, most_nodes: int = 24) -> Fabric:
    """Return a fabric of 1 to 3 layers and 1 to 8 rails."""
    layers, rails = rng.randint(1, 3), rng.choice((1, 1, 1, 2, 2, 4, 8))
    planes = rails if rails > 1 and rng.random() < 0.5 else 1
    most_nodes = most_nodes if rails <= 2 else min(most_nodes, 12)
    pods = rng.randint(2, 3) if layers == 3 else 1
    leaves = (1, rng.randint(2, 4), rng.randint(1, 4))[layers - 1]
    nodes = max(2 if layers == 1 else 1, min(rng.randint(1, 6), most_nodes // (pods * leaves)))
    spines, twice, cores = rng.randint(1, 4), rng.choice((1, 1, 2)), rng.randint(1, 3)
    site = Site(layer=layer)
    for pod in range(pods):
        for leaf in range(leaves):
            first = (pod * leaves + leaf) * nodes
            names = [f"node{first + n + 1}" for n in range(nodes)]
            site.pods |= dict.fromkeys(names, f"pod{pod}" if pods > 1 else "")
            for name in names:
                for rail in range(rails):
                    site.cable(name, f"leaf-{pod}-{leaf}-{rail % planes}", rail)
            for plane in range(planes):
                site.lift(
                    f"leaf-{pod}-{leaf}-{plane}",
                    "leaf",
                    _up(f"spine-{pod}", spines if layers > 1 else 0),
                    twice,
                )
        for spine in range(spines if layers > 1 else 0):
            site.lift(f"spine-{pod}-{spine}", "spine", _up("core", cores if layers > 2 else 0), 1)
    return site.fabric()


def _up(word: str, number: int) -> list[str]:
    return [f"{word}-{n}" for n in range(number)]


@dataclass
class World:
    """A fabric in which packets are walked.

    Parameters
    ----------
    by_target
        Whether a switch chooses among equal links by the target alone, as InfiniBand's tables do.
    """

    fabric: Fabric
    by_target: bool
    seed: int
    _routes: dict[tuple[str, str], list[list[Step]]] = field(default_factory=dict)

    @cached_property
    def neighbours(self) -> Mapping[str, Sequence[tuple[str, Link]]]:
        switches = {device.name for device in self.fabric.switches()}
        found: dict[str, list[tuple[str, Link]]] = {name: [] for name in switches}
        for link in self.fabric.links:
            if {link.a.device, link.b.device} <= switches:
                found[link.a.device].append((link.b.device, link))
                found[link.b.device].append((link.a.device, link))
        return found

    @cached_property
    def distances(self) -> Mapping[str, Mapping[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for start in self.neighbours:
            far, ring = {start: 0}, [start]
            while ring:
                ring = [o for name in ring for o, _ in self.neighbours[name] if o not in far]
                far.update(dict.fromkeys(ring, max(far.values()) + 1))
            found[start] = far
        return found

    def next(self, at: str, end: str) -> list[tuple[str, Link]]:
        far = self.distances[end]
        return [(o, link) for o, link in self.neighbours[at] if far[o] == far[at] - 1]

    def walk(self, pair: PairId, flow: int) -> list[Step]:
        """Return what one flow of a pair crosses."""
        steps, at, end = self.ends(pair)
        while at != end:
            ways = self.next(at, end)
            key = f"{self.seed} {at} {pair.target}" if self.by_target else f"{self.seed} {at} {pair} {flow}"
            at, link = ways[random.Random(key).randrange(len(ways))]  # noqa: S311
            steps += [crossed(link, at), (f"switch {at}", BOTH)]
        return steps

    def ends(self, pair: PairId) -> tuple[list[Step], str, str]:
        up, down = self.fabric.link(pair.source), self.fabric.link(pair.target)
        assert up is not None
        assert down is not None
        leaf, last = up.other(pair.source).device, down.other(pair.target).device
        steps = [
            (f"node {pair.source.device}", TO),
            (f"node {pair.target.device}", FRO),
            crossed(up, leaf),
            crossed(down, pair.target.device),
            (f"switch {leaf}", BOTH),
        ]
        return steps, leaf, last

    def routes(self, at: str, end: str) -> list[list[Step]]:
        """Return all shortest ways between two switches, as what each crosses."""
        if (at, end) not in self._routes:
            found: list[list[Step]] = [[]] if at == end else []
            for other, link in self.next(at, end) if at != end else ():
                here = [crossed(link, other), (f"switch {other}", BOTH)]
                found += [here + rest for rest in self.routes(other, end)]
            self._routes[at, end] = found
        return self._routes[at, end]


def crossed(link: Link, towards: str) -> Step:
    a, b = link.a, link.b
    if not a.device.startswith("node"):
        a, b = (b, a) if b.device.startswith("node") else (a, b)
    return f"link {a} - {b}", TO if towards == b.device else FRO


@dataclass
class Case:
    """Faults in a world, and what the probes say.

    Parameters
    ----------
    flows
        Queue pairs a probe spreads over.
    dark
        Part of the pairs that could not be measured.
    """

    world: World
    faults: Sequence[Fault]
    flows: int
    spec: str
    dark: float

    @cached_property
    def causes(self) -> Mapping[PairId, frozenset[Fault]]:
        """Which faults each measured pair met."""
        rng = random.Random(self.world.seed)  # noqa: S311
        found = {}
        for pair in expand(self.world.fabric, self.spec, seed=self.world.seed):
            if rng.random() < self.dark:
                continue
            walks = [self.world.walk(pair, flow) for flow in range(self.flows)]
            found[pair] = frozenset(f for f in self.faults if any(f.hits(steps) for steps in walks))
        return found

    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(
            Verdict(pair, "any", (Finding("loss", "", Outcome.FAIL if met else Outcome.PASS, ""),))
            for pair, met in self.causes.items()
        )

    @cached_property
    def visible(self) -> tuple[Fault, ...]:
        """Those faults without which some pair would have passed."""
        return tuple(f for f in self.faults if any(met == {f} for met in self.causes.values()))

    @cached_property
    def alone(self) -> bool:
        """Whether the visible faults explain all failures, so that none is hidden by the others."""
        return all(met & set(self.visible) for met in self.causes.values() if met)

    def same(self, element: str) -> set[str]:
        """Return the elements that no pair tells from one: a node with one tested port, and its cable."""
        kind, _, name = element.partition(" ")
        device = name.split("/")[0] if "link node" in element else name
        if kind == "switch" or not device.startswith("node"):
            return {element}
        tested = {p for pair in self.causes for p in (pair.source, pair.target) if p.device == device}
        if len(tested) != 1:
            return {element}
        link = self.world.fabric.link(next(iter(tested)))
        assert link is not None
        return {f"node {device}", crossed(link, "")[0]}

    def explanations(self, most: int) -> list[frozenset[str]]:
        """Return every smallest-in-itself set of up to `most` elements that explains all verdicts."""
        masks = self._masks()
        everything = 0
        for mask in masks.values():
            everything |= mask
        failed = sum(1 for met in self.causes.values() if met)
        if everything.bit_count() < failed:
            return []
        found: list[frozenset[str]] = []
        for size in range(1, most + 1):
            for chosen in combinations(masks, size):
                held = frozenset(chosen)
                if any(small < held for small in found):
                    continue
                mask = 0
                for name in chosen:
                    mask |= masks[name]
                if mask == everything:
                    found.append(held)
        return found

    def two_for_one(self, truth: frozenset[str]) -> bool:
        """Say whether two NICs (cables, nodes) would explain all in the place of one true switch or trunk."""
        return any(
            len(new := other - truth) == 2
            and len(old := truth - other) == 1
            and all("node" in name for name in new)
            and not any("node" in name for name in old)
            for other in self.explanations(len(truth) + 1)
        )

    def _masks(self) -> dict[str, int]:
        """Return by element the failed pairs that it would explain; twins (node and cable) are one."""
        good: set[Step] = set()
        for pair, met in self.causes.items():
            if not met:
                good |= self._certain(pair)
        masks: dict[str, int] = {}
        number = 0
        for pair, met in self.causes.items():
            if met:
                for element, _ in self._possible(pair) - good:
                    name = min(self.same(element))
                    masks[name] = masks.get(name, 0) | 1 << number
                number += 1
        return masks

    def _certain(self, pair: PairId) -> set[Step]:
        steps, at, end = self.world.ends(pair)
        return set(steps) | set.intersection(*(set(way) for way in self.world.routes(at, end)))

    def _possible(self, pair: PairId) -> set[Step]:
        steps, at, end = self.world.ends(pair)
        return set(steps).union(*(set(way) for way in self.world.routes(at, end)))


def random_case(rng: random.Random) -> Case:
    """Return a random fabric with one or two faults."""
    while True:
        by_target = rng.random() < 0.3
        fabric = random_fabric(rng, LinkLayer.INFINIBAND if by_target else LinkLayer.ETHERNET)
        world = World(fabric, by_target, rng.randrange(1 << 30))
        spec = rng.choice(("all", "all", "all", "all-rails", "sample", "ring"))
        ports = sum(1 for _ in fabric.node_ports())
        joined = all(len(far) == len(world.neighbours) for far in world.distances.values())
        if spec == "all-rails" and (ports > 24 or not joined):
            spec = "all"
        if spec == "sample":
            spec = f"sample={ports * 3}"
        faults = random_faults(fabric, rng)
        case = Case(world, faults, rng.choice((1, 1, 4)), spec, rng.choice((0.0, 0.0, 0.05)))
        if case.faults and len(case.causes) > 1:
            return case


def random_faults(fabric: Fabric, rng: random.Random) -> tuple[Fault, ...]:
    found = {}
    for _ in range(rng.randint(1, 2)):
        choices = list(_elements(fabric, rng.choice(KINDS)))
        if choices:
            element = rng.choice(choices)
            way = rng.choice((BOTH, BOTH, TO, FRO)) if element.startswith("link") else BOTH
            found[element] = Fault(element, way)
    return tuple(found.values())


def _elements(fabric: Fabric, kind: str) -> Iterator[str]:
    if kind == "node":
        yield from (f"node {node.name}" for node in fabric.nodes())
    elif kind in {"leaf", "spine"}:
        yield from (f"switch {s.name}" for s in fabric.switches() if (s.tier == "leaf") == (kind == "leaf"))
    else:
        for link in fabric.links:
            name = crossed(link, "")[0]
            if name.startswith("link node") == (kind == "nic"):
                yield name


def named(suspects: Sequence[Suspect]) -> list[set[str]]:
    """Return for each suspect all elements that it names, without directions."""
    return [
        {
            _plain(name)
            for entry in (suspect.element, *suspect.ambiguous_with)
            for together in entry.split(" and ")
            for name in together.split(" or ")
        }
        for suspect in suspects
    ]


def _plain(name: str) -> str:
    return name.partition(" (")[0]
