"""Samples on their way to the store, some couples at a time, and which are wanted back.

A store that is busy is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from fabricctl.errors import BusyError, StoreError
from fabricctl.model.names import PairId
from fabricctl.model.probe import Sample

BATCH_COUPLES, BATCH_S = 256, 1.0
"""So many couples, or what came in so many seconds, are kept together: a killed run loses no more."""
RETRY_S, MOST_WAITING = 30.0, 16_384
"""While another run writes to the store: so many seconds until the next try (which waits itself, and the run
with it), and so many couples are held in memory until then, some 8 kB each."""

Keep = Callable[[Sequence[Sample], int], None]
"""Takes the samples of so many couples into the store."""


class Pending:
    """What the store has not got yet.

    Attributes
    ----------
    samples
        Those that wait.
    busy
        Why they could not be kept so far; empty if that was not tried.
    unkept
        Why nothing is kept any more; empty as long as it is.
    """

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._couples, self._since = 0, 0.0
        self.samples: list[Sample] = []
        self.busy = self.unkept = ""

    def add(self, samples: Sequence[Sample]) -> bool:
        """Have the samples of a couple wait; say whether it is time to keep those that do."""
        now = time.monotonic()
        if not self._couples:
            self._since = now
        self.samples += samples
        self._couples += 1
        most, most_s = (MOST_WAITING, RETRY_S) if self.busy else (BATCH_COUPLES, BATCH_S)
        return self._couples >= most or now - self._since > most_s

    def flush(self) -> list[Sample]:
        """Have the store keep what waits, if it can; return what it will never have."""
        if self._couples and not self.unkept:
            # Whatever happens, the measuring goes on: its report is worth something without the store, too.
            try:
                self._keep(self.samples, self._couples)
            except BusyError as exc:
                self.busy, self._since = str(exc), time.monotonic()
                if self._couples < MOST_WAITING:
                    return []
                self.unkept = self.busy
            except StoreError as exc:
                self.unkept = str(exc)
        lost = self.samples if self.unkept else []
        self.samples, self._couples, self.busy = [], 0, ""
        return lost


class Wanted:
    """Says which pairs' samples are wanted; false once all have come, so that the rest need not be read.

    Parameters
    ----------
    left
        How many samples there are of them in the store; below 0 if that is not known.
    """

    def __init__(self, pairs: Iterable[PairId], left: int) -> None:
        self._names = {(str(pair.source), str(pair.target)) for pair in pairs}
        self.left = left if self._names else 0

    def __call__(self, source: str, target: str) -> bool:
        """Say whether the samples of a pair are wanted."""
        return (source, target) in self._names

    def __bool__(self) -> bool:
        """Say whether any may still come."""
        return self.left != 0
