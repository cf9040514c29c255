"""What an apply would do, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Value


class Disruption(StrEnum):
    """What a step does to traffic that is flowing."""

    NONE = "none"
    LINK_FLAP = "link flap"
    QUEUE_RESET = "queue reset"
    MTU_CHANGE = "mtu change"
    BUFFERS = "buffer re-carve"
    SYSTEM_WIDE = "system-wide"
    """All ports of the device are touched, also those that the plan does not name."""


@dataclass(frozen=True, slots=True)
class Step:
    """One setting of one port: from what was read to what is meant.

    Parameters
    ----------
    old
        What the reading said; also what undo restores. Missing could not be read: no undo.
    """

    port: PortId
    setting: str
    old: Entry
    new: Value
    disruption: Disruption = Disruption.NONE


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A setting that is meant but that the device cannot have, and why."""

    port: PortId
    setting: str
    wanted: Value
    reason: str


@dataclass(frozen=True, slots=True)
class Pending:
    """A setting that was stored as meant and does not hold yet; `why` says what must happen first."""

    port: PortId
    setting: str
    why: str


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """All steps on one device in the safe order, with the complete wanted settings of its ports."""

    device: str
    driver: str
    steps: tuple[Step, ...]
    wanted: Mapping[PortId, Mapping[str, Value]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What differs between intent and reading.

    Parameters
    ----------
    devices
        Only devices with steps.
    unread
        By device: one line that says why it could not be read. Nothing is pushed there.
    unread_ports
        By port of a device that was read: why nothing that is meant for it could be read there (there is no
        such port, or the device is another system than the inventory says). Nothing is pushed there.
    pending
        What is stored as meant but waits for a reset. It is neither a step nor done.
    rivals
        By port: who else sets the same things. Nothing is pushed there.
    planes
        By port with a step: the control plane that its driver found.
    scheduler
        Who was asked whether the nodes are in use; empty if nobody was.
    in_use
        By port with a disruptive step: which of the nodes behind it are in use, or may be.
    """

    devices: tuple[DevicePlan, ...]
    unsupported: tuple[Unsupported, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    unread_ports: Mapping[PortId, str] = field(default_factory=dict)
    pending: tuple[Pending, ...] = ()
    rivals: Mapping[PortId, tuple[str, ...]] = field(default_factory=dict)
    planes: Mapping[PortId, str] = field(default_factory=dict)
    scheduler: str = ""
    in_use: Mapping[PortId, str] = field(default_factory=dict)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps of all devices."""
        return tuple(step for device in self.devices for step in device.steps)

    @property
    def unknown(self) -> dict[str, str]:
        """By device or port: why it could not be read."""
        return {**self.unread, **{str(port): why for port, why in self.unread_ports.items()}}

    def is_unread(self, port: PortId) -> bool:
        """Say whether nothing is known of a port."""
        return port.device in self.unread or port in self.unread_ports


@dataclass(frozen=True, slots=True)
class PushOutcome:
    """What ansible said of one device; an outcome, not a proof.

    Parameters
    ----------
    tasks
        Number of tasks that ran on the device.
    message
        Empty, or one line from the task that failed.
    ports
        By port name: why its script failed. Empty with a `message` means that it concerns all ports.
    """

    device: str
    ok: bool
    tasks: int
    message: str = ""
    ports: Mapping[str, str] = field(default_factory=dict)
