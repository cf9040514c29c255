"""``write_pingpong`` on the nodes."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from fabricctl.agent.beyond import Passed, beyond, room_bytes
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, WRITE, Link, Setup
from fabricctl.agent.timing import latencies, pinned, undisturbed
from fabricctl.probes.write_pingpong.spec import inbound_offset


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for one reliable queue pair, a message to send and one to receive."""
    size = int(parameters["message_bytes"])
    return Setup(queue_pairs=(RC,), buffer_bytes=max(inbound_offset(size) + size, room_bytes(parameters)))


def _play(link: Link, parameters: Mapping[str, Any], guard: Guard, *, first: bool) -> array[int]:
    size = int(parameters["message_bytes"])
    # In one call: the first message after the warm-up follows as closely on the last one as all others.
    count = int(parameters["warmup"]) + int(parameters["samples"])
    return link.pingpong(WRITE, size, inbound_offset(size), count, guard, first=first)


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Serve, and time from before each post until the answer is seen."""
    warmup = int(parameters["warmup"])
    with pinned(link.local_cpus) as cpus, undisturbed():
        took = _play(link, parameters, guard, first=True)
    found = latencies([round_trip // 2 for round_trip in took[warmup:]], warmup=warmup, cpus=cpus)
    return {**found, **beyond(link, WRITE, Passed(len(took), int(parameters["message_bytes"])), guard)}


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Answer each message with one of its own."""
    with pinned(link.local_cpus) as cpus, undisturbed():
        _play(link, parameters, guard, first=False)
    return {"cpus": cpus}
