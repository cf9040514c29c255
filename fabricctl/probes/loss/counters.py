"""Judge loss by the NICs' counters, where a NIC has no unreliable connections.

Full-size WRITEs on reliable connections are each one packet. A counter of gaps moves about once for a burst
of losses that other packets follow, at the source, at the target or at both; a timeout moves where the last
packets, or the answers, were lost, or where a host stood still. So there were at most as many events as gaps
(by the end that counted more) and retransmissions together; drivers that count one event as both make that
too many, never too few.

Passes
    There were at most as many events as the policy tolerates, and the bound of their rate holds.
Fails
    Nothing: counters are the port's, so other connections' packets may be meant, and a packet that was
    overtaken counts like a lost one. A connection that breaks fails in ``judge.py``.
Unknown
    More events were counted than tolerated, the source has no counter of gaps, or the packets were too few.
    Retransmissions alone are no evidence: of irdma's (``RetransSegs``) nobody has verified that they count
    RoCE's packets at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabricctl.model.names import PairId
from fabricctl.model.policy import LossLimit
from fabricctl.model.probe import Sample
from fabricctl.model.stats import CONFIDENCE, trials_for_bound, upper_bound
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import retries
from fabricctl.probes.loss.spec import NAME

OPERATIONS = "operations"
"""The number that a sample from reliable connections has, and no other."""
TIER = "by NIC counters (no UC on this NIC)"


def judge(pair: PairId, samples: Sequence[Sample], limit: LossLimit | None) -> Finding:
    """Return the finding on events of loss from `pair`'s source to its target."""
    operations = sum(sample.numbers[OPERATIONS] for sample in samples)
    again = retries.moved(samples, retries.RETRIES)
    if retries.moved(samples, retries.GAPS) is None or operations < 1:
        return _unmeasured(pair, operations, again)
    gaps = min(retries.gap_count(samples), operations)
    most = min(gaps + sum((again or {}).values()), operations)
    confidence = limit.confidence if limit else CONFIDENCE
    bound = upper_bound(most, operations, confidence)
    sent_again = f"{retries.say(again)} at the source" if again else ""
    moved = ", ".join(filter(None, (retries.gaps(samples), sent_again))) or "none moved"
    said = f"{gaps} gaps in {operations} packets {TIER}: {moved}"
    outcome, reason, step = _weigh(pair, (gaps, most, operations), bound, limit)
    return Finding(
        check=NAME,
        subject=str(pair),
        outcome=outcome,
        what=f"{said}; {reason}",
        measured=f"{gaps} of {operations} (< {bound:.2g} at {confidence * 100:g} %)",
        limit="" if limit is None else f"rate <= {limit.max_rate:g}, bound <= {limit.bound_rate:g}",
        samples=operations,
        next_step=step,
    )


def _unmeasured(pair: PairId, operations: int, again: Mapping[str, int] | None) -> Finding:
    if operations < 1:
        why, step = "no packet was answered", "verify this pair again"
    else:
        why = "there is no counter of gaps at the source"
        if again is not None:
            why += "; of its counters of retransmissions nobody has verified that they count these packets"
        step = "use NICs or drivers that count sequence errors, or a policy without limits.loss"
    what = f"loss was not measured: {TIER}, and {why}"
    return Finding(NAME, str(pair), Outcome.UNKNOWN, what, next_step=step)


def _weigh(
    pair: PairId, counts: tuple[int, int, int], bound: float, limit: LossLimit | None
) -> tuple[Outcome, str, str]:
    """Return the outcome, the numbers behind it, and what to do."""
    gaps, most, operations = counts
    if limit is None:
        return Outcome.PASS, f"events < {bound:.2g} at {CONFIDENCE * 100:g} %; the policy has no limit", ""
    proved = f"events < {bound:.2g} at {limit.confidence * 100:g} %"
    again = f'"fabricctl verify --pairs {pair.source}:{pair.target}"'
    if gaps > limit.max_rate * operations:
        reason = (
            "packets of these ports were lost, or overtaken, but the counters do not tell this probe's from"
            f" other traffic's, limit {limit.max_rate:g}"
        )
        step = f'stop other traffic on both ports, then {again}; if gaps stay, "fabricctl links"'
        return Outcome.UNKNOWN, reason, step
    if most > limit.max_rate * operations:
        reason = (
            f"{most - gaps} retransmissions may hide losses at the end of a train, or hosts that stood still"
        )
        return Outcome.UNKNOWN, reason, again
    if bound > limit.bound_rate:
        needed = trials_for_bound(limit.bound_rate, limit.confidence)
        reason = f"{proved}, too few packets to show {limit.bound_rate:g} ({needed} without an event would)"
        return Outcome.UNKNOWN, reason, "raise the policy's limits.loss.bound_rate"
    return Outcome.PASS, f"{proved}, bound {limit.bound_rate:g}", ""
