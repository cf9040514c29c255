"""Carry out a plan: push in batches and waves, read back, revert what is not proven, confirm what is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl import readback
from fabricctl.apply import compose
from fabricctl.apply.batches import Batch, batches, ports_of, restrict, waves
from fabricctl.apply.compose import Job
from fabricctl.apply.plan import Targets, compare, entry_of
from fabricctl.apply.render import render_port
from fabricctl.apply.show import entry_text, held_lines, mismatch
from fabricctl.errors import FabricctlError
from fabricctl.model import settings
from fabricctl.model.fabric import Device, Fabric
from fabricctl.model.names import PortId
from fabricctl.model.plan import DevicePlan, Plan, PushOutcome, Step
from fabricctl.model.reading import DeviceReading, Known, PortReading
from fabricctl.model.words import count
from fabricctl.plugin.protocols import Driver, PortGoal, Scheduler

Readings = Mapping[str, DeviceReading]


@dataclass(frozen=True, slots=True)
class Tools:
    """The world outside, as functions: what reads, pushes, shows progress, keeps time, and knows of jobs.

    `boot_scripts` returns, of the ports that it is asked about, the boot scripts that lie on the devices now;
    what cannot be read is left out.
    """

    read: Callable[[Sequence[Device]], Readings]
    push: Callable[[Sequence[Job]], Sequence[PushOutcome]]
    report: Callable[[str], None]
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    scheduler: Callable[[], Scheduler | None] = lambda: None
    boot_scripts: Callable[[Sequence[PortId]], Sequence[str]] = lambda ports: ()  # noqa: ARG005  its name says what


@dataclass(frozen=True, slots=True)
class Change:
    """What a rollout is to bring about.

    Parameters
    ----------
    targets
        By port: the settings that prove it.
    context
        By port: the settings that its script is rendered with; the targets and what goes with them.
    scripts
        Boot scripts by digest.
    within_s
        Seconds after which a device reverts by itself unless it is confirmed.
    auto_confirm
        Whether to confirm as soon as a batch is proven.
    held
        By port of the plan: why it is left alone, because of nodes that are in use.
    ask_again
        Says the same of a later batch, just before it begins: jobs start at any time.
    """

    apply_id: str
    fabric: Fabric
    drivers: Mapping[str, Driver]
    plan: Plan
    targets: Targets
    context: Targets
    before: Readings
    scripts: Mapping[str, str]
    within_s: int = 600
    auto_confirm: bool = True
    batch: int = 32
    held: Mapping[PortId, str] = field(default_factory=dict)
    ask_again: Callable[[Batch], Mapping[PortId, str]] = lambda _batch: {}


@dataclass
class Rollout:
    """A rollout at work. Its results are what the flow records.

    Parameters
    ----------
    failed
        By port: why it is not as it should be, and what became of it.
    held
        By port: why it was not touched.
    in_use
        The part of `held` that is so because of nodes that are in use, or of rivals.
    slots
        By device: pushes that are not confirmed.
    armed
        Ports that were pushed, and neither confirmed nor reverted.
    kept
        Devices that were told to keep their change, or are about to be: from then on it may hold.
    deadline
        Unix time at which the first unconfirmed device reverts by itself.
    after
        The last reading of every device that was pushed to.
    """

    change: Change
    tools: Tools
    progress: Callable[[Rollout], None] = lambda _: None
    note: Callable[[Rollout], None] = lambda _: None
    failed: dict[PortId, str] = field(default_factory=dict)
    held: dict[PortId, str] = field(default_factory=dict)
    slots: dict[str, list[int]] = field(default_factory=dict)
    armed: set[PortId] = field(default_factory=set)
    kept: dict[str, None] = field(default_factory=dict)
    deadline: float | None = None
    after: dict[str, DeviceReading] = field(default_factory=dict)
    outcomes: list[PushOutcome] = field(default_factory=list)
    in_use: dict[PortId, str] = field(default_factory=dict)
    _before: dict[str, DeviceReading] = field(init=False)
    _slot: int = 0

    def __post_init__(self) -> None:
        self._before = dict(self.change.before)

    def run(self) -> None:
        """Roll the plan out; a batch that is not proven stops the rest.

        Raises
        ------
        KeyboardInterrupt
            It was stopped; what was not confirmed has been reverted, or will be by its timer.
        """
        self._hold_used(self.change.held)
        self._hold_unread()
        plans = self.change.plan.devices
        sound = restrict(plans, self._sound(ports_of(plans)))
        # Of a device that has a single revert, all that waits to be confirmed has to be one push.
        at_once = () if self.change.auto_confirm else self._whole
        todo = batches(sound, self.change.fabric, self.change.batch, at_once)
        try:
            for number, batch in enumerate(todo, 1):
                if self.failed:
                    self._hold(ports_of(batch), "not attempted: an earlier batch failed")
                    continue
                if len(todo) > 1:
                    self.tools.report(f"batch {number} of {len(todo)}: {len(ports_of(batch))} ports")
                if number > 1:
                    self._hold_used(self.change.ask_again(batch))
                self._batch(batch)
                self.progress(self)
        except BaseException:
            self._abandon()
            raise

    def confirm(self, plans: Batch) -> None:
        """Stop the revert timers of these ports' devices, keep their settings over reboots, and read back."""
        jobs = self._jobs(plans, self._confirm_job)
        self.tools.report(f"confirming {count(len(jobs), 'device')}")
        # Noted before it is done: whatever ends this run, what may be kept from now on can be rolled back.
        self.kept |= dict.fromkeys(job.device.name for job in jobs)
        self.note(self)
        for outcome in self._push(jobs):
            ports = ports_of([p for p in plans if p.device == outcome.device])
            if outcome.ok:
                self._confirmed(outcome.device, ports)
            elif outcome.ports:
                # The timers are stopped; what failed is what the host's network manager was to keep.
                self._confirmed(outcome.device, ports)
                for port in ports:
                    if port.port in outcome.ports:
                        self._fail([port], outcome.ports[port.port])
            elif outcome.tasks:
                # Where nothing was pushed, nothing of ours reverts.
                until = f"; it may revert by itself {self.until()}, or stay and not be saved"
                pushed = outcome.device in self.slots
                self._fail(ports, f"not confirmed: {outcome.message}{until if pushed else ''}")
            else:
                self._fail(ports, f"not confirmed, it reverts by itself {self.until()}: {outcome.message}")
        if not self.slots:
            self.deadline = None
        self._read_back(plans, boot=True)

    def _confirmed(self, device: str, ports: Iterable[PortId]) -> None:
        self.slots.pop(device, None)
        self.armed.difference_update(ports)

    def _batch(self, batch: Batch) -> None:
        if self.change.auto_confirm:
            # A revert leads back to what earlier batches have set and kept: ports share settings.
            self._before = {**self.change.before, **self.after}
        pushed: set[PortId] = set()
        for wave in waves(batch, self.change.fabric, self._whole):
            pushed |= self._wave(restrict(wave, self._sound(ports_of(wave))))
        self._read_back(restrict(batch, pushed), boot=False)
        self._revert([p for p in self.failed if p in self.armed])
        self._leave_to_timers()
        if self.change.auto_confirm:
            sound = restrict(batch, self._sound(ports_of(batch)))
            if sound:
                self.confirm(sound)

    def _leave_to_timers(self) -> None:
        """Give up devices on which a port could not be reverted: to confirm them would stop its timer."""
        stuck = {port.device for port in self.armed if port in self.failed}
        if not stuck:
            return
        ports = sorted(self.armed, key=str)
        why = f"left to the device's timer, which reverts it {self.until()}: another port is not reverted"
        self._fail([p for p in self._sound(ports) if p.device in stuck], why)
        self._stop_far_ends()
        self._revert([p for p in ports if p in self.failed and p in self.armed and p.device not in stuck])

    def _wave(self, wave: Batch) -> set[PortId]:
        if not wave:
            return set()
        ports = ports_of(wave)
        names = [plan.device for plan in wave]
        self.tools.report(f"setting {count(len(ports), 'port')} on {_few(names)}")
        self._slot += 1
        jobs = self._jobs(wave, self._push_job)
        told = {job.device.name for job in jobs}
        ports = tuple(port for port in ports if port.device in told)
        if self.deadline is None:
            self.deadline = self.tools.now() + self.change.within_s
        for name in told:
            self.slots.setdefault(name, []).append(self._slot)
        self.armed.update(ports)
        for outcome in self._push(jobs):
            mine = [p for p in ports if p.device == outcome.device]
            if outcome.ok:
                continue
            if outcome.ports:
                for port in mine:
                    if port.port in outcome.ports:
                        self._fail([port], outcome.ports[port.port])
            else:
                self._fail(mine, outcome.message)
        self._stop_far_ends()
        return set(ports)

    def _read_back(self, plans: Batch, *, boot: bool) -> None:
        if not plans:
            return
        names = list(dict.fromkeys(plan.device for plan in plans))
        self.tools.report(f"reading back {_few(names)}")
        self._read(names)
        ports = [p for p in ports_of(plans) if p not in self.failed]
        found = compare(
            self.change.fabric,
            {port: self.change.targets[port] for port in ports},
            {name: self.after[name] for name in names},
            self.change.drivers,
        )
        for port in ports:
            why = found.unread.get(port.device) or found.unread_ports.get(port)
            if why:
                self._fail([port], f"could not be read back: {why}")
            steps = [s for s in found.steps if s.port == port and (boot or s.setting not in settings.KEPT)]
            if steps:
                self._fail([port], "; ".join(mismatch(step) for step in steps))
        if not boot:
            self._stop_far_ends()

    def _revert(self, ports: Sequence[PortId]) -> None:
        """Undo the unconfirmed change on `ports` now, and see that it is undone."""
        if not ports:
            return
        names = list(dict.fromkeys(port.device for port in ports))
        self.tools.report(f"reverting {_few([str(port) for port in ports])}")
        jobs = [self._revert_job(name, [p.port for p in ports if p.device == name]) for name in names]
        outcomes = {outcome.device: outcome for outcome in self._push(jobs)}
        self._read(names)
        for port in ports:
            wrong = self._not_undone(port)
            if not wrong:
                self.armed.discard(port)
                self.failed[port] += f" ({self._what_is_restored(port)})"
                continue
            self.failed[port] += f" (NOT reverted: {self._why_not(outcomes[port.device], wrong)})"
            if outcomes[port.device].ok:
                self.armed.discard(port)  # its timer is gone with its undo
        for name in names:
            if not any(port.device == name for port in self.armed):
                self.slots.pop(name, None)

    def _abandon(self) -> None:
        touched = [port for port in ports_of(self.change.plan.devices) if port in self.armed]
        for port in touched:
            self.failed.setdefault(port, "interrupted")
        try:
            self._revert(touched)
            for line in held_lines({port: self.failed[port] for port in touched}):
                self.tools.report(line)
            if self.kept:
                self.tools.report(f"changed and kept, or about to be: {_few(list(self.kept))}")
        except KeyboardInterrupt:
            self.tools.report(f"what was not confirmed is reverted by the devices themselves {self.until()}")

    def until(self) -> str:
        """Return when the first unconfirmed device reverts by itself, as ``at 14:03:20``."""
        if self.deadline is None:
            return "at once"
        return f"at {time.strftime('%H:%M:%S', time.localtime(self.deadline))}"

    # What is sent

    def _push(self, jobs: Sequence[Job]) -> Sequence[PushOutcome]:
        outcomes = self.tools.push(jobs)
        self.outcomes += outcomes
        return outcomes

    def _jobs(self, plans: Batch, job: Callable[[DevicePlan], Job]) -> list[Job]:
        """Compose what is sent to each device; what cannot be composed fails its own ports alone."""
        found = []
        for plan in plans:
            try:
                found.append(job(plan))
            except FabricctlError as exc:
                self._fail(ports_of([plan]), str(exc))
        return found

    def _push_job(self, plan: DevicePlan) -> Job:
        device = self.change.fabric.device(plan.device)
        goals = [self._goal(port, [s for s in plan.steps if s.port == port]) for port in ports_of([plan])]
        name, within_s = self.change.apply_id, self.change.within_s
        method = self.change.drivers[device.name].method
        if method is not None:
            return Job(device, method.push(name, self._slot, goals, within_s))
        changes = [_port_change(device, goal) for goal in goals]
        return Job(device, compose.push_script(name, self._slot, changes, within_s))

    def _goal(self, port: PortId, steps: Sequence[Step]) -> PortGoal:
        # All that was read: to restore a setting, a template may have to know others that go with it. What is
        # not known cannot be restored.
        read = self._before[port.device].ports.get(port, PortReading(port, {})).settings
        return PortGoal(
            port=self.change.fabric.port(port),
            names=tuple(step.setting for step in steps),
            wanted={k: v for k, v in self.change.context[port].items() if k not in settings.KEPT},
            before={k: e.value for k, e in read.items() if isinstance(e, Known) and k not in settings.KEPT},
        )

    def _confirm_job(self, plan: DevicePlan) -> Job:
        device = self.change.fabric.device(plan.device)
        method = self.change.drivers[device.name].method
        if method is not None:
            return Job(device, method.confirm(self.change.apply_id, self.slots.get(plan.device, [])))
        keep: dict[str, str] = {}
        forget = []
        managed: dict[str, str] = {}
        for step in plan.steps:
            if step.setting == settings.MTU_KEPT:
                rdma, only = self.change.fabric.port(step.port).rdma, {step.setting: step.new}
                managed[step.port.port] = render_port(device.role, device.driver, step.port.port, rdma, only)
            elif step.setting == settings.BOOT and step.new == settings.NOT_KEPT:
                forget.append(step.port.port)
            elif step.setting == settings.BOOT:
                keep[step.port.port] = self.change.scripts[str(step.new)]
        slots = self.slots.get(plan.device, [])
        script = compose.confirm_script(self.change.apply_id, slots, keep, forget, managed)
        return Job(device, script)

    def _revert_job(self, name: str, ports: Sequence[str]) -> Job:
        return revert_job(self.change.fabric.device(name), self.change.apply_id, ports)

    # What is concluded

    def _read(self, names: Sequence[str]) -> None:
        self.after.update(self.tools.read([self.change.fabric.device(name) for name in names]))

    def _not_undone(self, port: PortId) -> str:
        reading = self.after.get(port.device)
        for step in self.change.plan.steps:
            old = entry_of(self._before.get(port.device), port, step.setting)
            if step.port != port or step.setting in settings.KEPT or not isinstance(old, Known):
                continue
            entry = entry_of(reading, port, step.setting)
            if entry != old:
                return f"{step.setting} is {entry_text(step.setting, entry)}"
        return ""

    def _why_not(self, outcome: PushOutcome, wrong: str) -> str:
        if outcome.ok and outcome.device in self.kept:
            return f'{wrong}: it was kept already; "fabricctl rollback" takes it back'
        if outcome.ok:
            return f"{wrong}, though its script says that it did; set it by hand"
        return f"{outcome.message or wrong}; its timer reverts it {self.until()}"

    def _what_is_restored(self, port: PortId) -> str:
        steps = [s for s in self.change.plan.steps if s.port == port and s.setting not in settings.KEPT]
        # What had no value and has none again, for the same reason, is as it was.
        reading, before = self.after.get(port.device), self._before.get(port.device)
        old = {s.setting: entry_of(before, port, s.setting) for s in steps}
        lost = [
            name
            for name, entry in old.items()
            if not isinstance(entry, Known) and entry_of(reading, port, name) != entry
        ]
        if not lost:
            return "reverted, and read back so"
        return f"reverted except {', '.join(lost)}: what that was is not known"

    def _sound(self, ports: Iterable[PortId]) -> list[PortId]:
        return [port for port in ports if port not in self.failed and port not in self.held]

    def _fail(self, ports: Iterable[PortId], why: str) -> None:
        for port in ports:
            self.failed.setdefault(port, why)

    def _hold(self, ports: Iterable[PortId], why: str) -> None:
        for port in ports:
            self.held.setdefault(port, why)

    def _hold_used(self, found: Mapping[PortId, str]) -> None:
        new = {port: why for port, why in found.items() if port not in self.held and port not in self.failed}
        self.held.update(new)
        self.in_use.update(new)

    def _hold_unread(self) -> None:
        plan, fabric = self.change.plan, self.change.fabric
        of_devices = {p.id: why for name, why in plan.unread.items() for p in fabric.device(name).ports}
        planned = set(ports_of(plan.devices))
        for port, why in {**of_devices, **plan.unread_ports}.items():
            peer = fabric.peer(port)
            if peer in planned:
                self._hold([peer], f"not attempted: its link's other end {port} could not be read: {why}")

    def _stop_far_ends(self) -> None:
        """Fail the other ends of failed ports: a link with one end changed is worse than one with none.

        A device that can only be taken back as a whole fails with all its ports that were touched.
        """
        planned = set(ports_of(self.change.plan.devices))
        todo = list(self.failed)
        while todo:
            port = todo.pop()
            peer = self.change.fabric.peer(port)
            found: dict[PortId, str] = (
                {peer: f"its link's other end {port} failed"} if peer in planned else {}
            )
            if port in self.armed and port.device in self._whole:
                why = f"{port} failed, and {port.device} can only be taken back as a whole"
                found |= {other: why for other in self.armed if other.device == port.device}
            new = {each: why for each, why in found.items() if each not in self.held | self.failed}
            for each, why in new.items():
                self._fail([each], why)
            todo += new

    @property
    def _whole(self) -> frozenset[str]:
        methods = {name: driver.method for name, driver in self.change.drivers.items()}
        return frozenset(name for name, method in methods.items() if method is not None and method.whole)


def revert_job(device: Device, apply_id: str, ports: Sequence[str] = ()) -> Job:
    """Return what undoes an unconfirmed change of a device now; of all its ports if none is named."""
    method = readback.driver_of(device).method
    revert = compose.revert_script if method is None else method.revert
    return Job(device, revert(apply_id, ports))


def _port_change(device: Device, goal: PortGoal) -> compose.PortChange:
    name, rdma = goal.port.id.port, goal.port.rdma
    return compose.PortChange(
        port=name,
        script=render_port(device.role, device.driver, name, rdma, goal.wanted),
        names=goal.names,
        undo=render_port(device.role, device.driver, name, rdma, goal.before),
        undo_names=tuple(setting for setting in goal.names if setting in goal.before),
    )


def _few(names: Sequence[str]) -> str:
    shown = 4
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")
