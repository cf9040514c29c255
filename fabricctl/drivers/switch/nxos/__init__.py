"""Cisco NX-OS on Nexus 9000: lines at its command line, undone by checkpoint."""

from __future__ import annotations

from fabricctl.drivers.switch.nxos import parse, steps
from fabricctl.drivers.switch.nxos.method import NxosMethod
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="nxos",
    role=Role.SWITCH,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
    method=NxosMethod(),
)
