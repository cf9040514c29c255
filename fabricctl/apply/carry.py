"""Carry a change out and record it, and clean up after runs that were killed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fabricctl import readback
from fabricctl.apply.batches import ports_of
from fabricctl.apply.drains import Drained, tell_left
from fabricctl.apply.plan import Targets, compare
from fabricctl.apply.record import Applied, ApplyRecord, RecordStore, State, find_script, keep, load
from fabricctl.apply.render import digest
from fabricctl.apply.rollout import Change, Readings, Rollout, Tools, revert_job
from fabricctl.apply.show import mismatch, summary
from fabricctl.errors import BusyError
from fabricctl.model import settings
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PortId
from fabricctl.model.plan import Pending, Plan, PushOutcome, Step
from fabricctl.model.reading import Entry, Known, Value
from fabricctl.model.run import Run
from fabricctl.model.verdict import Finding, Outcome, worst

SAFETY_S = 600
"""Seconds after which a device reverts by itself when it is not confirmed."""

_GRACE_S = 5
_PROGRESS_S = 15
_SHOWN = 4
_UNSEEN = "what it was before is not known, or it is no longer in the inventory: nothing could be compared"


@dataclass(frozen=True)
class Result:
    """What came of an apply, a rollback or a confirm.

    Parameters
    ----------
    run
        None if there was nothing to do and nothing to record.
    proven, total
        Settings that were read as intended at the end, of all in scope.
    tasks
        By device that ansible was sent to: the tasks that ran on it.
    failed, held
        By port: why it is not as intended; why it was not touched.
    deadline
        Unix time at which the first device reverts unless it is confirmed; None if nothing waits.
    notes
        What else the reader should know, a line each.
    readings
        The last reading of each device.
    pending
        What is stored as intended and does not hold before a reset; it is not among `proven`.
    in_use
        The part of `held` that only waits for nodes to be free of jobs, or for a rival to be stopped.
    drain
        The nodes that were drained for it; None if none was.
    faults
        What the checks found wrong at the end and no setting mends (a speed, a cable). Not part of `outcome`:
        what was to be set is set.
    """

    run: Run | None
    state: State
    plan: Plan
    proven: int
    total: int
    tasks: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[PortId, str] = field(default_factory=dict)
    held: Mapping[PortId, str] = field(default_factory=dict)
    deadline: float | None = None
    notes: tuple[str, ...] = ()
    readings: Readings = field(default_factory=dict)
    pending: tuple[Pending, ...] = ()
    in_use: Mapping[PortId, str] = field(default_factory=dict)
    drain: Drained | None = None
    faults: tuple[Finding, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """FAIL if a port failed, UNKNOWN if something was left out or waits, else PASS.

        The verify of drained nodes counts as well: the worst of both.
        """
        verified = self.drain.outcome if self.drain else Outcome.PASS
        if self.failed:
            return Outcome.FAIL
        if self.held or self.plan.unknown or (self.drain and self.drain.left):
            return worst([Outcome.UNKNOWN, verified])
        return verified

    @property
    def waits_for_nodes(self) -> bool:
        """Whether all that is left undone is so because nodes are in use, or may be."""
        waits = self.held.keys() <= self.in_use.keys()
        verified = self.drain is None or (self.drain.outcome is Outcome.PASS and not self.drain.left)
        return bool(self.in_use) and waits and verified and not self.failed and not self.plan.unknown


def carry_out(
    change: Change, run: Run, tools: Tools, store: RecordStore, undone: Sequence[str] = ()
) -> Result:
    """Roll a change out and record how far it came, also when it is interrupted."""
    before = {
        port: reading.settings
        for port in ports_of(change.plan.devices)
        if port not in change.held and (reading := change.before[port.device].ports.get(port)) is not None
    }
    record = ApplyRecord(
        state=State.RUNNING,
        plan=change.plan,
        wanted=change.targets,
        before=before,
        scripts={**_foreign_scripts(change, before, tools, store), **change.scripts},
        deadline=tools.now() + change.within_s,
        undone=tuple(undone),
    )
    # It is in the store before the first device is touched: a killed run can be found and cleaned up.
    keep(store, Applied(run, record), new=True)
    _end_certificates(change, run, tools.now(), store)
    progress = _Progress(run, record, store)
    rollout = Rollout(change, tools, progress, progress.note)
    try:
        rollout.run()
    except BaseException:
        left = _really_kept(_so_far(record, rollout), change.fabric, rollout.after)
        keep(store, Applied(run, replace(left, state=_broken_off(left))))
        store.finish(run, Outcome.ERROR, f"interrupted; {_left_by(left)}")
        raise
    return close(run, record, rollout, store)


def _foreign_scripts(
    change: Change, before: Mapping[PortId, Mapping[str, Entry]], tools: Tools, store: RecordStore
) -> dict[str, str]:
    """Return by digest the boot scripts that are about to be replaced and that no record here holds.

    Another controller, or this one with another store, has put them there; a rollback restores them too.
    """
    changing = {step.port for step in change.plan.steps if step.setting == settings.BOOT}
    found = {port: entries.get(settings.BOOT) for port, entries in before.items() if port in changing}
    digests = {
        port: str(entry.value)
        for port, entry in found.items()
        if isinstance(entry, Known) and entry.value not in {settings.NOT_KEPT, settings.SAVED}
    }
    if not digests:
        return {}
    history = load(store, change.fabric.source)
    unknown = [port for port, text in digests.items() if find_script(history, text) is None]
    scripts = {digest(text): text for text in (tools.boot_scripts(unknown) if unknown else ())}
    return {name: text for name, text in scripts.items() if name in digests.values()}


def _end_certificates(change: Change, run: Run, now: float, store: RecordStore) -> None:
    """Revoke what was certified with the settings that are about to change, at either end of a cable."""
    steps = [step for step in change.plan.steps if step.port not in change.held]
    changed = {step.port for step in steps if step.setting not in settings.KEPT}
    peers = {change.fabric.peer(port) for port in changed}
    for port in change.fabric.node_ports():
        if port.id in changed or port.id in peers:
            store.revoke(str(port.id), run.by, f"{run.id} changed settings of its link", now)


class _Progress:
    """Keeps how far a run has come, but not so often that a large record is all that is written."""

    def __init__(self, run: Run, record: ApplyRecord, store: RecordStore) -> None:
        self._run, self._record, self._store = run, record, store
        self._next = 0.0

    def __call__(self, rollout: Rollout) -> None:
        if rollout.tools.now() >= self._next:
            self.note(rollout)

    def note(self, rollout: Rollout) -> None:
        """Write it now."""
        keep(self._store, Applied(self._run, _so_far(self._record, rollout)))
        self._next = rollout.tools.now() + _PROGRESS_S


def close(run: Run, record: ApplyRecord, rollout: Rollout, store: RecordStore) -> Result:
    """Record the end of a rollout and return what came of it."""
    result = conclude(run, rollout)
    keep(store, Applied(run, replace(_so_far(record, rollout), state=result.state)))
    waits = result.state is State.WAITING and result.outcome is Outcome.PASS
    outcome = Outcome.UNKNOWN if waits else result.outcome
    store.finish(run, outcome, f"{result.state}: {summary(rollout.change.plan)}")
    return result


def conclude(run: Run, rollout: Rollout) -> Result:
    """Return what came of a rollout, from the last reading of every device."""
    change = rollout.change
    # What is kept over reboots follows with the confirm: before, it proves and disproves nothing.
    boot = change.auto_confirm
    readings: Readings = {**change.before, **rollout.after}
    left = compare(change.fabric, change.targets, readings, change.drivers)
    differ = [step for step in left.steps if boot or step.setting not in settings.KEPT]
    failed = {**_changed_meanwhile(differ, rollout), **rollout.failed}
    sizes = {p: sum(boot or name not in settings.KEPT for name in v) for p, v in change.targets.items()}
    unread = sum(size for port, size in sizes.items() if left.is_unread(port))
    tasks: dict[str, int] = {}
    for outcome in rollout.outcomes:
        tasks[outcome.device] = tasks.get(outcome.device, 0) + outcome.tasks
    waits = not boot and len(rollout.failed) + len(rollout.held) < len(ports_of(change.plan.devices))
    state = State.WAITING if waits else State.FAILED if failed else State.DONE
    return Result(
        run=run,
        state=state,
        plan=change.plan,
        proven=sum(sizes.values()) - unread - len(differ) - len(left.pending),
        total=sum(sizes.values()),
        tasks=tasks,
        failed=failed,
        held=dict(rollout.held),
        deadline=rollout.deadline if waits else None,
        readings=readings,
        pending=left.pending,
        in_use=dict(rollout.in_use),
    )


def _changed_meanwhile(differ: Iterable[Step], rollout: Rollout) -> dict[PortId, str]:
    """Return by port what is not as intended at the end, of ports that had nothing to do or were proven."""
    found: dict[PortId, list[str]] = {}
    for step in differ:
        if step.port not in rollout.held and step.port not in rollout.failed:
            found.setdefault(step.port, []).append(mismatch(step))
    return {port: f"changed meanwhile: {'; '.join(told)}" for port, told in found.items()}


def all_held(
    plan: Plan, held: Mapping[PortId, str], targets: Targets, run: Run | None, store: RecordStore
) -> Result:
    """Return what came of a change of which every port is left alone; no device was pushed to.

    Parameters
    ----------
    run
        None if it has not begun: nothing is recorded then.
    """
    sizes = {port: len(values) for port, values in targets.items()}
    unread = sum(size for port, size in sizes.items() if plan.is_unread(port))
    if run is not None:
        store.finish(run, Outcome.UNKNOWN, "nothing was changed: every port was left alone")
    return Result(
        run=run,
        state=State.HELD,
        plan=plan,
        proven=sum(sizes.values()) - unread - len(plan.steps) - len(plan.pending),
        total=sum(sizes.values()),
        held=held,
        pending=plan.pending,
        in_use=held,
    )


def settle(fabric: Fabric, store: RecordStore, tools: Tools) -> tuple[Applied, ...]:
    """Bring what earlier runs left unfinished to its end, and return the history, the newest first.

    A run that was killed is reverted now where it is not confirmed. So is one that nobody confirmed in time:
    its devices should have done that themselves, but a timer may have failed. Call it with the inventory's
    lock held: what is "running" then was killed. Nodes that one of them left drained are named.
    """
    for applied in load(store, fabric.source):
        match applied.record.state:
            case State.RUNNING:
                _recover(applied, fabric, store, tools)
            case State.WAITING if tools.now() > (applied.record.deadline or 0) + _GRACE_S:
                _see_reverted(applied, fabric, store, tools)
            case _:
                pass
    tell_left(fabric, store, tools)
    return load(store, fabric.source)


def waiting(history: Iterable[Applied]) -> Applied | None:
    """Return the apply that waits to be confirmed."""
    return next((a for a in history if a.record.state is State.WAITING), None)


def refuse_if_waiting(history: Iterable[Applied]) -> None:
    """Refuse to start on top of an apply that may yet revert by itself.

    Raises
    ------
    BusyError
        An apply waits to be confirmed.
    """
    found = waiting(history)
    if found is None:
        return
    raise BusyError(
        f"apply {found.run.id} waits to be confirmed until {clock(found.record.deadline)}",
        where=found.run.inventory,
        next_step='"fabricctl confirm" keeps it, "fabricctl rollback" takes it back now',
    )


def clock(at: float | None) -> str:
    """Return a Unix time as local time, without the date if it is today's."""
    then, today = time.localtime(at), time.localtime()
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", then)


def revert_now(applied: Applied, fabric: Fabric, tools: Tools) -> tuple[PushOutcome, ...]:
    """Undo what an apply has not confirmed, at once, on each of its devices."""
    names = [plan.device for plan in applied.record.plan.devices if fabric.has_device(plan.device)]
    return tuple(tools.push([revert_job(fabric.device(name), applied.run.id) for name in names]))


def still_armed(outcomes: Iterable[PushOutcome], deadline: float | None) -> list[str]:
    """Return a line for each device that could not be told to revert now."""
    until = clock(deadline)
    return [f"{o.device}: {o.message}; it reverts by itself at {until}" for o in outcomes if not o.ok]


def _see_reverted(applied: Applied, fabric: Fabric, store: RecordStore, tools: Tools) -> None:
    """Take away what is left of an apply that was not confirmed in time, and say what is read then."""
    tools.report(f"{applied.run.id} was not confirmed in time: seeing that its devices have reverted it")
    revert_now(applied, fabric, tools)
    left, _ = not_restored(applied.record, fabric, tools)
    wrong = {str(step.port): f"{step.setting} is not as before it" for step in left.steps}
    said = [f"{name}: {why}" for name, why in {**wrong, **left.unknown}.items()]
    for line in said:
        tools.report(f"  {line}")
    more = f" and {len(said) - 1} more" if len(said) > 1 else ""
    end = f"NOT all reverted: {said[0]}{more}" if said else "reverted, and read back so"
    # What still holds can be rolled back, whether a confirm that broke off kept it or a revert failed.
    state = State.FAILED if said else State.REVERTED
    keep(store, Applied(applied.run, replace(applied.record, state=state, proven=())))
    store.finish(applied.run, Outcome.ERROR, f"not confirmed in time: {end}")


def not_restored(
    record: ApplyRecord, fabric: Fabric, tools: Tools
) -> tuple[Plan, dict[PortId, dict[str, Value]]]:
    """Return what of an apply that was taken back does not read as before it, and what was to be restored."""
    devices = [fabric.device(p.device) for p in record.plan.devices if fabric.has_device(p.device)]
    left, old = _beside_old(record, fabric, tools.read(devices))
    # Of a device that is gone, or of which nothing was known before, nothing proves that it has reverted.
    compared = {port.device for port in old}
    touched = dict.fromkeys(step.port.device for step in record.plan.steps if step.port not in record.held)
    unseen = {name: _UNSEEN for name in touched if name not in compared}
    return replace(left, unread={**unseen, **left.unread}), old


def _beside_old(
    record: ApplyRecord, fabric: Fabric, readings: Readings
) -> tuple[Plan, dict[PortId, dict[str, Value]]]:
    old: dict[PortId, dict[str, Value]] = {}
    for step in record.plan.steps:
        if isinstance(step.old, Known) and step.port.device in readings and step.port not in record.held:
            old.setdefault(step.port, {})[step.setting] = step.old.value
    drivers = {name: readback.driver_of(fabric.device(name)) for name in readings}
    return compare(fabric, old, readings, drivers), old


def _really_kept(record: ApplyRecord, fabric: Fabric, readings: Readings) -> ApplyRecord:
    """Return a broken-off record without the devices that read as before: they did not come to keep it."""
    left, old = _beside_old(record, fabric, {n: r for n, r in readings.items() if n in record.kept})
    changed = {step.port.device for step in left.steps} | {name.split("/")[0] for name in left.unknown}
    compared = {port.device for port in old}
    kept = tuple(name for name in record.kept if name in changed or name not in compared)
    return replace(record, kept=kept)


def _recover(applied: Applied, fabric: Fabric, store: RecordStore, tools: Tools) -> None:
    tools.report(f"{applied.run.id} was killed: reverting what it had not confirmed")
    for line in still_armed(revert_now(applied, fabric, tools), applied.record.deadline):
        tools.report(f"  {line}")
    kept = [fabric.device(name) for name in applied.record.kept if fabric.has_device(name)]
    left = _really_kept(applied.record, fabric, tools.read(kept) if kept else {})
    keep(store, Applied(applied.run, replace(left, state=_broken_off(left))))
    store.finish(applied.run, Outcome.ERROR, f"killed; {_left_by(left)}")


def _so_far(record: ApplyRecord, rollout: Rollout) -> ApplyRecord:
    change = rollout.change
    left = compare(change.fabric, change.targets, {**change.before, **rollout.after}, change.drivers)
    wrong = {s.port for s in left.steps if change.auto_confirm or s.setting not in settings.KEPT}
    bad = wrong | set(rollout.failed) | set(rollout.held)
    return replace(
        record,
        proven=tuple(p for p in change.targets if p not in bad and not left.is_unread(p)),
        failed=dict(rollout.failed),
        held=dict(rollout.held),
        outcomes=tuple(rollout.outcomes),
        slots={name: tuple(slots) for name, slots in rollout.slots.items()},
        deadline=rollout.deadline,
        kept=tuple(rollout.kept),
    )


def _broken_off(record: ApplyRecord) -> State:
    """Return the state of a run that did not come to its end: failed if a part of it may have been kept."""
    return State.FAILED if record.kept else State.REVERTED


def _left_by(record: ApplyRecord) -> str:
    """Return what a run that did not come to its end has left, as a phrase."""
    if not record.kept:
        return "what it had changed was reverted"
    names = ", ".join(record.kept[:_SHOWN]) + (" ..." if len(record.kept) > _SHOWN else "")
    return f'{names} may have kept the change ("fabricctl rollback" takes it back), the rest was reverted'
