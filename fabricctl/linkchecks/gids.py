"""Every RoCE port has the RoCE v2 GID that jobs need, and no other port has the same.

Passes: a RoCE v2 GID of a routable address (IPv4, or IPv6 that is not link-local), the inventory's address
among them where it gives one, in the subnet of the rail's other ports where it does not, and unique in the
fabric. On a VLAN (``eth1.100``) the GID belongs to that interface, and the VLAN has that number.

Fails: only link-local or RoCE v1 GIDs, another address or subnet, an address that two ports have, another
VLAN.

Unknown: the GID table could not be read; or an address is missing and the link is down.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabricctl.linkparts.ends import End, cables, unseen
from fabricctl.model import facts
from fabricctl.model.fabric import Device, Fabric, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread, partial
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_V2 = "RoCE v2"
_KEY = "gids of VLANs"
_ASK = """\
while [ "$#" -gt 1 ]; do
    grep -H . "/sys/class/infiniband/$2/ports/1/gid_attrs/ndevs/"* 2>/dev/null | sed "s|^|$1 |"
    sed -n "s|^.*VID: *\\([0-9]*\\).*|$1 vid \\1|p" "/proc/net/vlan/$1" 2>/dev/null
    shift 2
done
:
"""
_VLAN = re.compile(r".+\.(\d{1,4})")


@dataclass(frozen=True)
class _Gids:
    name: str = "gids"
    needs: Need = Need.READINGS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask which interface each GID belongs to, only for ports on a VLAN: the table is long."""
        words = [word for port in device.ports if _on_vlan(port) for word in (port.id.port, port.rdma)]
        return (Query(_KEY, ("sh", "-c", _ASK, "sh", *words)),) if words else ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return a finding for each port of a node with a verbs device."""
        ends = [
            end for link in cables(survey) for end in link.read if end.role is Role.NODE and end.port.rdma
        ]
        if not ends:
            return unseen(self.name, survey, "GIDs") if _has_verbs(survey.fabric) else ()
        owners, dark = _owners(ends), _dark(survey)
        return tuple(finding for end in ends for finding in self._of(end, survey, owners, dark))

    def _of(
        self, end: End, survey: Survey, owners: Mapping[Address, tuple[str, ...]], dark: frozenset[PortId]
    ) -> tuple[Finding, ...]:
        if not isinstance(end.fact(facts.GIDS), tuple):
            what = f"the GID table of {end.port.rdma} is not known: {end.why_not(facts.GIDS)}"
            step = f"on {end.port.id.device}: ibv_devinfo -v -d {end.port.rdma}"
            return (Finding(self.name, str(end), Outcome.UNKNOWN, what, next_step=step),)
        found = _addresses(end)
        lacking = [*_usable(end, found), *_expected(end, found, survey.fabric)]
        if lacking and end.port.id in dark:
            what = "its link is down (see check link_state): an address may be gone with it"
            step = "bring the link up, then look again"
            return (Finding(self.name, str(end), Outcome.UNKNOWN, what, next_step=step),)
        bad = [
            self._fail(end, what, step)
            for what, step in (
                *lacking,
                *_shared(end, found, owners),
                *_vlan(end),
            )
        ]
        if bad:
            return tuple(bad)
        said = ", ".join(str(each) for each in found)
        return (Finding(self.name, str(end), Outcome.PASS, f"RoCE v2 with {said}, which no other port has"),)

    def _fail(self, end: End, what: str, step: str) -> Finding:
        return Finding(self.name, str(end), Outcome.FAIL, what, next_step=step, culprit=str(end))


def _has_verbs(fabric: Fabric) -> bool:
    return any(port.rdma and port.link_layer is LinkLayer.ETHERNET for port in fabric.node_ports())


def _dark(survey: Survey) -> frozenset[PortId]:
    """Return the ports whose link is down at either end."""
    return frozenset(
        end.port.id
        for link in cables(survey)
        if any(each.fact(facts.LINK_STATE) == "down" for each in link.ends)
        for end in link.ends
    )


def _owners(ends: list[End]) -> Mapping[Address, tuple[str, ...]]:
    """Return which ports have each address, in inventory order."""
    found: defaultdict[Address, dict[tuple[str, str], str]] = defaultdict(dict)
    for end in ends:
        for address in _addresses(end):
            # Interfaces on one verbs device (a VLAN, and what is under it) share its table.
            found[address].setdefault((end.port.id.device, end.port.rdma), str(end))
    return {address: tuple(ports.values()) for address, ports in found.items()}


def _entries(end: End) -> Iterator[tuple[int, str, Address]]:
    """Walk index, type and address of the GID table; what is no entry is left out."""
    for word in end.words(facts.GIDS):
        index, _, rest = word.partition(" ")
        kind, _, gid = rest.rpartition(" ")
        try:
            address = ipaddress.IPv6Address(gid)
            yield int(index), kind, address.ipv4_mapped or address
        except ValueError:
            continue


def _addresses(end: End) -> tuple[Address, ...]:
    """Return the routable addresses of RoCE v2 GIDs."""
    good = (
        address
        for _, kind, address in _entries(end)
        if kind == _V2 and not (address.is_link_local or address.is_unspecified or address.is_multicast)
    )
    return tuple(dict.fromkeys(good))


def _usable(end: End, found: tuple[Address, ...]) -> Iterator[tuple[str, str]]:
    if found:
        return
    kinds = {kind for _, kind, _ in _entries(end)}
    if _V2 in kinds:
        what = f"{end.port.rdma} has link-local RoCE v2 GIDs only"
    else:
        what = f"{end.port.rdma} has no RoCE v2 GID" + (f", only {', '.join(sorted(kinds))}" if kinds else "")
    wanted = end.port.address or "an address"
    yield what, f"give {end} {wanted} and see that the interface is up (ip addr show {end.port.id.port})"


def _expected(end: End, found: tuple[Address, ...], fabric: Fabric) -> Iterator[tuple[str, str]]:
    """Compare with the inventory's address, or else with the subnet of the ports on the same rail."""
    if not found:
        return
    has = ", ".join(str(each) for each in found)
    own = _interface(end.port)
    if own is not None:
        if own.ip not in found:
            where = "in" if any(each in own.network for each in found) else "outside"
            yield (
                f"{end} has no GID of {own.ip}, the inventory's address; it has {has}, {where} {own.network}",
                f"give {end} {own} as its address, or correct the inventory",
            )
        return
    network = _rail_network(end.port, fabric)
    if network is not None and not any(each in network for each in found):
        yield (
            f"{end} has {has}, outside {network}, where the other ports of rail {end.port.rail} are",
            f"give {end} an address in {network}, or its own in the inventory",
        )


def _interface(port: Port) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface | None:
    try:
        return ipaddress.ip_interface(port.address) if port.address else None
    except ValueError:
        return None


def _rail_network(port: Port, fabric: Fabric) -> Network | None:
    """Return the one subnet in which all ports of a rail are that have an address; None if there are more."""
    if port.rail is None:
        return None
    rail = (_interface(each) for each in fabric.node_ports() if each.rail == port.rail)
    networks = [each.network for each in rail if each is not None]
    # One port alone may be on a network of its own, as routed hosts are.
    return networks[0] if len(networks) > 1 and len(set(networks)) == 1 else None


def _shared(
    end: End, found: tuple[Address, ...], owners: Mapping[Address, tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    for address in found:
        ports = owners.get(address, ())
        if len(ports) > 1:
            everybody = f"{', '.join(ports[:-1])} and {ports[-1]}"
            word = "both" if len(ports) == 2 else "all"  # noqa: PLR2004  two are both
            yield (
                f"{everybody} {word} have {address}: packets go to whichever answers",
                f"give each port an address of its own, as the inventory says{_said(end)}",
            )


def _said(end: End) -> str:
    return f" ({end}: {end.port.address})" if end.port.address else ""


def _on_vlan(port: Port) -> bool:
    return bool(port.rdma) and _VLAN.fullmatch(port.id.port) is not None


def _vlan(end: End) -> Iterator[tuple[str, str]]:
    """Compare a VLAN's number, and whose GIDs these are, with the name of the interface."""
    named = _VLAN.fullmatch(end.port.id.port)
    if named is None or end.seen is None:
        return
    name = end.port.id.port
    try:
        lines = [line.split() for line in partial(end.seen.answers, _KEY).splitlines()]
    except Unread:
        return
    mine = [words for words in lines if words[:1] == [name]]
    numbers = [words[2] for words in mine if words[1:2] == ["vid"] and len(words) > 2]  # noqa: PLR2004  three words
    if numbers and numbers[0] != named[1]:
        yield f"{end} is VLAN {numbers[0]}, its name says {named[1]}", f"make {name} the VLAN {named[1]}"
    owned = [word.rpartition("ndevs/")[2] for words in mine for word in words[1:2] if "ndevs/" in word]
    holders = {word.partition(":")[2] for word in owned}
    if holders and name not in holders:
        yield (
            f"no GID of {end.port.rdma} belongs to {name}: they are those of {', '.join(sorted(holders))}",
            f"give {name} its address, and see that {end.port.rdma} is the device under it",
        )


PLUGIN = _Gids()
