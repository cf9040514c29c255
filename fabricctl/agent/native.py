"""The native engine: devices, memory, queue pairs and timed loops by a library in C."""

from __future__ import annotations

import ctypes
import mmap
import random
import socket
from array import array
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from ctypes import byref
from typing import Any, Optional

from fabricctl.agent import connection, native_library
from fabricctl.agent.connection import WORD_IN, WORD_OUT, Room
from fabricctl.agent.ends import Floors
from fabricctl.agent.floor import floor_ns
from fabricctl.agent.gid import Gid
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, SEND, UC, Flow, Setup
from fabricctl.agent.native_library import Course, Limit, PortState, Route, Slots, Wish, ended, settle
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.wire import PEER, WIRE, Refusal

REQUEST = "the completion of a request"
load = native_library.load


def version() -> str:
    """Return the version of the library."""
    return str(native_library.VERSION)


class Nic:
    """An opened verbs device and the port that is used.

    Raises
    ------
    Refusal
        It cannot be opened, or its port is not active (kind ``setup``).
    """

    def __init__(self, port: VerbsPort) -> None:
        self.library = load()
        self.port = port
        self.floors: Floors = {}
        self.handle = ctypes.c_void_p()
        name, table = port.device.encode(), byref(self.library.table)
        code = self.library.open(table, name, port.number, byref(self.handle))
        settle(code, f"{port.device} cannot be opened")

    def now(self) -> PortState:
        """Return the port as it is; Refusal if it is not active."""
        now = PortState()
        settle(
            self.library.port(self.handle, byref(now)),
            f"port {self.port.number} of {self.port.device} cannot be queried",
        )
        if now.state != connection.PORT_ACTIVE:
            raise connection.not_active(self.port)
        return now

    def state(self) -> Mapping[str, int]:
        """Return ``lid`` and ``mtu_bytes`` of the port as they are now; Refusal if it is not active."""
        now = self.now()
        return {"lid": now.lid, "mtu_bytes": 128 << now.mtu}

    def try_memory(self, length: int) -> None:
        """Register and release `length` bytes; Refusal with the limit and its remedy if that fails."""
        Memory(self, length).close()

    def endpoint(self, setup: Setup, gid: Optional[Gid]) -> Endpoint:
        """Make the near end of a link; `gid` is None on InfiniBand."""
        return Endpoint(self, setup, gid)


class Memory:
    """Zeroed, registered memory that the peer may read and write."""

    def __init__(self, nic: Nic, length: int) -> None:
        self._nic = nic
        self.map = mmap.mmap(-1, length)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.handle, key = ctypes.c_void_p(), ctypes.c_uint32()
        code = nic.library.register(nic.handle, self.address, length, byref(self.handle), byref(key))
        refused = native_library.SYSTEM - code
        if code and refused in connection.NO_MEMORY:
            raise connection.no_memory(f"{length} bytes cannot be registered with the NIC")
        settle(code, f"{length} bytes cannot be registered with {nic.port.device}")
        self.key = key.value

    def close(self) -> None:
        """Give it back; the pages stay until nobody looks at them any more."""
        self._nic.library.forget(self._nic.handle, self.handle)


class Endpoint:
    """Near end of a link: memory, completion queues, queue pairs and the loops over them. Close it."""

    def __init__(self, nic: Nic, setup: Setup, gid: Optional[Gid]) -> None:
        self._nic, self.setup, self._gid = nic, setup, gid
        self._library = nic.library
        self._numbers = random.SystemRandom()
        self._stack = ExitStack()
        self._ball = 0
        self._room = Room(setup.buffer_bytes)
        self.path_mtu_bytes = 0
        self.hardware_ns: Optional[array[int]] = None
        self.local_cpus = connection.local_cpus(nic.port)
        self._reads = max(1, min(setup.reads, nic.now().reads))
        with ExitStack() as unless_complete:
            unless_complete.callback(self.close)
            self._memory = Memory(nic, self._room.bytes)
            self._stack.callback(self._memory.close)
            self.buffer = memoryview(self._memory.map)[: setup.buffer_bytes]
            self._handle = self._link()
            unless_complete.pop_all()
        self._first_psn = [self._numbers.randrange(1 << 24) for _ in setup.queue_pairs]

    def _link(self) -> ctypes.c_void_p:
        setup, handle = self.setup, ctypes.c_void_p()
        for kind in setup.queue_pairs:
            if kind not in {RC, UC}:
                raise Refusal(WIRE, f"no queue pair {kind!r}; there is {RC} and {UC}")
        wish = Wish(
            memory=self._memory.address,
            memory_bytes=self._room.bytes,
            buffer_bytes=setup.buffer_bytes,
            unreliable=bytes(kind == UC for kind in setup.queue_pairs),
            pairs=len(setup.queue_pairs),
            depth=setup.depth,
            receives=setup.receives,
            inline_bytes=connection.INLINE_BYTES,
        )
        code = self._library.link(self._nic.handle, self._memory.handle, byref(wish), byref(handle))
        settle(code, "queue pairs cannot be made")
        self._stack.callback(self._library.release, handle)
        return handle

    @property
    def hardware_clock(self) -> bool:
        """Whether the NIC stamps completions with its own clock."""
        return bool(self._library.stamps(self._handle))

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
            "queue_pairs": [
                self._library.number(self._handle, index) for index in range(len(self.setup.queue_pairs))
            ],
            "psn": self._first_psn,
            "buffer": self._memory.address,
            "control": self._memory.address + self._room.control,
            "rkey": self._memory.key,
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
        self.path_mtu_bytes = path_mtu_bytes
        self._library.peer(self._handle, peer["buffer"], peer["control"] + WORD_IN, peer["rkey"])
        for index in range(len(self.setup.queue_pairs)):
            route = self._route(peer, index, connection.MTU_BYTES[path_mtu_bytes], traffic_class)
            code = self._library.connect(self._handle, index, byref(route))
            settle(code, f"no connection from {self._gid} to {peer['gid']}", PEER)

    def _route(self, peer: Mapping[str, Any], index: int, mtu: int, traffic_class: int) -> Route:
        route = Route(
            mtu=mtu,
            lid=peer["lid"],
            far_number=peer["queue_pairs"][index],
            far_psn=peer["psn"][index],
            near_psn=self._first_psn[index],
            reads=min(self._reads, peer["reads"]),
            far_reads=self._reads,
            timeout=connection.ACK_TIMEOUT,
            retries=connection.RETRIES,
            rnr_retries=connection.rnr_retries(self.setup),
            rnr_timer=connection.RNR_TIMER,
        )
        if self._gid is not None:  # on InfiniBand, within its subnet, the LID is the address
            route.is_global, route.gid_index = 1, self._gid.index
            route.gid[:] = list(socket.inet_pton(socket.AF_INET6, peer["gid"]))
            route.hop_limit, route.traffic_class = connection.HOP_LIMIT, traffic_class
            route.flow_label = connection.flow_label(self._numbers)
        return route

    def _limit(self, guard: Guard) -> Any:
        return byref(Limit(until_ns=guard.until_ns, called_off=ctypes.addressof(guard.flag)))

    def round_trips(self, op: str, length: int, count: int, guard: Guard, *, pair: int = 0) -> array[int]:
        """See ``link.py``."""
        code = self._checked(op, length, pair)
        took, ticks = array("Q", bytes(8 * count)), array("Q", bytes(8 * count if self.hardware_clock else 0))
        to, by = took.buffer_info()[0], ticks.buffer_info()[0] if ticks else None
        rc = self._library.round_trips(self._handle, code, length, pair, count, self._limit(guard), to, by)
        ended(rc, guard, REQUEST)
        self.hardware_ns = self._steps(ticks) if self.hardware_clock else None
        return took

    def _checked(self, op: str, length: int, pair: int) -> int:
        connection.existing(self.setup, (pair,))
        connection.within(self.setup, 0, (length,))
        connection.allowed(self.setup, op, (pair,))
        return connection.opcode(op)

    def _steps(self, ticks: array[int]) -> array[int]:
        now = self._nic.now()
        mask = now.clock_mask
        steps = ((after - before) & mask for before, after in zip(ticks, ticks[1:]))
        return array("Q", (step * 1_000_000 // now.clock_khz for step in steps))

    def pingpong(  # noqa: PLR0913  as in link.py
        self, op: str, length: int, inbound: int, count: int, guard: Guard, *, first: bool, pair: int = 0
    ) -> array[int]:
        """See ``link.py``."""
        self._checked(op, length, pair)
        took = array("Q", bytes(8 * count if first else 0))
        to, limit = took.buffer_info()[0] if first else None, self._limit(guard)
        if op == SEND:
            rc = self._library.messages(self._handle, length, pair, count, limit, to)
            ended(rc, guard, "the other side's message")
            return took
        connection.within(self.setup, inbound, (length,))
        ball = self._ball + 1
        rc = self._library.pingpong(self._handle, length, inbound, pair, count, ball, limit, to)
        self._ball += count
        ended(rc, guard, "the other side's write")
        return took

    def absorb(self, length: int, count: int, guard: Guard, *, pairs: Sequence[int] = (0,)) -> int:
        """See ``link.py``."""
        connection.existing(self.setup, pairs)
        connection.within(self.setup, 0, (length,))
        rc = self._library.absorb(self._handle, length, count, self._limit(guard))
        ended(rc, guard, "the other side's message")
        return count

    def stream(  # noqa: PLR0913  as in link.py
        self,
        op: str,
        lengths: Sequence[int],
        guard: Guard,
        *,
        seconds: float = 0.0,
        count: int = 0,
        pairs: Sequence[int] = (0,),
        offset: int = 0,
    ) -> Flow:
        """See ``link.py``."""
        connection.existing(self.setup, pairs)
        connection.within(self.setup, offset, lengths)
        connection.allowed(self.setup, op, pairs)
        sizes, over = array("I", lengths), array("I", pairs)
        course = Course(
            lengths=sizes.buffer_info()[0],
            pairs=over.buffer_info()[0],
            count=count,
            run_ns=int(seconds * 1e9),
            offset=offset,
            lengths_count=len(sizes),
            pairs_count=len(over),
            op=connection.opcode(op),
        )
        ended(self._library.stream(self._handle, byref(course), self._limit(guard)), guard, REQUEST)
        return Flow(course.bytes, course.messages, course.nanoseconds)

    def word_out(self, value: int, guard: Guard) -> None:
        """See ``link.py``."""
        pair = connection.reliable(connection.last_reliable(self.setup))
        near = self._room.control + WORD_OUT
        rc = self._library.word_out(self._handle, pair, near, value, self._limit(guard))
        ended(rc, guard, REQUEST)

    def word_in(self, value: int, guard: Guard) -> None:
        """See ``link.py``."""
        near = self._room.control + WORD_IN
        rc = self._library.word_in(self._handle, near, value, self._limit(guard))
        ended(rc, guard, "the other side's word")

    def burst(self, first: int, step: int, count: int, paths: int, mark: int, guard: Guard) -> None:
        """See ``link.py``."""
        connection.slotted(self.setup, first, step, count, paths)
        connection.shallow(self.setup, -(-count // paths))
        slots = Slots(first, step, count, paths, mark)
        ended(self._library.burst(self._handle, byref(slots), self._limit(guard)), guard, REQUEST)

    def absent(self, first: int, step: int, count: int, mark: int) -> list[int]:
        """See ``link.py``."""
        connection.slotted(self.setup, first, step, count, 1)
        places = array("I", bytes(4 * count))
        slots = Slots(first, step, count, 1, mark)
        found: int = self._library.absent(self._handle, byref(slots), places.buffer_info()[0])
        return places[:found].tolist()

    def close(self) -> None:
        """Destroy queue pairs, completion queues and memory, in this order."""
        self._stack.close()
