"""``loss`` on the nodes.

The source sends a train of stamped packets on the unreliable queue pairs, then writes the train's number
on the reliable one. The target looks at the slots, waits while packets still come, counts, and writes the
number back.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, UC, Link, Setup
from fabricctl.agent.timing import TURNS, complete, undisturbed
from fabricctl.agent.wire import PEER, Refusal
from fabricctl.probes.loss.spec import BANKS, QUIET_S, SLOTS, WORD_IN, WORD_OUT, Layout, stamp

WORD_BYTES = 8
NAP_S = 0.0005


def _layout(parameters: Mapping[str, Any], packet_bytes: int) -> Layout:
    return Layout(int(parameters["queue_pairs"]), packet_bytes, int(parameters["packets"]))


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for the unreliable queue pairs, then a reliable one for the two sides to agree over."""
    layout = _layout(parameters, int(parameters["path_mtu_bytes"]))
    return Setup(queue_pairs=(UC,) * layout.paths + (RC,), buffer_bytes=layout.bytes, depth=SLOTS + 2)


class _Word:
    """The reliable word between the two sides: the number of the train that is done."""

    def __init__(self, link: Link, guard: Guard) -> None:
        self._words = link.buffer.cast("Q")
        self._request = link.write(WORD_OUT, WORD_BYTES, to=WORD_IN)
        self._post, self._poll, self._guard = link.posts[-1], link.poll, guard

    def say(self, train: int) -> None:
        self._words[WORD_OUT // WORD_BYTES] = train
        self._post(self._request)
        complete(self._poll, self._guard)

    def hear(self, train: int) -> None:
        words, place = self._words, WORD_IN // WORD_BYTES
        while True:
            for _ in TURNS:
                if words[place] == train:
                    return
            self._guard.check("the other side's end of the loss probe")


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Send all trains; if the reliable connection breaks on the way, what was counted so far stands."""
    layout = _layout(parameters, link.path_mtu_bytes)
    word = _Word(link, guard)
    words = link.buffer.cast("Q")
    banks = [_requests(link, layout, bank) for bank in range(BANKS)]
    done = 0
    with undisturbed():
        try:
            for train in range(1, layout.trains + 1):
                _stamp(words, layout, train)
                for post, request in banks[train % BANKS]:
                    post(request)
                for _ in range(layout.paths):
                    complete(link.poll, guard)
                word.say(train)
                word.hear(train)
                done = train
        except Refusal as refusal:
            if not done or refusal.kind != PEER:
                raise
            return {"stopped": f"after {done} of {layout.trains} trains: {refusal.text}"}
    return {}


def _requests(link: Link, layout: Layout, bank: int) -> list[tuple[Any, Any]]:
    requests = []
    for place in range(layout.train):
        # The last packet of each queue pair reports: then all before it have left this memory.
        last = place >= layout.train - layout.paths
        offset = layout.slot(bank, place)
        request = link.write(offset, layout.packet_bytes, to=offset, signaled=last)
        requests.append((link.posts[place % layout.paths], request))
    return requests


def _stamp(words: memoryview, layout: Layout, train: int) -> None:
    last = layout.packet_bytes // WORD_BYTES - 1
    for place in range(layout.train):
        first = layout.slot(train % BANKS, place) // WORD_BYTES
        words[first] = words[first + last] = stamp(train, place)


class _Count:
    """What the target has seen of the trains."""

    def __init__(self, words: memoryview, layout: Layout) -> None:
        self._words, self._layout = words, layout
        self._step = layout.packet_bytes // WORD_BYTES
        self.trains = 0
        self.late = 0
        self.missing = [0] * layout.paths
        self.corrupt = [0] * layout.paths
        self._open: dict[int, list[int]] = {}

    def absent(self, train: int) -> list[int]:
        """Return the places whose packet of this train is not, or not wholly, there."""
        words, step, layout = self._words, self._step, self._layout
        first = layout.slot(train % BANKS, 0) // WORD_BYTES
        mark = stamp(train, 0)
        return [
            place
            for place in range(layout.train)
            if words[first + place * step] != mark + place
            or words[first + place * step + step - 1] != mark + place
        ]

    def settle(self, train: int) -> list[int]:
        """Wait until nothing comes any more, and return what is absent."""
        absent = self.absent(train)
        since = perf_counter_ns()
        while absent and perf_counter_ns() - since < QUIET_S * 1e9:
            time.sleep(NAP_S)
            now = self.absent(train)
            if len(now) < len(absent):
                since = perf_counter_ns()
            absent = now
        return absent

    def close(self, train: int) -> None:
        """Count a train for good, before its bank is used again."""
        was = self._open.pop(train, None)
        if was is None:
            return
        absent = self.absent(train) if was else []
        self.late += len(was) - len(absent)
        for place in absent:
            kind = self.corrupt if self._is_torn(train, place) else self.missing
            kind[place % self._layout.paths] += 1

    def _is_torn(self, train: int, place: int) -> bool:
        first = self._layout.slot(train % BANKS, place) // WORD_BYTES
        mark = stamp(train, place)
        return (self._words[first] == mark) != (self._words[first + self._step - 1] == mark)

    def take(self, train: int) -> None:
        """Note a train that the source has sent."""
        self._open[train] = self.settle(train)
        self.close(train - 1)
        self.trains = train

    def result(self) -> dict[str, Any]:
        """Return the numbers, in all and by queue pair."""
        self._open = {train: self.settle(train) if absent else [] for train, absent in self._open.items()}
        self.close(self.trains)
        by_path = [
            {"sent": self.trains * SLOTS, "missing": missing, "corrupt": corrupt}
            for missing, corrupt in zip(self.missing, self.corrupt)
        ]
        numbers = {
            "sent": self.trains * self._layout.train,
            "missing": sum(self.missing),
            "corrupt": sum(self.corrupt),
            "late": self.late,
        }
        return {"numbers": numbers, "numbers_by_path": by_path}


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Count all trains; if the source stops on the way, what was counted so far stands."""
    layout = _layout(parameters, link.path_mtu_bytes)
    word = _Word(link, guard)
    count = _Count(link.buffer.cast("Q"), layout)
    with undisturbed():
        try:
            for train in range(1, layout.trains + 1):
                word.hear(train)
                count.take(train)
                word.say(train)
        except Refusal:
            if not count.trains:
                raise
    return count.result()
