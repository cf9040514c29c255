"""Take applies back: to what was read before them."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fabricctl import readback
from fabricctl.apply.carry import (
    Result,
    all_held,
    carry_out,
    not_restored,
    refuse_if_waiting,
    revert_now,
    settle,
    still_armed,
    waiting,
)
from fabricctl.apply.disruption import holds
from fabricctl.apply.flow import Options
from fabricctl.apply.plan import Targets, compare, entry_of
from fabricctl.apply.record import (
    Applied,
    ApplyRecord,
    RecordStore,
    State,
    find_script,
    keep,
    state_before,
    undoable,
)
from fabricctl.apply.rollout import Change, Readings, Tools
from fabricctl.apply.usage import with_use
from fabricctl.model import settings
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PortId
from fabricctl.model.plan import Plan
from fabricctl.model.reading import Known, Missing, Value
from fabricctl.model.run import RunKind
from fabricctl.model.words import count
from fabricctl.store.lock import hold


@dataclass(frozen=True, slots=True)
class _Goal:
    targets: Targets
    scripts: Mapping[str, str]
    without: Mapping[tuple[PortId, str], Missing]
    notes: tuple[str, ...]


def rollback(
    fabric: Fabric,
    name: str | None,
    options: Options,
    tools: Tools,
    store: RecordStore,
    agree: Callable[[Plan], bool],
) -> Result | None:
    """Restore what was read before an apply; later applies are taken back with it.

    An apply that waits to be confirmed is reverted at once.

    Parameters
    ----------
    name
        None is the last apply.
    options
        `batch` and `disrupt` count; what would disturb nodes in use is held as by apply.
    agree
        Shown the plan before anything is changed; False leaves everything as it is (the result is None).

    Raises
    ------
    UsageError
        There is no such apply, or it was taken back already.
    BusyError
        Another run is at work on this inventory.
    """
    with hold(fabric.source, "rollback"):
        history = settle(fabric, store, tools)
        waits = waiting(history)
        if waits is not None and name in {None, waits.run.id}:
            return _take_back_waiting(waits, fabric, tools, store)
        refuse_if_waiting(history)
        undone = undoable(history, name)
        goal = _goal(fabric, undone, history)
        devices = [d for d in fabric.devices if any(p.id in goal.targets for p in d.ports)]
        tools.report(f"reading {count(len(devices), 'device')}")
        readings = tools.read(devices)
        drivers = {device.name: readback.driver_of(device) for device in devices}
        plan = with_use(compare(fabric, goal.targets, readings, drivers), fabric, tools)
        if plan.steps and not agree(plan):
            return None
        held = {} if options.disrupt else holds(plan, fabric, "drain it first, or --disrupt")
        if plan.steps and all(step.port in held for step in plan.steps):
            return all_held(plan, held, goal.targets, None, store)
        run = store.begin(RunKind.ROLLBACK, getpass.getuser(), fabric.source)
        change = Change(
            apply_id=run.id,
            fabric=fabric,
            drivers=drivers,
            plan=plan,
            targets=goal.targets,
            context=_context(goal, undone, readings),
            before=readings,
            scripts=goal.scripts,
            batch=options.batch,
            held=held,
        )
        result = carry_out(change, run, tools, store, [a.run.id for a in undone])
        _mark(undone, result, store)
        return replace(result, notes=(*goal.notes, *_left_as_is(goal, result)))


def _goal(fabric: Fabric, undone: Sequence[Applied], history: Iterable[Applied]) -> _Goal:
    """Return what to restore; boot scripts of ours are found again by their digest."""
    before, without = state_before(undone)
    notes = []
    targets: dict[PortId, dict[str, Value]] = {}
    scripts = {}
    for port, values in before.items():
        if not fabric.has_device(port.device) or all(p.id != port for p in fabric.device(port.device).ports):
            notes.append(f"{port}: it is no longer in the inventory")
            continue
        kept = dict(values)
        digest = kept.get(settings.BOOT, settings.NOT_KEPT)
        if readback.driver_of(fabric.device(port.device)).method is not None and settings.BOOT in kept:
            # What such a device has saved is what holds after a reboot, so what is restored is saved too.
            kept[settings.BOOT] = settings.SAVED
        elif digest != settings.NOT_KEPT:
            script = find_script(history, str(digest))
            if script is None:
                left = "the earlier boot script is not recorded here; nothing sets the port at boot"
                notes.append(f"{port} boot: {left}")
                kept[settings.BOOT] = settings.NOT_KEPT
            else:
                scripts[str(digest)] = script
        if kept:
            targets[port] = kept
    return _Goal(targets, scripts, without, tuple(notes))


def _left_as_is(goal: _Goal, result: Result) -> list[str]:
    """Return a line for each setting that had no value before and is not so again."""
    return [
        f"{port} {setting}: left as it is, what it was is not known ({was.reason})"
        for (port, setting), was in goal.without.items()
        if entry_of(result.readings.get(port.device), port, setting) != was
    ]


def _context(goal: _Goal, undone: Sequence[Applied], readings: Readings) -> Targets:
    """Return what a port's script is rendered with: what is restored, and the rest as it is now.

    A template may set two settings with one command, so it must know both. What had no value before is
    left out: where that means "not there" (thresholds without marking), the template takes it away.
    """
    found = {}
    for port, values in goal.targets.items():
        names = {name for a in undone for name in a.record.wanted.get(port, {})}
        names -= {name for name in names if (port, name) in goal.without}
        present = {name: entry_of(readings.get(port.device), port, name) for name in sorted(names)}
        known = {name: entry.value for name, entry in present.items() if isinstance(entry, Known)}
        found[port] = {**known, **values}
    return found


def _mark(undone: Sequence[Applied], result: Result, store: RecordStore) -> None:
    """Take the ports that were rolled back out of the applies' proven intent."""
    left = set(result.failed) | set(result.held)
    for applied in undone:
        changed = set(applied.record.before)
        still = tuple(
            port
            for port in applied.record.proven
            if port in changed and (port in left or result.plan.is_unread(port))
        )
        state = applied.record.state if still else State.ROLLED_BACK
        keep(store, Applied(applied.run, replace(applied.record, state=state, proven=still)))


def _take_back_waiting(held: Applied, fabric: Fabric, tools: Tools, store: RecordStore) -> Result:
    tools.report(f"{held.run.id} waits to be confirmed: reverting it")
    outcomes = revert_now(held, fabric, tools)
    left, old = not_restored(held.record, fabric, tools)
    wrong = {step.port: f"{step.setting} was not restored" for step in left.steps}
    total = sum(len(values) for values in old.values())
    result = Result(
        run=held.run,
        state=State.FAILED if wrong or left.unknown else State.REVERTED,
        plan=replace(held.record.plan, unread=left.unread, unread_ports=left.unread_ports),
        proven=total - len(left.steps) - sum(len(v) for p, v in old.items() if left.is_unread(p)),
        total=total,
        tasks={outcome.device: outcome.tasks for outcome in outcomes},
        failed=wrong,
        notes=(*still_armed(outcomes, held.record.deadline), *_without_value(held.record)),
    )
    keep(store, Applied(held.run, replace(held.record, state=result.state, proven=(), deadline=None)))
    store.finish(held.run, result.outcome, "taken back before it was confirmed")
    return result


def _without_value(record: ApplyRecord) -> list[str]:
    """Return a line if settings had no value before, so that nothing tells whether they are as they were."""
    steps = [s for s in record.plan.steps if not isinstance(s.old, Known) and s.setting not in settings.KEPT]
    if not steps:
        return []
    more = f" and {len(steps) - 1} more" if len(steps) > 1 else ""
    return [f"not compared, what it was is not known: {steps[0].port} {steps[0].setting}{more}"]
