"""Plan and apply: intent, reading, plan, push, read back, record."""

from __future__ import annotations

import fnmatch
import getpass
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from fabricctl import readback
from fabricctl.apply.carry import SAFETY_S, Result, carry_out, refuse_if_waiting, settle
from fabricctl.apply.intent import intents
from fabricctl.apply.plan import Targets, boot_script, make_plan, refusal, wanted_settings
from fabricctl.apply.record import Applied, ApplyRecord, RecordStore, State, keep, load, same_wish
from fabricctl.apply.rollout import Change, Readings, Tools
from fabricctl.errors import FabricctlError, UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import Device, Fabric
from fabricctl.model.plan import Plan
from fabricctl.model.policy import Policy, Stance
from fabricctl.model.run import RunKind
from fabricctl.model.verdict import Outcome
from fabricctl.plugin.protocols import Driver
from fabricctl.store.lock import hold


@dataclass(frozen=True, slots=True)
class Options:
    """How an apply is carried out.

    Parameters
    ----------
    limit
        Device names or patterns; empty is all.
    batch
        Nodes that are changed at the same time, at least 1.
    confirm_within_s
        None: confirm as soon as the read-back proves it. Else wait for ``fabricctl confirm`` that long.
    """

    limit: tuple[str, ...] = ()
    batch: int = 32
    confirm_within_s: int | None = None


@dataclass(frozen=True)
class Prepared:
    """A plan with all that it follows from."""

    plan: Plan
    targets: Targets
    readings: Readings
    drivers: Mapping[str, Driver]


def prepare(fabric: Fabric, policy: Policy, limit: Sequence[str], tools: Tools) -> Prepared:
    """Read the devices and return what differs from the policy.

    Raises
    ------
    UsageError
        `limit` names a device that the inventory does not have.
    """
    devices = select(fabric, limit)
    without = len(fabric.devices) - len(devices)
    left_out = f"; {without} devices are left out (no driver, or not in --limit)" if without else ""
    tools.report(f"reading {len(devices)} devices{left_out}")
    readings = tools.read(devices)
    drivers = {device.name: readback.driver_of(device) for device in devices}
    meant = intents(fabric, policy)
    targets = wanted_settings(fabric, meant, readings, drivers)
    return Prepared(make_plan(fabric, meant, readings, drivers), targets, readings, drivers)


def select(fabric: Fabric, limit: Sequence[str]) -> tuple[Device, ...]:
    """Return the devices with a driver that `limit` names (patterns as the shell's); all if it is empty.

    A device without a driver (InfiniBand, whose subnet manager sets it) is not ours to set.

    Raises
    ------
    UsageError
        A name or a pattern fits no device, or none of the devices has a driver.
    """
    names = [device.name for device in fabric.devices]
    for pattern in limit:
        if not fnmatch.filter(names, pattern):
            near = get_close_matches(pattern, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names[:5])}, ..."
            raise UsageError(f"no device of the inventory is called {pattern!r}", next_step=hint)
    chosen = [d for d in fabric.devices if not limit or any(fnmatch.fnmatchcase(d.name, p) for p in limit)]
    ours = tuple(d for d in chosen if d.driver)
    if not ours:
        raise UsageError(
            f"none of these {len(chosen)} devices has a driver, so there is nothing to set or to read back",
            next_step='give them a fabric_driver in the inventory; "fabricctl verify" works without one',
        )
    return ours


def apply(
    fabric: Fabric,
    policy: Policy,
    options: Options,
    tools: Tools,
    store: RecordStore,
    agree: Callable[[Plan], bool],
) -> Result | None:
    """Bring the fabric to what the policy says, prove it, and record it.

    Parameters
    ----------
    agree
        Shown the plan before anything is changed; False leaves everything as it is (the result is None).

    Raises
    ------
    BusyError
        Another run is at work on this inventory, or an apply waits to be confirmed.
    FabricctlError
        The policy refuses settings that devices cannot have.
    """
    with hold(fabric.source, "apply"):
        refuse_if_waiting(settle(fabric, store, tools))
        prepared = prepare(fabric, policy, options.limit, tools)
        if prepared.plan.unsupported and policy.unsupported is Stance.REFUSE:
            step = 'set "unsupported: warn" in the policy to apply the rest'
            raise FabricctlError(refusal(prepared.plan), where=policy.source or policy.name, next_step=step)
        if not prepared.plan.steps:
            return _nothing_to_do(fabric, prepared, store)
        if not agree(prepared.plan):
            return None
        run = store.begin(RunKind.APPLY, getpass.getuser(), fabric.source)
        wait = options.confirm_within_s
        change = Change(
            apply_id=run.id,
            fabric=fabric,
            drivers=prepared.drivers,
            plan=prepared.plan,
            targets=prepared.targets,
            context=prepared.targets,
            before=prepared.readings,
            scripts=_scripts(fabric, prepared),
            within_s=SAFETY_S if wait is None else wait,
            auto_confirm=wait is None,
            batch=options.batch,
        )
        return carry_out(change, run, tools, store)


def _scripts(fabric: Fabric, prepared: Prepared) -> dict[str, str]:
    """Return by digest the boot scripts that the plan installs."""
    found = {}
    for step in prepared.plan.steps:
        if step.setting == settings.BOOT:
            device, port = fabric.device(step.port.device), fabric.port(step.port)
            found[str(step.new)] = boot_script(device, port, prepared.targets[step.port])
    return found


def _nothing_to_do(fabric: Fabric, prepared: Prepared, store: RecordStore) -> Result:
    """Record what is in force from now on, if that is new; nothing is contacted."""
    read = {port: v for port, v in prepared.targets.items() if port.device not in prepared.plan.unread}
    run = None
    if read and not same_wish(load(store, fabric.source), read):
        run = store.begin(RunKind.APPLY, getpass.getuser(), fabric.source)
        keep(store, Applied(run, ApplyRecord(State.DONE, prepared.plan, read, proven=tuple(read))), new=True)
        store.finish(run, Outcome.PASS, "nothing to change: the intent is recorded")
    total = sum(len(values) for values in prepared.targets.values())
    pending = prepared.plan.pending
    proven = sum(len(values) for values in read.values()) - len(pending)
    return Result(run, State.DONE, prepared.plan, proven=proven, total=total, pending=pending)
