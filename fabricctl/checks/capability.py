"""Every device can be what the policy means it to be.

Passes if the driver supports every setting that the intent asks of it, or, where the policy says
``unsupported: warn``, with a note of what will be left out. Fails if something is not supported and the
policy says ``unsupported: refuse``. Unknown if there is no device with ports, if its driver cannot be
loaded, or, with ``refuse``, if an Ethernet device has no driver, so that nobody can say what it supports.

With readings it says nothing: what a port cannot have then follows from what was read of it, and the plan
lists it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from fabricctl.errors import UsageError
from fabricctl.model.fabric import Device, Fabric, LinkLayer, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy, Stance
from fabricctl.model.reading import DeviceReading, Value
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder

_NOTE = "to make this fail, write unsupported: refuse in the policy"


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
        """Return one finding for each driver in use, and role; none with readings."""
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
                found.append(self._driver(role, driver, wanted, policy))
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

    def _driver(self, role: Role, name: str, wanted: list[PortIntent], policy: Policy) -> Finding:
        subject = f"{role} driver {name}"
        try:
            driver = finder.nic_driver(name) if role is Role.NODE else finder.switch_driver(name)
        except UsageError as exc:
            return Finding(self.name, subject, Outcome.UNKNOWN, exc.what, next_step=exc.next_step)
        if not wanted:
            return Finding(self.name, subject, Outcome.UNKNOWN, "there is no intent for its ports")
        lacking: dict[str, str] = {}
        for intent in wanted:
            asked = driver.wanted(intent)
            lacking |= {
                setting: why for setting, why in driver.unsupported.items() if _asked(asked.get(setting))
            }
        if not lacking:
            what = f"supports everything that is meant for its {len(wanted)} ports"
            return Finding(self.name, subject, Outcome.PASS, what)
        reasons: dict[str, list[str]] = defaultdict(list)
        for setting, why in lacking.items():
            reasons[why].append(setting)
        listed = "; ".join(f"{', '.join(settings)} ({why})" for why, settings in reasons.items())
        what = f"cannot have on its {len(wanted)} ports: {listed}"
        if policy.unsupported is Stance.REFUSE:
            advice = "choose a policy without them, or write unsupported: warn"
            return Finding(self.name, subject, Outcome.FAIL, what, next_step=advice)
        return Finding(self.name, subject, Outcome.PASS, what, next_step=_NOTE)


def _asked(value: Value | None) -> bool:
    """Say whether a device without the setting lacks anything: one without PFC has it off already."""
    return value is not None and value is not False and value != ()


PLUGIN = Capability()
