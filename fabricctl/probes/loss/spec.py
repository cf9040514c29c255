"""What ``loss`` measures; known to the controller and to the nodes."""

from __future__ import annotations

from dataclasses import dataclass

NAME = "loss"
MEASURES = (
    "Packets lost one way, from source to target: RDMA WRITEs of exactly one path MTU on unreliable"
    " connections, each stamped with its number at both ends and counted in the target's memory, over several"
    " queue pairs with flow labels of their own; late, reordered and duplicate packets are not lost ones."
    " Where a NIC has no unreliable connections: the same on reliable ones, by its counters of gaps"
)
TRAIN = 128
"""Packets that are under way in all before the target must have answered, if the queue pairs divide it."""
LEAST_SLOTS = 4
"""Packets of a train on one queue pair at the least."""
BANKS = 2
"""Trains of packets take turns in two banks of slots, so that late ones can still be told from lost ones."""
HEAD_BYTES = 4096
"""In front of the slots: the word in which the target says that it has seen enough."""
TOGETHER = 8
"""Packets that are taken to be lost together, on average, by who has not seen it.

An assumption, no measurement: bounds that rest on it say so. A switch's full queue drops what comes until it
has drained a little, and that may be more.
"""
ENOUGH_EVENTS, ENOUGH_LOST = 100, 100 * TOGETHER
"""Events, or lost packets, after which more of them would only take time: each costs a wait.

A hundred events give a rate to within about 20 %. An interval that is exact for a number of packets set
beforehand also holds where the number of losses ends the count (inverse sampling), for the lower bound is
the same and the upper one is smaller.
"""
LOOK_EVERY = 8
"""Trains between two looks of the source at that word."""
STARTUP_S = 10.0
SLOW_TRAINS, SLOW_TRAIN_S, TRAIN_S = 32, 5.0, 0.5
"""How many trains of :data:`TRAIN` packets may take so many seconds each, and what all others may on average.

Emulated NICs take seconds for a train of full-size packets, and the packets that show 1e-3 are 24 trains. A
NIC takes less than a millisecond: a proof of 1e-5 must not be waited for as if each train were emulated.
"""
WATCH_S = 0.005
"""Seconds without an arrival after which the target stops to watch a train come in, and waits for its end."""
QUIET_S = 0.2
"""Seconds without any arrival after which what has not come is called lost."""
FIRST_QUIET_S = 2.0
"""The same the first time, when nothing is known yet of how long the target's host may stand still.

It is as long as a reliable connection sends again before it gives up (7 times 268 ms): what comes later is
lost to any application.
"""
UNRELIABLE = "unreliable"
"""Parameter: 0 if the NIC has no unreliable connections. Then its counters are the evidence."""
ENDS_EARLY = "ends_early"
"""Parameter: 1 if the count may end when it has seen enough losses; 0 where some are tolerated."""


@dataclass(frozen=True)
class Layout:
    """Where the packets lie in memory, the same on both sides.

    Parameters
    ----------
    paths
        Number of unreliable queue pairs.
    packet_bytes
        The path MTU.
    packets
        Least number of packets to send; it is rounded up to full trains.
    """

    paths: int
    packet_bytes: int
    packets: int

    @property
    def slots(self) -> int:
        """Packets of a train on one queue pair."""
        return max(LEAST_SLOTS, TRAIN // self.paths)

    @property
    def train(self) -> int:
        """Packets in one train."""
        return self.paths * self.slots

    @property
    def trains(self) -> int:
        """Number of trains."""
        return -(-self.packets // self.train)

    @property
    def bytes(self) -> int:
        """Size of the memory."""
        return HEAD_BYTES + BANKS * self.train * self.packet_bytes

    def slot(self, bank: int, place: int) -> int:
        """Return the offset of a slot; `place` 0..train-1 counts through the paths first."""
        return HEAD_BYTES + (bank * self.train + place) * self.packet_bytes


def stamp(train: int, place: int) -> int:
    """Return what a packet carries in its first and its last eight bytes; never 0. Trains count from 1."""
    return train << 20 | place


def train_of(stamped: int) -> int:
    """Return the train of a stamp."""
    return stamped >> 20


def deadline_s(packets: int, paths: int, *, ends_early: bool) -> float:
    """Return how long the probe may run, in seconds, with the waits for packets that were lost.

    Where losses end the count, only so many trains can be waited for.
    """
    layout = Layout(paths, 0, packets)
    trains = layout.trains * layout.train / TRAIN
    long_waits = min(layout.trains, ENOUGH_EVENTS + LOOK_EVERY)
    short_waits = 0 if ends_early else layout.trains - long_waits
    waits_s = FIRST_QUIET_S * long_waits + QUIET_S * short_waits
    return STARTUP_S + SLOW_TRAIN_S * min(trains, SLOW_TRAINS) + TRAIN_S * trains + waits_s
