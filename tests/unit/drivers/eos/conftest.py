"""A simulated EOS switch without a network: what the driver composes runs through the shipped module."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fabricctl import resources
from fabricctl.drivers.switch.eos import PLUGIN
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Watchdog
from fabricctl.model.reading import Known, PortReading, Value
from fabricctl.plugin.protocols import Answer, PortGoal
from fabricctl.transport.ssh.conversation import refused

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from simulators.cli.server import Clock, Refused
from simulators.eos.switch import Interface, Switch

PORT = "Ethernet1/1"


def load_module() -> ModuleType:
    """Load the Ansible module that sends lines."""
    path = resources.folder("playbooks") / "library" / "fabricctl_lines.py"
    spec = importlib.util.spec_from_file_location("fabricctl_lines", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fabricctl_lines"] = module
    spec.loader.exec_module(module)
    return module


MODULE = load_module()


@dataclass
class Terminal:
    """The module's connection, to a session of a simulator; it breaks where the simulator's faults say."""

    switch: Any
    mode: Any = None
    broken: bool = False
    sent: list[str] = field(default_factory=list)

    def get(self, command: str) -> str:
        if self.mode is None:
            self.mode = self.switch.session()
            self.mode.privileged = True
        faults = self.switch.faults
        if self.broken or (faults.drop_before and MODULE.re.fullmatch(faults.drop_before, command)):
            self.broken, faults.drop_before = True, ""
            return "None"
        self.sent.append(command)
        for rule, said in faults.refuse.items():
            if MODULE.re.fullmatch(rule, command):
                return str(said)
        try:
            return str(self.mode.answer(command))
        except Refused as no:
            return str(no)


@dataclass
class World:
    """A switch, the clock that it goes by, and the ports that an inventory names."""

    switch: Switch
    clock: Clock
    ports: tuple[Port, ...]
    number: int = 1
    """Of the apply that sets it."""

    @property
    def apply(self) -> str:
        return f"apply-{self.number}"

    def answers(self) -> dict[str, Answer]:
        mode = self.switch.session()
        mode.privileged = True
        found = {}
        for query in PLUGIN.queries(self.ports):
            try:
                said = mode.answer(" ".join(query.argv))
            except Refused as no:
                said = str(no)
            found[query.key] = Answer(int(refused(said)), said, "")
        return found

    def read(self, name: str = PORT) -> PortReading:
        readings, _ = PLUGIN.parse(self.ports, self.answers())
        return readings[PortId("leaf1", name)]

    def value(self, setting: str, name: str = PORT) -> Value:
        found = self.read(name).settings[setting]
        assert isinstance(found, Known), found
        return found.value

    def why(self, setting: str, name: str = PORT) -> str:
        found = self.read(name).settings[setting]
        assert not isinstance(found, Known), found
        return found.reason

    def goals(self, wanted: Mapping[str, Value], *names: str) -> list[PortGoal]:
        """Return what is to be done to the ports (all, if none is named) so that they hold `wanted`."""
        readings, _ = PLUGIN.parse(self.ports, self.answers())
        found = []
        for port in self.ports:
            read = readings[port.id].settings
            differ = [name for name, value in wanted.items() if read.get(name) != Known(value)]
            differ.sort(key=lambda name: (settings.safe_rank(name), name))
            before = {name: e.value for name, e in read.items() if isinstance(e, Known)}
            before.pop(settings.BOOT, None)
            if differ and (not names or port.id.port in names):
                found.append(PortGoal(port, tuple(differ), wanted, before))
        return found

    def run(self, text: str) -> tuple[int | None, str]:
        """Send a text as the playbook does; return the status and what went wrong."""
        return self.send(text)[:2]

    def send(self, text: str) -> tuple[int | None, str, list[str]]:
        session = MODULE.Session(Terminal(self.switch))
        try:
            for line in MODULE.grouped(text.splitlines()):
                session.send(line)
        except MODULE.Stop as stop:
            return stop.rc, stop.why, session.connection.sent
        return 0, "", session.connection.sent

    def push(self, wanted: Mapping[str, Value], *names: str, slot: int = 1, within_s: int = 600) -> Any:
        return self.run(PLUGIN.method.push(self.apply, slot, self.goals(wanted, *names), within_s))

    def confirm(self, *slots: int) -> Any:
        return self.run(PLUGIN.method.confirm(self.apply, slots))

    def revert(self) -> Any:
        return self.run(PLUGIN.method.revert(self.apply, ()))

    def set(self, wanted: Mapping[str, Value], *names: str) -> None:
        """Push and confirm."""
        assert self.push(wanted, *names) == (0, "")
        assert self.confirm(1) == (0, "")
        self.number += 1

    def left(self, wanted: Mapping[str, Value], name: str = PORT) -> dict[str, object]:
        """Return what of `wanted` was not read so."""
        read = self.read(name).settings
        return {key: read.get(key) for key, value in wanted.items() if read.get(key) != Known(value)}


def intent(**changes: Any) -> PortIntent:
    """Return an intent that asks for all."""
    values: dict[str, Any] = {
        "port": PortId("leaf1", PORT),
        "role": Role.SWITCH,
        "link_layer": LinkLayer.ETHERNET,
        "speed_gbps": 100,
        "mtu_bytes": 9216,
        "rdma_mtu_bytes": 4096,
        "trust": "dscp",
        "dscp_priority": tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64)),
        "priority_tc": (0, 0, 0, 3, 0, 0, 6, 0),
        "tc_scheduler": ("ets",) * 6 + ("strict", "ets"),
        "tc_bandwidth_percent": (50, 0, 0, 50, 0, 0, 0, 0),
        "pfc_priorities": (3,),
        "ecn": EcnProfile(150_000, 1_500_000, 100),
        "roce_tos": 106,
        "cable_length_m": 5.0,
        "watchdog": Watchdog(),
    }
    return PortIntent(**{**values, **changes})


def wanted(**changes: Any) -> dict[str, Value]:
    """Return what the driver wants for an intent, without what it cannot have."""
    found = PLUGIN.wanted(intent(**changes))
    return {name: value for name, value in found.items() if name not in PLUGIN.unsupported}


@pytest.fixture
def make() -> Callable[..., World]:
    """Return what makes a world around a switch with these fields."""

    def build(interfaces: Mapping[str, Interface] | None = None, **fields: Any) -> World:
        clock = Clock()
        every = dict(interfaces or {PORT: Interface(), "Ethernet2/1": Interface(routed=False)})
        switch = Switch(every, now=clock, **fields)
        return World(switch, clock, tuple(Port(PortId("leaf1", name)) for name in every))

    return build


@pytest.fixture
def world(make: Callable[..., World]) -> World:
    """A Tomahawk switch at its defaults, with a routed and a switched port."""
    return make()


@pytest.fixture
def ready(world: World) -> World:
    """The same switch, set as a policy wants it, confirmed and saved."""
    world.set(wanted())
    return world


@pytest.fixture
def want() -> Callable[..., dict[str, Value]]:
    return wanted


@pytest.fixture
def mean() -> Callable[..., PortIntent]:
    return intent
