# ruff: noqa: ARG002  the names are those of pyverbs
import ctypes
import errno
import mmap
import os
import random
import secrets
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

from pyverbs import libibverbs_enums as e
from pyverbs.pyverbs_error import PyverbsRDMAError

RING = 4096
"""Receives that a queue can hold."""
RNR_S = 2.0
"""How long a sender waits for a receive."""


class QPCap:
    def __init__(self, max_send_wr: int, max_recv_wr: int, max_inline_data: int) -> None:
        if max_inline_data > int(os.environ.get("FAKE_INLINE", "220")):
            raise PyverbsRDMAError("Failed to create QP", 22)
        self.max_send_wr, self.max_recv_wr, self.max_inline_data = max_send_wr, max_recv_wr, max_inline_data


class QPInitAttr:
    def __init__(self, qp_type: int, scq: Any, rcq: Any, cap: QPCap, sq_sig_all: int) -> None:
        self.qp_type, self.queue, self.arrivals, self.cap = qp_type, scq, rcq, cap


class QPAttr:
    def __init__(self, port_num: int) -> None:
        self.port_num = port_num
        self.qp_access_flags = 0
        self.ah_attr: Any = None


class Receives:
    """Posted receives in a file: how many, how many used; key, address, length and status of each."""

    def __init__(self, path: Path) -> None:
        with path.open("ab") as file:
            file.truncate((2 + 4 * RING) * 8)
        with path.open("rb+") as file:
            self.words = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")

    def post(self, key: int, address: int, length: int) -> None:
        posted = self.words[0]
        at = 2 + 4 * (posted % RING)
        self.words[at], self.words[at + 1], self.words[at + 2] = key, address, length
        self.words[0] = posted + 1

    def take(self) -> tuple[int, int, int] | None:
        used = self.words[1]
        if used == self.words[0]:
            return None
        at = 2 + 4 * (used % RING)
        return self.words[at], self.words[at + 1], self.words[at + 2]

    def done(self, status: int) -> None:
        used = self.words[1]
        self.words[2 + 4 * (used % RING) + 3] = status
        self.words[1] = used + 1


class QP:
    def __init__(self, pd: Any, init_attr: QPInitAttr, attr: QPAttr) -> None:
        self._kind, self._queue, self._arrivals = init_attr.qp_type, init_attr.queue, init_attr.arrivals
        self._cap = init_attr.cap
        self._folder = Path(pd.context.folder)
        self.qp_num = secrets.randbits(24)
        self._path = self._folder / f"qp-{self.qp_num}"
        self._path.write_text(str(attr.qp_access_flags))
        self._receives: Receives | None = None
        self._ids: deque[int] = deque()
        self._seen = 0
        self._loss = float(os.environ.get("FAKE_LOSS", "0"))
        self._chance = random.Random(os.environ.get("FAKE_SEED", "1") + str(self._kind))  # noqa: S311  to be repeated
        status, _, turn = os.environ.get("FAKE_STATUS", "0@0").partition("@")
        self._failing, self._turns = int(status), int(turn)
        self._posted = self._retired = 0
        self._peer = self._path
        self._peer_receives: Receives | None = None
        self._maps: dict[int, tuple[int, mmap.mmap]] = {}
        self._arrivals.receivers.append(self)

    def to_rts(self, attr: QPAttr) -> None:
        if not attr.ah_attr.gr and os.environ.get("FAKE_STATE") != "ib":
            raise PyverbsRDMAError("Failed to modify QP state to RTR", 22)
        if attr.ah_attr.gr.dgid.text.endswith("dead"):
            raise PyverbsRDMAError("Failed to modify QP state to RTR", 110)
        self._peer = self._folder / f"qp-{attr.dest_qp_num}"

    def post_recv(self, request: Any) -> None:
        if self._receives is None:
            self._receives = Receives(self._path.with_suffix(".rq"))
        free = self._cap.max_recv_wr - (self._receives.words[0] - self._seen)
        assert free > 0, "the receive queue overflows"
        self._ids.append(request.wr_id)
        self._receives.post(request.piece.lkey, request.piece.addr, request.piece.length)

    def look(self) -> None:
        """Report what has arrived."""
        if self._receives is None:
            return
        while self._seen < self._receives.words[1]:
            status = self._receives.words[2 + 4 * (self._seen % RING) + 3]
            self._seen += 1
            self._arrivals.add(status, self._ids.popleft(), lambda: None)

    def post_send(self, request: Any) -> None:
        if self._posted - self._retired >= self._cap.max_send_wr:
            raise PyverbsRDMAError("Failed to post send", errno.ENOMEM)
        self._posted += 1
        status = self._failing if self._posted == self._turns else self._run(request)
        if request.flags & e.IBV_SEND_SIGNALED or status:
            self._queue.add(status, request.wr_id, partial(self._retire, self._posted))

    def _retire(self, number: int) -> None:
        self._retired = number

    def _run(self, request: Any) -> int:
        if self._kind == e.IBV_QPT_UC and self._chance.random() < self._loss:
            return 0
        if not self._peer.exists():
            return 0 if self._kind == e.IBV_QPT_UC else 12
        rights = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        if int(self._peer.read_text()) & rights != rights:
            return 10
        if request.opcode == e.IBV_WR_SEND:
            return self._send(request.piece)
        base, far = self._map(request.rkey)
        near, at = request.piece, request.address - base
        if request.opcode == e.IBV_WR_RDMA_WRITE:
            far[at : at + near.length] = ctypes.string_at(near.addr, near.length)
        else:
            ctypes.memmove(near.addr, bytes(far[at : at + near.length]), near.length)
        return 0

    def _send(self, near: Any) -> int:
        if self._peer_receives is None:
            self._peer_receives = Receives(self._peer.with_suffix(".rq"))
        until = time.monotonic() + RNR_S
        while (wanted := self._peer_receives.take()) is None:
            if time.monotonic() > until:
                return 13
            time.sleep(0)
        key, address, length = wanted
        if near.length > length:
            self._peer_receives.done(1)
            return 9
        base, far = self._map(key)
        far[address - base : address - base + near.length] = ctypes.string_at(near.addr, near.length)
        self._peer_receives.done(0)
        return 0

    def _map(self, rkey: int) -> tuple[int, mmap.mmap]:
        if rkey not in self._maps:
            path = self._folder / f"mr-{rkey}"
            with path.open("rb+") as file:
                self._maps[rkey] = (int(path.with_suffix(".base").read_text()), mmap.mmap(file.fileno(), 0))
        return self._maps[rkey]

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
