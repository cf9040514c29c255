"""Dell Enterprise SONiC: lines at ``sonic-cli``, through Dell's Ansible collection."""

from __future__ import annotations

from fabricctl.drivers.switch.dell_sonic import parse, steps
from fabricctl.drivers.switch.dell_sonic.method import DellSonicMethod
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="dell_sonic",
    role=Role.SWITCH,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
    method=DellSonicMethod(),
)
