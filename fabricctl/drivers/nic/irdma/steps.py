"""What an intent means for an Intel E800 NIC, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.drivers import wishes
from fabricctl.drivers.nic.irdma.rdma import PROTOCOL
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

_OWN_BUFFERS = "the ice driver sizes and assigns its receive buffers itself"
_NO_CNP = "irdma has no setting for what its congestion notifications look like"
UNSUPPORTED: Mapping[str, str] = {
    **wishes.NOT_MARKING,
    settings.CABLE_LENGTH: _OWN_BUFFERS,
    settings.PRIORITY_BUFFER: _OWN_BUFFERS,
    settings.BUFFER_SIZE: _OWN_BUFFERS,
    settings.CNP_DSCP: _NO_CNP,
    settings.CNP_PRIORITY: _NO_CNP,
}

_CLASSES = 8


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand."""
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    given = {f"irdma.{name}": value for name, value in intent.parameters.get("irdma", {}).items()}
    return {**wishes.of_nic(intent), **_classes(intent), PROTOCOL: "roce", **given, **_control(intent)}


def _control(intent: PortIntent) -> dict[str, Value]:
    given: dict[str, Value | None] = {
        settings.DCQCN: intent.dcqcn,
        settings.CNP_DSCP: intent.cnp_dscp if intent.dcqcn else None,
        settings.CNP_PRIORITY: intent.cnp_priority if intent.dcqcn else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _classes(intent: PortIntent) -> dict[str, Value]:
    """Return the classes: with trust in DSCP, priority N is class N on these NICs, and takes over the share.

    Priorities that packets are sorted to and that the intent puts into one class cannot be had together: then
    the classes stay as they are meant, and setting them says what the driver makes of it.
    """
    used = sorted({*intent.dscp_priority, *intent.pfc_priorities})
    classes = [intent.priority_tc[priority] for priority in used]
    if intent.trust != "dscp" or len(set(classes)) < len(used):
        return {
            settings.PRIORITY_TC: intent.priority_tc,
            settings.TC_SCHEDULER: intent.tc_scheduler,
            settings.TC_BANDWIDTH: intent.tc_bandwidth_percent,
        }
    schedulers, shares = ["ets"] * _CLASSES, [0] * _CLASSES
    for priority, tc in zip(used, classes, strict=True):
        schedulers[priority] = intent.tc_scheduler[tc]
        shares[priority] = intent.tc_bandwidth_percent[tc]
    return {
        settings.PRIORITY_TC: tuple(range(_CLASSES)),
        settings.TC_SCHEDULER: tuple(schedulers),
        settings.TC_BANDWIDTH: tuple(shares),
    }


_INTERFACE_RESTARTS = frozenset(
    {
        settings.TRUST,
        settings.DSCP_PRIORITY,
        settings.PRIORITY_TC,
        settings.TC_SCHEDULER,
        settings.TC_BANDWIDTH,
        settings.PFC,
        settings.PAUSE,
    }
)


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does.

    The driver takes the interface down and up for every change of classes, once for every entry of the DSCP
    map, and restarts negotiation for pause. Another protocol takes the verbs device away, and all queue pairs
    with it. Module parameters change nothing before the module is loaded again.
    """
    del old, new
    if setting == settings.MTU:
        return Disruption.MTU_CHANGE
    if setting in _INTERFACE_RESTARTS:
        return Disruption.LINK_FLAP
    return Disruption.QUEUE_RESET if setting == PROTOCOL else Disruption.NONE
