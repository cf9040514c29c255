"""Intel E800 NICs (ice, irdma): classes through ``dcb``, the protocol through ``devlink``."""

from __future__ import annotations

from fabricctl.drivers.nic.irdma import parse, rdma, steps
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="irdma",
    role=Role.NODE,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
    parameters=rdma.PARAMETERS,
)
