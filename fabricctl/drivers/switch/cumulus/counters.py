"""The counters of a port: the kernel's, and NVUE's of pauses, queues, marks and the watchdog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fabricctl.drivers import netdev
from fabricctl.drivers.switch.cumulus import tree as nvue
from fabricctl.drivers.switch.cumulus.operational import size_bytes
from fabricctl.model.reading import Entry
from fabricctl.plugin.answers import Unread, entries, entry
from fabricctl.plugin.protocols import Answers

_KERNEL = {
    "in-pkts": "rx_packets",
    "in-bytes": "rx_bytes",
    "in-errors": "rx_errors",
    "in-drops": "rx_dropped",
    "out-pkts": "tx_packets",
    "out-bytes": "tx_bytes",
    "out-errors": "tx_errors",
    "out-drops": "tx_dropped",
}
"""NVUE's names of the kernel's statistics."""
_OF_PRIORITY = (
    (
        ("pfc-stats", "switch-priority"),
        {"rx-pause-frames": "pfc{}.rx_frames", "tx-pause-frames": "pfc{}.tx_frames"},
    ),
    (
        ("egress-queue-stats", "traffic-class"),
        # The guide shows discards in bytes; the ASIC counts packets.
        {
            "tx-uc-buffer-discards": "queue{}.dropped_packets",
            "wred-discards": "queue{}.wred_dropped_packets",
            "tx-frames": "queue{}.tx_packets",
        },
    ),
    (
        ("ingress-buffer-stats", "priority-group"),
        {"rx-buffer-discards": "group{}.dropped_packets"},
    ),
)
_MARKED = "ecn-marked-packets"
_STORMED = "DEADLOCK"

Tree = Callable[[str, str], Any]
"""Returns an operational tree of a port, by the port and the tree's name; raises Unread."""


def read(name: str, answers: Answers, interface: Callable[[str], Any], tree: Tree) -> Mapping[str, Entry]:
    """Return all counters of port `name`; what is not shown is left out, what is rounded is a Missing."""
    return {
        **entries(lambda: dict(_link(interface(name)))),
        **netdev.read_counters(name, answers),
        **entries(lambda: dict(_qos(tree(name, "counters/qos")))),
        **entries(lambda: dict(_watchdog(tree(name, "qos")))),
    }


def _link(interface: Any) -> Iterator[tuple[str, Entry]]:
    for label, value in nvue.at(interface, "link", "stats").items():
        if label in _KERNEL:
            yield _KERNEL[label], _count(value)


def _qos(tree: Any) -> Iterator[tuple[str, Entry]]:
    for path, labels in _OF_PRIORITY:
        for number, node in nvue.at(tree, *path).items():
            for label, counter in labels.items():
                if str(number).isdecimal() and label in node:
                    yield counter.format(number), _count(node[label])
    marked = list(_leaves(tree, _MARKED))
    if len(marked) == 1:
        yield "ecn.marked_packets", _count(marked[0])


def _watchdog(tree: Any) -> Iterator[tuple[str, Entry]]:
    for number, node in nvue.at(tree, "pfc-watchdog", "status").items():
        if not str(number).isdecimal() or "deadlock-count" not in node:
            continue
        stormed = str(node.get("status", "")).upper() == _STORMED
        counted = node["deadlock-count"]
        queue = f"watchdog.queue{number}"
        yield f"{queue}.storms_detected", _count(counted)
        yield f"{queue}.storms_restored", _count(counted, less=int(stormed))


def _leaves(tree: Any, label: str) -> Iterator[Any]:
    """Yield the values of a leaf, wherever it is; where it does not apply it says n/a."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, label)
        elif key == label and str(value).lower() not in {"n/a", ""}:
            yield value


def _count(shown: Any, less: int = 0) -> Entry:
    return entry(lambda: max(0, _exact(shown) - less))


def _exact(shown: Any) -> int:
    if any(unit in str(shown) for unit in ("KB", "MB", "GB")):
        raise Unread(f"NVUE rounds it: {shown!r:.40}")
    return size_bytes(shown)
