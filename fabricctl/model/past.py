"""What earlier runs left on record of the pairs and ports that are to be verified now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fabricctl.model.certificate import Certificate
from fabricctl.model.names import PortId
from fabricctl.model.verdict import Outcome


class Result(NamedTuple):
    """When a couple of ports was last verified (Unix time in seconds), and the worst of both directions.

    `by_both` says whether the certificates of both ends, issued at that moment, tell it.
    """

    at: float
    outcome: Outcome
    by_both: bool = True


class Basis(NamedTuple):
    """What must still be so of a port for the results of one of its certificates to hold.

    The fields are those of :class:`~fabricctl.model.certificate.Certificate`.
    """

    expires_at: float
    revoked: str
    policy_digest: str
    fingerprint: Mapping[str, str]


Results = Mapping[PortId, Mapping[PortId, Result]]
"""The last result of each couple of ports: by the lesser port, then by the other one."""
Bases = Mapping[PortId, Mapping[float, Basis]]
"""By port, then by Unix time of issue: the basis of each certificate that such a result comes from."""


class LastVerdicts(NamedTuple):
    """The last results of all couples, and what they rest on."""

    results: Results
    bases: Bases


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
    bases
        What the results rest on at either end (``Store.last_verdicts``).
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
    bases: Bases = field(default_factory=dict)
    certificates: Mapping[PortId, Certificate] = field(default_factory=dict)
    fingerprints: Mapping[PortId, Mapping[str, str]] = field(default_factory=dict)
    policy_digest: str = ""
