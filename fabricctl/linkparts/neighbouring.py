"""Which port of the inventory an LLDP neighbour is, whatever way it spells its names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from fabricctl.linkparts.ends import End
from fabricctl.model import facts
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known, Value
from fabricctl.plugin.surveying import Survey

_SHORT = re.compile(r"(?:ethernet|eth|et)(?=\d)")
_ADDRESS = re.compile(r"[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}")


@dataclass(frozen=True, slots=True)
class Heard:
    """What a port hears.

    Parameters
    ----------
    said
        The neighbour as it names itself, ``device/port``; empty if none is heard.
    device
        The inventory's name of the device, else its own.
    port
        The port of the inventory that it is; None if it is none that can be told.
    sure
        Whether it is known which port it is, or that it is none of the inventory.
    why
        Why not.
    """

    said: str
    device: str = ""
    port: PortId | None = None
    sure: bool = False
    why: str = ""


@dataclass
class Names:
    """The names of devices and ports in a survey, for looking them up."""

    survey: Survey
    _devices: dict[str, str] = field(default_factory=dict)
    _ports: dict[str, dict[str, PortId]] = field(default_factory=dict)
    _addresses: dict[str, PortId] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index devices by every name that LLDP may give them: with a domain or without; ports by address."""
        names = [device.name for device in self.survey.fabric.devices]
        short = [name.lower().partition(".")[0] for name in names]
        times = Counter(short)
        for name, first in zip(names, short, strict=True):
            self._devices.setdefault(name.lower(), name)
            if times[first] == 1:
                self._devices.setdefault(first, name)
        for port, _ in self.survey.seen_ports():
            self._addresses.setdefault(_digits(self._address(port)), port)

    def heard(self, end: End) -> Heard:
        """Return what an end of a link hears."""
        said = end.fact(facts.PARTNER)
        if not isinstance(said, str):
            return Heard("", why=end.why_not(facts.PARTNER))
        name, _, label = said.partition("/")
        device = self._devices.get(name.lower()) or self._devices.get(name.lower().partition(".")[0])
        if device is None and _ADDRESS.fullmatch(name.lower()):
            return self._nameless(said, name, label)
        if device is None:
            return Heard(said, name, sure=True, why="the inventory has no such device")
        port = self._port(device, label)
        if port is not None:
            # What abbreviates the name of a port may be the alias of another one, as SONiC has them.
            sure = len(label) >= len(port.port) or port == self.survey.fabric.peer(end.port.id)
            return Heard(said, device, port, sure=sure, why="" if sure else f"it may mean {port} or not")
        if self._spelled_alike(device, label):
            return Heard(said, device, sure=True, why=f"the inventory has no port {label} of {device}")
        return Heard(said, device, why=f"the inventory names the ports of {device} otherwise")

    def _nameless(self, said: str, name: str, label: str) -> Heard:
        """Return who has the address by which a neighbour without a name calls itself: a NIC's firmware."""
        for each in (label, name):
            port = self._addresses.get(_digits(each)) if _ADDRESS.fullmatch(each.lower()) else None
            if port is not None:
                return Heard(said, port.device, port, sure=True)
        return Heard(said, name, why="it gives no name, and no port is known to have that address")

    def _port(self, device: str, label: str) -> PortId | None:
        known = self._ports.setdefault(device, {}) or self._index(device)
        return known.get(label) or known.get(_plain(label))

    def _index(self, device: str) -> Mapping[str, PortId]:
        """Index a device's ports by name, usual abbreviations, members that carry them, and MAC address."""
        found = self._ports[device]
        for port in self.survey.fabric.device(device).ports:
            found.setdefault(port.id.port, port.id)
            found.setdefault(_plain(port.id.port), port.id)
            for name in (*self._members(port.id), self._address(port.id)):
                found.setdefault(name, port.id)
        return found

    def _members(self, port: PortId) -> tuple[str, ...]:
        known = self._fact(port, facts.FUNCTIONS)
        return tuple(map(str, known)) if isinstance(known, tuple) else ()

    def _address(self, port: PortId) -> str:
        """Return a port's hardware address: what hosts name it by that are not told otherwise."""
        return str(self._fact(port, facts.MAC) or "")

    def _fact(self, port: PortId, name: str) -> Value | None:
        seen = self.survey.devices.get(port.device)
        held = seen.port(port) if seen is not None else None
        known = held.facts.get(name) if held is not None else None
        return known.value if isinstance(known, Known) else None

    def _spelled_alike(self, device: str, label: str) -> bool:
        """Say whether a port is called as others of the device are: then it is another one and no alias."""
        shape = _shape(label)
        return any(_shape(port.id.port) == shape for port in self.survey.fabric.device(device).ports)


def _digits(address: str) -> str:
    """Return a hardware address without what separates its digits."""
    return re.sub(r"[:.-]", "", address.lower())


def _plain(label: str) -> str:
    return _SHORT.sub("eth", label.lower())


def _shape(label: str) -> str:
    return re.sub(r"\d+", "0", _plain(label))
