"""Soft-RoCE (rdma_rxe) on any netdev: DCB through ``dcb``, where the netdev has it."""

from __future__ import annotations

from fabricctl.drivers.nic.rxe import parse, steps
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="rxe",
    role=Role.NODE,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
)
