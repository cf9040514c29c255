"""How the target of the loss probe counts: lost, late, torn."""

from __future__ import annotations

import pytest

from fabricctl.probes.loss import node, spec
from fabricctl.probes.loss.spec import CONTROL_BYTES, SLOTS, Layout, stamp

MTU = 256
LAYOUT = Layout(paths=2, packet_bytes=MTU, packets=100)


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> memoryview:
    monkeypatch.setattr(node, "QUIET_S", 0.002)
    return memoryview(bytearray(LAYOUT.bytes)).cast("Q")


def _arrive(words: memoryview, train: int, place: int, *, head: bool = True, tail: bool = True) -> None:
    first = LAYOUT.slot(train % spec.BANKS, place) // 8
    if head:
        words[first] = stamp(train, place)
    if tail:
        words[first + MTU // 8 - 1] = stamp(train, place)


def _all_but(words: memoryview, train: int, *lost: int) -> None:
    for place in range(LAYOUT.train):
        if place not in lost:
            _arrive(words, train, place)


def test_layout_rounds_up_to_full_trains_and_slots_do_not_overlap() -> None:
    assert (LAYOUT.train, LAYOUT.trains) == (64, 2)
    offsets = [LAYOUT.slot(bank, place) for bank in range(2) for place in range(64)]
    assert offsets == list(range(CONTROL_BYTES, LAYOUT.bytes, MTU))


def test_stamps_are_unique_and_never_zero() -> None:
    stamps = {stamp(train, place) for train in (1, 2, 3) for place in range(1000)}
    assert len(stamps) == 3000
    assert min(stamps) > 0


def test_nothing_lost_is_nothing_missing(words: memoryview) -> None:
    count = node._Count(words, LAYOUT)  # noqa: SLF001  its counting is the point
    for train in (1, 2, 3):
        _all_but(words, train)
        count.take(train)
    assert count.result()["numbers"] == {"sent": 192, "missing": 0, "corrupt": 0, "late": 0}


def test_lost_packets_are_counted_by_path_though_the_slot_holds_an_older_one(words: memoryview) -> None:
    count = node._Count(words, LAYOUT)  # noqa: SLF001
    for train in (1, 2):
        _all_but(words, train)
        count.take(train)
    _all_but(words, 3, 5, 7, 10)  # 5 and 7 lie on the second path, 10 on the first
    count.take(3)
    result = count.result()
    assert result["numbers"]["missing"] == 3
    assert [path["missing"] for path in result["numbers_by_path"]] == [1, 2]
    assert [path["sent"] for path in result["numbers_by_path"]] == [3 * SLOTS, 3 * SLOTS]


def test_late_packet_is_late_and_not_lost(words: memoryview) -> None:
    count = node._Count(words, LAYOUT)  # noqa: SLF001
    _all_but(words, 1, 9, 11)
    count.take(1)
    _arrive(words, 1, 9)
    _all_but(words, 2)
    count.take(2)
    assert count.result()["numbers"] == {"sent": 128, "missing": 1, "corrupt": 0, "late": 1}


def test_packet_with_one_end_only_is_corrupt_and_not_lost(words: memoryview) -> None:
    count = node._Count(words, LAYOUT)  # noqa: SLF001
    _all_but(words, 1, 4)
    _arrive(words, 1, 4, tail=False)
    count.take(1)
    assert count.result()["numbers"] == {"sent": 64, "missing": 0, "corrupt": 1, "late": 0}


def test_empty_memory_is_all_missing(words: memoryview) -> None:
    count = node._Count(words, LAYOUT)  # noqa: SLF001
    count.take(1)
    assert count.result()["numbers"]["missing"] == 64


def test_no_train_is_nothing_sent(words: memoryview) -> None:
    assert node._Count(words, LAYOUT).result()["numbers"]["sent"] == 0  # noqa: SLF001
