"""The fewest things that explain all of many facts, each of which one of some things would explain.

This is the minimum hitting set problem: exact by branch and bound for up to three elements that hang
together (what single facts force, and what shares no fact, is split off first), greedy beyond, which is said.

The fewest need not be the likeliest: what lies on one of several paths explains much, but by luck. Sets of
one element more, whether they need it or not, are therefore named after the fewest where the counts of what
failed and what passed make them no less likely.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fabricctl.verify.likelihood import Choice, bits, together

MOST = 3
"""Up to so many elements that hang together the smallest set is found exactly."""

WINDOW = math.log(1000)
"""Sets whose likelihoods differ by less than this (natural log) count as equal.

A true explanation falls behind a given wrong one by a factor of k with a probability of at most 1/k (Royall,
*Statistical Evidence*, 1997, section 1.4).
"""

SUPPORT = math.log(8)
"""A likelihood that is less than this (natural log) behind is not behind by much (Royall, section 1.6)."""

_EVEN = 1e-6
"""Likelihoods that differ by less (natural log) differ by rounding only."""

_LARGER = 8
"""So many sets of one element more are named."""

_EFFORT = 8_000_000
"""So many looks at facts the exact search may take in all: a few seconds."""

_LEAST = 1000
"""Each group of facts that hang together gets at least this part of the effort."""

_ROWS = 20_000
"""So many distinct facts that hang together are searched exactly."""

_MANY = 50_000
"""Of more distinct facts an even part is explained first, and then what that leaves open."""

Set = tuple[tuple[int, ...], ...]
"""A set of elements that explains everything; each place lists all choices that do equally well there."""


@dataclass(frozen=True, slots=True)
class Cover:
    """How the facts that hang together are explained.

    Parameters
    ----------
    sets
        The likeliest of the smallest sets first, then all that do equally well, then those of one element
        more that explain the counts as well or better, where the first explains them by luck.
    exact
        Whether they are surely the smallest, and all of those.
    """

    sets: tuple[Set, ...]
    exact: bool = True


def covers(facts: Sequence[tuple[int, int]], choices: Sequence[Choice]) -> tuple[Cover, ...]:
    """Return the explanations of all facts, one for each group of facts that hang together.

    Parameters
    ----------
    facts
        Each with how often it was seen, the same ones once or more; bit i of a fact is set if choice i
        explains it. None is 0.
    """
    if len(facts) > _MANY:
        return _in_parts(facts, choices)
    rows = Counter[int]()
    for row, count in facts:
        rows[row] += count
    forced = 0
    for row in rows:
        if row.bit_count() == 1:
            forced |= row
    found = [Cover((((index,),),)) for index in bits(forced)]
    effort = _EFFORT
    for part in sorted(_parts(row for row in rows if not row & forced), key=len):
        cover, effort = _cover({row: rows[row] for row in part}, choices, max(effort, _EFFORT // _LEAST))
        found.append(cover)
    return tuple(found)


def _in_parts(facts: Sequence[tuple[int, int]], choices: Sequence[Choice]) -> tuple[Cover, ...]:
    some = facts[:: -(-len(facts) // _MANY)]
    found = tuple(replace(cover, exact=False) for cover in covers(some, choices))
    chosen = 0
    for cover in found:
        for members in cover.sets[0]:
            chosen |= 1 << members[0]
    return (*found, *covers([fact for fact in facts if not fact[0] & chosen], choices))


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


def _cover(rows: Mapping[int, int], choices: Sequence[Choice], effort: int) -> tuple[Cover, int]:
    """Return how facts are explained that hang together, and what is left of the effort."""
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
    search = _Search([choices[members[0]] for members in classes], things, alike, _smallest(alike), effort)
    if len(search.facts) <= _ROWS:
        search.grow((), 0.0, search.facts)
    exact = bool(search.found) and search.effort >= 0
    found = search.best() if search.found else [search.greedy()]
    return Cover(tuple(tuple(classes[place] for place in held) for held in found), exact), search.effort


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
    effort: int
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
        lucky = {place: self.choices[place] for place in chosen if self.choices[place].passed}
        if not lucky:
            return WINDOW * len(chosen)
        mask = sum(1 << place for place in lucky)
        sure = sum(1 << place for place in chosen if place not in lucky)
        failed = Counter[int]()
        for row, count in self.seen.items():
            if not row & sure:  # what one surely explains takes no luck of the others
                failed[row & mask] += count
        return WINDOW * len(chosen) + together(lucky, failed)

    def best(self) -> list[tuple[int, ...]]:
        """Return the likeliest set and those that do as well, by cost."""
        ranked = sorted(self.found.items(), key=lambda item: (item[1], item[0]))
        first, least = ranked[0]
        equal = [
            chosen
            for chosen, cost in ranked
            if cost < least + WINDOW or (self._rivals(chosen, first) and cost < least + 2 * WINDOW)
        ]
        best, cost = self._extended(first, least)
        return list(dict.fromkeys((best, *equal, *self._larger(best, cost))))

    @property
    def _luck(self) -> float:
        """What the best of so many choices gains by chance."""
        return math.log(len(self.choices))

    def _extended(self, chosen: tuple[int, ...], cost: float) -> tuple[tuple[int, ...], float]:
        """Add what makes a set much likelier that explains all already, but only by luck."""
        grown = self._grown(chosen) if len(chosen) < MOST else {}
        if not grown:
            return chosen, cost
        price, more = min((price, more) for more, price in grown.items())
        if price > cost - self._luck:
            return chosen, cost
        return self._extended(more, price)

    def _larger(self, chosen: tuple[int, ...], cost: float) -> list[tuple[int, ...]]:
        """Return sets of one element more that explain the counts as well or better, the likeliest first."""
        if not any(self.choices[place].share for place in chosen):
            return []  # without luck nothing is explained better
        larger = {held: price for held, price in self.found.items() if len(held) == len(chosen) + 1}
        larger |= self._grown(chosen)
        worth = [(price, held) for held, price in larger.items() if price < cost + WINDOW + _EVEN]
        least = min(worth, default=(0.0, ()))[0]
        return [held for price, held in sorted(worth) if price < least + SUPPORT][:_LARGER]

    def _grown(self, chosen: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        """Return what a set that explains all by luck costs with each other element."""
        others = [p for p in range(len(self.choices)) if p not in chosen and not self._twice((*chosen, p))]
        work = len(others) * len(self.seen)
        if work > self.effort or not any(self.choices[place].share for place in chosen):
            return {}
        self.effort -= work
        sets = (tuple(sorted((*chosen, place))) for place in others)
        return {held: self._cost(held) for held in sets}

    def _rivals(self, chosen: tuple[int, ...], first: tuple[int, ...]) -> bool:
        """Say whether two common elements stand against one of another kind."""
        new, old = set(chosen) - set(first), set(first) - set(chosen)
        two = len(old) == 1 and len(new) == 2  # noqa: PLR2004  two
        return (
            two
            and not any(self.choices[place].common for place in old)
            and all(self.choices[place].common for place in new)
        )

    def greedy(self) -> tuple[int, ...]:
        """Choose what explains most for its price, until nothing is left (Chvatal 1979)."""
        chosen: list[int] = []
        left = list(self.facts)
        counts = Counter(place for row in left for place in bits(row))
        while left:
            best = max(counts, key=lambda place: (counts[place] / self._price(place), -place))
            chosen.append(best)
            one, rest = 1 << best, list[int]()
            for row in left:
                if row & one:
                    counts.subtract(bits(row))
                else:
                    rest.append(row)
            left = rest
        return tuple(chosen)

    def _price(self, place: int) -> float:
        return WINDOW + self.choices[place].unlikely()


def _all_of(rows: Iterable[int]) -> int:
    """Return the classes that explain all of the facts."""
    mask = -1
    for row in rows:
        mask &= row
    return mask
