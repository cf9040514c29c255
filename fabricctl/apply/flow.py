"""Plan and apply: intent, reading, plan, push, read back, record."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fabricctl import readback
from fabricctl.apply.batches import Batch
from fabricctl.apply.carry import SAFETY_S, Result, all_held, carry_out, refuse_if_waiting, settle
from fabricctl.apply.disruption import DRAIN_FIRST, STILL_SO, disturbed, holds, nodes_of, rivalled
from fabricctl.apply.drains import Drain
from fabricctl.apply.intent import intents
from fabricctl.apply.plan import Targets, boot_script, compare, make_plan, refusal, wanted_settings
from fabricctl.apply.proof import Judged, faults, judge
from fabricctl.apply.record import Applied, ApplyRecord, RecordStore, State, keep, load, same_wish
from fabricctl.apply.rollout import Change, Readings, Tools
from fabricctl.apply.show import judged_lines
from fabricctl.apply.usage import with_use
from fabricctl.errors import FabricctlError, UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import Device, Fabric
from fabricctl.model.names import PortId
from fabricctl.model.plan import Plan
from fabricctl.model.policy import Policy, Stance
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Outcome
from fabricctl.model.words import count
from fabricctl.plugin.protocols import Driver
from fabricctl.store.lock import hold

_STALE_S = 5.0
"""After so long a think the scheduler is asked again: jobs start at any time."""


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
    disrupt
        Disturb nodes that are in use.
    drain_wait_s
        None: hold what would disturb nodes in use. Else drain these nodes and wait that long for their jobs.
    """

    limit: tuple[str, ...] = ()
    batch: int = 32
    confirm_within_s: int | None = None
    disrupt: bool = False
    drain_wait_s: int | None = None


@dataclass(frozen=True)
class Prepared:
    """A plan with all that it follows from."""

    plan: Plan
    targets: Targets
    readings: Readings
    drivers: Mapping[str, Driver]
    judged: Judged


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
    tools.report(f"reading {count(len(devices), 'device')}{left_out}")
    readings = tools.read(devices)
    drivers = {device.name: readback.driver_of(device) for device in devices}
    meant = intents(fabric, policy)
    targets = wanted_settings(fabric, meant, readings, drivers)
    plan = with_use(make_plan(fabric, meant, readings, drivers), fabric, tools)
    for line in _one_ended(plan, fabric, readings):
        tools.report(line)
    return Prepared(plan, targets, readings, drivers, judge(fabric, policy, meant, readings, plan))


def _one_ended(plan: Plan, fabric: Fabric, readings: Readings) -> Iterator[str]:
    """Yield a line if links are changed at one end while their other end, which has a driver, is left out."""
    changed = dict.fromkeys(step.port for step in plan.steps if step.setting not in settings.KEPT)
    ends = [(port, peer) for port in changed if (peer := fabric.peer(port)) and peer.device not in readings]
    ends = [(port, peer) for port, peer in ends if fabric.device(peer.device).driver]
    if ends:
        more = f" and {len(ends) - 1} more" if len(ends) > 1 else ""
        names = ",".join(dict.fromkeys(peer.device for _, peer in ends))
        yield (
            f"changed at one end only: {ends[0][0]} - {ends[0][1]}{more}; "
            f"for both ends add {names} to --limit"
        )


def select(fabric: Fabric, limit: Sequence[str]) -> tuple[Device, ...]:
    """Return the devices with a driver that `limit` names (patterns as the shell's); all if it is empty.

    A device without a driver (InfiniBand, whose subnet manager sets it) is not ours to set.

    Raises
    ------
    UsageError
        A name or a pattern fits no device, or none of the devices has a driver.
    """
    chosen = fabric.named(limit)
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
    _check(options, tools)
    with hold(fabric.source, "apply"):
        refuse_if_waiting(settle(fabric, store, tools))
        site = _Site(fabric, policy, options, tools, store)
        prepared = _prepare(site)
        for line in judged_lines(prepared.judged, prepared.plan.unknown):
            tools.report(line)
        if not prepared.plan.steps:
            return _nothing_to_do(fabric, prepared, store)
        shown_at = tools.now()
        if not agree(prepared.plan):
            return None
        if options.drain_wait_s is not None:
            return _apply_drained(site, prepared, agree)
        if tools.now() - shown_at > _STALE_S:
            prepared = replace(prepared, plan=with_use(prepared.plan, fabric, tools))
        return _roll_out(site, prepared, DRAIN_FIRST)


@dataclass(frozen=True)
class _Site:
    """What an apply works on and with."""

    fabric: Fabric
    policy: Policy
    options: Options
    tools: Tools
    store: RecordStore


def _check(options: Options, tools: Tools) -> None:
    if options.drain_wait_s is None:
        return
    if options.disrupt:
        raise UsageError("--drain and --disrupt are opposites", next_step="choose one")
    if options.confirm_within_s is not None:
        step = "--drain proves it by read-back and verify; leave --confirm-within out"
        raise UsageError("--drain cannot wait to be confirmed", next_step=step)
    if tools.scheduler() is None:
        step = "name one in fabric_scheduler, or drain by hand and leave --drain out"
        raise UsageError("there is no scheduler here to drain nodes with", next_step=step)


def _prepare(site: _Site) -> Prepared:
    prepared = prepare(site.fabric, site.policy, site.options.limit, site.tools)
    if prepared.plan.unsupported and site.policy.unsupported is Stance.REFUSE:
        step = 'set "unsupported: warn" in the policy to apply the rest'
        where = site.policy.source or site.policy.name
        raise FabricctlError(refusal(prepared.plan), where=where, next_step=step)
    return prepared


def _roll_out(site: _Site, prepared: Prepared, advice: str, run: Run | None = None) -> Result:
    """Push what may be pushed now; `run` is a new one unless it has begun."""
    plan, fabric, store = prepared.plan, site.fabric, site.store
    held = {**({} if site.options.disrupt else holds(plan, fabric, advice)), **rivalled(plan, fabric)}
    if all(step.port in held for step in plan.steps):
        return replace(all_held(plan, held, prepared.targets, run, store), faults=prepared.judged.left)
    in_the_way = dict.fromkeys(plan.in_use.values()) if site.options.disrupt else ()
    disturbs = tuple(f"--disrupt: {why} ({plan.scheduler})" for why in in_the_way)
    for line in disturbs:
        site.tools.report(line)
    run = run or store.begin(RunKind.APPLY, getpass.getuser(), fabric.source)
    wait = site.options.confirm_within_s
    change = Change(
        apply_id=run.id,
        fabric=fabric,
        drivers=prepared.drivers,
        plan=plan,
        targets=prepared.targets,
        context=prepared.targets,
        before=prepared.readings,
        scripts=_scripts(fabric, prepared),
        within_s=SAFETY_S if wait is None else wait,
        auto_confirm=wait is None,
        batch=site.options.batch,
        held=held,
        ask_again=lambda batch: _in_use(site, batch, advice),
    )
    result = carry_out(change, run, site.tools, store)
    rest = replace(compare(fabric, prepared.targets, result.readings, prepared.drivers), rivals=plan.rivals)
    meant = intents(fabric, site.policy)
    wrong = faults(fabric, site.policy, meant, result.readings, plan, rest)
    return replace(result, notes=(*result.notes, *disturbs), faults=wrong)


def _in_use(site: _Site, batch: Batch, advice: str) -> dict[PortId, str]:
    """Return which ports of a later batch are in use by now."""
    if site.options.disrupt:
        return {}
    return holds(with_use(Plan(batch), site.fabric, site.tools), site.fabric, advice)


def _apply_drained(site: _Site, agreed: Prepared, agree: Callable[[Plan], bool]) -> Result | None:
    """Drain the nodes that the plan disturbs, wait until they are free, read again, and apply."""
    nodes = nodes_of(disturbed(agreed.plan, site.fabric))
    scheduler = site.tools.scheduler()
    if not nodes or scheduler is None:
        return _roll_out(site, agreed, DRAIN_FIRST)
    run = site.store.begin(RunKind.APPLY, getpass.getuser(), site.fabric.source)
    drain = Drain(site.fabric, site.tools, site.store, scheduler, run.id)
    try:
        drain.wait(drain.take(nodes), site.options.drain_wait_s or 0)
        prepared = _read_again(site, agreed, agree)
    except BaseException:
        drain.abandon()
        site.store.finish(run, Outcome.UNKNOWN, "broken off before anything was changed")
        raise
    if prepared is None or not prepared.plan.steps:
        drain.abandon()
        site.store.finish(run, Outcome.UNKNOWN, "nothing was changed")
        return None if prepared is None else _nothing_to_do(site.fabric, prepared, site.store)
    try:
        result = _roll_out(site, prepared, STILL_SO, run)
    except BaseException:
        drain.report_left("the apply was broken off")
        raise
    return replace(result, drain=drain.result())


def _read_again(site: _Site, agreed: Prepared, agree: Callable[[Plan], bool]) -> Prepared | None:
    """Return what is to be done after a wait; None if it is something else and not agreed to."""
    prepared = _prepare(site)
    if prepared.plan.steps == agreed.plan.steps or not prepared.plan.steps:
        return prepared
    site.tools.report("the devices are not as they were before the wait: the plan is another one")
    return prepared if agree(prepared.plan) else None


def _scripts(fabric: Fabric, prepared: Prepared) -> dict[str, str]:
    """Return by digest the boot scripts that the plan installs."""
    found = {}
    for step in prepared.plan.steps:
        if step.setting == settings.BOOT and step.new != settings.SAVED:
            device, port = fabric.device(step.port.device), fabric.port(step.port)
            found[str(step.new)] = boot_script(device, port, prepared.targets[step.port])
    return found


def _nothing_to_do(fabric: Fabric, prepared: Prepared, store: RecordStore) -> Result:
    """Record what is in force from now on, if that is new; nothing is contacted."""
    read = {port: v for port, v in prepared.targets.items() if not prepared.plan.is_unread(port)}
    run = None
    if read and not same_wish(load(store, fabric.source), read):
        run = store.begin(RunKind.APPLY, getpass.getuser(), fabric.source)
        keep(store, Applied(run, ApplyRecord(State.DONE, prepared.plan, read, proven=tuple(read))), new=True)
        store.finish(run, Outcome.PASS, "nothing to change: the intent is recorded")
    total = sum(len(values) for values in prepared.targets.values())
    pending = prepared.plan.pending
    proven = sum(len(values) for values in read.values()) - len(pending)
    wrong = prepared.judged.left
    # Where no device could be read, nothing is known to be done.
    state = State.DONE if read or not prepared.plan.unknown else State.HELD
    return Result(run, state, prepared.plan, proven=proven, total=total, pending=pending, faults=wrong)
