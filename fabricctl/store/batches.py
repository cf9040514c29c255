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


class _Numbered:
    """Things that occur again and again, and the number of each."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def of(self, thing: Any) -> int:
        """Return the number of a thing."""
        return self.numbers.setdefault(thing, len(self.numbers))


def pack(samples: Sequence[Sample]) -> bytes:
    """Return samples as a blob."""
    names, words = _Numbered(), _Numbered()
    # A couple's samples share their pairs: to know those again as objects is much faster than by name.
    pairs = {id(sample.pair): sample.pair for sample in samples}
    ends = {key: [words.of(str(pair.source)), words.of(str(pair.target))] for key, pair in pairs.items()}
    rows = [_row(sample, ends[id(sample.pair)], names, words) for sample in samples]
    batch = {"format": FORMAT, "names": list(names.numbers), "words": list(words.numbers), "rows": rows}
    return zlib.compress(json.dumps(batch, separators=(",", ":")).encode(), _FAST)


def _row(sample: Sample, ends: Row, names: _Numbered, words: _Numbered) -> Row:
    # The ends come first: readers choose by them.
    row: Row = [
        *ends,
        words.of(sample.probe),
        words.of(sample.engine),
        round(sample.started_at, 3),
        round(sample.duration_s, 6),
        sample.latencies.encode() if sample.latencies else "",
        _held(sample.numbers, names),
        _counters(sample.counters, names),
        _held(sample.parameters, names),
    ]
    if sample.error or sample.numbers_by_path or sample.error_kind or sample.error_device:
        paths = [_held(numbers, names) for numbers in sample.numbers_by_path]
        row += [paths, sample.error, sample.error_kind, sample.error_device]
    return row


def _held(values: Mapping[str, Any], names: _Numbered) -> Row:
    return [names.of(tuple(values)), *values.values()]


def _counters(counters: Mapping[str, Entry], names: _Numbered) -> Row:
    number = names.of(tuple(counters))
    held = list(counters.values())
    if held.count(ZERO) == len(held):  # the same object nearly always, which is fast
        return [number, _STILL]
    return [number, [_entry(entry) for entry in held]]


def _entry(entry: Entry) -> Any:
    if isinstance(entry, Known):
        return entry.value
    return {"missing": entry.reason} | ({"impossible": True} if entry.impossible else {})


Wanted = Callable[[str, str], bool]
"""Says by source and target whether a pair's samples are wanted."""


def unpack(blob: bytes, wanted: Wanted | None = None) -> Iterator[Sample]:
    """Yield the samples of a blob, all or those of some pairs.

    Raises
    ------
    WireError
        They were written by another version, or are damaged.
    """
    try:
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
