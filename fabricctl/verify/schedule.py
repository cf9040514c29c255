"""Which pairs to probe, and in which rounds, so that no port is ever used by two pairs at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations

from fabricctl.errors import UsageError
from fabricctl.model.fabric import Fabric, Port
from fabricctl.model.names import PairId, PortId
from fabricctl.model.probe import Round

SPECS = "all, rail, all-rails, leaf, ring, sample=N, or A:B with nodes, ports or all"
"""What ``--pairs`` takes, for messages."""

_Edge = tuple[PortId, PortId]


def expand(fabric: Fabric, spec: str, *, seed: int = 0) -> tuple[PairId, ...]:
    """Return the directed pairs that `spec` names: every pair in both directions, each once.

    Parameters
    ----------
    spec
        ``all`` or ``rail``: every two ports of different nodes on the same rail. ``all-rails``: on any
        rails. ``leaf``: the first port of every leaf with those of the other leaves. ``ring``: every port
        with the next one of its rail. ``sample=N``: N couples of ports, spread evenly over the ports.
        ``A:B``: what is on the left with what is on the right, each a node, a port (``node1/eth1``) or
        ``all``; several are separated by commas.
    seed
        Chooses the sample.

    Raises
    ------
    UsageError
        The spec makes no sense, names what is not in the inventory, or comes to no pair at all.
    """
    edges = list(dict.fromkeys(_ordered(a, b) for a, b in _edges(fabric, spec.strip(), seed)))
    if not edges:
        raise UsageError(
            f"--pairs {spec} comes to no pair",
            next_step="it takes two nodes with ports on the same rail; see the inventory's fabric_ports",
        )
    return tuple(pair for a, b in edges for pair in (PairId(a, b), PairId(b, a)))


def _edges(fabric: Fabric, spec: str, seed: int) -> Iterable[_Edge]:
    word, _, number = spec.partition("=")
    if spec in {"all", "rail"}:
        return [edge for rail in _rails(fabric) for edge in _couples(rail)]
    if spec == "all-rails":
        return _couples(tuple(fabric.node_ports()))
    if spec == "leaf":
        return [edge for rail in _rails(fabric) for edge in _couples(_first_of_each_leaf(fabric, rail))]
    if spec == "ring":
        return [edge for rail in _rails(fabric) for edge in _ring(rail)]
    if word == "sample":
        return _sample(fabric, number, seed)
    if ":" in spec:
        return [edge for part in spec.split(",") for edge in _named(fabric, part.strip())]
    known = ("all", "rail", "all-rails", "leaf", "ring", "sample=")
    near = get_close_matches(spec, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"write {SPECS}"
    raise UsageError(f"--pairs {spec}: not understood", next_step=hint)


def _rails(fabric: Fabric) -> tuple[tuple[Port, ...], ...]:
    rails: dict[int | None, list[Port]] = {}
    for port in fabric.node_ports():
        rails.setdefault(port.rail, []).append(port)
    return tuple(tuple(ports) for ports in rails.values())


def _couples(ports: Sequence[Port]) -> list[_Edge]:
    return [(a.id, b.id) for a, b in combinations(ports, 2) if a.id.device != b.id.device]


def _first_of_each_leaf(fabric: Fabric, ports: Sequence[Port]) -> tuple[Port, ...]:
    first: dict[str, Port] = {}
    for port in ports:
        peer = fabric.peer(port.id)
        # Without a cable in the inventory a port cannot be represented by another one.
        first.setdefault(peer.device if peer else str(port.id), port)
    return tuple(first.values())


def _ring(ports: Sequence[Port]) -> list[_Edge]:
    following = [*ports[1:], *ports[:1]]
    return [(a.id, b.id) for a, b in zip(ports, following, strict=True) if a.id.device != b.id.device]


def _sample(fabric: Fabric, number: str, seed: int) -> list[_Edge]:
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise UsageError(f"--pairs sample={number}: not a count", next_step="write sample=100")
    order = random.Random(seed)  # noqa: S311  a choice to be repeated, not a secret
    turns: list[list[_Edge]] = []
    for rail in _rails(fabric):
        shuffled = order.sample(rail, len(rail))
        colours = _circle([port.id for port in shuffled])
        by_turn: dict[int, list[_Edge]] = {}
        for edge in _couples(shuffled):
            by_turn.setdefault(colours(edge), []).append(edge)
        turns.extend(by_turn[turn] for turn in sorted(by_turn))
    # Turn by turn: in one turn every port of a rail occurs once, so a small sample covers all ports first.
    order.shuffle(turns)
    return [edge for turn in turns for edge in turn][: int(number)]


def _named(fabric: Fabric, spec: str) -> list[_Edge]:
    left, _, right = spec.partition(":")
    sources, targets = _ports(fabric, left.strip()), _ports(fabric, right.strip())
    exact = "/" in left and "/" in right  # two ports named in full are meant, whatever their rails
    found = [
        (a.id, b.id)
        for a in sources
        for b in targets
        if a.id.device != b.id.device and (exact or a.rail == b.rail)
    ]
    if not found:
        raise UsageError(
            f"--pairs {spec} comes to no pair", next_step="name two nodes that have ports on the same rail"
        )
    return found


def _ports(fabric: Fabric, name: str) -> tuple[Port, ...]:
    ports = tuple(fabric.node_ports())
    if name == "all":
        return ports
    chosen = tuple(port for port in ports if name in {port.id.device, str(port.id)})
    if chosen:
        return chosen
    known = sorted({port.id.device for port in ports} | {str(port.id) for port in ports})
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"nodes: {_some(fabric)}"
    raise UsageError(f"--pairs: the inventory has no node or node port {name!r}", next_step=hint)


def _some(fabric: Fabric) -> str:
    names = [node.name for node in fabric.nodes()]
    shown = 8
    return ", ".join(names[:shown]) + (f", ... ({len(names)})" if len(names) > shown else "")


def rounds(pairs: Sequence[PairId]) -> tuple[Round, ...]:
    """Put every pair into exactly one round so that no port occurs twice in a round.

    All pairs of n ports take 2(n-1) rounds if n is even, 2n if it is odd: the fewest there can be. The two
    directions of a pair lie in different rounds. Ports that are never paired with each other (rails) use
    the same rounds.

    Parameters
    ----------
    pairs
        Source and target differ. Duplicates count once.
    """
    wanted = dict.fromkeys(pairs)
    edges = dict.fromkeys(_ordered(pair.source, pair.target) for pair in wanted)
    colours = _colours(list(edges))
    turns: dict[int, list[PairId]] = {}
    for pair in wanted:
        edge = _ordered(pair.source, pair.target)
        turns.setdefault(2 * colours[edge] + (pair.source != edge[0]), []).append(pair)
    return tuple(Round(number, tuple(turns[turn])) for number, turn in enumerate(sorted(turns), start=1))


def _ordered(a: PortId, b: PortId) -> _Edge:
    return (a, b) if a <= b else (b, a)


def _colours(edges: Sequence[_Edge]) -> Mapping[_Edge, int]:
    """Return a turn for every edge so that edges which share a port have different turns."""
    found: dict[_Edge, int] = {}
    for part in _components(edges):
        by_circle, by_first_fit = _by_circle(part), _by_first_fit(part)
        fewer = len(set(by_first_fit.values())) < len(set(by_circle.values()))
        found.update(by_first_fit if fewer else by_circle)
    return found


def _by_circle(edges: Sequence[_Edge]) -> dict[_Edge, int]:
    colour = _circle(sorted({port for edge in edges for port in edge}))
    exact = {edge: colour(edge) for edge in edges}
    dense = {old: new for new, old in enumerate(sorted(set(exact.values())))}
    return {edge: dense[turn] for edge, turn in exact.items()}


def _circle(ports: Sequence[PortId]) -> Callable[[_Edge], int]:
    """Return the turn in which two ports meet by the circle method.

    One port sits in the middle, the others around it, and each turn moves those by one seat.
    """
    seats = {port: seat for seat, port in enumerate(ports)}
    around = len(ports) - 1 + len(ports) % 2

    def turn(edge: _Edge) -> int:
        a, b = sorted((seats[edge[0]], seats[edge[1]]))
        # The one in the middle has the last seat; seats that sum to the same turn meet.
        return (2 * a if b == around else a + b) % around

    return turn


def _by_first_fit(edges: Sequence[_Edge]) -> dict[_Edge, int]:
    """Give every edge the first turn that is free at both its ports; best for few edges."""
    used: dict[PortId, int] = {}  # a bit a turn
    found: dict[_Edge, int] = {}
    for a, b in edges:
        taken = used.get(a, 0) | used.get(b, 0)
        bit = ~taken & (taken + 1)
        used[a] = used.get(a, 0) | bit
        used[b] = used.get(b, 0) | bit
        found[a, b] = bit.bit_length() - 1
    return found


def _components(edges: Sequence[_Edge]) -> list[list[_Edge]]:
    root: dict[PortId, PortId] = {}

    def find(port: PortId) -> PortId:
        root.setdefault(port, port)
        while root[port] != port:
            root[port] = root[root[port]]
            port = root[port]
        return port

    for a, b in edges:
        root[find(a)] = find(b)
    parts: dict[PortId, list[_Edge]] = {}
    for edge in edges:
        parts.setdefault(find(edge[0]), []).append(edge)
    return list(parts.values())
