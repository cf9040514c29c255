"""Firmware and drivers of one model, kernels of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fabricctl.model.fabric import LinkLayer, Port
from fabricctl.model.names import PortId
from fabricctl.model.verdict import Outcome

FIRMWARE = "/sys/class/infiniband/mlx5_0/fw_ver"
DRIVER = "/sys/devices/pci0000:00/0000:00:01.0/0000:40:00.0/driver/module/version"
MODEL = "15b3:1021 MT_0000000838"


def four(hosts: Any) -> list[Any]:
    return [hosts.server(f"node{number + 1}") for number in range(4)]


def test_all_alike(hosts: Any) -> None:
    four(hosts)
    assert set(hosts.told("uniform")) == {
        f"firmware 28.39.1002, as 4 of 4 NICs {MODEL}",
        f"driver mlx5_core, as 4 of 4 NICs {MODEL}",
        "kernel 6.8.0-45-generic, as 4 of 4 nodes",
    }


def test_the_odd_firmware_is_named(hosts: Any) -> None:
    four(hosts)[2].write(FIRMWARE, "28.36.1700")
    found = [f for f in hosts.judge("uniform") if f.outcome is not Outcome.PASS]
    assert [(f.outcome, f.subject, f.culprit) for f in found] == [
        (Outcome.FAIL, "node3/eth1 - leaf1/Ethernet2", "node3/eth1")
    ]
    assert found[0].what == f"firmware 28.36.1700; 3 of 4 NICs {MODEL} have 28.39.1002"
    assert (found[0].measured, found[0].limit) == ("28.36.1700", "28.39.1002")


def test_half_and_half_names_both(hosts: Any) -> None:
    for node in four(hosts)[2:]:
        node.write(FIRMWARE, "28.36.1700")
    assert hosts.bad("uniform") == [
        (
            Outcome.FAIL,
            "fabric",
            (
                f"NICs {MODEL} have not the same firmware: 28.39.1002 on node1/eth1, node2/eth1; "
                "28.36.1700 on node3/eth1, node4/eth1"
            ),
        )
    ]


def test_another_board_with_the_same_chip_is_another_model(hosts: Any) -> None:
    node = four(hosts)[2]
    node.write(FIRMWARE, "28.36.1700")
    node.write("/sys/class/infiniband/mlx5_0/board_id", "DEL0000000036")
    assert hosts.bad("uniform") == []


def test_another_driver(hosts: Any) -> None:
    for node in four(hosts)[:3]:
        node.write(DRIVER, "24.10-1.1.4")
    assert [(o, w) for o, _, w in hosts.bad("uniform")] == [
        (Outcome.FAIL, f"driver mlx5_core; 3 of 4 NICs {MODEL} have mlx5_core 24.10-1.1.4")
    ]


def test_another_kernel_is_told(hosts: Any) -> None:
    four(hosts)[1].write("/proc/sys/kernel/osrelease", "6.5.0-15-generic")
    noted = [f for f in hosts.judge("uniform") if f.next_step]
    assert [(f.outcome, f.subject, f.what) for f in noted] == [
        (Outcome.PASS, "node2", "kernel 6.5.0-15-generic; most others have 6.8.0-45-generic")
    ]


def test_firmware_that_is_not_said_is_unknown_and_voids_nothing(hosts: Any) -> None:
    four(hosts)[0].remove(FIRMWARE)
    assert [(o, s) for o, s, _ in hosts.bad("uniform")] == [(Outcome.UNKNOWN, "node1/eth1 - leaf1/Ethernet0")]
    assert f"firmware 28.39.1002, as 3 of 3 NICs {MODEL}" in [f.what for f in hosts.judge("uniform")]


def test_a_nic_that_is_not_there_is_unknown(hosts: Any) -> None:
    four(hosts)[0].port("eth9", "mlx5_9")
    assert [(o, w) for o, _, w in hosts.bad("uniform")] == [
        (Outcome.UNKNOWN, "there is no network interface or verbs device eth9")
    ]


def test_a_port_whose_verbs_device_the_inventory_does_not_name(hosts: Any) -> None:
    node = four(hosts)[0]
    node.ports[0] = replace(node.ports[0], rdma="")
    assert hosts.bad("uniform") == []


def test_infiniband_ports_are_called_by_their_verbs_device(hosts: Any) -> None:
    for node in four(hosts):
        node.ports[0] = Port(PortId(node.name, "mlx5_0"), rail=0, link_layer=LinkLayer.INFINIBAND)
    assert f"firmware 28.39.1002, as 4 of 4 NICs {MODEL}" in hosts.told("uniform")
    for check in ("pcie", "rails", "device_nodes", "numa"):
        assert hosts.told(check)


def test_what_firmware_says_moves_no_cursor(hosts: Any) -> None:
    four(hosts)[0].write(FIRMWARE, "28.39.1002\x1b[2J")
    assert all(f.what.isprintable() for f in hosts.judge("uniform"))
