"""Certificates of ports of a made-up fabric, as the tests of what a run still has to measure want them."""

from __future__ import annotations

from dataclasses import replace

from fabricctl.model.certificate import Certificate
from fabricctl.model.names import PortId
from fabricctl.model.verdict import Outcome

NOW, LIFE = 1_796_000_000.0, 3600.0
PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN
SAME = {"firmware": "1", "boot_id": "b"}


def port(number: int) -> PortId:
    """Return the first port of a node."""
    return PortId(f"node{number}", "eth1")


def certificate(of: PortId, outcome: Outcome = PASS, at: float = NOW - 60, **changes: object) -> Certificate:
    """Return a certificate issued at `at`, Unix time, with other fields as `changes` says."""
    plain = Certificate(
        id=f"c:{of}:{at}",
        port=of,
        run_id="r",
        outcome=outcome,
        peers={},
        findings=(),
        fingerprint=SAME,
        engine="",
        policy="lab",
        policy_digest="d",
        issued_at=at,
        expires_at=at + LIFE,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  the names are Certificate's
