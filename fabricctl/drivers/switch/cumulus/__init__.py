"""NVIDIA Cumulus Linux through NVUE: ``nv`` over SSH, or REST (``ansible_connection: httpapi``)."""

from __future__ import annotations

from fabricctl.drivers.switch.cumulus import parse, steps
from fabricctl.drivers.switch.cumulus.method import NvueMethod
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="cumulus",
    role=Role.SWITCH,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
    method=NvueMethod(),
)
