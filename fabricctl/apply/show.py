"""A plan, a value and a difference as text for a reader."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from fabricctl.apply.render import NOT_KEPT
from fabricctl.model import settings
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption, Plan, Step
from fabricctl.model.reading import Entry, Known, Missing, Value

_PORTS_SHOWN = 6


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield a plan as text; ports with the same steps stand together."""
    groups: dict[tuple[str, ...], list[PortId]] = {}
    for port, steps in _by_port(plan).items():
        groups.setdefault(tuple(step_line(step) for step in steps), []).append(port)
    for lines, ports in groups.items():
        yield _names(ports)
        yield from (f"    {line}" for line in lines)
    for reason, ports in _unsupported(plan).items():
        yield f"not supported on {_names(ports)}: {reason}"
    for device, why in plan.unread.items():
        yield f"could not be read: {device}: {why}"
    yield summary(plan)


def summary(plan: Plan) -> str:
    """Return how much a plan would change and how much of it disrupts, as one line."""
    if not plan.steps and not plan.unread:
        return "nothing to do: every setting is as intended"
    devices = len(plan.devices)
    text = f"{_count(len(plan.steps), 'setting')} to change on {_count(devices, 'device')}"
    disrupting = sorted({s.disruption.value for s in plan.steps if s.disruption is not Disruption.NONE})
    if disrupting:
        text += f"; disrupts: {', '.join(disrupting)}"
    if plan.unread:
        text += f"; {_count(len(plan.unread), 'device')} could not be read"
    return text


def step_line(step: Step) -> str:
    """Return a step as ``pfc_priorities: none -> 3  (undo: none; queue reset)``."""
    notes = [f"undo: {undo(step)}"]
    if step.disruption is not Disruption.NONE:
        notes.append(f"disrupts: {step.disruption.value}")
    return f"{step.setting}: {difference(step.setting, step.old, step.new)}  ({'; '.join(notes)})"


def undo(step: Step) -> str:
    """Return what undoing a step sets."""
    match step.old:
        case Missing():
            return "no value to restore"
        case Known(value) if step.setting == settings.DSCP_PRIORITY and _is_map(value):
            return "the old map"
        case Known(value):
            return value_text(step.setting, value)


def difference(setting: str, old: Entry, new: Value) -> str:
    """Return ``from -> to``; of a DSCP map only the entries that differ."""
    if isinstance(old, Known) and _is_map(old.value) and _is_map(new) and setting == settings.DSCP_PRIORITY:
        return ", ".join(f"dscp {name}: {a} -> {b}" for name, a, b in _map_changes(old.value, new))
    return f"{_before(setting, old, new)} -> {value_text(setting, new)}"


def deviation(setting: str, wanted: Value, found: Entry) -> str:
    """Return ``should be 3, is none``; of a DSCP map only the entries that differ."""
    if isinstance(found, Known) and setting == settings.DSCP_PRIORITY and _is_map(found.value):
        return ", ".join(
            f"dscp {name} should be {new}, is {old}" for name, old, new in _map_changes(found.value, wanted)
        )
    return f"should be {value_text(setting, wanted)}, is {_before(setting, found, wanted)}"


def entry_text(setting: str, entry: Entry) -> str:
    """Return what was read of a setting, or that it could not be and why."""
    match entry:
        case Known(value):
            return value_text(setting, value)
        case Missing(reason):
            return f"unknown ({reason})"


def value_text(setting: str, value: Value) -> str:
    """Return a value as a reader writes it: ``none``, ``on``, ``3,4``."""
    if setting == settings.BOOT:
        return "lost at reboot" if value == NOT_KEPT else "kept over reboots"
    match value:
        case bool():
            return "on" if value else "off"
        case tuple():
            return ",".join(str(item) for item in value) if value else "none"
        case _:
            return str(value)


def _before(setting: str, found: Entry, wanted: Value) -> str:
    """Return what was found; of boot scripts that differ, that they do."""
    if setting == settings.BOOT and isinstance(found, Known) and NOT_KEPT not in {found.value, wanted}:
        return "set by another script at boot"
    return entry_text(setting, found)


def _is_map(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 64  # noqa: PLR2004  one entry a DSCP


def _map_changes(old: object, new: object) -> Iterator[tuple[str, int, int]]:
    """Yield the DSCPs that differ (``24-31``), the old and the new priority."""
    assert isinstance(old, tuple)  # noqa: S101  the caller has looked
    assert isinstance(new, tuple)  # noqa: S101  the caller has looked
    changed = [(dscp, a, b) for dscp, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    # Neighbours with the same change share dscp - index and so fall into one group.
    for (_, a, b), run in groupby(enumerate(changed), key=lambda item: (item[1][0] - item[0], *item[1][1:])):
        dscps = [item[1][0] for item in run]
        yield str(dscps[0]) if len(dscps) == 1 else f"{dscps[0]}-{dscps[-1]}", a, b


def _by_port(plan: Plan) -> dict[PortId, list[Step]]:
    found: dict[PortId, list[Step]] = {}
    for step in plan.steps:
        found.setdefault(step.port, []).append(step)
    return found


def _unsupported(plan: Plan) -> dict[str, list[PortId]]:
    found: dict[str, list[PortId]] = {}
    for item in plan.unsupported:
        text = f"{item.setting} = {value_text(item.setting, item.wanted)}: {item.reason}"
        found.setdefault(text, []).append(item.port)
    return found


def _names(ports: list[PortId]) -> str:
    shown = ", ".join(str(port) for port in ports[:_PORTS_SHOWN])
    rest = len(ports) - _PORTS_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
