"""Two ends of a link in one process, whose path can swallow long messages; time is worked out, not spent.

`couple` makes both. A probe's halves are played on them by two threads, as two agents would.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

from fabricctl.agent.link import READ, SEND, WRITE, Flow, Setup
from fabricctl.agent.wire import DEADLINE, PEER, Refusal

LOST = "no answer from the peer to any of the transmissions (transport retries exceeded) [status 12]"


class Patience:
    """A guard that gives up after some seconds."""

    def __init__(self, seconds: float = 5.0) -> None:
        self._until = time.monotonic() + seconds

    def check(self, waiting_for: str = "the fabric") -> None:
        time.sleep(0.0001)
        if time.monotonic() > self._until:
            raise Refusal(DEADLINE, f"no answer in time from {waiting_for}")


class FakeLink:
    """One end.

    Parameters
    ----------
    gbps
        What each direction carries.
    """

    hardware_clock = False
    hardware_ns = None
    local_cpus = ""

    def __init__(self, setup: Setup, path_mtu_bytes: int, gbps: float) -> None:
        self.setup, self.path_mtu_bytes, self.gbps = setup, path_mtu_bytes, gbps
        self.buffer = memoryview(bytearray(setup.buffer_bytes))
        self.peer: FakeLink = self
        self.calls: list[tuple[Any, ...]] = []
        self.holes: dict[int, int] = {}
        """By queue pair: messages longer than so many bytes are lost."""
        self.fails_after: int | None = None
        """Streams break after so many messages."""
        self.arrived = 0
        self.word = 0

    def _lost(self, length: int, pair: int) -> bool:
        return length > self.holes.get(pair, 1 << 40)

    def round_trips(self, op: str, length: int, count: int, guard: Any, *, pair: int = 0) -> array[int]:
        guard.check()
        assert length <= self.setup.buffer_bytes
        assert pair < len(self.setup.queue_pairs)
        self.calls.append(("round_trips", op, length, count, pair))
        if self._lost(length, pair):
            raise Refusal(PEER, LOST)
        near, far = self.buffer, self.peer.buffer
        if op == WRITE:
            far[:length] = near[:length]
        elif op == READ:
            near[:length] = far[:length]
        return array("Q", [1000] * count)

    def floor_ns(self, op: str, length: int, guard: Any) -> None:
        """Have no path to itself."""

    def pingpong(  # noqa: PLR0913  as the engines'
        self, op: str, length: int, inbound: int, count: int, guard: Any, *, first: bool, pair: int = 0
    ) -> array[int]:
        guard.check()
        self.calls.append(("pingpong", op, length, inbound, count, first, pair))
        return array("Q", range(2000, 2000 + 2 * count, 2) if first else [])

    def absorb(self, length: int, count: int, guard: Any, *, pairs: Sequence[int] = (0,)) -> int:
        self.calls.append(("absorb", length, count, tuple(pairs)))
        while self.arrived < count:
            guard.check("a message")
        self.arrived -= count
        return count

    def word_out(self, value: int, guard: Any) -> None:
        guard.check()
        self.peer.word = value

    def word_in(self, value: int, guard: Any) -> None:
        while self.word != value:
            guard.check("the other side's word")

    def stream(  # noqa: PLR0913  as the engines'
        self,
        op: str,
        lengths: Sequence[int],
        guard: Any,
        *,
        seconds: float = 0.0,
        count: int = 0,
        pairs: Sequence[int] = (0,),
        offset: int = 0,
    ) -> Flow:
        guard.check()
        self.calls.append(("stream", op, tuple(lengths), seconds, count, tuple(pairs), offset))
        assert offset + max(lengths) <= self.setup.buffer_bytes
        messages = size = 0
        for length in cycle(lengths):
            if (count and messages == count) or (seconds and size * 8 / self.gbps >= seconds * 1e9):
                break
            if messages == self.fails_after:
                raise Refusal(PEER, LOST)
            messages, size = messages + 1, size + length
        if op == SEND:
            # A receive lies at offset 0, whatever was there.
            self.peer.buffer[: max(lengths)] = self.buffer[offset : offset + max(lengths)]
            self.peer.arrived += messages
        return Flow(size, messages, round(size * 8 / self.gbps))


def couple(
    setup: Callable[[Mapping[str, Any]], Setup], parameters: Mapping[str, Any], gbps: float = 1.0
) -> Any:
    """Return both ends of a link as a probe's `setup` wants it."""
    ends = [FakeLink(setup(parameters), int(parameters["path_mtu_bytes"]), gbps) for _ in range(2)]
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    return ends


def play(node: Any, ends: Sequence[FakeLink], parameters: Mapping[str, Any], seconds: float = 5.0) -> Any:
    """Play a probe's halves on both ends and return what each returned, or the Refusal that it raised."""

    def half(name: str, link: FakeLink) -> Any:
        try:
            return getattr(node, name)(link, parameters, Patience(seconds))
        except Refusal as refusal:
            return refusal

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(half, name, end) for name, end in zip(("source", "target"), ends, strict=True)]
        return [job.result() for job in jobs]
