"""What the probes' judges share: errors, and the judgement of latencies against percentile limits.

A latency passes if its percentile, by nearest rank, does not exceed the limit, and if there were enough
samples to know that percentile and as many as the policy asks for. It fails if the percentile exceeds the
limit, or if even the lower end of its interval does, however few samples there were. All else is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabricctl.model.names import PairId
from fabricctl.model.policy import LatencyLimit, Limits
from fabricctl.model.probe import Sample
from fabricctl.model.stats import Percentile, percentile, samples_for_percentile
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import retries
from fabricctl.plugin.layout import duration

PEER_SAID_NO = "peer"
"""Kind of error that is the fabric's or the far end's own refusal: a failure, not a gap in the evidence."""

ANY = "any"
"""Topology of a limit that holds for all."""


def errors(probe: str, pair: PairId, samples: Sequence[Sample]) -> tuple[Finding, ...]:
    """Return a finding for every sample without a result, and one if there is no sample at all.

    What the far end or the fabric refused is a failure; what could not be measured is unknown.
    """
    if not samples:
        return (
            Finding(
                check=probe,
                subject=str(pair),
                outcome=Outcome.UNKNOWN,
                what=f"{probe} was not measured",
                next_step="see the agents of both nodes in the report, then verify this pair again",
            ),
        )
    return tuple(_error(probe, pair, sample) for sample in samples if sample.error)


def _error(probe: str, pair: PairId, sample: Sample) -> Finding:
    refused = sample.error_kind == PEER_SAID_NO
    return Finding(
        check=probe,
        subject=str(pair),
        outcome=Outcome.FAIL if refused else Outcome.UNKNOWN,
        what=f"{probe} got no answer: {sample.error}" if refused else f"{probe} not measured: {sample.error}",
        measured="no answer" if refused else "",
        next_step='"rdma link" and "ip -s link" on both, then '
        f'"fabricctl verify --pairs {pair.source}:{pair.target}"',
        culprit=sample.error_device,
    )


def latencies(
    probe: str, pair: PairId, topology: str, samples: Sequence[Sample], limits: Limits
) -> tuple[Finding, ...]:
    """Return the findings on a latency probe.

    Parameters
    ----------
    probe
        Its name, as limits name it.
    samples
        All of this probe on this pair; those without an error are judged together.
    """
    found = errors(probe, pair, samples)
    good = [sample for sample in samples if not sample.error]
    if not good:
        return found
    values = [value for sample in good for value in sample.latencies_ns]
    remark = retries.remark(good)
    if not values:
        return (*found, _none(probe, pair))
    applying = [a for a in limits.latency if a.probe == probe and a.topology in {topology, ANY}]
    if not applying:
        return (*found, _without_limit(probe, pair, topology, values, limits.latency_samples, remark))
    return (*found, *(_judge(pair, values, limit, limits.latency_samples, remark) for limit in applying))


def _none(probe: str, pair: PairId) -> Finding:
    return Finding(
        check=probe,
        subject=str(pair),
        outcome=Outcome.UNKNOWN,
        what=f"{probe}: the agent returned no samples",
        next_step=f'"fabricctl verify --pairs {pair.source}:{pair.target}"',
    )


def _judge(pair: PairId, values: Sequence[int], limit: LatencyLimit, wanted: int, remark: str) -> Finding:
    found = percentile(values, limit.percentile)
    needed = max(wanted, samples_for_percentile(limit.percentile))
    if found.low is not None and found.low > limit.max_ns:
        outcome = Outcome.FAIL  # surely above, however few they are
    elif found.samples < needed:
        outcome = Outcome.UNKNOWN
    else:
        outcome = Outcome.FAIL if found.value > limit.max_ns else Outcome.PASS
    few = f"; {needed} samples are needed" if outcome is Outcome.UNKNOWN else ""
    bound = f"limit {duration(limit.max_ns)}"
    return Finding(
        check=limit.probe,
        subject=str(pair),
        outcome=outcome,
        what=f"{limit.probe} {_say(found)}, {bound}{few}{remark}",
        measured=_say(found, brief=True),
        limit=f"p{limit.percentile:g} <= {duration(limit.max_ns)}",
        samples=found.samples,
        next_step=_next_step(outcome, pair, limit, needed),
    )


def _next_step(outcome: Outcome, pair: PairId, limit: LatencyLimit, needed: int) -> str:
    if outcome is Outcome.FAIL:
        return (
            f'"fabricctl explain {pair.source}:{pair.target}"; look for congestion, a busy host, power saving'
        )
    if outcome is Outcome.UNKNOWN:
        return f"set limits.latency_samples to {needed} or more, or drop the limit on p{limit.percentile:g}"
    return ""


def _without_limit(
    probe: str, pair: PairId, topology: str, values: Sequence[int], wanted: int, remark: str
) -> Finding:
    enough = len(values) >= wanted
    shown = ", ".join(_say(percentile(values, percent), brief=True) for percent in (50, 99))
    few = "" if enough else f", {wanted} samples were asked for"
    return Finding(
        check=probe,
        subject=str(pair),
        outcome=Outcome.PASS if enough else Outcome.UNKNOWN,
        what=f"{probe} {shown} (n={len(values)}{few}); the policy has no limit for {topology}{remark}",
        measured=_say(percentile(values, 50), brief=True),
        samples=len(values),
        next_step="" if enough else "verify this pair again",
    )


def _say(found: Percentile, *, brief: bool = False) -> str:
    head = f"p{found.percent:g} = {duration(found.value)}"
    if brief:
        return head
    low = "?" if found.low is None else duration(found.low)
    high = "?" if found.high is None else duration(found.high)
    return f"{head} (n={found.samples}, 95 % interval {low} .. {high})"
