"""The last result of every couple of ports, put together from the certificates of all runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fabricctl.model.names import PortId
from fabricctl.model.past import Result
from fabricctl.model.verdict import Outcome, worst


def last_results(
    certificates: Iterable[tuple[PortId, float, Mapping[str, Outcome]]],
) -> dict[PortId, dict[PortId, Result]]:
    """Return by the lesser port of a couple, then by the other: when it was last tested, and the outcome.

    Parameters
    ----------
    certificates
        Port, Unix time of issue in seconds, and outcome by peer (as text); the newest first. Both ends of a
        couple tell its outcome: of one moment the worse counts.
    """
    found: dict[PortId, dict[PortId, Result]] = {}
    names: dict[str, PortId] = {}
    same: dict[Result, Result] = {}  # there are few different ones, and a million couples
    for port, at, peers in certificates:
        port = names.setdefault(str(port), port)  # noqa: PLW2901  the one that all couples share
        for name, outcome in peers.items():
            peer = names.get(name) or names.setdefault(name, PortId.parse(name))
            low, high = (port, peer) if port < peer else (peer, port)
            row = found.setdefault(low, {})
            known = row.get(high)
            if known is None or known.at == at:
                tested = Result(at, worst([outcome, known.outcome]) if known else outcome)
                row[high] = same.setdefault(tested, tested)
    return found
