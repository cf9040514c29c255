"""The timed loops of the pyverbs engine.

Requests are prepared once and reused: making one costs as much as the NIC takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from time import perf_counter_ns
from typing import Any, Optional

from fabricctl.agent import connection
from fabricctl.agent.connection import WORD_BYTES, WORD_IN, WORD_OUT, Room
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import SEND, WRITE, Flow, Setup
from fabricctl.agent.timing import TURNS, complain, complete, undisturbed
from fabricctl.agent.verbs_queue import Poll, Queue, Take

Post = Callable[[Any], object]
"""Hands a prepared request to the NIC."""
KEPT = 4
"""Bursts whose requests are kept: as many banks as a probe takes turns in."""


class Loops:
    """What an endpoint does once it is connected; see ``link.py``."""

    setup: Setup
    posts: Sequence[Post]
    _sends: Queue
    _receives: Queue
    _words: memoryview
    _far_buffer = _far_control = 0
    _ball = 0

    def __init__(self) -> None:
        self._bursts: dict[tuple[int, ...], list[tuple[int, Post, Any]]] = {}

    @property
    def buffer(self) -> memoryview:
        """The registered memory, as bytes."""
        raise NotImplementedError

    @property
    def poll(self) -> Poll:
        """How to take completions of requests."""
        return self._sends.poll

    def request(self, op: str, near: tuple[int, int], address: int, pair: int, *, flags: int) -> Any:
        """Prepare a request for (offset, length) here and the peer's address; reuse it."""
        raise NotImplementedError

    def _receive(self, pair: int, length: int) -> Callable[[], object]:
        raise NotImplementedError

    @property
    def signaled(self) -> int:
        """Flag of a request whose completion is reported."""
        raise NotImplementedError

    def inlined(self, op: str, length: int) -> int:
        """Flag of a request that carries its message, 0 if it cannot."""
        raise NotImplementedError

    def _single(self, op: str, length: int, pair: int, near: int = 0, far: int = 0) -> Any:
        connection.existing(self.setup, (pair,))
        connection.within(self.setup, max(near, far), (length,))
        connection.allowed(self.setup, op, (pair,))
        flags = self.signaled | self.inlined(op, length)
        return self.request(op, (near, length), self._far_buffer + far, pair, flags=flags)

    def round_trips(self, op: str, length: int, count: int, guard: Guard, *, pair: int = 0) -> array[int]:
        """See ``link.py``."""
        request = self._single(op, length, pair)
        post, poll, clock = self.posts[pair], self.poll, perf_counter_ns
        took = array("Q", bytes(8 * count))
        with undisturbed():
            for index in range(count):
                start = clock()
                post(request)
                status = None
                while status is None:
                    for _ in TURNS:
                        status = poll()
                        if status is not None:
                            break
                    else:
                        guard.check("the completion of a request")
                took[index] = clock() - start
                if status:
                    raise complain(status)
        return took

    def pingpong(  # noqa: PLR0913  as in link.py
        self, op: str, length: int, inbound: int, count: int, guard: Guard, *, first: bool, pair: int = 0
    ) -> array[int]:
        """See ``link.py``."""
        if op == SEND:
            hit, wait = self._messages(length, guard, pair)
        else:
            hit, wait = self._writes(length, inbound, guard, pair)
        took = array("Q", bytes(8 * count if first else 0))
        clock = perf_counter_ns
        with undisturbed():
            for index in range(count):
                self._ball = ball = (self._ball + 1) & 0xFF
                if first:
                    start = clock()
                    hit(ball)
                    wait(ball)
                    took[index] = clock() - start
                else:
                    wait(ball)
                    hit(ball)
        return took

    def _writes(
        self, length: int, inbound: int, guard: Guard, pair: int
    ) -> tuple[Callable[[int], None], Callable[[int], None]]:
        request = self._single(WRITE, length, pair, far=inbound)
        post, poll, buffer = self.posts[pair], self.poll, self.buffer
        # The last byte is the one that the NIC writes last.
        sent_at, seen_at = length - 1, inbound + length - 1

        def hit(ball: int) -> None:
            buffer[sent_at] = ball
            post(request)
            complete(poll, guard)

        def wait(ball: int) -> None:
            while True:
                for _ in TURNS:
                    if buffer[seen_at] == ball:
                        return
                guard.check("the other side's write")

        return hit, wait

    def _messages(
        self, length: int, guard: Guard, pair: int
    ) -> tuple[Callable[[int], None], Callable[[int], None]]:
        request = self._single(SEND, length, pair)
        post, poll, arrived = self.posts[pair], self.poll, self._receives.poll
        again = self._receive(pair, length)

        def hit(ball: int) -> None:
            del ball
            post(request)
            complete(poll, guard)

        def wait(ball: int) -> None:
            del ball
            complete(arrived, guard)
            again()

        return hit, wait

    def absorb(self, length: int, count: int, guard: Guard, *, pairs: Sequence[int] = (0,)) -> int:
        """See ``link.py``."""
        connection.existing(self.setup, pairs)
        connection.within(self.setup, 0, (length,))
        take, again = self._receives.take, {pair: self._receive(pair, length) for pair in pairs}
        with undisturbed():
            for _ in range(count):
                again[_arrived(take, guard)]()
        return count

    def stream(  # noqa: PLR0913  as in link.py
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
        """See ``link.py``."""
        connection.existing(self.setup, pairs)
        connection.within(self.setup, offset, lengths)
        connection.allowed(self.setup, op, pairs)
        most = count or None
        lanes = {pair: _Lane(self._cycle(op, lengths, pair, offset), self.posts[pair]) for pair in pairs}
        with undisturbed():
            return _Stream(lanes, self.setup.depth, self._sends, guard).run(most, int(seconds * 1e9))

    def _cycle(self, op: str, lengths: Sequence[int], pair: int, offset: int) -> Iterator[tuple[Any, int]]:
        made = {
            length: self.request(op, (offset, length), self._far_buffer + offset, pair, flags=self.signaled)
            for length in set(lengths)
        }
        return cycle([(made[length], length) for length in lengths])

    def word_out(self, value: int, guard: Guard) -> None:
        """See ``link.py``."""
        pair = connection.reliable(connection.last_reliable(self.setup))
        page = Room(self.setup.buffer_bytes).control
        self._words[(page + WORD_OUT) // WORD_BYTES] = value
        flags = self.signaled | self.inlined(WRITE, WORD_BYTES)
        near, address = (page + WORD_OUT, WORD_BYTES), self._far_control + WORD_IN
        self.posts[pair](self.request(WRITE, near, address, pair, flags=flags))
        complete(self.poll, guard)

    def word_in(self, value: int, guard: Guard) -> None:
        """See ``link.py``."""
        words, place = self._words, (Room(self.setup.buffer_bytes).control + WORD_IN) // WORD_BYTES
        while True:
            for _ in TURNS:
                if words[place] == value:
                    return
            guard.check("the other side's word")

    def burst(self, first: int, step: int, count: int, paths: int, mark: int, guard: Guard) -> None:
        """See ``link.py``."""
        key = (first, step, count, paths)
        if key not in self._bursts:
            if len(self._bursts) >= KEPT:
                self._bursts.clear()
            self._bursts[key] = self._slots(first, step, count, paths)
        self._stamp(first, step, count, mark)
        under_way = 0
        for last, post, request in self._bursts[key]:
            post(request)
            under_way += last
        for _ in range(under_way):
            complete(self.poll, guard)

    def _slots(self, first: int, step: int, count: int, paths: int) -> list[tuple[int, Post, Any]]:
        connection.slotted(self.setup, first, step, count, paths)
        connection.shallow(self.setup, -(-count // paths))
        requests = []
        for place in range(count):
            # The last of each queue pair reports: then all before it have left this memory.
            last, pair = place >= count - paths, place % paths
            flags = self.signaled if last else 0
            offset = first + place * step
            request = self.request(WRITE, (offset, step), self._far_buffer + offset, pair, flags=flags)
            requests.append((int(last), self.posts[pair], request))
        return requests

    def _stamp(self, first: int, step: int, count: int, mark: int) -> None:
        words, head, stride = self._words, first // WORD_BYTES, step // WORD_BYTES
        for place in range(count):
            at = head + place * stride
            words[at] = words[at + stride - 1] = mark + place

    def absent(self, first: int, step: int, count: int, mark: int) -> list[int]:
        """See ``link.py``."""
        connection.slotted(self.setup, first, step, count, 1)
        words, head, stride = self._words, first // WORD_BYTES, step // WORD_BYTES
        tail = head + stride - 1
        return [
            place
            for place in range(count)
            if words[head + place * stride] != mark + place or words[tail + place * stride] != mark + place
        ]


def _arrived(take: Take, guard: Guard) -> int:
    """Wait for a message and return its queue pair."""
    while True:
        for _ in TURNS:
            done = take()
            if done is not None:
                status, pair = done
                if status:
                    raise complain(status)
                return pair
        guard.check("the other side's message")


class _Lane:
    """One queue pair of a stream."""

    def __init__(self, requests: Iterator[tuple[Any, int]], post: Post) -> None:
        self.requests, self.post = requests, post
        self.under_way = 0


class _Stream:
    """Keeps several queue pairs busy; every request reports, its identity is its queue pair."""

    def __init__(self, lanes: dict[int, _Lane], depth: int, sends: Queue, guard: Guard) -> None:
        self._lanes, self._depth, self._guard = lanes, depth, guard
        self._take = sends.take
        self._messages = self._bytes = 0

    def run(self, most: Optional[int], run_ns: int) -> Flow:
        """Post `most` messages, or for a time if that is not 0, then wait for all of them."""
        start = last = perf_counter_ns()
        posting = most is not None or run_ns > 0
        while posting or any(lane.under_way for lane in self._lanes.values()):
            if posting:
                self._fill(most)
                posting = (most is None or self._messages < most) and (
                    not run_ns or perf_counter_ns() - start < run_ns
                )
            self._wait()
            last = perf_counter_ns()
        return Flow(self._bytes, self._messages, last - start if self._messages else 0)

    def _fill(self, most: Optional[int]) -> None:
        for lane in self._lanes.values():
            while lane.under_way < self._depth and (most is None or self._messages < most):
                request, length = next(lane.requests)
                lane.post(request)
                lane.under_way += 1
                self._messages += 1
                self._bytes += length

    def _wait(self) -> None:
        """Take all completions there are, at least one."""
        lanes, take = self._lanes, self._take
        seen = False
        while True:
            for _ in TURNS:
                done = take()
                if done is None:
                    if seen:
                        return
                    continue
                status, pair = done
                if status:
                    raise complain(status)
                lanes[pair].under_way -= 1
                seen = True
            self._guard.check("the completion of a request")
