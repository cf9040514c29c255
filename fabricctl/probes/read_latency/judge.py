"""Judge RDMA READ round trips against the policy's percentile limits."""

from __future__ import annotations

from collections.abc import Sequence

from fabricctl.model.names import PairId
from fabricctl.model.policy import Limits
from fabricctl.model.probe import Sample
from fabricctl.model.verdict import Finding
from fabricctl.plugin import judging

PROBE = "read_latency"


def judge(pair: PairId, topology: str, samples: Sequence[Sample], limits: Limits) -> tuple[Finding, ...]:
    """Return the findings; ``plugin/judging.py`` says what passes, fails and is unknown."""
    return judging.latencies(PROBE, pair, topology, samples, limits)
