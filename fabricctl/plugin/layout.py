"""How reports and commands lay out times, runs and tables, so that they look the same everywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from fabricctl.model.run import Run

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


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Align the columns of rows."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
