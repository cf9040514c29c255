"""Judge the loss of sequence-stamped packets on unreliable connections.

Passes
    All packets were counted, no more were lost than the policy tolerates, and the exact upper bound of the
    loss rate does not exceed ``bound_rate``.
Fails
    More were lost than ``max_rate`` (a single one if that is 0), or the far end gave no answer, at once
    or from some packet on. A packet that arrived in part counts as lost.
Unknown
    A count is missing, the packets were too few for the bound, or there was an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabricctl.model.names import PairId
from fabricctl.model.policy import Limits, LossLimit
from fabricctl.model.probe import Sample
from fabricctl.model.stats import interval, trials_for_bound, upper_bound
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import judging, retries

PROBE = "loss"
SENT = "sent"
MISSING = "missing"
CORRUPT = "corrupt"
STOPPED = "stopped"


def judge(pair: PairId, topology: str, samples: Sequence[Sample], limits: Limits) -> tuple[Finding, ...]:  # noqa: ARG001  loss has one limit for all topologies
    """Return the findings on loss from `pair`'s source to its target."""
    found = judging.errors(PROBE, pair, samples)
    good = [sample for sample in samples if not sample.error]
    if not good:
        return found
    counts = [_counts(sample.numbers) for sample in good]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return (*found, _uncounted(pair))
    found = (*found, *_broken(pair, good))
    sent, missing = sum(c[0] for c in known), sum(c[1] for c in known)
    note = _torn(good) + _by_path(good, missing) + retries.remark(good)
    if limits.loss is None:
        return (*found, _without_limit(pair, sent, missing, note))
    return (*found, _judge(pair, (sent, missing), limits.loss, note))


def _counts(numbers: Mapping[str, int]) -> tuple[int, int] | None:
    """Return how many were sent and are missing or torn; None unless both were counted and make sense."""
    sent, missing = numbers.get(SENT), numbers.get(MISSING)
    if sent is None or missing is None:
        return None
    lost = missing + numbers.get(CORRUPT, 0)  # a probe that does not look for torn packets has no such count
    return (sent, lost) if 0 <= missing <= lost <= sent else None


def _broken(pair: PairId, samples: Sequence[Sample]) -> tuple[Finding, ...]:
    """Return a finding for each sample whose reliable connection broke on the way."""
    return tuple(
        Finding(
            check=PROBE,
            subject=str(pair),
            outcome=Outcome.FAIL,
            what=f"the connection of the loss probe broke {sample.parameters[STOPPED]}",
            measured="no answer",
            next_step='"rdma link" and "ip -s link" on both, then '
            f'"fabricctl verify --pairs {pair.source}:{pair.target}"',
        )
        for sample in samples
        if STOPPED in sample.parameters
    )


def _torn(samples: Sequence[Sample]) -> str:
    torn = sum(sample.numbers.get(CORRUPT, 0) for sample in samples)
    return f" ({torn} of them arrived in part)" if torn else ""


def _uncounted(pair: PairId) -> Finding:
    return Finding(
        check=PROBE,
        subject=str(pair),
        outcome=Outcome.UNKNOWN,
        what="loss not measured: the agents did not count what was sent and what is missing",
        next_step=f'"fabricctl verify --pairs {pair.source}:{pair.target}"',
    )


def _judge(pair: PairId, counts: tuple[int, int], limit: LossLimit, note: str) -> Finding:
    sent, missing = counts
    sure = f"{limit.confidence * 100:g} %"
    outcome, reason, step = _weigh(pair, sent, missing, limit)
    return Finding(
        check=PROBE,
        subject=str(pair),
        outcome=outcome,
        what=f"{missing} of {sent} packets lost{note}; {reason}",
        measured=f"{missing} of {sent} (< {upper_bound(missing, sent, limit.confidence):.2g} at {sure})",
        limit=f"rate <= {limit.max_rate:g}, bound <= {limit.bound_rate:g} at {sure}",
        samples=sent,
        next_step=step,
    )


def _weigh(pair: PairId, sent: int, missing: int, limit: LossLimit) -> tuple[Outcome, str, str]:
    """Return the outcome, the numbers behind it, and what to do."""
    bound = upper_bound(missing, sent, limit.confidence)
    proved = f"loss < {bound:.2g} at {limit.confidence * 100:g} %"
    if sent == 0:
        return Outcome.UNKNOWN, "nothing was sent", "verify this pair again"
    if missing > limit.max_rate * sent:
        low, high = interval(missing, sent)
        if missing == sent:
            step = 'if small messages pass, it is an MTU on the way: "fabricctl plan" shows it'
            return Outcome.FAIL, "not one full-size packet arrived", step
        step = f'"fabricctl explain {pair.source}:{pair.target}" names the suspect: cable, optics, PFC, queue'
        return Outcome.FAIL, f"rate {low:.2g} .. {high:.2g} at 95 %, limit {limit.max_rate:g}", step
    if bound > limit.bound_rate:
        needed = trials_for_bound(limit.bound_rate, limit.confidence)
        reason = f"{proved}, too few packets to show {limit.bound_rate:g} ({needed} without a loss would)"
        return (
            Outcome.UNKNOWN,
            reason,
            "give the probe more time, or raise the policy's limits.loss.bound_rate",
        )
    return Outcome.PASS, f"{proved}, bound {limit.bound_rate:g}", ""


def _without_limit(pair: PairId, sent: int, missing: int, note: str) -> Finding:
    return Finding(
        check=PROBE,
        subject=str(pair),
        outcome=Outcome.PASS if sent else Outcome.UNKNOWN,
        what=f"{missing} of {sent} packets lost{note}, loss < {upper_bound(missing, sent):.2g} at 95 %;"
        " the policy has no limit",
        measured=f"{missing} of {sent} (< {upper_bound(missing, sent):.2g} at 95 %)",
        samples=sent,
        next_step="" if sent else "verify this pair again: no packet was sent",
    )


def _by_path(samples: Sequence[Sample], missing: int) -> str:
    """Say on how many of the queue pairs packets are missing: on one of several, one path is bad."""
    paths = [_counts(numbers) for sample in samples for numbers in sample.numbers_by_path]
    lossy = [count for count in paths if count is not None and count[1]]
    if not missing or len(paths) < 2:  # noqa: PLR2004  one queue pair cannot be told from another
        return ""
    return f" on {len(lossy)} of {len(paths)} queue pairs"
