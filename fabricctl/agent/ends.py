"""What an engine gives: an opened NIC, and the ends of links that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, Protocol

from fabricctl.agent.gid import Gid
from fabricctl.agent.link import Link, Setup

Floors = dict[tuple[str, int], Optional[int]]
"""By operation and message length: what a NIC takes by itself, nanoseconds; None where it refused."""


class Endpoint(Link, Protocol):
    """A link that is not connected yet."""

    def address(self) -> dict[str, Any]:
        """Return what the peer must know, as JSON values; an end of the other engine understands it."""
        ...

    def connect(self, peer: Mapping[str, Any], *, path_mtu_bytes: int, traffic_class: int) -> None:
        """Connect every queue pair to its counterpart; Refusal (kind ``peer``) if the NIC refuses."""
        ...

    def close(self) -> None:
        """Give back everything."""
        ...


class Nic(Protocol):
    """An opened verbs device and the port that is used."""

    @property
    def floors(self) -> Floors:
        """What ``floor.floor_ns`` has found here; it writes into it."""
        ...

    def state(self) -> Mapping[str, int]:
        """Return ``lid`` and ``mtu_bytes`` of the port as they are now; Refusal if it is not active."""
        ...

    def try_memory(self, length: int) -> None:
        """Register and release `length` bytes; Refusal with the limit and its remedy if that fails."""
        ...

    def endpoint(self, setup: Setup, gid: Optional[Gid]) -> Endpoint:
        """Make the near end of a link; `gid` is None on InfiniBand."""
        ...
