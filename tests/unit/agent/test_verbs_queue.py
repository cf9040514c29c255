"""What pyverbs' extended completion queue says when it is asked: one, none, or that it is broken."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from fabricctl.agent.verbs_queue import Queue
from fabricctl.agent.wire import Refusal


def _queue(code: int) -> tuple[Queue, list[str]]:
    ended: list[str] = []
    held = SimpleNamespace(
        start_poll=lambda _options: code, end_poll=lambda: ended.append("end"), status=12, wr_id=7
    )
    verbs: Any = SimpleNamespace(
        cq=SimpleNamespace(
            CQEX=lambda _context, _attributes: held, CqInitAttrEx=lambda cqe: cqe, PollCqAttr=object
        )
    )
    return Queue(verbs, None, 4), ended


def test_a_completion_is_taken() -> None:
    queue, ended = _queue(0)
    assert (queue.poll(), queue.take(), ended) == (12, (12, 7), ["end", "end"])


def test_none_is_none() -> None:
    queue, ended = _queue(errno.ENOENT)
    assert (queue.poll(), queue.take(), ended) == (None, None, [])


@pytest.mark.parametrize("code", [errno.EIO, errno.EINVAL, errno.EOVERFLOW, -errno.EIO])
@pytest.mark.parametrize("way", ["poll", "take"])
def test_anything_else_is_not_an_empty_queue(code: int, way: str) -> None:
    queue, ended = _queue(code)
    with pytest.raises(Refusal, match="the NIC does not report completions: ") as caught:
        getattr(queue, way)()
    assert (caught.value.kind, ended) == ("peer", [])
