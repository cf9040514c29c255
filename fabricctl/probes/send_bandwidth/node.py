"""``send_bandwidth`` on the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabricctl.agent import streaming
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import SEND, Link, Setup


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for several reliable queue pairs and room for the longest message."""
    return streaming.setup(parameters, SEND)


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Send as fast as it goes, as many as fill the time."""
    return streaming.sent(link, parameters, guard)


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Receive all of them."""
    return streaming.received(link, parameters, guard)
