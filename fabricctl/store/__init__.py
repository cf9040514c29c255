"""Runs, readings, samples and certificates in one SQLite file; the only user of sqlite3."""

from __future__ import annotations

from collections.abc import Iterable

from fabricctl.model.certificate import Certificate
from fabricctl.model.evidence import Evidence
from fabricctl.model.run import Run
from fabricctl.model.verdict import Outcome
from fabricctl.store.certificates import Certificates
from fabricctl.store.runs import Runs
from fabricctl.store.seen import Seen, pieces

__all__ = ["Store"]


class Store(Runs, Seen, Certificates):
    """The record of what was done and proved. Use it as a context manager, from one thread."""

    def conclude(
        self,
        run: Run,
        outcome: Outcome,
        summary: str,
        evidence: Evidence,
        certificates: Iterable[Certificate],
        now: float,
    ) -> Run:
        """Keep what a verify run saw, what it proved and how it ended, all or none; return the run so.

        Evidence alone would make it look concluded, though no certificate says yet what it found.

        Parameters
        ----------
        now
            Unix time in seconds at which it ended.
        """
        held = pieces(evidence)  # packed before: other writers need not wait for that
        with self._transaction():
            self._put_pieces(run.id, held)
            self.put_certificates(certificates)
            return self.finish(run, outcome, summary, now=now)
