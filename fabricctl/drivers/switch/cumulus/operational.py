"""What a switch does with a port, as NVUE shows it; shapes are read with care: few of them are documented.

Thresholds are rounded to the ASIC's cells (150000 bytes are 159744 on Spectrum-4): operational values are
compared with a tolerance, and never taken for the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from fabricctl.drivers.switch.cumulus import tree as nvue
from fabricctl.model import facts, settings
from fabricctl.model.reading import Entry, Known
from fabricctl.plugin.answers import Unread, entry

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(|B|Bytes|KB|MB|GB)", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "bytes": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3}
_SPEED = re.compile(r"(\d+)(M|G|T)")
_SPEEDS = {"M": 1, "G": 1000, "T": 1_000_000}
_ROUNDED = 0.1
"""Largest share by which a threshold in hardware may differ from what is configured."""


def size_bytes(shown: Any) -> int:
    """Return a size that NVUE shows as 25000, "25000 B" or "146.48 KB" (then rounded) in bytes."""
    match = _SIZE.fullmatch(str(shown).strip())
    if match is None or isinstance(shown, bool):
        raise Unread(f"unparsable: {shown!r:.40} is no size")
    return round(float(match[1]) * _UNITS[match[2].lower()])


NO_PAUSE_POINT = (0,) * 8
"""Lossless traffic has a share of whatever is free of its pool before it comes to the reserved buffer."""


def headroom(tree: Any) -> tuple[int, ...]:
    """Return what the switch reserves behind the pause point of every PFC priority.

    NVUE shows the whole reserved buffer of a priority, and the fill at which it sends pauses: the rest of it
    takes what is still on the way.
    """
    node = tree["pfc"]
    paused = nvue.paused_priorities(nvue.expanded(node))
    if not paused:
        return (0,) * 8
    if "port-buffer" not in node or "xoff-threshold" not in node:
        raise Unread("the switch does not show its PFC buffer")
    left = size_bytes(node["port-buffer"]) - size_bytes(node["xoff-threshold"])
    return tuple(left if priority in paused else 0 for priority in range(8))


def contradictions(tree: Any, applied: Mapping[str, Entry]) -> tuple[str, ...]:
    """Return, as ``setting: what to do``, what is applied and yet not what the hardware works with."""
    shown: dict[str, Any] = {}
    node = tree.get("pfc")
    if isinstance(node, dict) and "switch-priority" in node:
        shown[settings.PFC] = nvue.read_pfc(nvue.expanded({**node, "cable-length": 1, **_NO_SIZES}))[
            settings.PFC
        ]
    classes = nvue.at(tree, "congestion-control", "traffic-class")
    match applied.get("cumulus.ecn_classes"):
        case Known(tuple(marking)) if classes:
            for setting, label in (
                (settings.ECN_KMIN, "min-threshold"),
                (settings.ECN_KMAX, "max-threshold"),
            ):
                for tc in marking:
                    size = nvue.at(nvue.expanded(classes, ranged=True), str(tc), label)
                    if size not in ({}, None):
                        shown.setdefault(setting, size_bytes(size))
        case _:
            pass
    return tuple(
        f"{setting}: the hardware works with {value}; apply the revision again (nv config history)"
        for setting, value in shown.items()
        if isinstance(said := applied.get(setting), Known) and not _alike(said.value, value)
    )


_NO_SIZES = {"port-buffer": 0, "xoff-threshold": 0, "xon-threshold": 0}


def _alike(applied: Any, shown: Any) -> bool:
    if isinstance(applied, int) and isinstance(shown, int):
        return abs(applied - shown) <= _ROUNDED * applied
    return bool(applied == shown)


def link_facts(interface: Callable[[], Any]) -> dict[str, Entry]:
    """Return what the list of interfaces says of a port; `interface` raises if it is not in it."""

    def link() -> Any:
        return interface()["link"]

    return {
        facts.LINK_STATE: entry(lambda: _state(link())),
        facts.SPEED: entry(lambda: _speed(link())),
        facts.MAC: entry(lambda: str(_first(link(), "mac-address", "mac")).lower()),
        facts.LINK_DOWNS: entry(lambda: int(link()["stats"]["carrier-down-count"])),
        facts.FEC: entry(lambda: _fec(link())),
        facts.PARTNER: entry(lambda: _partner(interface())),
    }


def _first(node: Any, *keys: str) -> Any:
    for key in keys:
        if key in node:
            return node[key]
    raise Unread(f"NVUE does not show {keys[0]}")


def _state(link: Any) -> str:
    said = str(_first(link, "oper-status"))
    if said not in {"up", "down"}:
        raise Unread(f"unparsable: oper-status is {said:.40}")
    return said


def _speed(link: Any) -> int:
    match = _SPEED.fullmatch(str(_first(link, "speed")))
    if match is None:
        raise Unread(f"unparsable: speed is {link['speed']!r:.40}")
    return int(match[1]) * _SPEEDS[match[2]]


def _fec(link: Any) -> str:
    said = str(_first(link, "oper-fec", "fec")).lower()
    words = {"baser": "fc", "off": "none", "rs": "rs", "none": "none", "fc": "fc"}
    if said not in words:
        raise Unread(f"NVUE shows no FEC in use, only {said:.40}")
    return words[said]


def _partner(interface: Any) -> str:
    neighbours = nvue.at(interface, "lldp", "neighbor")
    if not neighbours:
        raise Unread("no LLDP neighbour is heard on the port")
    if len(neighbours) > 1:
        raise Unread(f"several LLDP neighbours are heard on the port: {', '.join(sorted(neighbours))}")
    device, node = next(iter(neighbours.items()))
    name = nvue.at(node, "chassis", "system-name") or device
    label = nvue.at(node, "port", "name") or nvue.at(node, "port", "ifname")
    if not label:
        raise Unread("the LLDP neighbour does not name its port")
    return f"{name}/{label}"
