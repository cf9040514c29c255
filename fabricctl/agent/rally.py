"""A probe of messages that go there and back: both sides send, one of them times."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fabricctl.agent.beyond import Passed, beyond
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import WRITE, Link
from fabricctl.agent.timing import latencies, pinned, undisturbed


@dataclass(frozen=True)
class Rally:
    """How the messages go.

    Parameters
    ----------
    op
        WRITE or SEND.
    inbound
        Where in its memory each side receives; it sends from offset 0.
    """

    op: str
    inbound: int

    def serve(self, link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
        """Return half of each round trip, from before the post until the answer is there."""
        warmup = int(parameters["warmup"])
        with pinned(link.local_cpus) as cpus, undisturbed():
            took = self._play(link, parameters, guard, first=True)
        found = latencies([round_trip // 2 for round_trip in took[warmup:]], warmup=warmup, cpus=cpus)
        # Long WRITEs have the same packets as long SENDs, and nobody waits for one that is lost.
        return {**found, **beyond(link, WRITE, Passed(len(took), int(parameters["message_bytes"])), guard)}

    def answer(self, link: Link, parameters: Mapping[str, Any], guard: Guard) -> dict[str, Any]:
        """Answer each message with one of its own."""
        with pinned(link.local_cpus) as cpus, undisturbed():
            self._play(link, parameters, guard, first=False)
        return {"cpus": cpus}

    def _play(self, link: Link, parameters: Mapping[str, Any], guard: Guard, *, first: bool) -> array[int]:
        size = int(parameters["message_bytes"])
        # In one call: the first message after the warm-up follows as closely on the last one as all others.
        count = int(parameters["warmup"]) + int(parameters["samples"])
        return link.pingpong(self.op, size, self.inbound, count, guard, first=first)
