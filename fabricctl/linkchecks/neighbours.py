"""Nodes find each other's addresses at the right port, also with several of their ports in one subnet.

Linux answers for any of its addresses on any of its ports unless it is told not to (ARP flux): then packets
for one rail arrive on another.

Passes: no two fabric ports of the node are in one subnet; or those that are answer for their own address only
(``arp_ignore`` at least 1, or ``arp_filter`` with a source rule) and ask with their own address
(``arp_announce`` 2, or a source rule). No resolved neighbour is at another port than its own.

Fails: such a setting is missing, or a resolved address of a peer leads to the hardware address of another
port.

Unknown: the node could not be asked for its addresses; or an address of a peer leads to a hardware address
that no port of the fabric has (one that stands for several peers is taken for a proxy's). Neighbours that are
not resolved now are not judged.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fabricctl.linkparts.hosts import unanswered
from fabricctl.model import facts
from fabricctl.model.fabric import Device, LinkLayer, Role
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread, text
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Observation, Survey

_KEY = "ip neighbours"
_ASK = """\
for what in neigh addr rule; do
    echo "== $what"
    case $what in rule) ip -4 -j rule show ;; *) ip -4 -j "$what" show ;; esac || exit
    echo
done
echo "== conf"
cd /proc/sys/net/ipv4/conf || exit
for name in all "$@"; do
    grep -H . "$name/arp_ignore" "$name/arp_announce" "$name/arp_filter" 2>/dev/null
done
:
"""
_RESOLVED = frozenset({"REACHABLE", "PERMANENT", "DELAY", "PROBE"})
_OWN_ADDRESS = 1
"""arp_ignore: answer only for an address of the interface that is asked."""
_BEST_SOURCE = 2
"""arp_announce: ask with the interface's own address."""


@dataclass(frozen=True)
class _Node:
    """What one node said.

    Parameters
    ----------
    addresses
        The IPv4 addresses of each fabric port.
    resolved
        Interface, address and hardware address of each neighbour that is resolved now.
    sources
        The addresses that a routing rule picks packets by.
    conf
        ARP settings by interface and name.
    """

    device: str
    addresses: Mapping[str, tuple[ipaddress.IPv4Interface, ...]]
    resolved: tuple[tuple[str, ipaddress.IPv4Address, str], ...]
    sources: tuple[ipaddress.IPv4Network, ...]
    conf: Mapping[tuple[str, str], int]

    def highest(self, port: str, name: str) -> int | None:
        """Return what holds for a port: the kernel takes the larger of the port's and everybody's."""
        values = [self.conf[each, name] for each in ("all", port) if (each, name) in self.conf]
        return max(values) if len(values) > 1 else None

    def has_rule(self, port: str) -> bool:
        """Say whether a rule routes what a port sends by its source address."""
        return any(one.ip in net for one in self.addresses.get(port, ()) for net in self.sources)


@dataclass
class _Fabric:
    """Whose each address and hardware address is, of all nodes that answered."""

    owners: dict[ipaddress.IPv4Address, list[PortId]] = field(default_factory=lambda: defaultdict(list))
    macs: dict[PortId, str] = field(default_factory=dict)
    at_mac: dict[str, list[PortId]] = field(default_factory=lambda: defaultdict(list))

    def port_at(self, mac: str) -> PortId | None:
        """Return the only port with a hardware address."""
        found = self.at_mac.get(mac, [])
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class _Neighbours:
    name: str = "neighbours"
    needs: Need = Need.READINGS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask a node for its addresses, resolved neighbours, source rules and ARP settings."""
        ports = _ports(device)
        return (Query(_KEY, ("sh", "-c", _ASK, "sh", *ports)),) if ports else ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return findings about each node with Ethernet ports."""
        asked = [
            (device, seen)
            for device in survey.fabric.nodes()
            if _ports(device) and (seen := survey.devices.get(device.name)) is not None and not seen.error
        ]
        nodes = {device.name: _read(device, seen) for device, seen in asked}
        fabric = _fabric(survey, nodes)
        found = [finding for device, _ in asked for finding in self._of(nodes[device.name], device, fabric)]
        if not found and any(_ports(device) for device in survey.fabric.nodes()):
            return unanswered(self.name, survey)
        return tuple(found)

    def _of(self, node: _Node | str, device: Device, fabric: _Fabric) -> tuple[Finding, ...]:
        if isinstance(node, str):
            step = f"on {device.name}: ip -4 -j neigh show (package iproute2)"
            what = f"its addresses and neighbours are not known: {node}"
            return (Finding(self.name, device.name, Outcome.UNKNOWN, what, next_step=step),)
        shared = _shared(node)
        bad = [
            *(finding for network, ports in shared.items() for finding in self._flux(node, network, ports)),
            *self._misled(node, fabric),
        ]
        if bad:
            return tuple(bad)
        right = sum(1 for _, address, _ in node.resolved if address in fabric.owners)
        told = "; ".join(
            f"{' and '.join(ports)} are in {network} and answer for themselves only"
            for network, ports in shared.items()
        ) or (
            "no two of its fabric ports are in one subnet"
            if any(node.addresses.values())
            else "none of its fabric ports has an IPv4 address, and ARP is about no other"
        )
        what = f"{told}; {right} resolved neighbours, all at their own port"
        return (Finding(self.name, device.name, Outcome.PASS, what),)

    def _flux(self, node: _Node, network: ipaddress.IPv4Network, ports: Sequence[str]) -> Iterator[Finding]:
        """Judge the settings of ports that share a subnet."""
        wrong: dict[str, list[str]] = {}
        for port in ports:
            ignore, announce = node.highest(port, "arp_ignore"), node.highest(port, "arp_announce")
            filters = (node.highest(port, "arp_filter") or 0) > 0
            if ignore is None or announce is None:
                step = f"on {node.device}: sysctl net.ipv4.conf.all.arp_ignore"
                what = f"ARP settings of {node.device}/{port} are not known"
                yield Finding(self.name, node.device, Outcome.UNKNOWN, what, next_step=step)
                continue
            if ignore < _OWN_ADDRESS and not (filters and node.has_rule(port)):
                wrong.setdefault(f"arp_ignore is {ignore}", []).append(port)
            if announce < _BEST_SOURCE and not node.has_rule(port):
                wrong.setdefault(f"arp_announce is {announce}", []).append(port)
        if wrong:
            said = ", ".join(f"{setting} on {' and '.join(where)}" for setting, where in wrong.items())
            yield Finding(
                self.name,
                node.device,
                Outcome.FAIL,
                f"{' and '.join(ports)} are both in {network}, and {said}: one port answers for the other",
                measured=", ".join(wrong),
                limit=f"arp_ignore >= {_OWN_ADDRESS}, arp_announce {_BEST_SOURCE}",
                next_step=(
                    f"on {node.device}: sysctl -w net.ipv4.conf.all.arp_ignore={_OWN_ADDRESS} "
                    f"net.ipv4.conf.all.arp_announce={_BEST_SOURCE}, and keep it in /etc/sysctl.d; "
                    "then on its peers: ip neigh flush all"
                ),
                culprit=node.device,
            )

    def _misled(self, node: _Node, fabric: _Fabric) -> Iterator[Finding]:
        """Walk the neighbours that are at another port than the one that has the address."""
        stands_for = Counter(mac for _, _, mac in node.resolved)
        for port, address, mac in node.resolved:
            owners = fabric.owners.get(address, [])
            owner = owners[0] if len(owners) == 1 else None
            if owner is None or owner.device == node.device or fabric.macs.get(owner) in {None, mac}:
                continue
            got = fabric.port_at(mac)
            if got is not None or stands_for[mac] == 1:
                yield self._at_another(PortId(node.device, port), f"{address} at {mac}", owner, got, fabric)

    def _at_another(
        self, asking: PortId, said: str, owner: PortId, got: PortId | None, fabric: _Fabric
    ) -> Finding:
        right = fabric.macs[owner]
        if got is None:
            what = f"{asking.device} has {said}, which no port of the fabric has; {owner} has {right}"
            step = f"see who else has that address: arping -D -I {asking.port} {said.partition(' ')[0]}"
            return Finding(self.name, str(asking), Outcome.UNKNOWN, what, next_step=step)
        return Finding(
            self.name,
            str(asking),
            Outcome.FAIL,
            f"{asking.device} has {said}, which is {got}, not {owner}",
            measured=said.rpartition(" ")[2],
            limit=right,
            next_step=(
                f"on {got.device}: sysctl -w net.ipv4.conf.all.arp_ignore={_OWN_ADDRESS} "
                f"net.ipv4.conf.all.arp_announce={_BEST_SOURCE}; then on {asking.device}: "
                f"ip neigh flush dev {asking.port}"
            ),
        )


def _ports(device: Device) -> tuple[str, ...]:
    if device.role is not Role.NODE:
        return ()
    return tuple(port.id.port for port in device.ports if port.link_layer is LinkLayer.ETHERNET)


def _read(device: Device, seen: Observation) -> _Node | str:
    """Return what a node said, or why that is not known."""
    try:
        said = (part.partition("\n") for part in text(seen.answers, _KEY).split("== ")[1:])
        parts = {head.strip(): body for head, _, body in said}
        return _Node(
            device.name,
            dict(_addresses(_json(parts["addr"]), _ports(device))),
            tuple(_resolved(_json(parts["neigh"]), _ports(device))),
            tuple(_sources(_json(parts["rule"]))),
            dict(_settings(parts["conf"])),
        )
    except Unread as exc:
        return str(exc)
    except (LookupError, ValueError, TypeError, AttributeError) as exc:
        return f"unparsable: {exc!r:.80}"


def _json(said: str) -> list[dict[str, Any]]:
    """Return a list that ``ip -j`` printed; of nothing it prints ``[]``, or nothing."""
    found = json.loads(said) if said.strip() else []
    return [item for item in found if isinstance(item, dict)]


def _addresses(
    links: list[dict[str, Any]], ports: Sequence[str]
) -> Iterator[tuple[str, tuple[ipaddress.IPv4Interface, ...]]]:
    for link in links:
        if link.get("ifname") in ports:
            found = [one for one in link.get("addr_info", []) if one.get("family") == "inet"]
            yield (
                link["ifname"],
                tuple(ipaddress.IPv4Interface(f"{one['local']}/{one['prefixlen']}") for one in found),
            )


def _resolved(
    entries: list[dict[str, Any]], ports: Sequence[str]
) -> Iterator[tuple[str, ipaddress.IPv4Address, str]]:
    for one in entries:
        if one.get("dev") in ports and "lladdr" in one and _RESOLVED.intersection(one.get("state") or ()):
            # An odd entry is left out: it is nobody's address, and hides no other.
            with contextlib.suppress(ValueError):
                yield one["dev"], ipaddress.IPv4Address(one.get("dst")), str(one["lladdr"]).lower()


def _settings(said: str) -> Iterator[tuple[tuple[str, str], int]]:
    """Walk lines like ``all/arp_ignore:1``."""
    for line in said.splitlines():
        path, _, value = line.partition(":")
        name, _, setting = path.rpartition("/")
        if name and value.isascii() and value.isdigit():
            yield (name, setting), int(value)


def _sources(rules: list[dict[str, Any]]) -> Iterator[ipaddress.IPv4Network]:
    for rule in rules:
        source = str(rule.get("src", "all"))
        if source != "all":
            yield ipaddress.IPv4Network(f"{source}/{rule.get('srclen', 32)}", strict=False)


def _shared(node: _Node) -> dict[ipaddress.IPv4Network, list[str]]:
    """Return the subnets in which a node has several fabric ports."""
    found: defaultdict[ipaddress.IPv4Network, list[str]] = defaultdict(list)
    for port, addresses in node.addresses.items():
        for network in dict.fromkeys(one.network for one in addresses):
            found[network].append(port)
    return {network: ports for network, ports in found.items() if len(ports) > 1}


def _fabric(survey: Survey, nodes: Mapping[str, _Node | str]) -> _Fabric:
    found = _Fabric()
    for name, node in nodes.items():
        if isinstance(node, str):
            continue
        for port, addresses in node.addresses.items():
            for one in addresses:
                found.owners[one.ip].append(PortId(name, port))
    for port_id, seen in survey.seen_ports():
        held = seen.port(port_id)
        mac = held.facts.get(facts.MAC) if held is not None else None
        if isinstance(mac, Known):
            found.macs[port_id] = str(mac.value).lower()
            found.at_mac[found.macs[port_id]].append(port_id)
    return found


PLUGIN = _Neighbours()
