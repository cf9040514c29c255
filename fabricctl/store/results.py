"""The last result of every couple of ports, put together from the certificates of all runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fabricctl.model.names import PortId
from fabricctl.model.past import Basis, LastVerdicts, Result
from fabricctl.model.verdict import Outcome, worst


class Told(NamedTuple):
    """What a certificate tells: of which port, when (Unix time in seconds), of which peers, on what basis."""

    port: PortId
    at: float
    peers: Mapping[str, Outcome]
    basis: Basis


def last_results(certificates: Iterable[Told]) -> LastVerdicts:
    """Return when each couple of ports was last tested, the outcome, and what that rests on.

    Parameters
    ----------
    certificates
        The newest first. Both ends of a couple tell its outcome: of one moment the worse counts.
    """
    found: dict[PortId, dict[PortId, Result]] = {}
    bases: dict[PortId, dict[float, Basis]] = {}
    names: dict[str, PortId] = {}
    same: dict[Result, Result] = {}  # there are few different ones, and a million couples
    for told in certificates:
        port, at = names.setdefault(str(told.port), told.port), told.at
        for name, outcome in told.peers.items():
            peer = names.get(name) or names.setdefault(name, PortId.parse(name))
            low, high = (port, peer) if port < peer else (peer, port)
            row = found.setdefault(low, {})
            known = row.get(high)
            if known is None or known.at == at:
                outcomes = [outcome, known.outcome] if known else [outcome]
                tested = Result(at, worst(outcomes), by_both=known is not None)
                row[high] = same.setdefault(tested, tested)
                # Only what is the last of some couple is kept: a history may be long.
                bases.setdefault(port, {})[at] = told.basis
    return LastVerdicts(found, bases)
