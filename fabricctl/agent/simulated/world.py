"""The model that simulated numbers are drawn from; seeded, so that the same run has the same numbers.

Latency
    Each pair takes the median of its topology class times a lognormal factor (sigma 0.03); each operation a
    lognormal factor of its own (sigma 0.08) and, once in 200, ten times as long: a queue. Of each class 256
    distributions are drawn, and a pair has one of them.
Loss
    Each packet is lost with the chance that the two ports' faults add up to, in the directions they name.
Bandwidth
    94 % of the line rate (100 Gbit/s where that is not known), over the pair's slowness.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fabricctl.model.histogram import Histogram

ANY = "any"
MEDIANS_NS = {"same_leaf": 2_000, "cross_leaf": 3_200, "cross_pod": 4_800, "cross_rail": 4_800}
"""What a class takes that the world does not name."""
DRAWN = 256
PAIR_SIGMA, OPERATION_SIGMA = 0.03, 0.08
QUEUED, QUEUE_FACTOR = 1 / 200, 10
GOODPUT_SHARE = 0.94
UNKNOWN_RATE_GBPS = 100
SENDS, RECEIVES, BOTH = "sends", "receives", "both"
MOST_DRAWN = 50_000
"""Packets up to which losses are drawn one by one; beyond, as many are lost as are to be expected."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a port.

    Parameters
    ----------
    loss
        Chance that a packet is lost there, 0 to 1.
    slow
        Factor on latencies, and divisor of bandwidth; 1 is as it should be.
    way
        ``sends``, ``receives``, or ``both``.
    """

    loss: float = 0.0
    slow: float = 1.0
    way: str = BOTH

    def counts(self, way: str) -> bool:
        """Say whether it shows in one direction."""
        return self.way in {way, BOTH}


_SOUND = Fault()


class World:
    """What the simulated ports are like.

    Parameters
    ----------
    told
        ``seed``; ``places``: by port its switch, pod and rail; ``latency_ns``: medians by class or ``any``;
        ``faults``: by port the fields of :class:`Fault`. All may be left out.
    """

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.seed = int(told.get("seed", 0))
        self._places: Mapping[str, list[Any]] = told.get("places", {})
        self._medians: Mapping[str, float] = told.get("latency_ns", {})
        self._faults = {port: Fault(**fields) for port, fields in told.get("faults", {}).items()}
        self._drawn: dict[tuple[str, float, int, int], list[str]] = {}

    @classmethod
    def parse(cls, line: str) -> World:
        """Return the world that a line of JSON describes."""
        return cls(json.loads(line))

    def topology(self, source: str, target: str) -> str:
        """Return the class of a pair, ``any`` where a port's place is not known."""
        near, far = self._places.get(source), self._places.get(target)
        if near is None or far is None:
            return ANY
        for index, name in ((2, "cross_rail"), (1, "cross_pod"), (0, "cross_leaf")):
            if near[index] != far[index] and {near[index], far[index]}.isdisjoint({None, ""}):
                return name
        return "same_leaf"

    def slowness(self, source: str, target: str) -> float:
        """Return the factor on a pair's latencies."""
        near, far = self._faults.get(source, _SOUND), self._faults.get(target, _SOUND)
        return (near.slow if near.counts(SENDS) else 1.0) * (far.slow if far.counts(RECEIVES) else 1.0)

    def latencies(self, source: str, target: str, probe: str, samples: int) -> str:
        """Return the latencies of a pair as an encoded histogram."""
        topology, slow = self.topology(source, target), self.slowness(source, target)
        # Every probe has its own, by a number that is the same in every process.
        key = (topology, slow, zlib.crc32(probe.encode()), samples)
        if key not in self._drawn:
            self._drawn[key] = [self._histogram(key, number) for number in range(DRAWN)]
        return self._drawn[key][zlib.crc32(f"{self.seed} {source} {target} {probe}".encode()) % DRAWN]

    def _histogram(self, key: tuple[str, float, int, int], number: int) -> str:
        topology, slow, probe, samples = key
        median = self._medians.get(topology, self._medians.get(ANY, MEDIANS_NS.get(topology, 2_500)))
        dice = random.Random(f"{self.seed} {topology} {slow} {probe} {number}")  # noqa: S311  no secret
        middle = median * slow * dice.lognormvariate(0, PAIR_SIGMA)
        values = []
        for _ in range(samples):
            queue = QUEUE_FACTOR if dice.random() < QUEUED else 1
            values.append(round(middle * queue * dice.lognormvariate(0, OPERATION_SIGMA)))
        return Histogram.of(values).encode()

    def lost(self, source: str, target: str, packets: int) -> int:
        """Return how many of a pair's packets are lost."""
        near, far = self._faults.get(source, _SOUND), self._faults.get(target, _SOUND)
        chance = (near.loss if near.counts(SENDS) else 0.0) + (far.loss if far.counts(RECEIVES) else 0.0)
        if not chance:
            return 0
        if packets > MOST_DRAWN:
            return min(packets, round(packets * chance))
        dice = random.Random(f"{self.seed} {source} {target} loss")  # noqa: S311  no secret
        return sum(dice.random() < chance for _ in range(packets))

    def carried(self, source: str, target: str, rate_gbps: float, seconds: float) -> int:
        """Return how many bytes a stream of so many seconds carries."""
        rate = (rate_gbps or UNKNOWN_RATE_GBPS) * GOODPUT_SHARE / self.slowness(source, target)
        return round(rate * 1e9 / 8 * seconds)
