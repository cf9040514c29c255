"""What the probes' judges share: errors, and the judgement of latencies against percentile limits.

A latency passes if its percentile, by nearest rank, does not exceed the limit, and if there were enough
samples to know that percentile and as many as the policy asks for. It fails if the percentile exceeds the
limit, or if even the lower end of its interval does, however few samples there were. All else is unknown.
A value and a limit are compared as a histogram tells values apart, which is to 0.1 %. Beside its own
percentile every finding shows the whole distribution; a percentile that the samples do not bound on both
sides at 95 % is "too few" there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabricctl.model.histogram import Histogram, highest_equivalent
from fabricctl.model.names import PairId
from fabricctl.model.policy import LatencyLimit, Limits
from fabricctl.model.probe import Sample
from fabricctl.model.stats import DISTRIBUTION, Percentile, percentiles, samples_for_percentile
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import retries
from fabricctl.plugin.layout import distribution, duration

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
    latencies = Histogram().merge(*(sample.latencies for sample in good))
    if not latencies:
        return (*found, _none(probe, pair))
    applying = [a for a in limits.latency if a.probe == probe and a.topology in {topology, ANY}]
    asked = dict.fromkeys((*DISTRIBUTION, *(limit.percentile for limit in applying)))
    held = percentiles(latencies, tuple(asked))
    shown = held[: len(DISTRIBUTION)]
    whole = _Whole(
        distribution(latencies, shown),
        limits.latency_samples,
        retries.remark(good) + retries.steps(latencies),
    )
    found += retries.findings(probe, pair, good, limits.loss)
    if not applying:
        return (*found, _without_limit(probe, pair, topology, shown[0], whole))
    own = dict(zip(asked, held, strict=True))
    return (*found, *(_judge(pair, own[limit.percentile], limit, whole) for limit in applying))


def is_below(probe: str, topology: str, held: Histogram, limits: Limits) -> bool:
    """Say whether latencies pass all limits that apply, as `latencies` judges them; no words are made."""
    count, wanted = held.samples, limits.latency_samples
    highest = held.maximum
    if highest is None or count < wanted:
        return False
    for limit in limits.latency:
        if limit.probe != probe or limit.topology not in {topology, ANY}:
            continue
        if count < samples_for_percentile(limit.percentile):
            return False
        most = highest_equivalent(limit.max_ns)
        if highest > most and percentiles(held, (limit.percentile,))[0].value > most:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Whole:
    """What all findings on a pair's latencies share.

    Parameters
    ----------
    shown
        The distribution in words.
    wanted
        How many samples the policy asks for.
    remark
        What the NIC's counters say, led by "; "; or nothing.
    """

    shown: str
    wanted: int
    remark: str


def _none(probe: str, pair: PairId) -> Finding:
    return Finding(
        check=probe,
        subject=str(pair),
        outcome=Outcome.UNKNOWN,
        what=f"{probe}: the agent returned no samples",
        next_step=f'"fabricctl verify --pairs {pair.source}:{pair.target}"',
    )


def _judge(pair: PairId, found: Percentile, limit: LatencyLimit, whole: _Whole) -> Finding:
    needed = max(whole.wanted, samples_for_percentile(limit.percentile))
    most = highest_equivalent(limit.max_ns)
    if found.low is not None and found.low > most:
        outcome = Outcome.FAIL  # surely above, however few they are
    elif found.samples < needed:
        outcome = Outcome.UNKNOWN
    else:
        outcome = Outcome.FAIL if found.value > most else Outcome.PASS
    few = f"; {needed} samples are needed" if outcome is Outcome.UNKNOWN else ""
    bound = f"limit {duration(limit.max_ns)}{few}"
    return Finding(
        check=limit.probe,
        subject=str(pair),
        outcome=outcome,
        what=f"{limit.probe} {_say(found)}, {bound}; {whole.shown}{whole.remark}",
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


def _without_limit(probe: str, pair: PairId, topology: str, median: Percentile, whole: _Whole) -> Finding:
    enough = median.samples >= whole.wanted
    few = "" if enough else f", {whole.wanted} samples were asked for"
    counted = f"(n={median.samples}{few})"
    return Finding(
        check=probe,
        subject=str(pair),
        outcome=Outcome.PASS if enough else Outcome.UNKNOWN,
        what=f"{probe} {whole.shown} {counted}; the policy has no limit for {topology}{whole.remark}",
        measured=_say(median, brief=True),
        samples=median.samples,
        next_step="" if enough else "verify this pair again",
    )


def _say(found: Percentile, *, brief: bool = False) -> str:
    head = f"p{found.percent:g} = {duration(found.value)}"
    if brief:
        return head
    low = "?" if found.low is None else duration(found.low)
    high = "?" if found.high is None else duration(found.high)
    return f"{head} (n={found.samples}, 95 % interval {low} .. {high})"
