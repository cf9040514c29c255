"""What an intent means for an ionic port, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.drivers import wishes
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value
from fabricctl.plugin.protocols import Parameter

NAME = "ionic"
PAUSE = f"{NAME}.pause"
"""str: kind of pause as nicctl names it, and its directions: ``pfc rx tx``."""
STRICT_RATE = f"{NAME}.strict_rate_gbps"
"""int: rate limit of strict priorities in Gb/s; the card accepts none without."""

_STRICT_RATE_GBPS = 10
"""What AMD's recipes give the priority of notifications; a policy may say otherwise."""

_TOP = 2**31 - 1
_DCQCN: Mapping[str, tuple[str, Parameter]] = {
    "token_bucket_size": ("Token bucket size", Parameter("size of the token bucket for bursts", 1, _TOP)),
    "ai_rate": ("Rate increase in AI phase", Parameter("rate increase in the additive phase, Mb/s", 1, _TOP)),
    "hai_rate": ("Rate increase in HAI phase", Parameter("rate increase in the hyper phase, Mb/s", 1, _TOP)),
    "alpha_update_interval": (
        "Alpha update interval",
        Parameter("time between updates of alpha, us", 1, _TOP),
    ),
    "alpha_update_g": ("Alpha update G value", Parameter("g, how fast alpha follows, of 1024", 1, 1023)),
    "initial_alpha_value": (
        "Initial alpha value",
        Parameter("alpha at a flow's first notification", 1, 1023),
    ),
    "rate_increase_byte_count": (
        "Rate increase byte count",
        Parameter("bytes sent between rate increases", 1, _TOP),
    ),
    "rate_reduce_monitor_period": (
        "Rate reduce monitor period",
        Parameter("least time between rate reductions, us", 1, _TOP),
    ),
    "rate_increase_threshold": (
        "Rate increase threshold",
        Parameter("rate increases before the next phase", 1, 31),
    ),
    "rate_increase_interval": (
        "Rate increase interval",
        Parameter("time between rate increases, in round trips", 1, _TOP),
    ),
}

LABELS: Mapping[str, tuple[str, str]] = {
    f"{NAME}.{name}": (label, f"--{name.replace('_', '-')}") for name, (label, _) in _DCQCN.items()
}
"""By setting: how nicctl shows a value of DCQCN, and the option that sets it."""

PARAMETERS: Mapping[str, Parameter] = {
    **{name: parameter for name, (_, parameter) in _DCQCN.items()},
    "strict_rate_gbps": Parameter("rate limit of strict priorities, Gb/s", 1, 800),
}

CNP_LABEL = "DSCP value used for CNP"
"""How nicctl shows the notifications' DSCP."""

_DISRUPTION: Mapping[str, Disruption] = {
    settings.MTU: Disruption.MTU_CHANGE,
    settings.PAUSE: Disruption.LINK_FLAP,
    PAUSE: Disruption.LINK_FLAP,
    settings.PFC: Disruption.LINK_FLAP,
    settings.TRUST: Disruption.QUEUE_RESET,
    settings.DSCP_PRIORITY: Disruption.QUEUE_RESET,
    settings.TC_SCHEDULER: Disruption.QUEUE_RESET,
    settings.TC_BANDWIDTH: Disruption.QUEUE_RESET,
    STRICT_RATE: Disruption.QUEUE_RESET,
}
_NO_BUFFERS = "nicctl neither shows nor sets receive buffers or cable length"
UNSUPPORTED: Mapping[str, str] = {
    **wishes.NOT_MARKING,
    settings.PRIORITY_TC: "every priority has a queue of its own: priorities cannot share a class",
    settings.CABLE_LENGTH: _NO_BUFFERS,
    settings.PRIORITY_BUFFER: _NO_BUFFERS,
    settings.BUFFER_SIZE: _NO_BUFFERS,
    settings.CNP_PRIORITY: "notifications have the priority that the DSCP map gives their DSCP",
}


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand, which these NICs are not.

    Priorities that no DSCP has carry nothing, so what class they share is left out. So is the notifications'
    priority where the DSCP map gives it.
    """
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    values = wishes.of_nic(intent)
    if _is_apart(intent):
        del values[settings.PRIORITY_TC]
    return {**values, **_pause(intent), **_strict_rate(intent), **_notifications(intent)}


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does; AMD does not say, so that the worse is assumed.

    The DSCP map is flushed by classifying by PCP for a moment.
    """
    del old, new
    return _DISRUPTION.get(setting, Disruption.NONE)


def _is_apart(intent: PortIntent) -> bool:
    """Say whether every priority that packets are sorted to has the class of its own number."""
    used = set(intent.dscp_priority) if intent.trust == "dscp" else set(range(8))
    return all(intent.priority_tc[priority] == priority for priority in used)


def _pause(intent: PortIntent) -> Mapping[str, Value]:
    """Return what pauses; priority pause must be chosen as the kind of pause, and both ways switched on."""
    return {PAUSE: "pfc rx tx"} if intent.pfc_priorities else {}


def _strict_rate(intent: PortIntent) -> Mapping[str, Value]:
    if "strict" not in intent.tc_scheduler:
        return {}
    given = intent.parameters.get(NAME, {})
    return {STRICT_RATE: given.get("strict_rate_gbps", _STRICT_RATE_GBPS)}


def _notifications(intent: PortIntent) -> Mapping[str, Value]:
    """Return what DCQCN needs; while it is off it has no values."""
    if intent.dcqcn is None:
        return {}
    if not intent.dcqcn:
        return {settings.DCQCN: False}
    values: dict[str, Value] = {settings.DCQCN: True}
    if intent.cnp_dscp is not None:
        values[settings.CNP_DSCP] = intent.cnp_dscp
        by_map = intent.dscp_priority[intent.cnp_dscp] if intent.dscp_priority else None
        if intent.cnp_priority is not None and intent.cnp_priority != by_map:
            values[settings.CNP_PRIORITY] = intent.cnp_priority
    for name, value in intent.parameters.get(NAME, {}).items():
        if name in _DCQCN:
            values[f"{NAME}.{name}"] = value
    return values
