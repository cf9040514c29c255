from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabricctl.infiniband.asking import Hca, look_key
from fabricctl.infiniband.discovery import Discovery, Node
from fabricctl.infiniband.naming import aggregation, identify, number_of
from fabricctl.links import planes
from fabricctl.model.fabric import Device, Endpoint, Fabric, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.plugin.protocols import Answer

AT = Endpoint("192.0.2.1")
IB = LinkLayer.INFINIBAND
HCA = Hca("mlx5_0")


def fabric(*hcas: str, switch_ports: tuple[str, ...] = ("7",), host: str = "node1") -> Fabric:
    ports = tuple(Port(PortId(host, f"ib{n}"), hca, n, link_layer=IB) for n, hca in enumerate(hcas))
    switch = tuple(Port(PortId("leaf1", name), link_layer=IB) for name in switch_ports)
    return Fabric((Device(host, Role.NODE, "", AT, ports), Device("leaf1", Role.SWITCH, "", AT, switch)), ())


def named(known: Fabric, kind: str, *descriptions: str, number: int = 1, vantage: Any = None) -> list[str]:
    nodes = {f"0x{n:016x}": Node(f"0x{n:016x}", kind, one) for n, one in enumerate(descriptions, 1)}
    for guid, node in nodes.items():
        node.guids[number] = guid + "p"
    found = Discovery(nodes, start="0x0000000000000001p")
    keys = [(guid, number) for guid in nodes]
    said = identify(known, found, keys, vantage)
    return [f"{said[key][0]}:{said[key][1] or ''}" if key in said else "" for key in keys]


@pytest.mark.parametrize(
    ("rdma", "expected"),
    [
        ("mlx5_0", Hca("mlx5_0", 1)),
        ("mlx5_0/2", Hca("mlx5_0", 2)),
        ("", Hca("", 1)),
        ("mlx5_0/x", Hca("mlx5_0")),
    ],
)
def test_a_verbs_device_with_its_port(rdma: str, expected: Hca) -> None:
    assert Hca.parse(rdma) == expected


def test_host_and_hca() -> None:
    known = fabric("mlx5_0", "mlx5_1")
    said = named(known, "CA", "node1 mlx5_1", "node1 mlx5_0", "node1 mlx5_9", "node2 mlx5_0")
    assert said == ["node1:node1/ib1", "node1:node1/ib0", "node1:", ""]


def test_the_second_port_of_an_hca() -> None:
    assert named(fabric("mlx5_0/1", "mlx5_0/2"), "CA", "node1 mlx5_0", number=2) == ["node1:node1/ib1"]


def test_an_hca_of_another_name_is_not_taken_for_the_only_port() -> None:
    # Its own cable may be out, and the other be storage's.
    assert named(fabric("mlx5_0"), "CA", "node1 mlx5_4") == ["node1:"]


@pytest.mark.parametrize("description", ["node1", "node1 HCA-1", "NODE1.example.net HCA-1"])
def test_a_description_without_a_name_of_the_hca_is_the_only_port(description: str) -> None:
    assert named(fabric("mlx5_0"), "CA", description) == ["node1:node1/ib0"]
    assert named(fabric("mlx5_0", "mlx5_1"), "CA", description) == ["node1:"]


def test_a_port_without_rdma_in_the_inventory() -> None:
    assert named(fabric(""), "CA", "node1 mlx5_0") == ["node1:node1/ib0"]
    assert named(fabric(""), "CA", "node1 mlx5_0", "node1 mlx5_1") == ["node1:", "node1:"]


def test_the_host_that_was_asked_need_not_say_its_name() -> None:
    vantage = PortId("node1", "ib0")
    assert named(fabric("mlx5_0"), "CA", "MT4123 ConnectX6", vantage=vantage) == ["node1:node1/ib0"]
    assert named(fabric("mlx5_0"), "CA", "MT4123 ConnectX6") == [""]


def test_short_and_long_host_names() -> None:
    known = fabric("mlx5_0", host="node1.example.net")
    assert named(known, "CA", "node1 mlx5_0") == ["node1.example.net:node1.example.net/ib0"]


@pytest.mark.parametrize("description", ["MF0;leaf1:MQM9700/U1", "leaf1", "LEAF1", "MF0;leaf1"])
def test_switches(description: str) -> None:
    assert named(fabric("mlx5_0"), "SW", description, number=7) == ["leaf1:leaf1/7"]
    assert named(fabric("mlx5_0"), "SW", description, number=8) == ["leaf1:"]


def test_a_switch_is_no_node_of_the_same_name() -> None:
    assert named(fabric("mlx5_0"), "SW", "node1") == [""]
    assert named(fabric("mlx5_0"), "SW", "Quantum Mellanox Technologies") == [""]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("7", 7),
        ("1/7", 7),
        ("Eth7", 7),
        ("IB1/7", 7),
        ("IB1/7/1", 13),
        ("IB1/7/2", 14),
        ("x", None),
        ("0", None),
    ],
)
def test_numbers_of_switch_ports(name: str, number: int | None) -> None:
    assert number_of(name) == number


def test_two_names_of_one_number_name_no_port() -> None:
    assert named(fabric("mlx5_0", switch_ports=("1/7", "2/7")), "SW", "leaf1", number=7) == ["leaf1:"]


def test_what_a_switch_reduces_with_is_in_no_list(pod: Any) -> None:
    answers, later = pod.answers("stranger")
    text = next(iter(later.values())).stdout
    text = text.replace("Quantum Mellanox Technologies", "Mellanox Technologies Aggregation Node")
    observed = pod.observed("stranger")
    observed = replace(observed, answers={**answers, look_key(HCA): Answer(0, text, "")}, later={})
    (view,) = planes.views(pod.fabric, pod.fabric.devices, "")
    (subnet,) = planes.subnets(pod.fabric, (view,), {"node1": observed})
    assert not [port for port in subnet.ports.values() if "Aggregation" in port.node]
    assert not pod.port(subnet, "leaf2/8").silent


def test_what_a_switch_reduces_with_is_no_hca() -> None:
    node = Node("0x1", "CA", "Mellanox Technologies Aggregation Node")
    assert aggregation(node)
    assert not aggregation(replace(node, description="node1 mlx5_0"))
