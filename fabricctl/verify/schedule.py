"""In which rounds pairs are probed: no port in two couples at once, no uplink overloaded."""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.probe import Round
from fabricctl.verify.expand import SPECS, expand
from fabricctl.verify.pairs import Matching, Pairs, circle, numbers
from fabricctl.verify.uplinks import Uplinks, uplinks

__all__ = ["SPECS", "bandwidth_rounds", "expand", "packed", "rounds"]

_LOOK_AHEAD = 128
"""Among so many rounds the one is looked for that touches the most new pairs of leaves."""

_Edge = tuple[int, int]


def rounds(pairs: Sequence[PairId], fabric: Fabric | None = None) -> tuple[Round, ...]:
    """Put every pair into exactly one round so that no port is in two couples of a round.

    Both directions of a couple lie in the same round, one after the other. All couples of n ports take n-1
    rounds if n is even, n if it is odd: the fewest there can be. Ports that are never paired with each other
    (rails) use the same rounds.

    Which ports meet when is shuffled, always in the same way: a round mixes couples on one leaf with
    couples across, in about the proportion that all of them have, and its couples across leave a leaf for
    many others. The first rounds are those that touch the most pairs of leaves: with all ports and nearly
    all pairs of leaves touched early, a fault shows soon.

    Parameters
    ----------
    pairs
        Source and target differ. Duplicates count once.
    fabric
        Says which leaf a port is on; None leaves the rounds in the order in which they come.
    """
    return _numbered(_turns(Pairs.of(pairs), fabric))


def _numbered(turns: Iterable[Pairs]) -> tuple[Round, ...]:
    return tuple(Round(number, turn) for number, turn in enumerate(turns, start=1))


def _turns(pairs: Pairs, fabric: Fabric | None) -> list[Pairs]:
    if pairs.groups:
        return _by_group(pairs.groups, fabric, pairs.ports)
    ways = _ways(pairs)
    parts = [_matchings(part, len(pairs.ports)) for part in _components(ways)]
    turns = _merged(parts, fabric, pairs.ports)
    return [_only(turn, ways) for turn in turns] if any(w != _BOTH for w in ways.values()) else turns


def _by_group(groups: Sequence[Sequence[int]], fabric: Fabric | None, ports: Sequence[PortId]) -> list[Pairs]:
    return _merged([_shuffled_circle(group, len(ports)) for group in groups], fabric, ports)


def _merged(parts: list[list[Matching]], fabric: Fabric | None, ports: Sequence[PortId]) -> list[Pairs]:
    """Return the turns of parts that have no port in common, each part's in the best order."""
    if fabric is not None:
        leaves = _leaves(fabric, ports)
        parts = [_early_first(part, leaves) for part in parts]
    return [_joined(turn, ports) for turn in zip_longest(*parts)]


def _leaves(fabric: Fabric, ports: Sequence[PortId]) -> list[int]:
    """Return by port the number of its leaf; a port whose cable the inventory does not name is its own."""
    found: dict[str, int] = {}
    peers = ((port, fabric.peer(port)) for port in ports)
    return [found.setdefault(peer.device if peer else str(port), len(found)) for port, peer in peers]


_FORTH, _BACK = 1, 2
_BOTH = _FORTH | _BACK


def _ways(pairs: Pairs) -> dict[_Edge, int]:
    """Return by couple, the lesser number first, in which directions it is wanted."""
    found: dict[_Edge, int] = {}
    for a, b in zip(pairs.sources, pairs.targets, strict=True):
        edge, way = ((a, b), _FORTH) if a < b else ((b, a), _BACK)
        found[edge] = found.get(edge, 0) | way
    return found


def _joined(turn: Iterable[Matching | None], ports: Sequence[PortId]) -> Pairs:
    firsts, seconds = numbers(len(ports)), numbers(len(ports))
    for matching in turn:
        if matching is not None:
            firsts.extend(matching[0])
            seconds.extend(matching[1])
    return Pairs.both_ways(ports, firsts, seconds)


def _only(turn: Pairs, ways: Mapping[_Edge, int]) -> Pairs:
    """Return the pairs of a round without the directions that nobody asked for."""
    ends = enumerate(zip(turn.sources, turn.targets, strict=True))
    return turn.at(
        [place for place, (a, b) in ends if (ways[a, b] & _FORTH if a < b else ways[b, a] & _BACK)]
    )


def _shuffled_circle(ports: Sequence[int], of: int) -> list[Matching]:
    seats = list(ports)
    random.Random(len(seats)).shuffle(seats)  # noqa: S311  an order that is the same each time, no secret
    return circle(numbers(of, seats))


def _matchings(edges: Sequence[_Edge], of: int) -> list[Matching]:
    """Return couples that hang together as few matchings, by the better of two ways."""
    degrees = Counter(port for edge in edges for port in edge)
    fewest = max(*degrees.values(), -(-len(edges) // (len(degrees) // 2)))
    found = _by_circle(edges, list(degrees), of)
    if len(found) > fewest:
        found = min(found, _by_first_fit(edges, of), key=len)
    return found


def _by_circle(edges: Iterable[_Edge], ports: Sequence[int], of: int) -> list[Matching]:
    """Give every couple the turn in which it meets when all ports meet each other."""
    seats = list(ports)
    random.Random(len(seats)).shuffle(seats)  # noqa: S311  an order that is the same each time, no secret
    seat_of = {port: seat for seat, port in enumerate(seats)}
    around = len(seats) - 1 + len(seats) % 2
    turns: dict[int, Matching] = {}
    for a, b in edges:
        one, other = seat_of[a], seat_of[b]
        # The one in the middle has the last seat; of the others those meet whose seats sum to the same.
        turn = 2 * min(one, other) if around in {one, other} else one + other
        firsts, seconds = turns.setdefault(turn % around, (numbers(of), numbers(of)))
        firsts.append(a)
        seconds.append(b)
    return [turns[turn] for turn in sorted(turns)]


def _by_first_fit(edges: Iterable[_Edge], of: int) -> list[Matching]:
    """Give every couple the first turn that is free at both its ports; best for few couples."""
    used: dict[int, int] = {}  # a bit a turn
    turns: list[Matching] = []
    for a, b in edges:
        taken = used.get(a, 0) | used.get(b, 0)
        bit = ~taken & (taken + 1)
        used[a] = used.get(a, 0) | bit
        used[b] = used.get(b, 0) | bit
        if bit.bit_length() > len(turns):
            turns.append((numbers(of), numbers(of)))
        firsts, seconds = turns[bit.bit_length() - 1]
        firsts.append(a)
        seconds.append(b)
    return turns


def _components(edges: Iterable[_Edge]) -> list[list[_Edge]]:
    root: dict[int, int] = {}

    def find(port: int) -> int:
        while (up := root.setdefault(port, port)) != port:
            root[port] = port = root[up]
        return port

    held = list(edges)
    for a, b in held:
        root[find(a)] = find(b)
    parts: dict[int, list[_Edge]] = {}
    for edge in held:
        parts.setdefault(find(edge[0]), []).append(edge)
    return list(parts.values())


def _early_first(matchings: list[Matching], leaves: Sequence[int]) -> list[Matching]:
    """Return first those that touch the most pairs of leaves which none before has touched."""
    near = matchings[:_LOOK_AHEAD]
    touched = [{(min(e), max(e)) for e in _leaf_pairs(m, leaves)} for m in near]
    waiting = dict.fromkeys(range(len(near)))
    order: list[int] = []
    seen: set[_Edge] = set()
    while waiting:
        best = max(waiting, key=lambda place: len(touched[place] - seen))
        if touched[best] <= seen:
            break
        seen |= touched[best]
        del waiting[best]
        order.append(best)
    return [matchings[place] for place in (*order, *waiting)] + matchings[_LOOK_AHEAD:]


def _leaf_pairs(matching: Matching, leaves: Sequence[int]) -> set[_Edge]:
    of = leaves.__getitem__
    return set(zip(map(of, matching[0]), map(of, matching[1]), strict=True))


def bandwidth_rounds(fabric: Fabric, pairs: Sequence[PairId]) -> tuple[Round, ...]:
    """Put every pair into one round so that, besides, no uplink carries more than it can.

    For that every couple counts as sending at its line rate, one direction at a time or both: links carry as
    much up as down. ``uplinks.py`` says what counts as an uplink, what is assumed of ECMP, and the limit of
    that. A couple that alone is more than a group of links can carry has the group to itself. Couples that
    cross no uplink fill the rounds.

    Both directions of a couple lie in the same round. Where the uplinks carry all ports at once the rounds
    are those of `rounds`; else a couple is given the first round that has room for it.
    """
    held = Pairs.of(pairs)
    limits = uplinks(fabric, held.ports)
    if not limits.narrow():
        return rounds(held, fabric)
    if held.groups and _alike(held.groups, limits):
        # Every rail has its own uplinks, and all are built the same: one is enough to think about.
        turns = _by_group(held.groups[:1], fabric, held.ports)
        first = packed(Pairs.joined(turns), limits)
        return _numbered(_repeated(first, held.groups))
    return _numbered(packed(Pairs.joined(_turns(held, fabric)), limits))


def _alike(groups: Sequence[Sequence[int]], limits: Uplinks) -> bool:
    """Say whether groups of ports have no uplink in common and are the same but for the names."""
    seen: set[int] = set()
    shapes = set()
    for ports in groups:
        behind: dict[int, int] = {}
        where = tuple(
            (limits.rate_of[p], *(behind.setdefault(g, len(behind)) for g in sorted(limits.groups_at(p))))
            for p in ports
        )
        shapes.add((where, tuple(limits.capacities[group] for group in behind)))
        if not seen.isdisjoint(behind):
            return False
        seen |= behind.keys()
    return len(shapes) == 1


def _repeated(turns: Iterable[Pairs], groups: Sequence[Sequence[int]]) -> Iterator[Pairs]:
    """Yield turns of couples of the first group, both ways, with the same couples of all groups."""
    tables: list[list[int]] = []
    for group in groups:
        table = [0] * (max(groups[0]) + 1)
        for one, other in zip(groups[0], group, strict=True):
            table[one] = other
        tables.append(table)
    for turn in turns:
        size = len(turn.ports)
        ends = (turn.sources[0::2], turn.targets[0::2])
        firsts, seconds = (numbers(size, [table[n] for table in tables for n in end]) for end in ends)
        yield Pairs.both_ways(turn.ports, firsts, seconds)


def packed(pairs: Pairs, limits: Uplinks | None = None) -> list[Pairs]:
    """Give every couple, in their order, the first turn that has room for it, and return the turns.

    Parameters
    ----------
    pairs
        If both directions of a couple are wanted they stand one after the other.
    limits
        Of the ports that `pairs` number; None is no limit but that a port is used once a turn.
    """
    room = _Room(len(pairs.ports), limits)
    size = len(pairs.ports)
    turns: list[Matching] = []
    whole = pairs.is_both_ways()
    before, turn = (-1, -1), 0
    for a, b in zip(pairs.sources[:: 1 + whole], pairs.targets[:: 1 + whole], strict=True):
        if whole or (b, a) != before:
            turn = room.take(a, b)
            if turn == len(turns):
                turns.append((numbers(size), numbers(size)))
            before = (a, b)
        firsts, seconds = turns[turn]
        firsts.append(a)
        seconds.append(b)
    return [(Pairs.both_ways if whole else Pairs)(pairs.ports, *turn) for turn in turns]


class _Room:
    """What is still free in which round: at ports, and in groups of uplinks."""

    def __init__(self, ports: int, limits: Uplinks | None) -> None:
        limits = limits or Uplinks((), (), (1,), (0,) * ports, (0,) * ports, (frozenset(),))
        self._limits = limits
        crossed = limits.crossed()
        self._place = limits.place_of
        self._rate = limits.rate_of
        self._crossed = [crossed[place] for place in limits.place_of]  # by port, then by place
        self._fastest = max(limits.rates, default=0)
        self._used = [0] * ports  # a bit a round, set if it is taken
        # By group and rate: a bit a round, set if a couple of that rate has no room any more.
        self._full = [[0] * len(limits.rates) for _ in limits.names]
        self._load: list[array[int]] = [array("Q") for _ in limits.names]

    def take(self, a: int, b: int) -> int:
        """Return the first turn, from 0, with room for a couple, and take it."""
        used, rates = self._used, self._rate
        rate = rates[a] if rates[a] == rates[b] else min(rates[a], rates[b])
        crossed = self._crossed[a][self._place[b]]
        taken = used[a] | used[b]
        for group in crossed:
            taken |= self._full[group][rate]
        bit = ~taken & (taken + 1)
        used[a] |= bit
        used[b] |= bit
        turn = bit.bit_length() - 1
        for group in crossed:
            load = self._load[group]
            if turn >= len(load):
                load.extend([0] * (turn + 1 - len(load)))
            load[turn] += self._limits.rates[rate]
            free = self._limits.capacities[group] - load[turn]
            if free < self._fastest:
                self._fill(group, bit, free)
        return turn

    def _fill(self, group: int, bit: int, free: int) -> None:
        """Close a turn to couples that need more of a group of uplinks than is free."""
        full = self._full[group]
        for place, rate in enumerate(self._limits.rates):
            if rate > free:
                full[place] |= bit
