"""What an intent means for an mlx5 port, and what setting it does to traffic."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fabricctl.drivers.nic.mlx5.congestion import on_priority
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

ROCE_V2 = "RoCE v2"

_NO_MARKING = "a NIC does not mark: its switch port does"
UNSUPPORTED: Mapping[str, str] = {
    settings.ECN: _NO_MARKING,
    settings.ECN_KMIN: _NO_MARKING,
    settings.ECN_KMAX: _NO_MARKING,
    settings.ECN_PMAX: _NO_MARKING,
}

# The driver toggles the link for every change of the PFC mask. Receive buffers are carved anew under traffic.
# Pause of the whole link is one register, and the link stays up.
_DISRUPTIONS: Mapping[str, Disruption] = {
    settings.MTU: Disruption.MTU_CHANGE,
    settings.PFC: Disruption.LINK_FLAP,
    settings.CABLE_LENGTH: Disruption.QUEUE_RESET,
    settings.PRIORITY_BUFFER: Disruption.QUEUE_RESET,
    settings.BUFFER_SIZE: Disruption.QUEUE_RESET,
}


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand, whose classes are the SM's."""
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    return {**_classes(intent), **_congestion(intent), **_roce(intent)}


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does; what firmware stores does nothing before its reset."""
    del old, new
    return _DISRUPTIONS.get(setting, Disruption.NONE)


def _classes(intent: PortIntent) -> dict[str, Value]:
    values: dict[str, Value] = {
        settings.MTU: intent.mtu_bytes,
        settings.MTU_KEPT: str(intent.mtu_bytes),
        settings.TRUST: intent.trust,
        settings.PRIORITY_TC: intent.priority_tc,
        settings.TC_SCHEDULER: intent.tc_scheduler,
        settings.TC_BANDWIDTH: intent.tc_bandwidth_percent,
        settings.PFC: intent.pfc_priorities,
    }
    if intent.trust == "dscp":
        # Trusting PCP means an empty DSCP map here: the two cannot be had together.
        values[settings.DSCP_PRIORITY] = intent.dscp_priority
    if intent.pause is not None:
        values[settings.PAUSE] = intent.pause
    if intent.cable_length_m > 0:
        values[settings.CABLE_LENGTH] = math.ceil(intent.cable_length_m)
    if intent.priority_buffer:
        values[settings.PRIORITY_BUFFER] = intent.priority_buffer
    if intent.buffer_size_bytes:
        values[settings.BUFFER_SIZE] = intent.buffer_size_bytes
    return values


def _congestion(intent: PortIntent) -> dict[str, Value]:
    """Return DCQCN on the lossless priority; other priorities are left as they are."""
    values: dict[str, Value] = {}
    if intent.dcqcn is not None and intent.lossless_priority is not None:
        values[on_priority(intent.lossless_priority)] = intent.dcqcn
    if intent.dcqcn and intent.cnp_dscp is not None:
        values[settings.CNP_DSCP] = intent.cnp_dscp
    if intent.dcqcn and intent.cnp_priority is not None:
        values[settings.CNP_PRIORITY] = intent.cnp_priority
    given = intent.parameters.get("mlx5", {})
    return {**values, **{f"mlx5.{name}": value for name, value in given.items()}}


def _roce(intent: PortIntent) -> dict[str, Value]:
    values: dict[str, Value] = {settings.ROCE_MODE: ROCE_V2}
    if intent.roce_tos is not None:
        values[settings.ROCE_TOS] = intent.roce_tos
    return values
