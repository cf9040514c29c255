"""Whom a plan would disturb: the nodes behind its disruptive steps, and what is held while they are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from fabricctl.model.fabric import Fabric, Role
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption, Plan
from fabricctl.model.usage import NodeUse, Use

Uses = Mapping[str, NodeUse]
"""By node, as the inventory calls it."""

_SHOWN = 2

DRAIN_FIRST = "drain it first (--drain), or --disrupt"
STILL_SO = "that was still so when --drain-wait was over"


def disturbed(plan: Plan, fabric: Fabric) -> dict[PortId, tuple[str, ...]]:
    """Return by port with a disruptive step the nodes whose traffic it may cut.

    Once a step touches a whole device, each of its ports there stands for all nodes behind the device.
    """
    ports = dict.fromkeys(step.port for step in plan.steps if step.disruption is not Disruption.NONE)
    if not ports:
        return {}
    tree = _Tree(fabric)
    wide = {step.port.device for step in plan.steps if step.disruption is Disruption.SYSTEM_WIDE}
    everyone = {name: tree.behind_device(name) for name in wide}
    return {port: everyone[port.device] if port.device in wide else tree.behind(port) for port in ports}


def nodes_of(found: Mapping[PortId, Iterable[str]]) -> tuple[str, ...]:
    """Return every node behind the ports, each once."""
    return tuple(dict.fromkeys(node for nodes in found.values() for node in nodes))


def in_use(found: Mapping[PortId, Sequence[str]], uses: Uses) -> dict[PortId, str]:
    """Return by port which of the nodes behind it are in use or may be.

    Ports whose nodes are all free do not occur.

    Parameters
    ----------
    found
        From :func:`disturbed`.
    uses
        A node that is not in it may be in use.
    """
    texts = {
        node: use_text(node, uses.get(node, NodeUse(Use.UNKNOWN, why="it was not asked")))
        for node in nodes_of(found)
    }
    told = {}
    for port, nodes in found.items():
        taken = [node for node in nodes if texts[node]]
        if taken:
            told[port] = _some([texts[node] for node in taken], len(nodes))
    return told


def use_text(node: str, use: NodeUse) -> str:
    """Return who uses a node, as ``node3 runs job 1234 of alice``; empty if it is free."""
    match use.state:
        case Use.FREE:
            return ""
        case Use.UNKNOWN:
            return f"whether {node} is in use is not known: {use.why}"
        case Use.BUSY if use.jobs:
            return f"{node} runs {_jobs_text(use)}"
        case Use.BUSY:
            return f"{node} is in use: {use.why}"


def holds(plan: Plan, fabric: Fabric, advice: str) -> dict[PortId, str]:
    """Return by port why it is left alone now: what ``plan.in_use`` names, and the far ends of those links.

    A port is held as a whole. To change a part of its settings, or one end of a link, could be worse than
    to change nothing.
    """
    planned = {step.port for step in plan.steps}
    found: dict[PortId, str] = {}
    for port, why in plan.in_use.items():
        line = f"not attempted: {why} ({plan.scheduler}); {advice}"
        found[port] = line
        peer = fabric.peer(port)
        if peer in planned:
            found.setdefault(peer, line)
    return found


def rivalled(plan: Plan, fabric: Fabric) -> dict[PortId, str]:
    """Return by port why it is left alone: another sets the same things, there or at the far end of its link.

    What is set against a rival holds until it sets its own again: a read-back would prove nothing.
    """
    planned = {step.port for step in plan.steps}
    found: dict[PortId, str] = {}
    for port, rivals in plan.rivals.items():
        line = f"not attempted: on {port} another sets the same, stop it first: {'; '.join(rivals)}"
        for each in (port, fabric.peer(port)):
            if each in planned:
                found.setdefault(each, line)
    return found


def _jobs_text(use: NodeUse) -> str:
    shown = ", ".join(f"{job.id} of {job.user}" for job in use.jobs[:_SHOWN])
    rest = len(use.jobs) - _SHOWN
    return f"job{'s' if len(use.jobs) > 1 else ''} {shown}" + (f" and {rest} more" if rest > 0 else "")


def _some(texts: Sequence[str], total: int) -> str:
    if len(texts) == 1:
        return texts[0]
    shown = ", ".join(texts[:_SHOWN])
    return f"{len(texts)} of {total} nodes behind it are taken, {shown}" + (
        ", ..." if len(texts) > _SHOWN else ""
    )


class _Tree:
    """Which way is down: towards the nodes."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._everyone = tuple(node.name for node in fabric.nodes())
        self._neighbours: dict[str, tuple[str, ...]] = {}
        for device in fabric.devices:
            peers = (fabric.peer(port.id) for port in device.ports)
            self._neighbours[device.name] = tuple({peer.device: None for peer in peers if peer is not None})
        self._levels = self._distances()
        self._known: dict[str, frozenset[str]] = {}

    def behind(self, port: PortId) -> tuple[str, ...]:
        """Return the nodes whose traffic may go through a port; all of them if that cannot be told."""
        if self._fabric.device(port.device).role is Role.NODE:
            return (port.device,)
        peer = self._fabric.peer(port)
        if peer is None:
            return self._everyone
        if self._fabric.device(peer.device).role is Role.NODE:
            return (peer.device,)
        if port.device not in self._levels or peer.device not in self._levels:
            return self._everyone
        below = self._below(port.device) | self._below(peer.device)
        return tuple(name for name in self._everyone if name in below)

    def behind_device(self, name: str) -> tuple[str, ...]:
        """Return the nodes whose traffic may go through any port of a device."""
        found = {node for port in self._fabric.device(name).ports for node in self.behind(port.id)}
        return tuple(node for node in self._everyone if node in found)

    def _distances(self) -> dict[str, int]:
        """Return by device how many cables it is away from the nearest node; the unconnected are left out."""
        levels = dict.fromkeys(self._everyone, 0)
        todo = deque(levels)
        while todo:
            name = todo.popleft()
            for other in self._neighbours[name]:
                if other not in levels:
                    levels[other] = levels[name] + 1
                    todo.append(other)
        return levels

    def _below(self, switch: str) -> frozenset[str]:
        """Return what is reached from a switch without ever going up."""
        if switch not in self._known:
            found = {switch}
            todo = [switch]
            while todo:
                name = todo.pop()
                level = self._levels[name]
                down = [n for n in self._neighbours[name] if level and self._levels[n] <= level]
                todo += [other for other in down if other not in found]
                found.update(down)
            self._known[switch] = frozenset(found)
        return self._known[switch]
