"""What a link check is given, and what it must offer.

A link check is a module in ``fabricctl/linkchecks``; its ``PLUGIN`` holds the object. What it asks a device
goes into the same round trip as all other questions, and what counts is asked again after an interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from fabricctl.model.fabric import Device, Fabric
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import LinkPolicy, Policy
from fabricctl.model.reading import DeviceReading, Known, PortReading
from fabricctl.model.subnet import Subnet, Wiring
from fabricctl.model.verdict import Finding
from fabricctl.plugin.protocols import Answers, Query


class Need(Enum):
    """What a link check judges."""

    ANSWERS = "answers"
    """The answers to its own queries, and whether and when devices answered."""
    READINGS = "readings"
    """What drivers read of their devices, too."""
    SUBNETS = "subnets"
    """What was seen of InfiniBand's subnets."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How far a device's clock is ahead of this machine's, in seconds: somewhere from `low_s` to `high_s`."""

    low_s: float
    high_s: float


@dataclass(frozen=True)
class Observation:
    """What was seen of one device at the two ends of an interval.

    Parameters
    ----------
    first, last
        Its readings; `last` differs from `first` only in what counts. Both have the same ``error`` if the
        device could not be read; a device without a driver has neither ports nor an error.
    interval_s
        Seconds between them by the device's own clock; 0 if it was not read twice.
    answers
        What link checks asked, by the query's key; nothing where the device could not be read.
    later
        The same at the end of the interval, for queries that count.
    clock
        None where it was not asked.
    """

    device: str
    first: DeviceReading
    last: DeviceReading
    interval_s: float = 0.0
    answers: Answers = field(default_factory=dict)
    later: Answers = field(default_factory=dict)
    clock: Clock | None = None

    @property
    def error(self) -> str:
        """Empty, or why the device could not be read."""
        return self.first.error

    def port(self, port: PortId) -> PortReading | None:
        """Return the latest reading of a port; None if there is none."""
        return self.last.ports.get(port)

    def rise(self, port: PortId, counter: str) -> int | str:
        """Return by how much a counter rose within the interval, or why that is not known."""
        if self.error:
            return self.error
        if self.interval_s <= 0:
            return "it was read only once"
        values: list[int] = []
        for reading in (self.first, self.last):
            held = reading.ports.get(port)
            found = held.counters.get(counter) if held is not None else None
            if found is None:
                return f"{counter}: the driver did not report it"
            if not isinstance(found, Known):
                return f"{counter}: {found.reason}"
            if not isinstance(found.value, int) or isinstance(found.value, bool):
                return f"{counter}: unparsable: {found.value!r:.40}"
            values.append(found.value)
        if values[1] < values[0]:
            return f"{counter} went back from {values[0]} to {values[1]}: somebody cleared it, or it wrapped"
        return values[1] - values[0]


@dataclass(frozen=True)
class Survey:
    """All that a run of link checks saw.

    Parameters
    ----------
    devices
        By name: those that were asked, an unreachable one with its error. A device of which the chosen checks
        want to know nothing is not asked.
    subnets
        One for each plane of InfiniBand that the inventory has; one that could not be seen says why.
    history
        What earlier runs kept of ports, newest first; see :class:`PortPast`.
    now
        Unix time in seconds.
    limited
        Whether only some devices were asked: then what is not there is no finding.
    named
        Names of the devices that a limited run is about: also of switches that nobody asks.
    wiring
        InfiniBand's cables as they are meant to be, where not the inventory says them.
    """

    fabric: Fabric
    policy: Policy
    intents: Mapping[PortId, PortIntent]
    devices: Mapping[str, Observation]
    subnets: tuple[Subnet, ...] = ()
    history: Mapping[PortId, tuple[PortPast, ...]] = field(default_factory=dict)
    now: float = 0.0
    limited: bool = False
    named: frozenset[str] = frozenset()
    wiring: Wiring | None = None

    @property
    def rules(self) -> LinkPolicy:
        """What the policy says of links."""
        return self.policy.links

    def seen_ports(self) -> Iterator[tuple[PortId, Observation]]:
        """Walk the inventory's ports of every device that was asked, in inventory order."""
        for device in self.fabric.devices:
            seen = self.devices.get(device.name)
            if seen is not None:
                for port in device.ports:
                    yield port.id, seen


def cable(fabric: Fabric, port: PortId) -> str:
    """Return a subject with both ends, ``node1/eth1 - leaf1/eth2``; the port alone without a cable."""
    peer = fabric.peer(port)
    return f"{port} - {peer}" if peer is not None else str(port)


@dataclass(frozen=True, slots=True)
class PortPast:
    """What an earlier run saw of a port: when, in which boot, and how often its link had gone down."""

    at: float
    boot_id: str
    link_downs: int


class LinkCheck(Protocol):
    """Judges links or hosts; its module's docstring says what passes, fails and is unknown."""

    @property
    def name(self) -> str:
        """Name in findings and in ``--only``."""
        ...

    @property
    def needs(self) -> Need:
        """What it judges; what no chosen check needs is not asked."""
        ...

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Return what to ask of a device beyond what its driver asks; none where nothing is needed.

        Only devices with a shell are asked. Queries of the same key from several checks must be the same
        and are asked once.
        """
        ...

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return findings; none only where the fabric has nothing that the check is about."""
        ...
