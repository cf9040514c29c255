"""What an engine takes of an operation by itself: the same operation between two ends of one port.

No wire and no switch is inside, but the NIC, the driver and the loop. A latency close to it says nothing of
the fabric.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from typing import Optional

from fabricctl.agent.ends import Nic
from fabricctl.agent.gid import Gid
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, SEND, Setup
from fabricctl.agent.wire import DEADLINE, Refusal

SAMPLES = 100
"""Enough for a median: its 95 % interval lies within the 40th and the 60th percentile."""
WARMUP = 10


def floor_ns(nic: Nic, gid: Optional[Gid], op: str, length: int, guard: Guard) -> Optional[int]:
    """Return the median of an operation's round trip of a port to itself, in nanoseconds.

    It is measured once for each NIC, operation and length; a port that did not talk to itself once is not
    asked again, for that takes seconds. Sessions do so before they read counters.

    Returns
    -------
    int or None
        None where the port does not talk to itself.

    Raises
    ------
    Refusal
        The time is up (kind ``deadline``).
    """
    key = (op, length)
    if key not in nic.floors:
        is_mute = None in nic.floors.values()
        nic.floors[key] = None if is_mute else _measured(nic, gid, op, length, guard)
    return nic.floors[key]


def _measured(nic: Nic, gid: Optional[Gid], op: str, length: int, guard: Guard) -> Optional[int]:
    receives = WARMUP + SAMPLES if op == SEND else 0
    setup = Setup((RC,), length, receives=receives)
    with ExitStack() as stack:
        try:
            near = nic.endpoint(setup, gid)
            stack.callback(near.close)
            far = nic.endpoint(setup, gid)
            stack.callback(far.close)
            mtu_bytes = nic.state()["mtu_bytes"]
            near.connect(far.address(), path_mtu_bytes=mtu_bytes, traffic_class=0)
            far.connect(near.address(), path_mtu_bytes=mtu_bytes, traffic_class=0)
            near.round_trips(op, length, WARMUP, guard)
            took = near.round_trips(op, length, SAMPLES, guard)
        except Refusal as refusal:
            if refusal.kind == DEADLINE:
                raise
            return None
    return int(statistics.median(took))
