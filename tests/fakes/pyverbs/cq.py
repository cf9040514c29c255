# ruff: noqa: ARG002  the names are those of pyverbs
import errno
import os
from collections import deque
from types import SimpleNamespace

from pyverbs.pyverbs_error import PyverbsRDMAError


class CQ:
    def __init__(
        self, context: object, cqe: int, cq_context: object, channel: object, comp_vector: int
    ) -> None:
        self.room = cqe
        self.done: deque[SimpleNamespace] = deque()

    def add(self, status: int) -> None:
        assert len(self.done) < self.room, "the completion queue overflows"
        self.done.append(SimpleNamespace(status=status))

    def poll(self, num_entries: int = 1) -> tuple[int, list[SimpleNamespace]]:
        if not self.done:
            return 0, []
        return 1, [self.done.popleft()]

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
        self.status = 0

    def start_poll(self, attr: PollCqAttr) -> int:
        if not self.done:
            return errno.ENOENT
        self.status = self.done.popleft().status
        return 0

    def end_poll(self) -> None:
        pass
