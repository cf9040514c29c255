from __future__ import annotations

import pytest

from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId


@pytest.mark.parametrize(
    ("rdma", "device", "number"),
    [
        ("", "", 1),
        ("mlx5_0", "mlx5_0", 1),
        ("mlx5_0/1", "mlx5_0", 1),
        ("mlx5_0/2", "mlx5_0", 2),
        ("mlx5_0/", "mlx5_0", 1),
        ("mlx5_0/0", "mlx5_0", 1),
        ("mlx5_0/x", "mlx5_0", 1),
    ],
)
def test_a_verbs_device_and_which_of_its_ports(rdma: str, device: str, number: int) -> None:
    port = Port(PortId("node1", "eth1"), rdma=rdma)
    assert (port.verbs_device, port.verbs_port) == (device, number)
