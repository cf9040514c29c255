"""What a probe's ``node.py`` gets to work with: connected queue pairs, memory, and the timed loops over them.

Two engines implement it: ``verbs.py`` with pyverbs and loops in Python, ``native.py`` with a library in C.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Protocol

from fabricctl.agent.guard import Guard

RC = "RC"
"""Reliable connection: lost packets are sent again, so that loss shows as latency and in counters."""
UC = "UC"
"""Unreliable connection: a lost packet stays lost."""

READ = "READ"
"""RDMA READ of the peer's memory; on RC only."""
WRITE = "WRITE"
"""RDMA WRITE into the peer's memory."""
SEND = "SEND"
"""Two-sided: the peer must have posted a receive, see ``Setup.receives`` and ``Link.absorb``."""


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
        Largest number of requests under way on one queue pair; at least 1.
    receives
        Receives that are kept posted on each queue pair from before it is connected; 0 for none. Each takes
        a message of up to ``buffer_bytes``, which lands at offset 0 of the buffer.
    reads
        RDMA READs that the NIC may have under way on one queue pair (``max_rd_atomic``); at least 1. A NIC
        that can do fewer, here or at the peer, does as many as it can.
    """

    queue_pairs: tuple[str, ...]
    buffer_bytes: int
    depth: int = 1
    receives: int = 0
    reads: int = 1


@dataclass(frozen=True)
class Flow:
    """What a stream of messages brought.

    Parameters
    ----------
    bytes
        Payload of all messages that were completed, without headers.
    messages
        Their number.
    nanoseconds
        From before the first post until the last completion was seen; 0 if there was no message.
    """

    bytes: int
    messages: int
    nanoseconds: int


class Link(Protocol):
    """Near end of connected queue pairs.

    Queue pairs are named by their index in ``Setup.queue_pairs``. Every method that waits raises a Refusal:
    of kind ``peer`` if the peer or its NIC refuses or does not answer, of kind ``deadline`` if the time is up
    or the controller called it off. After a Refusal the link can only be closed.
    """

    @property
    def buffer(self) -> memoryview:
        """The registered memory, as bytes."""
        ...

    @property
    def path_mtu_bytes(self) -> int:
        """Largest payload of one packet."""
        ...

    @property
    def local_cpus(self) -> str:
        """The CPUs of the NIC's NUMA node as the kernel lists them (``0-15,32-47``); empty if unknown."""
        ...

    @property
    def hardware_clock(self) -> bool:
        """Whether the NIC stamps completions with its own clock."""
        ...

    @property
    def hardware_ns(self) -> Optional[array[int]]:
        """Nanoseconds between successive completions of the last :meth:`round_trips`, by the NIC's clock.

        One less than there were round trips; the host's time from one completion to the next post is inside.
        None where the NIC has no such clock.
        """
        ...

    def floor_ns(self, op: str, length: int, guard: Guard) -> Optional[int]:
        """Return the median of :meth:`round_trips` of the own port to itself, measured once for each NIC.

        Returns
        -------
        int or None
            Nanoseconds; None where the port does not talk to itself.
        """
        ...

    def round_trips(self, op: str, length: int, count: int, guard: Guard, *, pair: int = 0) -> array[int]:
        """Time `count` requests, one after the other, between offset 0 here and offset 0 there.

        Parameters
        ----------
        op
            ``READ``, ``WRITE`` or ``SEND``; for SEND the peer must :meth:`absorb`.
        length
            Bytes of a message.

        Returns
        -------
        array
            Nanoseconds from before the post until its completion was seen, each. A WRITE's and a SEND's
            completion says that the peer's NIC acknowledged it, on UC that it has left.
        """
        ...

    def pingpong(  # noqa: PLR0913  the two sides' shape, fixed for both engines
        self, op: str, length: int, inbound: int, count: int, guard: Guard, *, first: bool, pair: int = 0
    ) -> array[int]:
        """Pass a message to and fro `count` times; both sides call it with the same numbers.

        ``WRITE``: as ib_write_lat, each side writes its message from offset 0 to the peer's `inbound`, takes
        the completion and waits for the last byte of its own inbound message. That byte counts up modulo 256
        from 1, and goes on counting over the calls on one link: use one length and one `inbound` a link.

        ``SEND``: as ib_send_lat, the peer's message is waited for as a receive completion, without `inbound`.

        Parameters
        ----------
        first
            Whether this side serves.

        Returns
        -------
        array
            Nanoseconds of each full round trip, from before the own post until the answer was seen; empty on
            the side that does not serve.
        """
        ...

    def absorb(self, length: int, count: int, guard: Guard, *, pairs: Sequence[int] = (0,)) -> int:
        """Take `count` messages that the peer SENDs and post a new receive for each.

        Parameters
        ----------
        length
            Bytes of the longest message; receives that are posted anew take no longer one.
        pairs
            Where they may come, in any order: `count` is that of all of these queue pairs together, for what
            a :meth:`stream` brings on each is not known beforehand.

        Returns
        -------
        int
            How many came: `count`.
        """
        ...

    def stream(  # noqa: PLR0913  the kinds of a bandwidth run, fixed for both engines
        self,
        op: str,
        lengths: Sequence[int],
        guard: Guard,
        *,
        seconds: float = 0.0,
        count: int = 0,
        pairs: Sequence[int] = (0,),
        offset: int = 0,
    ) -> Flow:
        """Keep ``Setup.depth`` requests under way on each of `pairs`, then wait until all are completed.

        Parameters
        ----------
        lengths
            Bytes of the messages, taken in turn; each lies at `offset` in both memories.
        seconds
            How long requests are posted; 0 if `count` ends it.
        count
            Number of messages in all; 0 if `seconds` ends it. With both, what comes first.
        """
        ...

    def word_out(self, value: int, guard: Guard) -> None:
        """Write a 64-bit word into the peer's control page over the last RC queue pair; wait for the ACK."""
        ...

    def word_in(self, value: int, guard: Guard) -> None:
        """Wait until the peer has written `value` into the own control page."""
        ...

    def burst(self, first: int, step: int, count: int, paths: int, mark: int, guard: Guard) -> None:
        """Stamp `count` slots, write each to the same offset at the peer, and wait until all have left.

        Slot `place` lies at ``first + place * step``, has `step` bytes (a multiple of 8), carries
        ``mark + place`` in its first and in its last 8 bytes, and goes over queue pair ``place % paths``.
        """
        ...

    def absent(self, first: int, step: int, count: int, mark: int) -> list[int]:
        """Return the places of a :meth:`burst` whose slot here does not hold its stamp at both ends."""
        ...
