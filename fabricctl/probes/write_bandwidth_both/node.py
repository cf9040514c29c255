"""``write_bandwidth_both`` on the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabricctl.agent import streaming
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import WRITE, Link, Setup


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for several reliable queue pairs and room for the longest message."""
    return streaming.setup(parameters, WRITE)


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Write into the target's memory while it writes into this one."""
    return streaming.both_ways(link, parameters, guard, first=True)


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Do the same the other way; its numbers are the reverse direction's."""
    found = streaming.both_ways(link, parameters, guard, first=False)
    return {"numbers": {f"reverse_{name}": number for name, number in found["numbers"].items()}}
