"""The histogram against the exact sorted list, and what a lying agent may send in its place."""

from __future__ import annotations

import ast
import base64
import copy
import struct
import sys
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fabricctl.model import histogram
from fabricctl.model.histogram import HIGHEST, Histogram, highest_equivalent

TIMES = st.one_of(
    st.integers(0, 5000), st.integers(900_000, 1_100_000), st.integers(0, HIGHEST), st.just(HIGHEST)
)
SAMPLES = st.lists(TIMES, min_size=1, max_size=120)


def close(found: int, exact: int) -> bool:
    """Say whether a value is the exact one, or at most 0.1 % above it."""
    return exact <= found <= exact * 1.001


@settings(deadline=None)
@given(SAMPLES)
@example([HIGHEST])
@example([2047, 2048, 2049, 4095, 4096])
@example([0])
def test_every_rank_is_the_exact_one_to_0_1_percent(values: list[int]) -> None:
    held, ranked = Histogram.of(values), sorted(values)
    assert (held.samples, held.minimum, held.maximum) == (len(ranked), ranked[0], ranked[-1])
    found = held.values_at_ranks(range(1, len(ranked) + 1))
    assert all(close(value, exact) for value, exact in zip(found, ranked, strict=True))
    assert list(found) == sorted(found)
    assert (found[0], found[-1]) == (ranked[0], ranked[-1])
    middle = (len(ranked) + 1) // 2
    assert held.value_at_rank(middle) == found[middle - 1]


@settings(deadline=None)
@given(SAMPLES)
def test_ranks_are_exact_bucket_by_bucket(values: list[int]) -> None:
    # Each value falls into the bucket of its own, so the count up to a bucket's end is the exact one.
    held, ranked, below = Histogram.of(values), sorted(values), 0
    for highest, count in held.counts():
        below += count
        assert below == bisect_right(ranked, highest)
    assert below == len(values)


@settings(deadline=None)
@given(SAMPLES, TIMES)
@example([1_000_000, 1_000_001], 1_000_000)
@example([5, 6], 6)
@example([5, 6], 4)
def test_what_lies_above_is_counted_to_the_bucket(values: list[int], value: int) -> None:
    held = Histogram.of(values)
    surely = sum(v > highest_equivalent(value) for v in values)
    assert surely <= held.count_above(value) <= sum(v > value for v in values)
    assert (held.count_above(value) > 0) is (max(values) > value)


@given(TIMES)
def test_values_that_are_not_told_apart_lie_within_0_1_percent(value: int) -> None:
    assert close(highest_equivalent(value), value)
    assert highest_equivalent(highest_equivalent(value)) == highest_equivalent(value)
    assert highest_equivalent(HIGHEST + value) == HIGHEST + value


def test_the_layout_is_that_of_hdrhistogram() -> None:
    # 2,048 buckets of 1 ns, then 1,024 for each power of two up to 2^40.
    assert [highest_equivalent(v) for v in (0, 1, 2047, 2048, 2049, 2050, 4095, 4096, 4099, 10_000_000)] == [
        *(0, 1, 2047, 2049, 2049, 2051, 4095, 4099, 4099, 10_002_431)
    ]
    assert highest_equivalent(HIGHEST) == HIGHEST == 2**40 - 1
    assert highest_equivalent(HIGHEST - 2**29) == HIGHEST - 2**29


@settings(deadline=None)
@given(SAMPLES, SAMPLES, st.lists(TIMES, max_size=20))
def test_merging_is_associative_and_the_histogram_of_all(a: list[int], b: list[int], c: list[int]) -> None:
    one, two, three = map(Histogram.of, (a, b, c))
    whole = Histogram.of([*a, *b, *c])
    assert one.merge(two, three) == whole
    assert one.merge(two).merge(three) == one.merge(two.merge(three)) == whole
    assert three.merge(two, one) == whole
    assert hash(one.merge(two, three)) == hash(whole)
    assert one == Histogram.of(a)


@settings(deadline=None)
@given(st.lists(TIMES, max_size=120))
def test_a_text_gives_the_same_histogram_again(values: list[int]) -> None:
    held = Histogram.of(values)
    text = held.encode()
    assert text.isascii()
    assert not set(text) & set(" \"\\\n'")
    assert Histogram.decode(text) == held == copy.deepcopy(held)
    assert Histogram.decode(text).encode() == text


@pytest.mark.parametrize("count", [1, 255, 256, 65_535, 65_536, 1 << 32])
def test_counts_of_any_width_come_back(count: int) -> None:
    held = Histogram.of([70, 2_000_000_000])
    # Doubling a histogram is quicker than to give it 2^32 values.
    for _ in range(count.bit_length() - 1):
        held = held.merge(held)
    again = Histogram.decode(held.encode())
    assert again == held
    assert again.samples == 2 * 2 ** (count.bit_length() - 1)
    assert again.value_at_rank(again.samples // 2) == 70


def test_nothing_is_no_zero() -> None:
    none, zero = Histogram(), Histogram.of([0])
    assert (bool(none), bool(zero)) == (False, True)
    assert (none.samples, none.minimum, none.maximum) == (0, None, None)
    assert (zero.samples, zero.minimum, zero.maximum) == (1, 0, 0)
    assert none != zero
    assert none == Histogram.of([]) == none.merge() == none.merge(Histogram())
    assert none != "1.0"
    assert none.merge(zero) == zero.merge(none) == zero
    assert (none.encode(), list(none.counts()), none.count_above(0)) == ("1.0", [], 0)
    assert repr(Histogram.of([7, 9])) == "Histogram(2 samples, 7 .. 9 ns)"
    assert hash(none) == hash(Histogram())


@pytest.mark.parametrize("ranks", [(), (0,), (4,), (1, 4), (-1,)])
def test_there_are_no_other_ranks(ranks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no ranks"):
        Histogram.of([1, 2, 3]).values_at_ranks(ranks)
    with pytest.raises(ValueError, match="no ranks"):
        Histogram().value_at_rank(1)


def test_values_above_the_highest_are_counted_there_and_told() -> None:
    held = Histogram.of([5, HIGHEST + 7, HIGHEST + 9, 2**50])
    assert held.saturated
    assert (held.samples, held.maximum) == (4, 2**50)
    assert held.values_at_ranks((1, 2, 3, 4)) == (5, HIGHEST, HIGHEST, 2**50)
    assert held.count_above(2**45) == 1
    assert held.count_above(HIGHEST) == 1
    assert not Histogram.of([HIGHEST]).saturated
    assert Histogram.decode(held.encode()) == held
    above = Histogram.of([2**41, 2**42, 2**43])
    assert above.values_at_ranks((1, 2, 3)) == (2**41, 2**41, 2**43)


@pytest.mark.parametrize("values", [[-1], [5, -1], [1 << 63]])
def test_what_is_no_time_is_refused(values: list[int]) -> None:
    with pytest.raises(ValueError, match="no time"):
        Histogram.of(values)


def made(
    samples: object = 3,
    minimum: object = 10,
    maximum: object = 20,
    buckets: object = 2,
    widths: str = "BB",
    body: Sequence[int] | bytes = (0, 10, 1, 2),
) -> str:
    packed = zlib.compress(bytes(body)) if isinstance(body, tuple) else body
    word = base64.b64encode(packed).decode()  # type: ignore[arg-type]  # bytes by now
    return f"1.{samples}.{minimum}.{maximum}.{buckets}.{widths}.{word}"


def test_a_text_made_by_hand_is_read() -> None:
    assert Histogram.decode(made()) == Histogram.of([10, 20, 20])
    wide = zlib.compress(struct.pack("<2H2Q", 0, 10, 1, 2))
    assert Histogram.decode(made(widths="HQ", body=wide)) == Histogram.of([10, 20, 20])


LIES: dict[str, object] = {
    "no text": None,
    "a number": 1.0,
    "a list": [1, 2],
    "bytes": b"1.0",
    "empty": "",
    "nothing with a tail": "1.0.",
    "another version": made().replace("1.", "2.", 1),
    "a field too few": made().rpartition(".")[0],
    "a field too many": made() + ".x",
    "no samples": made(samples=0),
    "negative": made(samples=-3),
    "signed": made(samples="+3"),
    "not whole": made(maximum="20e0"),
    "leading zeros": made(samples="03"),
    "other digits": made(samples="٣"),
    "an empty number": made(samples=""),
    "2^63": made(maximum=1 << 63),
    "thousands of digits": made(samples="9" * 5000),
    "minimum above maximum": made(minimum=21),
    "one sample, two ends": made(samples=1, buckets=1, body=(0, 1)),
    "more buckets than samples": made(samples=1),
    "no bucket": made(buckets=0, body=()),
    "more buckets than there are": made(samples=10**9, maximum=HIGHEST, buckets=31_745),
    "one bucket, two ends": made(buckets=1, body=(0, 3)),
    "two buckets, one end": made(minimum=20),
    "unknown widths": made(widths="BZ"),
    "steps of a width that is none": made(widths="IB"),
    "no base64": "1.3.10.20.2.BB.@@@@",
    "base64 that is cut": made()[:-1],
    "not compressed": made(body=b"nonsense"),
    "cut": made(body=zlib.compress(bytes((0, 10, 1, 2)))[:-5]),
    "a tail": made(body=zlib.compress(bytes((0, 10, 1, 2))) + b"x"),
    "too short": made(body=(0, 10, 1)),
    "too long": made(body=(0, 10, 1, 2, 0)),
    "a first step": made(body=(1, 9, 1, 2)),
    "a step of none": made(samples=4, buckets=3, body=(0, 10, 0, 1, 2, 1)),
    "a count of none": made(samples=3, buckets=3, body=(0, 5, 5, 1, 0, 2)),
    "counts that are not all": made(samples=4),
    "steps that do not lead to the maximum": made(body=(0, 9, 1, 2)),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_lie_is_a_value_error(lie: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  each has its own words
        Histogram.decode(lie)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_histogram_or_a_value_error(text: str) -> None:
    for whole in (text, f"1.{text}", f"1.3.10.20.2.BB.{text}"):
        try:
            Histogram.decode(whole)
        except ValueError:
            continue
        assert whole == "1.0"


@settings(deadline=None)
@given(SAMPLES, st.data())
def test_a_text_with_one_wrong_character_gives_no_other_values_than_it_says(
    values: list[int], data: st.DataObject
) -> None:
    text = Histogram.of(values).encode()
    place = data.draw(st.integers(0, len(text) - 1))
    wrong = text[:place] + data.draw(st.sampled_from("0123456789.BHIQ=+/aZ \x00\n")) + text[place + 1 :]
    try:
        held = Histogram.decode(wrong)
    except ValueError:
        return
    found = held.values_at_ranks(range(1, held.samples + 1))
    assert held.samples == len(values) == len(found)
    assert (found[0], found[-1]) == (held.minimum, held.maximum)


def test_no_lie_is_inflated_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = zlib.decompressobj

    class Watched:
        def __init__(self) -> None:
            self._real = real()

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

        def decompress(self, packed: bytes, most: int) -> bytes:
            asked.append(most)
            return self._real.decompress(packed, most)

    bomb = zlib.compress(bytes(200_000_000), 9)
    monkeypatch.setattr(zlib, "decompressobj", Watched)
    # The text is too long for what its head says.
    with pytest.raises(ValueError, match="contradicts itself"):
        Histogram.decode(made(body=bomb))
    assert asked == []
    # A head that says as much as one can: 31,744 buckets of 10 bytes.
    with pytest.raises(ValueError, match="are not 317440 bytes"):
        Histogram.decode(made(10**9, 0, HIGHEST, 31_744, "HQ", bomb))
    assert asked == [317_441]


def test_it_needs_no_more_than_the_standard_library_of_python_3_9() -> None:
    text = Path(histogram.__file__).read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 9))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    names |= {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    assert {name.partition(".")[0] for name in names} <= set(sys.stdlib_module_names)
    assert "strict=" not in text


@pytest.mark.parametrize(("at_hand", "inflations"), [(True, [1, 1, 1, 2]), (False, [1, 2, 3, 4])])
def test_buckets_stay_at_hand_until_they_are_encoded(
    monkeypatch: pytest.MonkeyPatch,
    at_hand: bool,  # noqa: FBT001
    inflations: list[int],
) -> None:
    text, real, made = Histogram.of([10, 20, 20, 5_000]).encode(), zlib.decompressobj, list[int]()

    def counted() -> object:
        made.append(1)
        return real()

    monkeypatch.setattr(zlib, "decompressobj", counted)
    held, told = Histogram.decode(text, at_hand=at_hand), []
    for step in range(4):
        if step == 3:
            assert held.encode() == text
        if step:
            assert held.values_at_ranks((1, 2, 3, 4)) == (10, 20, 20, 5_000)
        told.append(len(made))
    assert told == inflations
    assert held == Histogram.decode(text)


def test_many_buckets_do_not_stay_at_hand() -> None:
    few, many = Histogram.of(range(0, 2048, 2)), Histogram.of([*range(2048), *range(2048, 65_536, 32)])
    for held, size in ((few, 2048), (many, 0)):
        again = Histogram.decode(held.encode(), at_hand=True)
        assert len(again._content) == size  # noqa: SLF001  what it takes in memory
        assert again == held


def test_heads_with_the_longest_numbers_are_read() -> None:
    held = Histogram.of([(1 << 63) - 1, 10**18, 10**18 - 1])
    assert Histogram.decode(held.encode()) == held
    assert held.maximum == (1 << 63) - 1
