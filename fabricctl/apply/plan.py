"""Compare what is meant with what was read: the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fabricctl.apply.render import digest, render_port
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Device, Fabric, Port
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import DevicePlan, Disruption, Pending, Plan, Step, Unsupported
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
    targets = wanted_settings(fabric, intents, readings, drivers)
    plan = compare(fabric, targets, readings, drivers)
    rivals = {port: found for port in targets if (found := rivals_of(readings[port.device], port))}
    return replace(
        plan,
        unsupported=_unsupported(fabric, intents, readings, drivers),
        rivals=rivals if plan.steps else {},
        planes={
            port: str(plane.value)
            for port in dict.fromkeys(step.port for step in plan.steps)
            if isinstance(plane := _facts(readings[port.device], port).get(facts.PLANE), Known)
        },
    )


def wanted_settings(
    fabric: Fabric,
    intents: Mapping[PortId, PortIntent],
    readings: Mapping[str, DeviceReading],
    drivers: Mapping[str, Driver],
) -> dict[PortId, dict[str, Value]]:
    """Return what the ports of the devices are to hold, ``boot`` included, without what they cannot have.

    A device cannot have what its driver declares, and a port not what its reading says is impossible.
    """
    targets = {}
    for name, reading in readings.items():
        device, driver = fabric.device(name), drivers[name]
        for port in device.ports:
            intent = intents.get(port.id)
            if intent is None:
                continue
            lacking = _lacking(driver, reading, port.id)
            wanted = {k: v for k, v in driver.wanted(intent).items() if k not in lacking}
            if wanted and settings.BOOT not in lacking:
                by_itself = driver.method is not None
                kept = settings.SAVED if by_itself else digest(boot_script(device, port, wanted))
                wanted[settings.BOOT] = kept
            targets[port.id] = wanted
    return targets


def boot_script(device: Device, port: Port, wanted: Settings) -> str:
    """Return the script that keeps `wanted` on a port over reboots; a boot rewrites no configuration."""
    lost = {name: value for name, value in wanted.items() if name not in settings.KEPT}
    return render_port(device.role, device.driver, port.id.port, port.rdma, lost)


def compare(
    fabric: Fabric,
    targets: Targets,
    readings: Mapping[str, DeviceReading],
    drivers: Mapping[str, Driver],
) -> Plan:
    """Return the steps from the readings to the targets, for every device that was read."""
    plans = []
    unread = {}
    unread_ports: dict[PortId, str] = {}
    pending: list[Pending] = []
    for name, reading in readings.items():
        device = fabric.device(name)
        wanted = {p.id: targets[p.id] for p in device.ports if p.id in targets}
        if reading.error:
            unread[name] = reading.error
            continue
        unread_ports |= {port: why for port in wanted if (why := _why_unread(reading, port, wanted[port]))}
        wanted = {port: values for port, values in wanted.items() if port not in unread_ports}
        steps = tuple(
            step for port in wanted for step in _steps(port, wanted[port], reading.ports, drivers[name])
        )
        if steps:
            plans.append(DevicePlan(name, device.driver, steps, wanted))
        changing = {(step.port, step.setting) for step in steps}
        pending += [
            Pending(port, setting, why)
            for port in wanted
            for setting, why in _stored(reading, port).items()
            if setting in wanted[port] and (port, setting) not in changing
        ]
    return Plan(tuple(plans), unread=unread, unread_ports=unread_ports, pending=tuple(pending))


def deviations(
    fabric: Fabric,
    intents: Mapping[PortId, PortIntent],
    readings: Mapping[str, DeviceReading],
    drivers: Mapping[str, Driver],
) -> dict[PortId, str]:
    """Return by port, as one line, which settings are not as intended now; those of a reboot are left out."""
    ours = {name: reading for name, reading in readings.items() if name in drivers}
    targets = wanted_settings(fabric, intents, ours, drivers)
    found: dict[PortId, list[str]] = {}
    plan = compare(fabric, targets, ours, drivers)
    for step in plan.steps:
        if step.setting not in settings.KEPT:
            found.setdefault(step.port, []).append(step.setting)
    for item in plan.pending:
        found.setdefault(item.port, []).append(f"{item.setting} (stored: {item.why})")
    for port, why in plan.unread_ports.items():
        found.setdefault(port, []).append(f"every setting (could not be read: {why})")
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


def _why_unread(reading: DeviceReading, port: PortId, wanted: Settings) -> str:
    """Return why nothing at all is known of what is meant for a port; empty where something is.

    What cannot even be read there cannot be set: the port is not there, or the device is another system.
    """
    entries = [entry_of(reading, port, name) for name in wanted if name not in settings.KEPT]
    missing = [entry for entry in entries if isinstance(entry, Missing)]
    return missing[0].reason if missing and len(missing) == len(entries) else ""


def rivals_of(reading: DeviceReading, port: PortId) -> tuple[str, ...]:
    """Return who else sets the same things on the port's device, or on the port itself."""
    return (*_words(reading.facts, facts.RIVALS), *_words(_facts(reading, port), facts.RIVALS))


def _stored(reading: DeviceReading, port: PortId) -> dict[str, str]:
    """Return by setting what must happen before its value holds."""
    pairs = (said.partition(": ") for said in _words(_facts(reading, port), facts.PENDING))
    return {setting: why for setting, _, why in pairs}


def _facts(reading: DeviceReading, port: PortId) -> Mapping[str, Entry]:
    found = reading.ports.get(port)
    return {} if found is None else found.facts


def _unmanaged(reading: DeviceReading, port: PortId) -> bool:
    return _facts(reading, port).get(facts.NETWORK_MANAGER) == Known(settings.NOT_KEPT)


def _words(found: Mapping[str, Entry], name: str) -> tuple[str, ...]:
    match found.get(name):
        case Known(tuple(words)):
            return tuple(str(word) for word in words)
        case _:
            return ()


def _lacking(driver: Driver, reading: DeviceReading, port: PortId) -> dict[str, str]:
    """Return by setting why the port cannot have it: declared for its kind, or read of this very one."""
    found = reading.ports.get(port)
    read = {} if found is None else found.settings
    here = {k: e.reason for k, e in read.items() if isinstance(e, Missing) and e.impossible}
    return {**here, **driver.unsupported}


def _entry(reading: PortReading, setting: str) -> Entry:
    return reading.settings.get(setting, Missing("the driver did not report it"))


def _steps(port: PortId, wanted: Settings, ports: Mapping[PortId, PortReading], driver: Driver) -> list[Step]:
    reading = ports.get(port, PortReading(port, {}))
    steps = []
    for setting in sorted(wanted, key=lambda name: (settings.safe_rank(name), name)):
        old, new = _entry(reading, setting), wanted[setting]
        if old != Known(new):
            disruption = Disruption.NONE if setting in settings.KEPT else driver.disruption(setting, old, new)
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
            lacking = _lacking(driver, reading, port.id)
            for setting in sorted(set(wanted) & set(lacking)):
                if setting in settings.KEPT and _unmanaged(reading, port.id):
                    continue  # nobody resets it there: nothing is lacking
                value = wanted[setting]
                # What a device cannot have is off there: meaning it to be off is no conflict.
                off = value is False or value == ()
                if not off and entry_of(reading, port.id, setting) != Known(value):
                    found.append(Unsupported(port.id, setting, value, lacking[setting]))
    return tuple(found)
