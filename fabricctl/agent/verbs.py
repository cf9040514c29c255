"""The pyverbs engine: devices, memory and queue pairs. The only module that imports pyverbs."""

from __future__ import annotations

import ctypes
import errno
import logging
import random
import re
import sys
from array import array
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Optional

from fabricctl.agent import connection
from fabricctl.agent.connection import Room, no_memory
from fabricctl.agent.ends import Floors
from fabricctl.agent.floor import floor_ns
from fabricctl.agent.gid import Gid
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, READ, UC, Setup
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.verbs_loops import Loops, Post
from fabricctl.agent.verbs_queue import Queue
from fabricctl.agent.wire import PEER, SETUP, WIRE, Refusal

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
        self.floors: Floors = {}
        with _told(f"{port.device} cannot be opened"):
            self.context = self.verbs.device.Context(name=port.device)
            self.domain = self.verbs.pd.PD(self.context)

    def state(self) -> Mapping[str, int]:
        """Return ``lid`` and ``mtu_bytes`` of the port as they are now; Refusal if it is not active."""
        with _told(f"port {self.port.number} of {self.port.device} cannot be queried"):
            now = self.context.query_port(self.port.number)
        if now.state != connection.PORT_ACTIVE:
            raise connection.not_active(self.port)
        return {"lid": now.lid, "mtu_bytes": 128 << now.active_mtu}

    def try_memory(self, length: int) -> None:
        """Register and release `length` bytes; Refusal with the limit and its remedy if that fails."""
        self.memory(length).close()

    def endpoint(self, setup: Setup, gid: Optional[Gid]) -> Endpoint:
        """Make the near end of a link; `gid` is None on InfiniBand."""
        return Endpoint(self, setup, gid)

    def reads(self, wanted: int) -> int:
        """Return how many of `wanted` RDMA READs the device can have under way on one queue pair."""
        with _told(f"{self.port.device} cannot be queried"):
            can = self.context.query_device()
        most: int = min(wanted, can.max_qp_rd_atom, can.max_qp_init_rd_atom)
        return max(1, most)

    def memory(self, length: int) -> Any:
        """Register zeroed memory that the peer may read and write."""
        e = self.verbs.enums
        access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        try:
            return self.verbs.mr.MR(self.domain, length, access)
        except Exception as exc:
            if getattr(exc, "error_code", 0) in connection.NO_MEMORY:
                raise no_memory(f"{length} bytes cannot be registered with the NIC") from exc
            raise Refusal(
                SETUP, f"{length} bytes cannot be registered with {self.port.device}: {exc}"
            ) from exc


class Endpoint(Loops):
    """Near end of a link: memory, completion queues and queue pairs. Close it."""

    hardware_clock = False
    hardware_ns: Optional[array[int]] = None

    def __init__(self, nic: Nic, setup: Setup, gid: Optional[Gid]) -> None:
        super().__init__()
        self._nic, self.setup, self._gid = nic, setup, gid
        self._peer: Mapping[str, Any] = {}
        self._numbers = random.SystemRandom()
        self._stack = ExitStack()
        self._inline = 0
        self.path_mtu_bytes = 0
        self.local_cpus = connection.local_cpus(nic.port)
        with ExitStack() as unless_complete:
            unless_complete.callback(self.close)
            self._reads = nic.reads(setup.reads)
            room = Room(setup.buffer_bytes)
            self._memory = self._keep(nic.memory(room.bytes))
            area = memoryview((ctypes.c_ubyte * room.bytes).from_address(self._memory.buf)).cast("B")
            self._buffer, self._words = area[: setup.buffer_bytes], area.cast("Q")
            with _told("queue pairs cannot be made"):
                pairs = len(setup.queue_pairs)
                self._sends = self._keep(Queue(nic.verbs, nic.context, setup.depth * pairs + 1))
                self._receives = self._keep(Queue(nic.verbs, nic.context, setup.receives * pairs + 1))
                self._queue_pairs = [self._keep(self._make(kind)) for kind in setup.queue_pairs]
            unless_complete.pop_all()
        self._first_psn = [self._numbers.randrange(1 << 24) for _ in self._queue_pairs]
        self.posts: Sequence[Post] = [pair.post_send for pair in self._queue_pairs]
        self._post_receives()

    @property
    def buffer(self) -> memoryview:
        """The registered memory, as bytes."""
        return self._buffer

    def _keep(self, thing: Any) -> Any:
        self._stack.callback(thing.close)
        return thing

    def _make(self, kind: str) -> Any:
        e = self._nic.verbs.enums
        kinds = {RC: e.IBV_QPT_RC, UC: e.IBV_QPT_UC}
        if kind not in kinds:
            raise Refusal(WIRE, f"no queue pair {kind!r}; there is {RC} and {UC}")
        try:
            made = self._queue_pair(kinds[kind], connection.INLINE_BYTES)
        except Exception:  # noqa: BLE001  whatever the driver says, one without inline is asked for next
            return self._queue_pair(kinds[kind], 0)
        self._inline = connection.INLINE_BYTES
        return made

    def _queue_pair(self, kind: Any, inline: int) -> Any:
        v = self._nic.verbs
        capacity = v.qp.QPCap(
            max_send_wr=self.setup.depth, max_recv_wr=max(1, self.setup.receives), max_inline_data=inline
        )
        scq, rcq = self._sends.queue, self._receives.queue
        wanted = v.qp.QPInitAttr(qp_type=kind, scq=scq, rcq=rcq, cap=capacity, sq_sig_all=0)
        # The queue pair goes to INIT with these attributes at once: rights given later would not count.
        return v.qp.QP(self._nic.domain, wanted, self._attributes())

    def _attributes(self) -> Any:
        e = self._nic.verbs.enums
        attributes = self._nic.verbs.qp.QPAttr(port_num=self._nic.port.number)
        attributes.qp_access_flags = (
            e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        )
        return attributes

    def _post_receives(self) -> None:
        for index in range(len(self._queue_pairs)):
            post = self._receive(index, self.setup.buffer_bytes)
            with _told("receives cannot be posted"):
                for _ in range(self.setup.receives):
                    post()

    def _receive(self, pair: int, length: int) -> Callable[[], object]:
        wr = self._nic.verbs.wr
        request = wr.RecvWR(wr_id=pair, num_sge=1, sg=[wr.SGE(self._memory.buf, length, self._memory.lkey)])
        post = self._queue_pairs[pair].post_recv
        return lambda: post(request)

    def floor_ns(self, op: str, length: int, guard: Guard) -> Optional[int]:
        """See ``link.py``."""
        return floor_ns(self._nic, self._gid, op, length, guard)

    def address(self) -> dict[str, Any]:
        """Return what the peer must know, as JSON values; both engines understand it."""
        state = self._nic.state()
        return {
            "gid": self._gid.gid if self._gid else "",
            "lid": state["lid"],
            "mtu_bytes": state["mtu_bytes"],
            "queue_pairs": [pair.qp_num for pair in self._queue_pairs],
            "psn": self._first_psn,
            "buffer": self._memory.buf,
            "control": self._memory.buf + Room(self.setup.buffer_bytes).control,
            "rkey": self._memory.rkey,
            "reads": self._reads,
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
        self._far_buffer, self._far_control = peer["buffer"], peer["control"]
        self.path_mtu_bytes = path_mtu_bytes
        for index, pair in enumerate(self._queue_pairs):
            attributes = self._attributes()
            attributes.ah_attr = self._path(peer, traffic_class)
            attributes.path_mtu = connection.MTU_BYTES[path_mtu_bytes]
            attributes.dest_qp_num = peer["queue_pairs"][index]
            attributes.rq_psn, attributes.sq_psn = peer["psn"][index], self._first_psn[index]
            attributes.max_rd_atomic = min(self._reads, peer["reads"])
            attributes.max_dest_rd_atomic = self._reads
            attributes.min_rnr_timer = connection.RNR_TIMER
            attributes.timeout, attributes.retry_cnt = connection.ACK_TIMEOUT, connection.RETRIES
            attributes.rnr_retry = connection.rnr_retries(self.setup)
            with _told(f"no connection from {self._gid} to {peer['gid']}", PEER):
                pair.to_rts(attributes)

    def _path(self, peer: Mapping[str, Any], traffic_class: int) -> Any:
        addr, number = self._nic.verbs.addr, self._nic.port.number
        if self._gid is None:  # InfiniBand, within its subnet: the LID is the address
            return addr.AHAttr(port_num=number, is_global=0, dlid=peer["lid"])
        route = addr.GlobalRoute(
            dgid=addr.GID(peer["gid"]),
            sgid_index=self._gid.index,
            hop_limit=connection.HOP_LIMIT,
            traffic_class=traffic_class,
            flow_label=connection.flow_label(self._numbers),
        )
        return addr.AHAttr(port_num=number, is_global=1, gr=route)

    @property
    def signaled(self) -> int:
        """Flag of a request whose completion is reported."""
        return int(self._nic.verbs.enums.IBV_SEND_SIGNALED)

    def inlined(self, op: str, length: int) -> int:
        """Flag of a request that carries its message, 0 if it cannot."""
        fits = op != READ and length <= self._inline
        return int(self._nic.verbs.enums.IBV_SEND_INLINE) if fits else 0

    def request(self, op: str, near: tuple[int, int], address: int, pair: int, *, flags: int) -> Any:
        """Prepare a request for (offset, length) here and the peer's address; reuse it."""
        opcode = connection.opcode(op)
        offset, length = near
        wr = self._nic.verbs.wr
        piece = wr.SGE(self._memory.buf + offset, length, self._memory.lkey)
        request = wr.SendWR(wr_id=pair, opcode=opcode, num_sge=1, sg=[piece], send_flags=flags)
        request.set_wr_rdma(self._peer["rkey"], address)
        return request

    def close(self) -> None:
        """Destroy queue pairs, completion queues and memory, in this order."""
        self._stack.close()


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
