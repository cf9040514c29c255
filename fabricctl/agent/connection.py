"""What both engines do alike: how a connection is set, where memory lies, what an address says."""

from __future__ import annotations

import errno
import random
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from fabricctl.agent import sysfs
from fabricctl.agent.link import RC, READ, SEND, WRITE, Setup
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.wire import SETUP, WIRE, Refusal

ACK_TIMEOUT = 16
"""QP timeout exponent: 4.096 us * 2^16 = 268 ms until a packet is sent again.

ConnectX takes anything below 16 for 16. Seven times that, about two seconds, is also how long soft-RoCE on a
busy host may stand still before it is taken for dead.
"""
RETRIES = 6
"""7 means "for ever" to soft-RoCE."""
RNR_RETRIES = 6
RNR_FOR_EVER = 7
"""For links that receive messages: a receiver without a CPU for a moment is no fault; the deadline is."""
RNR_TIMER = 12
"""Exponent code of the shortest wait after "receiver not ready": 0.64 ms."""
HOP_LIMIT = 64
"""1 would not pass a router."""
MTU_BYTES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
"""enum ibv_mtu."""
NO_MEMORY = frozenset({errno.ENOMEM, errno.EPERM, errno.EAGAIN})
"""What a driver says when memory cannot be locked."""
PORT_ACTIVE = 4
"""enum ibv_port_state."""
INLINE_BYTES = 220
"""Messages up to this long go to the NIC within the request, as perftest's latency tests do by default
(DEF_INLINE_WRITE), if the NIC takes as much."""
CONTROL_BYTES = 4096
WORD_IN, WORD_OUT = 0, 64
"""Where in the control page the peer's word arrives, and where the own one is written from."""
WORD_BYTES = 8
OPS = {WRITE: 0, SEND: 2, READ: 4}
"""enum ibv_wr_opcode."""


@dataclass(frozen=True)
class Room:
    """Where an endpoint's memory lies: the probe's buffer, then the control page.

    Parameters
    ----------
    buffer_bytes
        What the probe asked for.
    """

    buffer_bytes: int

    @property
    def control(self) -> int:
        """Offset of the control page."""
        return -(-self.buffer_bytes // CONTROL_BYTES) * CONTROL_BYTES

    @property
    def bytes(self) -> int:
        """What is registered."""
        return self.control + CONTROL_BYTES


def last_reliable(setup: Setup) -> Optional[int]:
    """Return the queue pair that carries the words of control, None if all are unreliable."""
    reliable = [index for index, kind in enumerate(setup.queue_pairs) if kind == RC]
    return reliable[-1] if reliable else None


def flow_label(numbers: random.Random) -> int:
    """Return 1..2^20-1, another one for each queue pair, so that ECMP may take another path."""
    return numbers.randrange(1, 1 << 20)


def rnr_retries(setup: Setup) -> int:
    """Return how often a message is sent again to a peer that has posted no receive."""
    return RNR_FOR_EVER if setup.receives else RNR_RETRIES


def local_cpus(port: VerbsPort) -> str:
    """Return the CPUs next to the port's PCI device as the kernel lists them; empty if there is none."""
    return sysfs.text(port.root / "class" / "infiniband" / port.device / "device" / "local_cpulist") or ""


def not_active(port: VerbsPort) -> Refusal:
    """Return the error for a port without a link."""
    return Refusal(
        SETUP,
        f"port {port.number} of {port.device} is {port.state or 'not active'}:"
        " look at the cable, and at: rdma link",
    )


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


def opcode(op: str) -> int:
    """Return an operation's enum ibv_wr_opcode; Refusal (kind ``wire``) if there is no such operation."""
    if op not in OPS:
        raise Refusal(WIRE, f"no operation {op!r} on a queue pair; there is {', '.join(sorted(OPS))}")
    return OPS[op]


def within(setup: Setup, offset: int, lengths: Sequence[int]) -> None:
    """Raise a Refusal (kind ``wire``) if a message would not lie in the buffer."""
    if not lengths or min(lengths) < 1 or offset < 0 or offset + max(lengths) > setup.buffer_bytes:
        raise Refusal(
            WIRE,
            f"messages of {list(lengths)[:8]} bytes at {offset} do not lie in the buffer of"
            f" {setup.buffer_bytes} bytes",
        )


def existing(setup: Setup, pairs: Sequence[int]) -> None:
    """Raise a Refusal (kind ``wire``) if there is no such queue pair."""
    if not pairs or min(pairs) < 0 or max(pairs) >= len(setup.queue_pairs):
        raise Refusal(WIRE, f"no queue pairs {list(pairs)}; there are {len(setup.queue_pairs)}")


def reliable(pair: Optional[int]) -> int:
    """Return `pair`; Refusal (kind ``wire``) if it is None."""
    if pair is None:
        raise Refusal(WIRE, "words of control need a reliable queue pair")
    return pair


def allowed(setup: Setup, op: str, pairs: Sequence[int]) -> None:
    """Raise a Refusal (kind ``wire``) for a READ on an unreliable queue pair: there is no such thing."""
    if op == READ and any(setup.queue_pairs[pair] != RC for pair in pairs):
        raise Refusal(WIRE, f"no {READ} on a queue pair that is not {RC}")


def slotted(setup: Setup, first: int, step: int, count: int, paths: int) -> None:
    """Raise a Refusal (kind ``wire``) for slots that do not lie in the buffer or overfill a queue pair."""
    existing(setup, range(paths))
    within(setup, first, (step * count,))
    if first % WORD_BYTES or step % WORD_BYTES:
        raise Refusal(WIRE, f"slots of {step} bytes from {first} on are not aligned to {WORD_BYTES} bytes")


def shallow(setup: Setup, requests: int) -> None:
    """Raise a Refusal (kind ``wire``) if `requests` at once are more than a queue pair takes."""
    if requests > setup.depth:
        raise Refusal(WIRE, f"{requests} requests at once on a queue pair that takes {setup.depth}")
