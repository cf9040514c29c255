"""What an apply leaves in the store: what was meant, what was before, what was proved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from fabricctl.apply.plan import Settings, Targets
from fabricctl.errors import UsageError
from fabricctl.model.codec import decode, encode
from fabricctl.model.names import PortId
from fabricctl.model.plan import Plan, PushOutcome
from fabricctl.model.reading import Entry, Known, Missing, Value
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Outcome

KIND = "apply"
"""Kind of the store's records that hold an :class:`ApplyRecord`."""


class State(StrEnum):
    """How far an apply or a rollback has come."""

    RUNNING = "running"
    WAITING = "waiting for confirm"
    DONE = "done"
    FAILED = "failed"
    REVERTED = "reverted"
    ROLLED_BACK = "rolled back"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class ApplyRecord:
    """One apply or rollback.

    Parameters
    ----------
    wanted
        What every port in its scope was meant to hold, whether it had to be changed or not.
    before
        By port with a step: every setting as it was read before.
    proven
        Ports that were read back as wanted at the end; only these count as the recorded intent.
    failed
        By port: why it is not proven.
    held
        By port: why it was not touched.
    slots
        By device: the pushes that are not confirmed yet.
    deadline
        Unix time at which the first unconfirmed device reverts by itself; None if nothing waits.
    scripts
        Boot scripts by digest.
    undone
        Names of the applies that this rollback takes back.
    kept
        Devices that were told to keep their change; they may have done so whatever became of the run.
    """

    state: State
    plan: Plan
    wanted: Mapping[PortId, Mapping[str, Value]]
    before: Mapping[PortId, Mapping[str, Entry]] = field(default_factory=dict)
    proven: tuple[PortId, ...] = ()
    failed: Mapping[PortId, str] = field(default_factory=dict)
    held: Mapping[PortId, str] = field(default_factory=dict)
    outcomes: tuple[PushOutcome, ...] = ()
    slots: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    deadline: float | None = None
    scripts: Mapping[str, str] = field(default_factory=dict)
    undone: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """A record with the run it belongs to."""

    run: Run
    record: ApplyRecord


class RecordStore(Protocol):
    """What apply needs of the store."""

    def begin(self, kind: RunKind, by: str, inventory: str, *, now: float | None = None) -> Run:
        """Record that a run starts."""
        ...

    def finish(self, run: Run, outcome: Outcome, summary: str, *, now: float | None = None) -> Run:
        """Record how a run ended."""
        ...

    def put_record(self, run_id: str, kind: str, payload: Mapping[str, Any]) -> None:
        """Keep a record with a run."""
        ...

    def update_record(self, run_id: str, kind: str, payload: Mapping[str, Any]) -> None:
        """Put a record in the place of the one that is there."""
        ...

    def records(self, kind: str, inventory: str | None = None) -> tuple[tuple[Run, dict[str, Any]], ...]:
        """Return the records of a kind, the newest first."""
        ...

    def revoke(self, selector: str, by: str, why: str, now: float) -> object:
        """Revoke the certificates of a port."""
        ...


def load(store: RecordStore, inventory: str) -> tuple[Applied, ...]:
    """Return all applies and rollbacks of an inventory, the newest first."""
    return tuple(
        Applied(run, decode(ApplyRecord, payload)) for run, payload in store.records(KIND, inventory)
    )


def keep(store: RecordStore, applied: Applied, *, new: bool = False) -> None:
    """Write a record to the store."""
    payload = encode(applied.record)
    if new:
        store.put_record(applied.run.id, KIND, payload)
    else:
        store.update_record(applied.run.id, KIND, payload)


def in_force(history: Iterable[Applied]) -> dict[PortId, tuple[Run, Settings]]:
    """Return by port what is to hold now, and the apply that said so.

    A later apply overrides an earlier one, port by port; what was never proved or was rolled back does
    not count.

    Parameters
    ----------
    history
        The newest first.
    """
    found: dict[PortId, tuple[Run, Settings]] = {}
    for applied in history:
        if applied.run.kind is not RunKind.APPLY:
            continue
        if applied.record.state not in {State.DONE, State.FAILED}:
            continue
        for port in applied.record.proven:
            found.setdefault(port, (applied.run, applied.record.wanted[port]))
    return found


def wished(history: Iterable[Applied]) -> frozenset[PortId]:
    """Return the ports that an apply which still holds was to set, whether it proved them or not."""
    states = {State.DONE, State.FAILED}
    return frozenset(
        port
        for applied in history
        if applied.run.kind is RunKind.APPLY and applied.record.state in states
        for port in applied.record.wanted
    )


def undoable(history: Sequence[Applied], name: str | None) -> tuple[Applied, ...]:
    """Return the applies to take back to reach the state before `name`: it and all later ones, newest first.

    Parameters
    ----------
    name
        None is the last apply that changed something.

    Raises
    ------
    UsageError
        There is no such apply, or it was taken back already.
    """
    candidates = [
        a
        for a in history
        if a.run.kind is RunKind.APPLY and a.record.before and a.record.state in {State.DONE, State.FAILED}
    ]
    if not candidates:
        raise UsageError("there is no apply to roll back", next_step='see "fabricctl runs"')
    if name is None:
        return (candidates[0],)
    names = [a.run.id for a in candidates]
    if name not in names:
        near = ", ".join(names[:5])
        raise UsageError(f"there is no apply {name!r} to roll back", next_step=f"the newest are: {near}")
    return tuple(candidates[: names.index(name) + 1])


def state_before(
    undone: Sequence[Applied],
) -> tuple[dict[PortId, dict[str, Value]], dict[tuple[PortId, str], Missing]]:
    """Return the settings to restore, and those that had no value that could be restored.

    Parameters
    ----------
    undone
        From :func:`undoable`: what the oldest of them read of a setting is what is restored.
    """
    changed = dict.fromkeys(
        (step.port, step.setting)
        for applied in undone
        for step in applied.record.plan.steps
        if step.port in applied.record.before
    )
    targets: dict[PortId, dict[str, Value]] = {}
    without: dict[tuple[PortId, str], Missing] = {}
    for port, setting in changed:
        # An apply notes all of a port that it changes: also what a later one was the first to set.
        read = (applied.record.before.get(port, {}).get(setting) for applied in reversed(undone))
        first = next((entry for entry in read if entry is not None), Missing("it was not read"))
        if isinstance(first, Known):
            targets.setdefault(port, {})[setting] = first.value
        else:
            without[port, setting] = first
    return {port: values for port, values in targets.items() if values}, without


def find_script(history: Iterable[Applied], digest: str) -> str | None:
    """Return the recorded boot script with that digest."""
    for applied in history:
        if digest in applied.record.scripts:
            return applied.record.scripts[digest]
    return None


def same_wish(history: Iterable[Applied], wanted: Targets) -> bool:
    """Say whether `wanted` is in force already, so that nothing new need be recorded."""
    known = in_force(history)
    return all(port in known and dict(known[port][1]) == dict(values) for port, values in wanted.items())
