"""Every timed operation kept in a mergeable histogram; standard library and Python 3.9 (agents carry it).

The layout is HdrHistogram's with three significant digits (Gil Tene, http://hdrhistogram.org, "Bucket and
sub-bucket configuration"; https://github.com/HdrHistogram/HdrHistogram, ``AbstractHistogram``): values below
2,048 have a bucket each, and every power of two above is cut into 1,024 equal buckets. A bucket is therefore
never wider than 1/1,024 (0.098 %) of the values in it. The smallest and the largest value are kept exactly.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
import zlib
from bisect import bisect_left
from collections import Counter
from itertools import accumulate, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_HALF_BITS = 10
_HALF = 1 << _HALF_BITS
"""Buckets of each power of two; there are twice as many below the first."""
_MASK = 2 * _HALF - 1
HIGHEST = (1 << 40) - 1
"""The highest value with a bucket, ns (18 minutes); what lies above is counted with it."""
_BUCKETS = ((40 - _HALF_BITS) << _HALF_BITS) + _HALF

_VERSION = "1"
_FIELDS = 7
_LARGEST_FIELD = 1 << 63
"""No number of a head reaches it."""
_HEAD = re.compile(rf"{_VERSION}\.([1-9][0-9]{{0,17}})" + r"\.(0|[1-9][0-9]{0,17})" * 3 + r"\.([BHIQ]{2})\.")
"""The head of nearly every text: numbers of up to 18 digits are surely below `_LARGEST_FIELD`."""
_AT_HAND_BYTES = 4096
"""Inflated buckets of up to so many bytes may stay at hand."""
_WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8}
"""Bytes of a number by its letter in ``struct``."""


class Histogram:
    """The values of a sample, each to 0.1 %; it does not change once it is made.

    It is held as it travels and is stored: a text of a head and the compressed buckets, which are inflated
    each time that a rank is asked for. ``Histogram()`` has no values and is false.
    """

    __slots__ = ("_buckets", "_content", "_maximum", "_minimum", "_samples", "_text", "_widths")

    def __init__(self) -> None:
        self._samples = self._minimum = self._maximum = self._buckets = 0
        self._widths = "BB"
        self._text = f"{_VERSION}.0"
        self._content = b""

    @classmethod
    def of(cls, values: Iterable[int]) -> Histogram:
        """Return the histogram of values in ns, 0 or more, in any order.

        Raises
        ------
        ValueError
            A value is negative or has more than 63 bits.
        """
        distinct = Counter(values)
        if not distinct:
            return cls()
        minimum, maximum = min(distinct), max(distinct)
        if minimum < 0 or maximum >= _LARGEST_FIELD:
            raise ValueError(f"no time in ns: {minimum if minimum < 0 else maximum}")
        counts: Counter[int] = Counter()
        for value, count in distinct.items():
            counts[_index(value)] += count
        return cls._made(counts, minimum, maximum)

    @classmethod
    def _made(cls, counts: Mapping[int, int], minimum: int, maximum: int) -> Histogram:
        indexes = sorted(counts)
        steps = [0, *(after - before for before, after in zip(indexes, indexes[1:]))]
        ordered = [counts[index] for index in indexes]
        made = cls()
        made._samples, made._minimum, made._maximum = sum(ordered), minimum, maximum
        made._buckets = len(indexes)
        made._widths = _width(max(steps)) + _width(max(ordered))
        packed = zlib.compress(_pack(made._widths[0], steps) + _pack(made._widths[1], ordered), 6)
        head = ".".join(map(str, (_VERSION, *made._head(), made._widths)))
        made._text = f"{head}.{base64.b64encode(packed).decode('ascii')}"
        return made

    @property
    def samples(self) -> int:
        """How many values there are."""
        return self._samples

    @property
    def minimum(self) -> int | None:
        """The smallest value, exactly; None if there is none."""
        return self._minimum if self._samples else None

    @property
    def maximum(self) -> int | None:
        """The largest value, exactly; None if there is none."""
        return self._maximum if self._samples else None

    @property
    def saturated(self) -> bool:
        """Whether values lie above HIGHEST: ranks among them are told as HIGHEST or the largest value."""
        return self._maximum > HIGHEST

    def __bool__(self) -> bool:
        return self._samples > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return self._head() == other._head() and list(self.counts()) == list(other.counts())

    def __hash__(self) -> int:
        return hash(self._head())

    def __repr__(self) -> str:
        return f"Histogram({self._samples} samples, {self._minimum} .. {self._maximum} ns)"

    def _head(self) -> tuple[int, int, int, int]:
        return self._samples, self._minimum, self._maximum, self._buckets

    def counts(self) -> Iterator[tuple[int, int]]:
        """Return for each bucket with values the highest value that it can hold, and how many it holds."""
        return ((_highest(index), count) for index, count in self.buckets())

    def buckets(self) -> Iterator[tuple[int, int]]:
        """Return for each bucket with values its number in HdrHistogram's layout, and how many it holds."""
        steps, counts = self._numbers()
        return zip(islice(accumulate(steps, initial=_index(self._minimum)), 1, None), counts)

    def merge(self, *others: Histogram) -> Histogram:
        """Return the histogram of the values of this one and of all others."""
        parts = [part for part in (self, *others) if part]
        if len(parts) <= 1:
            return parts[0] if parts else self
        counts: dict[int, int] = {}
        for part in parts:
            for index, count in part.buckets():
                counts[index] = counts.get(index, 0) + count
        minima = (part.minimum for part in parts)
        maxima = (part.maximum for part in parts)
        return self._made(
            counts, min(m for m in minima if m is not None), max(m for m in maxima if m is not None)
        )

    def value_at_rank(self, rank: int) -> int:
        """Return the `rank`-th smallest value, 1 .. samples.

        The first and the last are exact; any other is the highest value of its bucket (no less than the true
        one, at most 0.1 % more).

        Raises
        ------
        ValueError
            There is no such rank.
        """
        return self.values_at_ranks((rank,))[0]

    def values_at_ranks(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Return what ``value_at_rank`` does for several ranks, in one walk over the buckets."""
        if not ranks or min(ranks) < 1 or max(ranks) > self._samples:
            raise ValueError(f"no ranks {tuple(ranks)} among {self._samples} values")
        steps, counts = self._numbers()
        ends = list(accumulate(counts))
        found = {1: self._minimum, self._samples: self._maximum}
        index, place = _index(self._minimum), 0
        for rank in sorted(set(ranks) - found.keys()):
            at = bisect_left(ends, rank, place)
            index += sum(steps[place + 1 : at + 1])
            value = _highest(index)
            if not self._minimum <= value <= self._maximum:  # in the last bucket, or all above HIGHEST
                value = self._maximum if value > self._maximum else self._minimum
            found[rank] = value
            place = at
        return tuple(found[rank] for rank in ranks)

    def count_above(self, value: int) -> int:
        """Return how many values lie above `value` (ns); those in its own bucket count as equal to it."""
        if value >= self._maximum:
            return 0
        if value < self._minimum:
            return self._samples
        steps, counts = self._numbers()
        places = list(accumulate(steps, initial=_index(self._minimum)))[1:]
        # The largest value is above for certain, whatever its bucket.
        return max(1, sum(counts[bisect_left(places, _index(value) + 1) :]))

    def encode(self) -> str:
        """Return the histogram as one short ASCII word, for JSON and the store.

        What `decode` left at hand is dropped: who keeps the text has no more use for it soon.
        """
        self._content = b""
        return self._text

    @classmethod
    def decode(cls, text: object, *, at_hand: bool = False) -> Histogram:
        """Return the histogram that ``encode`` made into `text`, which may come from anyone.

        Parameters
        ----------
        at_hand
            Whether the inflated buckets, unless they are many, stay in memory until it is encoded: to check
            them and to ask for ranks then takes one inflation.

        Raises
        ------
        ValueError
            It is none, or its parts contradict each other. However long it says it is, no more than what
            31,744 buckets can take (317 kB) is inflated.
        """
        made = cls()
        if text == made._text:
            return made
        word = made._take(text)
        if not made._is_plausible(len(word)):
            raise ValueError("the head of a histogram contradicts itself")
        content = made._inflated(word)
        if not made._is_sound(*made._split(content)):
            raise ValueError("the buckets of a histogram contradict its head")
        if at_hand and len(content) <= _AT_HAND_BYTES:
            made._content = content
        return made

    def _take(self, text: object) -> str:
        """Take the numbers of a text's head, and return the word behind it."""
        if not isinstance(text, str) or not text.isascii():
            raise ValueError("no histogram")
        self._text = text
        head = _HEAD.match(text)
        if head is not None and "." not in (word := text[head.end() :]):
            numbers = map(int, head.group(1, 2, 3, 4))
            self._samples, self._minimum, self._maximum, self._buckets = numbers
            self._widths = head[5]
            return word
        fields = text.split(".")
        if len(fields) != _FIELDS or fields[0] != _VERSION:
            raise ValueError("no histogram")
        self._samples, self._minimum, self._maximum, self._buckets = map(_number, fields[1:5])
        self._widths = fields[5]
        return fields[6]

    def _is_plausible(self, length: int) -> bool:
        """Say whether the numbers of a head fit each other and the `length` of its base64 text."""
        return (
            self._widths in _PAIRS
            and 1 <= self._buckets <= min(self._samples, _BUCKETS)
            and self._minimum <= self._maximum
            and (self._samples > 1 or self._minimum == self._maximum)
            and (self._buckets > 1) == (_index(self._minimum) != _index(self._maximum))
            and length <= 2 * self._size() + 64  # zlib adds 11 bytes at most to what it cannot compress
        )

    def _size(self) -> int:
        """Bytes of the buckets once they are inflated."""
        return self._buckets * (_WIDTHS[self._widths[0]] + _WIDTHS[self._widths[1]])

    def _is_sound(self, steps: Sequence[int], counts: Sequence[int]) -> bool:
        return (
            steps[0] == 0
            and steps.count(0) == 1
            and 0 not in counts
            and sum(counts) == self._samples
            and _index(self._minimum) + sum(steps) == _index(self._maximum)
        )

    def _numbers(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return for each bucket how many it lies above the one before (0 for the first), and its count."""
        if not self._samples:
            return b"", b""
        return self._split(self._content or self._inflated(self._text.rpartition(".")[2]))

    def _inflated(self, word: str) -> bytes:
        try:
            packed = base64.b64decode(word, validate=True)
        except binascii.Error as exc:
            raise ValueError(f"no base64: {exc}") from None
        size = self._size()
        inflating = zlib.decompressobj()
        try:
            content = inflating.decompress(packed, size + 1)
        except zlib.error as exc:
            raise ValueError(f"the buckets of a histogram cannot be inflated: {exc}") from None
        if len(content) != size or not inflating.eof or inflating.unused_data:
            raise ValueError(f"the buckets of a histogram are not {size} bytes")
        return content

    def _split(self, content: bytes) -> tuple[Sequence[int], Sequence[int]]:
        split = self._buckets * _WIDTHS[self._widths[0]]
        return _unpack(self._widths[0], content[:split]), _unpack(self._widths[1], content[split:])


_PAIRS = frozenset(step + count for step in "BH" for count in _WIDTHS)
"""Widths of steps (no step passes 31,743) and of counts."""


def highest_equivalent(value: int) -> int:
    """Return the highest value (ns) that a histogram does not tell from `value`, less than 0.1 % above it."""
    return max(value, _highest(_index(value)))


def _index(value: int) -> int:
    """Return the bucket of a value: HdrHistogram's ``countsArrayIndex``."""
    value = min(value, HIGHEST)
    power = (value | _MASK).bit_length() - _HALF_BITS - 1
    return (power << _HALF_BITS) + (value >> power)


def _highest(index: int) -> int:
    """Return the highest value of a bucket: HdrHistogram's ``highestEquivalentValue``."""
    power = max(0, (index >> _HALF_BITS) - 1)
    return ((index - (power << _HALF_BITS) + 1) << power) - 1


def _width(largest: int) -> str:
    return next(letter for letter, size in _WIDTHS.items() if largest < 1 << 8 * size)


def _pack(letter: str, numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}{letter}", *numbers)


def _unpack(letter: str, content: bytes) -> Sequence[int]:
    """Return the numbers of `content`; single bytes are numbers already (nearly always, and much faster)."""
    if letter == "B":
        return content
    return struct.unpack(f"<{len(content) // _WIDTHS[letter]}{letter}", content)


def _number(text: str) -> int:
    """Return a number of a head, 0 .. 2^63 - 1, written in one way only."""
    if text.isdigit() and len(text) <= len(str(_LARGEST_FIELD)) and (text[0] != "0" or text == "0"):
        number = int(text)
        if number < _LARGEST_FIELD:
            return number
    raise ValueError("no number in the head of a histogram")
