"""Arista EOS: a configuration session with a commit timer, over its command line."""

from __future__ import annotations

from fabricctl.drivers.switch.eos import parse, steps
from fabricctl.drivers.switch.eos.method import EosMethod
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="eos",
    role=Role.SWITCH,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
    method=EosMethod(),
)
