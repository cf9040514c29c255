"""Every switch of an InfiniBand plane knows a way to every HCA, and leaves use their uplinks evenly.

The forwarding tables are read from the switches themselves (``dump_fts``), and every HCA's LID is followed
through them from every leaf, by the cables that were discovered. This is where packets go when nothing
chooses another way (adaptive routing).

Passes if every HCA that is Active is reached from every leaf without a loop, and if no uplink of a leaf
carries more than the policy's ``links.uplink_ratio`` times the even share of destinations.
Fails if a switch has no way, if a way ends at another port than the HCA's or goes round in circles, and if an
uplink carries more.
Unknown if the tables could not be read, or not of all switches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabricctl.linkparts.subnets import Key, concerns, each
from fabricctl.model.fabric import Device
from fabricctl.model.subnet import Subnet, SubnetPort
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.model.words import count
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_NAME = "ib_routing"
_SHOWN = 3


class _Routing:
    name = _NAME
    needs = Need.SUBNETS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Nothing: the subnet is looked at from one host."""
        del device
        return ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge every plane."""
        return each(self.name, "routes", survey, _judge)


@dataclass(frozen=True)
class _Plane:
    """What routes need: switches' names, leaves, where cables lead, and the HCA of each LID."""

    names: Mapping[str, str]
    devices: Mapping[str, str]
    leaves: tuple[str, ...]
    next_hop: Mapping[Key, Key]
    uplinks: Mapping[str, tuple[int, ...]]
    targets: Mapping[int, SubnetPort]


def _judge(survey: Survey, subnet: Subnet) -> Iterator[Finding]:
    plane = _plane(subnet)
    unread = [guid for guid in plane.names if guid not in subnet.routes]
    for guid in unread:
        what = "its forwarding table was not read"
        yield Finding(_NAME, plane.names[guid], Outcome.UNKNOWN, what, next_step="run dump_fts by hand")
    if not plane.leaves or not plane.targets:
        what = "no leaf or no active HCA was seen"
        yield Finding(_NAME, subnet.plane, Outcome.UNKNOWN, what, next_step="see ib_links")
        return
    broken = _broken(subnet, plane, frozenset(unread))
    yield from _lost(survey, plane, broken)
    if not broken and not unread:
        leaves = count(len(plane.leaves), "leaf", "leaves")
        what = f"{count(len(plane.targets), 'HCA port')} are reached from each of {leaves}"
        yield Finding(_NAME, subnet.plane, Outcome.PASS, what, leaves)
    for leaf in plane.leaves:
        if leaf in subnet.routes and concerns(survey, (plane.devices[leaf],)) and plane.uplinks.get(leaf):
            yield _balance(survey, subnet, plane, leaf)


def _plane(subnet: Subnet) -> _Plane:
    names: dict[str, str] = {}
    devices: dict[str, str] = {}
    leaves: dict[str, None] = {}
    next_hop: dict[Key, Key] = {}
    uplinks: dict[str, list[int]] = {}
    targets: dict[int, SubnetPort] = {}
    for key, port in subnet.ports.items():
        if port.kind == "SW":
            names[port.node_guid] = port.device or port.node
            devices[port.node_guid] = port.device
        elif port.lid and port.state in {"Active", ""}:
            # Of one whose state was not said it is not known that it need not be reached.
            targets.setdefault(port.lid, port)
        peer = subnet.ports.get(port.peer) if port.peer is not None else None
        if peer is None or port.peer is None:
            continue
        next_hop[key] = port.peer
        if port.kind == "SW" and peer.kind == "SW":
            if port.state == "Active":
                uplinks.setdefault(port.node_guid, []).append(port.number)
        elif port.kind == "SW":
            leaves[port.node_guid] = None
    return _Plane(
        names,
        devices,
        tuple(leaves),
        next_hop,
        {guid: tuple(numbers) for guid, numbers in uplinks.items()},
        targets,
    )


def _broken(subnet: Subnet, plane: _Plane, unread: frozenset[str]) -> dict[int, list[tuple[str, str]]]:
    """Return by LID that some leaf does not reach: the leaf, and why not."""
    found: dict[int, list[tuple[str, str]]] = {}
    for lid, target in plane.targets.items():
        goes: dict[str, str] = {}
        for leaf in plane.leaves:
            why = _follow(subnet, plane, unread, goes, (leaf, lid, target))
            if why:
                found.setdefault(lid, []).append((leaf, why))
    return found


def _follow(
    subnet: Subnet,
    plane: _Plane,
    unread: frozenset[str],
    goes: dict[str, str],
    way: tuple[str, int, SubnetPort],
) -> str:
    """Return why a LID is not reached from a switch; empty if it is, or if that is not known.

    Parameters
    ----------
    goes
        The same of switches that were passed before; it grows.
    """
    switch, lid, target = way
    passed: list[str] = []
    why = ""
    while switch not in goes:
        if switch in passed:
            why = f"it goes round in circles through {plane.names[switch]}"
            break
        passed.append(switch)
        number = subnet.routes.get(switch, {}).get(lid)
        if number is None:
            why = "" if switch in unread else f"{plane.names[switch]} has no way to it"
            break
        arrived = plane.next_hop.get((switch, number))
        if arrived is None:
            why = f"{plane.names[switch]} sends it out of port {number}, where nothing is"
            break
        if arrived == (target.node_guid, target.number):
            break
        if arrived[0] not in plane.names:
            why = f"{plane.names[switch]} sends it to another HCA at port {number}"
            break
        switch = arrived[0]
    else:
        why = goes[switch]
    goes.update(dict.fromkeys(passed, why))
    return why


def _lost(survey: Survey, plane: _Plane, broken: Mapping[int, list[tuple[str, str]]]) -> Iterator[Finding]:
    for lid, leaves in broken.items():
        target = plane.targets[lid]
        if not concerns(survey, (target.device, *(plane.devices[leaf] for leaf, _ in leaves))):
            continue
        names = [plane.names[leaf] for leaf, _ in leaves]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        what = f"LID {lid} is not reached from {', '.join(names[:_SHOWN])}{more}: {leaves[0][1]}"
        step = "have the subnet manager route anew (pkill -HUP opensm), and look at its log"
        yield Finding(
            _NAME, target.label, Outcome.FAIL, what, "no way", "a way from every leaf", next_step=step
        )


def _balance(survey: Survey, subnet: Subnet, plane: _Plane, leaf: str) -> Finding:
    """Judge how many HCAs of other leaves go out by each uplink of a leaf."""
    uplinks, table = plane.uplinks[leaf], subnet.routes[leaf]
    up = frozenset(uplinks)
    load = Counter(table[lid] for lid in plane.targets if table.get(lid) in up)
    total = sum(load.values())
    share = math.ceil(total / len(uplinks))
    busiest = max(uplinks, key=lambda number: load[number])
    least = min(load[number] for number in uplinks)
    ratio = survey.rules.uplink_ratio
    measured = f"{least} to {load[busiest]} HCAs an uplink"
    limit = f"{ratio:g} times {share}" if ratio else "any"
    name = plane.names[leaf]
    said = f"{total} HCAs of other leaves over {count(len(uplinks), 'uplink')}: {measured}"
    if ratio and load[busiest] > ratio * share:
        what = f"{said}; port {busiest} carries {load[busiest]}, {limit} is allowed"
        step = (
            "see whether uplinks are down or were lately (ib_links), then have the subnet manager route anew"
        )
        return Finding(_NAME, name, Outcome.FAIL, what, measured, limit, next_step=step)
    return Finding(_NAME, name, Outcome.PASS, said, measured, limit)


PLUGIN = _Routing()
