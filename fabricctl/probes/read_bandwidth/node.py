"""``read_bandwidth`` on the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabricctl.agent import streaming
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import READ, Link, Setup


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for several reliable queue pairs and room for the longest message."""
    return streaming.setup(parameters, READ)


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Read the target's memory as fast as it goes."""
    return streaming.one_way(link, READ, parameters, guard)


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Do nothing: the NIC answers."""
    del link, parameters, guard
    return {}
