"""What an intent means for a soft-RoCE port, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

ROCE_V2 = "RoCE v2"

_NO_MARKING = "a NIC does not mark: its switch port does"
_NO_DCQCN = "soft-RoCE has no DCQCN: it neither sends congestion notifications nor slows down for them"
UNSUPPORTED: Mapping[str, str] = {
    settings.ECN: _NO_MARKING,
    settings.ECN_KMIN: _NO_MARKING,
    settings.ECN_KMAX: _NO_MARKING,
    settings.ECN_PMAX: _NO_MARKING,
    settings.DCQCN: _NO_DCQCN,
    settings.CNP_DSCP: _NO_DCQCN,
    settings.CNP_PRIORITY: _NO_DCQCN,
    settings.CABLE_LENGTH: "what a PFC delay means, metres or bits, is for each netdev's driver to say",
}


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand, which soft-RoCE is not."""
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    values: dict[str, Value] = {
        settings.MTU: intent.mtu_bytes,
        settings.TRUST: intent.trust,
        settings.PRIORITY_TC: intent.priority_tc,
        settings.TC_SCHEDULER: intent.tc_scheduler,
        settings.TC_BANDWIDTH: intent.tc_bandwidth_percent,
        settings.PFC: intent.pfc_priorities,
        settings.ROCE_MODE: ROCE_V2,
        settings.MTU_KEPT: str(intent.mtu_bytes),
    }
    if intent.trust == "dscp":
        # Trusting PCP means an empty DSCP map here: the two cannot be had together.
        values[settings.DSCP_PRIORITY] = intent.dscp_priority
    if intent.pause is not None:
        values[settings.PAUSE] = intent.pause
    if intent.roce_tos is not None:
        values[settings.ROCE_TOS] = intent.roce_tos
    return {**values, **_buffers(intent), **_notifications(intent)}


def _buffers(intent: PortIntent) -> Mapping[str, Value]:
    given = {
        settings.PRIORITY_BUFFER: intent.priority_buffer,
        settings.BUFFER_SIZE: intent.buffer_size_bytes,
    }
    return {name: value for name, value in given.items() if value}


def _notifications(intent: PortIntent) -> Mapping[str, Value]:
    """Return what DCQCN needs; nothing where it is off, as it always is here."""
    if not intent.dcqcn:
        return {}
    given = {settings.CNP_DSCP: intent.cnp_dscp, settings.CNP_PRIORITY: intent.cnp_priority}
    return {settings.DCQCN: True, **{name: value for name, value in given.items() if value is not None}}


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does: soft-RoCE itself has no PFC, so that nothing flaps here."""
    del old, new
    return Disruption.MTU_CHANGE if setting == settings.MTU else Disruption.NONE
