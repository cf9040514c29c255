"""How NX-OS's eight queues and the policy's classes are called, and the names of this driver's settings.

A qos-group of NX-OS is a queue at once: there is no priority between the two, and the one queue that may be
strict is queue 7. So a policy's strict class (congestion notification, usually priority 6) rides queue 7, and
class 7 rides the queue that this leaves free. Readings are in the policy's terms: the two are swapped back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TypeVar

from fabricctl.errors import RefusedError, UsageError
from fabricctl.model.fabric import Port

T = TypeVar("T")

QUEUES = 8
DSCPS = 64
TOP = 7
"""The queue that is strict."""
USUAL = 6
"""The class that rides it where nothing on the device says which one does."""

PFC_MODE = "nxos.pfc_mode"
"""str ``on``, ``auto`` or ``off``; with ``auto``, the default, DCBX decides and may turn PFC off."""
CLASS_MTU = "nxos.class_mtu_bytes"
"""tuple of 8 ints: what network-qos lets through of each class, in bytes; the same on all ports."""
ECN_CLASSES = "nxos.ecn_classes"
"""tuple of ints, ascending: the classes whose queues mark."""
FLOW_CONTROL = "nxos.flow_control"
"""str ``off``, ``receive``, ``send`` or ``both``: 802.3x pause of the whole link."""
WATCHDOG_GLOBAL = "nxos.watchdog_global"
"""bool: whether the watchdog is on for the device; without that the port's own switch does nothing."""
CLASSIFIER = "nxos.classifier"
"""str ``plain``, or the name of a policy-map (type qos) that does more than the other settings say."""
QUEUING = "nxos.queuing"
"""As above, of type queuing."""
NETWORK_QOS = "nxos.network_qos"
"""As above, of type network-qos; the same on all ports."""
PLAIN = "plain"

OBJECTS = "nxos.objects"
"""tuple of str ``KIND NAME DIGEST USERS``: the device's policy-maps and our class-maps, what they hold in
short (``-`` if that is more than can be said) and who uses them (``-`` if nobody). A change has to know it;
nothing wants it."""

TIMERS = "nxos.timers"
"""tuple of str ``NAME START STATE``: timers of changes that are configured on the device, when they fire by
its clock, and whether that time is ``over`` or not known to be (``waits``). As above."""

OURS = "fabricctl-"
"""What the names of our objects on a device begin with."""
_LONGEST_LINE = 200
_PORT = re.compile(r"Ethernet[0-9]{1,3}/[0-9]{1,3}(/[0-9]{1,2})?")
_CLASS_MAP = re.compile(r"fabricctl-p([0-7])-[0-9a-f]{8}[a-z]?")


def swapped(number: int, strict: int) -> int:
    """Return the queue of a class, or the class of a queue.

    Parameters
    ----------
    strict
        The class that rides queue 7.
    """
    return {strict: TOP, TOP: strict}.get(number, number)


def by_class(of_queues: Sequence[T], strict: int) -> tuple[T, ...]:
    """Return what is listed by queue, listed by class."""
    return tuple(of_queues[swapped(number, strict)] for number in range(QUEUES))


def strict_class(schedulers: Sequence[object]) -> int:
    """Return the class that is to ride queue 7: the strict one if there is exactly one."""
    found = [number for number, scheduler in enumerate(schedulers) if scheduler == "strict"]
    return found[0] if len(found) == 1 else USUAL


def digest(content: object) -> str:
    """Return what an object holds, in 8 characters; the same for the same values."""
    return hashlib.sha256(repr(content).encode()).hexdigest()[:8]


def checked_port(port: Port) -> str:
    """Return a port's name; RefusedError if it is not NX-OS's own in full (``Ethernet1/1``)."""
    if not _PORT.fullmatch(port.id.port):
        raise RefusedError(
            f"{port.id.port!r} is no port of NX-OS",
            device=port.id.device,
            next_step="write it in full, as the configuration does: Ethernet1/1",
        )
    return port.id.port


def port_ranges(names: Sequence[str]) -> list[str]:
    """Return ports as ranges for ``interface`` (``Ethernet1/1-4,Ethernet1/9``), as long as a line may be."""
    runs: list[tuple[str, int, int]] = []
    for name in names:
        stem, slash, number = name.rpartition("/")
        last = runs[-1] if runs else ("", 0, 0)
        if last[0] == f"{stem}{slash}" and last[2] == int(number) - 1:
            runs[-1] = (last[0], last[1], int(number))
        else:
            runs.append((f"{stem}{slash}", int(number), int(number)))
    found: list[str] = []
    for stem, first, end in runs:
        run = f"{stem}{first}" if first == end else f"{stem}{first}-{end}"
        if found and len(found[-1]) + len(run) < _LONGEST_LINE:
            found[-1] += f",{run}"
        else:
            found.append(run)
    return found


def checked_name(name: str) -> str:
    """Return the name of a policy-map; UsageError if it cannot be one, for it goes into a line."""
    if not re.fullmatch(r"[\w.-]{1,80}", name):
        raise UsageError(f"{name!r} cannot be the name of a policy-map on NX-OS")
    return name


def priority_of(class_map: str) -> int | None:
    """Return the priority that the name of a class-map of ours says; None if it is not ours."""
    found = _CLASS_MAP.fullmatch(class_map)
    return int(found[1]) if found else None
