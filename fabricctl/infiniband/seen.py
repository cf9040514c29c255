"""Put together what was seen of a subnet, from the answers of the host that it was looked at from."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping

from fabricctl.errors import UsageError
from fabricctl.infiniband import asking, counting, discovery, linkinfo, managing, routing
from fabricctl.infiniband.asking import Hca, look_key, parts, why
from fabricctl.infiniband.counting import Count
from fabricctl.infiniband.discovery import Discovery, Key
from fabricctl.infiniband.naming import Named, aggregation, identify
from fabricctl.model.fabric import Fabric
from fabricctl.model.subnet import Manager, Subnet, SubnetPort, Wiring
from fabricctl.plugin.protocols import Answer, Answers
from fabricctl.plugin.surveying import Observation

_TWICE = re.compile(r"duplicate", re.IGNORECASE)
_LOST = re.compile(r"bad status|timed out|failed; dport|query failed")
_OFFER = re.compile(r"^\s*EndPortLid\.*([1-9]\d*)\s*$", re.MULTILINE)
_NOTHING = Answer(0, "", "")


def answered(seen: Observation, hca: Hca) -> bool:
    """Say whether a host's tools discovered more than the host itself: its own cable may be out."""
    if seen.error:
        return False
    return any("\n[" in part.stdout for part in (_part(seen.answers, hca), _part(seen.later, hca)))


def _part(answers: Answers, hca: Hca) -> Answer:
    return parts(answers.get(look_key(hca))).get("topology", _NOTHING)


def look(fabric: Fabric, empty: Subnet, seen: Observation, hca: Hca) -> Subnet:
    """Return `empty` with what its vantage has seen, links as they were last; the rest is ``missing``."""
    looks = [answers[look_key(hca)] for answers in (seen.answers, seen.later) if look_key(hca) in answers]
    spoken = [parts(answer) for answer in looks]
    for answer, said in zip(reversed(looks), reversed(spoken), strict=True):
        found = discovery.parse(said.get("topology", _NOTHING).stdout)
        if found.nodes:
            subnet = _linked(fabric, empty, answer, said, found)
            return _routed(_counted(subnet, seen, hca), answer, said)
    reason = why(looks[-1] if looks else None, spoken[-1] if spoken else {}, "topology")
    return dataclasses.replace(empty, missing=dict.fromkeys(PARTS, reason))


def _linked(
    fabric: Fabric, empty: Subnet, answer: Answer, said: Mapping[str, Answer], found: Discovery
) -> Subnet:
    """Return the subnet with its links and managers."""
    missing: dict[str, str] = {}
    ports = _ports(fabric, empty, found, said.get("links", _NOTHING).stdout)
    if not any(port.state for port in ports.values()):
        missing["links"] = why(answer, said, "links")
    managers = _managers(said)
    if not managers:
        missing["managers"] = why(answer, said, "master")
    offers = tuple(dict.fromkeys(map(int, _OFFER.findall(said.get("offers", _NOTHING).stdout))))
    if not offers:
        missing["offers"] = why(answer, said, "offers")
    heard = {manager.lid for manager in managers}
    spoken = [said[name].stderr for name in ("topology", "links") if name in said]
    return dataclasses.replace(
        empty,
        ports=ports,
        managers=managers,
        unheard=tuple(lid for lid in offers if _asked(said, lid) and not _spoke(said, lid)),
        unasked=tuple(lid for lid in offers if not _asked(said, lid) and lid not in heard),
        duplicates=_lines(spoken, _TWICE),
        complaints=_lines(spoken, _LOST),
        missing=missing,
    )


def _routed(subnet: Subnet, answer: Answer, said: Mapping[str, Answer]) -> Subnet:
    """Return the subnet with its routes."""
    routes = routing.parse(said.get("routes", _NOTHING).stdout)
    missing = {} if routes else {"routes": why(answer, said, "routes")}
    return dataclasses.replace(subnet, routes=routes, missing={**subnet.missing, **missing})


PARTS = ("links", "counters", "managers", "routes")


def wiring(fabric: Fabric, source: str, text: str) -> Wiring | None:
    """Return the cables of a saved ``ibnetdiscover``; None if it holds none, UsageError if it is cut off."""
    found = discovery.parse(text)
    if not {peer[0] for peer in found.cables.values()} <= found.nodes.keys():
        step = "save it anew: ibnetdiscover > fabric.topo"
        raise UsageError(
            "it is cut off: cables lead to nodes that are not in it", where=source, next_step=step
        )
    ports = {key: port for key, port in _ports(fabric, None, found, "").items() if port.peer}
    cables = {
        tuple(sorted((port.label, ports[port.peer].label))) for port in ports.values() if port.peer in ports
    }
    ordered = sorted(cables)
    return Wiring(source, tuple((one, other) for one, other in ordered)) if ordered else None


def _ports(fabric: Fabric, empty: Subnet | None, found: Discovery, text: str) -> dict[Key, SubnetPort]:
    """Return all ports: those of ``iblinkinfo``, and those that only the topology has."""
    by_guid = found.ports
    lines: dict[Key, linkinfo.Line] = {}
    for line in linkinfo.parse(text):
        key = _key(found, by_guid, line.guid, line.number)
        if key is not None:
            lines[key] = line
    keys = [key for key in dict.fromkeys((*lines, *found.cables)) if key[0] in found.nodes]
    keys = [key for key in keys if not aggregation(found.nodes[key[0]])]
    named = identify(fabric, found, keys, empty.vantage if empty is not None else None)
    return {key: _port(found, key, lines.get(key), named.get(key, ("", None))) for key in keys}


def _port(found: Discovery, key: Key, line: linkinfo.Line | None, named: Named) -> SubnetPort:
    node, number = found.nodes[key[0]], key[1]
    device, inventory_port = named
    peer = found.cables.get(key)
    if peer is not None and peer[0] not in found.nodes:
        peer = None
    switch = node.kind == "SW"
    return SubnetPort(
        id=inventory_port,
        node=node.description,
        kind=node.kind,
        node_guid=node.guid,
        port_guid=node.guid if switch else node.guids.get(number, line.guid if line else ""),
        number=number,
        lid=line.lid if line else node.lid if switch else node.lids.get(number, 0),
        state=line.state if line else "",
        physical=line.physical if line else "",
        width=line.width if line else 0,
        lane_gbps=line.lane_gbps if line else 0.0,
        peer=peer,
        device=device,
    )


def _key(found: Discovery, by_guid: Mapping[str, Key], guid: str, number: int) -> Key | None:
    """Return where a port is that a tool names by the GUID of the port or of its node."""
    if guid in by_guid:
        return by_guid[guid]
    if guid == found.start and found.first in found.nodes:
        # A port without a cable stands nowhere in the topology.
        return (found.first, number)
    return (guid, number) if guid in found.nodes else None


def _managers(said: Mapping[str, Answer]) -> tuple[Manager, ...]:
    """Return the managers that answered, each once; what one says of itself is truer than any list."""
    found: dict[str, Manager] = {}
    for name, part in said.items():
        if name == "master" or name.startswith("manager "):
            manager = managing.parse(part.stdout)
            if manager is not None:
                found[manager.guid] = manager
    return tuple(found.values())


def _asked(said: Mapping[str, Answer], lid: int) -> bool:
    """Say whether the subnet manager at a LID was asked itself: of many, not all are."""
    return f"manager {lid}" in said


def _spoke(said: Mapping[str, Answer], lid: int) -> bool:
    """Say whether the subnet manager at a LID answered when it was asked itself."""
    return managing.parse(said.get(f"manager {lid}", _NOTHING).stdout) is not None


def _counted(subnet: Subnet, seen: Observation, hca: Hca) -> Subnet:
    """Return the subnet with its counters at both ends of the interval."""
    counts, said, stamps = [], [], []
    for answers in (seen.answers, seen.later):
        answer = answers.get(look_key(hca))
        found = parts(answer)
        errors = found.get("errors", _NOTHING)
        counts.append(counting.parse(errors.stdout, found.get("topology", _NOTHING).stdout, errors.stderr))
        said.append(why(answer, found, "errors"))
        stamps.append(_stamp(found.get("uptime", _NOTHING).stdout))
    first, later = counts
    missing = dict(subnet.missing)
    if first.checked is None or later.checked is None:
        missing["counters"] = said[0] if first.checked is None else said[1]
    by_guid = {port.port_guid: at for at, port in subnet.ports.items() if port.kind != "SW"}
    return dataclasses.replace(
        subnet,
        counters=_placed(subnet, by_guid, first),
        later=_placed(subnet, by_guid, later),
        extended=frozenset(_placed(subnet, by_guid, later, later.extended)),
        uncounted=uncounted(subnet, counts),
        counted=(first.checked, later.checked),
        interval_s=_between(*stamps) or seen.interval_s,
        missing=missing,
    )


def _stamp(text: str) -> float:
    """Return the host's uptime in seconds when its counters were read; NaN if it did not say."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _between(first: float, later: float) -> float:
    """Return the seconds between two stamps; 0 if one is missing, or the host was restarted meanwhile."""
    return later - first if math.isfinite(later - first) and later > first else 0.0


def _placed(
    subnet: Subnet, by_guid: Mapping[str, Key], count: Count, only: Iterable[Key] | None = None
) -> dict[Key, Mapping[str, int]]:
    found: dict[Key, Mapping[str, int]] = {}
    for guid, number in count.counters if only is None else only:
        key = by_guid.get(guid, (guid, number))
        if key in subnet.ports:
            found[key] = count.counters[guid, number]
    return found


def uncounted(subnet: Subnet, counts: Iterable[Count]) -> dict[Key, str]:
    """Return the ports that were not read at one end of the interval or the other, and why."""
    found: dict[Key, str] = {}
    for count in counts:
        if count.checked is None:
            continue
        lost = _lost(subnet, count)
        if lost is None:
            reason = f"ibqueryerrors read {count.checked[0]} nodes, ibnetdiscover {len(count.listed)}"
            found.update(dict.fromkeys(subnet.ports, reason))
            continue
        found.update(lost)
        for key in subnet.ports:
            if key[0] not in count.listed:
                found[key] = "its counters were not read: it was not in the subnet at that moment"
        found.update(_failed(subnet, count))
    return found


def _lost(subnet: Subnet, count: Count) -> dict[Key, str] | None:
    """Return the ports of nodes that did not answer when ``ibqueryerrors`` discovered by itself.

    The tool says how many nodes it has read, not which; but it names the route to each that did not answer.
    None if that does not explain all that are missing, or if one is a switch: there may be more behind it.
    """
    missing = len(count.listed) - (count.checked[0] if count.checked is not None else 0)
    if missing == 0:
        return {}
    ends = {_end_of(subnet, route) for route in count.unreached}
    if None in ends or len(ends) < missing:
        return None
    nodes: set[str] = set()
    for at in ends:
        port = subnet.ports.get(at) if at is not None else None
        if port is None or port.peer is None:
            continue
        nodes.add(port.peer[0])
    found = {key: port for key, port in subnet.ports.items() if port.node_guid in nodes}
    if any(port.kind == "SW" for port in found.values()):
        return None
    reason = "ibqueryerrors had no answer from it"
    return dict.fromkeys(found, reason)


def _end_of(subnet: Subnet, route: tuple[int, ...]) -> Key | None:
    """Return the last port that a directed route from the vantage leaves by; None if it leads nowhere."""
    start = next((key for key, port in subnet.ports.items() if port.id == subnet.vantage), None)
    if start is None:
        return None
    at = (start[0], route[0])
    for number in route[1:]:
        port = subnet.ports.get(at)
        if port is None or port.peer is None:
            return None
        at = (port.peer[0], number)
    return at if at in subnet.ports else None


def _failed(subnet: Subnet, count: Count) -> dict[Key, str]:
    if not count.failures:
        return {}
    found: dict[Key, str] = {}
    for failure in count.failures:
        of_node = {
            key: port
            for key, port in subnet.ports.items()
            if (port.lid == failure.lid if failure.lid else port.node == failure.node)
        }
        exact = [key for key, port in of_node.items() if port.number == failure.number]
        reason = f"{failure.attribute}: no answer from {failure.node or 'a node without a name'}"
        found.update(dict.fromkeys(exact or of_node, reason))
    return found


def _lines(spoken: Iterable[str], wanted: re.Pattern[str]) -> tuple[str, ...]:
    lines = (asking.said(line) for text in spoken for line in text.split("\n"))
    return tuple(dict.fromkeys(line for line in lines if wanted.search(line)))
