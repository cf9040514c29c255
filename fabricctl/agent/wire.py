"""Messages between the controller and an agent, version 2: one JSON value a line.

A request is ``{"id": 7, "op": "run", ...}``, and a line may hold several as a list; they are answered in
their order: ``{"id": 7, "ok": {...}}`` or ``{"id": 7, "error": {"kind": "peer", "text": "..."}}``. The first
line of an agent is its hello, with id 0. A couple of ports takes three requests to each of its two agents:

``prepare``
    ``slot`` (any name; a second one is prepared while the first runs), ``port``, ``engine``, ``leads`` (true
    at one end, false at the other), ``jobs_name`` and, the first time, ``jobs``: a list of ``{probe, role,
    parameters}``. The reply's ``addresses`` are for the peer alone.
``connect``
    ``slot`` and ``peers``, the peer's ``addresses``.
``run``
    ``slot``. Both ends play their jobs in step. The reply's ``results`` has for each job what it measured, or
    its ``error``; ``counters`` by how much the port's counters rose over it (those of ``counted`` that are
    not named stood still). Meanwhile ``{"of": 7, "failed": 2}`` tells of a job that failed. Afterwards the
    session is closed.

``ping`` is answered with ``{"pong": true}`` and ``call_off`` (``of`` a request, maybe only its ``job``) is
obeyed at once, whatever the agent is doing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SETUP = "setup"
"""Kind of error: something must be installed, set or cabled on this node."""
PEER = "peer"
"""Kind of error: the other end did not answer or refused."""
DEADLINE = "deadline"
"""Kind of error: it was not done in time, or was called off."""
WIRE = "wire"
"""Kind of error: a request that makes no sense."""
INTERNAL = "internal"
"""Kind of error: a bug of the agent."""


class Refusal(Exception):  # noqa: N818  it is an answer, not a fault of the program
    """Something the agent could not do, for the reader in one line.

    Parameters
    ----------
    kind
        One of the kinds above.
    text
        What happened and what to do about it, on one line.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = " ".join(text.split())


def encode(message: Mapping[str, Any]) -> str:
    """Return the message as one line without its newline."""
    return json.dumps(message, separators=(",", ":"))


def decode(said: Any) -> dict[str, Any]:
    """Return a request as it came in a line.

    Raises
    ------
    Refusal
        It is no JSON object (kind ``wire``).
    """
    if not isinstance(said, dict):
        raise Refusal(WIRE, f"not a message: {str(said)[:80]!r}")
    return said


def failure(number: int, refusal: Refusal) -> dict[str, Any]:
    """Return the reply that says no."""
    return {"id": number, "error": {"kind": refusal.kind, "text": refusal.text}}
