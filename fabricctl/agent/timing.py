"""The timed loops. Requests are prepared once and reused: making one costs as much as the NIC takes."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

from fabricctl.agent.guard import Guard
from fabricctl.agent.link import Link, Poll
from fabricctl.agent.wire import PEER, Refusal

TURNS = range(256)
"""Turns of a busy loop between two looks at the clock."""

STATUS = {
    4: "local protection error",
    5: "flushed after an earlier error",
    9: "the peer's NIC refused the request as invalid",
    10: "the peer's NIC refused access to its memory",
    11: "the peer's NIC could not do it",
    12: "no answer from the peer to any of the transmissions (transport retries exceeded)",
    13: "the peer was not ready (RNR retries exceeded)",
}
"""What a completion's status (enum ibv_wc_status) means."""


def complain(status: int) -> Refusal:
    """Return the error for a completion that failed."""
    return Refusal(PEER, f"{STATUS.get(status, 'completed with an error')} [status {status}]")


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep Python from collecting garbage in the middle of a measurement."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def complete(poll: Poll, guard: Guard) -> None:
    """Wait for one completion.

    Raises
    ------
    Refusal
        It failed (kind ``peer``), or none came in time (kind ``deadline``).
    """
    while True:
        for _ in TURNS:
            status = poll()
            if status is not None:
                if status:
                    raise complain(status)
                return
        guard.check("the completion of a request")


def round_trips(link: Link, request: Any, count: int, guard: Guard) -> array[int]:
    """Time `count` requests on the first queue pair, one after the other.

    Returns
    -------
    array
        Nanoseconds from before the post until its completion was seen, each.
    """
    post, poll, clock = link.posts[0], link.poll, perf_counter_ns
    took = array("Q", bytes(8 * count))
    for index in range(count):
        start = clock()
        post(request)
        status = None
        while status is None:
            for _ in TURNS:
                status = poll()
                if status is not None:
                    break
            else:
                guard.check("the completion of a request")
        took[index] = clock() - start
        if status:
            raise complain(status)
    return took


def timed(link: Link, request: Any, *, warmup: int, count: int, guard: Guard) -> list[int]:
    """Return `count` round trips in nanoseconds, after `warmup` that are not counted."""
    with undisturbed():
        round_trips(link, request, warmup, guard)
        return round_trips(link, request, count, guard).tolist()
