"""What an intent means for a port of an EOS switch, and what setting it does to traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabricctl.drivers import wishes
from fabricctl.drivers.switch.eos import terms
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Value

_NO_RDMA = "a switch port has no RDMA device"
UNSUPPORTED: Mapping[str, str] = {
    settings.ROCE_MODE: _NO_RDMA,
    settings.ROCE_TOS: _NO_RDMA,
    settings.CABLE_LENGTH: "EOS works out its headroom by itself and takes no cable length",
}

_TIMER_STEP_MS = 10
_SYSTEM_WIDE = frozenset({settings.DSCP_PRIORITY, settings.PRIORITY_TC})
_BUFFERS = frozenset({settings.PFC, settings.LOSSLESS_BUFFERS})


def wanted(intent: PortIntent) -> Mapping[str, Value]:
    """Return the settings that realise the intent; nothing on InfiniBand.

    Differences from the intent, all of which the switch imposes: no MTU is larger than 9214, traffic class 7
    stays in queue 7, which is strict, and the watchdog's times are multiples of 10 ms.
    """
    if intent.link_layer is not LinkLayer.ETHERNET:
        return {}
    values = wishes.of_switch(intent)
    values[settings.MTU] = min(intent.mtu_bytes, terms.MTU_MAX)
    classes = (*intent.priority_tc[: terms.RESERVED], terms.RESERVED)
    values[settings.PRIORITY_TC] = classes
    strict, percents = scheduling(classes, intent.tc_scheduler, intent.tc_bandwidth_percent)
    values[settings.TC_SCHEDULER] = strict
    values[settings.TC_BANDWIDTH] = percents
    if intent.ecn is not None:
        values[terms.ECN_QUEUES] = _marking(intent)
        values[terms.ECN_COUNTED] = True
    if intent.watchdog is not None and intent.watchdog.on:
        detect_ms, restore_ms = (
            _timer_ms(ms) for ms in (intent.watchdog.detect_ms, intent.watchdog.restore_ms)
        )
        values[settings.WATCHDOG_DETECT] = detect_ms
        values[settings.WATCHDOG_RESTORE] = restore_ms
        # EOS would override a longer one by itself.
        values[settings.WATCHDOG_POLL] = min(intent.watchdog.poll_ms, detect_ms // 2, restore_ms // 2)
        values[settings.WATCHDOG_ACTION] = terms.ACTIONS[intent.watchdog.action]
    return values


def scheduling(
    classes: Sequence[int], schedulers: Sequence[str], percents: Sequence[int]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return scheduler and bandwidth of every queue as wanted and read are compared.

    A queue that no traffic class leads to is given as ``ets`` with 0 percent: it changes nothing. Queue 7 is
    the switch's own, and strict.
    """
    used = [queue in classes for queue in range(terms.QUEUES)]
    kinds = [kind if used[queue] else "ets" for queue, kind in enumerate(schedulers)]
    shares = [share if used[queue] else 0 for queue, share in enumerate(percents)]
    kinds[terms.RESERVED], shares[terms.RESERVED] = "strict", 0
    return tuple(kinds), tuple(shares)


def disruption(setting: str, old: Entry, new: Value) -> Disruption:
    """Return what changing `setting` does: the maps are the whole switch's, PFC carves its buffers anew."""
    del old, new
    if setting in _SYSTEM_WIDE:
        return Disruption.SYSTEM_WIDE
    if setting in _BUFFERS:
        return Disruption.BUFFERS
    if setting == settings.MTU:
        return Disruption.MTU_CHANGE
    return Disruption.LINK_FLAP if setting == settings.PAUSE else Disruption.NONE


def _marking(intent: PortIntent) -> tuple[int, ...]:
    """Return the lossless class's queues: those with PFC; without PFC, the classes that share bandwidth."""
    classes = intent.priority_tc
    if intent.pfc_priorities:
        return tuple(sorted({classes[priority] for priority in intent.pfc_priorities}))
    return tuple(sorted({tc for tc in classes if tc and intent.tc_scheduler[tc] == "ets"})) or (0,)


def _timer_ms(milliseconds: int) -> int:
    return -(-milliseconds // _TIMER_STEP_MS) * _TIMER_STEP_MS
