"""Judge the loss of sequence-stamped packets on unreliable connections.

Passes
    All packets were counted, no more were lost than the policy tolerates, and the upper bound of the loss
    rate (exact, or wider where losses came in bursts) does not exceed ``bound_rate``. If none was lost, that
    bound is of events, and the finding says what it is of packets if many are lost together.
Fails
    More were lost than ``max_rate`` (a single one if that is 0), or the far end gave no answer, at once
    or from some packet on. A packet that arrived in part counts as lost; one that came late, out of order or
    twice does not.
Unknown
    A count is missing, the packets were too few for the bound, or there was an error. So is no loss in the
    trains while the NICs counted gaps and the policy tolerates none: the trains are the better evidence of
    these queue pairs' paths, but some connection of the port lost packets, or they were overtaken. Packets
    that the trains saw overtaken explain as many gaps, and no more.

Where a NIC has no unreliable connections the evidence is its counters while the same packets go over
reliable ones (``counters.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from fabricctl.model.names import PairId
from fabricctl.model.policy import Limits, LossLimit
from fabricctl.model.probe import Sample
from fabricctl.model.stats import CONFIDENCE, trials_for_bound, upper_bound
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import judging, retries
from fabricctl.probes.loss import counters
from fabricctl.probes.loss.rate import Counted, strongest
from fabricctl.probes.loss.spec import NAME, TOGETHER

SENT = "sent"
MISSING = "missing"
CORRUPT = "corrupt"
EVENTS = "events"
STOPPED = "stopped"
MOST_NAMED = 8
"""Queue pairs that are named in one finding."""


def judge(pair: PairId, topology: str, samples: Sequence[Sample], limits: Limits) -> tuple[Finding, ...]:  # noqa: ARG001  loss has one limit for all topologies
    """Return the findings on loss from `pair`'s source to its target."""
    found = judging.errors(NAME, pair, samples)
    good = [sample for sample in samples if not sample.error]
    if not good:
        return found
    found = (*found, *_broken(pair, good))
    reliable = [sample for sample in good if counters.OPERATIONS in sample.numbers]
    if reliable:
        found = (*found, counters.judge(pair, reliable, limits.loss))
    counted = [sample for sample in good if sample not in reliable]
    return (*found, _trains(pair, counted, limits.loss)) if counted else found


def passes(topology: str, samples: Sequence[Sample], limits: Limits) -> bool:  # noqa: ARG001  one limit for all topologies
    """Say that a pair passes if its only sample has no loss, no counter moved, and it takes no words."""
    limit = limits.loss
    if limit is None or len(samples) != 1:
        return False
    sample = samples[0]
    numbers, sent = sample.numbers, sample.numbers.get(SENT, 0)
    return (
        sent > 0
        and numbers.get(MISSING) == 0
        and not numbers.get(CORRUPT)
        and counters.OPERATIONS not in numbers
        and STOPPED not in sample.parameters
        and _bound(sent, limit.confidence) <= limit.bound_rate
        and retries.stood_still(sample)
    )


@lru_cache(maxsize=256)
def _bound(sent: int, confidence: float) -> float:
    """Return the upper bound of the rate when nothing was lost."""
    return upper_bound(0, sent, confidence)


def _trains(pair: PairId, samples: Sequence[Sample], limit: LossLimit | None) -> Finding:
    counts = [_counts(sample.numbers) for sample in samples]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return _uncounted(pair)
    effect, batches = strongest([sample.numbers for sample in samples])
    events = [sample.numbers.get(EVENTS) for sample in samples]
    told = None if None in events else sum(event for event in events if event is not None)
    counted = Counted(sum(c[0] for c in known), sum(c[1] for c in known), told, effect, batches)
    said = f"{_lost(counted)}{_torn(samples)}{_by_path(samples, counted.lost)}"
    beside = _beside(samples) + retries.remark(samples)
    if limit is None:
        return _without_limit(pair, counted, said, beside)
    outcome, reason, step = _weigh(pair, counted, limit, _contradiction(samples, limit))
    return Finding(
        check=NAME,
        subject=str(pair),
        outcome=outcome,
        what=f"{said}; {reason}{beside}",
        measured=_measured(counted, limit.confidence),
        limit=f"rate <= {limit.max_rate:g}, bound <= {limit.bound_rate:g} at {_percent(limit.confidence)}",
        samples=counted.sent,
        next_step=step,
    )


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
            check=NAME,
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


def _uncounted(pair: PairId) -> Finding:
    return Finding(
        check=NAME,
        subject=str(pair),
        outcome=Outcome.UNKNOWN,
        what="loss not measured: the agents did not count what was sent and what is missing",
        next_step=f'"fabricctl verify --pairs {pair.source}:{pair.target}"',
    )


def _weigh(pair: PairId, counted: Counted, limit: LossLimit, contradiction: str) -> tuple[Outcome, str, str]:
    """Return the outcome, the numbers behind it, and what to do."""
    bound = counted.upper_bound(limit.confidence)
    proved = _proved(counted, limit.confidence)
    if counted.sent == 0:
        return Outcome.UNKNOWN, "nothing was sent", "verify this pair again"
    if counted.lost > limit.max_rate * counted.sent:
        if counted.lost == counted.sent:
            step = 'if small messages pass, it is an MTU on the way: "fabricctl plan" shows it'
            return Outcome.FAIL, "not one full-size packet arrived", step
        step = f'"fabricctl explain {pair.source}:{pair.target}" names the suspect: cable, optics, PFC, queue'
        return Outcome.FAIL, f"{_rate(counted)}, limit {limit.max_rate:g}", step
    if bound > limit.bound_rate:
        needed = trials_for_bound(limit.bound_rate, limit.confidence)
        reason = f"{proved}, too few packets to show {limit.bound_rate:g} ({needed} without a loss would)"
        return (
            Outcome.UNKNOWN,
            reason,
            "give the probe more time, or raise the policy's limits.loss.bound_rate",
        )
    if contradiction:
        step = (
            f'stop other traffic on both ports, then "fabricctl verify --pairs {pair.source}:{pair.target}"'
        )
        return Outcome.UNKNOWN, f"{proved}, but {contradiction}", step
    return Outcome.PASS, f"{proved}, bound {limit.bound_rate:g}", ""


def _contradiction(samples: Sequence[Sample], limit: LossLimit) -> str:
    """Return what the NICs counted that the trains did not see, where that matters; else nothing.

    A policy that tolerates some loss is met by the trains' own bound. A packet that was overtaken in a
    sample's own trains explains one of the gaps counted meanwhile; a late one that kept its order none.
    """
    if limit.max_rate > 0:
        return ""
    open_ = [s for s in samples if retries.gap_count([s]) > s.numbers.get("reordered", 0)]
    counted = retries.gaps(open_)
    if not counted:
        return ""
    seen = sum(sample.numbers.get("reordered", 0) for sample in open_)
    counted = f"({counted})" + (
        f", more than the {seen} packets that the trains saw overtaken" if seen else ""
    )
    return f"the NICs counted gaps meanwhile {counted}: other packets of the port were lost, or overtaken"


def _without_limit(pair: PairId, counted: Counted, said: str, beside: str) -> Finding:
    return Finding(
        check=NAME,
        subject=str(pair),
        outcome=Outcome.PASS if counted.sent else Outcome.UNKNOWN,
        what=f"{said}, {_proved(counted, CONFIDENCE)}; the policy has no limit{beside}",
        measured=_measured(counted, CONFIDENCE),
        samples=counted.sent,
        next_step="" if counted.sent else "verify this pair again: no packet was sent",
    )


def _lost(counted: Counted) -> str:
    in_events = ""
    if counted.lost and counted.events:
        in_events = f" in {counted.events} event{'s' if counted.events > 1 else ''}"
    return f"{counted.lost} of {counted.sent} packets lost{in_events}"


def _torn(samples: Sequence[Sample]) -> str:
    torn = sum(sample.numbers.get(CORRUPT, 0) for sample in samples)
    return f" ({torn} of them arrived in part)" if torn else ""


def _by_path(samples: Sequence[Sample], lost: int) -> str:
    """Say which of the queue pairs lose packets: one of several, and one path is bad."""
    paths = [_counts(numbers) for sample in samples for numbers in sample.numbers_by_path]
    lossy = [number for number, count in enumerate(paths, start=1) if count is not None and count[1]]
    if not lost or len(paths) < 2:  # noqa: PLR2004  one queue pair cannot be told from another
        return ""
    if len(lossy) == len(paths):
        return f"; all {len(paths)} paths lose"
    named = ", ".join(map(str, lossy[:MOST_NAMED])) + (", ..." if len(lossy) > MOST_NAMED else "")
    several = "s" if len(lossy) > 1 else ""
    return f"; {len(lossy)} of {len(paths)} paths lose{'' if several else 's'}: queue pair{several} {named}"


def _beside(samples: Sequence[Sample]) -> str:
    """Say what else happened to packets that were not lost, and what could not be counted."""
    words = {
        "reordered": "came out of order",
        "late": "came after the next train",
        "duplicate": "came twice",
        "unclear": "cannot be told (an older packet lay in their place)",
    }
    totals = {name: sum(sample.numbers.get(name, 0) for sample in samples) for name in words}
    return "".join(f"; {count} {words[name]}" for name, count in totals.items() if count)


def _rate(counted: Counted) -> str:
    low, high = counted.interval()
    wider = ", wider for bursts" if counted.is_bursty else ""
    return f"rate {low:.2g} .. {high:.2g} at {_percent(CONFIDENCE)}{wider}"


def _proved(counted: Counted, confidence: float) -> str:
    """Say what the bound is of: packets, or events where none was seen, and what those may cost."""
    bound = f"loss < {counted.upper_bound(confidence):.2g} at {_percent(confidence)}"
    if counted.lost:
        return bound
    packets = counted.packets_bound(confidence)
    return f"events of {bound} (packets < {packets:.2g}, were {TOGETHER} lost together)"


def _measured(counted: Counted, confidence: float) -> str:
    bound = counted.upper_bound(confidence)
    return f"{counted.lost} of {counted.sent} (< {bound:.2g} at {_percent(confidence)})"


def _percent(confidence: float) -> str:
    return f"{confidence * 100:g} %"
