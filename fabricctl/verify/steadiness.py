"""Was everything the same at the end of a run as at its beginning? Else the numbers are of two ports."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.model import facts
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PortId
from fabricctl.model.reading import DeviceReading, Entry


def steadiness(
    fabric: Fabric, before: Mapping[str, DeviceReading], after: Mapping[str, DeviceReading]
) -> dict[PortId, str]:
    """Return by port of a device with a driver why it is not known to have been the same all the while.

    Compared are the settings and the facts that a certificate is bound to (``model/facts.py``).
    """
    found: dict[PortId, str] = {}
    for name, first in before.items():
        device, last = fabric.device(name), after[name]
        if not device.driver:
            continue
        for port in device.ports:
            if why := _why(port.id, first, last):
                found[port.id] = why
    return found


def _why(port: PortId, first: DeviceReading, last: DeviceReading) -> str:
    for reading in (first, last):
        if reading.error:
            return f"what it is set to is not known: {reading.error}"
    one, other = _of(port, first), _of(port, last)
    changed = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    return f"changed while it was probed: {', '.join(changed)}" if changed else ""


def _of(port: PortId, reading: DeviceReading) -> dict[str, Entry]:
    found = reading.ports.get(port)
    bound = {name: entry for name, entry in reading.facts.items() if name in facts.FINGERPRINT}
    if found is None:
        return bound
    return bound | {k: e for k, e in found.facts.items() if k in facts.FINGERPRINT} | dict(found.settings)
