"""A Linux bridge as a switch: DCB through ``dcb``, ECN marking through ``tc ... red``."""

from __future__ import annotations

from fabricctl.drivers.switch.linux import parse, steps
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="linux",
    role=Role.SWITCH,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
)
