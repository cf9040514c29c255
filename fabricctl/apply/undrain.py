"""After an apply with ``--drain``: prove the nodes with probes, and let jobs come to those that are sound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fabricctl.apply.carry import Result
from fabricctl.apply.disruption import disturbed
from fabricctl.apply.drains import Drained, GivenBack, give_back, keep_left, stays
from fabricctl.apply.record import RecordStore
from fabricctl.apply.rollout import Tools
from fabricctl.apply.usage import ask
from fabricctl.errors import FabricctlError
from fabricctl.model.fabric import Fabric, Port
from fabricctl.model.names import PortId
from fabricctl.model.usage import Use
from fabricctl.model.verdict import Outcome, Verdict, worst
from fabricctl.plugin import finder

Prove = Callable[[str], Sequence[Verdict]]
"""Runs a verify of the pairs (as ``--pairs`` takes them) and returns its verdicts."""


@dataclass(frozen=True)
class Undraining:
    """What it takes to bring nodes back."""

    fabric: Fabric
    tools: Tools
    store: RecordStore
    prove: Prove


def undrain(result: Result, means: Undraining) -> Result:
    """Verify the nodes that the apply drained, undrain those that are proven, and say what became of each.

    A node whose settings were not read back as intended, or whose probes failed or could not run, stays
    drained. Without a partner on any of its rails no probe runs, and the read-back decides.
    """
    drained = result.drain
    if drained is None or result.run is None or not drained.nodes:
        return result
    fabric, scheduler = means.fabric, finder.scheduler(drained.scheduler)
    left, untouched = _by_read_back(result, drained.nodes, fabric)
    changed = [node for node in drained.nodes if node not in left and node not in untouched]
    spec, alone = pairs_among(fabric, changed, _idle(fabric, changed, drained))
    try:
        failed, outcome = _verified(spec, changed, means)
    except KeyboardInterrupt:
        means.tools.report(
            stays(fabric, scheduler, dict.fromkeys(drained.nodes, "the verify was interrupted"))
        )
        raise
    left |= failed
    sound = [node for node in drained.nodes if node not in left]
    given = give_back(fabric, scheduler, drained.reason, sound) if sound else GivenBack({}, {})
    left |= given.left
    keep_left(means.store, result.run.id, drained.scheduler, left)
    done = tuple(node for node in sound if node not in left and node not in given.theirs)
    after = replace(drained, undrained=done, left=left, outcome=outcome)
    notes = [*_notes(after, untouched, alone, spec), *given.lines()]
    lines = [stays(fabric, scheduler, group) for group in _by_reason(left)]
    return replace(result, drain=after, notes=(*result.notes, *notes, *lines))


def pairs_among(fabric: Fabric, changed: Sequence[str], idle: Iterable[str]) -> tuple[str, dict[PortId, str]]:
    """Return pairs for ``--pairs`` that probe every port of `changed`, and why a port is in none.

    On each rail the ports stand in a ring. A port that is alone there is paired with one of an idle node.
    """
    free = set(idle)
    rails: dict[int | None, list[Port]] = {}
    for port in fabric.node_ports():
        rails.setdefault(port.rail, []).append(port)
    pairs: list[tuple[PortId, PortId]] = []
    alone: dict[PortId, str] = {}
    for ports in rails.values():
        ours = [port.id for port in ports if port.id.device in changed]
        others = [port.id for port in ports if port.id.device in free]
        for number, end in enumerate(ours):
            following = [*ours[number + 1 :], *ours[:number], *others]
            partner = next((other for other in following if other.device != end.device), None)
            if partner is None:
                alone[end] = "no other free node has a port on its rail"
            else:
                pairs.append((end, partner))
    return ",".join(f"{a}:{b}" for a, b in pairs), alone


def _idle(fabric: Fabric, changed: Sequence[str], drained: Drained) -> list[str]:
    """Return the nodes that may be partners: no job runs there, and nobody else has drained them."""
    names = [node.name for node in fabric.nodes() if node.name not in drained.nodes] if changed else []
    uses = ask(fabric, names, finder.scheduler(drained.scheduler)) if names else {}
    return [name for name, use in uses.items() if use.state is Use.FREE and not use.drained]


def _by_read_back(
    result: Result, nodes: Sequence[str], fabric: Fabric
) -> tuple[dict[str, str], frozenset[str]]:
    """Return by node why its read-back does not allow to undrain it, and where nothing was tried."""
    behind = disturbed(result.plan, fabric)
    concerned: dict[str, list[PortId]] = {node: [] for node in nodes}
    for port in dict.fromkeys(step.port for step in result.plan.steps):
        peer = fabric.peer(port)
        for node in {port.device, *([peer.device] if peer else ()), *behind.get(port, ())}:
            if node in concerned:
                concerned[node].append(port)
    left = {}
    untouched = set()
    for node, ports in concerned.items():
        failed = [port for port in ports if port in result.failed]
        if failed:
            left[node] = f"{failed[0]} is not proven: {result.failed[failed[0]]}"
        elif all(port in result.held for port in ports):
            untouched.add(node)
    return left, frozenset(untouched)


def _verified(spec: str, nodes: Sequence[str], means: Undraining) -> tuple[dict[str, str], Outcome]:
    """Return by node why the probes do not allow to undrain it, and how the verify ended."""
    if not spec:
        return {}, Outcome.PASS
    pairs = spec.split(",")
    means.tools.report(f"verifying {len(pairs)} pairs of {len(nodes)} drained nodes")
    ends = {PortId.parse(end).device for pair in pairs for end in pair.split(":", 1)}
    probed = [node for node in nodes if node in ends]
    try:
        verdicts = means.prove(spec)
    except FabricctlError as exc:
        return dict.fromkeys(probed, f"the verify did not run: {exc}"), Outcome.UNKNOWN
    judged: dict[str, list[Verdict]] = {node: [] for node in probed}
    for verdict in verdicts:
        for device in {verdict.pair.source.device, verdict.pair.target.device} & judged.keys():
            judged[device].append(verdict)
    left = {}
    for node, about in judged.items():
        bad = next((v for v in about if v.outcome is not Outcome.PASS), None)
        if bad is not None:
            left[node] = f"the verify of {bad.pair} came out as {bad.outcome}"
        elif not about:
            left[node] = "the verify says nothing of it"
    return left, worst(verdict.outcome for verdict in verdicts)


def _notes(drained: Drained, untouched: frozenset[str], alone: Mapping[PortId, str], spec: str) -> list[str]:
    found = []
    proven = [node for node in drained.undrained if node not in untouched]
    idle = [node for node in drained.undrained if node in untouched]
    if proven:
        how = "read back and verified" if spec else "read back"
        found.append(f"undrained, {how}: {', '.join(proven)}")
    if idle:
        found.append(f"undrained, nothing was changed there: {', '.join(idle)}")
    for port, why in alone.items():
        found.append(f"{port}: no probe ran: {why}")
    return found


def _by_reason(left: Mapping[str, str]) -> list[dict[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    for node, why in left.items():
        groups.setdefault(why, {})[node] = why
    return list(groups.values())
