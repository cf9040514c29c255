"""Judge loss by the NICs' counters, where a NIC has no unreliable connections.

Full-size WRITEs on reliable connections are each one packet. A counter of gaps moves about once for a burst
of losses that other packets follow; a timeout moves where the last packets, or the answers, were lost, or
where a host stood still. So gaps are the least number of events, gaps and retransmissions the most.

Passes
    Nothing was sent again beyond what the policy tolerates, and the bound of the rate of events holds.
Fails
    More gaps were counted than ``max_rate`` of the packets.
Unknown
    The source has neither kind of counter, retransmissions leave it open, or the packets were too few.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabricctl.model.names import PairId
from fabricctl.model.policy import LossLimit
from fabricctl.model.probe import Sample
from fabricctl.model.stats import CONFIDENCE, interval, trials_for_bound, upper_bound
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import retries
from fabricctl.probes.loss.spec import NAME

OPERATIONS = "operations"
"""The number that a sample from reliable connections has, and no other."""
TIER = "by NIC counters (no UC on this NIC)"


def judge(pair: PairId, samples: Sequence[Sample], limit: LossLimit | None) -> Finding:
    """Return the finding on events of loss from `pair`'s source to its target."""
    operations = sum(sample.numbers[OPERATIONS] for sample in samples)
    gaps, again = retries.moved(samples, retries.GAPS), retries.moved(samples, retries.RETRIES)
    if (gaps is None and again is None) or operations < 1:
        what = (
            f"loss was not measured: {TIER}, and there is no counter of gaps or retransmissions at the source"
        )
        step = "use NICs or drivers that count retransmissions, or a policy without limits.loss"
        return Finding(NAME, str(pair), Outcome.UNKNOWN, what, next_step=step)
    # A gap is sent again as well, and some drivers count it in both: the larger is the most there were.
    least = min(sum((gaps or {}).values()), operations)
    most = min(max(least, sum((again or {}).values())), operations)
    confidence = limit.confidence if limit else CONFIDENCE
    bound = upper_bound(most, operations, confidence)
    moved = retries.say({**(gaps or {}), **(again or {})}) or "none moved"
    said = f"{least} gaps in {operations} packets {TIER}: {moved}"
    outcome, reason, step = _weigh(pair, (least, most, operations), bound, limit)
    return Finding(
        check=NAME,
        subject=str(pair),
        outcome=outcome,
        what=f"{said}; {reason}",
        measured=f"{least} of {operations} (< {bound:.2g} at {confidence * 100:g} %)",
        limit="" if limit is None else f"rate <= {limit.max_rate:g}, bound <= {limit.bound_rate:g}",
        samples=operations,
        next_step=step,
    )


def _weigh(
    pair: PairId, counts: tuple[int, int, int], bound: float, limit: LossLimit | None
) -> tuple[Outcome, str, str]:
    """Return the outcome, the numbers behind it, and what to do."""
    least, most, operations = counts
    if limit is None:
        return Outcome.PASS, f"events < {bound:.2g} at {CONFIDENCE * 100:g} %; the policy has no limit", ""
    proved = f"events < {bound:.2g} at {limit.confidence * 100:g} %"
    if least > limit.max_rate * operations:
        low, high = interval(least, operations)
        step = f'"fabricctl explain {pair.source}:{pair.target}" names the suspect: cable, optics, PFC, queue'
        return Outcome.FAIL, f"rate {low:.2g} .. {high:.2g} of events at 95 %, limit {limit.max_rate:g}", step
    again = f'"fabricctl verify --pairs {pair.source}:{pair.target}"'
    if most > limit.max_rate * operations:
        reason = f"{most} retransmissions may hide losses at the end of a train, or hosts that stood still"
        return Outcome.UNKNOWN, reason, again
    if bound > limit.bound_rate:
        needed = trials_for_bound(limit.bound_rate, limit.confidence)
        reason = f"{proved}, too few packets to show {limit.bound_rate:g} ({needed} without an event would)"
        return Outcome.UNKNOWN, reason, "raise the policy's limits.loss.bound_rate"
    return Outcome.PASS, f"{proved}, bound {limit.bound_rate:g}", ""
