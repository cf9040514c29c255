"""Verbs: the only module that imports pyverbs."""

from __future__ import annotations

import ctypes
import errno
import logging
import random
import re
import resource
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from fabricctl.agent.gid import Gid
from fabricctl.agent.link import RC, UC, Poll, Post, Setup
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.wire import PEER, SETUP, Refusal

ACK_TIMEOUT = 16
"""QP timeout exponent: 4.096 us * 2^16 = 268 ms until a packet is sent again.

ConnectX takes anything below 16 for 16. Seven times that, about two seconds, is also how long soft-RoCE on a
busy host may stand still before it is taken for dead.
"""
RETRIES = 6
"""7 means "for ever" to soft-RoCE."""
RNR_RETRIES = 6
HOP_LIMIT = 64
"""1 would not pass a router."""
MTU_BYTES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
"""enum ibv_mtu."""
PORT_ACTIVE = 4
"""enum ibv_port_state."""

_pyverbs: Optional[Pyverbs] = None


class Pyverbs:
    """The parts of pyverbs that are used, from either layout of the package.

    Parameters
    ----------
    enums
        ``pyverbs.libibverbs_enums`` from v59 on, ``pyverbs.enums`` before.
    """

    def __init__(self) -> None:
        # pyverbs calls logging.basicConfig when it is imported; what is set up before stays.
        logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
        from pyverbs import addr, cq, device, mr, pd, qp, wr  # noqa: PLC0415  so that its absence can be told

        self.addr, self.cq, self.device, self.mr = addr, cq, device, mr
        self.pd, self.qp, self.wr = pd, qp, wr
        self.enums = _enums()


def _enums() -> ModuleType:
    try:
        from pyverbs import libibverbs_enums as found  # noqa: PLC0415  only from v59 on
    except ImportError:
        from pyverbs import enums as found  # noqa: PLC0415
    return found  # type: ignore[no-any-return]  # pyverbs has no types


def load() -> Pyverbs:
    """Import pyverbs, once.

    Raises
    ------
    Refusal
        It is not there, or cannot be loaded (kind ``setup``).
    """
    global _pyverbs  # noqa: PLW0603  loading takes half a second
    if _pyverbs is None:
        try:
            _pyverbs = Pyverbs()
        except ImportError as exc:
            raise Refusal(SETUP, missing(exc)) from exc
    return _pyverbs


def missing(exc: ImportError) -> str:
    """Return what to install."""
    return (
        f"pyverbs is not usable by {sys.executable} ({exc});"
        " install it: apt-get install python3-pyverbs, or: dnf install python3-pyverbs"
    )


def version() -> str:
    """Return the version of the rdma-core that pyverbs came with; ``unknown`` if nothing says it."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    found = re.search(r"libibverbs\.so\.1\.\d+\.(\d+\.\d+)", maps)  # libibverbs.so.1.14.44.0
    return found.group(1) if found else "unknown"


def no_memory(what: str) -> Refusal:
    """Return the error for memory that could not be locked."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft} bytes"
    return Refusal(
        SETUP,
        f"{what}: the limit on locked memory (ulimit -l) is {limit};"
        " set it to unlimited: LimitMEMLOCK=infinity for a systemd service (sshd, slurmd),"
        " or '* - memlock unlimited' in /etc/security/limits.conf",
    )


class Nic:
    """An opened verbs device and the port that is used.

    Raises
    ------
    Refusal
        It cannot be opened, or its port is not active (kind ``setup``).
    """

    def __init__(self, port: VerbsPort) -> None:
        self.verbs = load()
        self.port = port
        with _told(f"{port.device} cannot be opened"):
            self.context = self.verbs.device.Context(name=port.device)
            self.domain = self.verbs.pd.PD(self.context)

    def state(self) -> Mapping[str, int]:
        """Return ``lid`` and ``mtu_bytes`` of the port as they are now; Refusal if it is not active."""
        with _told(f"port {self.port.number} of {self.port.device} cannot be queried"):
            now = self.context.query_port(self.port.number)
        if now.state != PORT_ACTIVE:
            raise Refusal(
                SETUP,
                f"port {self.port.number} of {self.port.device} is {self.port.state or 'not active'}:"
                " look at the cable, and at: rdma link",
            )
        return {"lid": now.lid, "mtu_bytes": 128 << now.active_mtu}

    def try_memory(self, length: int) -> None:
        """Register and release `length` bytes; Refusal with the limit and its remedy if that fails."""
        self.memory(length).close()

    def memory(self, length: int) -> Any:
        """Register zeroed memory that the peer may read and write."""
        e = self.verbs.enums
        access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        try:
            return self.verbs.mr.MR(self.domain, length, access)
        except Exception as exc:
            if getattr(exc, "error_code", 0) in {errno.ENOMEM, errno.EPERM, errno.EAGAIN}:
                raise no_memory(f"{length} bytes cannot be registered with the NIC") from exc
            raise Refusal(
                SETUP, f"{length} bytes cannot be registered with {self.port.device}: {exc}"
            ) from exc


class Endpoint:
    """Near end of a link: memory, a completion queue and queue pairs. Close it."""

    def __init__(self, nic: Nic, setup: Setup, gid: Optional[Gid]) -> None:
        self._nic, self._setup, self._gid = nic, setup, gid
        self._peer: Mapping[str, Any] = {}
        self._numbers = random.SystemRandom()
        self._stack = ExitStack()
        self.path_mtu_bytes = 0
        with ExitStack() as unless_complete:
            unless_complete.callback(self.close)
            self._memory = self._keep(nic.memory(setup.buffer_bytes))
            area = (ctypes.c_ubyte * setup.buffer_bytes).from_address(self._memory.buf)
            self.buffer = memoryview(area).cast("B")
            with _told("queue pairs cannot be made"):
                size = setup.depth * len(setup.queue_pairs)
                self._completions, self.poll = _completions(nic, size + 1)
                self._keep(self._completions)
                self._queue_pairs = [self._keep(self._make(kind)) for kind in setup.queue_pairs]
            unless_complete.pop_all()
        self._first_psn = [self._numbers.randrange(1 << 24) for _ in self._queue_pairs]
        self.posts: Sequence[Post] = [pair.post_send for pair in self._queue_pairs]

    def _keep(self, thing: Any) -> Any:
        self._stack.callback(thing.close)
        return thing

    def _make(self, kind: str) -> Any:
        v, e = self._nic.verbs, self._nic.verbs.enums
        kinds = {RC: e.IBV_QPT_RC, UC: e.IBV_QPT_UC}
        capacity = v.qp.QPCap(max_send_wr=self._setup.depth, max_recv_wr=1)
        queue = self._completions
        wanted = v.qp.QPInitAttr(qp_type=kinds[kind], scq=queue, rcq=queue, cap=capacity, sq_sig_all=0)
        # The queue pair goes to INIT with these attributes at once: rights given later would not count.
        return v.qp.QP(self._nic.domain, wanted, self._attributes())

    def _attributes(self) -> Any:
        e = self._nic.verbs.enums
        attributes = self._nic.verbs.qp.QPAttr(port_num=self._nic.port.number)
        attributes.qp_access_flags = (
            e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        )
        return attributes

    def address(self) -> dict[str, Any]:
        """Return what the peer must know, as JSON values."""
        state = self._nic.state()
        return {
            "gid": self._gid.gid if self._gid else "",
            "lid": state["lid"],
            "mtu_bytes": state["mtu_bytes"],
            "queue_pairs": [pair.qp_num for pair in self._queue_pairs],
            "psn": self._first_psn,
            "buffer": self._memory.buf,
            "rkey": self._memory.rkey,
        }

    def connect(self, peer: Mapping[str, Any], *, path_mtu_bytes: int, traffic_class: int) -> None:
        """Connect every queue pair to its counterpart.

        Parameters
        ----------
        peer
            The peer's :meth:`address`.
        traffic_class
            0..255: DSCP << 2 and the ECN bits.

        Raises
        ------
        Refusal
            The NIC refuses (kind ``peer``): no route to the peer's address, or no neighbour answers.
        """
        self._peer = peer
        self.path_mtu_bytes = path_mtu_bytes
        for index, pair in enumerate(self._queue_pairs):
            attributes = self._attributes()
            attributes.ah_attr = self._path(peer, traffic_class)
            attributes.path_mtu = MTU_BYTES[path_mtu_bytes]
            attributes.dest_qp_num = peer["queue_pairs"][index]
            attributes.rq_psn, attributes.sq_psn = peer["psn"][index], self._first_psn[index]
            attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
            attributes.min_rnr_timer = 12
            attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = ACK_TIMEOUT, RETRIES, RNR_RETRIES
            with _told(f"no connection from {self._gid} to {peer['gid']}", PEER):
                pair.to_rts(attributes)

    def _path(self, peer: Mapping[str, Any], traffic_class: int) -> Any:
        addr, number = self._nic.verbs.addr, self._nic.port.number
        if self._gid is None:  # InfiniBand, within its subnet: the LID is the address
            return addr.AHAttr(port_num=number, is_global=0, dlid=peer["lid"])
        route = addr.GlobalRoute(
            dgid=addr.GID(peer["gid"]),
            sgid_index=self._gid.index,
            hop_limit=HOP_LIMIT,
            traffic_class=traffic_class,
            flow_label=self._numbers.randrange(1, 1 << 20),  # so that ECMP may take another path
        )
        return addr.AHAttr(port_num=number, is_global=1, gr=route)

    def write(self, offset: int, length: int, *, to: int, signaled: bool = True) -> Any:
        """Prepare an RDMA WRITE of own memory at `offset` to the peer's memory at `to`."""
        return self._request(self._nic.verbs.enums.IBV_WR_RDMA_WRITE, (offset, length), to, signaled=signaled)

    def read(self, offset: int, length: int, *, of: int) -> Any:
        """Prepare an RDMA READ of the peer's memory at `of` into own memory at `offset`."""
        return self._request(self._nic.verbs.enums.IBV_WR_RDMA_READ, (offset, length), of, signaled=True)

    def _request(self, opcode: Any, near: tuple[int, int], far: int, *, signaled: bool) -> Any:
        offset, length = near
        piece = self._nic.verbs.wr.SGE(self._memory.buf + offset, length, self._memory.lkey)
        flags = self._nic.verbs.enums.IBV_SEND_SIGNALED if signaled else 0
        request = self._nic.verbs.wr.SendWR(opcode=opcode, num_sge=1, sg=[piece], send_flags=flags)
        request.set_wr_rdma(self._peer["rkey"], self._peer["buffer"] + far)
        return request

    def close(self) -> None:
        """Destroy queue pairs, completion queue and memory, in this order."""
        self._stack.close()


def _completions(nic: Nic, size: int) -> tuple[Any, Poll]:
    """Return a completion queue and how to take one completion from it.

    The extended queue gives the status alone. The plain one, for drivers without it (bnxt_re), makes pyverbs
    build an object of thirteen fields for each completion, which takes longer than a NIC does.
    """
    cq = nic.verbs.cq
    try:
        extended = cq.CQEX(nic.context, cq.CqInitAttrEx(cqe=size))
    except Exception:  # noqa: BLE001  whatever the driver says, the plain queue is the answer
        plain = cq.CQ(nic.context, size, None, None, 0)
        take = plain.poll

        def poll_plain() -> Optional[int]:
            count, done = take()
            return done[0].status if count else None

        return plain, poll_plain
    start, end, options = extended.start_poll, extended.end_poll, cq.PollCqAttr()

    def poll() -> Optional[int]:
        if start(options):
            return None
        status: int = extended.status
        end()
        return status

    return extended, poll


class _told:  # noqa: N801  used like a function
    """Turn what pyverbs raises in the block into a Refusal that says `what` failed."""

    def __init__(self, what: str, kind: str = SETUP) -> None:
        self._what, self._kind = what, kind

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: Optional[type[BaseException]], value: Optional[BaseException], trace: object
    ) -> None:
        if value is None or isinstance(value, Refusal) or not isinstance(value, Exception):
            return
        if getattr(value, "error_code", 0) == errno.ENOMEM:
            raise no_memory(self._what) from value
        raise Refusal(self._kind, f"{self._what}: {value}") from value
