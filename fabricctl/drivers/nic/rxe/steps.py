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
UNSUPPORTED: Mapping[str, str] = {
    settings.ECN: _NO_MARKING,
    settings.ECN_KMIN: _NO_MARKING,
    settings.ECN_KMAX: _NO_MARKING,
    settings.ECN_PMAX: _NO_MARKING,
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
    }
    if intent.trust == "dscp":
        # Trusting PCP means an empty DSCP map here: the two cannot be had together.
        values[settings.DSCP_PRIORITY] = intent.dscp_priority
    if intent.roce_tos is not None:
        values[settings.ROCE_TOS] = intent.roce_tos
    return values


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does: soft-RoCE itself has no PFC, so that nothing flaps here."""
    del old, new
    return Disruption.MTU_CHANGE if setting == settings.MTU else Disruption.NONE
