"""A completion queue of pyverbs and the quickest way to take completions from it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, Optional

from fabricctl.agent.wire import PEER, Refusal

Poll = Callable[[], Optional[int]]
"""Takes one completion and returns its status (0 is success); None if there is none."""
Take = Callable[[], Optional[tuple[int, int]]]
"""Takes one completion and returns its status and the identity of its request; None if there is none."""


class Queue:
    """A completion queue.

    The extended one gives single fields. The plain one, for drivers without it (bnxt_re), makes pyverbs
    build an object of thirteen fields for each completion, which takes longer than a NIC does.

    Parameters
    ----------
    verbs
        The modules of pyverbs.
    context
        The opened device.
    size
        Completions that it can hold.
    """

    def __init__(self, verbs: Any, context: Any, size: int) -> None:
        try:
            self.queue = verbs.cq.CQEX(context, verbs.cq.CqInitAttrEx(cqe=size))
        except Exception:  # noqa: BLE001  whatever the driver says, the plain queue is the answer
            self.queue = verbs.cq.CQ(context, size, None, None, 0)
            self.poll, self.take = _plain(self.queue)
        else:
            self.poll, self.take = _extended(self.queue, verbs.cq.PollCqAttr())

    def close(self) -> None:
        """Destroy the queue."""
        self.queue.close()


def _plain(queue: Any) -> tuple[Poll, Take]:
    look = queue.poll

    def poll() -> Optional[int]:
        count, done = look()
        return done[0].status if count else None

    def take() -> Optional[tuple[int, int]]:
        count, done = look()
        return (done[0].status, done[0].wr_id) if count else None

    return poll, take


def _is_empty(code: int) -> bool:
    """Return whether there is no completion, from what ``ibv_start_poll`` returned that is not 0.

    Raises
    ------
    Refusal
        There is no telling: the queue or the NIC is broken (kind ``peer``).
    """
    if code == errno.ENOENT:
        return True
    raise Refusal(PEER, f"the NIC does not report completions: {os.strerror(abs(code))}")


def _extended(queue: Any, options: Any) -> tuple[Poll, Take]:
    start, end = queue.start_poll, queue.end_poll

    def poll() -> Optional[int]:
        code = start(options)
        if code and _is_empty(code):
            return None
        status: int = queue.status
        end()
        return status

    def take() -> Optional[tuple[int, int]]:
        code = start(options)
        if code and _is_empty(code):
            return None
        done = queue.status, queue.wr_id
        end()
        return done

    return poll, take
