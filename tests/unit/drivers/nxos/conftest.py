"""A simulated Nexus 9000 that is read and changed without a network: by the lines of the driver alone."""

from __future__ import annotations

import datetime as dt
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.drivers.switch.nxos import PLUGIN
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Watchdog
from fabricctl.model.reading import Entry, Known, PortReading, Value
from fabricctl.plugin.protocols import Answer, PortGoal

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from simulators.cli.server import Refused
from simulators.nxos.switch import Port as SimulatedPort
from simulators.nxos.switch import Session, Switch

APPLY = "a20270115-080000-ab12"


MARKS = "minimum-threshold 150 kbytes maximum-threshold 3000 kbytes drop-probability 7 weight 0 ecn"
BLUEPRINT = (
    "priority-flow-control watch-dog-interval on",
    "policy-map type network-qos qos_network",
    "class type network-qos c-8q-nq3",
    "mtu 9216",
    "pause pfc-cos 3",
    "class type network-qos c-8q-nq-default",
    "mtu 9216",
    "class-map type qos match-any CNP",
    "match dscp 48",
    "class-map type qos match-any ROCEv2",
    "match dscp 26",
    "policy-map type qos QOS_CLASSIFICATION",
    "class ROCEv2",
    "set qos-group 3",
    "class CNP",
    "set qos-group 7",
    "class class-default",
    "set qos-group 0",
    "policy-map type queuing QOS_EGRESS_PORT",
    "class type queuing c-out-8q-q3",
    "bandwidth remaining percent 50",
    f"random-detect {MARKS}",
    "class type queuing c-out-8q-q-default",
    "bandwidth remaining percent 50",
    "class type queuing c-out-8q-q7",
    "priority level 1",
    "system qos",
    "service-policy type queuing output QOS_EGRESS_PORT",
    "service-policy type network-qos qos_network",
)
"""The device's part of a configuration as Cisco publishes it for RoCE; queues left out have no bandwidth."""


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
    session: Session

    def get(self, command: str) -> str:
        if command.startswith("!"):
            return ""
        try:
            return self.session.answer(command)
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
        ecn=EcnProfile(150_000, 1_500_000, 7),
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

    def blueprint(self) -> None:
        """Set the switch by hand, as Cisco publishes it."""
        lines = (
            "priority-flow-control mode on",
            "priority-flow-control watch-dog-interval on",
            "mtu 9216",
            "service-policy type qos input QOS_CLASSIFICATION",
        )
        ports = [line for port in self.ports for line in (f"interface {port.id.port}", *lines)]
        self.switch.configure(*BLUEPRINT, *ports)
        self.switch.save()

    def answers(self) -> dict[str, Answer]:
        session = Session(self.switch)
        found = {}
        for query in PLUGIN.queries(self.ports):
            try:
                found[query.key] = Answer(0, session.answer(" ".join(query.argv)), "")
            except Refused as no:
                found[query.key] = Answer(1, str(no), "")
        return found

    def readings(self) -> Mapping[PortId, PortReading]:
        return PLUGIN.parse(self.ports, self.answers())[0]

    def read(self, number: int = 1) -> Mapping[str, Entry]:
        return self.readings()[self.id(number)].settings

    def known(self, *names: str, number: int = 1) -> list[Value]:
        found = self.read(number)
        return [entry.value for name in names if isinstance(entry := found[name], Known)]

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

    def differs(self, wanted: Mapping[PortId, Mapping[str, Value]]) -> dict[str, tuple[str, ...]]:
        return {str(goal.port.id): goal.names for goal in self.goals(wanted)}

    def wanted(self, **changes: Any) -> dict[PortId, Mapping[str, Value]]:
        return {port.id: PLUGIN.wanted(intent(port.id, **changes)) for port in self.ports}

    def push_text(self, goals: Sequence[PortGoal], within_s: int = 600, apply_id: str = APPLY) -> str:
        assert PLUGIN.method is not None
        return PLUGIN.method.push(apply_id, 1, goals, within_s)

    def set(self, wanted: Mapping[PortId, Mapping[str, Value]], *, confirm: bool = True) -> list[str]:
        """Apply, and return the configuration lines."""
        text = self.push_text(self.goals(wanted))
        assert self.do(text) == (0, "")
        if confirm:
            assert self.confirm() == (0, "")
        lines = text.rpartition("\nconfigure terminal\n")[2].splitlines()[:-1]
        return [line for line in lines if not line.startswith("!")]

    def confirm(self, apply_id: str = APPLY, slots: Sequence[int] = (1,)) -> tuple[int, str]:
        assert PLUGIN.method is not None
        return self.do(PLUGIN.method.confirm(apply_id, slots))

    def revert(self, apply_id: str = APPLY) -> tuple[int, str]:
        assert PLUGIN.method is not None
        return self.do(PLUGIN.method.revert(apply_id, ()))

    def do(self, text: str, session: Any = None) -> tuple[int, str]:
        """Do what the playbook does with a text; return how it ended and what went wrong."""
        now = int(self.switch.clock())
        within = int(found[1]) if (found := re.match(r"! fabricctl \S+ within (\d+)", text)) else 0
        at = dt.datetime.fromtimestamp(max((now + within) // 60 * 60, now // 60 * 60 + 120), dt.UTC)
        lines = text.replace("@REVERT_AT@", f"{at:%Y:%m:%d:%H:%M}").splitlines()
        talk = library.Session(_Connection(session or self.switch.session()))
        try:
            for line in library.grouped(lines):
                talk.send(line)
        except library.Stop as stop:
            return stop.rc, stop.why
        return 0, ""

    def lines(self) -> list[str]:
        """Return the running configuration without comments, release and host name."""
        said = Session(self.switch).answer("show running-config")
        return [
            row for row in said.splitlines() if row.strip() and not re.match(r"!|version |hostname ", row)
        ]

    def ours(self) -> list[str]:
        return [line for line in self.lines() if "fabricctl-" in line and not line.startswith(" ")]


@pytest.fixture
def make() -> Callable[..., Bench]:
    """Make a bench with so many ports, all up."""

    def made(count: int = 2) -> Bench:
        names = [f"Ethernet1/{number}" for number in range(1, count + 1)]
        switch = Switch({name: SimulatedPort(neighbour=f"node{at}/eth1") for at, name in enumerate(names, 1)})
        return Bench(switch, tuple(Port(PortId("leaf1", name), speed_gbps=100) for name in names))

    return made


@pytest.fixture
def bench(make: Callable[..., Bench]) -> Bench:
    return make()


@pytest.fixture
def intent_of() -> Callable[..., PortIntent]:
    """Return what makes the intent of a port."""
    return intent


@pytest.fixture
def apply_id() -> str:
    """Return the name of the apply that a bench makes."""
    return APPLY
