"""Percentiles and loss rates with what is known of their uncertainty; standard library only.

Nothing here assumes a distribution: percentiles are order statistics, loss is binomial. Both intervals take
samples as independent; bursts make them too narrow, which is why a single loss fails a policy of zero loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from fabricctl.model.histogram import Histogram

CONFIDENCE = 0.95
"""Confidence of every bound that the policy does not name a confidence for."""

DISTRIBUTION = (50.0, 90.0, 99.0, 99.9)
"""The percentiles that are shown of every distribution."""

_STEPS = 200
"""Halvings of a bisection: more than enough to exhaust a double."""


@dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile of a sample, and the interval in which the true one lies.

    Parameters
    ----------
    value
        Nearest rank: the smallest sample that at least `percent` % of the samples do not exceed.
    samples
        How many samples there were.
    low, high
        Two-sided interval of at least the asked confidence, taken from the order statistics; None where
        the samples are too few to bound that side.
    """

    percent: float
    value: int
    samples: int
    low: int | None
    high: int | None

    @property
    def bounded(self) -> bool:
        """Whether there were samples enough to bound it on both sides."""
        return self.low is not None and self.high is not None


def percentile(
    values: Sequence[int] | Histogram, percent: float, confidence: float = CONFIDENCE
) -> Percentile:
    """Return a percentile by nearest rank, with its interval.

    Parameters
    ----------
    values
        At least one sample, in any order; of a histogram each value is true to 0.1 %, every rank exact.
    percent
        0 < percent < 100.
    confidence
        Of the two-sided interval, 0 < confidence < 1.

    Raises
    ------
    ValueError
        There is no sample, or `percent` lies outside its range.
    """
    return percentiles(values, (percent,), confidence)[0]


def percentiles(
    values: Sequence[int] | Histogram, percents: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[Percentile, ...]:
    """Return several percentiles in the order asked for, as ``percentile`` does, in one walk."""
    n = values.samples if isinstance(values, Histogram) else len(values)
    if not n or not all(0 < percent < 100 for percent in percents):  # noqa: PLR2004  percent
        message = f"no percentile {', '.join(map(str, percents))} of {n} samples"
        raise ValueError(message)
    asked, ranks = _ranks(n, tuple(percents), confidence)
    if isinstance(values, Histogram):
        found = values.values_at_ranks(asked)
    else:
        ranked = sorted(values)
        found = tuple(ranked[rank - 1] for rank in asked)
    at = dict(zip(asked, found, strict=True))
    return tuple(
        Percentile(percent, at[middle], n, at.get(low), at.get(high))
        for percent, (low, middle, high) in zip(percents, ranks, strict=True)
    )


@lru_cache(maxsize=1024)
def _ranks(
    n: int, percents: tuple[float, ...], confidence: float
) -> tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]]:
    """Return all ranks that are needed, and of each percentile those of low end, value and high end.

    An end that there is none of has rank 0. They depend on the count only, which the pairs of a run share.
    """
    ranks = tuple(_ends(n, percent, confidence) for percent in percents)
    return tuple(sorted({rank for of_one in ranks for rank in of_one if rank})), ranks


def _ends(n: int, percent: float, confidence: float) -> tuple[int, int, int]:
    q, tail = percent / 100, (1 - confidence) / 2
    # P(k-th smallest > true percentile) = P(at most k-1 samples lie below it) = CDF(k - 1).
    low = _largest(lambda k: binomial_cdf(k - 1, n, q) <= tail, n)
    high = _largest(lambda k: binomial_cdf(k - 1, n, q) < 1 - tail, n) + 1
    return low, _rank(n, percent), high if high <= n else 0


def _rank(n: int, percent: float) -> int:
    # 99.9 % of 1000 is 999.0000000000001 in binary: shave that off before rounding up.
    return max(1, math.ceil(n * percent / 100 - 1e-9 * n))


def _largest(holds: Callable[[int], bool], n: int) -> int:
    """Return the largest k in 1..n for which `holds` (true up to some k, then false), 0 if none."""
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def samples_for_percentile(percent: float, confidence: float = CONFIDENCE) -> int:
    """Return how many samples it takes for the largest to bound a percentile from above, one-sided.

    The largest of n samples lies below the true percentile with probability ``(percent / 100) ** n``. That
    must not exceed ``1 - confidence``: 299 for a p99, 2,995 for a p99.9 at 95 %.
    """
    exact = math.log(1 - confidence) / math.log(percent / 100)
    return math.ceil(exact - 1e-9 * exact)


def upper_bound(events: float, trials: float, confidence: float = CONFIDENCE) -> float:
    """Return the exact (Clopper-Pearson) one-sided upper bound of a rate.

    Parameters
    ----------
    events, trials
        0 <= events <= trials; no trial bounds nothing, so the bound is 1. They need not be whole: what
        comes in bursts counts for less.
    """
    _check(events, trials)
    if events == trials:
        return 1.0
    if events == 0:
        return -math.expm1(math.log1p(-confidence) / trials)
    return _bisect(lambda rate: binomial_cdf(events, trials, rate) > 1 - confidence)


def lower_bound(events: float, trials: float, confidence: float = CONFIDENCE) -> float:
    """Return the exact (Clopper-Pearson) one-sided lower bound of a rate."""
    _check(events, trials)
    return 1.0 - upper_bound(trials - events, trials, confidence) if events else 0.0


def interval(events: float, trials: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) two-sided interval of a rate."""
    each = 1 - (1 - confidence) / 2
    return lower_bound(events, trials, each), upper_bound(events, trials, each)


def trials_for_bound(rate: float, confidence: float = CONFIDENCE) -> int:
    """Return how many trials without any event show a rate to be at most `rate`.

    Parameters
    ----------
    rate
        0 < rate < 1; 1e-3 takes 2,995 trials at 95 %.
    """
    exact = math.log1p(-confidence) / math.log1p(-rate)
    return math.ceil(exact - 1e-9 * exact)


def binomial_cdf(k: float, n: float, p: float) -> float:
    """Return the probability of at most `k` events in `n` trials of probability `p`, exact to about 1e-9."""
    if k < 0:
        return 0.0
    if k >= n or p <= 0:
        return 1.0
    if p >= 1:
        return 0.0
    # It is I_(1-p)(n-k, k+1); the continued fraction converges fast on the near side of the mean only.
    if p > (k + 2) / (n + 3):
        return _beta(n - k, k + 1, 1 - p)
    return 1 - _beta(k + 1, n - k, p)


def _check(events: float, trials: float) -> None:
    if not 0 <= events <= trials:
        message = f"{events} events of {trials} trials"
        raise ValueError(message)


def _bisect(below: Callable[[float], bool]) -> float:
    """Return where `below` turns from true to false between 0 and 1."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if below(middle):
            low = middle
        else:
            high = middle
    return high


def _beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), for 0 < x below its mean."""
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return front * _continued_fraction(a, b, x) / a


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the fraction of DLMF 8.17.22 by the modified Lentz method."""
    tiny = 1e-300
    most = 100 + 10 * math.isqrt(int(max(a, b)))  # about the square root of max(a, b) terms are needed
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1), tiny)
    total = d
    change, m = 0.0, 1
    while abs(change - 1) >= 1e-15 and m < most:  # noqa: PLR2004  a double's precision
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d, tiny)
            c = _away_from_zero(1 + term / c, tiny)
            change = c * d
            total *= change
        m += 1
    return total


def _away_from_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
