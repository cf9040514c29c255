"""Read what ``ibqueryerrors`` printed: counters that are not 0, and how much of the subnet it has read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fabricctl.infiniband.discovery import guid

_PORT = re.compile(r"^ +GUID 0x([0-9a-f]+) port (\d+):(.*)")
_COUNTER = re.compile(r"\[(\w+) == (\d+)( \([\d.]+\w*\))?\]")
_HEAD = re.compile(r'^Errors for (?:0x([0-9a-f]+) )?"(.*)"')
_NODES = re.compile(r"^## Summary: (\d+) nodes checked", re.MULTILINE)
_PORTS = re.compile(r"^##\s+(\d+) ports checked", re.MULTILINE)
_LISTED = re.compile(r'^(?:Ca|Switch|Rt)\t+\d+ "[SHR]-([0-9a-f]{16})"', re.MULTILINE)
# ``umad (DR path slid 0; dlid 0; 0,1,5,3,1 Attr 0x11:0) bad status 110``: port by port, from the host's own.
_UNREACHED = re.compile(r"DR path [^)\n]*?\b0,(\d+(?:,\d+)*) Attr 0x\w+:\w+\) bad status")
_FAILED = re.compile(r"(\w+) query failed on (.*), (?:Lid (\d+)|DR path .*) port (\d+)")

_DISCARDS = (
    "PortInactiveDiscards",
    "PortNeighborMTUDiscards",
    "PortSwLifetimeLimitDiscards",
    "PortSwHOQLifetimeLimitDiscards",
)
_RECEIVED = (
    "PortLocalPhysicalErrors",
    "PortMalformedPktErrors",
    "PortBufferOverrunErrors",
    "PortDLIDMappingErrors",
)
# infiniband-diags (44.0 and, in 2026, still its sources: query_and_dump in ibqueryerrors.c) prints each of
# the two kinds of details under the names of the other; both are fields of 16 bits in the same places.
_AFTER = {
    "PortXmitDiscards": dict(zip(_RECEIVED, _DISCARDS, strict=True)),
    "PortRcvErrors": dict(zip(_DISCARDS, _RECEIVED, strict=True)),
}
_DETAILS = frozenset((*_DISCARDS, *_RECEIVED, "PortVLMappingErrors", "PortLoopingErrors"))


@dataclass(frozen=True, slots=True)
class Failure:
    """A port whose counters were not read, as the tool names it; the LID is 0 if it has none yet."""

    node: str
    lid: int
    number: int
    attribute: str


@dataclass
class Count:
    """One reading of a whole subnet.

    Parameters
    ----------
    counters
        By GUID (of the port, or of the node: the tool prints either) and port number.
    names
        By the same: what the node calls itself.
    extended
        Those whose counters have 64 bits.
    checked
        How many nodes and ports were read; None if the tool did not come to its end.
    listed
        GUIDs of the nodes that were there to be read.
    unreached
        Directed routes that had no answer when the tool discovered by itself: numbers of the ports by which
        they leave the host and each switch.
    """

    counters: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    names: dict[tuple[str, int], str] = field(default_factory=dict)
    extended: set[tuple[str, int]] = field(default_factory=set)
    checked: tuple[int, int] | None = None
    listed: frozenset[str] = frozenset()
    failures: tuple[Failure, ...] = ()
    unreached: tuple[tuple[int, ...], ...] = ()


def parse(errors: str, topology: str, said: str) -> Count:
    """Read the counters.

    Parameters
    ----------
    errors
        What ``ibqueryerrors`` printed; its line of all ports of a switch together, which saturates earlier
        than theirs, is left out.
    topology
        What ``ibnetdiscover`` printed of the same moment.
    said
        What ``ibqueryerrors`` said on standard error.
    """
    found = Count(listed=frozenset(guid(one) for one in _LISTED.findall(topology)))
    name = ""
    for line in errors.split("\n"):
        head = _HEAD.match(line)
        if head:
            name = head[2].strip()
            continue
        port = _PORT.match(line)
        if port:
            key = (guid(port[1]), int(port[2]))
            found.names[key] = name
            found.counters[key] = _counters(found, key, port[3])
    checked, ports = _NODES.search(errors), _PORTS.search(errors)
    if checked and ports:
        found.checked = (int(checked[1]), int(ports[1]))
    routes = dict.fromkeys(_UNREACHED.findall(said))
    found.unreached = tuple(tuple(map(int, route.split(","))) for route in routes)
    failed = {
        Failure(node, int(lid or 0), int(number), attribute)
        for attribute, node, lid, number in _FAILED.findall(said)
    }
    found.failures = tuple(sorted(failed, key=lambda one: (one.lid, one.number, one.attribute)))
    return found


def _counters(found: Count, key: tuple[str, int], text: str) -> dict[str, int]:
    values: dict[str, int] = {}
    last = ""
    for name, value, wide in _COUNTER.findall(text):
        if name in _DETAILS:
            values[_AFTER.get(last, {}).get(name, name)] = int(value)
            continue
        last = name
        values[name] = int(value)
        if wide:
            found.extended.add(key)
    return values
