"""``write_pingpong`` on the nodes."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, Link, Setup
from fabricctl.agent.timing import TURNS, complete, undisturbed
from fabricctl.probes.write_pingpong.spec import inbound_offset


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for one reliable queue pair, a message to send and one to receive."""
    size = int(parameters["message_bytes"])
    return Setup(queue_pairs=(RC,), buffer_bytes=inbound_offset(size) + size)


class _Table:
    """One side: its message is told from the last one by its last byte, which the NIC writes last."""

    def __init__(self, link: Link, parameters: Mapping[str, Any], guard: Guard) -> None:
        size = int(parameters["message_bytes"])
        inbound = inbound_offset(size)
        self.guard = guard
        self.buffer = link.buffer
        self.sent_at, self.seen_at = size - 1, inbound + size - 1
        self.request = link.write(0, size, to=inbound)
        self.post, self.poll = link.posts[0], link.poll

    def hit(self, ball: int) -> None:
        """Send, and wait for the completion."""
        self.buffer[self.sent_at] = ball
        self.post(self.request)
        complete(self.poll, self.guard)

    def wait(self, ball: int) -> None:
        """Wait until the other side's message is in memory."""
        buffer, place = self.buffer, self.seen_at
        while True:
            for _ in TURNS:
                if buffer[place] == ball:
                    return
            self.guard.check("the other side's write")


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Serve, and time from before each post until the answer is seen."""
    table = _Table(link, parameters, guard)
    warmup, samples = int(parameters["warmup"]), int(parameters["samples"])
    took = array("Q", bytes(8 * (warmup + samples)))
    hit, wait, clock = table.hit, table.wait, perf_counter_ns
    with undisturbed():
        for index in range(warmup + samples):
            ball = (index + 1) & 0xFF
            start = clock()
            hit(ball)
            wait(ball)
            took[index] = clock() - start
    return {"latencies_ns": [round_trip // 2 for round_trip in took[warmup:]]}


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Answer each message with one of its own."""
    table = _Table(link, parameters, guard)
    hit, wait = table.hit, table.wait
    with undisturbed():
        for index in range(int(parameters["warmup"]) + int(parameters["samples"])):
            ball = (index + 1) & 0xFF
            wait(ball)
            hit(ball)
    return {}
