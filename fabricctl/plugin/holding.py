"""A port as a check sees it: what it is meant to hold, and what of that was read.

What is wanted is what the port's own driver makes of the intent, so values that mean the same on two systems
and are spelled differently do not look like a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fabricctl.errors import UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import Device, Fabric, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading, Value
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Driver

PRIORITIES = 8
DSCPS = 64
_FULL = 100
_UNREPORTED = Missing("the driver did not report it")


@dataclass(frozen=True, slots=True)
class Held:
    """One port: the intent, what its driver makes of it, and what was read.

    Parameters
    ----------
    wanted
        What the port is to hold, by setting; what it cannot have is in it.
    known
        What was read and is of the setting's kind. A setting that the device cannot have and that is meant to
        be off is off.
    gaps
        By wanted setting: why it is not in `known`.
    mtu_headers_bytes
        As the driver declares it.
    """

    port: PortId
    intent: PortIntent
    wanted: Mapping[str, Value]
    known: Mapping[str, Value]
    gaps: Mapping[str, str]
    reading: PortReading
    mtu_headers_bytes: int = 0

    def right(self, setting: str) -> bool:
        """Say whether a wanted setting was read as it is meant."""
        return setting in self.known and same(self.known[setting], self.wanted.get(setting))

    def fact(self, name: str) -> Value | None:
        """Return a fact of the port, None if it is not known."""
        found = self.reading.facts.get(name)
        return found.value if isinstance(found, Known) else None

    def number_fact(self, name: str) -> int | None:
        """Return a fact that is a positive number, None if it is not known."""
        found = self.fact(name)
        return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None

    def fact_gap(self, name: str) -> str:
        """Return why a fact is not known, as ``speed_mbps: the link is down``."""
        found = self.reading.facts.get(name)
        match found:
            case Missing(reason):
                return f"{name}: {reason}"
            case Known(value):
                return f"{name}: unparsable: {value!r}"
            case None:
                return f"{name}: the driver did not report it"

    def counter(self, name: str) -> int | None:
        """Return a counter, None if it is not known."""
        found = self.reading.counters.get(name)
        value = found.value if isinstance(found, Known) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def look(
    fabric: Fabric,
    port: PortId,
    intents: Mapping[PortId, PortIntent],
    readings: Mapping[str, DeviceReading],
) -> Held | str:
    """Return a port as it was read, or why there is nothing to judge."""
    intent = intents.get(port)
    if intent is None:
        return f"there is no intent for {port}"
    device = fabric.device(port.device)
    reading = readings.get(port.device)
    if reading is None:
        why = "was not read" if device.driver else "has no driver and is not read"
        return f"{port.device} {why}"
    if reading.error:
        return f"{port.device} could not be read: {reading.error}"
    found = reading.ports.get(port)
    if found is None:
        return f"{port} was not read, though {port.device} was"
    try:
        driver = driver_of(device)
    except UsageError as exc:
        return exc.what
    wanted = driver.wanted(intent)
    known, gaps = _sorted_out(found, wanted, driver.unsupported)
    return Held(port, intent, wanted, known, gaps, found, driver.mtu_headers_bytes)


def driver_of(device: Device) -> Driver:
    """Return a device's driver; UsageError if there is none of that name."""
    find = finder.nic_driver if device.role is Role.NODE else finder.switch_driver
    return find(device.driver)


def said(value: Value) -> str:
    """Return a value as a sentence has it: ``none``, ``on``, ``3,4``."""
    match value:
        case bool():
            return "on" if value else "off"
        case tuple():
            return ",".join(str(item) for item in value) if value else "none"
        case _:
            return str(value)


def same(one: object, other: object) -> bool:
    """Compare two values; True is not 1."""
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def listed(numbers: tuple[int, ...] | list[int]) -> str:
    """Return ``3`` or ``3, 4``."""
    return ", ".join(map(str, numbers))


def _sorted_out(
    reading: PortReading, wanted: Mapping[str, Value], unsupported: Mapping[str, str]
) -> tuple[dict[str, Value], dict[str, str]]:
    """Return what is known, and why not what is wanted and not known."""
    known: dict[str, Value] = {}
    gaps: dict[str, str] = {}
    for name in dict.fromkeys((*wanted, *reading.settings)):
        meant = wanted.get(name)
        found = reading.settings.get(name, _UNREPORTED)
        lacking = _lacking(found, unsupported.get(name, ""))
        if lacking and (meant is False or meant == ()):
            known[name] = meant
        elif isinstance(found, Known) and not lacking and _fits(name, found.value, meant):
            known[name] = found.value
        elif meant is not None:
            gaps[name] = lacking or _why(found)
    return known, gaps


def _lacking(found: Entry, declared: str) -> str:
    """Return why the port cannot have a setting; empty if it can."""
    return found.reason if isinstance(found, Missing) and found.impossible else declared


def _why(found: Entry) -> str:
    return found.reason if isinstance(found, Missing) else f"unparsable: {found.value!r:.60}"


def _number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _word(value: object) -> bool:
    return isinstance(value, str)


def _numbers(length: int, highest: int) -> Callable[[object], bool]:
    def fits(value: object) -> bool:
        if not isinstance(value, tuple) or len(value) != length:
            return False
        return all(type(each) is int and 0 <= each <= highest for each in value)

    return fits


def _priorities(value: object) -> bool:
    return isinstance(value, tuple) and all(_number(each) and each < PRIORITIES for each in value)


def _schedulers(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == PRIORITIES and all(map(_word, value))


_KINDS: Mapping[str, Callable[[object], bool]] = {
    settings.TRUST: _word,
    settings.WATCHDOG_ACTION: _word,
    settings.DSCP_PRIORITY: _numbers(DSCPS, PRIORITIES - 1),
    settings.PRIORITY_TC: _numbers(PRIORITIES, PRIORITIES - 1),
    settings.TC_SCHEDULER: _schedulers,
    settings.TC_BANDWIDTH: _numbers(PRIORITIES, _FULL),
    **dict.fromkeys((settings.PFC, settings.WATCHDOG, settings.LOSSLESS_BUFFERS), _priorities),
    **dict.fromkeys((settings.PAUSE, settings.ECN, settings.DCQCN), _flag),
    **dict.fromkeys(
        (
            settings.MTU,
            settings.ECN_KMIN,
            settings.ECN_KMAX,
            settings.ECN_PMAX,
            settings.WATCHDOG_DETECT,
            settings.WATCHDOG_RESTORE,
            settings.WATCHDOG_POLL,
            settings.ROCE_TOS,
        ),
        _number,
    ),
}


def _fits(name: str, value: Value, meant: Value | None) -> bool:
    """Say whether a value is of its setting's kind; of a driver's own, whether it is as what is meant."""
    if name in _KINDS:
        return _KINDS[name](value)
    return meant is None or type(value) is type(meant)
