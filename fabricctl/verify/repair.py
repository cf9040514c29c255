"""Suspects re-paired with partners that are known to be good, to tell a bad port from a bad pair."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Outcome, Verdict
from fabricctl.verify.pairs import Pairs

PARTNERS = 2
"""So many good ports a suspect is to meet: with one alone, that one's own way could be at fault."""
MOST = 32
"""So many couples of ports at most are asked for at a time."""


def repair(
    verdicts: Sequence[Verdict], fabric: Fabric, tried: Iterable[PairId] = (), partners: int = PARTNERS
) -> Pairs:
    """Return pairs, both ways, of ports that failed with ports that passed everything.

    A port that failed with some partner (unless something else is known to be to blame, such as settings) is
    paired with ports of which every verdict is a pass, until it has met `partners` of them, those that it
    passed with already included. Ports on its own leaf come first, for the fewest things lie between; then
    those in its pod; then those that have to meet the fewest suspects.

    No more than `MOST` couples are returned, those of the ports that failed first: who asks again, with what
    came of them, gets the next.

    Parameters
    ----------
    tried
        Pairs that were tried before and of which no verdict is given here.
    """
    failed, good = _sorted(verdicts)
    met: dict[PortId, set[PortId]] = {}
    for pair in (*tried, *(verdict.pair for verdict in verdicts)):
        met.setdefault(pair.source, set()).add(pair.target)
        met.setdefault(pair.target, set()).add(pair.source)
    uses = dict.fromkeys(good, 0)
    found: list[PairId] = []
    for suspect in failed:
        known = met[suspect]
        wanted = min(partners - len(known & uses.keys()), MOST - len(found) // 2)
        if wanted <= 0:
            continue
        new = [port for port in good if port not in known and _can_meet(fabric, suspect, port)]
        for port in heapq.nsmallest(wanted, new, key=lambda p: (*_away(fabric, suspect, p), uses[p])):
            uses[port] += 1
            found += (PairId(suspect, port), PairId(port, suspect))
    return Pairs.of(found)


def _sorted(verdicts: Sequence[Verdict]) -> tuple[list[PortId], list[PortId]]:
    """Return the ports that failed with some partner, and those that passed with all."""
    failed: dict[PortId, None] = {}
    spoiled: set[PortId] = set()
    ports: dict[PortId, None] = {}
    for verdict in verdicts:
        ends = (verdict.pair.source, verdict.pair.target)
        ports.update(dict.fromkeys(ends))
        if verdict.outcome is not Outcome.PASS:
            spoiled.update(ends)
        if verdict.outcome is Outcome.FAIL and not verdict.culprits:
            failed.update(dict.fromkeys(ends))
    return list(failed), [port for port in ports if port not in spoiled]


def _can_meet(fabric: Fabric, one: PortId, other: PortId) -> bool:
    return one.device != other.device and fabric.port(one).rail == fabric.port(other).rail


def _away(fabric: Fabric, one: PortId, other: PortId) -> tuple[bool, bool]:
    """Return what sorts ports by how far they are from `one`: another leaf, another pod."""
    here, there = fabric.peer(one), fabric.peer(other)
    other_leaf = here is None or there is None or here.device != there.device
    return other_leaf, fabric.device(one.device).pod != fabric.device(other.device).pod
