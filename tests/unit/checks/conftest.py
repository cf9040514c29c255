"""A mixed fabric with hand-made readings: as intended, until a test breaks something of it.

Its switches' drivers are stand-ins that want things in their systems' own terms: EOS a smaller MTU, NX-OS the
strict class in queue 7, Cumulus no action of its watchdog. The NICs' drivers are the real ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fabricctl.apply.intent import intents
from fabricctl.drivers import wishes
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.policy import EcnProfile, Limits, MtuPolicy, Policy, TrafficClass, Watchdog
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading, Value
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.driving import MadeDriver

POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=TrafficClass(priority=3, dscp=26),
    cnp=TrafficClass(priority=6, dscp=48),
    mtu=MtuPolicy(nic_bytes=9000, switch_bytes=9216, rdma_bytes=4096),
    pfc_priorities=(3,),
    ecn={0: EcnProfile(150_000, 1_500_000, 100)},
    dcqcn=True,
    watchdog=Watchdog(),
    limits=Limits(latency=(), loss=None),
)
NODES = {"node1": "mlx5", "node2": "bnxt", "node3": "mlx5"}
SWITCHES = {"leaf1": "sonic", "leaf2": "eos", "spine1": "cumulus", "pod1": "nxos"}
CABLES = (
    ("leaf1/Ethernet0", "node1/eth1", 3.0),
    ("leaf2/Ethernet1/1", "node2/eth1", 3.0),
    ("node3/eth1", "pod1/Ethernet1/1", 3.0),
    ("leaf1/Ethernet4", "spine1/swp1", 30.0),
    ("leaf2/Ethernet2/1", "spine1/swp2", 30.0),
    ("pod1/Ethernet1/2", "spine1/swp3", 30.0),
)


def sonic(intent: PortIntent) -> Mapping[str, Value]:
    values = wishes.of_switch(intent)
    return {**values, "sonic.tc_group": intent.priority_tc, "sonic.pfc_queue": tuple(range(8))}


def eos(intent: PortIntent) -> Mapping[str, Value]:
    return {**wishes.of_switch(intent), settings.MTU: intent.mtu_bytes - 2}


def cumulus(intent: PortIntent) -> Mapping[str, Value]:
    values = wishes.of_switch(intent)
    values.pop(settings.WATCHDOG_ACTION, None)
    return {**values, "cumulus.pfc_tx": True}


def nxos(intent: PortIntent) -> Mapping[str, Value]:
    """Class 6 rides queue 7."""
    swap = {6: 7, 7: 6}
    return {
        **wishes.of_switch(intent),
        settings.PRIORITY_TC: tuple(swap.get(tc, tc) for tc in intent.priority_tc),
        settings.TC_SCHEDULER: tuple("strict" if tc == 7 else "ets" for tc in range(8)),
        "nxos.pfc_mode": "on",
    }


def _switch(name: str) -> MadeDriver:
    wanted = {"sonic": sonic, "eos": eos, "cumulus": cumulus, "nxos": nxos}[name]
    return MadeDriver(
        name=name,
        role=Role.SWITCH,
        queries=lambda _: (),
        parse=lambda _, __: ({}, {}),
        wanted=wanted,
        disruption=lambda _, __, ___: Disruption.NONE,
        unsupported={settings.CABLE_LENGTH: "it computes itself"} if name == "nxos" else {},
    )


def mixed_fabric() -> Fabric:
    ports: dict[str, list[Port]] = {}
    links = []
    for one, other, length in CABLES:
        a, b = PortId.parse(one), PortId.parse(other)
        links.append(Link(a, b, length))
        for end in (a, b):
            rdma = "mlx5_0" if end.device.startswith("node") else ""
            ports.setdefault(end.device, []).append(Port(end, rdma=rdma, speed_gbps=100))
    at = Endpoint("192.0.2.1")
    nodes = [Device(n, Role.NODE, driver, at, tuple(ports[n])) for n, driver in NODES.items()]
    switches = [Device(n, Role.SWITCH, driver, at, tuple(ports[n])) for n, driver in SWITCHES.items()]
    return Fabric((*nodes, *switches), tuple(links))


@dataclass
class Site:
    """The fabric, its policy and what was read of it."""

    fabric: Fabric
    policy: Policy = POLICY
    readings: dict[str, DeviceReading] = field(default_factory=dict)
    changed: dict[PortId, dict[str, Any]] = field(default_factory=dict)

    def as_intended(self) -> None:
        """Read every device as its driver wants it."""
        meant = self.intents()
        for device in self.fabric.devices:
            found = finder.nic_driver if device.role is Role.NODE else finder.switch_driver
            driver = found(device.driver)
            ports = {}
            for port in device.ports:
                wanted = driver.wanted(meant[port.id])
                held = {k: Known(v) for k, v in wanted.items() if k not in driver.unsupported}
                known: dict[str, Entry] = {
                    facts.SPEED: Known(100_000),
                    facts.LINK_STATE: Known("up"),
                    facts.FEC: Known("rs"),
                    **(
                        {facts.RDMA_MTU: Known(4096), facts.FUNCTIONS: Known((port.id.port,))}
                        if device.role is Role.NODE
                        else {facts.HEADROOM: Known((0, 0, 0, 61_440, 0, 0, 0, 0))}
                    ),
                }
                ports[port.id] = PortReading(port.id, held, known)
            self.readings[device.name] = DeviceReading(device.name, 1.0, ports)

    def intents(self) -> dict[PortId, PortIntent]:
        found = intents(self.fabric, self.policy)
        return {port: replace(intent, **self.changed.get(port, {})) for port, intent in found.items()}

    def set(self, port: str, setting: str, entry: Value | Entry) -> None:
        """Read a setting of a port as something else."""
        self._change(port, "settings", setting, entry)

    def fact(self, port: str, name: str, entry: Value | Entry) -> None:
        """Read a fact of a port as something else."""
        self._change(port, "facts", name, entry)

    def counter(self, port: str, name: str, entry: Value | Entry) -> None:
        """Read a counter of a port as something else."""
        self._change(port, "counters", name, entry)

    def _change(self, port: str, kind: str, name: str, entry: Value | Entry) -> None:
        end = PortId.parse(port)
        reading = self.readings[end.device]
        found = reading.ports[end]
        value = entry if isinstance(entry, Known | Missing) else Known(entry)
        changed: dict[str, Any] = {kind: {**getattr(found, kind), name: value}}
        new = replace(found, **changed)
        self.readings[end.device] = replace(reading, ports={**reading.ports, end: new})

    def held(self, port: str, setting: str) -> Any:
        """Return what was read of a setting."""
        end = PortId.parse(port)
        entry = self.readings[end.device].ports[end].settings[setting]
        assert isinstance(entry, Known)
        return entry.value

    def judge(self, check: str) -> tuple[Finding, ...]:
        return finder.check(check).judge(self.fabric, self.policy, self.intents(), self.readings)

    def bad(self, check: str) -> list[tuple[Outcome, str, str]]:
        """Return outcome, subject and sentence of what does not pass."""
        found = self.judge(check)
        return [(f.outcome, f.subject, f.what) for f in found if f.outcome is not Outcome.PASS]

    def fails(self, check: str) -> list[tuple[str, str]]:
        """Return subject and sentence of what fails; there must be nothing that is not known."""
        found = self.bad(check)
        assert {outcome for outcome, _, _ in found} <= {Outcome.FAIL}, found
        return [(subject, what) for _, subject, what in found]


@pytest.fixture
def policy() -> Policy:
    """Return the mixed fabric's policy."""
    return POLICY


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return the mixed fabric, read as intended."""
    monkeypatch.setattr(finder, "switch_driver", _switch)
    made = Site(mixed_fabric())
    made.as_intended()
    return made
