"""The store's schema as numbered steps; a released step never changes, a new one is added at the end."""

from __future__ import annotations

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
)
"""One tuple of statements a version; ``PRAGMA user_version`` counts how many have been carried out."""
