"""``read_latency`` on the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabricctl.agent.beyond import Passed, beyond, room_bytes
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, READ, Link, Setup
from fabricctl.agent.timing import timed


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for one reliable queue pair and one message, or a longer one if that is short."""
    size = max(int(parameters["message_bytes"]), room_bytes(parameters))
    return Setup(queue_pairs=(RC,), buffer_bytes=size)


def floor(parameters: Mapping[str, Any]) -> tuple[str, int]:
    """Return the operation and the length whose floor goes with the result."""
    return READ, int(parameters["message_bytes"])


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Read the target's memory again and again."""
    length, warmup = int(parameters["message_bytes"]), int(parameters["warmup"])
    count = int(parameters["samples"])
    found = timed(link, READ, length, warmup=warmup, count=count, guard=guard)
    return {**found, **beyond(link, READ, Passed(warmup + count, length), guard)}


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Do nothing: the NIC answers."""
    del link, parameters, guard
    return {}
