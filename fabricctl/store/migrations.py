"""The store's schema as numbered steps; a released step never changes, a new one is added at the end."""

from __future__ import annotations

from typing import Any

from fabricctl.model.histogram import Histogram

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE runs (
            id TEXT PRIMARY KEY,
            kind TEXT NOT NULL,
            started_at REAL NOT NULL,
            started_by TEXT NOT NULL,
            inventory TEXT NOT NULL,
            process TEXT NOT NULL,
            ended_at REAL,
            outcome TEXT,
            summary TEXT NOT NULL DEFAULT ''
        ) STRICT
        """,
        "CREATE INDEX runs_by_time ON runs (started_at)",
        """
        CREATE TABLE records (
            run_id TEXT NOT NULL REFERENCES runs (id),
            kind TEXT NOT NULL,
            payload TEXT NOT NULL,
            PRIMARY KEY (run_id, kind)
        ) STRICT
        """,
        "CREATE INDEX records_by_kind ON records (kind)",
        """
        CREATE TABLE evidence (
            run_id TEXT PRIMARY KEY REFERENCES runs (id),
            fabric BLOB NOT NULL,
            policy BLOB NOT NULL,
            agents BLOB NOT NULL,
            verdicts BLOB NOT NULL,
            suspects BLOB NOT NULL,
            samples BLOB NOT NULL,
            readings BLOB NOT NULL
        ) STRICT
        """,
        """
        CREATE TABLE certificates (
            id TEXT PRIMARY KEY,
            run_id TEXT NOT NULL REFERENCES runs (id),
            node TEXT NOT NULL,
            port TEXT NOT NULL,
            outcome TEXT NOT NULL,
            issued_at REAL NOT NULL,
            expires_at REAL NOT NULL,
            revoked TEXT NOT NULL DEFAULT '',
            body TEXT NOT NULL
        ) STRICT
        """,
        "CREATE INDEX certificates_by_port ON certificates (node, port, issued_at)",
    ),
    # From here on samples hold histograms. Older ones are read by `renewed`: to rewrite all evidence here
    # would keep a gate waiting that opens the store to read.
    (),
    # What a verify run measures is kept as it goes, so that one that was killed can go on; and of a large run
    # the verdicts, of which most are alike.
    (
        """
        CREATE TABLE probed (
            run_id TEXT NOT NULL REFERENCES runs (id),
            number INTEGER NOT NULL,
            couples INTEGER NOT NULL,
            samples BLOB NOT NULL,
            PRIMARY KEY (run_id, number)
        ) STRICT
        """,
        """
        CREATE TABLE alike (
            run_id TEXT PRIMARY KEY REFERENCES runs (id),
            verdicts BLOB NOT NULL
        ) STRICT
        """,
    ),
)
"""One tuple of statements a version; ``PRAGMA user_version`` counts how many have been carried out."""


def renewed(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a stored sample in today's form: schema 1 kept each latency as a number in ``latencies_ns``."""
    if "latencies_ns" not in sample:
        return sample
    try:
        latencies = Histogram.of(sample["latencies_ns"])
    except (TypeError, ValueError):
        return sample  # damaged: reading it on says so
    return {k: v for k, v in sample.items() if k != "latencies_ns"} | {"latencies": latencies.encode()}
