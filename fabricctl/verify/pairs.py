"""Many directed pairs of ports in little memory: two numbers each, turned into names when somebody looks."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from fabricctl.model.names import PairId, PortId

_SHORT = 1 << 16
"""So many ports have numbers of two bytes."""


def numbers(ports: int, values: Iterable[int] = ()) -> array[int]:
    """Return an array for the numbers of so many ports."""
    return array("H" if ports <= _SHORT else "I", values)


Matching = tuple["array[int]", "array[int]"]
"""Couples of ports that can be at work at the same time: the numbers of one end and of the other."""


def circle(seats: array[int]) -> list[Matching]:
    """Return turns in which every two of `seats` (one or more) meet exactly once, by the circle method.

    For an even number the last one sits in the middle and the others around it; those at the same distance
    left and right of the one that faces the middle meet, and each turn the next one faces it. For an odd
    number the one that faces the middle rests.
    """
    around = len(seats) - 1 + len(seats) % 2
    half = (around - 1) // 2
    ring, middle = seats[:around] * 2, seats[around:]
    turns = []
    for facing in range(around):
        right = ring[facing + 1 : facing + 1 + half]
        left = ring[facing + around - half : facing + around]
        left.reverse()
        turns.append((right + ring[facing : facing + len(middle)], left + middle))
    return turns


class Pairs(Sequence[PairId]):
    """Directed pairs of ports, each once; a sequence of `PairId` that makes them as they are asked for.

    A million of them take 4 MB. It equals any sequence of the same pairs in the same order.

    Parameters
    ----------
    ports
        What the numbers mean, by place.
    sources, targets
        Numbers of the ports of each pair; source and target differ.
    groups
        If not empty: the pairs are exactly all pairs within each of these disjoint groups of two ports or
        more, in both directions. It spares whoever schedules them to find that out.
    """

    __slots__ = ("groups", "ports", "sources", "targets")

    def __init__(
        self,
        ports: Sequence[PortId],
        sources: array[int],
        targets: array[int],
        groups: Sequence[Sequence[int]] = (),
    ) -> None:
        self.ports = ports
        self.sources = sources
        self.targets = targets
        self.groups = groups

    @classmethod
    def of(cls, pairs: Iterable[PairId]) -> Pairs:
        """Return the pairs in their order, each once."""
        if isinstance(pairs, Pairs):
            return pairs
        places: dict[PortId, int] = {}
        found = dict.fromkeys(
            (places.setdefault(p.source, len(places)), places.setdefault(p.target, len(places)))
            for p in pairs
        )
        sources, targets = (numbers(len(places), (ends[i] for ends in found)) for i in (0, 1))
        return cls(tuple(places), sources, targets)

    @classmethod
    def both_ways(
        cls,
        ports: Sequence[PortId],
        firsts: array[int],
        seconds: array[int],
        groups: Sequence[Sequence[int]] = (),
    ) -> Pairs:
        """Return each couple in both directions, one after the other."""
        sources = numbers(len(ports), firsts) + numbers(len(ports), seconds)
        targets = sources[:]
        sources[0::2], sources[1::2] = firsts, seconds
        targets[0::2], targets[1::2] = seconds, firsts
        return cls(ports, sources, targets, groups)

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        """Return the pairs of several parts that number the same ports and have no pair in common."""
        ports = parts[0].ports if parts else ()
        sources, targets = numbers(len(ports)), numbers(len(ports))
        for part in parts:
            sources.extend(part.sources)
            targets.extend(part.targets)
        return cls(ports, sources, targets)

    def at(self, places: Sequence[int]) -> Pairs:
        """Return the pairs at these places, in the order of the places."""
        size = len(self.ports)
        sources, targets = self.sources, self.targets
        return Pairs(
            self.ports,
            numbers(size, [sources[i] for i in places]),
            numbers(size, [targets[i] for i in places]),
        )

    def among(self, ports: Iterable[PortId]) -> Pairs:
        """Return the pairs with both ends among `ports`."""
        wanted = frozenset(ports)
        inside = [port in wanted for port in self.ports]
        if all(inside):
            return self
        ends = zip(self.sources, self.targets, strict=True)
        found = self.at([place for place, (a, b) in enumerate(ends) if inside[a] and inside[b]])
        left = ([n for n in group if inside[n]] for group in self.groups)
        found.groups = [group for group in left if len(group) > 1]
        return found

    def is_both_ways(self) -> bool:
        """Say whether every couple is there in both directions, one after the other."""
        there, back = self.sources[0::2], self.targets[0::2]
        return there == self.targets[1::2] and back == self.sources[1::2]

    def taking_part(self) -> tuple[PortId, ...]:
        """Return the ports that occur, each once, in the order in which they are numbered."""
        return tuple(self.ports[n] for n in sorted(set(self.sources) | set(self.targets)))

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[PairId]:
        named = self.ports.__getitem__
        return map(PairId, map(named, self.sources), map(named, self.targets))

    @overload
    def __getitem__(self, place: int) -> PairId: ...

    @overload
    def __getitem__(self, place: slice) -> Pairs: ...

    def __getitem__(self, place: int | slice) -> PairId | Pairs:
        """Return one pair, or some of them."""
        if isinstance(place, slice):
            return Pairs(self.ports, self.sources[place], self.targets[place])
        return PairId(self.ports[self.sources[place]], self.ports[self.targets[place]])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))  # as the tuple that it equals

    def __repr__(self) -> str:
        shown = ", ".join(str(pair) for pair in self[:3])
        return f"<{len(self)} pairs: {shown}{', ...' if len(self) > len(self[:3]) else ''}>"
