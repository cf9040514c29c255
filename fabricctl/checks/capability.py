"""Every device can be what the policy means it to be.

Passes if the driver supports every setting that the intent asks of it, or, where the policy says
``unsupported: warn``, with a note of what will be left out. Fails if something is not supported and the
policy says ``unsupported: refuse``; and, whatever it says, if the driver refuses a port's name or a value
that is meant for a port, or if it cannot speak over the device's connection. Unknown if there is no device
with ports, if its driver cannot be loaded, or, with ``refuse``, if an Ethernet device has no driver, so that
nobody can say what it supports.

Over what a driver speaks is told by its queries: those with a path can be asked of a REST interface, and if
all are plain words, they are lines for a command line; a shell is asked with words that no line can hold.

With readings it says nothing: what a port cannot have then follows from what was read of it, and the plan
lists it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from fabricctl.errors import RefusedError, UsageError
from fabricctl.model.fabric import NETWORK_CLI, REST, Device, Fabric, LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy, Stance
from fabricctl.model.reading import DeviceReading, Value
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Choosy, Driver, Query

_NOTE = "to make this fail, write unsupported: refuse in the policy"
_CLI = "set ansible_connection: ansible.netcommon.network_cli"
_SHELL = "set ansible_connection: ssh"


class Capability:
    """Holds what each driver declares against what its ports' intents ask for."""

    name = "capability"

    def judge(
        self,
        fabric: Fabric,
        policy: Policy,
        intents: Mapping[PortId, PortIntent],
        readings: Mapping[str, DeviceReading] | None,
    ) -> tuple[Finding, ...]:
        """Return one finding for each driver in use, and role, and one for all that it refuses."""
        if readings is not None:
            return ()
        by_driver: dict[tuple[Role, str], list[Device]] = defaultdict(list)
        for device in fabric.devices:
            if device.ports:
                by_driver[device.role, device.driver].append(device)
        if not by_driver:
            what = "no device has ports: nothing was compared"
            return (Finding(self.name, "fabric", Outcome.UNKNOWN, what, next_step="add fabric_ports"),)
        found = []
        for (role, driver), devices in by_driver.items():
            wanted = [intents[port.id] for device in devices for port in device.ports if port.id in intents]
            if driver:
                found += self._driver(role, driver, devices, wanted, policy)
            else:
                found.append(self._without_driver(role, wanted, policy))
        return tuple(found)

    def _without_driver(self, role: Role, wanted: list[PortIntent], policy: Policy) -> Finding:
        subject = f"{role} ports without a driver"
        ethernet = [intent for intent in wanted if intent.link_layer is LinkLayer.ETHERNET]
        if not ethernet and wanted:
            what = f"{len(wanted)} InfiniBand ports: only checked and probed, nothing to configure"
            return Finding(self.name, subject, Outcome.PASS, what)
        what = f"{len(ethernet)} Ethernet ports have fabric_driver: none: they are not configured or read"
        if policy.unsupported is Stance.REFUSE or not wanted:
            advice = "name a driver, or write unsupported: warn in the policy"
            return Finding(self.name, subject, Outcome.UNKNOWN, what, next_step=advice)
        return Finding(self.name, subject, Outcome.PASS, what, next_step=_NOTE)

    def _driver(
        self, role: Role, name: str, devices: Sequence[Device], wanted: Sequence[PortIntent], policy: Policy
    ) -> list[Finding]:
        subject = f"{role} driver {name}"
        try:
            driver = finder.nic_driver(name) if role is Role.NODE else finder.switch_driver(name)
        except UsageError as exc:
            return [Finding(self.name, subject, Outcome.UNKNOWN, exc.what, next_step=exc.next_step)]
        if not wanted:
            return [Finding(self.name, subject, Outcome.UNKNOWN, "there is no intent for its ports")]
        refused = [*self._devices(driver, devices), *self._values(driver, wanted)]
        lacking: dict[str, str] = {}
        for intent in wanted:
            asked = driver.wanted(intent)
            lacking |= {
                setting: why for setting, why in driver.unsupported.items() if _asked(asked.get(setting))
            }
        if lacking:
            return [self._lacking(subject, lacking, len(wanted), policy), *refused]
        what = f"supports everything that is meant for its {len(wanted)} ports"
        return refused or [Finding(self.name, subject, Outcome.PASS, what)]

    def _lacking(self, subject: str, lacking: Mapping[str, str], ports: int, policy: Policy) -> Finding:
        reasons: dict[str, list[str]] = defaultdict(list)
        for setting, why in lacking.items():
            reasons[why].append(setting)
        listed = "; ".join(f"{', '.join(settings)} ({why})" for why, settings in reasons.items())
        what = f"cannot have on its {ports} ports: {listed}"
        if policy.unsupported is Stance.REFUSE:
            advice = "choose a policy without them, or write unsupported: warn"
            return Finding(self.name, subject, Outcome.FAIL, what, next_step=advice)
        return Finding(self.name, subject, Outcome.PASS, what, next_step=_NOTE)

    def _devices(self, driver: Driver, devices: Sequence[Device]) -> Iterator[Finding]:
        """Walk ports with names that the driver refuses, and devices with connections that it cannot use."""
        # What is asked of a device without ports shows how it is spoken to, whatever its ports are called.
        asked = driver.queries(())
        for device in devices:
            for port, no in _misnamed(driver, device.ports):
                yield self._fails(str(port.id), no.what, no.next_step)
            if why := _unspoken(driver, device.endpoint.connection, asked):
                yield self._fails(device.name, *why)

    def _values(self, driver: Driver, wanted: Sequence[PortIntent]) -> Iterator[Finding]:
        """Walk what the driver's devices refuse of what is meant for the ports."""
        if not isinstance(driver, Choosy):
            return
        for intent in wanted:
            for setting, why in driver.refused(intent).items():
                advice = "change it in the policy or the inventory"
                yield self._fails(str(intent.port), f"{setting}: {why}", advice)

    def _fails(self, subject: str, what: str, advice: str) -> Finding:
        return Finding(self.name, subject, Outcome.FAIL, what, next_step=advice)


def _misnamed(driver: Driver, ports: Sequence[Port]) -> Iterator[tuple[Port, RefusedError]]:
    """Walk the ports whose names the driver refuses; one question for all is enough where it refuses none."""
    try:
        driver.queries(ports)
    except RefusedError:
        for port in ports:
            try:
                driver.queries((port,))
            except RefusedError as exc:
                yield port, exc


def _unspoken(driver: Driver, connection: str, queries: Sequence[Query]) -> tuple[str, str] | None:
    """Return why the driver cannot speak over a connection, and what to write instead; None if it can."""
    lines = all(word.isprintable() and word and " " not in word for query in queries for word in query.argv)
    if not queries or (connection == REST and any(query.rest for query in queries)):
        return None
    instead = _CLI if lines else _SHELL
    if connection == REST:
        return f"the driver {driver.name} asks nothing of a REST interface", instead
    if lines and connection != NETWORK_CLI:
        return f"the driver {driver.name} speaks to a command line, and {connection} leads to a shell", _CLI
    if connection == NETWORK_CLI and not lines:
        return f"the driver {driver.name} needs a shell, and {connection} has none", _SHELL
    return None


def _asked(value: Value | None) -> bool:
    """Say whether a device without the setting lacks anything: one without PFC has it off already."""
    return value is not None and value is not False and value != ()


PLUGIN = Capability()
