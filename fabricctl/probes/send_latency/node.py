"""``send_latency`` on the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabricctl.agent.beyond import room_bytes
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, SEND, Link, Setup
from fabricctl.agent.rally import Rally

RECEIVES = 4
"""Posted ahead, so that none is missing when the other side is faster."""


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for one reliable queue pair with receives, a message to send and one to receive."""
    size = int(parameters["message_bytes"])
    return Setup(queue_pairs=(RC,), buffer_bytes=max(2 * size, room_bytes(parameters)), receives=RECEIVES)


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Send, and time from before each post until the answer was received."""
    return _rally(parameters).serve(link, parameters, guard)


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Answer each message with one of its own."""
    return _rally(parameters).answer(link, parameters, guard)


def _rally(parameters: Mapping[str, Any]) -> Rally:
    return Rally(SEND, int(parameters["message_bytes"]))
