"""The timed loops, with completions made by hand."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from fabricctl.agent.guard import Guard
from fabricctl.agent.timing import complete, timed
from fabricctl.agent.wire import Refusal


class _Nic:
    """Completes each request at the third look."""

    def __init__(self, status: int = 0) -> None:
        self.posted = 0
        self.status = status
        self.collecting: set[bool] = set()
        self.posts = [self._post]
        self._looks = 0

    def _post(self, request: Any) -> None:
        assert request == "request"
        self.posted += 1
        self._looks = 0
        self.collecting.add(gc.isenabled())

    def poll(self) -> int | None:
        self._looks += 1
        return self.status if self._looks == 3 else None


@pytest.fixture
def guard() -> Guard:
    made = Guard(60)
    made._until_ns = 1 << 62  # noqa: SLF001  allow() would set this process's alarm
    return made


def test_every_sample_is_returned_and_the_warmup_is_not(guard: Guard) -> None:
    nic = _Nic()
    took = timed(nic, "request", warmup=7, count=20, guard=guard)  # type: ignore[arg-type]
    assert len(took) == 20
    assert min(took) > 0
    assert nic.posted == 27
    assert nic.collecting == {False}
    assert gc.isenabled()


def test_failed_completion_is_the_peers_and_says_what(guard: Guard) -> None:
    with pytest.raises(Refusal, match="no answer from the peer") as caught:
        timed(_Nic(status=12), "request", warmup=0, count=1, guard=guard)  # type: ignore[arg-type]
    assert caught.value.kind == "peer"
    assert gc.isenabled()


def test_a_wait_has_a_deadline(guard: Guard) -> None:
    guard._until_ns = 0  # noqa: SLF001
    with pytest.raises(Refusal) as caught:
        complete(lambda: None, guard)
    assert caught.value.kind == "deadline"


def test_a_wait_can_be_called_off(guard: Guard) -> None:
    guard.call_off()
    with pytest.raises(Refusal, match="called off"):
        complete(lambda: None, guard)
