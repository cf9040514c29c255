"""What ends a request, and what does not: its time, and being called off."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from fabricctl.agent.guard import Guard
from fabricctl.agent.wire import DEADLINE, Refusal


@pytest.fixture
def guard() -> Iterator[Guard]:
    handler = signal.getsignal(signal.SIGALRM)
    yield Guard(60.0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, handler)


def test_time_that_is_up_is_a_deadline(guard: Guard) -> None:
    guard.begin(1, 60.0)
    guard.check()
    guard.allow(0.0)
    with pytest.raises(Refusal, match="no answer in time from the fabric") as caught:
        guard.check()
    assert caught.value.kind == DEADLINE


def _is_off(guard: Guard) -> bool:
    if not guard.flag.value:
        guard.check("a word")
        return False
    with pytest.raises(Refusal, match="called off by the controller while waiting for a word"):
        guard.check("a word")
    return True


def test_request_that_is_called_off_ends_with_all_its_jobs_and_no_other_one(guard: Guard) -> None:
    guard.begin(7, 60.0)
    guard.play(0, 60.0)
    assert not _is_off(guard)
    guard.call_off(7)
    assert _is_off(guard)
    guard.play(None, 60.0)
    assert _is_off(guard)
    guard.begin(8, 60.0)
    assert not _is_off(guard)


def test_job_that_is_called_off_ends_alone(guard: Guard) -> None:
    guard.begin(7, 60.0)
    guard.play(1, 60.0)
    guard.call_off(7, 0)
    guard.call_off(7, 2)
    assert not _is_off(guard)
    guard.call_off(7, 1)
    assert _is_off(guard)
    guard.play(None, 60.0)
    assert not _is_off(guard)
    guard.play(2, 60.0)  # called off before it began
    assert _is_off(guard)


@pytest.mark.parametrize(("number", "ends"), [(6, False), (8, False), (7, True)])
def test_only_the_request_that_is_named_is_called_off(guard: Guard, number: int, *, ends: bool) -> None:
    guard.begin(7, 60.0)
    guard.call_off(number)
    assert _is_off(guard) is ends
    guard.begin(8, 60.0)
    assert _is_off(guard) is (number == 8)
    guard.begin(9, 60.0)
    assert not _is_off(guard)


def _left_s() -> float:
    return signal.getitimer(signal.ITIMER_REAL)[0]


@pytest.mark.parametrize("requests", [0, 1, 3])
def test_an_agent_that_rests_lives_as_long_as_it_hears_pings(guard: Guard, requests: int) -> None:
    for number in range(requests):
        guard.begin(number, 5.0)
    guard.rest()
    signal.setitimer(signal.ITIMER_REAL, 20.0)  # 40 s later
    inbox = threading.Thread(target=guard.hear)
    inbox.start()
    inbox.join()
    assert 59 < _left_s() <= 60


def test_a_ping_gives_no_request_more_time(guard: Guard) -> None:
    guard.rest()
    guard.begin(1, 5.0)
    guard.hear()
    assert 14 < _left_s() <= 15
    guard.play(0, 2.0)
    guard.hear()
    assert 11 < _left_s() <= 12
