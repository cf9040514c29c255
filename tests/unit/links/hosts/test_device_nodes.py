"""Device nodes of verbs, their permissions, and whether the library sees the device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabricctl.model.verdict import Outcome

NODE = "node /dev/infiniband/{} {} root {} character special file"
CM = NODE.format("rdma_cm", "666", "root")
SAID = "device mlx5_0\nuverbs mlx5_0 uverbs0\nmodule ib_uverbs\nmodule rdma_ucm\n{}\n" + CM + "\ndone\n"


def says(hosts: Any, uverbs: str) -> Any:
    node = hosts.server()
    node.says("uverbs", SAID.format(uverbs))
    return node


def test_all_may_open_and_the_library_sees_it(hosts: Any) -> None:
    """The real script, on what the kernel's files and links look like."""
    hosts.server()
    assert hosts.told("device_nodes") == [
        "mlx5_0: all may open /dev/infiniband/uverbs0; libibverbs sees it",
        "all may open /dev/infiniband/rdma_cm",
    ]


def test_s56_only_root_may_open_it(hosts: Any) -> None:
    says(hosts, NODE.format("uverbs0", "600", "root"))
    (found,) = [f for f in hosts.judge("device_nodes") if f.outcome is not Outcome.PASS]
    assert found.outcome is Outcome.FAIL
    assert found.what == (
        "only root may open /dev/infiniband/uverbs0 (mode 0600): RDMA works for privileged programs alone"
    )
    assert found.next_step.startswith("chmod 0666 /dev/infiniband/uverbs0")
    assert found.culprit == "node1/eth1"


def test_a_group_may_open_it(hosts: Any) -> None:
    says(hosts, NODE.format("uverbs0", "660", "rdma"))
    assert hosts.told("device_nodes")[0] == (
        "mlx5_0: root and the group rdma may open /dev/infiniband/uverbs0 (mode 0660), others may not; "
        "libibverbs sees it"
    )


def test_a_file_where_a_device_should_be(hosts: Any) -> None:
    says(hosts, "node /dev/infiniband/uverbs0 666 root root regular empty file")
    assert [what for _, _, what in hosts.bad("device_nodes")] == [
        "/dev/infiniband/uverbs0 is no device but a regular empty file"
    ]


def test_no_node(hosts: Any) -> None:
    hosts.server().remove("/dev/infiniband/uverbs0")
    assert [(o, w) for o, _, w in hosts.bad("device_nodes")] == [
        (Outcome.FAIL, "there is no /dev/infiniband/uverbs0")
    ]


def test_ib_uverbs_is_not_loaded(hosts: Any) -> None:
    node = hosts.server()
    node.remove("/sys/class/infiniband_verbs/uverbs0/ibdev")
    node.remove("/sys/module/ib_uverbs/refcnt")
    (node.root / "sys/module/ib_uverbs").rmdir()
    (found,) = [f for f in hosts.judge("device_nodes") if f.outcome is not Outcome.PASS]
    assert found.what == "mlx5_0 has no uverbs device, the module ib_uverbs is not loaded"
    assert found.next_step.startswith("modprobe ib_uverbs")


def test_rdma_ucm_is_not_loaded(hosts: Any) -> None:
    node = hosts.server()
    node.remove("/dev/infiniband/rdma_cm")
    node.remove("/sys/module/rdma_ucm/refcnt")
    (node.root / "sys/module/rdma_ucm").rmdir()
    assert hosts.bad("device_nodes") == [
        (Outcome.FAIL, "node1", "there is no /dev/infiniband/rdma_cm: the module rdma_ucm is not loaded")
    ]


@pytest.mark.parametrize(
    ("stdout", "stderr", "rc", "sees"),
    [
        ("0 HCAs found:\n\n", "", 0, "no device"),
        ("", "No IB devices found\n", 255, "no device"),
        ("1 HCA found:\n\tmlx5_1\n\n", "", 0, "only mlx5_1"),
    ],
)
def test_s55_the_library_does_not_find_what_the_kernel_has(
    hosts: Any, stdout: str, stderr: str, rc: int, sees: str
) -> None:
    hosts.server().says("ibv_devinfo -l", stdout, stderr, rc)
    (found,) = [f for f in hosts.judge("device_nodes") if f.outcome is not Outcome.PASS]
    assert found.outcome is Outcome.FAIL
    assert found.what == (
        f"the kernel has mlx5_0, but libibverbs finds {sees}: the library does not fit the driver"
    )
    assert found.next_step.startswith("IBV_SHOW_WARNINGS=1 ibv_devinfo -l says why")


def test_without_ibv_devinfo_the_library_was_not_asked(hosts: Any) -> None:
    hosts.server().says("ibv_devinfo -l", "", "timeout: failed to run command 'ibv_devinfo'", 127)
    assert (
        "libibverbs was not asked (ibv_devinfo: the program is not installed" in hosts.told("device_nodes")[0]
    )


def test_no_such_verbs_device(hosts: Any) -> None:
    hosts.node().port("eth1", "mlx5_9")
    assert [(o, w) for o, _, w in hosts.bad("device_nodes")] == [
        (Outcome.FAIL, "there is no verbs device mlx5_9")
    ]


def test_an_inventory_without_verbs_devices_has_nothing_to_say(hosts: Any) -> None:
    hosts.node().port("eth1")
    assert hosts.judge("device_nodes") == ()


def test_the_number_of_a_port_is_no_part_of_its_device_s_name(hosts: Any) -> None:
    node = hosts.server()
    node.ports[0] = replace(node.ports[0], rdma="mlx5_0/1")
    node.port("eth2", "mlx5_0/2", rail=1)
    node.link("/sys/class/net/eth2/device", "/sys/devices/pci0000:00/0000:00:01.0/0000:40:00.0")
    opened = "mlx5_0: all may open /dev/infiniband/uverbs0; libibverbs sees it"
    assert hosts.told("device_nodes")[:2] == [opened, opened]
