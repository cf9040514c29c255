# ruff: noqa: ARG002  the names are those of pyverbs
import errno
import os
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pyverbs.pyverbs_error import PyverbsRDMAError


class CQ:
    def __init__(
        self, context: object, cqe: int, cq_context: object, channel: object, comp_vector: int
    ) -> None:
        self.room = cqe
        self.done: deque[SimpleNamespace] = deque()
        self.receivers: list[Any] = []
        self._delay = self._looks = int(os.environ.get("FAKE_DELAY", "0"))

    def add(self, status: int, wr_id: int, retire: Callable[[], None]) -> None:
        assert len(self.done) < self.room, "the completion queue overflows"
        self.done.append(SimpleNamespace(status=status, wr_id=wr_id, retire=retire))

    def next(self) -> SimpleNamespace | None:
        for receiver in self.receivers:
            receiver.look()
        if not self.done:
            return None
        if self._looks:
            self._looks -= 1
            return None
        self._looks = self._delay
        done = self.done.popleft()
        done.retire()
        return done

    def poll(self, num_entries: int = 1) -> tuple[int, list[SimpleNamespace]]:
        done = self.next()
        return (0, []) if done is None else (1, [done])

    def close(self) -> None:
        pass


class CqInitAttrEx:
    def __init__(self, cqe: int) -> None:
        self.cqe = cqe


class PollCqAttr:
    pass


class CQEX(CQ):
    def __init__(self, context: object, attr: CqInitAttrEx) -> None:
        if "FAKE_PLAIN_CQ" in os.environ:
            raise PyverbsRDMAError("Failed to create extended CQ", errno.EOPNOTSUPP)
        super().__init__(context, attr.cqe, None, None, 0)
        self.status = self.wr_id = 0

    def start_poll(self, attr: PollCqAttr) -> int:
        done = self.next()
        if done is None:
            return errno.ENOENT
        self.status, self.wr_id = done.status, done.wr_id
        return 0

    def end_poll(self) -> None:
        pass
