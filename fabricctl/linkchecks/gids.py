"""Every RoCE port has the RoCE v2 GID that jobs need, and no other port has the same.

Passes: a RoCE v2 GID of a routable address (IPv4, or IPv6 that is not link-local), the inventory's address
among them where it gives one, in the subnet of the rail's other ports where it does not, and unique in the
fabric. On a VLAN (``eth1.100``) the GID belongs to that interface, and the VLAN has that number.

Fails: only link-local or RoCE v1 GIDs, another address or subnet, an address that two ports have (told at
the one to which the inventory does not give it; at both where it gives it to neither), another VLAN.

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
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
Table = tuple[str, str]
"""Device and verbs device of a GID table: a VLAN and the interface under it share one."""

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
        owners, dark = _Owners.of(ends, survey.fabric), _dark(survey)
        return tuple(finding for end in ends for finding in self._of(end, survey, owners, dark))

    def _of(self, end: End, survey: Survey, owners: _Owners, dark: frozenset[PortId]) -> tuple[Finding, ...]:
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
                *owners.shared(end, found),
                *_vlan(end),
            )
        ]
        if bad:
            return tuple(bad)
        said = ", ".join(str(each) for each in found)
        intruders = "".join(owners.intruders(end, found))
        alone = intruders or ", which no other port has"
        return (Finding(self.name, str(end), Outcome.PASS, f"RoCE v2 with {said}{alone}"),)

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


@dataclass(frozen=True)
class _Owners:
    """Which ports have each address, in inventory order, and which port the inventory gives it to."""

    having: Mapping[Address, Mapping[Table, str]]
    meant: Mapping[Address, Mapping[Table, Port]]

    @classmethod
    def of(cls, ends: list[End], fabric: Fabric) -> _Owners:
        having: defaultdict[Address, dict[Table, str]] = defaultdict(dict)
        for end in ends:
            for address in _addresses(end):
                having[address].setdefault(_table(end.port), str(end))
        meant: defaultdict[Address, dict[Table, Port]] = defaultdict(dict)
        for port in fabric.node_ports():
            own = _interface(port)
            if own is not None:
                meant[own.ip].setdefault(_table(port), port)
        return cls(having, meant)

    def shared(self, end: End, found: tuple[Address, ...]) -> Iterator[tuple[str, str]]:
        """Walk what is wrong with addresses of an end that other ports have as well."""
        for address in found:
            ports = tuple(self.having.get(address, {}).values())
            if len(ports) < 2:  # noqa: PLR2004  one alone shares nothing
                continue
            owner = self._owner(address)
            if owner is None:
                everybody = f"{', '.join(ports[:-1])} and {ports[-1]}"
                word = "both" if len(ports) == 2 else "all"  # noqa: PLR2004  two are both
                yield (
                    f"{everybody} {word} have {address}: packets go to whichever answers",
                    f"give each port an address of its own, as the inventory says{_said(end)}",
                )
            elif _table(owner) != _table(end.port):
                own = _interface(owner)
                yield (
                    f"{end} also has {address}, which the inventory gives to {owner.id}",
                    f"on {end.port.id.device}: ip addr del {own} dev {end.port.id.port}",
                )

    def intruders(self, end: End, found: tuple[Address, ...]) -> Iterator[str]:
        """Walk who else has addresses that the inventory gives to an end, as what to add to a sentence."""
        for address in found:
            owner, mine = self._owner(address), _table(end.port)
            others = [port for table, port in self.having.get(address, {}).items() if table != mine]
            if others and owner is not None and _table(owner) == mine:
                verb, whose = ("has", "its") if len(others) == 1 else ("have", "their")
                yield f"; {' and '.join(others)} also {verb} {address}, which is not {whose} own"

    def _owner(self, address: Address) -> Port | None:
        """Return the one port that has an address and should have it; None if there is none, or several."""
        meant = self.meant.get(address, {})
        having = [port for table, port in meant.items() if table in self.having.get(address, {})]
        return having[0] if len(meant) == 1 and having else None


def _table(port: Port) -> Table:
    return port.id.device, port.rdma


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


def _interface(port: Port) -> Interface | None:
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
