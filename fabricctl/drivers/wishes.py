"""What an intent means in the settings that drivers share; a driver adds to it, or has the last word."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fabricctl.model import settings
from fabricctl.model.intent import PortIntent
from fabricctl.model.reading import Value

ROCE_V2 = "RoCE v2"

NOT_MARKING: Mapping[str, str] = dict.fromkeys(
    (settings.ECN, settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX),
    "a NIC does not mark: its switch port does",
)
"""What no NIC can have."""


def of_port(intent: PortIntent) -> dict[str, Value]:
    """Return MTU, classification, scheduling and PFC of an Ethernet port, NIC or switch."""
    values: dict[str, Value] = {
        settings.MTU: intent.mtu_bytes,
        settings.TRUST: intent.trust,
        settings.PRIORITY_TC: intent.priority_tc,
        settings.TC_SCHEDULER: intent.tc_scheduler,
        settings.TC_BANDWIDTH: intent.tc_bandwidth_percent,
        settings.PFC: intent.pfc_priorities,
    }
    if intent.trust == "dscp":
        # Trusting PCP means an empty DSCP map: the two cannot be had together.
        values[settings.DSCP_PRIORITY] = intent.dscp_priority
    return values


def of_switch(intent: PortIntent) -> dict[str, Value]:
    """Return :func:`of_port`, and what only switches have: marking, buffers with headroom, the watchdog.

    Lossless buffers are meant for exactly the priorities with PFC. Thresholds are meant only where the port
    marks, the cable only where the inventory knows its length, the watchdog only where the policy says so.
    """
    values: dict[str, Value] = {
        **of_port(intent),
        settings.PAUSE: False,
        settings.LOSSLESS_BUFFERS: intent.pfc_priorities,
        settings.ECN: intent.ecn is not None,
    }
    if intent.cable_length_m > 0:
        values[settings.CABLE_LENGTH] = math.ceil(intent.cable_length_m)
    if intent.ecn is not None:
        values[settings.ECN_KMIN] = intent.ecn.kmin_bytes
        values[settings.ECN_KMAX] = intent.ecn.kmax_bytes
        values[settings.ECN_PMAX] = intent.ecn.pmax_percent
    if intent.watchdog is not None:
        values[settings.WATCHDOG] = intent.pfc_priorities if intent.watchdog.on else ()
        if intent.watchdog.on:
            values[settings.WATCHDOG_DETECT] = intent.watchdog.detect_ms
            values[settings.WATCHDOG_RESTORE] = intent.watchdog.restore_ms
            values[settings.WATCHDOG_POLL] = intent.watchdog.poll_ms
            values[settings.WATCHDOG_ACTION] = intent.watchdog.action
    return values


def of_nic(intent: PortIntent) -> dict[str, Value]:
    """Return :func:`of_port`, and what only NICs have apart from congestion control."""
    given: dict[str, Value | None] = {
        settings.PAUSE: intent.pause,
        settings.ROCE_TOS: intent.roce_tos,
        settings.PRIORITY_BUFFER: intent.priority_buffer or None,
        settings.BUFFER_SIZE: intent.buffer_size_bytes or None,
    }
    return {
        **of_port(intent),
        settings.MTU_KEPT: str(intent.mtu_bytes),
        settings.ROCE_MODE: ROCE_V2,
        **{name: value for name, value in given.items() if value is not None},
    }
