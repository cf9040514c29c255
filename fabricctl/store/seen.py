"""What verify runs saw: samples while they run, all of it when they have concluded."""

from __future__ import annotations

import base64
import sqlite3
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fabricctl.errors import WireError
from fabricctl.model.codec import decode, encode
from fabricctl.model.evidence import Evidence
from fabricctl.model.names import PortId
from fabricctl.model.probe import Sample
from fabricctl.model.verdict import Verdict
from fabricctl.model.verdicts import Alike, Verdicts
from fabricctl.store import batches
from fabricctl.store.migrations import renewed
from fabricctl.store.sql import Sql, packed

_PIECES = ("fabric", "policy", "agents", "verdicts", "suspects", "samples", "readings")


class Seen(Sql):
    """What verify saw and concluded."""

    def put_probed(self, run_id: str, batch: Sequence[Sample], couples: int) -> None:
        """Keep what some couples measured, all or none: a run that is killed has them when it goes on."""
        with self._transaction():
            self._connection.execute(
                "INSERT INTO probed (run_id, number, couples, samples) VALUES (?,"
                " (SELECT count(*) FROM probed WHERE run_id = ?), ?, ?)",
                (run_id, run_id, couples, batches.pack(batch)),
            )

    def probed(self, run_id: str, wanted: batches.Wanted | None = None) -> Iterator[Sample]:
        """Walk what has been kept so far, batch by batch, in the order in which it was measured.

        Parameters
        ----------
        wanted
            Says by source and target, as text, whether a pair's samples are wanted; None is all. Once it is
            false, the batches left are only looked at for damage.

        Raises
        ------
        WireError
            They were written by another version, or are damaged.
        """
        for (number,) in self._rows("SELECT number FROM probed WHERE run_id = ? ORDER BY number", (run_id,)):
            ((blob,),) = self._rows(
                "SELECT samples FROM probed WHERE run_id = ? AND number = ?", (run_id, number)
            )
            yield from batches.unpack(blob, wanted)

    def is_concluded(self, run_id: str) -> bool:
        """Say whether a verify run has its verdicts."""
        return bool(self._rows("SELECT 1 FROM evidence WHERE run_id = ?", (run_id,)))

    def put_verify(self, run_id: str, evidence: Evidence) -> None:
        """Keep everything that a verify run saw and concluded, in place of what it kept before.

        What was kept as it went is dropped, unless most of its verdicts are alike: then the evidence holds
        only the samples of the others, and `probed` has all.
        """
        held = pieces(evidence)
        with self._transaction():
            self._put_pieces(run_id, held)

    def _put_pieces(self, run_id: str, held: Pieces) -> None:
        marks = ", ".join("?" * len(_PIECES))
        self._execute(
            f"INSERT OR REPLACE INTO evidence (run_id, {', '.join(_PIECES)}) VALUES (?, {marks})",  # noqa: S608  constants
            (run_id, *held.whole),
        )
        if held.alike is None:
            self._execute("DELETE FROM probed WHERE run_id = ?", (run_id,))
            self._execute("DELETE FROM alike WHERE run_id = ?", (run_id,))
        else:
            self._execute(
                "INSERT OR REPLACE INTO alike (run_id, verdicts) VALUES (?, ?)", (run_id, held.alike)
            )

    def verify(self, run_id: str) -> Evidence | None:
        """Return what a verify run saw and concluded, None if it has not got so far.

        Of a large run the samples are those of the verdicts that are kept by themselves; `probed` has all.
        """
        rows = self._rows("SELECT * FROM evidence WHERE run_id = ?", (run_id,))
        if not rows:
            return None
        held = {name: self._unpack(rows[0][name]) for name in _PIECES}
        held["samples"] = [renewed(sample) for sample in held["samples"]]
        alike = self._rows("SELECT verdicts FROM alike WHERE run_id = ?", (run_id,))
        if not alike:
            return decode(Evidence, held)
        verdicts = self._verdicts(alike[0], held.pop("verdicts"))
        return replace(decode(Evidence, held), verdicts=verdicts)

    def _verdicts(self, row: sqlite3.Row, whole: Any) -> Verdicts:
        told = self._unpack(row["verdicts"])
        try:
            ports = tuple(PortId.parse(port) for port in told["ports"])
            codes = _array(told["codes"])
            held = iter(decode(tuple[Verdict, ...], whole))
            places = [place for place, code in enumerate(codes) if not code]
            return Verdicts(
                ports,
                _array(told["sources"]),
                _array(told["targets"]),
                codes,
                decode(tuple[Alike, ...], told["alike"]),
                dict(zip(places, held, strict=True)),
            )
        except (KeyError, TypeError, ValueError) as exc:
            step = "they were written by another version, or the file is damaged: restore it from a backup"
            raise WireError(f"stored verdicts cannot be understood: {exc!r}", next_step=step) from exc


@dataclass(frozen=True, slots=True)
class Pieces:
    """Evidence as it is stored.

    Parameters
    ----------
    whole
        In the order of the columns.
    alike
        The verdicts that are alike; None if each is kept by itself.
    """

    whole: tuple[bytes, ...]
    alike: bytes | None


def pieces(evidence: Evidence) -> Pieces:
    """Return evidence as it is stored; takes long for a large run."""
    held: dict[str, Any] = {name: getattr(evidence, name) for name in _PIECES}
    alike = held["verdicts"] if isinstance(held["verdicts"], Verdicts) else None
    if alike is not None:
        held["verdicts"] = tuple(alike.whole.values())
    whole = tuple(packed(encode(held[name])) for name in _PIECES)
    return Pieces(whole, None if alike is None else _told(alike))


def _told(verdicts: Verdicts) -> bytes:
    return packed(
        {
            "ports": [str(port) for port in verdicts.ports],
            "alike": encode(verdicts.alike),
            **{name: _text(getattr(verdicts, name)) for name in ("sources", "targets", "codes")},
        }
    )


def _text(numbers: array[int]) -> str:
    """Return numbers as text, the lowest byte first on every machine."""
    return f"{numbers.typecode}{base64.b64encode(_swapped(numbers).tobytes()).decode()}"


def _array(text: str) -> array[int]:
    found: array[int] = array(text[0], base64.b64decode(text[1:]))
    return _swapped(found)


def _swapped(numbers: array[int]) -> array[int]:
    if sys.byteorder == "little":
        return numbers
    other = array(numbers.typecode, numbers)
    other.byteswap()
    return other
