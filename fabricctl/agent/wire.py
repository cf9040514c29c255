"""Messages between the controller and an agent: one JSON object a line.

A request is ``{"id": 7, "op": "run", ...}``; its reply ``{"id": 7, "ok": {...}}`` or
``{"id": 7, "error": {"kind": "peer", "text": "..."}}``. The first line of an agent is its hello, with id 0.
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


def decode(line: str) -> dict[str, Any]:
    """Return the message in a line.

    Raises
    ------
    Refusal
        It is no JSON object (kind ``wire``).
    """
    try:
        message = json.loads(line)
    except ValueError as exc:
        raise Refusal(WIRE, f"not a message: {line[:80]!r}") from exc
    if not isinstance(message, dict):
        raise Refusal(WIRE, f"not a message: {line[:80]!r}")
    return message


def failure(number: int, refusal: Refusal) -> dict[str, Any]:
    """Return the reply that says no."""
    return {"id": number, "error": {"kind": refusal.kind, "text": refusal.text}}
