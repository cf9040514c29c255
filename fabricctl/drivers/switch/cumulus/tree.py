"""NVUE's configuration as a tree: what it means for one port, setting by setting.

The names of settings are those of ``fabricctl/model/settings.py``, written out: this module also runs on the
switch under its own Python (3.7 or later), where the rest of fabricctl is not.

What is not configured has the factory's value (NVIDIA, Cumulus Linux user guide, Quality of Service), or the
one of the all-ports preset ``qos roce`` where that is on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Python 3.7 cannot evaluate dict[str, Any]
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Tree = dict[str, Any]
    Values = dict[str, Any]

PORT_MTU = 9216
PRIORITIES = range(8)
DSCPS = range(64)
DEFAULT = "default-global"
"""The profile of all ports that name none."""
OWN = "fabricctl-"
"""What the names of fabricctl's own profiles begin with."""
TRUST = {"l2": "pcp", "l3": "dscp", "both": "both", "port": "port"}
ECN_FACTORY = {"min-threshold": 150000, "max-threshold": 1500000, "probability": 100}

_MODELLED_PRESETS = ("lossless", "lossy", "lossless-single-ipool")
_LARGEST_RANGE = 4096
_RANGE = re.compile(r"(?P<prefix>.*?)(?P<first>\d+)-(?P<last>\d+)")
_NUMBER = re.compile(r"(?P<prefix>.*?)(?P<first>\d+)")
_RANGED = frozenset({"interface", "dscp", "pcp", "switch-priority", "traffic-class"})
"""What has several names in one key where they have the same value: ``eth1-4,6``, ``0-3,5``."""

NAMES: dict[str, tuple[str, ...]] = {
    "link": ("mtu_bytes",),
    "link-pause": ("global_pause",),
    "mapping": ("trust", "dscp_priority", "cumulus.pcp_priority"),
    "egress-queue-mapping": ("priority_tc",),
    "egress-scheduler": ("tc_scheduler", "tc_bandwidth_percent"),
    "pfc": (
        "pfc_priorities",
        "cumulus.pfc_rx",
        "cumulus.pfc_tx",
        "cable_length_m",
        "cumulus.pfc_buffer_bytes",
    ),
    "traffic-pool": ("lossless_buffers",),
    "congestion-control": (
        "ecn",
        "cumulus.ecn_classes",
        "cumulus.red",
        "ecn_kmin_bytes",
        "ecn_kmax_bytes",
        "ecn_pmax_percent",
    ),
    "pfc-watchdog": (
        "pfc_watchdog",
        "pfc_watchdog_detect_ms",
        "pfc_watchdog_restore_ms",
        "pfc_watchdog_poll_ms",
        "pfc_watchdog_action",
    ),
}
"""By feature: the settings that are in it."""


class Odd(Exception):  # noqa: N818  a reason, not an error of the program
    """There is no value; the message is the reason."""


def merged(shown: Any) -> Tree:
    """Return what ``nv config show -o json`` (a list of sections) or REST (a tree) shows, ranges expanded."""
    tree: Tree = {}
    for section in shown if isinstance(shown, list) else [shown]:
        if "set" in section:
            _merge(tree, expanded(section["set"]))
        elif not {"header", "unset"} & set(section):
            _merge(tree, expanded(section))
    return tree


def expanded(tree: Any, *, ranged: bool = False) -> Any:
    """Return the tree with ``eth1-4,6`` as five keys; several keys that name the same one are merged."""
    if not isinstance(tree, dict):
        return tree
    found: Tree = {}
    for key, below in tree.items():
        inner = expanded(below, ranged=key in _RANGED)
        for name in names_in(str(key)) if ranged else [str(key)]:
            if isinstance(inner, dict):
                _merge(found.setdefault(name, {}), inner)
            else:
                found[name] = inner
    return found


def names_in(text: str) -> list[str]:
    """Return the names that a key stands for: ``eth1-2,5-6`` is eth1, eth2, eth5 and eth6."""
    found = []
    prefix = ""
    for part in text.split(","):
        match = _RANGE.fullmatch(part) or _NUMBER.fullmatch(part)
        if match is None:
            found.append(part)
            continue
        prefix = match["prefix"] or prefix
        first = int(match["first"])
        last = int(match.groupdict().get("last") or first)
        if not 0 <= last - first < _LARGEST_RANGE:
            found.append(part)
            continue
        found += [f"{prefix}{number}" for number in range(first, last + 1)]
    return found


def _merge(into: Tree, more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        elif isinstance(value, dict):
            into[key] = {}
            _merge(into[key], value)
        else:
            into[key] = value


def at(tree: Any, *path: str) -> Any:
    """Return what is at `path`; an empty mapping if there is nothing."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return {} if tree is None else tree


def is_on(node: Any) -> bool:
    """Say whether a feature is on: ``enable: on`` up to 5.14, ``state: enabled`` from 5.15; bare is on."""
    said = node.get("state", node.get("enable", "on")) if isinstance(node, dict) else node
    return str(said).lower() in {"on", "enabled", "enable", "true"}


def preset(tree: Tree) -> str:
    """Return the mode of the all-ports preset ``qos roce``; empty if it is off."""
    node = at(tree, "qos").get("roce")
    if not isinstance(node, dict) or not is_on(node):
        return ""
    return str(node.get("mode", "lossless"))


def _base(tree: Tree, feature: str) -> Tree:
    """Return what ``default-global`` of a feature is before anybody changes it."""
    mode = preset(tree)
    if mode and mode not in _MODELLED_PRESETS:
        raise Odd(f"the switch runs the all-ports preset qos roce mode {mode}, which is not known here")
    ecn = {"ecn": "enable", "red": "disable", **ECN_FACTORY}
    shares = {str(tc): {"mode": "dwrr", "bw-percent": 13 if tc % 2 else 12} for tc in PRIORITIES}
    factory: Tree = {
        "mapping": {"trust": "l2"},
        "egress-queue-mapping": {"switch-priority": {str(p): {"traffic-class": p} for p in PRIORITIES}},
        "egress-scheduler": {"traffic-class": shares},
        "congestion-control": {"traffic-class": {"0": ecn}},
    }
    if mode:
        own = {3: 3, 6: 6}
        halves = {"mode": "dwrr", "bw-percent": 50}
        factory = {
            "mapping": {"trust": "both"},
            "egress-queue-mapping": {
                "switch-priority": {str(p): {"traffic-class": own.get(p, 0)} for p in PRIORITIES}
            },
            "egress-scheduler": {"traffic-class": {"0": halves, "3": halves, "6": {"mode": "strict"}}},
            "congestion-control": {"traffic-class": {"0": ecn, "3": ecn}},
        }
        if mode != "lossy":
            factory["pfc"] = {"switch-priority": {"3": {}}, "cable-length": 100}
    return dict(factory.get(feature, {}))


def default(tree: Tree, feature: str) -> Tree:
    """Return what ports without a profile have: the factory's or the preset's, and what was changed of it."""
    found: Tree = {}
    _merge(found, _base(tree, feature))
    _merge(found, at(tree, "qos", feature, DEFAULT))
    return found


def attached(tree: Tree, port: str, feature: str) -> str:
    """Return the name of the port's profile; empty if it has none of its own."""
    name = at(tree, "interface", port, "qos", feature, "profile")
    return "" if name in ({}, DEFAULT) else str(name)


def profile(tree: Tree, port: str, feature: str) -> Tree:
    """Return the content of the port's profile; Odd if it is named but nowhere defined."""
    name = attached(tree, port, feature)
    if not name:
        return default(tree, feature)
    content = at(tree, "qos", feature).get(name)
    if content is None:
        raise Odd(f"the port names the {feature} profile {name}, which does not exist")
    return dict(content)


def number(value: Any, lowest: int, highest: int) -> int:
    """Return a number that NVUE shows as 3 or "3"; Odd if it is none or out of range."""
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,12}", text) or not lowest <= int(text) <= highest:
        raise Odd(f"unparsable: {text[:40]!r} is no number within {lowest}..{highest}")
    return int(text)


def read_mapping(content: Tree) -> Values:
    """Return how a mapping profile classifies; what it does not name has the priority of its class."""
    trust = str(content.get("trust", "l2"))
    if trust not in TRUST:
        raise Odd(f"unparsable: trust is {trust[:40]!r}")
    maps = {}
    for label, keys, shift in (("dscp", DSCPS, 3), ("pcp", PRIORITIES, 0)):
        given = content.get(label, {})
        maps[label] = tuple(
            number(given.get(str(key), {}).get("switch-priority", key >> shift), 0, 7) for key in keys
        )
    return {"trust": TRUST[trust], "dscp_priority": maps["dscp"], "cumulus.pcp_priority": maps["pcp"]}


def read_scheduler(content: Tree) -> Values:
    """Return how classes are scheduled; a class that is not named gets what the others leave."""
    given = content.get("traffic-class", {})
    modes, shares = [], []
    for tc in PRIORITIES:
        entry = given.get(str(tc), {})
        mode = str(entry.get("mode", "dwrr"))
        if mode not in {"dwrr", "strict"}:
            raise Odd(f"unparsable: the mode of class {tc} is {mode[:40]!r}")
        modes.append("strict" if mode == "strict" else "ets")
        shares.append(0 if mode == "strict" else number(entry.get("bw-percent", 0), 0, 100))
    return {"tc_scheduler": tuple(modes), "tc_bandwidth_percent": tuple(shares)}


def paused_priorities(content: Tree) -> tuple[int, ...]:
    """Return the priorities that a PFC profile names, whichever way their pauses go."""
    return tuple(sorted(number(key, 0, 7) for key in content.get("switch-priority", {})))


def read_pfc(content: Tree) -> Values:
    """Return what a PFC profile does; PFC that works one way only is none."""
    named = paused_priorities(content)
    way = {label: str(content.get(label, "enable")) == "enable" for label in ("rx", "tx")}
    sizes = tuple(
        number(content.get(label, 0), 0, 2**40)
        for label in ("port-buffer", "xoff-threshold", "xon-threshold")
    )
    return {
        "pfc_priorities": named if all(way.values()) else (),
        "cumulus.pfc_rx": way["rx"],
        "cumulus.pfc_tx": way["tx"],
        "cable_length_m": number(content.get("cable-length", 10), 1, 100_000),
        "cumulus.pfc_buffer_bytes": sizes,
    }


def read_pause(content: Tree) -> Values:
    """Return whether a link-pause profile pauses the whole link, either way."""
    on = bool(content) and any(str(content.get(label, "enable")) == "enable" for label in ("rx", "tx"))
    return {"global_pause": on}


def _read_queues(tree: Tree) -> Values:
    given = at(default(tree, "egress-queue-mapping"), "switch-priority")
    return {
        "priority_tc": tuple(number(given.get(str(p), {}).get("traffic-class", p), 0, 7) for p in PRIORITIES)
    }


def marking(content: Tree) -> dict[int, Tree]:
    """Return the classes that mark, each with its thresholds."""
    given = content.get("traffic-class", {})
    return {
        number(tc, 0, 15): dict(entry)
        for tc, entry in sorted(given.items(), key=lambda item: str(item[0]))
        if str(entry.get("ecn", "enable")) == "enable"
    }


def read_marking(content: Tree, lossless: tuple[int, ...]) -> Values:
    """Return how a congestion profile marks.

    Parameters
    ----------
    lossless
        The classes of the priorities with PFC; if there is none, those that mark are what counts.

    Returns
    -------
    dict
        A value of its own class :class:`Odd` stands for one that there is not.
    """
    marks = marking(content)
    classes = tuple(sorted(marks))
    on = set(lossless) <= set(classes) if lossless else bool(classes)
    found: Values = {"ecn": on, "cumulus.ecn_classes": classes}
    counted = [marks[tc] for tc in classes if not lossless or tc in lossless]
    given = content.get("traffic-class", {})
    found["cumulus.red"] = any(str(entry.get("red", "disable")) == "enable" for entry in given.values())
    labels = {
        "ecn_kmin_bytes": "min-threshold",
        "ecn_kmax_bytes": "max-threshold",
        "ecn_pmax_percent": "probability",
    }
    for name, label in labels.items():
        found[name] = _one_of(counted, label)
    return found


def _one_of(entries: list[Tree], label: str) -> Any:
    if not entries:
        return Odd("the port does not mark")
    if label != "probability" and any(entry.get("mode") == "relative" for entry in entries):
        return Odd("the thresholds are relative to the buffer, not bytes")
    try:
        values = {number(entry.get(label, ECN_FACTORY[label]), 0, 2**40) for entry in entries}
    except Odd as exc:
        return exc
    if len(values) > 1:
        return Odd(f"classes differ in their {label}: {', '.join(map(str, sorted(values)))}")
    return values.pop()


def lossless_pool(tree: Tree) -> str:
    """Return the pool that holds lossless traffic; empty if none has memory: then PFC has no headroom."""
    if preset(tree) in {"lossless", "lossless-single-ipool"}:
        return "roce-lossless"
    for name in ("default-lossless", "roce-lossless"):
        if at(tree, "qos", "traffic-pool", name, "memory-percent"):
            return name
    return ""


def _read_pool(tree: Tree, port: str) -> Values:
    named = paused_priorities(profile(tree, port, "pfc"))
    pool = lossless_pool(tree)
    if not pool:
        return {"lossless_buffers": ()}
    chosen = {number(key, 0, 7) for key in at(tree, "qos", "traffic-pool", pool, "switch-priority")}
    return {"lossless_buffers": tuple(p for p in named if not chosen or p in chosen)}


def is_watched(tree: Tree, port: str) -> bool:
    """Say whether the port's watchdog is on, whatever it has to watch."""
    node = at(tree, "interface", port, "qos").get("pfc-watchdog")
    return isinstance(node, dict) and is_on(node)


def _read_watchdog(tree: Tree, port: str) -> Values:
    on = is_watched(tree, port)
    timing = at(tree, "qos", "pfc-watchdog")
    poll = number(timing.get("polling-interval", 100), 1, 60_000)
    rounds = number(timing.get("robustness", 3), 1, 100_000)
    return {
        "pfc_watchdog": read_pfc(profile(tree, port, "pfc"))["pfc_priorities"] if on else (),
        "pfc_watchdog_detect_ms": poll * rounds,
        "pfc_watchdog_restore_ms": poll,
        "pfc_watchdog_poll_ms": poll,
        "pfc_watchdog_action": "drop",
    }


def _read_congestion(tree: Tree, port: str) -> Values:
    queues = _read_queues(tree)["priority_tc"]
    named = read_pfc(profile(tree, port, "pfc"))["pfc_priorities"]
    lossless = tuple(sorted({queues[priority] for priority in named}))
    return read_marking(profile(tree, port, "congestion-control"), lossless)


_READERS: Mapping[str, Callable[[Tree, str], Values]] = {
    "link": lambda tree, port: {
        "mtu_bytes": number(at(tree, "interface", port, "link").get("mtu", PORT_MTU), 1, 65_535)
    },
    "link-pause": lambda tree, port: read_pause(profile(tree, port, "link-pause")),
    "mapping": lambda tree, port: read_mapping(profile(tree, port, "mapping")),
    "egress-queue-mapping": lambda tree, port: _read_queues(tree),  # noqa: ARG005  the same for all ports
    "egress-scheduler": lambda tree, port: read_scheduler(profile(tree, port, "egress-scheduler")),
    "pfc": lambda tree, port: read_pfc(profile(tree, port, "pfc")),
    "traffic-pool": _read_pool,
    "congestion-control": _read_congestion,
    "pfc-watchdog": _read_watchdog,
}


def view(tree: Tree, port: str) -> Iterator[tuple[str, Any]]:
    """Yield every setting of a port with its value, or with an :class:`Odd` that says why there is none."""
    for feature, names in NAMES.items():
        try:
            found = _READERS[feature](tree, port)
        except Odd as exc:
            found = dict.fromkeys(names, exc)
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            found = dict.fromkeys(names, Odd(f"unparsable: {exc!r}"[:200]))
        yield from found.items()


def known(tree: Tree, port: str) -> Values:
    """Return the settings of a port that have a value."""
    return {name: value for name, value in view(tree, port) if not isinstance(value, Odd)}
