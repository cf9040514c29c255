"""Compare what the devices hold now with what the last apply proved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl import readback
from fabricctl.apply.carry import clock, waiting
from fabricctl.apply.flow import select
from fabricctl.apply.plan import compare, rivals_of
from fabricctl.apply.record import Applied, in_force, wished
from fabricctl.apply.rollout import Readings, Tools
from fabricctl.apply.show import deviation, kept_note
from fabricctl.errors import UsageError
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PortId
from fabricctl.model.plan import Pending
from fabricctl.model.reading import Entry, Known, Value
from fabricctl.model.words import count


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that is not as an apply proved it.

    Parameters
    ----------
    since
        Name of the apply whose intent is in force.
    manager
        The network manager that brings the port up at boot; empty if it is not known.
    """

    port: PortId
    setting: str
    wanted: Value
    found: Entry
    since: str
    manager: str = ""


@dataclass(frozen=True)
class Drift:
    """What differs, what could not be read, and what nobody has applied yet.

    Parameters
    ----------
    checked
        Settings that were read and compared.
    unread
        By device or port: why it could not be read.
    never
        Ports of the inventory that no apply in force has proved.
    unproven
        Those among them that an apply was to set: how they are is not known to be as it was meant.
    pending
        What is stored as it was applied and waits for a reset.
    rivals
        By port that differs: who else sets the same things.
    """

    checked: int
    differences: tuple[Difference, ...]
    unread: dict[str, str]
    never: tuple[PortId, ...]
    unproven: tuple[PortId, ...] = ()
    pending: tuple[Pending, ...] = ()
    rivals: Mapping[PortId, tuple[str, ...]] = field(default_factory=dict)


def drift(fabric: Fabric, history: Iterable[Applied], limit: Sequence[str], tools: Tools) -> Drift:
    """Read the devices and compare them with the recorded intent.

    Raises
    ------
    UsageError
        No apply of this inventory is in force.
    """
    history = tuple(history)
    held = waiting(history)
    if held is not None:
        until = clock(held.record.deadline)
        tools.report(f"{held.run.id} waits to be confirmed until {until}: compared with what held before it")
    known = {port: v for port, v in in_force(history).items() if fabric.has_device(port.device)}
    if not known:
        raise UsageError(
            "nothing is recorded for this inventory: no apply is in force",
            where=fabric.source,
            next_step='run "fabricctl apply", or compare with the policy: "fabricctl plan"',
        )
    devices = select(fabric, limit)
    tools.report(f"reading {count(len(devices), 'device')}")
    readings = tools.read(devices)
    drivers = {device.name: readback.driver_of(device) for device in devices}
    ports = [port.id for device in devices for port in device.ports]
    targets = {port: known[port][1] for port in ports if port in known}
    found = compare(fabric, targets, readings, drivers)
    meant = wished(history)
    return Drift(
        checked=sum(len(v) for port, v in targets.items() if not found.is_unread(port)),
        differences=tuple(
            Difference(s.port, s.setting, s.new, s.old, known[s.port][0].id, _manager(readings, s.port))
            for s in found.steps
        ),
        unread=found.unknown,
        never=tuple(port for port in ports if port not in known),
        unproven=tuple(port for port in ports if port not in known and port in meant),
        pending=found.pending,
        rivals={
            port: rivals
            for port in dict.fromkeys(step.port for step in found.steps)
            if (rivals := rivals_of(readings[port.device], port))
        },
    )


def _manager(readings: Readings, port: PortId) -> str:
    match readings[port.device].ports[port].facts.get(facts.NETWORK_MANAGER):
        case Known(str(name)):
            return name
        case _:
            return ""


def line(item: Difference) -> str:
    """Return ``node2/eth1 pfc_priorities: should be 3, is none (since apply a2026...)``."""
    text = deviation(item.setting, item.wanted, item.found)
    if item.setting == settings.MTU_KEPT:
        text += kept_note(item.found, item.manager)
    return f"{item.port} {item.setting}: {text} (since apply {item.since})"
