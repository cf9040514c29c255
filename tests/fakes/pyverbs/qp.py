# ruff: noqa: ARG002  the names are those of pyverbs
import ctypes
import mmap
import os
import random
import secrets
from pathlib import Path
from typing import Any

from pyverbs import libibverbs_enums as e
from pyverbs.pyverbs_error import PyverbsRDMAError


class QPCap:
    def __init__(self, max_send_wr: int, max_recv_wr: int) -> None:
        self.max_send_wr = max_send_wr


class QPInitAttr:
    def __init__(self, qp_type: int, scq: Any, rcq: Any, cap: QPCap, sq_sig_all: int) -> None:
        self.qp_type, self.queue, self.cap = qp_type, scq, cap


class QPAttr:
    def __init__(self, port_num: int) -> None:
        self.port_num = port_num
        self.qp_access_flags = 0
        self.ah_attr: Any = None


class QP:
    def __init__(self, pd: Any, init_attr: QPInitAttr, attr: QPAttr) -> None:
        self._kind, self._queue = init_attr.qp_type, init_attr.queue
        self._folder = Path(pd.context.folder)
        self.qp_num = secrets.randbits(24)
        self._path = self._folder / f"qp-{self.qp_num}"
        self._path.write_text(str(attr.qp_access_flags))
        self._loss = float(os.environ.get("FAKE_LOSS", "0"))
        self._chance = random.Random(os.environ.get("FAKE_SEED", "1") + str(self._kind))  # noqa: S311  to be repeated
        self._peer = self._path
        self._maps: dict[int, tuple[int, mmap.mmap]] = {}

    def to_rts(self, attr: QPAttr) -> None:
        if not attr.ah_attr.gr and os.environ.get("FAKE_STATE") != "ib":
            raise PyverbsRDMAError("Failed to modify QP state to RTR", 22)
        if attr.ah_attr.gr.dgid.text.endswith("dead"):
            raise PyverbsRDMAError("Failed to modify QP state to RTR", 110)
        self._peer = self._folder / f"qp-{attr.dest_qp_num}"

    def post_send(self, request: Any) -> None:
        status = self._run(request)
        if request.flags & e.IBV_SEND_SIGNALED or status:
            self._queue.add(status)

    def _run(self, request: Any) -> int:
        if self._kind == e.IBV_QPT_UC and self._chance.random() < self._loss:
            return 0
        if not self._peer.exists():
            return 0 if self._kind == e.IBV_QPT_UC else 12
        rights = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        if int(self._peer.read_text()) & rights != rights:
            return 10
        base, far = self._map(request.rkey)
        near, at = request.piece, request.address - base
        if request.opcode == e.IBV_WR_RDMA_WRITE:
            far[at : at + near.length] = ctypes.string_at(near.addr, near.length)
        else:
            ctypes.memmove(near.addr, bytes(far[at : at + near.length]), near.length)
        return 0

    def _map(self, rkey: int) -> tuple[int, mmap.mmap]:
        if rkey not in self._maps:
            path = self._folder / f"mr-{rkey}"
            with path.open("rb+") as file:
                self._maps[rkey] = (int(path.with_suffix(".base").read_text()), mmap.mmap(file.fileno(), 0))
        return self._maps[rkey]

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
