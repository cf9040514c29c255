"""What ``loss`` is, for both of its halves; standard library only."""

from __future__ import annotations

from dataclasses import dataclass

NAME = "loss"
MEASURES = (
    "Packets lost one way, from source to target: RDMA WRITEs of exactly one path MTU on unreliable"
    " connections, each stamped with its number at both ends and counted in the target's memory, over several"
    " queue pairs with flow labels of their own; late and reordered packets are not lost ones"
)
SLOTS = 32
"""Packets that are under way on one queue pair before the target must have answered."""
BANKS = 2
"""Trains of packets take turns in two banks of slots, so that late ones can still be told from lost ones."""
CONTROL_BYTES = 4096
"""In front of the slots: the word that the peer writes, and the one to send."""
WORD_IN, WORD_OUT = 0, 64
SLOWEST_S = 0.05
"""Seconds that a packet may take on average before the probe is given up."""
STARTUP_S = 10.0
QUIET_S = 0.2
"""Seconds without any arrival after which what has not come is called lost."""


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
    def train(self) -> int:
        """Packets in one train."""
        return self.paths * SLOTS

    @property
    def trains(self) -> int:
        """Number of trains."""
        return -(-self.packets // self.train)

    @property
    def bytes(self) -> int:
        """Size of the memory."""
        return CONTROL_BYTES + BANKS * self.train * self.packet_bytes

    def slot(self, bank: int, place: int) -> int:
        """Return the offset of a slot; `place` 0..train-1 counts through the paths first."""
        return CONTROL_BYTES + (bank * self.train + place) * self.packet_bytes


def stamp(train: int, place: int) -> int:
    """Return what a packet carries in its first and its last eight bytes; never 0. Trains count from 1."""
    return train << 20 | place


def deadline_s(packets: int) -> float:
    """Return how long the probe may run, in seconds."""
    return STARTUP_S + SLOWEST_S * packets
