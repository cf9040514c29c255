"""How a difference between two ends is said, and which of them is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.model import settings
from fabricctl.model.names import PortId
from fabricctl.model.reading import Value
from fabricctl.plugin.holding import said, same

HEADERS = 14 + 4 + 4
"""Bytes of a frame around an IP packet: Ethernet header, VLAN tag, FCS."""

End = tuple[PortId, Value, Value]
"""A port, what it has, and what the policy says it is to have."""

LABELS: Mapping[str, tuple[str, str]] = {
    settings.MTU: ("the MTU is", " bytes"),
    settings.TRUST: ("trust is", ""),
    settings.PFC: ("PFC priorities are", ""),
    settings.PAUSE: ("pause of the whole link is", ""),
    settings.ECN: ("ECN is", ""),
    settings.ECN_KMIN: ("Kmin is", " bytes"),
    settings.ECN_KMAX: ("Kmax is", " bytes"),
    settings.ECN_PMAX: ("the marking probability at Kmax is", " %"),
    settings.WATCHDOG: ("priorities with a PFC watchdog are", ""),
    settings.WATCHDOG_DETECT: ("the watchdog's detection time is", " ms"),
    settings.WATCHDOG_RESTORE: ("the watchdog's restoration time is", " ms"),
    settings.WATCHDOG_POLL: ("the watchdog's polling interval is", " ms"),
    settings.WATCHDOG_ACTION: ("the watchdog's action is", ""),
}
_ENTRIES: Mapping[str, tuple[str, str]] = {
    settings.DSCP_PRIORITY: ("DSCP", "priority"),
    settings.PRIORITY_TC: ("priority", "class"),
}
"""Settings with an entry for each of something, and what an entry is."""


def difference(setting: str, one: End, other: End) -> str:
    """Return how two ends differ in a setting, and which of them is wrong against the policy."""
    if setting in _ENTRIES:
        return _entries(setting, one, other)
    label, unit = LABELS[setting]
    values = f"{label} {said(one[1])} on {one[0]} and {said(other[1])} on {other[0]}"
    verdict = blame(*((port, same(has, meant), f"{said(meant)}{unit}") for port, has, meant in (one, other)))
    return f"{values}: {verdict}"


def alike(setting: str, has: Value, meant: Value) -> str:
    """Return what two ends have in common and the policy does not mean, as ``PFC priorities none (3)``."""
    if setting in _ENTRIES:
        thing, kind = _ENTRIES[setting]
        first = next((n for n, (x, y) in enumerate(_pairs(has, meant)) if x != y), None)
        if first is None:
            return f"{thing} map {said(has)} ({said(meant)})"
        return f"{thing} {first} is {kind} {_at(has, first)} ({_at(meant, first)})"
    label, unit = LABELS[setting]
    name = label.removeprefix("the ").removesuffix(" is").removesuffix(" are")
    return f"{name} {said(has)}{unit} ({said(meant)}{unit})"


def blame(one: tuple[PortId, bool, str], other: tuple[PortId, bool, str]) -> str:
    """Return which of two ends is wrong: each is its port, whether it is right, and what the policy says."""
    wrong = [(port, meant) for port, right, meant in (one, other) if not right]
    if len(wrong) == 1:
        return f"{wrong[0][0]} is wrong, the policy says {wrong[0][1]}"
    says = dict.fromkeys(meant for _, _, meant in (one, other))
    return f"both are wrong, the policy says {' and '.join(says)}"


def frame(mtu_bytes: int) -> int:
    """Return the longest frame of a netdev with that MTU, headers and FCS included, in bytes."""
    return mtu_bytes + HEADERS


def too_long(node: PortId, mtu_bytes: int, switch: PortId, passes: int) -> str:
    """Return that a switch port passes no frame as long as its node may send."""
    return (
        f"{node} may send frames of {frame(mtu_bytes)} bytes (MTU {mtu_bytes} and {HEADERS} of headers),"
        f" {switch} passes only {passes}"
    )


def _entries(setting: str, one: End, other: End) -> str:
    """Return the first entry in which two lists differ, and how many more do."""
    thing, kind = _ENTRIES[setting]
    differing = [
        number
        for number, ((x, x_meant), (y, y_meant)) in enumerate(
            zip(_pairs(one[1], one[2]), _pairs(other[1], other[2]), strict=False)
        )
        if (x != x_meant or y != y_meant) and (x != y or x_meant != y_meant)
    ]
    if not differing:
        return f"the {thing} map is {said(one[1])} on {one[0]} and {said(other[1])} on {other[0]}"
    first = differing[0]
    ends = [(port, _at(has, first), _at(meant, first)) for port, has, meant in (one, other)]
    more = f" ({len(differing) - 1} more differ)" if len(differing) > 1 else ""
    verdict = blame(*((port, has == meant, meant) for port, has, meant in ends))
    return (
        f"{thing} {first} is {kind} {ends[0][1]} on {one[0]} and {ends[1][1]} on {other[0]}{more}: {verdict}"
    )


def _pairs(one: Value, other: Value) -> list[tuple[object, object]]:
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return []
    return list(zip(one, other, strict=False))


def _at(value: Value, place: int) -> str:
    return str(value[place]) if isinstance(value, tuple) else str(value)
