"""The target's end of a link for the loss probe, with a made-up network and a clock of its own.

The source's trains come by themselves: one starts when the target first looks into its bank, packet after
packet, and what becomes of each is said by its fate.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fabricctl.probes.loss import spec
from fabricctl.probes.loss.spec import Layout

PACKET_NS = 1_000
TIMEOUT_NS = 268_000_000


@dataclass(frozen=True)
class Fate:
    """What becomes of a packet; a copy of it comes so much later, 0 is no copy."""

    delay_ns: int = 0
    copy_ns: int = 0
    head: bool = True
    tail: bool = True


ARRIVES = Fate()
LOST = Fate(head=False, tail=False)
Fates = Callable[[int], Fate]
"""By the packet's number in the order of sending, from 0."""


@dataclass
class LossyLink:
    """What ``node.target`` and ``node.Count`` need of a link.

    Parameters
    ----------
    fates
        What becomes of packets.
    stalls
        By number of the sleep, from 1: the packets of the network stand still for so many nanoseconds, but
        the process runs on.
    freezes
        The same for process and network together: the machine stood still.
    at_once
        Whether each train comes as a whole; packets arrive or are lost, nothing else.
    word_lost
        By train: how often the word of its end is lost; a reliable connection sends it again.
    """

    layout: Layout
    fates: Fates = lambda _number: ARRIVES
    stalls: dict[int, int] = field(default_factory=dict)
    freezes: dict[int, int] = field(default_factory=dict)
    word_lost: Callable[[int], int] = lambda _train: 0
    at_once: bool = False
    look_ns: int = 3_000
    now_ns: int = 0

    def __post_init__(self) -> None:
        self.buffer = memoryview(bytearray(self.layout.bytes))
        self.path_mtu_bytes = self.layout.packet_bytes
        self.words = self.buffer.cast("Q")
        self.sent = 0
        self.said: list[int] = []
        self._due: list[tuple[int, int, int, int, Fate]] = []
        self._ends = self._held_until = self._sleeps = 0

    def absent(self, first: int, step: int, count: int, mark: int) -> list[int]:
        self._start(first, step, count, mark)
        self.now_ns += self.look_ns
        self._deliver()
        begin, width, end = first // 8, step // 8, (first + count * step) // 8
        heads = self.words[begin:end:width].tolist()
        tails = self.words[begin + width - 1 : end : width].tolist()
        wanted = list(range(mark, mark + count))
        if heads == wanted == tails:
            return []
        return [p for p in range(count) if heads[p] != wanted[p] or tails[p] != wanted[p]]

    def _start(self, first: int, step: int, count: int, mark: int) -> None:
        if spec.train_of(mark) != self.sent + 1:
            return
        self.sent += 1
        at = max(self.now_ns, self._held_until)
        self._ends = at + count * PACKET_NS
        for place in range(count):
            fate, offset = self.fates((self.sent - 1) * count + place), first + place * step
            if fate is LOST:
                continue
            if self.at_once:  # much faster, where the order does not matter
                self.words[offset // 8] = self.words[(offset + step) // 8 - 1] = mark + place
                continue
            due = at + place * PACKET_NS + fate.delay_ns
            heapq.heappush(self._due, (due, mark + place, offset, step, fate))
            if fate.copy_ns:
                heapq.heappush(self._due, (due + fate.copy_ns, mark + place, offset, step, fate))

    def _deliver(self) -> None:
        while self._due and self._due[0][0] <= self.now_ns and self.now_ns >= self._held_until:
            _, stamp, offset, step, fate = heapq.heappop(self._due)
            if fate.head:
                self.words[offset // 8] = stamp
            if fate.tail:
                self.words[(offset + step) // 8 - 1] = stamp

    def word_in(self, value: int, guard: Any) -> None:
        del guard
        assert value == self.sent
        self.now_ns = max(self.now_ns, self._ends) + self.word_lost(value) * TIMEOUT_NS

    def word_out(self, value: int, guard: Any) -> None:
        del guard
        self.said.append(value)

    def clock(self) -> int:
        self.now_ns += 100
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self._sleeps += 1
        stall = self.stalls.get(self._sleeps, 0)
        if stall:
            self._held_until = self.now_ns + stall
        self.now_ns += int(seconds * 1e9) + self.freezes.get(self._sleeps, 0)
        if self._sleeps in self.freezes:  # what came meanwhile is handed over when the machine runs again
            self._held_until = self.now_ns + 2_000_000


def independent(rate: float, chance: random.Random) -> Iterator[bool]:
    """Say of each packet whether it is lost, each by itself."""
    while True:
        yield chance.random() < rate


def bursts(rate: float, length: float, chance: random.Random) -> Iterator[bool]:
    """Say the same after Gilbert: a bad state that loses all, `length` packets long on average."""
    leaves = 1 / length
    enters = rate * leaves / (1 - rate) if rate else 0.0
    bad = chance.random() < rate
    while True:
        yield bad
        bad = chance.random() >= leaves if bad else chance.random() < enters
