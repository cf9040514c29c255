"""What an intent means for a port of a Linux bridge, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.drivers import wishes
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

_NO_RDMA = "a switch port has no RDMA device"
UNSUPPORTED: Mapping[str, str] = {settings.ROCE_MODE: _NO_RDMA, settings.ROCE_TOS: _NO_RDMA}

_MARKING = frozenset({settings.ECN, settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX})


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand, which a bridge does not speak."""
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    values = {**wishes.of_port(intent), settings.ECN: intent.ecn is not None}
    if intent.ecn is not None:
        values[settings.ECN_KMIN] = intent.ecn.kmin_bytes
        values[settings.ECN_KMAX] = intent.ecn.kmax_bytes
        values[settings.ECN_PMAX] = intent.ecn.pmax_percent
    return values


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does: a new root qdisc drops what is queued."""
    del old, new
    if setting == settings.MTU:
        return Disruption.MTU_CHANGE
    return Disruption.QUEUE_RESET if setting in _MARKING else Disruption.NONE
