"""What timed runs share: quiet, warm-up, CPUs near the NIC."""

from __future__ import annotations

import gc
import os
import threading
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from fabricctl.agent import timing
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, READ
from fabricctl.agent.timing import (
    complain,
    complete,
    cpu_list,
    latencies,
    parse_cpus,
    pinned,
    timed,
    undisturbed,
)
from fabricctl.agent.wire import Refusal
from fabricctl.model.histogram import Histogram


class _Link:
    """Counts what it is asked for; each operation takes one nanosecond more than the one before."""

    local_cpus = ""
    floor: int | None = None
    hardware_ns: array[int] | None = None

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.collecting: set[bool] = set()
        self.cpus: list[set[int]] = []

    def floor_ns(self, op: str, length: int, guard: Guard) -> int | None:
        del op, length, guard
        return self.floor

    def round_trips(self, op: str, length: int, count: int, guard: Guard, *, pair: int = 0) -> array[int]:
        del guard
        assert pair == 0
        self.asked.append((op, length, count))
        self.collecting.add(gc.isenabled())
        self.cpus.append(os.sched_getaffinity(0))
        return array("Q", range(1000, 1000 + count))


def test_every_sample_is_kept_and_the_warmup_is_counted_apart(guard: Guard) -> None:
    link = _Link()
    result = timed(link, READ, 64, warmup=7, count=20, guard=guard)  # type: ignore[arg-type]
    assert link.asked == [(READ, 64, 7), (READ, 64, 20)]
    assert Histogram.decode(result.pop("latencies")) == Histogram.of(range(1000, 1020))
    assert result == {"warmup": 7, "cpus": ""}
    assert link.collecting == {False}
    assert gc.isenabled()


def test_no_warmup_is_no_call(guard: Guard) -> None:
    link = _Link()
    assert timed(link, READ, 8, warmup=0, count=3, guard=guard)["warmup"] == 0  # type: ignore[arg-type]
    assert link.asked == [(READ, 8, 3)]


def test_times_of_the_nics_clock_and_the_floor_go_along(guard: Guard) -> None:
    link = _Link()
    link.hardware_ns = array("Q", [900, 901, 990])
    link.floor = 0
    result = timed(link, READ, 8, warmup=0, count=3, guard=guard)  # type: ignore[arg-type]
    assert (result["hardware_median_ns"], result["floor_ns"]) == (901, 0)


def test_loop_runs_near_the_nic_and_all_cpus_are_given_back(guard: Guard) -> None:
    before = os.sched_getaffinity(0)
    link = _Link()
    link.local_cpus = f"{max(before)},100000-100003"
    result = timed(link, READ, 8, warmup=1, count=1, guard=guard)  # type: ignore[arg-type]
    assert link.cpus == [{max(before)}] * 2
    assert result["cpus"] == str(max(before))
    assert os.sched_getaffinity(0) == before


def test_all_cpus_are_given_back_after_a_failure() -> None:
    before = os.sched_getaffinity(0)

    def fail() -> None:
        with pinned(str(min(before))) as used:
            assert used == str(min(before))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("cpus", ["", "100000", "none", "0-", "-3"])
def test_nothing_is_changed_where_the_list_says_nothing_usable(cpus: str) -> None:
    before = os.sched_getaffinity(0)
    with pinned(cpus) as used:
        assert used == ""
        assert os.sched_getaffinity(0) == before


def test_other_threads_keep_their_cpus() -> None:
    before = os.sched_getaffinity(0)
    seen: list[set[int]] = []
    start, done = threading.Event(), threading.Event()

    def other() -> None:
        start.wait(10)
        seen.append(os.sched_getaffinity(0))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with pinned(str(min(before))):
        start.set()
        done.wait(10)
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", {0}), ("0-2,5", {0, 1, 2, 5}), ("1,3,5", {1, 3, 5}), ("8-9,0-1", {0, 1, 8, 9})],
)
def test_lists_of_cpus(text: str, numbers: set[int]) -> None:
    assert parse_cpus(text) == numbers
    assert parse_cpus(cpu_list(numbers)) == numbers


def test_list_of_cpus_is_written_as_the_kernel_does() -> None:
    assert cpu_list({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8"
    assert cpu_list(set()) == ""


def test_nothing_measured_is_an_empty_histogram() -> None:
    assert not Histogram.decode(latencies([], warmup=3, cpus="")["latencies"])


def test_garbage_is_not_collected_meanwhile_even_one_in_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    monkeypatch.setattr(timing.gc, "collect", lambda: collected.append(1))
    with undisturbed():
        with undisturbed():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    assert collected == [1]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (12, "no answer from the peer to any of the transmissions (transport retries exceeded) [status 12]"),
        (10, "the peer's NIC refused access to its memory [status 10]"),
        (99, "completed with an error [status 99]"),
    ],
)
def test_failed_completion_is_the_peers_and_says_what(status: int, text: str) -> None:
    assert (complain(status).kind, complain(status).text) == ("peer", text)


def test_a_wait_has_a_deadline(guard: Guard) -> None:
    guard.until_ns = 0
    with pytest.raises(Refusal) as caught:
        complete(lambda: None, guard)
    assert caught.value.kind == "deadline"


def test_a_wait_can_be_called_off(guard: Guard) -> None:
    guard.call_off(0)
    with pytest.raises(Refusal, match="called off"):
        complete(lambda: None, guard)


Make = Callable[..., Any]


def test_real_engine_gives_a_result_as_json(couple: Make, guard: Guard) -> None:
    result = timed(couple(RC).near, READ, 64, warmup=5, count=40, guard=guard)
    found = Histogram.decode(result["latencies"])
    assert found.samples == 40
    assert found.minimum is not None
    assert found.minimum > 0
    assert (result["warmup"], result["cpus"]) == (5, "")
    assert result["floor_ns"] > 0
