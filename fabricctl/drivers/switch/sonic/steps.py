"""What an intent means for a port of a SONiC switch, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.drivers import wishes
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

ASYMMETRIC = "sonic.pfc_asymmetric"
"""bool: whether the port heeds pauses of all priorities (``pfc_asym``)."""
TC_GROUP = "sonic.tc_group"
"""tuple of 8 ints: the priority group of every traffic class; -1 where no map says."""
PFC_QUEUE = "sonic.pfc_queue"
"""tuple of ints, one for each priority of ``pfc_priorities``: the queue that its pauses stop; -1 where no map
says."""
PFC_GROUP = "sonic.pfc_group"
"""tuple of ints, one for each priority of ``pfc_priorities``: the priority group that sends its pauses."""
ECN_QUEUES = "sonic.ecn_queues"
"""tuple of ints, ascending: the queues that mark."""
LOSSLESS_QUEUES = "sonic.lossless_queues"
"""tuple of ints, ascending: the queues with a lossless buffer profile."""

UNSUPPORTED: Mapping[str, str] = {
    settings.PAUSE: "SONiC has no 802.3x pause of the whole link: it is always off",
}

_FLAPPING = frozenset(
    {
        settings.TRUST,
        settings.DSCP_PRIORITY,
        settings.PRIORITY_TC,
        settings.TC_SCHEDULER,
        settings.TC_BANDWIDTH,
        settings.LOSSLESS_BUFFERS,
        settings.PFC,
        settings.ECN,
        settings.ECN_KMIN,
        settings.ECN_KMAX,
        settings.ECN_PMAX,
        settings.WATCHDOG,
        TC_GROUP,
        PFC_QUEUE,
        PFC_GROUP,
        ECN_QUEUES,
        LOSSLESS_QUEUES,
    }
)
"""Kept in PORT_QOS_MAP, QUEUE, BUFFER_PG or BUFFER_QUEUE: SONiC's updater takes the port down for them."""
_NONE = frozenset(
    {
        settings.WATCHDOG_DETECT,
        settings.WATCHDOG_RESTORE,
        settings.WATCHDOG_ACTION,
        *UNSUPPORTED,
        *settings.KEPT,
    }
)


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand, which SONiC does not speak.

    Lossless classes have a priority group each, all others share the lowest that is left. Without PFC there
    is nothing to watch: a watchdog that is left over makes orchagent fail on the port.
    """
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    enabled, queues = intent.pfc_priorities, intent.priority_tc
    lossy = min(set(range(8)) - set(enabled), default=0)
    values: dict[str, Value] = {
        **wishes.of_switch(intent),
        ASYMMETRIC: False,
        TC_GROUP: tuple(each if each in enabled else lossy for each in range(8)),
        PFC_QUEUE: tuple(queues[each] for each in enabled),
        PFC_GROUP: enabled,
        LOSSLESS_QUEUES: tuple(sorted({queues[each] for each in enabled})),
        ECN_QUEUES: _marking(intent),
    }
    if not enabled:
        values[settings.WATCHDOG] = ()
    return values


def _marking(intent: PortIntent) -> tuple[int, ...]:
    """Return the queues that are to mark: those of PFC, else classes of their own that share bandwidth."""
    if intent.ecn is None:
        return ()
    queues = intent.priority_tc
    chosen = set(intent.pfc_priorities)
    if intent.lossless_priority is not None:
        chosen.add(intent.lossless_priority)
    if chosen:
        return tuple(sorted({queues[each] for each in chosen}))
    own = {each for each in queues if each and intent.tc_scheduler[each] == "ets"}
    return tuple(sorted(own)) or (0,)


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does; what is not known is taken for the worst that a port can meet."""
    del old, new
    if setting in {settings.MTU, ASYMMETRIC}:
        return Disruption.MTU_CHANGE if setting == settings.MTU else Disruption.NONE
    if setting == settings.CABLE_LENGTH:
        return Disruption.BUFFERS
    if setting == settings.WATCHDOG_POLL:
        return Disruption.SYSTEM_WIDE
    return Disruption.NONE if setting in _NONE else Disruption.LINK_FLAP
