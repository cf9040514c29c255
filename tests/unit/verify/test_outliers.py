"""Outliers: found where they are, and false alarms no more often than stated."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from fabricctl.model.fabric import Fabric
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId
from fabricctl.model.policy import OutlierLimit, Stance
from fabricctl.model.probe import Sample
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.verify.outliers import critical, is_outlier, outliers
from fabricctl.verify.schedule import expand
from fabricctl.verify.topology import Classes, Paths

Build = Callable[..., Fabric]
LIMIT = OutlierLimit()


def timed(pair: PairId, p50_ns: float, samples: int = 100, probe: str = "read_latency") -> Sample:
    return Sample(pair, probe, "native", 0, 1, latencies=Histogram.of([round(p50_ns)] * samples))


def compare(
    fabric: Fabric, samples: Iterable[Sample], limit: OutlierLimit = LIMIT
) -> Mapping[PairId, Sequence[Finding]]:
    by_pair: dict[PairId, list[Sample]] = {}
    for sample in samples:
        by_pair.setdefault(sample.pair, []).append(sample)
    return outliers(by_pair, Classes(Paths(fabric)), limit)


def spread(fabric: Fabric, slow: str = "", factor: float = 1.0, seed: int = 1) -> list[Sample]:
    """Return a sample a pair around 5 us, those that touch a node slower."""
    rng = random.Random(seed)  # noqa: S311  noise to be repeated
    return [
        timed(pair, 5000 * rng.lognormvariate(0, 0.02) * (factor if slow in str(pair) and slow else 1))
        for pair in expand(fabric, "all")
    ]


def test_a_slow_node_is_found_and_nothing_else(star: Build) -> None:
    fabric = star(16)
    found = compare(fabric, spread(fabric, "node7/", 1.6))
    assert found.keys() == {pair for pair in expand(fabric, "all") if "node7/" in str(pair)}
    finding = next(iter(found.values()))[0]
    assert is_outlier(finding)
    assert (finding.check, finding.outcome, finding.samples) == ("outlier", Outcome.PASS, 240)
    assert finding.what.startswith("read_latency p50 ")
    assert "the median of the 240 pairs of same_leaf over 1 switch, rxe ?G; at most" in finding.what
    assert finding.what.endswith("is usual there (false alarms: 0.01 a run)")
    assert finding.limit.startswith("p50 <= ")
    assert finding.measured.startswith("p50 = ")


def test_the_policy_says_what_an_outlier_does(star: Build) -> None:
    fabric = star(16)
    slow = spread(fabric, "node7/", 1.6)
    refused = compare(fabric, slow, OutlierLimit(Stance.REFUSE))
    assert {f.outcome for held in refused.values() for f in held} == {Outcome.FAIL}
    assert compare(fabric, slow, OutlierLimit(Stance.ALLOW)) == {}


def test_what_does_not_matter_in_practice_is_no_outlier(star: Build) -> None:
    fabric = star(16)
    first = expand(fabric, "all")[0]

    def with_one(value: float, usual: float) -> Mapping[PairId, Sequence[Finding]]:
        return compare(fabric, [timed(p, value if p == first else usual) for p in expand(fabric, "all")])

    assert with_one(5400, 5000) == {}  # 8 %
    assert with_one(1900, 1000) == {}  # less than a microsecond
    assert with_one(2100, 1000).keys() == {first}
    assert with_one(11_100, 10_000).keys() == {first}


def test_a_small_class_says_that_it_was_not_compared(star: Build) -> None:
    fabric = star(3)
    found = compare(fabric, spread(fabric))
    assert found.keys() == set(expand(fabric, "all"))
    (finding,) = next(iter(found.values()))
    assert not is_outlier(finding)
    assert finding.outcome is Outcome.PASS
    assert finding.what == (
        "not compared with others of same_leaf over 1 switch, rxe ?G: it takes 20 pairs;"
        " read_latency p50 (6 pairs)"
    )


def test_classes_are_compared_apart(clos: Build) -> None:
    fabric = clos(8, 2)

    def took(pair: PairId) -> float:
        return 3000 if pair.source.device[:-1] == pair.target.device[:-1] else 6000

    found = compare(fabric, [timed(p, took(p)) for p in expand(fabric, "all")])
    assert {len(held) for held in found.values()} == {1}
    assert not any(is_outlier(f) for held in found.values() for f in held)  # same_leaf has only 16 pairs


def test_p99_takes_samples(star: Build) -> None:
    fabric = star(8)
    first = expand(fabric, "all")[0]

    def tail(pair: PairId, samples: int) -> Sample:
        late = samples // 50 if pair == first else 0
        values = [5000] * (samples - late) + [90_000] * late
        return Sample(pair, "read_latency", "n", 0, 1, latencies=Histogram.of(values))

    found = compare(fabric, [tail(p, 400) for p in expand(fabric, "all")])
    assert [f.measured.split(" =")[0] for f in found[first]] == ["p99"]
    assert compare(fabric, [tail(p, 200) for p in expand(fabric, "all")]) == {}


def test_a_narrow_pair_is_found_by_its_goodput(star: Build) -> None:
    fabric = star(8)
    first = expand(fabric, "all")[0]

    def flow(pair: PairId, gbps: float) -> Sample:
        numbers = {"bytes": round(gbps * 1e9 / 8), "elapsed_ns": 1_000_000_000}
        return Sample(pair, "write_bandwidth", "n", 0, 1, numbers=numbers)

    def run(gbps: float) -> Mapping[PairId, Sequence[Finding]]:
        return compare(fabric, [flow(p, gbps if p == first else 98.0) for p in expand(fabric, "all")])

    (finding,) = run(49.0)[first]
    assert finding.what.startswith(
        "write_bandwidth goodput 49 Gbit/s, 2 times worse than 98 Gbit/s, the median"
    )
    assert "at least 89.09 Gbit/s is usual there" in finding.what
    assert finding.limit == "goodput >= 89.09 Gbit/s"
    assert run(92.0) == {}
    assert run(200.0) == {}  # too fast is no fault


def test_samples_of_one_probe_count_together_and_errors_not_at_all(star: Build) -> None:
    fabric = star(8)
    first = expand(fabric, "all")[0]
    good = [timed(p, 5000) for p in expand(fabric, "all")]
    assert compare(fabric, [*good, timed(first, 50_000, samples=300)]).keys() == {first}
    assert compare(fabric, [*good, Sample(first, "read_latency", "n", 0, 1, error="no")]) == {}


DISTRIBUTIONS: dict[str, Callable[[random.Random], float]] = {
    "exponential": lambda rng: math.exp(0.05 * rng.expovariate(1)),
    "normal": lambda rng: rng.gauss(1, 0.05),
    "lognormal": lambda rng: rng.lognormvariate(0, 0.3),
    # An assumption of ours, nothing measured: most alike, some of a busier host.
    "two modes": lambda rng: rng.lognormvariate(0, 0.08) * (1.25 if rng.random() < 0.3 else 1.0),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("count", [20, 240])
def test_false_alarms_are_no_more_than_stated(name: str, count: int) -> None:
    """At 5 %, 1,000 clean classes each: at most 50, and three standard deviations more by chance."""
    rng = random.Random(f"{name} {count}")  # noqa: S311  noise to be repeated
    stated, runs, alarms = 0.05, 1000, 0
    ratio = critical(count, stated)
    for _ in range(runs):
        values = sorted(math.log(DISTRIBUTIONS[name](rng)) for _ in range(count))
        middle, quartile = values[-(-count // 2) - 1], values[-(-count * 3 // 4) - 1]
        alarms += values[-1] > middle + ratio * (quartile - middle)
    most = stated * runs + 3 * math.sqrt(runs * stated * (1 - stated))
    assert alarms <= most
    if name == "exponential":  # there the rate is exact
        assert alarms >= stated * runs - 3 * math.sqrt(runs * stated * (1 - stated))


def test_false_alarms_of_pairs_that_share_nodes(star: Build) -> None:
    """Slowness of nodes, on which all their pairs depend, makes no more alarms: 200 runs at 5 %."""
    rng = random.Random(5)  # noqa: S311  noise to be repeated
    fabric, alarms = star(8), 0
    limit = OutlierLimit(false_alarms=0.05, percent=0.0, us=0.0)
    pairs = expand(fabric, "all")
    for _ in range(200):
        own = {node.name: rng.gauss(0, 0.03) for node in fabric.nodes()}
        samples = [
            timed(p, 5e5 * math.exp(own[p.source.device] + own[p.target.device] + rng.gauss(0, 0.01)), 1)
            for p in pairs
        ]
        alarms += bool(compare(fabric, samples, limit))
    assert alarms <= 10 + 3 * math.sqrt(200 * 0.05 * 0.95)


def test_the_factor_grows_with_what_is_asked() -> None:
    # By the integral; 1,000,000 simulated classes of 20 exponentials gave 5 % beyond 11.1.
    assert critical(240, 0.01) == pytest.approx(14.6, abs=0.1)
    assert critical(240, 0.001) > critical(240, 0.01) > critical(240, 0.1)
    assert critical(1_000_000, 0.01) == pytest.approx(math.log(500_000 / 0.01) / math.log(2), abs=0.6)
