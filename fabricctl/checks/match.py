"""What was read from the devices is what is meant.

For each wanted setting of each port: passes if the device reported just that value, fails if it reported
another, unknown if it was not reported. A device that could not be read is an error. Unknown too: a port
that was not read, a device without a driver, a port for which nothing could be compared, and nothing read
at all. Settings that the driver declares unsupported are left to the check ``capability``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabricctl.errors import UsageError
from fabricctl.model.fabric import Device, Fabric, LinkLayer, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading, Value
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Driver


class Match:
    """Compares readings with intents, setting by setting."""

    name = "match"
    needs_readings = True

    def judge(
        self,
        fabric: Fabric,
        policy: Policy,  # noqa: ARG002  part of the protocol
        intents: Mapping[PortId, PortIntent],
        readings: Mapping[str, DeviceReading] | None,
    ) -> tuple[Finding, ...]:
        """Return one finding a setting, and one for each port or device of which nothing is known."""
        found = tuple(
            finding
            for device in fabric.devices
            if device.ports
            for finding in self._device(device, intents, (readings or {}).get(device.name))
        )
        return found or (self._unknown("fabric", "nothing was read: there is nothing to compare"),)

    def _unknown(self, subject: str, what: str, next_step: str = "") -> Finding:
        return Finding(self.name, subject, Outcome.UNKNOWN, what, next_step=next_step)

    def _device(
        self, device: Device, intents: Mapping[PortId, PortIntent], reading: DeviceReading | None
    ) -> Iterator[Finding]:
        if not device.driver:
            if any(port.link_layer is LinkLayer.ETHERNET for port in device.ports):
                yield self._unknown(device.name, "it has no driver, so its settings cannot be read")
            return
        if reading is None:
            yield self._unknown(device.name, "it was not read")
            return
        if reading.error:
            yield Finding(self.name, device.name, Outcome.ERROR, f"it could not be read: {reading.error}")
            return
        try:
            find = finder.nic_driver if device.role is Role.NODE else finder.switch_driver
            driver = find(device.driver)
        except UsageError as exc:
            yield self._unknown(device.name, exc.what, exc.next_step)
            return
        for port in device.ports:
            yield from self._port(port.id, driver, intents.get(port.id), reading.ports.get(port.id))

    def _port(
        self, port: PortId, driver: Driver, intent: PortIntent | None, reading: PortReading | None
    ) -> Iterator[Finding]:
        if intent is None:
            yield self._unknown(str(port), "there is no intent for this port")
            return
        if reading is None:
            yield self._unknown(str(port), "the device did not report this port")
            return
        wanted = {
            name: value for name, value in driver.wanted(intent).items() if name not in driver.unsupported
        }
        if not wanted:
            yield self._unknown(
                str(port), f"the driver {driver.name} supports no setting that could be compared"
            )
        for name, value in wanted.items():
            yield self._setting(port, name, value, reading.settings.get(name, Missing("not read")))

    def _setting(self, port: PortId, name: str, wanted: Value, entry: Entry) -> Finding:
        subject = str(port)
        limit = _shown(wanted)
        if isinstance(entry, Missing):
            return Finding(
                self.name, subject, Outcome.UNKNOWN, f"{name} is not known: {entry.reason}", limit=limit
            )
        is_ = _shown(entry.value)
        if _same(entry, wanted):
            return Finding(self.name, subject, Outcome.PASS, f"{name} is {is_}", is_, limit, 1)
        what = f"{name} is {is_}, should be {limit}"
        advice = 'see "fabricctl plan"'
        return Finding(self.name, subject, Outcome.FAIL, what, is_, limit, 1, advice)


def _same(entry: Known, wanted: Value) -> bool:
    """Compare value and kind: 1 is not yes."""
    return entry.value == wanted and isinstance(entry.value, bool) == isinstance(wanted, bool)


def _shown(value: Value) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case tuple():
            return ",".join(map(str, value)) or "none"
        case _:
            return str(value)


PLUGIN = Match()
