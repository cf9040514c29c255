"""Samples as compact blobs: what many of them share, names above all, stands once in a batch."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fabricctl.errors import WireError
from fabricctl.model.codec import decode
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.probe import Sample
from fabricctl.model.reading import ZERO, Entry, Known, Missing

FORMAT = 1
_FAST = 1
"""zlib's level: it runs while the nodes wait."""
_STILL = 0
"""In place of the values of counters: none of them moved."""

Row = list[Any]


class _Numbers(dict[Any, int]):
    """Things that occur again and again, and the number of each; one that is new gets the next."""

    def __missing__(self, thing: Any) -> int:
        self[thing] = number = len(self)
        return number


class _Batch:
    """Samples on their way into a blob; they must live as long as it."""

    def __init__(self) -> None:
        self.names, self.words = _Numbers(), _Numbers()
        self._ends: dict[int, Row] = {}
        self._counters: dict[int, Row] = {}

    def row(self, sample: Sample) -> Row:
        """Return a sample as a row; the ends come first, for readers choose by them."""
        # Samples of a couple share their pairs, and most their counters: to know those again as objects is
        # much faster than by what they hold.
        pair, counters = sample.pair, sample.counters
        ends = self._ends.get(id(pair))
        if ends is None:
            ends = self._ends[id(pair)] = [self.words[str(pair.source)], self.words[str(pair.target)]]
        moved = self._counters.get(id(counters))
        if moved is None:
            moved = self._counters[id(counters)] = self._moved(counters)
        row: Row = [
            *ends,
            self.words[sample.probe],
            self.words[sample.engine],
            round(sample.started_at, 3),
            round(sample.duration_s, 6),
            sample.latencies.encode() if sample.latencies else "",
            self._held(sample.numbers),
            moved,
            self._held(sample.parameters),
        ]
        if sample.error or sample.numbers_by_path or sample.error_kind or sample.error_device:
            paths = [self._held(numbers) for numbers in sample.numbers_by_path]
            row += [paths, sample.error, sample.error_kind, sample.error_device]
        return row

    def _held(self, values: Mapping[str, Any]) -> Row:
        return [self.names[tuple(values)], *values.values()]

    def _moved(self, counters: Mapping[str, Entry]) -> Row:
        number = self.names[tuple(counters)]
        held = list(counters.values())
        if held.count(ZERO) == len(held):  # the same object nearly always, which is fast
            return [number, _STILL]
        return [number, [_entry(entry) for entry in held]]


def pack(samples: Sequence[Sample]) -> bytes:
    """Return samples as a blob."""
    batch = _Batch()
    rows = [batch.row(sample) for sample in samples]
    held = {"format": FORMAT, "names": list(batch.names), "words": list(batch.words), "rows": rows}
    return zlib.compress(json.dumps(held, separators=(",", ":")).encode(), _FAST)


def _entry(entry: Entry) -> Any:
    if isinstance(entry, Known):
        return entry.value
    return {"missing": entry.reason} | ({"impossible": True} if entry.impossible else {})


Wanted = Callable[[str, str], bool]
"""Says by source and target if a pair's samples are wanted. It may be, or become, false: then none is."""


def unpack(blob: bytes, wanted: Wanted | None = None) -> Iterator[Sample]:
    """Yield the samples of a blob, all or those of some pairs.

    Raises
    ------
    WireError
        They were written by another version, or are damaged.
    """
    try:
        if wanted is not None and _is_false(wanted):
            zlib.decompress(blob)  # has a checksum: what is damaged is told all the same
            return
        batch = _opened(blob)
        words, names = batch["words"], [tuple(held) for held in batch["names"]]
        pairs: dict[tuple[int, int], PairId | None] = {}
        for row in batch["rows"]:
            ends = (row[0], row[1])
            if ends not in pairs:
                source, target = words[row[0]], words[row[1]]
                is_wanted = wanted is None or wanted(source, target)
                pairs[ends] = PairId(PortId.parse(source), PortId.parse(target)) if is_wanted else None
            pair = pairs[ends]
            if pair is not None:
                yield _sample(row, pair, words, names)
    except (zlib.error, ValueError, KeyError, TypeError, IndexError, AttributeError) as exc:
        step = "they were written by another version, or the file is damaged: restore it from a backup"
        raise WireError(f"stored samples cannot be understood: {exc!r}", next_step=step) from exc


def _is_false(wanted: object) -> bool:
    return not wanted


def _opened(blob: bytes) -> Any:
    batch = json.loads(zlib.decompress(blob))
    if batch["format"] != FORMAT:
        raise ValueError(f"format {batch['format']}")
    return batch


def _sample(row: Row, pair: PairId, words: Sequence[str], names: Sequence[tuple[str, ...]]) -> Sample:
    numbers, counters, parameters = row[7], row[8], row[9]
    paths, error, kind, device = row[10:14] if len(row) > 10 else ((), "", "", "")  # noqa: PLR2004  the common part
    return Sample(
        pair,
        words[row[2]],
        words[row[3]],
        row[4],
        row[5],
        error=error,
        latencies=Histogram.decode(row[6]) if row[6] else Histogram(),
        numbers=dict(zip(names[numbers[0]], numbers[1:], strict=True)),
        numbers_by_path=tuple(dict(zip(names[path[0]], path[1:], strict=True)) for path in paths),
        counters=_moved(names[counters[0]], counters[1]),
        parameters=dict(zip(names[parameters[0]], parameters[1:], strict=True)),
        error_kind=kind,
        error_device=device,
    )


def _moved(names: Sequence[str], values: Any) -> Mapping[str, Entry]:
    if values == _STILL:
        return dict.fromkeys(names, ZERO)
    return {name: _read(value) for name, value in zip(names, values, strict=True)}


def _read(value: Any) -> Entry:
    if isinstance(value, dict):
        return decode(Missing, value)
    return Known(tuple(value) if isinstance(value, list) else value)
