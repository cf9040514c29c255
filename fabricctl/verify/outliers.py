"""Pairs that are slow beside the others of their class, by a robust test with a stated rate of false alarms.

Compared are logarithms: of p50 and p99 of latencies, and of bandwidths upside down, so that "slow" is high
and a factor counts the same everywhere. A pair is an outlier if it lies further above the median of its class
than `c` times what the upper quartile does. `c` follows from the rate of false alarms that the policy wants:
it is exact if the values above the median tail off exponentially, and the alarms are fewer for every lighter
tail (normal, lognormal). By Renyi's representation (Acta Math. Hung. 4, 1953) the excesses over the median
are then themselves ordered exponentials, so that the greatest over the quartile's is a Dixon ratio (Likes,
Metrika 11, 1966), independent of how wide they spread. Up to a quarter of a class may be bad before the
quartile moves. A tail that is heavier than any exponential (in the logarithm) makes more alarms.

An outlier also differs by what matters in practice (the policy's percent and microseconds). A class of fewer
pairs than the policy's least is not compared, and its pairs say so.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId
from fabricctl.model.policy import OutlierLimit, Stance
from fabricctl.model.probe import Sample
from fabricctl.model.stats import samples_for_percentile
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.bandwidth import BYTES, ELAPSED
from fabricctl.plugin.layout import duration
from fabricctl.verify.topology import Classes

OUTLIER = "outlier"
"""Name of the check."""

_BANDWIDTH = "goodput"
_PERCENTS = ((50, 1), (99, samples_for_percentile(99)))
"""Percentiles that are compared, and how many samples each takes."""

_STEPS = 400
"""Of the numeric integral, which is then true to better than 1e-6."""
_WIDE = 9.0
"""Standard deviations on either side that the integral covers."""
_HALVINGS = 45


def is_outlier(finding: Finding) -> bool:
    """Say whether a finding says that its pair is an outlier (rather than that it was not compared)."""
    return finding.check == OUTLIER and bool(finding.measured)


class _Group(NamedTuple):
    """What is compared: one number of one probe in one class."""

    topology: str
    probe: str
    quantity: str

    @property
    def name(self) -> str:
        """As it is called in reports."""
        return f"{self.probe} {self.quantity}"


@dataclass(frozen=True, slots=True)
class _Values:
    """The pairs of a group, and for each its number: nanoseconds, or Gbit/s."""

    places: array[int] = field(default_factory=lambda: array("I"))
    numbers: array[float] = field(default_factory=lambda: array("d"))


def outliers(
    samples: Mapping[PairId, Sequence[Sample]], classes: Classes, limit: OutlierLimit
) -> dict[PairId, list[Finding]]:
    """Return by pair what is to be said of it, nothing of a pair that is like the others of its class.

    Parameters
    ----------
    samples
        All of a run, by pair; those with an error do not count.
    limit
        ``allow`` compares nothing.
    """
    gathered = Gathered(classes, limit)
    for place, (pair, held) in enumerate(samples.items()):
        gathered.take(place, held, classes.of(pair)[1])
    return gathered.outliers(tuple(samples))


class Gathered:
    """The numbers of a run as it goes; those of a million pairs take some 100 MB.

    Parameters
    ----------
    limit
        ``allow`` gathers nothing.
    """

    def __init__(self, classes: Classes, limit: OutlierLimit) -> None:
        self._classes, self._limit = classes, limit
        self._groups: dict[_Group, _Values] = {}

    def take(self, place: int, samples: Iterable[Sample], topology: str) -> None:
        """Note the numbers of all samples of a pair and of some probes; those with an error do not count.

        Parameters
        ----------
        place
            Number of the pair, from 0.
        topology
            The pair's class among those that are alike, the second that ``Classes.of`` returns.
        """
        if self._limit.stance is Stance.ALLOW:
            return
        for probe, quantity, number in _numbers(samples):
            group = _Group(topology, probe, quantity)
            values = self._groups.get(group)
            if values is None:
                values = self._groups[group] = _Values()
            values.places.append(place)
            values.numbers.append(number)

    def outliers(self, pairs: Sequence[PairId]) -> dict[PairId, list[Finding]]:
        """Return by pair what is to be said of it; `pairs` are what the places mean."""
        limit, groups = self._limit, self._groups
        large = {group for group, values in groups.items() if len(values.places) >= limit.pairs}
        found: dict[PairId, list[Finding]] = {}
        small: dict[PairId, list[str]] = {}
        for group, values in groups.items():
            if group in large:
                each = limit.false_alarms / len(large)
                for pair, finding in _compare(group, values, pairs, limit, each):
                    found.setdefault(pair, []).append(finding)
            else:
                for place in values.places:
                    small.setdefault(pairs[place], []).append(f"{group.name} ({len(values.places)} pairs)")
        for pair, names in small.items():
            topology = self._classes.of(pair)[1]
            found.setdefault(pair, []).append(_not_compared(pair, topology, names, limit))
        return found


def _numbers(samples: Iterable[Sample]) -> Iterable[tuple[str, str, float]]:
    """Walk the numbers of a pair: probe, quantity, value above 0."""
    by_probe: dict[str, list[Sample]] = {}
    for sample in samples:
        if not sample.error:
            by_probe.setdefault(sample.probe, []).append(sample)
    for probe, held in by_probe.items():
        whole = held[0].latencies
        if len(held) > 1:
            whole = Histogram().merge(*(sample.latencies for sample in held))
        if whole:
            count = whole.samples
            asked = [percent for percent, least in _PERCENTS if count >= least]
            ranks = [max(1, -(-percent * count // 100)) for percent in asked]
            for percent, value in zip(asked, whole.values_at_ranks(ranks), strict=True):
                yield probe, f"p{percent}", max(value, 1)
        carried = sum([sample.numbers.get(BYTES, 0) for sample in held])
        if carried <= 0:
            continue
        elapsed = sum([sample.numbers.get(ELAPSED, 0) for sample in held])
        if elapsed > 0:
            yield probe, _BANDWIDTH, carried * 8 / elapsed


def _compare(
    group: _Group, values: _Values, pairs: Sequence[PairId], limit: OutlierLimit, false_alarms: float
) -> Iterable[tuple[PairId, Finding]]:
    """Walk the outliers of a group."""
    down = -1.0 if group.quantity == _BANDWIDTH else 1.0
    ranked = sorted(math.log(number) * down for number in values.numbers)
    count = len(ranked)
    middle, quartile = ranked[_rank(count, 50) - 1], ranked[_rank(count, 75) - 1]
    furthest = middle + critical(count, false_alarms) * (quartile - middle)
    bound = max(furthest, middle + math.log1p(limit.percent / 100))
    most, median = math.exp(bound * down), math.exp(middle * down)
    if down > 0:
        most = max(most, median + limit.us * 1000)
    for place, number in zip(values.places, values.numbers, strict=True):
        if number * down > most * down:
            pair = pairs[place]
            yield pair, _outlier(pair, group, (number, median, most, count), limit)


def _rank(count: int, percent: int) -> int:
    return -(-count * percent // 100)


@lru_cache(maxsize=256)
def critical(count: int, false_alarms: float) -> float:
    """Return how many times the upper quartile's distance from the median the furthest may lie from it.

    Parameters
    ----------
    count
        Values in the class, at least 4.
    false_alarms
        Chance that a class without any outlier has a value beyond, 0 < chance < 1.
    """
    above = count - _rank(count, 50)
    place = _rank(count, 75) - _rank(count, 50)
    low, high = 1.0, 1e4
    for _ in range(_HALVINGS):
        half = math.sqrt(low * high)
        if _quiet(half, above, place) < 1 - false_alarms:
            low = half
        else:
            high = half
    return high


def _quiet(ratio: float, above: int, place: int) -> float:
    """Return the chance that of `above` exponentials none exceeds `ratio` times the `place`-th smallest.

    Given the `place`-th at y, the others above it lie beyond by exponentials of their own, so that all stay
    below with the probability (1 - exp(-(ratio - 1) y)) ** (above - place); 1 - exp(-y) has a beta law.
    """
    beyond = above - place
    front = math.lgamma(above + 1) - math.lgamma(place) - math.lgamma(beyond + 1)
    mean = place / (above + 1)
    spread = _WIDE * math.sqrt(mean * (1 - mean) / (above + 2))
    low, high = max(0.0, mean - spread), min(1.0, mean + spread)
    step = (high - low) / _STEPS
    total = 0.0
    for number in range(_STEPS):
        at = low + step * (number + 0.5)
        below = -math.expm1((ratio - 1) * math.log1p(-at))
        power = (place - 1) * math.log(at) + beyond * (math.log1p(-at) + math.log(below))
        total += math.exp(front + power)
    return total * step


def _outlier(
    pair: PairId, group: _Group, numbers: tuple[float, float, float, int], limit: OutlierLimit
) -> Finding:
    number, median, most, count = numbers
    slower = max(number, median) / min(number, median)
    shown, usual, bound = (_shown(group, value) for value in (number, median, most))
    word = "at least" if group.quantity == _BANDWIDTH else "at most"
    step = f'"fabricctl explain {pair.source}:{pair.target}" shows what both ends saw'
    return Finding(
        check=OUTLIER,
        subject=str(pair),
        outcome=Outcome.FAIL if limit.stance is Stance.REFUSE else Outcome.PASS,
        what=f"{group.name} {shown}, {slower:.3g} times worse than {usual}, the median of the {count} pairs"
        f" of {group.topology}; {word} {bound} is usual there (false alarms: {limit.false_alarms:g} a run)",
        measured=f"{group.quantity} = {shown}",
        limit=f"{group.quantity} {'>=' if group.quantity == _BANDWIDTH else '<='} {bound}",
        samples=count,
        next_step=step,
    )


def _shown(group: _Group, value: float) -> str:
    return f"{value:.4g} Gbit/s" if group.quantity == _BANDWIDTH else duration(round(value))


def _not_compared(pair: PairId, topology: str, names: Iterable[str], limit: OutlierLimit) -> Finding:
    return Finding(
        check=OUTLIER,
        subject=str(pair),
        outcome=Outcome.PASS,
        what=f"not compared with others of {topology}: it takes {limit.pairs} pairs; {', '.join(names)}",
    )
