"""Statistics against published values."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricctl.model.histogram import Histogram
from fabricctl.model.stats import (
    Percentile,
    binomial_cdf,
    interval,
    lower_bound,
    percentile,
    percentiles,
    samples_for_percentile,
    trials_for_bound,
    upper_bound,
)


@pytest.mark.parametrize(
    ("events", "trials", "bound"),
    [
        (0, 10_000, 3.0e-4),
        (0, 100_000, 3.0e-5),
        (0, 3_000_000, 1.0e-6),
        (1, 100_000, 4.7e-5),
        (3, 100_000, 7.8e-5),
    ],
)
def test_one_sided_upper_bounds_at_95_percent(events: int, trials: int, bound: float) -> None:
    assert float(f"{upper_bound(events, trials):.1e}") == bound


@pytest.mark.parametrize(
    ("events", "trials", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (5, 10, 0.1871, 0.8129),
        (10, 10, 0.6915, 1.0),
        (4, 20, 0.0573, 0.4366),
    ],
)
def test_two_sided_intervals_from_the_tables_of_clopper_and_pearson(
    events: int, trials: int, low: float, high: float
) -> None:
    assert interval(events, trials) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_no_trial_bounds_nothing() -> None:
    assert upper_bound(0, 0) == 1.0
    assert lower_bound(0, 0) == 0.0
    assert upper_bound(7, 7) == 1.0


@pytest.mark.parametrize(("events", "trials"), [(-1, 5), (6, 5), (1, 0)])
def test_impossible_counts_are_refused(events: int, trials: int) -> None:
    with pytest.raises(ValueError, match="events of"):
        upper_bound(events, trials)
    with pytest.raises(ValueError, match="events of"):
        lower_bound(events, trials)


@settings(deadline=None)
@given(st.integers(1, 60), st.data())
def test_the_bound_is_where_the_tail_has_the_asked_probability(trials: int, data: st.DataObject) -> None:
    events = data.draw(st.integers(0, trials - 1))
    rate = upper_bound(events, trials)
    tail = sum(math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(events + 1))
    assert tail == pytest.approx(0.05, rel=1e-6)


@settings(deadline=None)
@given(st.integers(1, 80), st.integers(-1, 81), st.floats(0, 1))
def test_the_binomial_distribution_is_the_sum_of_its_terms(n: int, k: int, p: float) -> None:
    exact = math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(min(k, n) + 1))
    assert binomial_cdf(k, n, p) == pytest.approx(exact, abs=1e-11)


def test_the_binomial_distribution_at_its_ends() -> None:
    assert binomial_cdf(-1, 5, 0.5) == 0.0
    assert binomial_cdf(5, 5, 1.0) == 1.0
    assert binomial_cdf(4, 5, 1.0) == 0.0
    assert binomial_cdf(0, 5, 0.0) == 1.0


def test_the_binomial_distribution_of_large_numbers() -> None:
    # Poisson with mean 3: P(X <= 0), P(X <= 3)
    assert binomial_cdf(0, 10**8, 3e-8) == pytest.approx(math.exp(-3), rel=1e-6)
    assert binomial_cdf(3, 10**8, 3e-8) == pytest.approx(0.647232, abs=1e-5)
    assert binomial_cdf(500_000, 10**6, 0.5) == pytest.approx(0.5004, abs=1e-4)


@pytest.mark.parametrize(("percent", "count"), [(50, 5), (99, 299), (99.9, 2995), (99.99, 29_956)])
def test_samples_that_bound_a_percentile_from_above(percent: float, count: int) -> None:
    assert samples_for_percentile(percent) == count


def test_samples_that_bound_a_percentile_two_sided() -> None:
    assert [samples_for_percentile(p, 0.975) for p in (99, 99.9, 99.99)] == [368, 3688, 36_887]


def test_trials_that_bound_a_rate() -> None:
    assert trials_for_bound(1e-3) == 2995
    assert trials_for_bound(0.01, 0.99) == 459
    for rate in (0.5, 0.01, 1e-3, 1e-4):
        count = trials_for_bound(rate)
        assert upper_bound(0, count) <= rate < upper_bound(0, count - 1)


def test_nearest_rank() -> None:
    values = [30, 10, 20, 50, 40]
    assert [percentile(values, p).value for p in (1, 20, 21, 40, 50, 99)] == [10, 10, 20, 20, 30, 50]
    assert percentile([7], 50).value == 7
    # 99.9 % of 1000 is the 999th, though 1000 * 99.9 / 100 is a little more than 999 in binary.
    assert percentile(range(1, 1001), 99.9).value == 999
    assert percentile(range(1, 1001), 99).value == 990


def test_the_interval_of_a_median_from_the_tables() -> None:
    # n = 100: the 40th and the 61st order statistic (David and Nagaraja).
    assert percentile(range(1, 101), 50) == Percentile(50, 50, 100, 40, 61)


def test_a_side_that_the_samples_cannot_bound_is_none() -> None:
    assert percentile(range(1, 368), 99).high is None
    assert percentile(range(1, 369), 99).high == 368
    assert percentile([1, 2], 50) == Percentile(50, 1, 2, None, None)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 10**10), min_size=1, max_size=400),
    st.lists(st.floats(0.1, 99.9), min_size=1, max_size=4),
)
def test_a_histogram_has_the_percentiles_of_its_values_to_0_1_percent(
    values: list[int], percents: list[float]
) -> None:
    exact, found = percentiles(values, percents), percentiles(Histogram.of(values), percents)
    for one, other in zip(exact, found, strict=True):
        assert (one.percent, one.samples, one.bounded) == (other.percent, other.samples, other.bounded)
        for a, b in ((one.low, other.low), (one.value, other.value), (one.high, other.high)):
            assert (a is None) is (b is None)
            assert a is None or b is None or a <= b <= a * 1.001
    assert found == tuple(percentile(Histogram.of(values), percent) for percent in percents)


def test_a_percentile_is_bounded_if_both_its_sides_are() -> None:
    assert percentile(range(1000), 50).bounded
    assert not percentile(range(1000), 99.9).bounded  # no upper end
    assert not percentile(range(1000), 0.1).bounded  # no lower end
    assert percentile(range(3688), 99.9).bounded


def test_no_percentile_of_an_empty_histogram() -> None:
    with pytest.raises(ValueError, match="no percentile 50, 99 of 0 samples"):
        percentiles(Histogram(), (50, 99))


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1], 0), ([1], 100)])
def test_no_percentile_of_nothing(values: list[int], percent: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile(values, percent)


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.floats(0.1, 99.9))
def test_the_interval_holds_the_value_and_values_rise_with_the_percentile(
    values: list[int], percent: float
) -> None:
    found = percentile(values, percent)
    assert found.value in values
    assert found.low is None or found.low <= found.value
    assert found.high is None or found.high >= found.value
    ladder = [percentile(values, p).value for p in (1, 25, 50, 75, 99)]
    assert all(a <= b for a, b in pairwise(ladder))
