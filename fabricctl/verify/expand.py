"""Which pairs of ports ``--pairs`` names."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import combinations

from fabricctl.errors import UsageError
from fabricctl.model.fabric import Fabric, Port
from fabricctl.model.past import Past
from fabricctl.verify.pairs import Pairs, circle, numbers
from fabricctl.verify.risk import needed

SPECS = "all, rail, all-rails, leaf, ring, changed, sample=N, or A:B with nodes, ports or all"
"""What ``--pairs`` takes, for messages."""

_Edge = tuple[int, int]
_Rail = tuple[int, ...]
"""Numbers of ports, as places in all ports of nodes."""


def expand(fabric: Fabric, spec: str, *, seed: int = 0, past: Past | None = None) -> Pairs:
    """Return the directed pairs that `spec` names: every couple in both directions, each once.

    Parameters
    ----------
    spec
        ``all`` or ``rail``: every two ports of different nodes on the same rail. ``all-rails``: on any
        rails. ``leaf``: the first port of every leaf with those of the other leaves. ``ring``: every port
        with the next one of its rail. ``changed``: those of ``rail`` that are not known to be good still
        (``verify/risk.py``). ``sample=N``: N couples of ports, spread evenly over the ports.
        ``A:B``: what is on the left with what is on the right, each a node, a port (``node1/eth1``) or
        ``all``; several are separated by commas.
    seed
        Chooses the sample.
    past
        What ``changed`` goes by; None is that nothing is known, so that everything counts as changed.

    Returns
    -------
    Pairs
        Never empty, except for ``changed``: then all is well.

    Raises
    ------
    UsageError
        The spec makes no sense, names what is not in the inventory, or comes to no pair at all.
    """
    ports = tuple(fabric.node_ports())
    wanted = spec.strip()
    found = _pairs(fabric, ports, "rail" if wanted == "changed" else wanted, seed)
    if not found:
        raise UsageError(
            f"--pairs {spec} comes to no pair",
            next_step="it takes two nodes with ports on the same rail; see the inventory's fabric_ports",
        )
    return needed(found, past or Past()) if wanted == "changed" else found


def _pairs(fabric: Fabric, ports: Sequence[Port], spec: str, seed: int) -> Pairs:
    if spec in {"all", "rail"}:
        return _all_of(ports, _rails(ports))
    if spec == "all-rails":
        return _all_of(ports, [tuple(range(len(ports)))])
    edges = dict.fromkeys((min(edge), max(edge)) for edge in _edges(fabric, ports, spec, seed))
    firsts, seconds = (numbers(len(ports), [edge[i] for edge in edges]) for i in (0, 1))
    return Pairs.both_ways([port.id for port in ports], firsts, seconds)


def _all_of(ports: Sequence[Port], rails: Sequence[_Rail]) -> Pairs:
    """Return all couples within each rail, but those within a node."""
    size = len(ports)
    nodes = [port.id.device for port in ports]
    firsts, seconds = numbers(size), numbers(size)
    whole = all(len({nodes[n] for n in rail}) == len(rail) for rail in rails)
    for rail in rails:
        for place, a in enumerate(rail):
            others: Sequence[int] = rail[place + 1 :]
            if not whole:
                others = [b for b in others if nodes[b] != nodes[a]]
            firsts.extend(array(firsts.typecode, [a]) * len(others))
            seconds.extend(others)
    groups = [rail for rail in rails if len(rail) > 1] if whole else ()
    return Pairs.both_ways([port.id for port in ports], firsts, seconds, groups)


def _edges(fabric: Fabric, ports: Sequence[Port], spec: str, seed: int) -> Iterable[_Edge]:
    word, _, number = spec.partition("=")
    if spec == "leaf":
        firsts = [_first_of_each_leaf(fabric, ports, rail) for rail in _rails(ports)]
        return [edge for rail in firsts for edge in _couples(ports, rail)]
    if spec == "ring":
        return [edge for rail in _rails(ports) for edge in _ring(ports, rail)]
    if word == "sample":
        return _sample(ports, number, seed)
    if ":" in spec:
        return [edge for part in spec.split(",") for edge in _named(fabric, ports, part.strip())]
    known = ("all", "rail", "all-rails", "leaf", "ring", "changed", "sample=")
    near = get_close_matches(spec, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"write {SPECS}"
    raise UsageError(f"--pairs {spec}: not understood", next_step=hint)


def _rails(ports: Sequence[Port]) -> list[_Rail]:
    rails: dict[int | None, list[int]] = {}
    for place, port in enumerate(ports):
        rails.setdefault(port.rail, []).append(place)
    return [tuple(places) for places in rails.values()]


def _couples(ports: Sequence[Port], places: Sequence[int]) -> list[_Edge]:
    return [(a, b) for a, b in combinations(places, 2) if ports[a].id.device != ports[b].id.device]


def _first_of_each_leaf(fabric: Fabric, ports: Sequence[Port], rail: _Rail) -> _Rail:
    first: dict[str, int] = {}
    for place in rail:
        port = ports[place].id
        peer = fabric.peer(port)
        # Without a cable in the inventory a port cannot be represented by another one.
        first.setdefault(peer.device if peer else str(port), place)
    return tuple(first.values())


def _ring(ports: Sequence[Port], rail: _Rail) -> list[_Edge]:
    following = zip(rail, (*rail[1:], *rail[:1]), strict=True)
    return [(a, b) for a, b in following if ports[a].id.device != ports[b].id.device]


def _sample(ports: Sequence[Port], number: str, seed: int) -> list[_Edge]:
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise UsageError(f"--pairs sample={number}: not a count", next_step="write sample=100")
    order = random.Random(seed)  # noqa: S311  a choice to be repeated, not a secret
    turns: list[list[_Edge]] = []
    for rail in _rails(ports):
        shuffled = numbers(len(ports), order.sample(rail, len(rail)))
        for firsts, seconds in circle(shuffled):
            turn = zip(firsts, seconds, strict=True)
            turns.append([(a, b) for a, b in turn if ports[a].id.device != ports[b].id.device])
    # Turn by turn: in one turn every port of a rail occurs once, so a small sample covers all ports first.
    order.shuffle(turns)
    return [edge for turn in turns for edge in turn][: int(number)]


def _named(fabric: Fabric, ports: Sequence[Port], spec: str) -> list[_Edge]:
    left, _, right = spec.partition(":")
    sources, targets = _chosen(fabric, ports, left.strip()), _chosen(fabric, ports, right.strip())
    exact = "/" in left and "/" in right  # two ports named in full are meant, whatever their rails
    found = [
        (a, b)
        for a in sources
        for b in targets
        if ports[a].id.device != ports[b].id.device and (exact or ports[a].rail == ports[b].rail)
    ]
    if not found:
        raise UsageError(
            f"--pairs {spec} comes to no pair", next_step="name two nodes that have ports on the same rail"
        )
    return found


def _chosen(fabric: Fabric, ports: Sequence[Port], name: str) -> list[int]:
    if name == "all":
        return list(range(len(ports)))
    chosen = [n for n, port in enumerate(ports) if name in {port.id.device, str(port.id)}]
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
