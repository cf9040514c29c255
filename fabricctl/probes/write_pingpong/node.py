"""``write_pingpong`` on the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabricctl.agent.beyond import room_bytes
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, WRITE, Link, Setup
from fabricctl.agent.rally import Rally
from fabricctl.probes.write_pingpong.spec import inbound_offset


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for one reliable queue pair, a message to send and one to receive."""
    size = int(parameters["message_bytes"])
    return Setup(queue_pairs=(RC,), buffer_bytes=max(inbound_offset(size) + size, room_bytes(parameters)))


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Serve, and time from before each post until the answer is seen."""
    return _rally(parameters).serve(link, parameters, guard)


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Answer each message with one of its own."""
    return _rally(parameters).answer(link, parameters, guard)


def _rally(parameters: Mapping[str, Any]) -> Rally:
    return Rally(WRITE, inbound_offset(int(parameters["message_bytes"])))
