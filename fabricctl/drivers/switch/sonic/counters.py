"""Counters of SONiC's COUNTERS_DB, under the names that all drivers give them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from fabricctl.drivers.switch.sonic.databases import COUNTERS, of_port
from fabricctl.model.reading import Entry
from fabricctl.plugin.answers import Unread, entries, entry
from fabricctl.plugin.protocols import Answers

_PORT = {
    "rx_errors": "SAI_PORT_STAT_IF_IN_ERRORS",
    "rx_discards": "SAI_PORT_STAT_IF_IN_DISCARDS",
    "tx_errors": "SAI_PORT_STAT_IF_OUT_ERRORS",
    "tx_discards": "SAI_PORT_STAT_IF_OUT_DISCARDS",
    **{
        f"pfc{each}.{way}_frames": f"SAI_PORT_STAT_PFC_{each}_{way.upper()}_PKTS"
        for each in range(8)
        for way in ("rx", "tx")
    },
}
_QUEUE = {
    "queue{}.tx_packets": "SAI_QUEUE_STAT_PACKETS",
    "queue{}.dropped_packets": "SAI_QUEUE_STAT_DROPPED_PACKETS",
    "queue{}.ecn_marked_packets": "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS",
    "watchdog.queue{}.storms_detected": "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED",
    "watchdog.queue{}.storms_restored": "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED",
}
_QUEUE_PEAK = {"queue{}.watermark_bytes": "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES"}
_GROUP = {"group{}.dropped_packets": "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS"}
_GROUP_PEAK = {
    "group{}.headroom_watermark_bytes": "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES"
}
_STORMED = "stormed"


def read_counters(name: str, answers: Answers) -> Mapping[str, Entry]:
    """Return what the switch counts of a port; what it does not count is left out.

    ``watchdog.queue<N>.stormed`` is 1 while the watchdog holds a queue for stormed, else 0.
    """
    return entries(lambda: dict(_all(of_port(answers, COUNTERS, name))))


def _all(found: Mapping[str, Any]) -> Iterator[tuple[str, Entry]]:
    yield from _named(_PORT, found.get("port"), "")
    for index, parts in _indexed(found.get("queues")):
        yield from _named(_QUEUE, parts.get("counted"), index)
        yield from _named(_QUEUE_PEAK, parts.get("peak"), index)
        yield from _status(parts.get("counted"), index)
    for index, parts in _indexed(found.get("groups")):
        yield from _named(_GROUP, parts.get("counted"), index)
        yield from _named(_GROUP_PEAK, parts.get("peak"), index)
    marked = [parts["counted"]["SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"] for parts in _marking(found)]
    if marked:
        yield "ecn.marked_packets", entry(lambda: sum(_count(each) for each in marked))


def _indexed(parts: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(parts, dict):
        yield from ((key, value) for key, value in sorted(parts.items()) if isinstance(value, dict))


def _marking(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for _, parts in _indexed(found.get("queues")):
        counted = parts.get("counted")
        if isinstance(counted, dict) and "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS" in counted:
            yield parts


def _named(names: Mapping[str, str], fields: object, index: str) -> Iterator[tuple[str, Entry]]:
    if not isinstance(fields, dict):
        return
    for name, field in names.items():
        if field in fields:
            yield name.format(index), entry(functools.partial(_count, fields[field]))


def _status(fields: object, index: str) -> Iterator[tuple[str, Entry]]:
    if isinstance(fields, dict) and "PFC_WD_STATUS" in fields:
        yield f"watchdog.queue{index}.stormed", entry(lambda: int(fields["PFC_WD_STATUS"] == _STORMED))


def _count(value: object) -> int:
    if not isinstance(value, str) or not value.isdecimal() or not value.isascii():
        raise Unread(f"unparsable: {value!r:.40} is no count")
    return int(value[:20])
