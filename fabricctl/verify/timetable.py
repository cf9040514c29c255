"""Which rounds begin: first those of what takes one operation at a time, then those that fill links."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId
from fabricctl.model.past import Past
from fabricctl.model.probe import Round, Sample
from fabricctl.verify.certify import BUDGET
from fabricctl.verify.course import Course, Leg
from fabricctl.verify.coverage import Chosen, choose, estimate_s
from fabricctl.verify.pairing import Parameters
from fabricctl.verify.pairs import Pairs
from fabricctl.verify.schedule import bandwidth_rounds, rounds

Probes = Mapping[str, Parameters]
"""By name: what each takes from the policy."""


@dataclass(frozen=True)
class Budget:
    """The time that there is.

    Parameters
    ----------
    seconds
        In all; None is no bound.
    began
        When the run began, on the monotonic clock.
    """

    seconds: float | None
    began: float

    @property
    def left_s(self) -> float | None:
        """Seconds that are left; None where there is no bound."""
        return None if self.seconds is None else self.seconds - (time.monotonic() - self.began)


class Timetable:
    """The rounds of a run, granted as long as the time lasts; the first one of each kind always.

    Parameters
    ----------
    quiet
        Probes that take one operation at a time.
    filling
        Probes that fill links: their rounds overlap with no other and oversubscribe no uplink.
    tell
        Told in one line what the budget covers and what it leaves.

    Attributes
    ----------
    budget
        As given.
    chosen
        By ``quiet`` and ``filling``: what was chosen at first.
    """

    def __init__(
        self,
        fabric: Fabric,
        past: Past,
        budget: Budget,
        probes: tuple[Probes, Probes],
        tell: Callable[[str], None],
    ) -> None:
        self._fabric, self._past, self.budget = fabric, past, budget
        self._quiet, self._filling = probes
        self._tell = tell
        self._left: list[tuple[Sequence[Round], Probes]] = []
        self.chosen: dict[str, Chosen] = {}

    def legs(self, pairs: Pairs, course: Course) -> Iterator[Leg | None]:
        """Yield the legs that may begin; None as long as that cannot be said."""
        covered, share_s = pairs, 0.0
        quiet, filling = estimate_s(self._quiet.values()), estimate_s(self._filling.values())
        left_s = self.budget.left_s
        if self._quiet and self._filling and left_s is not None:
            ratio = len(bandwidth_rounds(self._fabric, pairs)) / max(1, len(rounds(pairs)))
            share_s = ratio * filling
        first = second = None
        if self._quiet:
            first = choose(pairs, self._past, left_s, quiet + share_s, self._fabric)
            self._choose("quiet", first)
            if first.left_out:
                covered = Pairs.joined([Pairs.of(this.pairs) for this in first.rounds])
                self._left.append((first.left_out, self._filling))
        if self._filling:
            second = choose(covered, self._past, left_s, filling, self._fabric, fills_link=True)
            self._choose("filling", second)
        if first is not None:
            yield from self._granted(first, self._quiet, course, share_s=share_s)
        if second is not None:
            yield from self._granted(second, self._filling, course, alone=True)

    def _choose(self, kind: str, chosen: Chosen) -> None:
        self.chosen[kind] = chosen
        if chosen.left_s is not None:
            self._tell(chosen.why)

    def _granted(
        self, chosen: Chosen, probes: Probes, course: Course, *, alone: bool = False, share_s: float = 0.0
    ) -> Iterator[Leg | None]:
        began, before, granted = time.monotonic(), course.over, 0
        while granted < chosen.upto:
            if granted and self.budget.seconds is not None:
                while course.over == before and course.under_way:
                    yield None  # how long a round takes is not known yet
                each_s = (time.monotonic() - began) / max(1, course.over - before)
                left_s = (self.budget.left_s or 0.0) - course.under_way * each_s
                chosen = chosen.again(granted, left_s, each_s + share_s)
                if granted >= chosen.upto:
                    break
            yield Leg(chosen.turns[granted], probes, alone)
            granted += 1
        self._left.append((chosen.turns[granted:], probes))

    def left_out(self) -> Iterator[Sample]:
        """Yield a sample that says why for every pair that there was no time for."""
        for turns, probes in self._left:
            for pair in (pair for this in turns for pair in this.pairs):
                yield from self._not_measured(pair, probes)

    def _not_measured(self, pair: PairId, probes: Probes) -> Iterator[Sample]:
        error = f"left out: --time-budget {self.budget.seconds or 0.0:g} s was used up"
        for name in probes:
            yield Sample(pair, name, "", time.time(), 0.0, error=error, error_kind=BUDGET)
