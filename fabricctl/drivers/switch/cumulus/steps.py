"""What an intent means for a port of Cumulus Linux, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.drivers import wishes
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

PFC_RX = "cumulus.pfc_rx"
PFC_TX = "cumulus.pfc_tx"
"""bool: whether the port heeds pauses, and whether it sends them; PFC needs both."""
PFC_BUFFER = "cumulus.pfc_buffer_bytes"
"""tuple of 3 ints: port buffer, xoff and xon thresholds by hand, in bytes; 0 lets the switch compute."""
ECN_CLASSES = "cumulus.ecn_classes"
"""tuple of ints, ascending: the traffic classes whose queues mark."""
RED = "cumulus.red"
"""bool: whether packets that cannot be marked are dropped early."""
PCP_PRIORITY = "cumulus.pcp_priority"
"""tuple of 8 ints 0..7: the priority of every PCP, where the port trusts it."""

UNSUPPORTED: Mapping[str, str] = {
    settings.WATCHDOG_RESTORE: "the watchdog restores after one polling interval without a pause",
    settings.WATCHDOG_ACTION: "the watchdog always drops",
}

_POLL_MS = (100, 5000)
_MOST_ROUNDS = 1000

# All of them make the switch carve its packet buffer anew, for all its ports.
_CARVING = frozenset(
    {
        settings.CABLE_LENGTH,
        settings.LOSSLESS_BUFFERS,
        settings.PAUSE,
        settings.PFC,
        PFC_BUFFER,
        PFC_RX,
        PFC_TX,
    }
)
_SHARED = frozenset({settings.PRIORITY_TC, settings.WATCHDOG_POLL, settings.WATCHDOG_DETECT})


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand.

    The watchdog's clock ticks between 100 and 5000 ms and detects after whole ticks: times are rounded up to
    that. It always drops, and restores after one tick: only what differs from that is wanted of it.
    """
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    values: dict[str, Value] = wishes.of_switch(intent)
    if intent.trust == "pcp":
        values[PCP_PRIORITY] = tuple(range(8))
    if intent.pfc_priorities:
        values |= {PFC_RX: True, PFC_TX: True, PFC_BUFFER: (0, 0, 0)}
    else:
        # The cable is a matter of a PFC profile.
        values.pop(settings.CABLE_LENGTH, None)
    if intent.ecn is not None:
        values |= {ECN_CLASSES: marking_classes(intent), RED: False}
    _time(values)
    return values


def marking_classes(intent: PortIntent) -> tuple[int, ...]:
    """Return the classes that are to mark: those of PFC and of the lossless class, class 0 without either."""
    own = {intent.priority_tc[priority] for priority in intent.pfc_priorities}
    own |= {tc for tc in intent.priority_tc if tc != 0 and intent.tc_scheduler[tc] != "strict"}
    return tuple(sorted(own)) or (0,)


def _time(values: dict[str, Value]) -> None:
    poll = values.get(settings.WATCHDOG_POLL)
    detect = values.get(settings.WATCHDOG_DETECT)
    if not isinstance(poll, int) or not isinstance(detect, int):
        return
    lowest, highest = _POLL_MS
    poll = min(max(poll, lowest), highest)
    rounds = min(max(1, -(-detect // poll)), _MOST_ROUNDS)
    values[settings.WATCHDOG_POLL] = poll
    values[settings.WATCHDOG_DETECT] = poll * rounds
    if values.get(settings.WATCHDOG_RESTORE) == poll:
        del values[settings.WATCHDOG_RESTORE]
    if values.get(settings.WATCHDOG_ACTION) == "drop":
        del values[settings.WATCHDOG_ACTION]


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does: buffers and queues are those of all ports."""
    del old, new
    if setting == settings.MTU:
        return Disruption.MTU_CHANGE
    if setting in _CARVING:
        return Disruption.BUFFERS
    return Disruption.SYSTEM_WIDE if setting in _SHARED else Disruption.NONE
