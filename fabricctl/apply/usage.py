"""Ask the scheduler who uses the nodes that a plan would disturb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabricctl.apply.disruption import disturbed, in_use, nodes_of
from fabricctl.apply.rollout import Tools
from fabricctl.errors import UsageError
from fabricctl.model.fabric import Fabric
from fabricctl.model.plan import Plan
from fabricctl.model.usage import NodeUse
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Scheduler

ASK_S = 30.0
"""Longest time for the scheduler's answer; a controller that is down takes some ten seconds to say so."""

_NONE = "none"


def scheduler_of(fabric: Fabric) -> Scheduler | None:
    """Return whom the inventory names, else the scheduler whose commands are on this machine, or None.

    Raises
    ------
    UsageError
        The inventory names none and there are several.
    """
    if fabric.scheduler:
        return None if fabric.scheduler == _NONE else finder.scheduler(fabric.scheduler)
    here = [found for name in finder.names("scheduler") if (found := finder.scheduler(name)).present()]
    if len(here) > 1:
        names = ", ".join(found.name for found in here)
        raise UsageError(f"{names} are all on this machine", next_step="name one in fabric_scheduler")
    return here[0] if here else None


def ask(fabric: Fabric, nodes: Sequence[str], scheduler: Scheduler) -> dict[str, NodeUse]:
    """Return the use of nodes by their names in the inventory."""
    called = {name: fabric.device(name).scheduler_node or name for name in nodes}
    said = scheduler.busy(tuple(called.values()), ASK_S)
    return {name: said[theirs] for name, theirs in called.items()}


def with_use(plan: Plan, fabric: Fabric, tools: Tools) -> Plan:
    """Return the plan with the scheduler that was asked, and what it says of the nodes in the way.

    Without a disruptive step nobody is asked.
    """
    found = disturbed(plan, fabric)
    scheduler = tools.scheduler() if found else None
    if scheduler is None:
        return replace(plan, scheduler="", in_use={})
    uses = ask(fabric, nodes_of(found), scheduler)
    return replace(plan, scheduler=scheduler.name, in_use=in_use(found, uses))
