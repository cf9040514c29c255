"""What an intent means for a port of Enterprise SONiC, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.drivers import wishes
from fabricctl.drivers.switch.dell_sonic import terms
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

_NO_RDMA = "a switch port has no RDMA device"
_NO_CNP = "a switch sends no congestion notifications"
_OWN_BUFFERS = "the switch carves its buffers itself"
UNSUPPORTED: Mapping[str, str] = {
    settings.ROCE_MODE: _NO_RDMA,
    settings.ROCE_TOS: _NO_RDMA,
    settings.DCQCN: _NO_RDMA,
    settings.CNP_DSCP: _NO_CNP,
    settings.CNP_PRIORITY: _NO_CNP,
    settings.PRIORITY_BUFFER: _OWN_BUFFERS,
    settings.BUFFER_SIZE: _OWN_BUFFERS,
    settings.PAUSE: "sonic-cli has no pause of the whole link (802.3x)",
}

# Where a port's packets are kept: the memory of the switch may be corrupted if traffic runs meanwhile.
_BUFFERS = frozenset({settings.LOSSLESS_BUFFERS, settings.CABLE_LENGTH, terms.TC_GROUP, terms.PFC_GROUP})
_SYSTEM_WIDE = frozenset({settings.WATCHDOG_POLL, terms.COUNTER_POLL})
_QUEUES = frozenset(
    {
        settings.TRUST,
        settings.DSCP_PRIORITY,
        settings.PRIORITY_TC,
        settings.TC_SCHEDULER,
        settings.TC_BANDWIDTH,
        settings.PFC,
        terms.PFC_QUEUE,
        terms.ASYMMETRIC,
    }
)


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand.

    Cables are rounded up to 5, 40 or 300 m, thresholds to the nearest kilobyte (1000 bytes): that is what the
    switch has. All queues with PFC mark, and the lossless class's if PFC is off.
    """
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    values = wishes.of_switch(intent)
    priorities = intent.pfc_priorities
    values[terms.WRED_QUEUES] = _marking(intent)
    values[terms.TC_GROUP] = values[terms.PFC_GROUP] = priorities
    values[terms.PFC_QUEUE] = tuple(intent.priority_tc[priority] for priority in priorities)
    values[terms.ASYMMETRIC] = False
    if intent.watchdog is not None and intent.watchdog.on:
        values[terms.COUNTER_POLL] = True
    for name, rounded in (
        (settings.CABLE_LENGTH, terms.cable_m),
        (settings.ECN_KMIN, terms.kilobytes),
        (settings.ECN_KMAX, terms.kilobytes),
    ):
        found = values.get(name)
        if isinstance(found, int):
            values[name] = rounded(found)
    return values


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does.

    Buffers that change under traffic can corrupt the switch's packet memory. The watchdog's clock is that of
    all ports. A map that is exchanged leaves queued packets where the old one put them.
    """
    del old, new
    if setting in _BUFFERS:
        return Disruption.BUFFERS
    if setting in _SYSTEM_WIDE:
        return Disruption.SYSTEM_WIDE
    if setting in _QUEUES:
        return Disruption.QUEUE_RESET
    return Disruption.MTU_CHANGE if setting == settings.MTU else Disruption.NONE


def _marking(intent: PortIntent) -> tuple[int, ...]:
    """Return the queues that are to mark, ascending."""
    if intent.ecn is None:
        return ()
    lossless = intent.dscp_priority[(intent.roce_tos or 0) >> 2] if intent.dscp_priority else 0
    priorities = intent.pfc_priorities or (lossless,)
    return tuple(sorted({intent.priority_tc[priority] for priority in priorities}))
