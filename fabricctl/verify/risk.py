"""How much a couple of ports needs to be verified, by what earlier runs left on record of it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from fabricctl.model.names import PortId
from fabricctl.model.past import Basis, Past, Result
from fabricctl.model.verdict import Outcome
from fabricctl.verify.pairs import Pairs


class Risk(StrEnum):
    """Why a couple is to be verified; the most pressing reason first."""

    NEVER = "never tested"
    FAILED = "failed before"
    UNKNOWN = "not judged before"
    CHANGED = "changed since"
    EXPIRED = "passed too long ago"
    FRESH = "passed and unchanged"


RISKS: tuple[Risk, ...] = tuple(Risk)
"""The most pressing first."""

_PLACE = {risk: place for place, risk in enumerate(RISKS)}


class Risks(NamedTuple):
    """By place of a pair: its risk as a place in `RISKS`, and when it was tested (Unix time, 0 for never)."""

    of: bytearray
    tested_at: array[float]


def risks(pairs: Pairs, past: Past) -> Risks:
    """Return the risk of every pair; both directions of a couple have the same."""
    ends = [_End(port, past) for port in pairs.ports]
    order = {port: rank for rank, port in enumerate(sorted(pairs.ports))}
    rank = [order[port] for port in pairs.ports]
    rows = [past.results.get(port) for port in pairs.ports]
    kinds, times = bytearray(), array("d")
    before = (-1, -1)
    for a, b in zip(pairs.sources, pairs.targets, strict=True):
        if (b, a) == before:
            kinds.append(kinds[-1])
            times.append(times[-1])
            continue
        before = (a, b)
        low, high = (a, b) if rank[a] < rank[b] else (b, a)
        row = rows[low]
        tested = None if row is None else row.get(pairs.ports[high])
        kinds.append(_PLACE[_risk(tested, (ends[a], ends[b]), past)])
        times.append(tested.at if tested else 0.0)
    return Risks(kinds, times)


class _End:
    """A port as it is now, beside what its results rest on."""

    __slots__ = ("_changed", "_past", "_port", "_until")

    def __init__(self, port: PortId, past: Past) -> None:
        self._port, self._past = port, past
        self._changed = bool(change(port, past))
        self._until: dict[float, float] = {}

    def until(self, at: float) -> float:
        """Return until when a result of that moment holds (Unix time in seconds); -inf if it does not.

        Both what the port's newest certificate says and what the result itself rests on must hold: a later
        certificate, of other couples, vouches for nothing before it.
        """
        if self._changed:
            return -math.inf
        if at not in self._until:
            basis = self._past.bases.get(self._port, {}).get(at)
            holds = basis is not None and not _difference(self._port, basis, self._past)
            self._until[at] = basis.expires_at if basis is not None and holds else -math.inf
        return self._until[at]


def _risk(tested: Result | None, ends: tuple[_End, _End], past: Past) -> Risk:
    if tested is None:
        return Risk.NEVER
    if tested.outcome is Outcome.FAIL:
        return Risk.FAILED
    if tested.outcome is not Outcome.PASS:
        return Risk.UNKNOWN
    until = min(end.until(tested.at) for end in ends)
    if until == -math.inf or not tested.by_both:
        return Risk.CHANGED
    # What claims to be of the future proves nothing: a clock was wrong.
    young = past.now - past.max_age_s < tested.at <= past.now < until
    return Risk.FRESH if young else Risk.EXPIRED


def change(port: PortId, past: Past) -> str:
    """Return why what a port's newest certificate says does not hold now; empty if it does.

    A fact that the certificate is bound to and that cannot be read now counts as changed; a fact that could
    not be read then binds nothing.
    """
    held = past.certificates.get(port)
    if held is None:
        return "no certificate"
    if held.outcome is not Outcome.PASS:
        return f"its certificate says {held.outcome}"
    if not held.issued_at <= past.now < held.expires_at:
        return "its certificate is not valid now"
    basis = Basis(held.expires_at, held.revoked, held.policy_digest, held.fingerprint)
    return _difference(port, basis, past)


def _difference(port: PortId, held: Basis, past: Past) -> str:
    if held.revoked:
        return f"revoked {held.revoked}"
    if held.policy_digest != past.policy_digest:
        return "certified by other limits"
    if port not in past.fingerprints:
        return "not read"
    now = past.fingerprints[port]
    other = sorted(name for name, value in held.fingerprint.items() if now.get(name) != value)
    return f"changed: {', '.join(other)}" if other else ""


def needed(pairs: Pairs, past: Past) -> Pairs:
    """Return what ``--pairs changed`` is: all pairs but those that passed and are unchanged since."""
    fresh = RISKS.index(Risk.FRESH)
    places: Sequence[int] = [place for place, kind in enumerate(risks(pairs, past).of) if kind != fresh]
    return pairs if len(places) == len(pairs) else pairs.at(places)
