"""Compare what is meant with what was read: the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fabricctl.apply.render import digest, render_port
from fabricctl.model import settings
from fabricctl.model.fabric import Device, Fabric, Port
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import DevicePlan, Disruption, Plan, Step, Unsupported
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading, Value
from fabricctl.plugin.protocols import Driver

Settings = Mapping[str, Value]
Targets = Mapping[PortId, Settings]
"""By port: the settings it is to have."""


def make_plan(
    fabric: Fabric,
    intents: Mapping[PortId, PortIntent],
    readings: Mapping[str, DeviceReading],
    drivers: Mapping[str, Driver],
) -> Plan:
    """Return the steps from the readings to the intents; an empty plan means that all is as intended.

    Parameters
    ----------
    readings
        By device; devices without one are left out of the plan.
    drivers
        By device.
    """
    targets = wanted_settings(fabric, intents, tuple(readings), drivers)
    plan = compare(fabric, targets, readings, drivers)
    return replace(plan, unsupported=_unsupported(fabric, intents, readings, drivers))


def wanted_settings(
    fabric: Fabric,
    intents: Mapping[PortId, PortIntent],
    devices: tuple[str, ...],
    drivers: Mapping[str, Driver],
) -> dict[PortId, dict[str, Value]]:
    """Return what the ports of `devices` are to hold, ``boot`` included, without what they cannot have."""
    targets = {}
    for name in devices:
        device, driver = fabric.device(name), drivers[name]
        for port in device.ports:
            intent = intents.get(port.id)
            if intent is None:
                continue
            wanted = {k: v for k, v in driver.wanted(intent).items() if k not in driver.unsupported}
            if wanted and settings.BOOT not in driver.unsupported:
                wanted[settings.BOOT] = digest(boot_script(device, port, wanted))
            targets[port.id] = wanted
    return targets


def boot_script(device: Device, port: Port, wanted: Settings) -> str:
    """Return the script that keeps `wanted` on a port over reboots."""
    return render_port(device.role, device.driver, port.id.port, port.rdma, wanted)


def compare(
    fabric: Fabric,
    targets: Targets,
    readings: Mapping[str, DeviceReading],
    drivers: Mapping[str, Driver],
) -> Plan:
    """Return the steps from the readings to the targets, for every device that was read."""
    plans = []
    unread = {}
    for name, reading in readings.items():
        device = fabric.device(name)
        wanted = {p.id: targets[p.id] for p in device.ports if p.id in targets}
        if reading.error:
            unread[name] = reading.error
            continue
        steps = tuple(
            step for port in wanted for step in _steps(port, wanted[port], reading.ports, drivers[name])
        )
        if steps:
            plans.append(DevicePlan(name, device.driver, steps, wanted))
    return Plan(tuple(plans), unread=unread)


def deviations(
    fabric: Fabric,
    intents: Mapping[PortId, PortIntent],
    readings: Mapping[str, DeviceReading],
    drivers: Mapping[str, Driver],
) -> dict[PortId, str]:
    """Return by port, as one line, which settings are not as intended now; ``boot`` is left out."""
    ours = {name: reading for name, reading in readings.items() if name in drivers}
    targets = wanted_settings(fabric, intents, tuple(ours), drivers)
    found: dict[PortId, list[str]] = {}
    for step in compare(fabric, targets, ours, drivers).steps:
        if step.setting != settings.BOOT:
            found.setdefault(step.port, []).append(step.setting)
    return {port: ", ".join(names) for port, names in found.items()}


def refusal(plan: Plan) -> str:
    """Return why a plan with unsupported settings is refused, as one line."""
    reasons = sorted({f"{u.setting} ({u.reason})" for u in plan.unsupported})
    ports = sorted({str(u.port) for u in plan.unsupported})
    return f"{len(ports)} ports cannot have {', '.join(reasons)}; the first is {ports[0]}"


def entry_of(reading: DeviceReading | None, port: PortId, setting: str) -> Entry:
    """Return what a reading says of a setting; Missing with the reason where it says nothing."""
    if reading is None:
        return Missing("the device was not read")
    if reading.error:
        return Missing(reading.error)
    found = reading.ports.get(port)
    return Missing("the port was not read") if found is None else _entry(found, setting)


def _entry(reading: PortReading, setting: str) -> Entry:
    return reading.settings.get(setting, Missing("the driver did not report it"))


def _steps(port: PortId, wanted: Settings, ports: Mapping[PortId, PortReading], driver: Driver) -> list[Step]:
    reading = ports.get(port, PortReading(port, {}))
    steps = []
    for setting in sorted(wanted, key=lambda name: (settings.safe_rank(name), name)):
        old, new = _entry(reading, setting), wanted[setting]
        if old != Known(new):
            disruption = Disruption.NONE if setting == settings.BOOT else driver.disruption(setting, old, new)
            steps.append(Step(port, setting, old, new, disruption))
    return steps


def _unsupported(
    fabric: Fabric,
    intents: Mapping[PortId, PortIntent],
    readings: Mapping[str, DeviceReading],
    drivers: Mapping[str, Driver],
) -> tuple[Unsupported, ...]:
    found = []
    for name, reading in readings.items():
        driver = drivers[name]
        for port in fabric.device(name).ports:
            if port.id not in intents:
                continue
            wanted = driver.wanted(intents[port.id])
            for setting in sorted(set(wanted) & set(driver.unsupported)):
                value = wanted[setting]
                # What a device cannot have is off there: meaning it to be off is no conflict.
                off = value is False or value == ()
                if not off and entry_of(reading, port.id, setting) != Known(value):
                    found.append(Unsupported(port.id, setting, value, driver.unsupported[setting]))
    return tuple(found)
