"""Joins the hosts to a fabric, and refuses what cannot be true of one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fabricctl.inventory.hosts import Host, HostReader
from fabricctl.inventory.positions import Step
from fabricctl.inventory.problems import suggestion
from fabricctl.inventory.schema import NO_DRIVER, PortVars
from fabricctl.inventory.sources import display
from fabricctl.model.fabric import Device, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PortId

_PORTS = "fabric_ports"
_UPLINKS = "fabric_uplinks"
_NODES_ONLY = {"rdma": "", "rail": "", "address": "ansible_host says how the switch itself is reached"}
_NETDEV = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}")


@dataclass(frozen=True)
class _Cable:
    """A cable as one host's variables name it, from `near` to `far`."""

    host: str
    path: tuple[Step, ...]
    near: PortId
    far: PortId
    far_key: str
    length_m: float
    speed_gbps: int
    link_layer: LinkLayer


@dataclass
class Builder:
    """Builds the fabric from sound hosts; what does not fit together is noted."""

    hosts: tuple[Host, ...]
    reader: HostReader
    _by_name: dict[str, Host] = field(default_factory=dict)
    _ports: dict[PortId, Port] = field(default_factory=dict)
    _used: dict[PortId, _Cable] = field(default_factory=dict)
    _addresses: dict[str, PortId] = field(default_factory=dict)

    def fabric(self, source: str) -> Fabric:
        """Return the fabric; only meaningful if no problem was noted."""
        self._by_name = {host.name: host for host in self.hosts}
        for host in self.hosts:
            self._take_ports(host)
        cables = [cable for host in self.hosts for cable in _cables(host)]
        links = [self._link(cable) for cable in cables if self._plug(cable)]
        has_ports = any(host.given.role is Role.NODE and host.given.ports for host in self.hosts)
        if not has_ports and not self.reader.refused:
            what = "no host has fabric_role: node and fabric_ports: there is no fabric to look at"
            self.reader.problems.add(display(Path(source)), what, 'see "fabricctl init" for an example')
        ports: dict[str, list[Port]] = defaultdict(list)
        for port in self._ports.values():
            ports[port.id.device].append(port)
        devices = tuple(_device(host, tuple(ports[host.name])) for host in self.hosts)
        self._check_scheduler_nodes()
        return Fabric(
            devices,
            tuple(sorted(links, key=lambda link: link.a)),
            source,
            simulated=self._simulated(),
            scheduler=self._scheduler(),
        )

    def _take_ports(self, host: Host) -> None:
        rails: dict[int, str] = {}
        verbs: dict[str, str] = {}
        for index, given in enumerate(host.given.ports):
            path: tuple[Step, ...] = (_PORTS, index)
            port = _port(host, given)
            if port.id in self._ports:
                self.reader.note(host.name, (*path, "name"), f"a second port called {given.name}")
            self._ports[port.id] = port
            if host.given.role is Role.SWITCH:
                self._check_switch_port(host, path, given)
                continue
            self._check_netdev(host, path, given.name)
            self._take_address(host, path, port)
            if given.rdma and verbs.setdefault(given.rdma, given.name) != given.name:
                what = f"{given.rdma} is the verbs device of {verbs[given.rdma]} already"
                self.reader.note(host.name, (*path, "rdma"), what, "a bond is one port with one device")
            if given.rail is not None and rails.setdefault(given.rail, given.name) != given.name:
                what = f"rail {given.rail} is that of {rails[given.rail]} already"
                self.reader.note(host.name, (*path, "rail"), what)
        self._check_rails(host, rails)
        if host.given.uplinks and host.given.role is Role.NODE:
            self.reader.note(host.name, (_UPLINKS,), "only a switch has uplinks", "use link in fabric_ports")

    def _check_rails(self, host: Host, rails: dict[int, str]) -> None:
        bare = [i for i, given in enumerate(host.given.ports) if given.rail is None]
        if rails and bare and host.given.role is Role.NODE:
            name = host.given.ports[bare[0]].name
            what = f"{name} has no rail, other ports of the node have one"
            self.reader.note(host.name, (_PORTS, bare[0]), what)

    def _check_netdev(self, host: Host, path: tuple[Step, ...], name: str) -> None:
        """Refuse what no netdev is called on a node whose NICs are set through their Linux drivers."""
        if host.given.driver in {None, NO_DRIVER} or _NETDEV.fullmatch(name):
            return
        if ":" in name:
            what, advice = "an alias is no port of its own", f"name the interface: {name.partition(':')[0]}"
        else:
            what = "is no network interface: at most 15 letters, digits, dots, dashes and underscores"
            advice = "write it as ip link shows it"
        self.reader.note(host.name, (*path, "name"), what, advice)

    def _check_switch_port(self, host: Host, path: tuple[Step, ...], given: PortVars) -> None:
        for key, advice in _NODES_ONLY.items():
            if getattr(given, key) is not None:
                self.reader.note(host.name, (*path, key), "only a node's port has one", advice)
        if given.link is not None:
            advice = f"cables stand in the node's {_PORTS}, those between switches in {_UPLINKS}"
            self.reader.note(host.name, (*path, "link"), "a switch's port has no link", advice)

    def _take_address(self, host: Host, path: tuple[Step, ...], port: Port) -> None:
        if not port.address:
            return
        address, _, _ = port.address.partition("/")  # each has one spelling by now
        first = self._addresses.setdefault(address, port.id)
        if first != port.id:
            self.reader.note(host.name, (*path, "address"), f"{address} is the address of {first} already")

    def _plug(self, cable: _Cable) -> bool:
        """Say whether a cable can be, and remember which ports it uses."""
        far = self._by_name.get(cable.far.device)
        if cable.far.device in self.reader.refused:
            return False
        if far is None and cable.far.device in self.reader.listing.hosts:
            self._note(cable, f"{cable.far.device} is no switch of the fabric", "give it fabric_role: switch")
            return False
        if far is None:
            switches = (h.name for h in self.hosts if h.given.role is Role.SWITCH)
            self._note(
                cable, f"there is no switch called {cable.far.device}", suggestion(cable.far.device, switches)
            )
            return False
        if far.given.role is not Role.SWITCH:
            self._note(cable, f"{far.name} is a node, a cable ends at a switch")
            return False
        if cable.near.device == cable.far.device:
            self._note(cable, f"the cable begins at {cable.near} and ends at {cable.far}, on the same device")
            return False
        free = True
        for end in (cable.near, cable.far):
            first = self._used.setdefault(end, cable)
            if first is not cable:
                place = self.reader.place(first.host, first.path).where
                self._note(cable, f"{end} is used by the cable of {first.near} already", f"that one: {place}")
                free = False
        return free

    def _link(self, cable: _Cable) -> Link:
        for end in (cable.near, cable.far):
            host = self._by_name[end.device]
            port = self._ports.setdefault(
                end, Port(end, speed_gbps=cable.speed_gbps, link_layer=host.given.link_layer)
            )
            if cable.speed_gbps and port.speed_gbps and port.speed_gbps != cable.speed_gbps:
                what = f"{cable.near} has {cable.speed_gbps} Gb/s and {end} {port.speed_gbps} Gb/s"
                self._note(cable, what, "both ends of a cable run at one speed")
            if port.link_layer is not cable.link_layer:
                what = f"{cable.near} is {cable.link_layer} and {end} {port.link_layer}"
                self._note(cable, what, f"set fabric_link_layer of {end.device}")
        low, high = sorted((cable.near, cable.far))
        return Link(low, high, cable.length_m)

    def _note(self, cable: _Cable, what: str, next_step: str = "") -> None:
        self.reader.note(cable.host, (*cable.path, cable.far_key), what, next_step)

    def _scheduler(self) -> str:
        named: dict[str, str] = {}
        for host in self.hosts:
            named.setdefault(host.given.scheduler or "", host.name)
        if len(named) > 1:
            first, second = list(named)[:2]
            what = f"{named[second]} has {second or 'none named'}, {named[first]} has {first or 'none named'}"
            self.reader.note(
                named[second or first],
                ("fabric_scheduler",),
                what,
                "a fabric has one scheduler: name it in all: vars:",
            )
        return next(iter(named), "")

    def _check_scheduler_nodes(self) -> None:
        """Refuse two nodes that the scheduler would have to call the same."""
        taken: dict[str, str] = {}
        for host in self.hosts:
            if host.given.role is Role.NODE:
                called = host.given.scheduler_node or host.name
                first = taken.setdefault(called, host.name)
                if first != host.name:
                    named = host if host.given.scheduler_node else self._by_name[first]
                    what = (
                        f"{called} is the scheduler's name of {first if named is host else host.name} already"
                    )
                    self.reader.note(named.name, ("fabric_scheduler_node",), what)

    def _simulated(self) -> str:
        said = sorted({host.given.simulated for host in self.hosts if host.given.simulated})
        return "; ".join(said)


def _device(host: Host, ports: tuple[Port, ...]) -> Device:
    given = host.given
    return Device(
        name=host.name,
        role=given.role,
        driver="" if given.driver in {None, NO_DRIVER} else str(given.driver),
        endpoint=host.endpoint,
        ports=ports,
        tier=given.tier or "",
        pod=given.pod or "",
        scheduler_node=given.scheduler_node or "",
    )


def _port(host: Host, given: PortVars) -> Port:
    return Port(
        id=PortId(host.name, given.name),
        rdma=given.rdma or "",
        rail=given.rail,
        address=given.address or "",
        speed_gbps=given.speed_gbps or 0,
        link_layer=given.link_layer or host.given.link_layer,
    )


def _cables(host: Host) -> Iterable[_Cable]:
    for index, port in enumerate(host.given.ports):
        if port.link is not None and host.given.role is Role.NODE:
            near, far = PortId(host.name, port.name), PortId(port.link.switch, port.link.port)
            layer = port.link_layer or host.given.link_layer
            length, speed = port.link.cable_length_m, port.speed_gbps or 0
            yield _Cable(host.name, (_PORTS, index, "link"), near, far, "switch", length, speed, layer)
    if host.given.role is Role.SWITCH:
        for index, up in enumerate(host.given.uplinks):
            near, far = PortId(host.name, up.port), PortId(up.switch, up.peer_port)
            layer, speed = host.given.link_layer, up.speed_gbps or 0
            yield _Cable(host.name, (_UPLINKS, index), near, far, "switch", up.cable_length_m, speed, layer)
