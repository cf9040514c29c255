"""Rails against devices, within a node and among nodes of one kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fabricctl.model.verdict import Outcome


def fleet(hosts: Any, count: int = 4, rails: int = 4) -> list[Any]:
    return [hosts.server(f"node{number + 1}", rails) for number in range(count)]


def swap(node: Any, one: int, other: int) -> None:
    """Let the inventory have two of a node's ports on each other's rails."""
    a, b = node.ports[one], node.ports[other]
    node.ports[one], node.ports[other] = replace(a, rail=b.rail), replace(b, rail=a.rail)


def test_in_order(hosts: Any) -> None:
    fleet(hosts)
    hosts.policy(rails_in_order=True)
    assert hosts.told("rails")[-1] == (
        "rails in order: 0 mlx5_0 0000:40:00.0, 1 mlx5_1 0000:41:00.0, 2 mlx5_2 0000:42:00.0, "
        "3 mlx5_3 0000:43:00.0; as 4 nodes of its kind"
    )


def test_s37_rails_of_one_node_swapped(hosts: Any) -> None:
    swap(fleet(hosts)[2], 1, 3)
    assert hosts.bad("rails") == [
        (Outcome.FAIL, "node3", "rail 1 is mlx5_3, on 3 others of its kind it is mlx5_1"),
        (Outcome.FAIL, "node3", "rail 3 is mlx5_1, on 3 others of its kind it is mlx5_3"),
        (
            Outcome.FAIL,
            "node3",
            "in order of PCI addresses its rails are 0, 3, 2, 1, on 3 others of its kind 0, 1, 2, 3",
        ),
    ]


def test_s39_the_netdev_carries_another_verbs_device_than_the_inventory_says(hosts: Any) -> None:
    node = hosts.server()
    node.ports[0] = replace(node.ports[0], rdma="mlx5_5")
    (found,) = [f for f in hosts.judge("rails") if f.outcome is not Outcome.PASS]
    assert found.what == "rail 0: eth1 carries mlx5_0, the inventory says mlx5_5"
    assert (found.subject, found.measured, found.limit) == (
        "node1/eth1 - leaf1/Ethernet0",
        "mlx5_0",
        "mlx5_5",
    )
    assert found.next_step.startswith("correct rdma: of the port in the inventory")


def test_s39_one_node_s_devices_have_other_names(hosts: Any) -> None:
    """All as its inventory says, but NCCL_IB_HCA names the same on every node."""
    node = fleet(hosts)[1]
    node.ports[3] = replace(node.ports[3], rdma="mlx5_7")
    node.link("/sys/class/infiniband/mlx5_7/device", "/sys/devices/pci0000:03/0000:03:01.0/0000:43:00.0")
    (node.root / "sys/devices/pci0000:03/0000:03:01.0/0000:43:00.0/infiniband/mlx5_3").rename(
        node.root / "sys/devices/pci0000:03/0000:03:01.0/0000:43:00.0/infiniband/mlx5_7"
    )
    assert hosts.bad("rails") == [
        (Outcome.FAIL, "node2", "rail 3 is mlx5_7, on 3 others of its kind it is mlx5_3")
    ]


def test_rails_that_do_not_ascend_fail_only_if_the_policy_says_so(hosts: Any) -> None:
    for node in fleet(hosts):
        swap(node, 0, 1)
    assert hosts.bad("rails") == []
    hosts.policy(rails_in_order=True)
    assert [(o, w) for o, _, w in hosts.bad("rails")] == [
        (Outcome.FAIL, "in order of PCI addresses its rails are 1, 0, 2, 3: they do not ascend")
    ] * 4


def test_of_two_nodes_nobody_can_say_which_is_odd(hosts: Any) -> None:
    swap(fleet(hosts, count=2)[0], 0, 1)
    assert hosts.bad("rails") == []


def test_nodes_of_another_kind_are_not_compared(hosts: Any) -> None:
    node = fleet(hosts)[0]
    swap(node, 0, 1)
    node.write("/sys/class/dmi/id/product_name", "Server 2")
    assert hosts.bad("rails") == []
    assert hosts.told("rails")[-4].endswith("; the only node of its kind")


def test_another_address_is_no_other_order(hosts: Any) -> None:
    """One more card shifts addresses and no rail."""
    node = fleet(hosts)[0]
    old = node.root / "sys/devices/pci0000:00/0000:00:01.0/0000:40:00.0"
    old.rename(old.with_name("0000:3f:00.0"))
    path = "/sys/devices/pci0000:00/0000:00:01.0/0000:3f:00.0"
    node.link("/sys/class/net/eth1/device", path)
    node.link("/sys/class/infiniband/mlx5_0/device", path)
    assert hosts.bad("rails") == []


def test_a_fabric_without_rails_has_nothing_to_say(hosts: Any) -> None:
    node = hosts.server()
    node.ports[0] = replace(node.ports[0], rail=None)
    assert hosts.judge("rails") == ()


def test_a_port_that_is_not_there_is_unknown(hosts: Any) -> None:
    hosts.server().port("eth9", "mlx5_9", rail=9)
    assert [(o, w) for o, _, w in hosts.bad("rails")] == [
        (Outcome.UNKNOWN, "there is no network interface or verbs device eth9")
    ]


def test_a_port_that_is_not_there_hides_no_other_port_of_its_node(hosts: Any) -> None:
    node = hosts.server()
    node.port("eth9", "mlx5_9", rail=9)
    node.ports[0] = replace(node.ports[0], rdma="mlx5_5")
    assert [(o, w) for o, _, w in hosts.bad("rails")] == [
        (Outcome.FAIL, "rail 0: eth1 carries mlx5_0, the inventory says mlx5_5"),
        (Outcome.UNKNOWN, "there is no network interface or verbs device eth9"),
    ]


def test_what_is_no_pci_address_is_unknown(hosts: Any) -> None:
    hosts.server().says("pci", "port eth1 nonsense\ndone\n")
    assert [o for o, _, _ in hosts.bad("rails")] == [Outcome.UNKNOWN]


def test_two_ports_of_one_device_are_two_rails(hosts: Any) -> None:
    nodes = fleet(hosts, rails=1)
    for node in nodes:
        node.port("eth2", "mlx5_0/2", rail=1)
        node.link("/sys/class/net/eth2/device", "/sys/devices/pci0000:00/0000:00:01.0/0000:40:00.0")
    nodes[1].ports[0] = replace(nodes[1].ports[0], rdma="mlx5_0/1")
    hosts.policy(rails_in_order=True)
    assert "rail 1: eth2 carries mlx5_0, as in the inventory" in hosts.told("rails")
    nodes[3].ports[1] = replace(nodes[3].ports[1], rdma="mlx5_0")
    assert [what for _, _, what in hosts.bad("rails")] == [
        "rail 1 is mlx5_0, on 3 others of its kind it is mlx5_0/2"
    ]
