"""The probe ``read_latency``: what it measures is said in ``spec.py``."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.model.policy import Policy
from fabricctl.probes.read_latency import judge as _judge
from fabricctl.probes.read_latency import spec


class ReadLatency:
    """The controller's half."""

    name: str = spec.NAME
    measures: str = spec.MEASURES
    judge = staticmethod(_judge.judge)

    def parameters(self, policy: Policy) -> Mapping[str, int | float | str]:
        """Return the number of samples, the warm-up, the message size and the time allowed."""
        limits = policy.limits
        return {
            "samples": limits.latency_samples,
            "warmup": limits.warmup,
            "message_bytes": limits.message_bytes,
            "deadline_s": spec.deadline_s(limits.latency_samples, limits.warmup),
        }


PLUGIN = ReadLatency()
