"""Runs, readings, samples and certificates in one SQLite file; the only user of sqlite3."""

from __future__ import annotations

from fabricctl.store.certificates import Certificates
from fabricctl.store.runs import Runs
from fabricctl.store.seen import Seen

__all__ = ["Store"]


class Store(Runs, Seen, Certificates):
    """The record of what was done and proved. Use it as a context manager, from one thread."""
