"""``loss`` on the nodes.

The source sends a train of stamped packets on the unreliable queue pairs, then writes the train's number
on the reliable one. The target watches the slots, waits while packets still come, counts, and writes the
number back. What it has counted it clears, so that a second copy of a packet shows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from time import perf_counter_ns
from typing import Any

from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, READ, UC, Link, Setup
from fabricctl.agent.timing import undisturbed
from fabricctl.agent.wire import PEER, Refusal
from fabricctl.probes.loss.spec import (
    BANKS,
    ENDS_EARLY,
    ENOUGH_EVENTS,
    ENOUGH_LOST,
    FIRST_QUIET_S,
    LOOK_EVERY,
    QUIET_S,
    UNRELIABLE,
    WATCH_S,
    Layout,
    stamp,
    train_of,
)

WORD_BYTES = 8
SHORTEST_NAP_S, LONGEST_NAP_S = 0.0005, 0.008
NAPS_AT_MOST = 4
"""Naps that the time between two looks may count for: what is more, this process did not run."""
FEWEST_BATCHES = 32


def _layout(parameters: Mapping[str, Any], packet_bytes: int) -> Layout:
    return Layout(int(parameters["queue_pairs"]), packet_bytes, int(parameters["packets"]))


def _is_reliable(parameters: Mapping[str, Any]) -> bool:
    return not int(parameters.get(UNRELIABLE, 1))


def setup(parameters: Mapping[str, Any]) -> Setup:
    """Ask for the queue pairs of the paths, then a reliable one for the two sides to agree over."""
    layout = _layout(parameters, int(parameters["path_mtu_bytes"]))
    kind = RC if _is_reliable(parameters) else UC
    return Setup(
        queue_pairs=(kind,) * layout.paths + (RC,), buffer_bytes=layout.bytes, depth=layout.slots + 2
    )


def fall_back(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters to try where the NIC refuses this probe's queue pairs."""
    return {**parameters, UNRELIABLE: 0}


def source(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Send all trains.

    Raises
    ------
    Refusal
        The connection broke, at once or on the way: an error even where trains were counted, since only that
        is told at once, and the other end would wait until its time is up.
    """
    layout = _layout(parameters, link.path_mtu_bytes)
    done = 0
    with undisturbed():
        try:
            for train in range(1, layout.trains + 1):
                first = layout.slot(train % BANKS, 0)
                mark = stamp(train, 0)
                link.burst(first, layout.packet_bytes, layout.train, layout.paths, mark, guard)
                link.word_out(train, guard)
                link.word_in(train, guard)
                done = train
                if train % LOOK_EVERY == 0 and _has_enough(link, layout, guard):
                    break
        except Refusal as refusal:
            raise _on_the_way(refusal, done, layout) from refusal
    return {}


def _on_the_way(refusal: Refusal, done: int, layout: Layout) -> Refusal:
    """Return the same refusal, with how far this end had come."""
    return (
        Refusal(refusal.kind, f"after {done} of {layout.trains} trains: {refusal.text}") if done else refusal
    )


def _has_enough(link: Link, layout: Layout, guard: Guard) -> bool:
    """Read from the target's memory whether it has seen enough."""
    link.round_trips(READ, WORD_BYTES, 1, guard, pair=layout.paths)
    return any(link.buffer[:WORD_BYTES])


def target(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Count all trains; if the source stops on the way, what was counted so far stands.

    Raises
    ------
    Refusal
        The connection broke, as at the source; or no train was counted.
    """
    layout = _layout(parameters, link.path_mtu_bytes)
    if _is_reliable(parameters):
        return _target_of_reliable(link, layout, guard)
    count = Count(link, layout)
    ends_early = bool(int(parameters.get(ENDS_EARLY, 0)))
    with undisturbed():
        try:
            for train in range(1, layout.trains + 1):
                count.take(train, guard)
                enough = ends_early and train % LOOK_EVERY == 0 and count.has_enough()
                if enough:
                    link.buffer[0] = 1
                link.word_out(train, guard)
                if enough:
                    break
        except Refusal as refusal:
            if refusal.kind == PEER or not count.trains:
                raise _on_the_way(refusal, count.trains, layout) from refusal
    return count.result()


def _target_of_reliable(link: Link, layout: Layout, guard: Guard) -> dict[str, Any]:
    """Answer trains of which nothing can be missing: the NICs' counters say what was sent again."""
    done = 0
    with undisturbed():
        try:
            for train in range(1, layout.trains + 1):
                link.word_in(train, guard)
                done = train
                link.word_out(train, guard)
        except Refusal as refusal:
            if refusal.kind == PEER or not done:
                raise _on_the_way(refusal, done, layout) from refusal
    return {"numbers": {"operations": done * layout.train}}


class Bank:
    """The slots of one train in the target's memory."""

    def __init__(self, link: Link, layout: Layout, train: int) -> None:
        self.train = train
        self.first = layout.slot(train % BANKS, 0)
        self._link, self._layout, self._mark = link, layout, stamp(train, 0)
        self._step = layout.packet_bytes // WORD_BYTES
        words, begin = link.buffer.cast("Q"), self.first // WORD_BYTES
        end = begin + layout.train * self._step
        self.heads = words[begin : end : self._step]
        self.tails = words[begin + self._step - 1 : end : self._step]

    def present(self) -> Iterable[int]:
        """Return the places that hold this train's packets, from end to end; the slots are cleared."""
        layout = self._layout
        absent = self._link.absent(self.first, layout.packet_bytes, layout.train, self._mark)
        if not absent:
            self.clear()
            return range(layout.train)
        if len(absent) == layout.train:
            return ()
        there = set(range(layout.train)).difference(absent)
        for place in there:
            self.heads[place] = self.tails[place] = 0
        return there

    def is_torn(self, place: int) -> bool:
        """Return whether one end of the packet is there and the other is not."""
        mark = self._mark + place
        return (self.heads[place] == mark) != (self.tails[place] == mark)

    def strays(self) -> list[int]:
        """Return the places that hold a packet of an older train."""
        return [
            place for place, held in enumerate(self.heads.tolist()) if held and train_of(held) != self.train
        ]

    def clear(self) -> None:
        """Make the slots ready for their next train."""
        nothing = memoryview(bytes(WORD_BYTES * self._layout.train)).cast("Q")
        self.heads[:] = nothing
        self.tails[:] = nothing


class Arrivals:
    """Which packets of one train have come, and in what order as far as it could be seen.

    A packet is reordered if it came after one that was sent later on the same queue pair. That is seen only
    if the target looked in between, so it is a lower bound. Two looks back is what counts as "before": while
    a look goes through the slots packets come in, which may be in order.
    """

    def __init__(self, bank: Bank, layout: Layout) -> None:
        self.bank = bank
        self.awaited = set(range(layout.train))
        self.reordered = [0] * layout.paths
        self.duplicates = [0] * layout.paths
        self._paths = layout.paths
        self._highest = [-1] * layout.paths
        self._highest_before = [-1] * layout.paths

    def look(self) -> int:
        """Take note of what has come; return how many packets that were awaited."""
        there = self.bank.present()
        new = self.awaited.intersection(there)
        if len(new) < len(there):  # type: ignore[arg-type]  # a set, a range or nothing: they have lengths
            for place in set(there).difference(new):
                self.duplicates[place % self._paths] += 1
        for place in new:
            if place < self._highest_before[place % self._paths]:
                self.reordered[place % self._paths] += 1
        self._highest_before = list(self._highest)
        for place in new:
            path = place % self._paths
            self._highest[path] = max(self._highest[path], place)
        self.awaited -= new
        return len(new)

    def watch(self) -> None:
        """Look while packets come in, so that their order is seen."""
        since = perf_counter_ns()
        while self.awaited and perf_counter_ns() - since < WATCH_S * 1e9:
            if self.look():
                since = perf_counter_ns()

    def settle(self, quiet_s: float) -> float:
        """Wait until nothing has come for `quiet_s`; return the longest wait that a packet did end, seconds.

        Time in which this process itself did not run is no quiet time: the NIC's driver may not have run
        either.
        """
        quiet = longest = 0.0
        nap_s, looked = SHORTEST_NAP_S, perf_counter_ns()
        self.look()
        while self.awaited and quiet < quiet_s:
            time.sleep(nap_s)
            now = perf_counter_ns()
            quiet += min((now - looked) / 1e9, NAPS_AT_MOST * nap_s)
            looked = now
            if self.look():
                longest = max(longest, quiet)
                quiet, nap_s = 0.0, SHORTEST_NAP_S
            else:
                nap_s = min(2 * nap_s, LONGEST_NAP_S)
        return longest


class Batches:
    """Losses in equal stretches of time, from which their spread shows whether they come in bursts.

    There are never as many as twice :data:`FEWEST_BATCHES`: then each two become one.
    """

    def __init__(self) -> None:
        self._lost: list[int] = []
        self._trains = 1
        self._now, self._within = 0, 0

    def add(self, lost: int) -> None:
        """Add the losses of the next train."""
        self._now += lost
        self._within += 1
        if self._within < self._trains:
            return
        self._lost.append(self._now)
        self._now = self._within = 0
        if len(self._lost) == 2 * FEWEST_BATCHES:
            self._lost = [one + other for one, other in zip(self._lost[::2], self._lost[1::2])]
            self._trains *= 2

    def result(self, packets_of_train: int) -> dict[str, int]:
        """Return number, size, sum and sum of squares; a stretch that is not full is left out."""
        return {
            "batches": len(self._lost),
            "batch_packets": self._trains * packets_of_train,
            "batch_lost": sum(self._lost),
            "batch_squares": sum(lost * lost for lost in self._lost),
        }


class Count:
    """What the target has seen of all trains."""

    def __init__(self, link: Link, layout: Layout) -> None:
        self._link, self._layout = link, layout
        paths = layout.paths
        self.trains = 0
        self._open: Arrivals | None = None
        self._batches = Batches()
        self._quiet_s = FIRST_QUIET_S
        self._late = 0
        self._missing, self._corrupt, self._events = [0] * paths, [0] * paths, [0] * paths
        self._reordered, self._duplicates, self._unclear = [0] * paths, [0] * paths, [0] * paths
        self._last_lost = [-2] * paths

    def take(self, train: int, guard: Guard) -> None:
        """Watch a train come in, hear that it was sent, and wait for what is on its way."""
        arrivals = Arrivals(Bank(self._link, self._layout, train), self._layout)
        arrivals.watch()
        self._link.word_in(train, guard)
        self._settle(arrivals)
        self._close()
        self._open = arrivals
        self.trains = train

    def _settle(self, arrivals: Arrivals) -> None:
        longest = arrivals.settle(self._quiet_s)
        if arrivals.awaited:  # from now on losses are known to be real; each need not take as long
            self._quiet_s = QUIET_S
        self._quiet_s = min(FIRST_QUIET_S, max(self._quiet_s, NAPS_AT_MOST * longest))

    def _close(self) -> None:
        """Count a train for good, before its bank is used again."""
        arrivals, self._open = self._open, None
        if arrivals is None:
            return
        late = arrivals.look() if arrivals.awaited else 0
        arrivals.look()  # a second copy of what had come
        self._late += late
        bank, paths = arrivals.bank, self._layout.paths
        for place in bank.strays():
            self._duplicates[place % paths] += 1
            if place in arrivals.awaited:  # it may have come before the stray did: nobody knows
                arrivals.awaited.discard(place)
                self._unclear[place % paths] += 1
        for place in sorted(arrivals.awaited):
            self._lose(bank, place)
        for path in range(paths):
            self._reordered[path] += arrivals.reordered[path]
            self._duplicates[path] += arrivals.duplicates[path]
        self._batches.add(len(arrivals.awaited))
        bank.clear()

    def _lose(self, bank: Bank, place: int) -> None:
        path = place % self._layout.paths
        kind = self._corrupt if bank.is_torn(place) else self._missing
        kind[path] += 1
        order = (bank.train - 1) * self._layout.slots + place // self._layout.paths
        if order != self._last_lost[path] + 1:
            self._events[path] += 1
        self._last_lost[path] = order

    def has_enough(self) -> bool:
        """Return whether the rate is known well enough to end."""
        return sum(self._events) >= ENOUGH_EVENTS or sum(self._missing) + sum(self._corrupt) >= ENOUGH_LOST

    def result(self) -> dict[str, Any]:
        """Return the numbers, in all and by queue pair."""
        if self._open is not None:
            self._settle(self._open)
        self._close()
        sent = self.trains * self._layout.slots
        by_path = [
            {
                "sent": sent - self._unclear[path],
                "missing": self._missing[path],
                "corrupt": self._corrupt[path],
                "events": self._events[path],
                "reordered": self._reordered[path],
                "duplicate": self._duplicates[path],
            }
            for path in range(self._layout.paths)
        ]
        numbers = {name: sum(path[name] for path in by_path) for name in by_path[0]}
        numbers.update(late=self._late, unclear=sum(self._unclear))
        numbers.update(self._batches.result(self._layout.train))
        return {"numbers": numbers, "numbers_by_path": by_path}
