"""A bandwidth probe's controller's half, and the judgement of its goodput.

Goodput is payload over time, in Gbit/s (10^9 bits): one number for T seconds and M messages, from the first
post to the last completion; there is no distribution in it, so no percentile and no confidence interval. Of
several samples the slowest counts.

Passes
    The stream lasted at least half the time asked for, a message was longer than the path MTU, and the
    goodput is at least every limit that applies: ``min_gbps`` as it is, ``min_share`` as a share of the line
    rate. Without a limit that applies it passes with the same evidence, and says that nothing was limited.
Fails
    The goodput is less than a limit, a long message was not answered while short ones were (``beyond.py``),
    or the far end gave no answer.
Unknown
    A count is missing, nothing was carried, the stream was shorter, or no message was longer than the path
    MTU. A share is also unknown where the line rate is not known, or where the goodput is more than it: then
    the inventory's speed is not the port's. Of a probe in both directions at once: the other direction
    carried nothing, or is not told. Gaps that a NIC counted meanwhile are a finding of their own where the
    policy tolerates no loss (``retries.py``).

What can be reached at best (``goodput.py``) is said where a share is more than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabricctl.model.fabric import LinkLayer
from fabricctl.model.names import PairId
from fabricctl.model.policy import BandwidthLimit, Limits, Policy
from fabricctl.model.probe import Sample
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import beyond, judging, retries
from fabricctl.plugin.goodput import Operation, goodput_share

BYTES, MESSAGES, ELAPSED = "bytes", "messages", "elapsed_ns"
LARGEST = "largest_message_bytes"
REVERSE = "reverse_"
"""In front of the same names: what came from the target meanwhile."""
LINE_RATE = "line_rate_gbps"
PATH_MTU = "path_mtu_bytes"
STARTUP_S = 20.0
"""Seconds that a probe may take besides its stream: short and long messages, a warm-up, a slow link."""
SLOWEST_BYTES_S = 1e6
"""What is under way at the end may come this slowly, in bytes a second, before the probe is given up."""


@dataclass(frozen=True, slots=True)
class BandwidthProbe:
    """A probe that keeps a link busy for a while.

    Parameters
    ----------
    operation
        What moves the payload.
    on_request
        Whether it runs only where it is named or limited.
    both
        Whether the target streams at the same time.
    """

    name: str
    measures: str
    operation: Operation
    on_request: bool = False
    both: bool = False

    @property
    def fills_link(self) -> bool:
        """It does."""
        return True

    def parameters(self, policy: Policy) -> Mapping[str, int | float | str]:
        """Return the queue pairs, sizes, depth and seconds of the stream, and the time allowed."""
        limits = policy.limits
        under_way = limits.bandwidth_depth * limits.bandwidth_queue_pairs * max(limits.bandwidth_sizes)
        return {
            "seconds": limits.bandwidth_seconds,
            "queue_pairs": limits.bandwidth_queue_pairs,
            "sizes": ",".join(map(str, limits.bandwidth_sizes)),
            "depth": limits.bandwidth_depth,
            "deadline_s": STARTUP_S + 4 * limits.bandwidth_seconds + under_way / SLOWEST_BYTES_S,
        }

    def judge(
        self, pair: PairId, topology: str, samples: Sequence[Sample], limits: Limits
    ) -> tuple[Finding, ...]:
        """Return the findings; the module says what passes, fails and is unknown."""
        found = (*judging.errors(self.name, pair, samples), *beyond.holes(self.name, pair, samples))
        good = [sample for sample in samples if not sample.error and not beyond.has_hole(sample)]
        if not good:
            return found
        found += retries.findings_of_stream(self.name, pair, good, limits.loss, both_ways=self.both)
        doubts = [why for sample in good if (why := self._doubt(sample, limits))]
        if doubts:
            return (*found, self._unknown(pair, doubts[0]))
        slowest = min(good, key=_gbps)
        applying = [
            limit
            for limit in limits.bandwidth
            if limit.probe == self.name and limit.topology in {topology, judging.ANY}
        ]
        said = self._say(slowest, good)
        if not applying:
            what = f"{said}; the policy has no limit for {topology}"
            return (*found, self._finding(pair, slowest, Outcome.PASS, what))
        return (*found, *(self._weigh(pair, slowest, said, limit) for limit in applying))

    def _doubt(self, sample: Sample, limits: Limits) -> str:
        """Return why a sample says nothing of the goodput, empty if it does."""
        flows = ("", REVERSE) if self.both else ("",)
        if self.both and beyond.has_hole(sample, REVERSE):
            return "in the other direction, long messages got no answer, so nothing was streamed"
        numbers, mtu = sample.numbers, sample.parameters.get(PATH_MTU)
        for flow in flows:
            which = "in the other direction, " if flow else ""
            for name in (BYTES, MESSAGES, ELAPSED, LARGEST):
                if flow + name not in numbers:
                    return f"{which}the agents did not count {name.replace('_', ' ')}"
                if numbers[flow + name] <= 0:
                    return f"{which}nothing was carried ({name.replace('_', ' ')}: {numbers[flow + name]})"
            seconds = numbers[flow + ELAPSED] / 1e9
            if seconds < limits.bandwidth_seconds / 2:
                asked = f"{limits.bandwidth_seconds:g} s were asked for"
                return f"{which}the stream lasted only {seconds:.3g} s, {asked}"
            if not isinstance(mtu, int) or numbers[flow + LARGEST] <= mtu:
                return f"{which}no message was longer than the path MTU ({mtu or 'not told'})"
        return ""

    def _unknown(self, pair: PairId, why: str) -> Finding:
        return Finding(
            check=self.name,
            subject=str(pair),
            outcome=Outcome.UNKNOWN,
            what=f"{self.name} not measured: {why}",
            next_step=f'"fabricctl verify --pairs {pair.source}:{pair.target} --probes {self.name}"',
        )

    def _say(self, sample: Sample, good: Sequence[Sample]) -> str:
        numbers = sample.numbers
        text = (
            f"{self.name} {_gbps(sample):.4g} Gbit/s of payload over {numbers[ELAPSED] / 1e9:.3g} s in"
            f" {numbers[MESSAGES]} messages on {sample.parameters.get('queue_pairs', '?')} queue pairs"
        )
        if self.both:
            text += f" ({_gbps(sample, REVERSE):.4g} Gbit/s the other way meanwhile)"
        slowest = f", the slowest of {len(good)} samples" if len(good) > 1 else ""
        return text + slowest + retries.remark(good)

    def _finding(
        self, pair: PairId, sample: Sample, outcome: Outcome, what: str, *, limit: str = "", step: str = ""
    ) -> Finding:
        return Finding(
            check=self.name,
            subject=str(pair),
            outcome=outcome,
            what=what,
            measured=f"{_gbps(sample):.4g} Gbit/s",
            limit=limit,
            samples=sample.numbers[MESSAGES],
            next_step=step,
        )

    def _weigh(self, pair: PairId, sample: Sample, said: str, limit: BandwidthLimit) -> Finding:
        """Return one finding for a limit's two parts; the worse of them decides."""
        parts = []
        if limit.min_gbps is not None:
            enough = _gbps(sample) >= limit.min_gbps
            parts.append(
                (Outcome.PASS if enough else Outcome.FAIL, f"at least {limit.min_gbps:g} Gbit/s", "")
            )
        if limit.min_share is not None:
            parts.append(self._share(sample, limit.min_share))
        outcome = max((part[0] for part in parts), key=_weight)
        wanted = " and ".join(part[1] for part in parts)
        notes = "".join(f"; {part[2]}" for part in parts if part[2])
        return self._finding(
            pair,
            sample,
            outcome,
            f"{said}, limit {wanted}{notes}",
            limit=wanted,
            step=_step(outcome, pair),
        )

    def _share(self, sample: Sample, least: float) -> tuple[Outcome, str, str]:
        """Return the outcome of a share, what it asks for, and what is to be said besides."""
        wanted, rate = f"{least:g} of the line rate", sample.parameters.get(LINE_RATE, 0)
        if not isinstance(rate, int | float) or rate <= 0:
            return Outcome.UNKNOWN, wanted, "the line rate is not known: give both ports speed_gbps"
        wanted, share = f"{wanted} ({rate:g} Gbit/s)", _gbps(sample) / rate
        if share > 1:
            note = f"that is {share:.3f} of the line rate: the ports' speed_gbps is not their speed"
            return Outcome.UNKNOWN, wanted, note
        best = self._best(sample)
        note = f"that is {share:.3f}"
        if best is not None and least > best:
            note += f"; at this path MTU and with these sizes no more than {best:.3f} can be payload"
        return Outcome.PASS if share >= least else Outcome.FAIL, wanted, note

    def _best(self, sample: Sample) -> float | None:
        """Return the largest share that the sample's own path MTU and sizes allow, None if it lacks them."""
        mtu, sizes = sample.parameters.get(PATH_MTU), sample.parameters.get("sizes")
        if not isinstance(mtu, int) or not isinstance(sizes, str):
            return None
        # A GID is what RoCE has; on InfiniBand the LID is the address.
        layer = LinkLayer.ETHERNET if sample.parameters.get("source_gid") else LinkLayer.INFINIBAND
        return goodput_share([int(size) for size in sizes.split(",")], mtu, layer, self.operation)


def _gbps(sample: Sample, flow: str = "") -> float:
    """Return payload over time: bits a nanosecond are Gbit/s."""
    return sample.numbers[flow + BYTES] * 8 / sample.numbers[flow + ELAPSED]


def _weight(outcome: Outcome) -> int:
    return [Outcome.PASS, Outcome.UNKNOWN, Outcome.FAIL].index(outcome)


def _step(outcome: Outcome, pair: PairId) -> str:
    if outcome is Outcome.FAIL:
        return (
            f'"fabricctl explain {pair.source}:{pair.target}" and "fabricctl links"; look for a link that'
            " came up slower or narrower, PCIe lanes, pauses, other traffic"
        )
    if outcome is Outcome.UNKNOWN:
        return "correct speed_gbps of both ports in the inventory, or limit min_gbps instead"
    return ""
