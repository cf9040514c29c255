"""``read_latency`` on the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, Link, Setup
from fabricctl.agent.timing import timed


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for one reliable queue pair and one message."""
    return Setup(queue_pairs=(RC,), buffer_bytes=int(parameters["message_bytes"]))


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Read the target's memory again and again."""
    request = link.read(0, int(parameters["message_bytes"]), of=0)
    took = timed(
        link, request, warmup=int(parameters["warmup"]), count=int(parameters["samples"]), guard=guard
    )
    return {"latencies_ns": took}


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Do nothing: the NIC answers."""
    del link, parameters, guard
    return {}
