"""Read what ``show ... | json`` and ``show qos maps`` print: interfaces, counters, neighbours, maps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fabricctl.drivers.switch.eos import terms
from fabricctl.model import facts
from fabricctl.model.reading import Entry, Known
from fabricctl.plugin.answers import Unread, entries, entry, parsed, text, whole_number
from fabricctl.plugin.protocols import Answers, Query

VERSION = "version"
INTERFACES = "interfaces"
MAPS = "qos_maps"
_PFC = "pfc_counters"
_ECN = "ecn_counters"
_WATCHDOG = "watchdog_counters"
_QUEUES = "queue_counters"
_LLDP = "lldp"
_COUNTING = frozenset({INTERFACES, _PFC, _ECN, _WATCHDOG, _QUEUES})

QUERIES = tuple(
    Query(key, tuple(line.split()), counts=key in _COUNTING)
    for key, line in (
        (VERSION, "show version | json"),
        (INTERFACES, "show interfaces | json"),
        (MAPS, "show qos maps"),
        (_PFC, "show priority-flow-control counters | json"),
        (_ECN, "show qos interfaces ecn counters queue | json"),
        (_WATCHDOG, "show priority-flow-control counters watchdog | json"),
        (_QUEUES, "show interfaces counters queue detail | json"),
        (_LLDP, "show lldp neighbors detail | json"),
    )
)

_BITS_PER_MEGABIT = 1_000_000
_COUNTERS = {
    "rx_discards": "inDiscards",
    "tx_discards": "outDiscards",
    "rx_errors": "totalInErrors",
    "tx_errors": "totalOutErrors",
}
_ROW = re.compile(r"\s*(\d)\s*:((?:\s+\d+)+)\s*")
_QUEUE_MAP = re.compile(r"\s*[Tt]c\s*-\s*((?:uc-)?tx-queue) map:\s*")
_OF_QUEUES = re.compile(r"\s*(?:uc-)?tx-queue:((?:\s+\d+)+)\s*")
_OF_CLASSES = re.compile(r"\s*tc:((?:\s+\d+)+)\s*")


def interface(name: str, answers: Answers) -> Mapping[str, Any]:
    """Return what is shown of an interface; Unread if there is none of that name."""
    found = parsed(answers, INTERFACES)["interfaces"].get(name)
    if not isinstance(found, dict):
        raise Unread(f"there is no interface {name}")
    return found


def read_facts(name: str, answers: Answers) -> dict[str, Entry]:
    """Return link, speed, address and partner of an interface, and the switch's version and model."""
    return {
        facts.LINK_STATE: entry(lambda: _link(interface(name, answers))),
        facts.SPEED: entry(lambda: _speed(interface(name, answers))),
        facts.MAC: entry(lambda: str(interface(name, answers)["physicalAddress"]).lower()),
        facts.LINK_DOWNS: entry(lambda: _downs(interface(name, answers))),
        facts.PARTNER: entry(lambda: _partner(name, answers)),
        facts.FIRMWARE: entry(lambda: str(parsed(answers, VERSION)["version"])),
        facts.DRIVER: entry(lambda: str(parsed(answers, VERSION)["modelName"])),
    }


def read_counters(name: str, answers: Answers, watched: tuple[int, ...]) -> dict[str, Entry]:
    """Return the counters of an interface.

    Parameters
    ----------
    watched
        Queues under the watchdog. The switch lists a queue only after its first storm: before that it is 0.
    """
    return {
        **entries(lambda: _of_interface(interface(name, answers))),
        **entries(lambda: _pfc(parsed(answers, _PFC)["interfaceCounters"][name])),
        **entries(lambda: _marks(parsed(answers, _ECN)["intfQueueCounters"][name]["queueCounters"])),
        **entries(lambda: _storms(name, parsed(answers, _WATCHDOG)["interfaces"], watched)),
        **entries(lambda: _queued(parsed(answers, _QUEUES)["egressQueueCounters"]["interfaces"][name])),
    }


def dscp_map(answers: Answers) -> tuple[int, ...]:
    """Return the traffic class of every DSCP."""
    lines = iter(text(answers, MAPS).splitlines())
    if not any(line.strip().lower() in {"dscp-tc map:", "dscp - tc map:"} for line in lines):
        raise Unread("show qos maps has no map from DSCP to traffic class")
    found: list[int] = []
    for line in lines:
        match = _ROW.fullmatch(line)
        if match is not None:
            if int(match[1]) * 10 != len(found):
                raise Unread(f"unparsable: {line.strip()}")
            found += map(int, match[2].split())
        elif found:
            break
    return _classes(found, terms.DSCPS)


def queue_map(answers: Answers) -> tuple[str, tuple[int, ...]]:
    """Return what the switch calls its queues there, and the queue of every traffic class."""
    mode, classes = "", ""
    for line in text(answers, MAPS).splitlines():
        if match := _QUEUE_MAP.fullmatch(line):
            mode = match[1]
        elif mode and (match := _OF_CLASSES.fullmatch(line)):
            classes = match[1]
        elif mode and (match := _OF_QUEUES.fullmatch(line)):
            if [int(word) for word in classes.split()] != list(range(terms.QUEUES)):
                raise Unread(f"unparsable: the traffic classes are {classes.strip()}")
            return mode, _classes([int(word) for word in match[1].split()], terms.QUEUES)
    raise Unread("show qos maps has no map from traffic class to queue")


def _classes(found: list[int], number: int) -> tuple[int, ...]:
    if len(found) != number or not all(0 <= one < terms.QUEUES for one in found):
        raise Unread(f"unparsable: {found} are not {number} classes")
    return tuple(found)


def _link(shown: Mapping[str, Any]) -> str:
    return "up" if shown["lineProtocolStatus"] == "up" else "down"


def _speed(shown: Mapping[str, Any]) -> int:
    if _link(shown) != "up":
        raise Unread("the link is down")
    return whole_number(shown["bandwidth"] / _BITS_PER_MEGABIT)


def _downs(shown: Mapping[str, Any]) -> int:
    # Ups and downs are counted together, and the first is an up.
    return whole_number(shown["interfaceCounters"]["linkStatusChanges"]) // 2


def _of_interface(shown: Mapping[str, Any]) -> dict[str, Entry]:
    counters = shown["interfaceCounters"]
    return {name: _count(counters, key) for name, key in _COUNTERS.items()}


def _pfc(shown: Mapping[str, Any]) -> dict[str, Entry]:
    # Of all priorities together: EOS does not tell them apart in this form.
    return {
        "pfc.rx_frames": _count(shown, "rxFrames"),
        "pfc.tx_frames": _count(shown, "txFrames"),
    }


def _count(shown: Mapping[str, Any], key: str) -> Entry:
    return entry(lambda: whole_number(shown[key]))


def _marks(shown: Mapping[str, Any]) -> dict[str, Entry]:
    """Return the marks of each queue and of all; a hyphen is a queue that does not mark."""
    found = {int(queue): int(count) for queue, count in shown.items() if count != "-"}
    of_queues: dict[str, Entry] = {
        f"queue{queue}.ecn_marked_packets": Known(count) for queue, count in sorted(found.items())
    }
    return {**of_queues, "ecn.marked_packets": Known(sum(found.values()))} if found else {}


def _storms(name: str, shown: Mapping[str, Any], watched: tuple[int, ...]) -> dict[str, Entry]:
    queues = shown.get(name, {}).get("txQueues", {})
    every = sorted({*watched, *(int(queue) for queue in queues)})
    found: dict[str, Entry] = {}
    for queue in every:
        counts = queues.get(str(queue), {"stuckCount": 0, "recoveryCount": 0})
        stem = f"watchdog.queue{queue}"
        found[f"{stem}.storms_detected"] = _count(counts, "stuckCount")
        found[f"{stem}.storms_restored"] = _count(counts, "recoveryCount")
    return found


def _queued(shown: Mapping[str, Any]) -> dict[str, Entry]:
    """Return what went out of each queue and what was dropped, all drop precedences together."""
    classes = shown["ucastQueues"]["trafficClasses"]
    found: dict[str, Entry] = {}
    for name, counts in classes.items():
        number = name.removeprefix("TC")
        if not number.isdecimal():
            continue
        for ours, theirs in (("tx_packets", "enqueuedPackets"), ("dropped_packets", "droppedPackets")):
            each = [whole_number(one[theirs]) for one in counts["dropPrecedences"].values()]
            found[f"queue{int(number)}.{ours}"] = Known(sum(each))
    return found


def _partner(name: str, answers: Answers) -> str:
    heard = parsed(answers, _LLDP)["lldpNeighbors"].get(name, {}).get("lldpNeighborInfo", [])
    # Beside a host that names itself, one without a name is the firmware of its NIC.
    partners = {_neighbour(one) for one in [one for one in heard if one.get("systemName")] or heard}
    if not partners:
        raise Unread("no LLDP neighbour is heard on the port")
    if len(partners) > 1:
        raise Unread(f"several LLDP neighbours are heard on the port: {', '.join(sorted(partners))}")
    return partners.pop()


def _neighbour(shown: Mapping[str, Any]) -> str:
    port = shown["neighborInterfaceInfo"]
    identity = str(port.get("interfaceId_v2") or port["interfaceId"]).strip('"')
    if port.get("interfaceIdType") == "macAddress":
        identity = str(port.get("interfaceDescription") or identity)
    device = shown.get("systemName") or shown.get("chassisId")
    if not device or not identity:
        raise Unread("the LLDP neighbour names neither itself nor its port")
    return f"{device}/{identity}"
