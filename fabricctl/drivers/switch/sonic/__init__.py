"""SONiC, the community's: CONFIG_DB read in one piece, and changed by its own updater."""

from __future__ import annotations

from fabricctl.drivers.switch.sonic import method, parse, steps
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="sonic",
    role=Role.SWITCH,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
    method=method.METHOD,
)
