"""A plan, a value and a difference as text for a reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from fabricctl.apply.proof import Judged
from fabricctl.model import settings
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption, Pending, Plan, Step
from fabricctl.model.reading import Entry, Known, Missing, Value
from fabricctl.model.verdict import Finding
from fabricctl.model.words import count

_PORTS_SHOWN = 6
_NOW_SHOWN = 8
_LONG = 8

_INDEX = {
    settings.DSCP_PRIORITY: "dscp",
    settings.PRIORITY_TC: "priority",
    settings.TC_SCHEDULER: "tc",
    settings.TC_BANDWIDTH: "tc",
    settings.PRIORITY_BUFFER: "priority",
    settings.BUFFER_SIZE: "buffer",
}
"""What the entries of a setting stand for, where it has one for each of them."""

_MARKING = (settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX)
"""Settings that a port which does not mark cannot have a value of."""


def plan_lines(plan: Plan, judged: Judged | None = None) -> Iterator[str]:
    """Yield a plan as text; ports with the same steps stand together.

    Parameters
    ----------
    judged
        What the checks make of the readings; None leaves that out.
    """
    groups: dict[tuple[str, ...], list[PortId]] = {}
    for port, steps in _by_port(plan).items():
        unmarked = any(step.setting == settings.ECN and step.old == Known(value=False) for step in steps)
        lines = tuple(step_line(step, unset=unmarked and step.setting in _MARKING) for step in steps)
        if port in plan.in_use:
            lines = (*lines, f"in use: {plan.in_use[port]}")
        groups.setdefault(lines, []).append(port)
    for shown, ports in groups.items():
        yield _names(ports)
        yield from (f"    {line}" for line in shown)
    for reason, ports in _unsupported(plan).items():
        yield f"not supported on {_names(ports)}: {reason}"
    yield from (pending_line(item) for item in plan.pending)
    for plane, ports in _by_value(plan.planes.items()).items():
        yield f"control plane of {_names(ports)}: {plane}"
    for rival, ports in _by_value((p, r) for p, rivals in plan.rivals.items() for r in rivals).items():
        yield f"left alone, another sets the same on {_names(ports)}: {rival}"
    for device, why in plan.unread.items():
        yield f"could not be read: {device}: {why}"
    for why, ports in _by_value(plan.unread_ports.items()).items():
        yield f"could not be read: {_names(ports)}: {why}"
    if judged is not None:
        yield from judged_lines(judged, plan.unknown)
    yield summary(plan, judged)


def judged_lines(judged: Judged, unread: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong now and mended by the plan, what is left, and what is not known.

    Parameters
    ----------
    unread
        By device or port, why it could not be read: that it proves nothing then is not said again in full.
    """
    now = _grouped(judged.mended)
    for line in now[:_NOW_SHOWN]:
        yield f"now, until it is applied: {line}"
    if len(now) > _NOW_SHOWN:
        yield f"now, until it is applied: {len(now) - _NOW_SHOWN} more (--json has them all)"
    yield from (fault_line(finding) for finding in judged.left)
    causes = {*unread.values(), *(f"{name} was not read" for name in unread)}
    follows = [f for f in judged.unproven if any(cause in f.what for cause in causes)]
    yield from (f"not proven: {line}" for line in _grouped(f for f in judged.unproven if f not in follows))
    if follows:
        subjects = list(dict.fromkeys(f.subject for f in follows))
        yield f"not proven, for want of what could not be read: {_names(subjects)}"


def fault_line(finding: Finding) -> str:
    """Return ``fail: leaf1/swp1 - node1/eth1: the speed is ...; look at the cable [agreement]``."""
    advice = f"; {finding.next_step}" if finding.next_step else ""
    return f"{finding.outcome}: {finding.subject}: {finding.what}{advice} [{finding.check}]"


def pending_line(item: Pending) -> str:
    """Return ``node1/eth1 dcqcn: stored, does not hold yet: reset the firmware``."""
    return f"{item.port} {item.setting}: stored, does not hold yet: {item.why}"


def held_lines(held: Mapping[PortId, str]) -> Iterator[str]:
    """Yield ``node3/eth1, leaf1/eth3: not attempted: ...``; ports held for the same stand together."""
    groups: dict[str, list[PortId]] = {}
    for port, why in held.items():
        groups.setdefault(why, []).append(port)
    yield from (f"{_names(ports)}: {why}" for why, ports in groups.items())


def summary(plan: Plan, judged: Judged | None = None) -> str:
    """Return how much a plan would change and how much of it disrupts, and what it leaves, as one line."""
    faults = len(judged.left) if judged else 0
    left = f"; {count(faults, 'fault')} that no setting mends" if faults else ""
    waiting = (
        f"{count(len(plan.pending), 'setting')} stored and pending until a reset" if plan.pending else ""
    )
    if not plan.steps and not plan.unknown:
        if waiting:
            return f"nothing to do but to wait: {waiting}{left}"
        return f"nothing to set{left}" if left else "nothing to do: every setting is as intended"
    devices = len(plan.devices)
    text = f"{count(len(plan.steps), 'setting')} to change on {count(devices, 'device')}"
    disrupting = sorted({s.disruption.value for s in plan.steps if s.disruption is not Disruption.NONE})
    if disrupting:
        text += f"; disrupts: {', '.join(disrupting)}; {_asked(plan)}"
    if waiting:
        text += f"; {waiting}"
    if plan.rivals:
        text += f"; {count(len(plan.rivals), 'port')} left alone"
    if plan.unread:
        text += f"; {count(len(plan.unread), 'device')} could not be read"
    if plan.unread_ports:
        text += f"; {count(len(plan.unread_ports), 'port')} could not be read"
    return text + left


def _asked(plan: Plan) -> str:
    """Return whose word stands behind the plan's view of who uses the nodes."""
    if not plan.scheduler:
        return "no scheduler was asked"
    taken = len(plan.in_use)
    return f"{plan.scheduler}: " + (
        f"{count(taken, 'port')} in use, or may be" if taken else "nobody is in the way"
    )


def step_line(step: Step, *, unset: bool = False) -> str:
    """Return a step as ``pfc_priorities: none -> 3  (undo: none; disrupts: queue reset)``.

    Parameters
    ----------
    unset
        The port has no value of the setting as long as it does not mark, so undoing ``ecn`` undoes it.
    """
    unset = unset and isinstance(step.old, Missing)
    notes = [f"undo: {'ecn off' if unset else undo(step)}"]
    if step.disruption is not Disruption.NONE:
        notes.append(f"disrupts: {step.disruption.value}")
    if step.setting == settings.BOOT and step.new == settings.SAVED:
        notes.append("saves all that is unsaved on the switch")
    new = value_text(step.setting, step.new)
    change = f"not set -> {new}" if unset else difference(step.setting, step.old, step.new)
    return f"{step.setting}: {change}  ({'; '.join(notes)})"


def undo(step: Step) -> str:
    """Return what undoing a step sets."""
    match step.old:
        case Missing():
            return "no value to restore"
        case Known(value) if _by_entry(step.setting, value, step.new):
            return "the old values"
        case Known(value):
            return value_text(step.setting, value)


def difference(setting: str, old: Entry, new: Value) -> str:
    """Return ``from -> to``; of a list with an entry for each priority and the like only what differs."""
    if isinstance(old, Known) and _by_entry(setting, old.value, new):
        return ", ".join(f"{name}: {a} -> {b}" for name, a, b in _changes(setting, old.value, new))
    return f"{_before(setting, old, new)} -> {value_text(setting, new)}"


def mismatch(step: Step) -> str:
    """Return ``pfc_priorities should be 3, is none`` of a step that is left at the end."""
    return f"{step.setting} {deviation(step.setting, step.new, step.old)}"


def deviation(setting: str, wanted: Value, found: Entry) -> str:
    """Return ``should be 3, is none``; of a list with an entry for each priority only what differs."""
    if isinstance(found, Known) and _by_entry(setting, found.value, wanted):
        return ", ".join(
            f"{name} should be {new}, is {old}" for name, old, new in _changes(setting, found.value, wanted)
        )
    return f"should be {value_text(setting, wanted)}, is {_before(setting, found, wanted)}"


def kept_note(found: Entry, manager: str) -> str:
    """Return what a network manager that does not keep the MTU does to it, in parentheses."""
    if not isinstance(found, Known):
        return ""
    by = manager or "the host's network manager"
    does = "leave it unset" if found.value == settings.NOT_KEPT else f"set {found.value}"
    return f" (a reboot or reconnect by {by} would {does})"


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
        return "lost at reboot" if value == settings.NOT_KEPT else "kept over reboots"
    match value:
        case bool():
            return "on" if value else "off"
        case tuple() if setting in _INDEX and len(value) >= _LONG:
            return _but(setting, value)
        case tuple():
            return ",".join(str(item) for item in value) if value else "none"
        case _:
            return str(value)


def _but(setting: str, value: Sequence[object]) -> str:
    """Return ``0 but dscp 26: 3, dscp 48: 6``: what most entries are, and the others."""
    most = max(dict.fromkeys(value), key=value.count)
    others = [f"{name}: {new}" for name, _, new in _changes(setting, (most,) * len(value), tuple(value))]
    return f"{most} but {', '.join(others)}" if others else f"all {most}"


def _before(setting: str, found: Entry, wanted: Value) -> str:
    """Return what was found; of boot scripts that differ, that they do."""
    if (
        setting == settings.BOOT
        and isinstance(found, Known)
        and settings.NOT_KEPT not in {found.value, wanted}
    ):
        return "set by another script at boot"
    return entry_text(setting, found)


def _by_entry(setting: str, old: object, new: object) -> bool:
    """Return whether two values of a setting differ in single entries that can be named."""
    lists = isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new)
    return lists and setting in _INDEX and old != new


def _changes(setting: str, old: object, new: object) -> Iterator[tuple[str, object, object]]:
    """Yield the entries that differ (``dscp 24-31``), the old and the new value."""
    assert isinstance(old, tuple)  # noqa: S101  the caller has looked
    assert isinstance(new, tuple)  # noqa: S101  the caller has looked
    changed = [(number, a, b) for number, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    # Neighbours with the same change share number - index and so fall into one group.
    for (_, a, b), run in groupby(enumerate(changed), key=lambda item: (item[1][0] - item[0], *item[1][1:])):
        numbers = [item[1][0] for item in run]
        span = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        yield f"{_INDEX[setting]} {span}", a, b


def _by_port(plan: Plan) -> dict[PortId, list[Step]]:
    found: dict[PortId, list[Step]] = {}
    for step in plan.steps:
        found.setdefault(step.port, []).append(step)
    return found


def _by_value(pairs: Iterable[tuple[PortId, str]]) -> dict[str, list[PortId]]:
    found: dict[str, list[PortId]] = {}
    for port, value in pairs:
        found.setdefault(value, []).append(port)
    return found


def _unsupported(plan: Plan) -> dict[str, list[PortId]]:
    found: dict[str, list[PortId]] = {}
    for item in plan.unsupported:
        text = f"{item.setting} = {value_text(item.setting, item.wanted)}: {item.reason}"
        found.setdefault(text, []).append(item.port)
    return found


def _grouped(findings: Iterable[Finding]) -> list[str]:
    """Return ``subjects: what`` a line; subjects of which the same is said stand together.

    What names its own subject is the same as what names another in that place: the first stands for all.
    """
    groups: dict[str, dict[str, str]] = {}
    for finding in findings:
        groups.setdefault(finding.anonymous, {}).setdefault(finding.subject, finding.what)
    lines = []
    for told in groups.values():
        subjects, what = list(told), next(iter(told.values()))
        if len(set(told.values())) == 1:
            lines.append(f"{_names(subjects)}: {what}")
        else:
            lines.append(f"{subjects[0]}: {what}; the same goes for {_names(subjects[1:])}")
    return lines


def _names(ports: Sequence[PortId | str]) -> str:
    shown = ", ".join(str(port) for port in ports[:_PORTS_SHOWN])
    rest = len(ports) - _PORTS_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown
