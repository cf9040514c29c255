"""What every timed run shares: what a completion means, quiet around it, warm-up, CPUs near the NIC."""

from __future__ import annotations

import gc
import os
import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

from fabricctl.agent.guard import Guard
from fabricctl.agent.link import Link
from fabricctl.agent.wire import PEER, Refusal
from fabricctl.model.histogram import Histogram

TURNS = range(256)
"""Turns of a busy loop between two looks at the clock."""

STATUS = {
    1: "a message was longer than the receive that was posted for it",
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
    if not gc.isenabled():
        yield
        return
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def complete(poll: Callable[[], Optional[int]], guard: Guard) -> None:
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


@contextmanager
def pinned(cpus: str) -> Iterator[str]:
    """Keep the calling thread on CPUs near the NIC, and give the others back afterwards.

    Parameters
    ----------
    cpus
        As the kernel lists them, ``0-15,32-47``; empty to change nothing.

    Yields
    ------
    str
        `cpus`, or empty where nothing was changed: not known, or none of them is allowed to this process.
    """
    before = os.sched_getaffinity(0)
    wanted = before & parse_cpus(cpus)
    if not wanted:
        yield ""
        return
    os.sched_setaffinity(0, wanted)
    try:
        yield cpu_list(wanted)
    finally:
        os.sched_setaffinity(0, before)


def parse_cpus(cpus: str) -> set[int]:
    """Return the numbers in a list of CPUs, none if it is empty or not such a list."""
    numbers: set[int] = set()
    for part in cpus.split(","):
        first, dash, last = part.strip().partition("-")
        if not dash:
            last = first
        if not first.isdigit() or not last.isdigit():
            return set()
        numbers.update(range(int(first), int(last) + 1))
    return numbers


def cpu_list(numbers: Iterable[int]) -> str:
    """Return a list of CPUs as the kernel writes it."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(str(n) for n in run) for run in runs)


def timed(link: Link, op: str, length: int, *, warmup: int, count: int, guard: Guard) -> dict[str, Any]:
    """Time round trips, near the NIC, after some that are not counted.

    Parameters
    ----------
    op, length
        As in ``Link.round_trips``.
    warmup, count
        Numbers of operations, those that are thrown away and those that are kept.

    Returns
    -------
    dict
        What a latency probe's node half returns: see :func:`latencies`; ``floor_ns``, the median of the same
        operation of the own port to itself, where it has one; ``hardware_median_ns``, where the NIC stamps
        completions: the median of the time between two of them by its clock.
    """
    with pinned(link.local_cpus) as cpus, undisturbed():
        floor_ns = link.floor_ns(op, length, guard)
        if warmup:
            link.round_trips(op, length, warmup, guard)
        took = link.round_trips(op, length, count, guard)
    result = latencies(took, warmup=warmup, cpus=cpus)
    if floor_ns is not None:
        result["floor_ns"] = floor_ns
    if link.hardware_ns:
        result["hardware_median_ns"] = int(statistics.median(link.hardware_ns))
    return result


def latencies(took: Iterable[int], *, warmup: int, cpus: str) -> dict[str, Any]:
    """Return what a latency probe's node half returns.

    Returns
    -------
    dict
        ``latencies``: a histogram of `took` in nanoseconds, as text; ``warmup``: how many operations before
        are not in it; ``cpus``: where the loop was kept, empty where it was left to the kernel.
    """
    return {"latencies": Histogram.of(took).encode(), "warmup": warmup, "cpus": cpus}
