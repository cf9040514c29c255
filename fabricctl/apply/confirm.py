"""Keep an apply that waits to be confirmed."""

from __future__ import annotations

from dataclasses import replace

from fabricctl import readback
from fabricctl.apply.batches import ports_of, restrict
from fabricctl.apply.carry import Result, clock, close, settle, waiting
from fabricctl.apply.record import Applied, RecordStore, State
from fabricctl.apply.rollout import Change, Rollout, Tools
from fabricctl.errors import UsageError
from fabricctl.model.fabric import Fabric
from fabricctl.store.lock import hold


def confirm(fabric: Fabric, name: str | None, tools: Tools, store: RecordStore) -> Result:
    """Stop the devices' revert timers, keep their settings over reboots, and prove it by reading back.

    Parameters
    ----------
    name
        The apply to confirm; None is the one that waits.

    Raises
    ------
    UsageError
        No apply waits, or not the one that is named.
    BusyError
        Another run is at work on this inventory.
    """
    with hold(fabric.source, "confirm"):
        history = settle(fabric, store, tools)
        applied = waiting(history)
        if applied is None or name not in {None, applied.run.id}:
            raise _not_waiting(history, name)
        record = applied.record
        devices = [d for d in fabric.devices if any(p.id in record.wanted for p in d.ports)]
        known = {port.id for device in devices for port in device.ports}
        bad = set(record.failed) | set(record.held)
        change = Change(
            apply_id=applied.run.id,
            fabric=fabric,
            drivers={device.name: readback.driver_of(device) for device in devices},
            plan=record.plan,
            targets={port: values for port, values in record.wanted.items() if port in known},
            context={},
            before=tools.read(devices),
            scripts=record.scripts,
        )
        rollout = Rollout(
            change,
            tools,
            failed=dict(record.failed),
            held=dict(record.held),
            slots={device: list(slots) for device, slots in record.slots.items()},
            deadline=record.deadline,
        )
        plans = restrict(record.plan.devices, [p for p in ports_of(record.plan.devices) if p in known - bad])
        rollout.confirm(plans)
        return close(applied.run, replace(record, state=State.RUNNING), rollout, store)


def _not_waiting(history: tuple[Applied, ...], name: str | None) -> UsageError:
    for applied in history:
        if name in {None, applied.run.id}:
            state = applied.record.state
            at = (
                f" (it had to be confirmed by {clock(applied.record.deadline)})"
                if applied.record.deadline
                else ""
            )
            return UsageError(
                f"{applied.run.id} does not wait to be confirmed: it is {state}{at}",
                next_step='"fabricctl plan" shows what the devices lack now',
            )
    return UsageError(
        f"there is no apply {name!r}" if name else "nothing was applied yet", next_step='see "fabricctl runs"'
    )
