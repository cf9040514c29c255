"""NVIDIA/Mellanox ConnectX and BlueField ports (mlx5), with MLNX_OFED or the kernel's own driver."""

from __future__ import annotations

from fabricctl.drivers.nic.mlx5.congestion import PARAMETERS
from fabricctl.drivers.nic.mlx5.parse import parse, queries
from fabricctl.drivers.nic.mlx5.steps import UNSUPPORTED, disruption, wanted
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="mlx5",
    role=Role.NODE,
    queries=queries,
    parse=parse,
    wanted=wanted,
    disruption=disruption,
    unsupported=UNSUPPORTED,
    parameters=PARAMETERS,
)
