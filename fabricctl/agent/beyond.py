"""Messages of several packets, tried in every run of a probe.

A path with too small an MTU somewhere carries short messages at full speed and swallows every packet of the
path MTU, so that a probe of eight bytes passes where no job would run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fabricctl.agent.guard import Guard
from fabricctl.agent.link import Link
from fabricctl.agent.wire import PEER, Refusal

PACKETS = 4
"""Packets of the path MTU in one such message."""
EACH = 4
"""Messages on each queue pair."""


def room_bytes(parameters: Mapping[str, Any]) -> int:
    """Return how much memory a probe needs for these messages: they lie at its beginning."""
    return PACKETS * int(parameters["path_mtu_bytes"])


@dataclass(frozen=True)
class Passed:
    """Short messages that were answered on the same queue pairs before."""

    count: int
    length_bytes: int


def beyond(
    link: Link, op: str, passed: Passed, guard: Guard, *, pairs: Sequence[int] = (0,)
) -> dict[str, Any]:
    """Send a few long messages, one at a time, and return what became of them.

    Parameters
    ----------
    op
        READ or WRITE. A SEND would leave the other end waiting if it is lost; its packets are those of a
        WRITE.
    pairs
        The queue pairs to try, each with the same number. One that gives up takes no further request, so
        this is the last thing to do on them.

    Returns
    -------
    dict
        ``numbers``, and ``stopped`` with the reason if one was not answered.

    Raises
    ------
    Refusal
        It could not be tried: the time is up. That no answer came is a result.
    """
    length = PACKETS * link.path_mtu_bytes
    numbers = {
        "small_bytes": passed.length_bytes,
        "small_answered": passed.count,
        "large_bytes": length,
        "large_asked": EACH * len(pairs),
        "large_answered": 0,
    }
    for pair in pairs:
        for _ in range(EACH):
            try:
                link.round_trips(op, length, 1, guard, pair=pair)
            except Refusal as refusal:
                if refusal.kind != PEER:
                    raise
                return {"numbers": numbers, "stopped": f"on queue pair {pair + 1}: {refusal.text}"}
            numbers["large_answered"] += 1
    return {"numbers": numbers}
