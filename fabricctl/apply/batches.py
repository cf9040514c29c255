"""Cut a plan into batches of nodes, and a batch into waves that are safe in their order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from fabricctl.model import settings
from fabricctl.model.fabric import Fabric, Role
from fabricctl.model.names import PortId
from fabricctl.model.plan import DevicePlan, Step
from fabricctl.model.reading import Known

Batch = tuple[DevicePlan, ...]


def batches(
    plans: Sequence[DevicePlan], fabric: Fabric, size: int, at_once: Collection[str] = ()
) -> tuple[Batch, ...]:
    """Return the plan in batches of `size` nodes with the switch ports that face them.

    When there are more nodes than one batch holds, the first batch is a single node, the canary.
    Switch ports that face no node (uplinks) go with the first batch: nodes depend on them.

    Parameters
    ----------
    at_once
        Devices whose ports all go with the first batch.
    """
    nodes = _nodes(plans, fabric)
    starts = [0, *range(1, len(nodes), size)] if len(nodes) > size else [0]
    ends = [*starts[1:], len(nodes)]
    number_of = {
        node: number
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        for node in nodes[start:end]
    }
    found: list[list[DevicePlan]] = [[] for _ in starts]
    for plan in plans:
        parts: dict[int, list[Step]] = {}
        for step in plan.steps:
            facing = None if plan.device in at_once else _node_of(step.port, fabric)
            parts.setdefault(0 if facing is None else number_of[facing], []).append(step)
        for number, steps in parts.items():
            found[number].append(_with_steps(plan, steps))
    return tuple(tuple(batch) for batch in found if batch)


def waves(batch: Batch, fabric: Fabric, whole: Collection[str] = ()) -> tuple[Batch, ...]:
    """Return a batch as waves: switches, then nodes, then the switches' MTUs that shrink.

    So a switch port never has a smaller MTU than the NIC behind it, whichever way the MTU changes.
    What is only kept for the next boot is no part of a wave.

    Parameters
    ----------
    whole
        Devices that are set in one push: after the nodes if an MTU shrinks there, else before them.
    """
    now = [_with_steps(p, [s for s in p.steps if _now(s)]) for p in batch]
    switches = [p for p in now if fabric.device(p.device).role is Role.SWITCH]
    nodes = tuple(p for p in now if fabric.device(p.device).role is Role.NODE and p.steps)
    first, last = [], []
    for plan in switches:
        shrinking = [s for s in plan.steps if _shrinks(s)]
        if plan.device in whole:
            shrinking = list(plan.steps) if shrinking else []
        first.append(_with_steps(plan, [s for s in plan.steps if s not in shrinking]))
        last.append(_with_steps(plan, shrinking))
    found = (tuple(p for p in first if p.steps), nodes, tuple(p for p in last if p.steps))
    return tuple(wave for wave in found if wave)


def restrict(plans: Iterable[DevicePlan], ports: Iterable[PortId]) -> Batch:
    """Return only the steps on `ports`; devices without one are left out."""
    chosen = frozenset(ports)
    cut = (_with_steps(plan, [s for s in plan.steps if s.port in chosen]) for plan in plans)
    return tuple(plan for plan in cut if plan.steps)


def ports_of(plans: Iterable[DevicePlan]) -> tuple[PortId, ...]:
    """Return the ports with a step, each once, in the plan's order."""
    return tuple(dict.fromkeys(step.port for plan in plans for step in plan.steps))


def _nodes(plans: Sequence[DevicePlan], fabric: Fabric) -> list[str]:
    touched = {_node_of(step.port, fabric) for plan in plans for step in plan.steps}
    return [node.name for node in fabric.nodes() if node.name in touched]


def _node_of(port: PortId, fabric: Fabric) -> str | None:
    if fabric.device(port.device).role is Role.NODE:
        return port.device
    peer = fabric.peer(port)
    return peer.device if peer and fabric.device(peer.device).role is Role.NODE else None


def _with_steps(plan: DevicePlan, steps: Sequence[Step]) -> DevicePlan:
    return replace(plan, steps=tuple(steps))


def _now(step: Step) -> bool:
    return step.setting not in settings.KEPT


def _shrinks(step: Step) -> bool:
    match step.old, step.new:
        case Known(int() as old), int() as new:
            return step.setting == settings.MTU and new < old
        case _:
            return False
