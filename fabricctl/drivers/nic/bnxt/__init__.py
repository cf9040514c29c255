"""Broadcom NICs (bnxt_en, bnxt_re): classes through ``dcb`` or ``niccli``, congestion control in configfs."""

from __future__ import annotations

from fabricctl.drivers.nic.bnxt import parse, steps
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="bnxt",
    role=Role.NODE,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
    parameters=steps.PARAMETERS,
)
