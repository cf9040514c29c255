"""Does the interval that the loss probe states hold the true rate? A hundred runs of the real counting each.

Packets come into the target's memory as a made-up network says; the seeds are fixed, and were not chosen.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fabricctl.model.stats import interval, upper_bound
from fabricctl.probes.loss import node
from fabricctl.probes.loss.rate import Counted, design_effect
from fabricctl.probes.loss.spec import TOGETHER, Layout

pytestmark = pytest.mark.no_cover  # some million turns of simulation, whose lines other tests walk as well

RUNS = 100
LEAST = 95
RATES = (0.0, 0.0001, 0.001, 0.01, 0.05)
PACKETS = 10_000
QUIET_S = 0.001


def _load() -> ModuleType:
    # Test folders are no packages: the module is loaded by its place.
    place = Path(__file__).parents[2] / "fakes" / "lossy.py"
    made = importlib.util.spec_from_file_location("fakes_lossy", place)
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    sys.modules["fakes_lossy"] = module
    made.loader.exec_module(module)
    return module


lossy = _load()


def _count(
    monkeypatch: pytest.MonkeyPatch,
    fates: Callable[[int], Any],
    *,
    packets: int = PACKETS,
    watch_s: float | None = None,
    **fields: Any,
) -> dict[str, int]:
    """Return what one run counts; trains come as a whole unless they are watched for `watch_s`."""
    layout = Layout(paths=8, packet_bytes=64, packets=packets)
    parameters = {"queue_pairs": 8, "packets": packets, "path_mtu_bytes": 64, "ends_early": 1}
    link = lossy.LossyLink(layout, fates, look_ns=10_000, at_once=watch_s is None, **fields)
    monkeypatch.setattr(node, "perf_counter_ns", link.clock)
    monkeypatch.setattr(node.time, "sleep", link.sleep)
    monkeypatch.setattr(node, "WATCH_S", watch_s or 1e-6)
    monkeypatch.setattr(node, "QUIET_S", QUIET_S)
    monkeypatch.setattr(node, "FIRST_QUIET_S", QUIET_S)
    found: dict[str, int] = node.target(link, parameters, None)["numbers"]  # type: ignore[arg-type]
    return found


def _lost(lost: Iterator[bool]) -> Callable[[int], Any]:
    return lambda _number: lossy.LOST if next(lost) else lossy.ARRIVES


def _counted(numbers: dict[str, int]) -> Counted:
    effect, batches = design_effect(numbers)
    return Counted(
        numbers["sent"], numbers["missing"] + numbers["corrupt"], numbers["events"], effect, batches
    )


def _holds(counted: Counted, rate: float) -> bool:
    low, high = counted.interval()
    return low <= rate <= high


def _chance(*seed: object) -> random.Random:
    return random.Random(repr(seed))  # noqa: S311  a made-up network


@pytest.mark.parametrize("rate", RATES)
def test_loss_one_way(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    held = 0
    for run in range(RUNS):
        numbers = _count(monkeypatch, _lost(lossy.independent(rate, _chance("one way", rate, run))))
        held += _holds(_counted(numbers), rate)
        assert rate or numbers["missing"] == 0
    assert held >= LEAST


@pytest.mark.parametrize("rate", RATES)
def test_loss_both_ways(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    """Each direction is a count of its own; the words by which both keep in step are lost as well."""
    held = [0, 0]
    for run in range(RUNS // 2):
        for direction in (0, 1):
            chance = _chance("both ways", rate, run, direction)
            numbers = _count(
                monkeypatch,
                _lost(lossy.independent(rate, chance)),
                word_lost=lambda _train, chance=chance: sum(chance.random() < rate for _ in range(2)),
            )
            held[direction] += _holds(_counted(numbers), rate)
    assert sum(held) >= LEAST


def _bursts(monkeypatch: pytest.MonkeyPatch, rate: float, packets: int, run: int) -> Counted:
    fates = _lost(lossy.bursts(rate, 4, _chance("bursts", rate, run)))
    return _counted(_count(monkeypatch, fates, packets=packets))


@pytest.mark.parametrize("rate", RATES)
def test_bursts(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    """Gilbert's model, bursts of four packets on average in the order of sending."""
    held = exact = 0
    for run in range(RUNS):
        counted = _bursts(monkeypatch, rate, 3 * PACKETS, run)
        held += _holds(counted, rate)
        low, high = interval(counted.lost, counted.sent)
        exact += low <= rate <= high
    assert held >= LEAST
    assert rate < 0.001 or exact < 80  # what the exact interval alone would have held


@pytest.mark.parametrize(("rate", "packets"), [(0.001, PACKETS), (0.01, 384), (0.01, 640), (0.05, 128)])
def test_bursts_of_which_a_run_may_see_none(
    monkeypatch: pytest.MonkeyPatch, rate: float, packets: int
) -> None:
    """One to two and a half bursts are to be expected; 128 packets are too few for two stretches of time."""
    found = [_bursts(monkeypatch, rate, packets, run) for run in range(RUNS)]
    clean = [counted for counted in found if counted.lost == 0]
    assert sum(_holds(counted, rate) for counted in found) >= LEAST
    assert clean
    assert all(counted.upper_bound(0.95) == upper_bound(0, counted.sent) for counted in clean)
    exact = [interval(counted.lost, counted.sent) for counted in found]
    assert sum(low <= rate <= high for low, high in exact) < LEAST  # what it would hold without the rest


@pytest.mark.parametrize("packets", [640, 3000, PACKETS, 1_000_000])
@pytest.mark.parametrize("length", [1, 2, 4, TOGETHER, 2 * TOGETHER])
def test_no_loss_rules_out_only_rates_that_would_have_shown_an_event(packets: int, length: int) -> None:
    """Each packet begins an event with a chance of rate / length; none may begin in at most 5 % of runs.

    Events twice as long as assumed are the known limit: then it is one run in six.
    """
    low, high = Counted(packets, 0).interval()
    assert low == 0
    missed = (1 - high / length) ** packets
    assert (missed <= 0.05) is (length <= TOGETHER)
    assert missed < 0.17


@pytest.mark.parametrize("rate", RATES)
def test_reordering(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    """A tenth of the packets is overtaken by up to a hundred others: none of them is lost."""
    held = reordered = 0
    for run in range(RUNS):
        chance = _chance("reordering", rate, run)

        def fate(_number: int, chance: random.Random = chance) -> Any:
            if chance.random() < rate:
                return lossy.LOST
            return lossy.Fate(delay_ns=chance.randrange(100_000)) if chance.random() < 0.1 else lossy.ARRIVES

        numbers = _count(monkeypatch, fate, watch_s=5e-5)
        held += _holds(_counted(numbers), rate)
        reordered += numbers["reordered"]
        assert rate or numbers["missing"] == 0
    assert held >= LEAST
    assert reordered > 20 * RUNS
