from __future__ import annotations

from typing import Any

import pytest

from fabricctl.apply.batches import batches, ports_of, waves
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.plan import DevicePlan, Step
from fabricctl.model.reading import Entry, Known, Missing


def plan(device: str, *steps: tuple[str, str, Entry, Any]) -> DevicePlan:
    made = tuple(Step(PortId(device, port), setting, old, new) for port, setting, old, new in steps)
    return DevicePlan(device, "fake", made, {})


def names(batch: tuple[DevicePlan, ...]) -> list[str]:
    return [str(port) for port in ports_of(batch)]


@pytest.mark.parametrize(
    ("nodes", "size", "expected"),
    [
        (1, 1, [1]),
        (3, 3, [3]),
        (3, 32, [3]),
        (4, 3, [1, 3]),
        (5, 2, [1, 2, 2]),
        (6, 2, [1, 2, 2, 1]),
    ],
)
def test_canary_then_batches(fakes: Any, nodes: int, size: int, expected: list[int]) -> None:
    fabric = fakes.fabric(nodes)
    plans = [
        plan(d.name, *((p.id.port, "ecn", Known(value=False), True) for p in d.ports)) for d in fabric.devices
    ]
    found = batches(plans, fabric, size)
    assert [sum(name.startswith("node") for name in names(batch)) for batch in found] == expected
    # Each node's switch port is in its batch, and each port in one batch only.
    assert [sum(name.startswith("leaf") for name in names(batch)) for batch in found] == expected
    everything = [name for batch in found for name in names(batch)]
    assert len(everything) == len(set(everything)) == 2 * nodes


def test_uplinks_go_with_the_first_batch(fakes: Any) -> None:
    base = fakes.fabric(3)
    end = Endpoint("127.0.0.1")
    spine = Device("spine1", Role.SWITCH, "fake", end, (Port(PortId("spine1", "eth1")),))
    leaf = Device(
        "leaf1", Role.SWITCH, "fake", end, (*base.device("leaf1").ports, Port(PortId("leaf1", "eth9")))
    )
    uplink = Link(PortId("leaf1", "eth9"), PortId("spine1", "eth1"))
    fabric = Fabric((*base.nodes(), leaf, spine), (*base.links, uplink))
    plans = [
        plan(d.name, *((p.id.port, "mtu_bytes", Known(1500), 9000) for p in d.ports)) for d in fabric.devices
    ]
    first, second = batches(plans, fabric, 2)
    assert names(first) == ["node1/eth1", "leaf1/eth1", "leaf1/eth9", "spine1/eth1"]
    assert names(second) == ["node2/eth1", "node3/eth1", "leaf1/eth2", "leaf1/eth3"]


def test_a_switch_alone_is_cut_by_the_nodes_it_faces(fakes: Any) -> None:
    fabric = fakes.fabric(3)
    switch = plan("leaf1", *((f"eth{n}", "ecn", Known(value=False), True) for n in (1, 2, 3)))
    assert [names(batch) for batch in batches([switch], fabric, 1)] == [
        ["leaf1/eth1"],
        ["leaf1/eth2"],
        ["leaf1/eth3"],
    ]


def test_waves_keep_the_switch_mtu_at_least_the_nodes(fakes: Any) -> None:
    fabric = fakes.fabric(1)
    grow = ("eth1", "mtu_bytes", Known(1500), 9000)
    shrink = ("eth1", "mtu_bytes", Known(9000), 1500)
    pfc = ("eth1", "pfc_priorities", Known(()), (3,))
    growing = waves((plan("node1", grow), plan("leaf1", grow)), fabric)
    assert [[p.device for p in wave] for wave in growing] == [["leaf1"], ["node1"]]
    shrinking = waves((plan("node1", shrink), plan("leaf1", shrink, pfc)), fabric)
    assert [[(p.device, s.setting) for p in wave for s in p.steps] for wave in shrinking] == [
        [("leaf1", "pfc_priorities")],
        [("node1", "mtu_bytes")],
        [("leaf1", "mtu_bytes")],
    ]


def test_unknown_old_mtu_goes_first_and_boot_is_no_wave(fakes: Any) -> None:
    fabric = fakes.fabric(1)
    unknown = plan("leaf1", ("eth1", "mtu_bytes", Missing("unparsable"), 1500))
    boot = plan("node1", ("eth1", "boot", Known("none"), "0" * 64))
    assert [[p.device for p in wave] for wave in waves((boot, unknown), fabric)] == [["leaf1"]]
