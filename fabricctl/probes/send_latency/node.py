"""``send_latency`` on the nodes."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from fabricctl.agent.beyond import Passed, beyond, room_bytes
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, SEND, WRITE, Link, Setup
from fabricctl.agent.timing import latencies, pinned, undisturbed

RECEIVES = 4
"""Posted ahead, so that none is missing when the other side is faster."""


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for one reliable queue pair with receives, a message to send and one to receive."""
    size = int(parameters["message_bytes"])
    return Setup(queue_pairs=(RC,), buffer_bytes=max(2 * size, room_bytes(parameters)), receives=RECEIVES)


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Send, and time from before each post until the answer was received."""
    warmup = int(parameters["warmup"])
    with pinned(link.local_cpus) as cpus, undisturbed():
        took = _play(link, parameters, guard, first=True)
    found = latencies([round_trip // 2 for round_trip in took[warmup:]], warmup=warmup, cpus=cpus)
    # Long WRITEs have the same packets as long SENDs, and nobody waits for one that is lost.
    return {**found, **beyond(link, WRITE, Passed(len(took), int(parameters["message_bytes"])), guard)}


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Answer each message with one of its own."""
    with pinned(link.local_cpus) as cpus, undisturbed():
        _play(link, parameters, guard, first=False)
    return {"cpus": cpus}


def _play(link: Link, parameters: Mapping[str, Any], guard: Guard, *, first: bool) -> array[int]:
    size = int(parameters["message_bytes"])
    count = int(parameters["warmup"]) + int(parameters["samples"])
    return link.pingpong(SEND, size, size, count, guard, first=first)
