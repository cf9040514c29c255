"""A simulated Enterprise SONiC that is read and changed without a network: by its driver's lines alone."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.drivers.switch.dell_sonic import PLUGIN
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Watchdog
from fabricctl.model.reading import Entry, Known, PortReading, Value
from fabricctl.plugin.protocols import Answer, PortGoal

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from simulators.cli.server import Refused
from simulators.dell_sonic.device import Switch
from simulators.dell_sonic.switch import running

APPLY = "apply-20261130-1"

ROCE = """\
qos wred-policy ROCE
green minimum-threshold 150 maximum-threshold 1500 drop-probability 100
ecn green
qos scheduler-policy ROCE
queue 0
type dwrr
weight 50
exit
queue 3
type dwrr
weight 50
exit
queue 6
type strict
exit
exit
qos map dscp-tc ROCE
dscp 0-25,27-47,49-63 traffic-class 0
dscp 26 traffic-class 3
dscp 48 traffic-class 6
qos map tc-queue ROCE
traffic-class 0 queue 0
traffic-class 1 queue 0
traffic-class 2 queue 0
traffic-class 3 queue 3
traffic-class 4 queue 0
traffic-class 5 queue 0
traffic-class 6 queue 6
traffic-class 7 queue 0
qos map tc-pg ROCE
traffic-class 3 priority-group 3
traffic-class 0-2,4-7 priority-group 7
qos map pfc-priority-queue ROCE
pfc-priority 3 queue 3
pfc-priority 4 queue 4
qos map pfc-priority-pg ROCE
pfc-priority 3 pg 3
pfc-priority 4 pg 4
exit
priority-flow-control watchdog polling-interval 200
"""
ROCE_PORT = """\
mtu 9216
queue 3 wred-policy ROCE
scheduler-policy ROCE
cable-length 5m
qos-map dscp-tc ROCE
qos-map tc-queue ROCE
qos-map tc-pg ROCE
qos-map pfc-priority-queue ROCE
qos-map pfc-priority-pg ROCE
priority-flow-control priority 3
priority-flow-control watchdog action drop
priority-flow-control watchdog on detect-time 400
priority-flow-control watchdog restore-time 400
"""
"""What a policy wants, made by hand under names of the operator's."""


def _load(path: Path) -> Any:
    # The module that the playbook runs on the controller; ansible's modules are no package.
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


library = _load(Path(__file__).resolve().parents[4] / "playbooks/library/fabricctl_lines.py")


@dataclass
class _Connection:
    session: Any

    def get(self, command: str) -> str | None:
        try:
            return str(self.session.answer(command))
        except EOFError:
            return None
        except Refused as no:
            return str(no)


def intent(port: PortId, **changes: Any) -> PortIntent:
    """Return what a policy means for a port: lossless class 3 (DSCP 26), CNPs in class 6 (DSCP 48)."""
    priorities = [0] * 64
    priorities[26], priorities[48] = 3, 6
    made = PortIntent(
        port=port,
        role=Role.SWITCH,
        link_layer=LinkLayer.ETHERNET,
        speed_gbps=100,
        mtu_bytes=9216,
        rdma_mtu_bytes=4096,
        trust="dscp",
        dscp_priority=tuple(priorities),
        priority_tc=(0, 0, 0, 3, 0, 0, 6, 0),
        tc_scheduler=("ets",) * 6 + ("strict", "ets"),
        tc_bandwidth_percent=(50, 0, 0, 50, 0, 0, 0, 0),
        pfc_priorities=(3,),
        ecn=EcnProfile(150_000, 1_500_000, 100),
        roce_tos=106,
        cable_length_m=5.0,
        watchdog=Watchdog(),
    )
    return replace(made, **changes)


@dataclass
class Bench:
    """A switch with these ports, read and changed through the driver."""

    switch: Switch
    ports: tuple[Port, ...]

    def id(self, number: int = 1) -> PortId:
        return self.ports[number - 1].id

    def by_hand(self) -> None:
        """Set the first two ports as an operator would, and save."""
        ports = "".join(f"interface {port.id.port}\n{ROCE_PORT}" for port in self.ports)
        self.switch.configure(ROCE + ports)
        self.switch.change(startup=self.running())

    def port_by_hand(self, *lines: str, number: int = 1) -> None:
        self.switch.configure("\n".join([f"interface {self.id(number).port}", *lines]))

    def answers(self) -> dict[str, Answer]:
        session = self.switch.session()
        if session.cli is None:
            session.answer("sonic-cli")
        found = {}
        for query in PLUGIN.queries(self.ports):
            try:
                found[query.key] = Answer(0, session.answer(" ".join(query.argv)), "")
            except Refused as no:
                found[query.key] = Answer(1, f"{no}\n", "")
        return found

    def readings(self) -> Mapping[PortId, PortReading]:
        return PLUGIN.parse(self.ports, self.answers())[0]

    def read(self, number: int = 1) -> Mapping[str, Entry]:
        return self.readings()[self.id(number)].settings

    def known(self, *names: str, number: int = 1) -> list[Value]:
        found = self.read(number)
        return [entry.value for name in names if isinstance(entry := found[name], Known)]

    def why(self, name: str, number: int = 1) -> str:
        """Return why there is no value."""
        found = self.read(number)[name]
        assert not isinstance(found, Known)
        return found.reason

    def goals(self, wanted: Mapping[PortId, Mapping[str, Value]]) -> list[PortGoal]:
        """Return what an apply would have the method do."""
        found = []
        readings = self.readings()
        for port in self.ports:
            read = readings[port.id].settings
            lacking = {n for n, e in read.items() if getattr(e, "impossible", False)}
            values = {
                n: v
                for n, v in wanted.get(port.id, {}).items()
                if n not in {*PLUGIN.unsupported, *lacking, settings.BOOT}
            }
            names = [n for n, v in values.items() if read.get(n) != Known(v)]
            if names:
                ordered = tuple(sorted(names, key=lambda name: (settings.safe_rank(name), name)))
                before = {n: e.value for n, e in read.items() if isinstance(e, Known) and n != settings.BOOT}
                found.append(PortGoal(port, ordered, values, before))
        return found

    def differs(
        self, wanted: Mapping[PortId, Mapping[str, Value]] | None = None
    ) -> dict[str, tuple[str, ...]]:
        """Return by port the settings that are not as a policy wants them."""
        return {goal.port.id.port: goal.names for goal in self.goals(wanted or self.wanted())}

    def wanted(self, **changes: Any) -> dict[PortId, Mapping[str, Value]]:
        return {port.id: PLUGIN.wanted(intent(port.id, **changes)) for port in self.ports}

    def push(
        self, goals: Sequence[PortGoal], slot: int = 1, apply_id: str = APPLY, session: Any = None
    ) -> tuple[int, str]:
        assert PLUGIN.method is not None
        return self.do(PLUGIN.method.push(apply_id, slot, goals, 600), session)

    def set(self, **changes: Any) -> list[str]:
        """Apply, confirm, and return the lines that the switch was given in configuration mode."""
        goals = self.goals(self.wanted(**changes))
        lines = self.lines_of(goals)
        assert self.push(goals) == (0, "")
        assert self.confirm() == (0, "")
        return lines

    def mend(self) -> None:
        """Give the switch the lines that make it as wanted, without a timer around them."""
        self.switch.configure("\n".join(self.lines_of(self.goals(self.wanted()))))

    def lines_of(self, goals: Sequence[PortGoal]) -> list[str]:
        assert PLUGIN.method is not None
        text = PLUGIN.method.push(APPLY, 1, goals, 600)
        return text.partition("\nconfigure terminal\n")[2].partition("\nend\n")[0].splitlines()

    def confirm(self, slots: Sequence[int] = (1,), apply_id: str = APPLY) -> tuple[int, str]:
        assert PLUGIN.method is not None
        return self.do(PLUGIN.method.confirm(apply_id, slots))

    def revert(self, *ports: str, apply_id: str = APPLY) -> tuple[int, str]:
        assert PLUGIN.method is not None
        return self.do(PLUGIN.method.revert(apply_id, ports))

    def do(self, text: str, session: Any = None) -> tuple[int, str]:
        """Do what the playbook does with a text; return how it ended and what went wrong."""
        if session is None:
            session = self.switch.session()
            if session.cli is None:
                session.answer("sonic-cli")  # as the collection's terminal plugin does
        talk = library.Session(_Connection(session))
        try:
            for line in library.grouped(text.splitlines()):
                talk.send(line)
        except library.Stop as stop:
            return stop.rc, stop.why
        finally:
            self.said = "\n".join(talk.said)
        return 0, ""

    said: str = ""

    def running(self) -> str:
        return running(self.switch.state())

    def ours(self) -> list[str]:
        """Return the heads of our objects on the switch."""
        return [
            line for line in self.running().splitlines() if line.startswith("qos ") and "FABRICCTL_" in line
        ]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Bench]:
    """Make a bench with so many ports, all up."""

    def made(count: int = 2, **values: Any) -> Bench:
        folder = tmp_path / "switch"
        folder.mkdir()
        switch = Switch(folder)
        switch.change(neighbours={"Eth1/1": ["node1", "0c:42:a1:00:00:01", "eth1"]}, **values)
        names = [f"Eth1/{number}" for number in range(1, count + 1)]
        return Bench(switch, tuple(Port(PortId("leaf1", name), speed_gbps=100) for name in names))

    return made


@pytest.fixture
def bench(make: Callable[..., Bench]) -> Bench:
    return make()


@pytest.fixture
def intent_of() -> Callable[..., PortIntent]:
    """Return what makes the intent of a port."""
    return intent
