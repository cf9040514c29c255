"""The probe ``loss``: what it measures is said in ``spec.py``."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.model.policy import LossLimit, Policy
from fabricctl.model.stats import trials_for_bound
from fabricctl.probes.loss import judge as _judge
from fabricctl.probes.loss import spec

WITHOUT_LIMIT = LossLimit(max_rate=0.0, bound_rate=1e-3, confidence=0.95)
"""What sizes the probe when it is asked for and the policy limits no loss."""


class Loss:
    """The controller's half."""

    name: str = spec.NAME
    measures: str = spec.MEASURES
    fills_link: bool = False
    on_request: bool = False
    judge = staticmethod(_judge.judge)
    passes = staticmethod(_judge.passes)

    def parameters(self, policy: Policy) -> Mapping[str, int | float | str]:
        """Return as many packets as must arrive without a loss to prove the policy's bound."""
        limit = policy.limits.loss or WITHOUT_LIMIT
        packets, paths = trials_for_bound(limit.bound_rate, limit.confidence), policy.limits.loss_queue_pairs
        ends_early = limit.max_rate == 0
        return {
            "packets": packets,
            "queue_pairs": paths,
            spec.ENDS_EARLY: int(ends_early),
            "deadline_s": spec.deadline_s(packets, paths, ends_early=ends_early),
        }


PLUGIN = Loss()
