"""Which port of the inventory a port of the subnet is; the fabric itself knows only GUIDs and descriptions.

A node's HCA calls itself ``host hca`` (rdma-ndd sets it so: ``node1 mlx5_0``): the host is a device's name,
or its first label, and the HCA is the port's ``rdma``. Where the inventory gives no ``rdma``, or the HCA does
not say its name, a host with one port in the inventory and one in the subnet is clear all the same.

A switch calls itself as its device, or ``MF0;leaf1:MQM9700/U1``. The number of its port is the last number in
the port's name (``7``, ``1/7``, ``Eth7``, ``IB1/7``); a name of three numbers is a cage that holds two ports
(``IB1/7/2`` is port 14). Two names that come to the same number name no port.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fabricctl.infiniband.asking import Hca
from fabricctl.infiniband.discovery import Discovery, Key, Node
from fabricctl.model.fabric import Device, Fabric, LinkLayer, Port, Role
from fabricctl.model.names import PortId

_MANAGED = re.compile(r"^MF0;([^:]+)(?::.*)?$")
_VAGUE = re.compile(r"HCA-\d+")
_IN_CAGE = 3
_PER_CAGE = 2
_AGGREGATION = "Aggregation Node"

Named = tuple[str, PortId | None]
"""The inventory's device, and its port; empty and None for what is not known."""


def aggregation(node: Node) -> bool:
    """Say whether a node is what a switch reduces with (SHARP): it is no HCA, and has no cable."""
    return _AGGREGATION in node.description


def infiniband(device: Device) -> tuple[Port, ...]:
    """Return the InfiniBand ports that the inventory gives a device."""
    return tuple(port for port in device.ports if port.link_layer is LinkLayer.INFINIBAND)


def number_of(name: str) -> int | None:
    """Return the number of a switch port from its name; None if it has none."""
    numbers = [int(part) for part in re.findall(r"\d+", name)]
    if len(numbers) == _IN_CAGE and 1 <= numbers[2] <= _PER_CAGE and numbers[1] > 0:
        return _PER_CAGE * (numbers[1] - 1) + numbers[2]
    return numbers[-1] if numbers and numbers[-1] > 0 else None


def identify(
    fabric: Fabric, found: Discovery, keys: Iterable[Key], vantage: PortId | None = None
) -> Mapping[Key, Named]:
    """Return what each port of the subnet is.

    Parameters
    ----------
    vantage
        The port from which the subnet was discovered.
    """
    devices = _Devices(fabric)
    named: dict[Key, Named] = {}
    vague: dict[str, list[Key]] = {}
    for key in keys:
        node = found.nodes.get(key[0])
        if node is None:
            continue
        device = devices.of(node)
        port = devices.port(device, node, key[1]) if device is not None else None
        begun = vantage is not None and node.guids.get(key[1], "-") == found.start
        if port is None and vantage is not None and begun:
            # What the host that was asked calls itself need not be clear.
            device = device or fabric.device(vantage.device)
            port = vantage if device.name == vantage.device else None
        if device is None:
            continue
        named[key] = (device.name, port)
        if port is None and node.kind == "CA" and devices.unclear(device, node):
            vague.setdefault(device.name, []).append(key)
    taken = {port for _, port in named.values()}
    for name, some in vague.items():
        free = [port.id for port in infiniband(fabric.device(name)) if port.id not in taken]
        if len(free) == len(some) == 1:
            named[some[0]] = (name, free[0])
    return named


class _Devices:
    """The inventory's devices by what they may call themselves."""

    def __init__(self, fabric: Fabric) -> None:
        self._whole: dict[str, Device] = {}
        self._short: dict[str, list[Device]] = {}
        self._numbers: dict[str, dict[int, PortId | None]] = {}
        self._hcas: dict[tuple[str, Hca], PortId] = {}
        for device in fabric.devices:
            self._whole[device.name.lower()] = device
            self._short.setdefault(device.name.lower().partition(".")[0], []).append(device)
            if device.role is Role.SWITCH:
                self._numbers[device.name] = _numbers(device)
            else:
                for port in infiniband(device):
                    if port.rdma:
                        self._hcas[device.name, Hca.parse(port.rdma)] = port.id

    def of(self, node: Node) -> Device | None:
        """Return the device that a node is or belongs to."""
        if node.kind == "CA":
            return self._called(node.description.split(" ")[0], Role.NODE)
        managed = _MANAGED.match(node.description)
        return self._called(managed[1] if managed else node.description, Role.SWITCH)

    def port(self, device: Device, node: Node, number: int) -> PortId | None:
        if device.role is Role.SWITCH:
            return self._numbers[device.name].get(number)
        _, _, hca = node.description.partition(" ")
        return self._hcas.get((device.name, Hca(hca.strip(), number)))

    def unclear(self, device: Device, node: Node) -> bool:
        """Say whether a HCA may be a port that the inventory names otherwise, or not at all."""
        _, _, hca = node.description.partition(" ")
        return not hca or bool(_VAGUE.fullmatch(hca)) or any(not p.rdma for p in infiniband(device))

    def _called(self, name: str, role: Role) -> Device | None:
        device = self._whole.get(name.lower())
        if device is None:
            some = self._short.get(name.lower().partition(".")[0], [])
            device = some[0] if len(some) == 1 else None
        return device if device is not None and device.role is role else None


def _numbers(device: Device) -> dict[int, PortId | None]:
    found: dict[int, PortId | None] = {}
    for port in infiniband(device):
        number = number_of(port.id.port)
        if number is not None:
            found[number] = None if number in found else port.id
    return found
