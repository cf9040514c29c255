"""What an intent means for a Broadcom NIC, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.drivers import wishes
from fabricctl.drivers.nic.bnxt.control import ECN_MARKING, PRIORITY_VLAN, ROCE_DSCP, ROCE_PRIORITY
from fabricctl.drivers.nic.bnxt.parse import UDP_PRIORITY
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value
from fabricctl.plugin.protocols import Parameter

_OWN_BUFFERS = "a Broadcom NIC sizes and assigns its receive buffers itself"
UNSUPPORTED: Mapping[str, str] = {
    **wishes.NOT_MARKING,
    settings.CABLE_LENGTH: _OWN_BUFFERS,
    settings.PRIORITY_BUFFER: _OWN_BUFFERS,
    settings.BUFFER_SIZE: _OWN_BUFFERS,
}

PARAMETERS: Mapping[str, Parameter] = {
    "cc_mode": Parameter("algorithm: 0 DCQCN-D, 1 DCQCN-P (on NICs before BCM575xx: TCP)", 0, 1),
    "g": Parameter("weight of the running average of the congestion probability, no unit", 0, 255),
    "inact_th": Parameter("time without CNPs after which a flow's state is reset, in microseconds", 0, 65535),
    "init_cr": Parameter("current rate with which a flow starts, in the NIC's own unit", 0, 65535),
    "init_tr": Parameter("target rate with which a flow starts, in the NIC's own unit", 0, 65535),
}
"""Of those that Broadcom's driver lists, the ones that it lists at any time and that debugfs has too."""

_ECT_1 = 1
_CLASSES = 8


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand."""
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    return {**wishes.of_nic(intent), **_classes(intent), **_control(intent)}


def _classes(intent: PortIntent) -> dict[str, Value]:
    """Return the classes, numbered anew without gaps: many of these NICs have only three.

    A class that nothing uses is strict without a share, which is what the driver shows where there is none.
    """
    used = sorted(set(intent.priority_tc))
    unused = _CLASSES - len(used)
    number = {tc: at for at, tc in enumerate(used)}
    return {
        settings.PRIORITY_TC: tuple(number[tc] for tc in intent.priority_tc),
        settings.TC_SCHEDULER: (*(intent.tc_scheduler[tc] for tc in used), *["strict"] * unused),
        settings.TC_BANDWIDTH: (*(intent.tc_bandwidth_percent[tc] for tc in used), *[0] * unused),
    }


def _control(intent: PortIntent) -> dict[str, Value]:
    """Return what RoCE packets and congestion notifications are to be.

    The application entry for UDP port 4791 sorts no packet: the DSCP map does. It is set because Broadcom
    documents a priority for RoCE v2 as a condition of congestion control, and its driver learns the priority
    from that entry. With it the driver would tag RoCE packets with VLAN 0 as well; that is switched off where
    DSCP is trusted.
    """
    values: dict[str, Value] = {
        f"bnxt.{name}": value for name, value in intent.parameters.get("bnxt", {}).items()
    }
    if intent.lossless_priority is not None:
        values[UDP_PRIORITY] = (intent.lossless_priority,)
        values[ROCE_PRIORITY] = intent.lossless_priority
        if intent.roce_tos is not None:
            values[ROCE_DSCP] = intent.roce_tos >> 2
        if intent.trust == "dscp":
            values[PRIORITY_VLAN] = False
    if intent.dcqcn is not None:
        values[settings.DCQCN] = intent.dcqcn
        values[ECN_MARKING] = _ECT_1 if intent.dcqcn else 0
    # Without congestion control the NIC sends no notifications, and forgets what they would look like.
    if intent.dcqcn is not False:
        if intent.cnp_dscp is not None:
            values[settings.CNP_DSCP] = intent.cnp_dscp
        if intent.cnp_priority is not None:
            values[settings.CNP_PRIORITY] = intent.cnp_priority
    return values


_STOPS_QUEUES = frozenset({settings.PRIORITY_TC, settings.TC_SCHEDULER, settings.TC_BANDWIDTH, settings.PFC})


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does.

    The driver stops and starts all queues for another number of classes, and for PFC on a class whose queue
    cannot be lossless; pause is part of what the link negotiates; a tag more or less changes RoCE packets.
    """
    del old, new
    if setting == settings.MTU:
        return Disruption.MTU_CHANGE
    if setting == settings.PAUSE:
        return Disruption.LINK_FLAP
    if setting in _STOPS_QUEUES or setting == PRIORITY_VLAN:
        return Disruption.QUEUE_RESET
    return Disruption.NONE
