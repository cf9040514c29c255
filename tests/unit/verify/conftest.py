"""Small fabrics and verdicts for the stages of verify."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, Port, Role
from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Finding, Outcome, Verdict

Build = Callable[..., Fabric]


def _link(a: PortId, b: PortId) -> Link:
    return Link(min(a, b), max(a, b), 2.0)


@pytest.fixture
def star() -> Build:
    """Nodes on one leaf: node1/eth1 on leaf1/eth1, rail r on leaf r+1 if `leaf_per_rail`."""

    def build(nodes: int = 4, rails: int = 1, *, leaf_per_rail: bool = False) -> Fabric:
        links, devices = [], []
        switch_ports: dict[str, list[Port]] = {}
        for n in range(1, nodes + 1):
            ports = []
            for rail in range(rails):
                near = PortId(f"node{n}", f"eth{rail + 1}")
                leaf = f"leaf{rail + 1}" if leaf_per_rail else "leaf1"
                number = n if leaf_per_rail else (n - 1) * rails + rail + 1
                far = PortId(leaf, f"eth{number}")
                ports.append(Port(near, rdma=f"rxe{rail}", rail=rail))
                switch_ports.setdefault(leaf, []).append(Port(far))
                links.append(_link(near, far))
            devices.append(Device(f"node{n}", Role.NODE, "rxe", Endpoint("h"), tuple(ports)))
        devices += [
            Device(name, Role.SWITCH, "linux", Endpoint("h"), tuple(ports), tier="leaf")
            for name, ports in switch_ports.items()
        ]
        return Fabric(tuple(devices), tuple(links), "/inventory.yml", "lab")

    return build


@pytest.fixture
def clos() -> Build:
    """Two nodes on each leaf, every leaf on every spine."""

    def build(leaves: int = 2, spines: int = 2, *, pods: bool = False) -> Fabric:
        links, devices = [], []
        for leaf in range(1, leaves + 1):
            ports = []
            for n in (1, 2):
                near = PortId(f"node{leaf}{n}", "eth1")
                far = PortId(f"leaf{leaf}", f"eth{n}")
                links.append(_link(near, far))
                ports.append(Port(far))
                pod = f"pod{leaf}" if pods else ""
                devices.append(
                    Device(near.device, Role.NODE, "rxe", Endpoint("h"), (Port(near, rail=0),), pod=pod)
                )
            for spine in range(1, spines + 1):
                up, down = PortId(f"leaf{leaf}", f"up{spine}"), PortId(f"spine{spine}", f"eth{leaf}")
                links.append(_link(up, down))
                ports.append(Port(up))
            devices.append(Device(f"leaf{leaf}", Role.SWITCH, "linux", Endpoint("h"), tuple(ports), "leaf"))
        devices += [
            Device(f"spine{s}", Role.SWITCH, "linux", Endpoint("h"), (), "spine")
            for s in range(1, spines + 1)
        ]
        return Fabric(tuple(devices), tuple(links))

    return build


def verdicts(pairs: Iterable[PairId], outcome: Callable[[PairId], Outcome]) -> tuple[Verdict, ...]:
    return tuple(
        Verdict(pair, "same_leaf", (Finding("loss", str(pair), outcome(pair), "counted"),)) for pair in pairs
    )


@pytest.fixture
def judged() -> Callable[[Iterable[PairId], Callable[[PairId], Outcome]], tuple[Verdict, ...]]:
    """Verdicts with the outcome that a function gives for each pair."""
    return verdicts


@pytest.fixture(scope="session")
def faults() -> Any:
    """Return the module with random fabrics and faults; test folders are no packages."""
    place = Path(__file__).parents[2] / "fakes" / "faults.py"
    spec = importlib.util.spec_from_file_location("fakes_faults", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fakes_faults"] = module
    spec.loader.exec_module(module)
    return module
