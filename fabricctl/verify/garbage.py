"""Cycles of objects are looked for seldom while a run measures: there are few, and the looking takes time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 50, 100)
"""As ``gc.set_threshold`` takes them; Python's own are (700, 10, 10)."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Have Python look for cycles seldom in the block."""
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
