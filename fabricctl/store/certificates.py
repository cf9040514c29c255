"""Certificates: issued, found again, revoked."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fabricctl.errors import StoreError
from fabricctl.model.certificate import Certificate
from fabricctl.model.codec import decode, encode
from fabricctl.model.past import Basis, LastVerdicts
from fabricctl.model.verdict import Outcome
from fabricctl.store.results import Told, last_results
from fabricctl.store.sql import Sql, as_json


class Certificates(Sql):
    """What was proved of each port."""

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
                        as_json(encode(certificate)),
                    ),
                )

    def certificates(
        self,
        selectors: Iterable[str] | None = None,
        *,
        newest: bool = True,
        valid_at: float | None = None,
        run_id: str | None = None,
        peers: bool = True,
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
        peers
            Whether to tell the peers: of a thousand ports, they are nearly all of the memory.
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
            certificate = self._certificate(row, peers=peers)
            if valid_at is None or _valid(certificate, valid_at):
                found.append(certificate)
        return tuple(found)

    def last_verdicts(self, inventory: str, since: float, simulated: str = "") -> LastVerdicts:
        """Return when each couple of ports was last tested, with what came of it and what that rests on.

        Parameters
        ----------
        inventory
            Absolute path: only runs on this one count.
        since
            Unix time in seconds; older runs are not looked at, so that a long history costs nothing.
        simulated
            What stood in for the hardware; empty for real. What was found on anything else does not count.
        """
        rows = self._rows(
            "SELECT certificates.id FROM certificates JOIN runs ON runs.id = certificates.run_id"
            " WHERE runs.inventory = ? AND issued_at >= ? ORDER BY issued_at DESC, certificates.rowid DESC",
            (inventory, since),
        )
        told = (self._told(row["id"], simulated) for row in rows)
        return last_results(held for held in told if held is not None)

    def _told(self, certificate_id: str, simulated: str) -> Told | None:
        """Return what a certificate tells; None if something else stood in for the hardware then."""
        (row,) = self._rows(
            "SELECT id, node, port, issued_at, expires_at, revoked, body FROM certificates WHERE id = ?",
            (certificate_id,),
        )
        body = self._load(row["body"])
        held = self._bare(row, body)
        if held.simulated != simulated:
            return None
        basis = Basis(held.expires_at, held.revoked, held.policy_digest, held.fingerprint)
        return Told(held.port, row["issued_at"], self._peers(row, body), basis)

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

    def _certificate(self, row: sqlite3.Row, *, peers: bool = True) -> Certificate:
        body = self._load(row["body"])
        # In a large fabric nearly all of a certificate is its peers: the gate has no time to check each.
        told = self._peers(row, body) if peers else {}
        return replace(self._bare(row, body), peers=told)

    def _bare(self, row: sqlite3.Row, body: Any) -> Certificate:
        """Return a certificate without its peers."""
        # The column is the truth: a body is written once, a revocation comes later.
        return replace(decode(Certificate, {**body, "peers": {}}), revoked=row["revoked"])

    def _peers(self, row: sqlite3.Row, body: Any) -> dict[str, Outcome]:
        try:
            return {peer: _OUTCOMES[outcome] for peer, outcome in body["peers"].items()}
        except (KeyError, TypeError, AttributeError) as exc:
            step = "restore the file from a backup, or verify again"
            what = f"certificate {row['id']} cannot be understood"
            raise StoreError(what, where=str(self.path), next_step=step) from exc


_OUTCOMES = {outcome.value: outcome for outcome in Outcome}


def _valid(certificate: Certificate, at: float) -> bool:
    return (
        certificate.outcome is Outcome.PASS
        and not certificate.revoked
        and certificate.issued_at <= at < certificate.expires_at
    )
