"""How far a verify is, on standard error: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from fabricctl.cli import common
from fabricctl.model.words import count
from fabricctl.verify.flow import Progress

EVERY_S = 15.0
"""Time between two lines."""


@contextmanager
def progress() -> Iterator[Progress]:
    """Yield what is told how many pairs are done, and show it while the block runs."""
    with _bar() if common.on_terminal() else _lines() as show:
        yield show


@contextmanager
def _bar() -> Iterator[Progress]:
    with click.progressbar(length=1, label="pairs", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show


@contextmanager
def _lines() -> Iterator[Progress]:
    began, over = time.monotonic(), threading.Event()
    state = [0, 0]

    def show(done: int, total: int) -> None:
        state[:] = done, total

    def tell() -> None:
        while not over.wait(EVERY_S):
            done, total = state
            how_far = f"{done} of {count(total, 'pair')}" if total else "no pair begun"
            common.tell(f"verify: {how_far} after {time.monotonic() - began:.0f} s")

    # A round may take longer than the lines are apart, so they come from a thread of their own.
    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield show
    finally:
        over.set()
        thread.join()
