"""What earlier runs left on record of the pairs and ports that are to be verified now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fabricctl.model.certificate import Certificate
from fabricctl.model.names import PortId
from fabricctl.model.verdict import Outcome


class Result(NamedTuple):
    """When a couple of ports was last verified (Unix time in seconds), and the worst of both directions."""

    at: float
    outcome: Outcome


Results = Mapping[PortId, Mapping[PortId, Result]]
"""The last result of each couple of ports: by the lesser port, then by the other one."""


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of earlier runs.

    Parameters
    ----------
    now
        Unix time in seconds.
    max_age_s
        How long a certificate lives (``gate.max_age_s`` of the policy), in seconds.
    results
        The last result of each couple (``Store.last_verdicts``); one that is not in it was never tested.
    certificates
        The newest certificate of each port, valid or not.
    fingerprints
        By port: what a certificate of it would be bound to now (``verify/certify.py``). A port that is not
        in it was not read: whether it is still the same is not known.
    policy_digest
        SHA-256 of the limits that hold now.
    """

    now: float = 0.0
    max_age_s: float = 0.0
    results: Results = field(default_factory=dict)
    certificates: Mapping[PortId, Certificate] = field(default_factory=dict)
    fingerprints: Mapping[PortId, Mapping[str, str]] = field(default_factory=dict)
    policy_digest: str = ""
