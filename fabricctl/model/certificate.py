"""Certificates and the gate's decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fabricctl.model.names import PortId
from fabricctl.model.policy import GatePolicy
from fabricctl.model.verdict import Finding, Outcome


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was proved about one port, when, until when, and as long as what stays true.

    Parameters
    ----------
    outcome
        The worst over the port's pairs; a failed or unknown port gets a certificate too, which says so.
    peers
        By tested peer port (as text): the worst outcome of the pair, both directions.
    findings
        The findings that decided.
    fingerprint
        By fact name (``model/facts.py``) plus ``settings``: what must still be so. An entry that could
        not be read is absent.
    issued_at, expires_at
        Unix time in seconds.
    simulated
        Empty on real hardware; else what stood in for it.
    revoked
        Empty, or who revoked it, when and why.
    policy
        Name of the policy whose limits were used.
    policy_digest
        SHA-256 of the limits, so that a changed policy is noticed.
    rail
        The port's rail; None where rails do not apply.
    node_ports
        All fabric ports of the node when it was issued: each needs its own certificate.
    suspects
        Elements that localisation blames for this port's failures, the likeliest first.
    inventory
        Absolute path of the inventory; names are unique only within one.
    gate
        How the policy wanted the gate to behave: the gate reads no policy file.
    """

    id: str
    port: PortId
    run_id: str
    outcome: Outcome
    peers: Mapping[str, Outcome]
    findings: tuple[Finding, ...]
    fingerprint: Mapping[str, str]
    engine: str
    policy: str
    policy_digest: str
    issued_at: float
    expires_at: float
    simulated: str = ""
    revoked: str = ""
    rail: int | None = None
    node_ports: tuple[PortId, ...] = ()
    suspects: tuple[str, ...] = ()
    gate: GatePolicy = field(default_factory=GatePolicy)
    inventory: str = ""


class Answer(StrEnum):
    """The gate's answer."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a job may run on a set of nodes.

    Parameters
    ----------
    allow
        What the caller should do; differs from `answer` only where the policy says so.
    line
        One line: answer, reason, what to do.
    """

    answer: Answer
    allow: bool
    line: str
    nodes: tuple[str, ...]
    at: float
