"""Runs, readings, samples and certificates in one SQLite file; the only user of sqlite3."""

from __future__ import annotations

import json
import math
import secrets
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fabricctl.errors import StoreError, UsageError
from fabricctl.model.certificate import Certificate
from fabricctl.model.codec import decode, encode
from fabricctl.model.evidence import Evidence
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Outcome
from fabricctl.resources import store_path
from fabricctl.store.database import connect, is_absent, mapped
from fabricctl.store.process import is_gone, own_mark

__all__ = ["Store"]

_PIECES = ("fabric", "policy", "agents", "verdicts", "suspects", "samples", "readings")


class Store:
    """The record of what was done and proved. Use it as a context manager, from one thread."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path

    @classmethod
    def open(cls, path: Path | None = None, *, readonly: bool = False) -> Self:
        """Open the store, creating it (mode 0600) unless it is only to be read.

        Parameters
        ----------
        path
            None: ``$FABRICCTL_STORE``, else ``fabricctl/store.sqlite`` in the user's state folder.

        Raises
        ------
        StoreError
            It is absent (read only), damaged, not ours, of a newer fabricctl, or its disk is full.
        BusyError
            Another process has been writing for more than ten seconds.
        """
        place = (path or store_path()).absolute()
        return cls(connect(place, readonly=readonly), place)

    @staticmethod
    def is_absent(path: Path | None = None) -> bool:
        """Say whether there is no store yet, so that nothing has been recorded."""
        return is_absent(path or store_path())

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Runs

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
            "INSERT INTO records (run_id, kind, payload) VALUES (?, ?, ?)", (run_id, kind, _json(payload))
        )

    def update_record(self, run_id: str, kind: str, payload: Mapping[str, Any]) -> None:
        """Put `payload` in place of the record of that run and kind; StoreError if there is none."""
        changed = self._execute(
            "UPDATE records SET payload = ? WHERE run_id = ? AND kind = ?", (_json(payload), run_id, kind)
        )
        if not changed:
            raise StoreError(f"run {run_id} has no record {kind!r}", where=str(self.path))

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

    # What verify saw

    def put_verify(self, run_id: str, evidence: Evidence) -> None:
        """Keep everything that a verify run saw and concluded, in place of what it kept before."""
        pieces = [_pack(encode(getattr(evidence, name))) for name in _PIECES]
        marks = ", ".join("?" * len(_PIECES))
        self._execute(
            f"INSERT OR REPLACE INTO evidence (run_id, {', '.join(_PIECES)}) VALUES (?, {marks})",  # noqa: S608  constants
            (run_id, *pieces),
        )

    def verify(self, run_id: str) -> Evidence | None:
        """Return what a verify run saw and concluded, None if it has not got so far."""
        rows = self._rows("SELECT * FROM evidence WHERE run_id = ?", (run_id,))
        if not rows:
            return None
        return decode(Evidence, {name: self._unpack(rows[0][name]) for name in _PIECES})

    # Certificates

    def put_certificates(self, certificates: Iterable[Certificate]) -> None:
        """Keep new certificates, all or none; the newest of a port is the one that counts.

        Older ones of the port that claim a later date go: a clock was wrong then.
        """
        with self._transaction():
            for certificate in certificates:
                self._connection.execute(
                    "DELETE FROM certificates WHERE node = ? AND port = ? AND issued_at > ?",
                    (certificate.port.device, certificate.port.port, certificate.issued_at),
                )
                self._connection.execute(
                    "INSERT INTO certificates"
                    " (id, run_id, node, port, outcome, issued_at, expires_at, revoked, body)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        certificate.id,
                        certificate.run_id,
                        certificate.port.device,
                        certificate.port.port,
                        certificate.outcome.value,
                        certificate.issued_at,
                        certificate.expires_at,
                        certificate.revoked,
                        _json(encode(certificate)),
                    ),
                )

    def certificates(
        self,
        selectors: Iterable[str] | None = None,
        *,
        newest: bool = True,
        valid_at: float | None = None,
        run_id: str | None = None,
    ) -> tuple[Certificate, ...]:
        """Return certificates in the order of ports, the newest of a port first.

        Parameters
        ----------
        selectors
            Nodes (``node1``), ports (``node1/eth1``) or a certificate's id; None is all.
        newest
            Only the newest of each port: an older one counts for nothing.
        valid_at
            Only those that passed, are not revoked and hold at this Unix time.
        run_id
            Only those that this run issued.
        """
        rows = (
            self._rows(
                "SELECT id, node, port, expires_at, revoked, body FROM certificates"
                " WHERE ? IS NULL OR run_id = ? ORDER BY node, port, issued_at DESC, rowid DESC",
                (run_id, run_id),
            )
            if selectors is None
            else self._selected(tuple(selectors), run_id)
        )
        found = []
        seen: set[tuple[str, str]] = set()
        for row in rows:
            if newest and (row["node"], row["port"]) in seen:
                continue
            seen.add((row["node"], row["port"]))
            certificate = self._certificate(row)
            if valid_at is None or _valid(certificate, valid_at):
                found.append(certificate)
        return tuple(found)

    def standing(self, nodes: Iterable[str], now: float) -> tuple[Certificate, ...]:
        """Return what the gate decides from.

        Of each port of the nodes that is the newest certificate, and the older ones that have not expired:
        they speak for the pairs that the newest did not test.
        """
        found = []
        seen: set[tuple[str, str]] = set()
        for row in self._selected(tuple(nodes), None):
            place = (row["node"], row["port"])
            if place not in seen or row["expires_at"] > now:
                found.append(self._certificate(row))
            seen.add(place)
        return tuple(found)

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

    def end_certificates(self, inventory: str, by: str, why: str, now: float) -> int:
        """Revoke all certificates that runs on this inventory issued, and return how many there were."""
        rows = self._rows(
            "SELECT certificates.id FROM certificates JOIN runs ON runs.id = certificates.run_id"
            " WHERE runs.inventory = ? AND certificates.revoked = ''",
            (inventory,),
        )
        for row in rows:
            self.revoke(row["id"], by, why, now)
        return len(rows)

    def revoke(self, selector: str, by: str, why: str, now: float) -> tuple[Certificate, ...]:
        """Revoke the certificates of a node, of a port or of one id, and return those that were not so yet.

        Parameters
        ----------
        why
            One line; the gate shows it.
        now
            Unix time in seconds.
        """
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(now))
        text = f"by {by} at {when}: {why}"
        with self._transaction():
            held = [c for c in self.certificates([selector], newest=False) if not c.revoked]
            for certificate in held:
                self._connection.execute(
                    "UPDATE certificates SET revoked = ? WHERE id = ?", (text, certificate.id)
                )
        return tuple(replace(c, revoked=text) for c in held)

    # SQL

    def _selected(self, selectors: tuple[str, ...], run_id: str | None) -> list[sqlite3.Row]:
        rows: dict[str, sqlite3.Row] = {}
        for selector in selectors:
            found = self._rows(
                "SELECT id, node, port, expires_at, revoked, body FROM certificates"
                " WHERE (node = ? OR node || '/' || port = ? OR id = ?) AND (? IS NULL OR run_id = ?)"
                " ORDER BY node, port, issued_at DESC, rowid DESC",
                (selector, selector, selector, run_id, run_id),
            )
            rows |= {row["id"]: row for row in found}
        return list(rows.values())

    def _certificate(self, row: sqlite3.Row) -> Certificate:
        body = self._load(row["body"])
        # In a large fabric nearly all of a certificate is its peers: the gate has no time to check each.
        try:
            peers = {peer: _OUTCOMES[outcome] for peer, outcome in body["peers"].items()}
        except (KeyError, TypeError, AttributeError) as exc:
            step = "restore the file from a backup, or verify again"
            what = f"certificate {row['id']} cannot be understood"
            raise StoreError(what, where=str(self.path), next_step=step) from exc
        # The column is the truth: a body is written once, a revocation comes later.
        certificate = decode(Certificate, {**body, "peers": {}})
        return replace(certificate, peers=peers, revoked=row["revoked"])

    def _execute(self, sql: str, values: tuple[object, ...]) -> int:
        with mapped(self.path):
            return self._connection.execute(sql, values).rowcount

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[sqlite3.Row]:
        with mapped(self.path):
            cursor = self._connection.cursor()
            cursor.row_factory = sqlite3.Row
            return cursor.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with mapped(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # on a full disk SQLite takes it back by itself
                    self._connection.execute("ROLLBACK")
                raise

    def _load(self, text: str | bytes) -> Any:
        try:
            return json.loads(text)
        except ValueError as exc:
            step = "restore the file from a backup"
            raise StoreError(
                "the store holds text that is no JSON", where=str(self.path), next_step=step
            ) from exc

    def _unpack(self, blob: bytes) -> Any:
        try:
            return self._load(zlib.decompress(blob))
        except zlib.error as exc:
            step = "restore the file from a backup"
            raise StoreError(f"the store is damaged: {exc}", where=str(self.path), next_step=step) from exc


_OUTCOMES = {outcome.value: outcome for outcome in Outcome}

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


def _valid(certificate: Certificate, at: float) -> bool:
    return (
        certificate.outcome is Outcome.PASS
        and not certificate.revoked
        and certificate.issued_at <= at < certificate.expires_at
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _pack(value: object) -> bytes:
    return zlib.compress(_json(value).encode(), level=6)
