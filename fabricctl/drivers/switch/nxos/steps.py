"""What an intent means for a port of a Nexus 9000, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.drivers import wishes
from fabricctl.drivers.switch.nxos import policies, terms
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

_NO_RDMA = "a switch port has no RDMA device"
_NO_CNP = "a switch sends no congestion notifications"
UNSUPPORTED: Mapping[str, str] = {
    settings.ROCE_MODE: _NO_RDMA,
    settings.ROCE_TOS: _NO_RDMA,
    settings.DCQCN: _NO_RDMA,
    settings.CNP_DSCP: _NO_CNP,
    settings.CNP_PRIORITY: _NO_CNP,
    settings.CABLE_LENGTH: "NX-OS sizes the headroom by the port's speed and takes no cable length",
    settings.PRIORITY_BUFFER: "NX-OS has no receive buffers to map priorities to",
    settings.BUFFER_SIZE: "NX-OS carves the buffers itself",
    settings.WATCHDOG_ACTION: "the watchdog of NX-OS drops what a stormed queue holds: it cannot forward it",
}

_SYSTEM_WIDE = frozenset(
    {
        settings.PFC,
        settings.LOSSLESS_BUFFERS,
        settings.WATCHDOG_DETECT,
        settings.WATCHDOG_POLL,
        settings.WATCHDOG_RESTORE,
        terms.CLASS_MTU,
        terms.NETWORK_QOS,
        terms.WATCHDOG_GLOBAL,
    }
)
_REBINDS = frozenset(
    {
        settings.TRUST,
        settings.DSCP_PRIORITY,
        settings.PRIORITY_TC,
        settings.TC_SCHEDULER,
        settings.TC_BANDWIDTH,
        settings.ECN,
        settings.ECN_KMIN,
        settings.ECN_KMAX,
        settings.ECN_PMAX,
        terms.ECN_CLASSES,
        terms.CLASSIFIER,
        terms.QUEUING,
        terms.PFC_MODE,
    }
)
_FLAPS = frozenset({settings.PAUSE, terms.FLOW_CONTROL})


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand.

    The watchdog counts in whole intervals: times to detect and to restore are rounded up to such. It always
    drops, so that is not wanted of it; only what it cannot do is.
    """
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    values = wishes.of_switch(intent)
    values.pop(settings.CABLE_LENGTH, None)
    values[terms.FLOW_CONTROL] = "off"
    values[terms.PFC_MODE] = "on" if intent.pfc_priorities else "off"
    # Notifications are small: their class needs no more than it has.
    large = {number for number in intent.priority_tc if intent.tc_scheduler[number] != "strict"}
    values[terms.CLASS_MTU] = tuple(
        intent.mtu_bytes if number in large else policies.DEFAULT_MTU for number in range(terms.QUEUES)
    )
    values[terms.ECN_CLASSES] = _marking(intent)
    values |= dict.fromkeys((terms.CLASSIFIER, terms.QUEUING, terms.NETWORK_QOS), terms.PLAIN)
    if values.get(settings.WATCHDOG_ACTION) == "drop":
        del values[settings.WATCHDOG_ACTION]
    if intent.watchdog is not None and intent.watchdog.on:
        poll_ms = intent.watchdog.poll_ms
        values[terms.WATCHDOG_GLOBAL] = True
        values[settings.WATCHDOG_DETECT] = -(-intent.watchdog.detect_ms // poll_ms) * poll_ms
        values[settings.WATCHDOG_RESTORE] = -(-intent.watchdog.restore_ms // poll_ms) * poll_ms
    return values


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does.

    network-qos is the device's: a change carves the buffers of all its ports anew. The watchdog's switch and
    times are the device's too. Classifier and queues are a port's: its policy-map is taken off before another
    is bound, so packets are without their class for a moment.
    """
    del old, new
    if setting in _SYSTEM_WIDE:
        return Disruption.SYSTEM_WIDE
    if setting in _REBINDS:
        return Disruption.QUEUE_RESET
    if setting in _FLAPS:
        return Disruption.LINK_FLAP
    return Disruption.MTU_CHANGE if setting == settings.MTU else Disruption.NONE


def _marking(intent: PortIntent) -> tuple[int, ...]:
    """Return the classes that are to mark: those with a queue of their own that are not strict."""
    if intent.ecn is None:
        return ()
    strict = {number for number, kind in enumerate(intent.tc_scheduler) if kind == "strict"}
    return tuple(sorted((set(intent.priority_tc) - strict - {0}) | set(intent.pfc_priorities)))
