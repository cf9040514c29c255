"""The planes of InfiniBand that an inventory has, and from which host each of them is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabricctl.model.fabric import Device, Fabric
from fabricctl.model.names import PortId
from fabricctl.model.subnet import Subnet
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Observation


@dataclass(frozen=True, slots=True)
class View:
    """A plane, and the port from which it is looked at; `others` are the next choices."""

    plane: str
    members: tuple[PortId, ...]
    vantage: PortId | None
    others: tuple[PortId, ...] = ()


def views(fabric: Fabric, devices: Sequence[Device], vantage: str) -> tuple[View, ...]:
    """Return the planes; none where the inventory has no InfiniBand."""
    del fabric, devices, vantage
    return ()


def queries(views: Sequence[View], device: Device) -> tuple[Query, ...]:
    """Return what to ask of a device that is the vantage of planes."""
    del views, device
    return ()


def second_choices(
    views: Sequence[View], seen: Mapping[str, Observation]
) -> tuple[tuple[View, ...], tuple[Device, ...]]:
    """Return the planes with another vantage where one did not answer, and the devices to ask for it."""
    del seen
    return tuple(views), ()


def subnets(fabric: Fabric, views: Sequence[View], seen: Mapping[str, Observation]) -> tuple[Subnet, ...]:
    """Return what was seen of each plane."""
    del fabric, views, seen
    return ()
