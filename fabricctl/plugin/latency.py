"""A latency probe: everything of its controller's half but its name and what it measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabricctl.model.names import PairId
from fabricctl.model.policy import Limits, Policy
from fabricctl.model.probe import Sample
from fabricctl.model.verdict import Finding
from fabricctl.plugin import beyond, judging, retries

STARTUP_S = 10.0
"""Seconds that a probe may take before its first operation."""


@dataclass(frozen=True, slots=True)
class LatencyProbe:
    """A probe that times one operation after the other.

    Parameters
    ----------
    slowest_s
        Seconds that an operation may take on average before the probe is given up.
    on_request
        Whether it runs only where it is named or limited.
    """

    name: str
    measures: str
    slowest_s: float
    fills_link: bool = False
    on_request: bool = False

    def parameters(self, policy: Policy) -> Mapping[str, int | float | str]:
        """Return the number of samples, the warm-up, the message size and the time allowed."""
        limits = policy.limits
        return {
            "samples": limits.latency_samples,
            "warmup": limits.warmup,
            "message_bytes": limits.message_bytes,
            "deadline_s": STARTUP_S + self.slowest_s * (limits.latency_samples + limits.warmup),
        }

    def judge(
        self, pair: PairId, topology: str, samples: Sequence[Sample], limits: Limits
    ) -> tuple[Finding, ...]:
        """Return the findings; ``judging.py`` and ``beyond.py`` say what passes, fails and is unknown."""
        found = judging.latencies(self.name, pair, topology, samples, limits)
        return (*found, *beyond.holes(self.name, pair, samples))

    def passes(self, topology: str, samples: Sequence[Sample], limits: Limits) -> bool:
        """Say that a pair passes if its only sample needs no words for that."""
        if len(samples) != 1 or beyond.has_hole(samples[0]) or not retries.stood_still(samples[0]):
            return False
        return judging.is_below(self.name, topology, samples[0].latencies, limits)
