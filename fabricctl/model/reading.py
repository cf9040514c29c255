"""What a device said about itself: every value is known, or missing for a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabricctl.model.names import PortId

Value = bool | int | str | tuple[int, ...] | tuple[str, ...]
"""What a setting or a fact can hold; ``model/settings.py`` says which setting holds what."""


@dataclass(frozen=True, slots=True)
class Known:
    """A value that the device itself reported."""

    value: Value


@dataclass(frozen=True, slots=True)
class Missing:
    """No value, and why: "no such file", "not supported by the driver", "unparsable: ...".

    Parameters
    ----------
    impossible
        The port cannot have the setting as it is now (its control plane, firmware or driver lacks it), so
        there is no use in trying to set it.
    """

    reason: str
    impossible: bool = False


Entry = Known | Missing

ZERO = Known(0)
"""A counter that stood still: most do, and all share this one."""


@dataclass(frozen=True, slots=True)
class PortReading:
    """What was read of one port.

    Parameters
    ----------
    settings
        By setting name (``model/settings.py``): what a driver can set.
    facts
        By fact name (``model/facts.py``): what is so but is not set by us.
    counters
        By counter name as the device spells it; cumulative since driver load or reset.
    """

    port: PortId
    settings: Mapping[str, Entry]
    facts: Mapping[str, Entry] = field(default_factory=dict)
    counters: Mapping[str, Entry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What was read of one device in one round trip.

    Parameters
    ----------
    read_at
        Unix time in seconds on the controller when the reply was complete.
    error
        Empty, or one line that says why the device could not be read (then `ports` is empty).
    facts
        By fact name: boot id, kernel, rivals.
    evidence
        The raw reply, so that an old run can be parsed again; never parsed by a reader of this value.
    """

    device: str
    read_at: float
    ports: Mapping[PortId, PortReading]
    facts: Mapping[str, Entry] = field(default_factory=dict)
    error: str = ""
    evidence: str = ""
