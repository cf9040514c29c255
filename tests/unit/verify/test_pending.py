"""Samples on their way to a store that is busy, full, or well."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fabricctl.errors import BusyError, FabricctlError, StoreError
from fabricctl.model.names import PairId, PortId
from fabricctl.model.probe import Sample
from fabricctl.verify import pending
from fabricctl.verify.pending import Pending, Wanted

PAIR = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
BUSY, FULL = BusyError("another run is writing"), StoreError("no space is left")


def _sample(number: int) -> Sample:
    return Sample(PAIR, "loss", "simulated 1", float(number), 0.1)


class _Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(pending, "time", made)
    return made


class _Store:
    """Keeps what it is given, unless it is to fail."""

    def __init__(self, *errors: FabricctlError | None) -> None:
        self.errors = list(errors)
        self.kept: list[tuple[list[float], int]] = []

    def keep(self, samples: Sequence[Sample], couples: int) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error:
            raise error
        self.kept.append(([sample.started_at for sample in samples], couples))


def test_it_is_due_by_couples_and_by_time(clock: _Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "BATCH_COUPLES", 3)
    store = _Store()
    held = Pending(store.keep)
    assert [held.add([_sample(n)]) for n in range(3)] == [False, False, True]
    assert held.flush() == []
    assert store.kept == [([0.0, 1.0, 2.0], 3)]
    assert not held.add([_sample(3)])
    clock.now += 1.5
    assert held.add([_sample(4), _sample(5)])
    assert held.flush() == held.flush() == []
    assert store.kept[1:] == [([3.0, 4.0, 5.0], 2)]


@pytest.mark.parametrize("busy", [1, 2, 5])
def test_a_busy_store_is_tried_again_and_loses_nothing(
    clock: _Clock, monkeypatch: pytest.MonkeyPatch, busy: int
) -> None:
    monkeypatch.setattr(pending, "BATCH_COUPLES", 2)
    store = _Store(*[BUSY] * busy)
    held = Pending(store.keep)
    held.add([_sample(0)])
    for _ in range(busy):
        assert held.flush() == []
        assert (held.busy, held.unkept) == ("another run is writing", "")
    # The next try is not the next couple's: each costs the ten seconds that a writer waits.
    assert [held.add([_sample(n)]) for n in range(1, 9)] == [False] * 8
    clock.now += pending.RETRY_S + 1
    assert held.add([_sample(9)])
    assert held.flush() == []
    assert (held.busy, held.unkept, held.samples) == ("", "", [])
    assert store.kept == [([float(n) for n in range(10)], 10)]
    assert [held.add([_sample(n)]) for n in range(2)] == [False, True]


def test_a_store_that_stays_busy_is_given_up_when_memory_would_not_do(
    clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    del clock
    monkeypatch.setattr(pending, "MOST_WAITING", 5)
    held = Pending(_Store(*[BUSY] * 9).keep)
    held.add([_sample(0)])
    held.flush()
    assert [held.add([_sample(n)]) for n in range(1, 5)] == [False, False, False, True]
    assert [sample.started_at for sample in held.flush()] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert (held.unkept, held.busy, held.samples) == ("another run is writing", "", [])


def test_after_a_full_store_nothing_is_kept_any_more(clock: _Clock) -> None:
    del clock
    store = _Store(None, FULL)
    held = Pending(store.keep)
    lost = []
    for number in range(4):
        held.add([_sample(number)])
        lost.append([sample.started_at for sample in held.flush()])
    assert lost == [[], [1.0], [2.0], [3.0]]
    assert held.unkept == "no space is left"
    assert store.kept == [([0.0], 1)]


def test_nothing_is_wanted_any_more_once_all_has_come() -> None:
    wanted = Wanted([PAIR], 2)
    assert wanted("node1/eth1", "node2/eth1")
    assert not wanted("node2/eth1", "node1/eth1")
    found = []
    for left in (2, 1, 0):
        found.append((wanted.left, bool(wanted)))
        assert wanted.left == left
        wanted.left -= 1
    assert found == [(2, True), (1, True), (0, False)]
    assert wanted  # how many are left is not known any more
    assert not Wanted([], 5)
    assert Wanted([PAIR], -1)
