"""The fewest things that explain all of many facts, each of which one of some things would explain.

This is the minimum hitting set problem: exact by branch and bound for up to three elements that hang
together (what single facts force, and what shares no fact, is split off first), greedy beyond, which is said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

MOST = 3
"""Up to so many elements that hang together the smallest set is found exactly."""

WINDOW = math.log(1000)
"""Sets whose likelihoods differ by less than this (natural log) count as equal.

A true explanation falls behind a given wrong one by a factor of k with a probability of at most 1/k (Royall,
*Statistical Evidence*, 1997, section 1.4).
"""

_EFFORT = 8_000_000
"""So many looks at facts the exact search may take: a few seconds."""

_ROWS = 20_000
"""So many distinct facts that hang together are searched exactly."""

_MANY = 50_000
"""Of more distinct facts an even part is explained first, and then what that leaves open."""

Set = tuple[tuple[int, ...], ...]
"""A set of elements that explains everything; each place lists all choices that do equally well there."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What speaks for and against an element.

    Parameters
    ----------
    passed, failed
        How many of those that may have crossed it on one of several paths passed and failed.
    share
        The part of them that must have crossed it, 0 < share < 1 (where there are any).
    common
        Whether it is of a kind of which two are often at fault at the same time (NICs and their cables), so
        that two of them are weighed against one other element that would explain as much.
    what
        The thing that it is, where it may be one direction of a thing: no set has the same thing twice.
    """

    passed: float = 0.0
    failed: float = 0.0
    share: float = 0.0
    common: bool = False
    what: str = ""

    def unlikely(self, part: float = 1.0) -> float:
        """Return minus the log likelihood of what was seen if it is at fault, 0 or more.

        Each of those that may have crossed it fails with one and the same chance, at least `share`.

        Parameters
        ----------
        part
            Of those that failed, how many nothing else explains, 0..1; more makes it less likely.
        """
        if self.passed <= 0:
            return 0.0
        failed = self.failed * part
        chance = max(failed / (failed + self.passed), self.share)
        return -failed * math.log(chance) - self.passed * math.log1p(-chance)


@dataclass(frozen=True, slots=True)
class Cover:
    """How the facts that hang together are explained.

    Parameters
    ----------
    sets
        The likeliest of the smallest sets first, then all that do equally well.
    exact
        Whether they are surely the smallest, and all of them.
    """

    sets: tuple[Set, ...]
    exact: bool = True


def covers(rows: Mapping[int, int], choices: Sequence[Choice]) -> tuple[Cover, ...]:
    """Return the explanations of all facts, one for each group of facts that hang together.

    Parameters
    ----------
    rows
        Facts, each with how often it was seen; bit i of a fact is set if choice i explains it. None is 0.
    """
    if len(rows) > _MANY:
        return _in_parts(rows, choices)
    left = set(rows)
    forced = 0
    for row in left:
        if row.bit_count() == 1:
            forced |= row
    found = [Cover((((index,),),)) for index in bits(forced)]
    left = {row for row in left if not row & forced}
    found += [_cover({row: rows[row] for row in part}, choices) for part in _parts(left)]
    return tuple(found)


def _in_parts(rows: Mapping[int, int], choices: Sequence[Choice]) -> tuple[Cover, ...]:
    some = dict(islice(rows.items(), 0, None, -(-len(rows) // _MANY)))
    found = tuple(replace(cover, exact=False) for cover in covers(some, choices))
    chosen = 0
    for cover in found:
        for members in cover.sets[0]:
            chosen |= 1 << members[0]
    return (*found, *covers({row: count for row, count in rows.items() if not row & chosen}, choices))


def bits(mask: int) -> Iterator[int]:
    """Return the places of the bits that are set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _parts(rows: Iterable[int]) -> list[list[int]]:
    """Split facts into groups that have no choice in common."""
    parts: list[tuple[int, list[int]]] = []
    for row in sorted(rows):
        mask, held, others = row, [row], []
        for part in parts:
            if part[0] & mask:
                mask |= part[0]
                held = part[1] + held if len(part[1]) < len(held) else _into(part[1], held)
            else:
                others.append(part)
        parts = [*others, (mask, held)]
    return [held for _, held in parts]


def _into(large: list[int], small: list[int]) -> list[int]:
    large.extend(small)
    return large


def _cover(rows: Mapping[int, int], choices: Sequence[Choice]) -> Cover:
    classes = _classes(rows, choices)
    place_of = {index: place for place, members in enumerate(classes) for index in members}
    alike: dict[int, int] = {}
    for row, count in rows.items():
        mask = 0
        for index in bits(row):
            if index in place_of:
                mask |= 1 << place_of[index]
        alike[mask] = alike.get(mask, 0) + count
    things = [frozenset(choices[index].what or str(index) for index in members) for members in classes]
    search = _Search([choices[members[0]] for members in classes], things, alike, _smallest(alike))
    if len(search.facts) <= _ROWS:
        search.grow((), 0.0, search.facts)
    if search.found:
        sets = tuple(tuple(classes[place] for place in best) for best in search.best())
        return Cover(sets, exact=search.effort >= 0)
    return Cover((tuple(classes[place] for place in search.greedy()),), exact=False)


def _classes(rows: Iterable[int], choices: Sequence[Choice]) -> list[tuple[int, ...]]:
    """Return the choices grouped by the facts that they explain; of each group those that are as likely."""
    explains: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        for index in bits(row):
            explains.setdefault(index, []).append(number)
    groups: dict[tuple[int, ...], list[int]] = {}
    for index in sorted(explains):
        groups.setdefault(tuple(explains[index]), []).append(index)
    return [tuple(_likely(members, choices)) for members in groups.values()]


def _likely(members: Sequence[int], choices: Sequence[Choice]) -> list[int]:
    ranked = sorted(members, key=lambda index: (choices[index].unlikely(), index))
    least = choices[ranked[0]].unlikely()
    return [index for index in ranked if choices[index].unlikely() < least + WINDOW]


def _smallest(rows: Collection[int]) -> list[int]:
    """Return the facts without those that one of the smallest facts implies, the smallest first."""
    ranked = sorted(rows, key=lambda row: (row.bit_count(), row))
    kept: list[int] = []
    for row in ranked:
        if not any(small & row == small for small in kept[:64]):
            kept.append(row)
    return kept


@dataclass
class _Search:
    """Branch and bound over sets of classes.

    Parameters
    ----------
    choices
        What speaks for and against each class.
    things
        What things the members of each class are.
    seen
        All facts, each with how often it was seen.
    facts
        Those that imply all others.
    effort
        How many looks at facts are left; below 0 the search was given up.
    found
        The cost of every set that explains all, by its classes in ascending order.
    """

    choices: Sequence[Choice]
    things: Sequence[frozenset[str]]
    seen: Mapping[int, int]
    facts: Sequence[int]
    effort: int = field(default_factory=lambda: _EFFORT)
    found: dict[tuple[int, ...], float] = field(default_factory=dict)
    bound: float = math.inf
    least: list[float] = field(init=False)

    def __post_init__(self) -> None:
        """Price each class at the least that it may come to."""
        self.least = [WINDOW + choice.unlikely(0.0) for choice in self.choices]

    def grow(self, chosen: tuple[int, ...], cost: float, left: Sequence[int]) -> None:
        """Try all ways to explain what is left with few enough further classes."""
        if not left:
            self._note(tuple(sorted(chosen)))
            return
        self.effort -= len(left)
        if len(chosen) == MOST or self.effort < 0:
            return
        tried = _all_of(left) if len(chosen) == MOST - 1 else min(left, key=int.bit_count)
        for place in bits(tried):
            more = cost + self.least[place]
            if more < self.bound:
                self.grow((*chosen, place), more, [row for row in left if not row >> place & 1])

    def _note(self, chosen: tuple[int, ...]) -> None:
        if chosen not in self.found and self._needed(chosen):
            cost = self.found[chosen] = self._cost(chosen)
            # Two common ones may be weighed against a single one at the cost of one more element.
            self.bound = min(self.bound, cost + 2 * WINDOW)

    def _needed(self, chosen: Collection[int]) -> bool:
        """Say whether each is needed for some fact, and no two are the same thing."""
        if self._twice(chosen):
            return False
        mask = sum(1 << place for place in chosen)
        alone = {row & mask for row in self.facts if (row & mask).bit_count() == 1}
        return len(alone) == mask.bit_count()

    def _twice(self, chosen: Collection[int]) -> bool:
        # Where members of two classes are the same things, one direction of each, both are one explanation.
        return len({self.things[place] for place in chosen}) < len(chosen)

    def _cost(self, chosen: Collection[int]) -> float:
        """Return a price for each element, plus how unlikely it is that they explain what was seen."""
        if len(chosen) == 1 or not any(self.choices[place].passed for place in chosen):
            return sum(WINDOW + self.choices[place].unlikely() for place in chosen)
        mask = sum(1 << place for place in chosen)
        sure = sum(1 << place for place in chosen if not self.choices[place].passed)
        own: dict[int, float] = dict.fromkeys(chosen, 0.0)
        whole = Counter[int]()
        for row, count in self.seen.items():
            held = list(bits(row & mask))
            for place in held:
                whole[place] += count
                if not row & sure:  # what one surely explains takes no luck of the others
                    own[place] += count / len(held)
        return sum(WINDOW + self.choices[place].unlikely(own[place] / whole[place]) for place in chosen)

    def best(self) -> list[tuple[int, ...]]:
        """Return the likeliest set and those that do as well, by cost."""
        ranked = sorted(self.found.items(), key=lambda item: (item[1], item[0]))
        first, least = ranked[0]
        equal = [
            chosen
            for chosen, cost in ranked
            if cost < least + WINDOW or (self._rivals(chosen, first) and cost < least + 2 * WINDOW)
        ]
        more = self._extended(first, least)
        return equal if more == first else [more, *equal]

    @property
    def _luck(self) -> float:
        """What the best of so many choices gains by chance."""
        return math.log(len(self.choices))

    def _extended(self, chosen: tuple[int, ...], cost: float) -> tuple[int, ...]:
        """Add what makes a set much likelier that explains all already, but only by luck."""
        others = [p for p in range(len(self.choices)) if p not in chosen and not self._twice((*chosen, p))]
        lucky = any(self.choices[place].passed for place in chosen)
        if not lucky or not others or len(chosen) == MOST or len(others) * len(self.seen) > _EFFORT:
            return chosen
        price, place = min((self._cost((*chosen, place)), place) for place in others)
        if price > cost - self._luck:
            return chosen
        return self._extended(tuple(sorted((*chosen, place))), price)

    def _rivals(self, chosen: tuple[int, ...], first: tuple[int, ...]) -> bool:
        """Say whether two common elements stand against one of another kind."""
        new, old = set(chosen) - set(first), set(first) - set(chosen)
        two = len(old) == 1 and len(new) == 2  # noqa: PLR2004  two
        return (
            two
            and not any(self.choices[place].common for place in old)
            and all(self.choices[place].common for place in new)
        )

    def greedy(self) -> list[int]:
        """Choose what explains most for its price, until nothing is left (Chvatal 1979)."""
        chosen: list[int] = []
        left = list(self.facts)
        while left:
            counts = Counter(place for row in left for place in bits(row))
            best = max(counts, key=lambda place: (counts[place] / self._price(place), -place))
            chosen.append(best)
            left = [row for row in left if not row >> best & 1]
        return chosen

    def _price(self, place: int) -> float:
        return WINDOW + self.choices[place].unlikely()


def _all_of(rows: Iterable[int]) -> int:
    """Return the classes that explain all of the facts."""
    mask = -1
    for row in rows:
        mask &= row
    return mask
