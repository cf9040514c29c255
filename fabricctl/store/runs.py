"""Runs and their records."""

from __future__ import annotations

import math
import secrets
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fabricctl.errors import StoreError, UsageError
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Outcome
from fabricctl.store.process import is_gone, own_mark
from fabricctl.store.sql import Sql, as_json


class Runs(Sql):
    """What was done, when and by whom, and what else is kept with a run."""

    def begin(self, kind: RunKind, by: str, inventory: str, *, now: float | None = None) -> Run:
        """Record that a run starts and return it with its new name.

        Parameters
        ----------
        by
            Who started it.
        inventory
            Absolute path of the inventory.
        now
            Unix time in seconds; None is the present.
        """
        at = time.time() if now is None else now
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at))
        letter = {RunKind.APPLY: "a", RunKind.ROLLBACK: "b", RunKind.VERIFY: "v", RunKind.LINKS: "l"}[kind]
        run = Run(f"{letter}{stamp}-{secrets.token_hex(2)}", kind, at, by, inventory)
        self._execute(
            "INSERT INTO runs (id, kind, started_at, started_by, inventory, process)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (run.id, kind.value, at, by, inventory, own_mark()),
        )
        return run

    def finish(self, run: Run, outcome: Outcome, summary: str, *, now: float | None = None) -> Run:
        """Record how a run ended, and return it so."""
        at = time.time() if now is None else now
        self._execute(
            "UPDATE runs SET ended_at = ?, outcome = ?, summary = ? WHERE id = ?",
            (at, outcome.value, summary, run.id),
        )
        return replace(run, ended_at=at, outcome=outcome, summary=summary, interrupted=False)

    def resume(self, run: Run) -> Run:
        """Record that a run goes on which was killed or interrupted, and return it so."""
        self._execute(
            "UPDATE runs SET ended_at = NULL, outcome = NULL, summary = '', process = ? WHERE id = ?",
            (own_mark(), run.id),
        )
        return replace(run, ended_at=None, outcome=None, summary="", interrupted=False)

    def runs(self, limit: int = 50, kind: RunKind | None = None) -> tuple[Run, ...]:
        """Return the newest runs, the newest first."""
        rows = self._rows(
            f"SELECT {_RUN} FROM runs WHERE ? IN ('', kind) ORDER BY started_at DESC, rowid DESC LIMIT ?",  # noqa: S608  a constant
            (kind.value if kind else "", limit),
        )
        return tuple(_run(row) for row in rows)

    def run(self, run_id: str) -> Run:
        """Return one run.

        Raises
        ------
        UsageError
            There is no run of that name.
        """
        rows = self._rows(f"SELECT {_RUN} FROM runs WHERE id = ?", (run_id,))  # noqa: S608  a constant
        if not rows:
            raise UsageError(f"there is no run {run_id!r}", next_step='see "fabricctl runs"')
        return _run(rows[0])

    # Records of any kind, one a run and kind

    def put_record(self, run_id: str, kind: str, payload: Mapping[str, Any]) -> None:
        """Keep `payload` (JSON values) with a run, once a run and kind; StoreError if it is there already."""
        self._execute(
            "INSERT INTO records (run_id, kind, payload) VALUES (?, ?, ?)", (run_id, kind, as_json(payload))
        )

    def update_record(self, run_id: str, kind: str, payload: Mapping[str, Any]) -> None:
        """Put `payload` in place of the record of that run and kind; StoreError if there is none."""
        changed = self._execute(
            "UPDATE records SET payload = ? WHERE run_id = ? AND kind = ?", (as_json(payload), run_id, kind)
        )
        if not changed:
            raise StoreError(f"run {run_id} has no record {kind!r}", where=str(self.path))

    def record(self, run_id: str, kind: str) -> dict[str, Any] | None:
        """Return the record of that run and kind, None if there is none."""
        rows = self._rows("SELECT payload FROM records WHERE run_id = ? AND kind = ?", (run_id, kind))
        if not rows:
            return None
        payload: dict[str, Any] = self._load(rows[0]["payload"])
        return payload

    def records(
        self,
        kind: str,
        inventory: str | None = None,
        newest: int = -1,
        between: tuple[float, float] = (-math.inf, math.inf),
    ) -> tuple[tuple[Run, dict[str, Any]], ...]:
        """Return all records of a kind (of an inventory) with their runs, the newest run first.

        Parameters
        ----------
        newest
            So many at most; below 0 is all.
        between
            Only of runs that started at or after the first and before the second; Unix time in seconds.
        """
        rows = self._rows(
            f"SELECT {_RUN}, payload FROM records r JOIN runs ON runs.id = r.run_id"  # noqa: S608  a constant
            " WHERE r.kind = ? AND (? IS NULL OR inventory = ?) AND started_at >= ? AND started_at < ?"
            " ORDER BY started_at DESC, runs.rowid DESC LIMIT ?",
            (kind, inventory, inventory, *between, newest),
        )
        return tuple((_run(row), self._load(row["payload"])) for row in rows)

    def unsettled_until(self, inventory: str) -> float | None:
        """Return the Unix time at which an unconfirmed change of this inventory's devices reverts by itself.

        A record that has a ``deadline`` and no end says so; None if there is none.
        """
        held = [
            payload["deadline"]
            for run, payload in self.records("apply", inventory)
            if payload.get("state") == "waiting for confirm" and payload.get("deadline") is not None
        ]
        return min(held, default=None)


_RUN = "id, runs.kind, started_at, started_by, inventory, process, ended_at, outcome, summary"


def _run(row: sqlite3.Row) -> Run:
    return Run(
        id=row["id"],
        kind=RunKind(row["kind"]),
        started_at=row["started_at"],
        by=row["started_by"],
        inventory=row["inventory"],
        ended_at=row["ended_at"],
        outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
        summary=row["summary"],
        interrupted=row["ended_at"] is None and is_gone(row["process"]),
    )
