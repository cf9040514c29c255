"""What a probe's ``node.py`` gets to work with: queue pairs, memory, completions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Protocol

RC = "RC"
"""Reliable connection: lost packets are sent again, so that loss shows as latency and in counters."""
UC = "UC"
"""Unreliable connection: a lost packet stays lost."""

Post = Callable[[Any], object]
"""Hands a prepared request to the NIC."""
Poll = Callable[[], Optional[int]]
"""Takes one completion and returns its status (0 is success); None if there is none."""


@dataclass(frozen=True)
class Setup:
    """What a probe needs on each side.

    Parameters
    ----------
    queue_pairs
        The kind of each, ``RC`` or ``UC``; each gets a flow label of its own.
    buffer_bytes
        Registered memory, zeroed; the peer may read and write it.
    depth
        Largest number of requests under way on one queue pair.
    """

    queue_pairs: tuple[str, ...]
    buffer_bytes: int
    depth: int = 1


class Link(Protocol):
    """A connected pair of queue pairs' near end."""

    @property
    def buffer(self) -> memoryview:
        """The registered memory, as bytes."""
        ...

    @property
    def path_mtu_bytes(self) -> int:
        """Largest payload of one packet."""
        ...

    @property
    def posts(self) -> Sequence[Post]:
        """How to post on each queue pair."""
        ...

    @property
    def poll(self) -> Poll:
        """How to take completions of all queue pairs."""
        ...

    def write(self, offset: int, length: int, *, to: int, signaled: bool = True) -> Any:
        """Prepare an RDMA WRITE of own memory at `offset` to the peer's memory at `to`; reuse it."""
        ...

    def read(self, offset: int, length: int, *, of: int) -> Any:
        """Prepare an RDMA READ of the peer's memory at `of` into own memory at `offset`; reuse it."""
        ...
