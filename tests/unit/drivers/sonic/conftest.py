"""A simulated SONiC switch with two ports in the inventory and a third that is nobody's business."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fabricctl import readback
from fabricctl.model.fabric import LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Watchdog
from fabricctl.model.reading import Known, PortReading, Value
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer, PortGoal

TESTS = Path(__file__).resolve().parents[3]
PORTS = ("Ethernet0", "Ethernet4")
OTHER = "Ethernet8"
_MARK = "fabricctl-0123456789abcdef"


def _module(name: str, path: Path) -> ModuleType:
    # Test folders are no packages: a module is loaded by its place.
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


simulated = _module("sonic_switch", TESTS / "simulators" / "sonic" / "switch.py")
configurations = _module("sonic_configs", TESTS / "simulators" / "sonic" / "configs.py")
record = _module("case_record_sonic", TESTS / "cases" / "record.py")


def intent(port: str = PORTS[0], **changes: Any) -> PortIntent:
    """Return what a RoCE policy means for a port."""
    values: dict[str, Any] = {
        "port": PortId("leaf1", port),
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


@dataclass
class World:
    """A switch, its driver, and the ports that the inventory names."""

    switch: Any
    ports: tuple[Port, ...] = tuple(Port(PortId("leaf1", name), speed_gbps=100) for name in PORTS)
    driver: Any = field(default_factory=lambda: finder.switch_driver("sonic"))
    _rest: dict[str, Any] = field(default_factory=dict)

    def read(self) -> Mapping[str, PortReading]:
        """Return the readings by port name."""
        # What is asked beside the configuration stays the same, and asking for it takes long.
        self._rest = self._rest or self.answers()
        saved = (self.switch.folder / "etc/sonic/config_db.json").read_text()
        now = {"sonic-cfggen": json.dumps(self.switch.config()), "cat config_db.json": saved}
        said = {key: Answer(0, text, "") for key, text in now.items()}
        readings, _ = self.driver.parse(self.ports, {**self._rest, **said})
        return {port.port: reading for port, reading in readings.items()}

    def answers(self) -> Any:
        queries = self.driver.queries(self.ports)
        done = self.switch.run(readback.script(queries, _MARK))
        return readback.unframe(queries, _MARK, done.stdout, done.stderr)

    def value(self, setting: str, port: str = PORTS[0]) -> Value:
        entry = self.read()[port].settings[setting]
        assert isinstance(entry, Known), entry
        return entry.value

    def goals(self, *names: str, ports: tuple[str, ...] = PORTS, **changes: Any) -> list[PortGoal]:
        """Return what an apply of this policy would ask for, or only the settings that are named."""
        readings = self.read()
        goals = []
        for port in self.ports:
            if port.id.port in ports:
                wanted = self.driver.wanted(intent(port.id.port, **changes))
                goal = record.goal_of(self.driver, port, readings[port.id.port], wanted)
                chosen = tuple(name for name in goal.names if name in names) if names else goal.names
                goals.append(PortGoal(goal.port, chosen, goal.wanted, goal.before))
        return goals

    def restore(self, before: Mapping[str, PortReading]) -> list[PortGoal]:
        """Return what a rollback asks for: the values that were read before, by value."""
        goals = []
        readings = self.read()
        for port in self.ports:
            known = {k: e.value for k, e in before[port.id.port].settings.items() if isinstance(e, Known)}
            known.pop("boot", None)
            now = readings[port.id.port].settings
            names = tuple(name for name, value in known.items() if now[name] != Known(value))
            goals.append(PortGoal(port, names, known, {}))
        return goals

    def push(self, goals: Any = None, apply_id: str = "apply-1", slot: int = 1, **changes: Any) -> Any:
        """Push goals, else what the policy asks for."""
        goals = self.goals(**changes) if goals is None else goals
        return self.switch.run(self.driver.method.push(apply_id, slot, goals, 600))

    def revert(self, *ports: str, apply_id: str = "apply-1") -> Any:
        return self.switch.run(self.driver.method.revert(apply_id, ports))

    def confirm(self, *slots: int, apply_id: str = "apply-1") -> Any:
        return self.switch.run(self.driver.method.confirm(apply_id, slots))

    def left(self, **changes: Any) -> dict[str, tuple[str, ...]]:
        """Return by port the settings that are not as the policy has them."""
        return {goal.port.id.port: goal.names for goal in self.goals(**changes) if goal.names}


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Return what makes a world: the kind of configuration, the buffer model, the hardware SKU."""
    made: list[Any] = []

    def make(kind: str = "stock", model: str = "dynamic", sku: str = "ACS-MSN2700") -> World:
        config = getattr(configurations, kind)([*PORTS, OTHER], model, sku)
        asic = "mellanox" if "MSN" in sku else "broadcom"
        made.append(simulated.Switch(tmp_path / f"switch{len(made)}", config, asic))
        return World(made[-1])

    yield make
    for switch in made:
        switch.close()


@pytest.fixture
def load_server() -> Callable[..., Any]:
    """Return what puts a switch behind SSH."""
    return _module("sonic_server", TESTS / "simulators" / "sonic" / "server.py").Server


@pytest.fixture
def stock() -> Any:
    """Return what makes a stock configuration without a switch."""
    return configurations.stock


@pytest.fixture
def make_intent() -> Callable[..., PortIntent]:
    """Return what makes intents."""
    return intent
