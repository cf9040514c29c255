"""Dell Enterprise SONiC: lines at ``sonic-cli``, through Dell's Ansible collection."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.drivers.switch.dell_sonic import parse, push, steps
from fabricctl.drivers.switch.dell_sonic.method import DellSonicMethod
from fabricctl.model.fabric import Role
from fabricctl.model.intent import PortIntent
from fabricctl.plugin.driving import MadeDriver


class DellSonicDriver(MadeDriver):
    """A driver that can say offline what its switches refuse."""

    __slots__ = ()

    def refused(self, intent: PortIntent) -> Mapping[str, str]:
        """Return by setting why a push of this intent would fail: out of range, or more than there is."""
        return push.refused(intent)


PLUGIN = DellSonicDriver(
    name="dell_sonic",
    role=Role.SWITCH,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
    method=DellSonicMethod(),
)
