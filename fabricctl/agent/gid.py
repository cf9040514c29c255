"""Choose the GID of a port by rule, never by a fixed index.

The same NIC has other indexes on other hosts, in other containers and after a flap, and index 0 is often a
RoCE v1 or a link-local entry that no switch routes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Optional, Union

from fabricctl.agent.wire import SETUP, Refusal

ROCE_V2 = "RoCE v2"

Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Interface = Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]


@dataclass(frozen=True)
class Gid:
    """An entry of a port's GID table.

    Parameters
    ----------
    index
        From 0; 0 is as good as any other.
    gid
        Eight groups of hexadecimal digits, as sysfs writes it.
    kind
        ``RoCE v2`` or ``IB/RoCE v1``.
    netdev
        The network device it came from; empty on InfiniBand.
    """

    index: int
    gid: str
    kind: str
    netdev: str

    def __str__(self) -> str:
        return f"{self.index} {self.kind} {self.address}"

    @property
    def address(self) -> Address:
        """The IP address that the GID stands for; IPv4 where it is a mapped one."""
        address = ipaddress.IPv6Address(self.gid)
        return address.ipv4_mapped or address

    @property
    def is_link_local(self) -> bool:
        """Whether it begins like fe80::/10: no switch routes it."""
        return ipaddress.IPv6Address(self.gid).is_link_local


def choose(table: Sequence[Gid], netdev: str, address: str) -> Gid:
    """Return the entry that traffic of this port should use.

    Parameters
    ----------
    netdev
        The port's network device: entries of VLANs, other ports and containers are left alone.
    address
        What the inventory gives the port, ``10.10.0.1/24``; its very address wins over others in the subnet.
        Empty: any global one, IPv4 before IPv6.

    Raises
    ------
    Refusal
        None fits (kind ``setup``); the line lists what was there.
    """
    usable = [g for g in table if g.kind == ROCE_V2 and g.netdev == netdev and not g.is_link_local]
    if not address:
        found = min(usable, key=lambda g: (g.address.version, g.index), default=None)
    else:
        found = _in_subnet(usable, ipaddress.ip_interface(address))
    if found is None:
        raise Refusal(SETUP, _none_fits(table, netdev, address))
    return found


def _in_subnet(usable: Iterable[Gid], wanted: Interface) -> Optional[Gid]:
    near = [g for g in usable if g.address.version == wanted.version and g.address in wanted.network]
    return min(near, key=lambda g: (g.address != wanted.ip, g.index), default=None)


def _none_fits(table: Sequence[Gid], netdev: str, address: str) -> str:
    there = ", ".join(f"{g} on {g.netdev or 'no netdev'}" for g in table[:8]) or "none"
    more = f" and {len(table) - 8} more" if len(table) > 8 else ""  # noqa: PLR2004  as many as fit a line
    if not address:
        return (
            f"no global RoCE v2 GID on {netdev}; the port has: {there}{more};"
            f" give {netdev} an address, or name it in the inventory"
        )
    network = ipaddress.ip_interface(address).network
    return (
        f"no RoCE v2 GID of {netdev} in {network}; the port has: {there}{more};"
        f" give {netdev} the address {address} of the inventory, or correct the inventory"
    )
