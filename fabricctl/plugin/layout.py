"""How reports and commands lay out times, runs and tables, so that they look the same everywhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from fabricctl.model.histogram import Histogram
from fabricctl.model.run import Run
from fabricctl.model.stats import Percentile

MILLISECOND_NS = 1_000_000


def state(run: Run) -> str:
    """Return how a run stands: its outcome and summary, running, or interrupted."""
    if run.summary.startswith("interrupted"):
        return run.summary
    if run.outcome is not None:
        return f"{run.outcome}, {run.summary}" if run.summary else str(run.outcome)
    return "interrupted" if run.interrupted else "running"


def moment(at: float) -> str:
    """Return a Unix time as local ISO 8601 with its offset, to the second."""
    local = time.localtime(at)
    zone = time.strftime("%z", local)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}{zone[:3]}:{zone[3:]}"


def duration(value_ns: int) -> str:
    """Return nanoseconds as ``812.4 us``, from a millisecond on as ``1.83 ms``."""
    return f"{value_ns / 1e6:.2f} ms" if value_ns >= MILLISECOND_NS else f"{value_ns / 1e3:.1f} us"


def durations(named: Iterable[tuple[str, int | None]]) -> str:
    """Return ``p50 5.2, p99 9.1, max 40.7 us``: names and nanoseconds, the unit once where all share it.

    What is None was not known well enough to be told: ``too few``, which stands for "too few samples".
    """
    said = [(name, "too few" if value is None else duration(value)) for name, value in named]
    units = {text[-3:] for _, text in said if text != "too few"}
    if len(units) == 1:
        unit = units.pop()
        return ", ".join(f"{name} {text.removesuffix(unit)}" for name, text in said) + unit
    return ", ".join(f"{name} {text}" for name, text in said)


def distribution(latencies: Histogram, found: Sequence[Percentile]) -> str:
    """Return the percentiles that the samples bound on both sides, and the largest value."""
    bounded = ((f"p{p.percent:g}", p.value if p.bounded else None) for p in found)
    return durations((*bounded, ("max", latencies.maximum)))


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Align the columns of rows."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
