"""What an intent means for an mlx5 port, and what setting it does to traffic."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fabricctl.drivers import wishes
from fabricctl.drivers.nic.mlx5.congestion import on_priority
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

UNSUPPORTED: Mapping[str, str] = {
    **wishes.NOT_MARKING,
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
    return {**wishes.of_nic(intent), **_cable(intent), **_congestion(intent)}


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does; what firmware stores does nothing before its reset."""
    del old, new
    return _DISRUPTIONS.get(setting, Disruption.NONE)


def _cable(intent: PortIntent) -> dict[str, Value]:
    return {settings.CABLE_LENGTH: math.ceil(intent.cable_length_m)} if intent.cable_length_m > 0 else {}


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
