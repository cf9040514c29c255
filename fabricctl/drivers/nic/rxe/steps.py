"""What an intent means for a soft-RoCE port, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.drivers import wishes
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

_NO_DCQCN = "soft-RoCE has no DCQCN: it neither sends congestion notifications nor slows down for them"
UNSUPPORTED: Mapping[str, str] = {
    **wishes.NOT_MARKING,
    settings.DCQCN: _NO_DCQCN,
    settings.CNP_DSCP: _NO_DCQCN,
    settings.CNP_PRIORITY: _NO_DCQCN,
    settings.CABLE_LENGTH: "what a PFC delay means, metres or bits, is for each netdev's driver to say",
}


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand, which soft-RoCE is not."""
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    return {**wishes.of_nic(intent), **_notifications(intent)}


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
