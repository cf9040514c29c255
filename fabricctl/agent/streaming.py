"""What the bandwidth probes' node halves share: sizes, queue pairs, the order of things.

The two ends have one queue pair more than they stream on. Over it they tell each other what is to be done, by
a word at the beginning of their memory; the messages lie behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from fabricctl.agent.beyond import Passed, beyond, room_bytes
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, READ, SEND, WRITE, Flow, Link, Setup
from fabricctl.agent.timing import TURNS, pinned, undisturbed
from fabricctl.agent.wire import DEADLINE, Refusal

HEAD_BYTES = 64
"""In front of the messages: the word that the peer writes, on a cache line of its own."""
WORD_BYTES = 8
SMALL_BYTES = 8
SMALL_EACH = 4
"""Short messages that must be answered on each queue pair before long ones are tried."""
MOST_READS = 16
"""RDMA READs under way on a queue pair: what ConnectX allows (max_qp_rd_atom)."""
COUNT_BITS = 40
"""Lower bits of the word: a number of messages; above them the number of the word, which only grows."""
FIRST_WORDS = 2
"""Up to this number a word says whether long messages were answered."""
PATIENCE_S = 20.0
"""Longer than a side takes to find that nobody answers its long messages, nor then its word.

A connection that is not answered sends 7 times (``connection.RETRIES``), and ConnectX may wait up to 4 times
its ACK timeout of 268 ms each time: 1.9 to 7.5 s, and that twice.
"""
ENOUGH = 0.75
"""Part of the time asked for that a round of SENDs must last, since its number of messages is an estimate."""
MOST_GROWTH = 64
"""So many times the messages of the round before, at most."""


@dataclass(frozen=True)
class Load:
    """What is streamed.

    Parameters
    ----------
    sizes
        Message sizes in bytes.
    paths
        Queue pairs to stream on.
    depth
        Requests under way on each.
    seconds
        How long in one direction.
    """

    sizes: tuple[int, ...]
    paths: int
    depth: int
    seconds: float

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Load:
        """Return what the controller's half asks for."""
        return cls(
            sizes=tuple(int(size) for size in str(parameters["sizes"]).split(",")),
            paths=int(parameters["queue_pairs"]),
            depth=int(parameters["depth"]),
            seconds=float(parameters["seconds"]),
        )

    @property
    def lengths(self) -> list[int]:
        """The sizes in turn, each once for every queue pair, so that all of them carry the same mix."""
        return [size for size in self.sizes for _ in range(self.paths)]

    @property
    def pairs(self) -> range:
        """The queue pairs to stream on; the one behind them is for words."""
        return range(self.paths)


def setup(parameters: Mapping[str, Any], op: str) -> Setup:
    """Ask for the queue pairs, and memory for the word and the longest message."""
    load = Load.of(parameters)
    return Setup(
        queue_pairs=(RC,) * (load.paths + 1),
        buffer_bytes=HEAD_BYTES + max(*load.sizes, room_bytes(parameters)),
        depth=load.depth,
        receives=2 * load.depth if op == SEND else 0,
        reads=min(load.depth, MOST_READS) if op == READ else 1,
    )


def tried(link: Link, op: str, load: Load, guard: Guard) -> dict[str, Any]:
    """Try a few short messages, then long ones, on every queue pair; Refusal if a short one is lost."""
    for pair in load.pairs:
        link.round_trips(op, SMALL_BYTES, SMALL_EACH, guard, pair=pair)
    return beyond(link, op, Passed(SMALL_EACH * load.paths, SMALL_BYTES), guard, pairs=load.pairs)


def streamed(link: Link, op: str, load: Load, guard: Guard) -> dict[str, int]:
    """Stream for the time that is asked for, after a warm-up that is not counted, and return the numbers."""
    with pinned(link.local_cpus), undisturbed():
        lengths = load.lengths
        warm = link.stream(op, lengths, guard, count=len(lengths), pairs=load.pairs, offset=HEAD_BYTES)
        flow = link.stream(op, lengths, guard, seconds=load.seconds, pairs=load.pairs, offset=HEAD_BYTES)
    return numbers(flow, load, warm.messages)


def numbers(flow: Flow, load: Load, warmup: int) -> dict[str, int]:
    """Return a flow as a probe's numbers; the largest message is one that surely was sent."""
    # Whether queue pairs take the sizes in turn together or each by itself is the engine's matter.
    sent = load.lengths[: -(-flow.messages // load.paths)]
    return {
        "bytes": flow.bytes,
        "messages": flow.messages,
        "elapsed_ns": flow.nanoseconds,
        "largest_message_bytes": max(sent, default=0),
        "queue_pairs": load.paths,
        "warmup_messages": warmup,
    }


def one_way(link: Link, op: str, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Play the source of a READ or WRITE probe: the target's CPU takes no part."""
    load = Load.of(parameters)
    found = tried(link, op, load, guard)
    if "stopped" in found:
        return found
    return {"numbers": {**found["numbers"], **streamed(link, op, load, guard)}}


def tell(link: Link, load: Load, number: int, count: int, guard: Guard) -> None:
    """Write a word into the peer's memory; `number` must be above that of all words before, on both ends."""
    word = number << COUNT_BITS | count
    link.buffer[:WORD_BYTES] = word.to_bytes(WORD_BYTES, "little")
    link.round_trips(WRITE, WORD_BYTES, 1, guard, pair=load.paths)


def told(link: Link, number: int, guard: Guard) -> int:
    """Wait for the word of that number and return its count, 0 if nothing is to be done.

    Raises
    ------
    Refusal
        It did not come (kind ``deadline``): why, the other side knows. The first words are not waited for as
        long as there is time, for the other side may in turn be waiting for this one.
    """
    buffer, began = link.buffer, perf_counter_ns()
    while True:
        for _ in TURNS:
            word = int.from_bytes(buffer[:WORD_BYTES], "little")
            if word >> COUNT_BITS == number:
                return word & ((1 << COUNT_BITS) - 1)
        guard.check("the other side's word")
        if number <= FIRST_WORDS and perf_counter_ns() - began > PATIENCE_S * 1e9:
            raise Refusal(DEADLINE, f"no word from the other side within {PATIENCE_S:g} s")


def _stopped(link: Link, load: Load, number: int, found: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Tell the other side that long messages were not answered, and return what was found.

    Raises
    ------
    Refusal
        Nor can it be told: then it is an error (kind ``peer``), so that it need not wait for the word.
    """
    try:
        tell(link, load, number, 0, guard)
    except Refusal as refusal:
        text = f"{refusal.text}; long messages had stopped before {found['stopped']}"
        raise Refusal(refusal.kind, text) from refusal
    return dict(found)


def sent(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Play the source of SENDs. How many there will be is told beforehand, for each takes a receive.

    Rounds that turn out too short only find out how many messages fill the time; they are the warm-up.
    """
    load = Load.of(parameters)
    found = tried(link, WRITE, load, guard)
    if "stopped" in found:
        return _stopped(link, load, 1, found, guard)
    turn, number, warmup = len(load.lengths), 1, 0
    count = 4 * turn
    with pinned(link.local_cpus), undisturbed():
        while True:
            flow = _told_stream(link, load, number, count, guard)
            number += 1
            if flow.nanoseconds >= ENOUGH * load.seconds * 1e9:
                break
            warmup += flow.messages
            fitting = count * load.seconds * 1e9 / max(1, flow.nanoseconds)
            # Whole turns, as a part of one would have another mix of sizes; a short round tells little.
            count = turn * -(-int(min(fitting, MOST_GROWTH * count)) // turn)
    tell(link, load, number, 0, guard)
    return {"numbers": {**found["numbers"], **numbers(flow, load, warmup)}}


def _told_stream(link: Link, load: Load, number: int, count: int, guard: Guard) -> Flow:
    tell(link, load, number, count, guard)
    # What is received lies at the beginning of memory as well: the word must have been read before.
    link.word_in(number, guard)
    return link.stream(SEND, load.lengths, guard, count=count, pairs=load.pairs, offset=HEAD_BYTES)


def received(link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
    """Play the target of SENDs: take as many as are told, until none are to come."""
    load = Load.of(parameters)
    number, came = 1, 0
    with pinned(link.local_cpus), undisturbed():
        while True:
            count = told(link, number, guard)
            if not count:
                return {"numbers": {"received_messages": came}}
            link.word_out(number, guard)
            came = link.absorb(max(load.sizes), count, guard, pairs=load.pairs)
            number += 1


def both_ways(link: Link, parameters: Mapping[str, Any], guard: Guard, *, first: bool) -> dict[str, Any]:
    """Play either end of WRITEs in both directions at once.

    Neither end streams unless both found their long messages answered: a number from one direction alone
    would pass for one under the load of the other.
    """
    load = Load.of(parameters)
    own, other = (1, 2) if first else (2, 1)
    if not first and not told(link, other, guard):
        return {"numbers": {}}  # nothing can be tried with a side whose queue pairs gave up
    found = tried(link, WRITE, load, guard)
    if "stopped" in found:
        return _stopped(link, load, own, found, guard)
    tell(link, load, own, 1, guard)
    if first and not told(link, other, guard):
        return found
    return {"numbers": {**found["numbers"], **streamed(link, WRITE, load, guard)}}
