"""The fabric as the inventory describes it: devices, ports and the links between them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum

from fabricctl.errors import UsageError
from fabricctl.model.names import PortId

NETWORK_CLI = "network_cli"
"""`Endpoint.connection` of a device that has a command line of its own over SSH and no shell."""
REST = "rest"
"""`Endpoint.connection` of a device that is spoken to over HTTPS."""


class Role(StrEnum):
    """What a device is."""

    NODE = "node"
    SWITCH = "switch"


class LinkLayer(StrEnum):
    """What a port speaks."""

    ETHERNET = "ethernet"
    INFINIBAND = "infiniband"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach a device: over SSH, or on this machine itself.

    Parameters
    ----------
    connection
        ``ssh``, ``local``, ``network_cli`` or ``rest``.
    port
        TCP port, 1..65535.
    key_file
        Private key; empty means the agent's and the user's default keys.
    known_hosts
        File of host keys to check against; empty means the user's own.
    become
        Whether commands run through ``sudo -n``; without a shell: after ``enable``.
    password_file
        File with the password in its first line, for REST; the password itself is never kept in a value.
    ca_file
        PEM certificates that the device's own is checked against, for REST; empty means the system's.
    """

    host: str
    port: int = 22
    user: str = ""
    key_file: str = ""
    known_hosts: str = ""
    become: bool = False
    connection: str = "ssh"
    password_file: str = ""
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class Port:
    """A fabric port of a device.

    Parameters
    ----------
    rdma
        Verbs device on a node's port, ``mlx5_0``, or one of its ports, ``mlx5_0/2``; empty on a switch, or
        if unknown.
    rail
        Rail number from 0; None where rails do not apply.
    address
        ``10.10.0.1/24`` or an IPv6 interface; empty if the port has none.
    speed_gbps
        Expected speed in Gb/s; 0 if the inventory does not say.
    """

    id: PortId
    rdma: str = ""
    rail: int | None = None
    address: str = ""
    speed_gbps: int = 0
    link_layer: LinkLayer = LinkLayer.ETHERNET

    @property
    def verbs_device(self) -> str:
        """The name of the verbs device, empty if the inventory names none."""
        return self.rdma.partition("/")[0]

    @property
    def verbs_port(self) -> int:
        """Which of the verbs device's ports it is, from 1; 1 if the inventory does not say."""
        number = self.rdma.partition("/")[2]
        return int(number) if number.isdecimal() and int(number) else 1


@dataclass(frozen=True, slots=True)
class Link:
    """A cable. `a` and `b` in ascending order; a node's cable has the node's port in one of them."""

    a: PortId
    b: PortId
    cable_length_m: float = 0.0

    def other(self, port: PortId) -> PortId:
        """Return the far end as seen from `port`."""
        return self.b if port == self.a else self.a


@dataclass(frozen=True, slots=True)
class Device:
    """A node or a switch with the fabric ports that the inventory gives it.

    Parameters
    ----------
    driver
        Name of the NIC driver or of the switch driver (``rxe``, ``linux``); empty for a device that is only
        checked and probed, never configured.
    tier
        ``leaf``, ``spine`` or a site's own word; empty on nodes.
    pod
        Pod or scalable unit; empty if the site has only one.
    scheduler_node
        What the scheduler calls a node; empty if by its own name.
    """

    name: str
    role: Role
    driver: str
    endpoint: Endpoint
    ports: tuple[Port, ...]
    tier: str = ""
    pod: str = ""
    scheduler_node: str = ""


@dataclass(frozen=True)
class Fabric:
    """All devices and links of one inventory.

    Parameters
    ----------
    source
        Absolute path of the inventory it was read from.
    simulated
        Empty on real hardware; else what stands in for it. Every result of such a fabric says so.
    scheduler
        Who says whether a node is in use; ``none`` if nobody is to be asked, empty if the inventory does not
        say.
    """

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    source: str = ""
    simulated: str = ""
    scheduler: str = ""
    _devices: dict[str, Device] = field(init=False, repr=False, compare=False)
    _ports: dict[PortId, Port] = field(init=False, repr=False, compare=False)
    _links: dict[PortId, Link] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index by name."""
        set_ = object.__setattr__
        set_(self, "_devices", {d.name: d for d in self.devices})
        set_(self, "_ports", {p.id: p for d in self.devices for p in d.ports})
        set_(self, "_links", {end: link for link in self.links for end in (link.a, link.b)})

    def device(self, name: str) -> Device:
        """Return the device called `name`; KeyError if there is none."""
        return self._devices[name]

    def port(self, port: PortId) -> Port:
        """Return the port; KeyError if there is none."""
        return self._ports[port]

    def has_device(self, name: str) -> bool:
        """Say whether the inventory knows `name`."""
        return name in self._devices

    def link(self, port: PortId) -> Link | None:
        """Return the cable in `port`, None if the inventory names none."""
        return self._links.get(port)

    def peer(self, port: PortId) -> PortId | None:
        """Return the port at the other end of the cable in `port`, None if there is no cable."""
        link = self._links.get(port)
        return link.other(port) if link else None

    def named(self, patterns: Sequence[str]) -> tuple[Device, ...]:
        """Return the devices that names or patterns (as the shell's) fit, in inventory order; all for none.

        Raises
        ------
        UsageError
            One fits no device.
        """
        names = [device.name for device in self.devices]
        for pattern in patterns:
            if not fnmatch.filter(names, pattern):
                near = get_close_matches(pattern, names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names[:5])}, ..."
                raise UsageError(f"no device of the inventory is called {pattern!r}", next_step=hint)
        if not patterns:
            return self.devices
        return tuple(d for d in self.devices if any(fnmatch.fnmatchcase(d.name, p) for p in patterns))

    def nodes(self) -> tuple[Device, ...]:
        """Return the nodes in inventory order."""
        return tuple(d for d in self.devices if d.role is Role.NODE)

    def switches(self) -> tuple[Device, ...]:
        """Return the switches in inventory order."""
        return tuple(d for d in self.devices if d.role is Role.SWITCH)

    def node_ports(self) -> Iterator[Port]:
        """Walk the fabric ports of all nodes, in inventory order."""
        for device in self.nodes():
            yield from device.ports
