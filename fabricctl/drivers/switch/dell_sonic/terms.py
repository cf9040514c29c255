"""The words of Dell Enterprise SONiC's command line: port names, ranges, and this driver's own settings.

``sonic-cli`` is the command line of SONiC's management framework. What is known of it here is from Dell's
Ansible collection, Broadcom's command reference and design documents, and configurations that users printed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from fabricctl.errors import RefusedError
from fabricctl.model.fabric import Port
from fabricctl.plugin.answers import Unread

CLASSES = 8
DSCPS = 64

WRED_QUEUES = "dell_sonic.wred_queues"
"""tuple of ints, ascending: the queues with a WRED policy. One without ECN, or beside the lossless class's,
drops packets."""
TC_GROUP = "dell_sonic.tc_group"
"""tuple of ints: the priority group of each priority with PFC, in their order."""
PFC_GROUP = "dell_sonic.pfc_group"
"""tuple of ints: the priority group for which each priority with PFC is paused, in their order."""
PFC_QUEUE = "dell_sonic.pfc_queue"
"""tuple of ints: the queue that a pause of each priority with PFC stops, in their order."""
ASYMMETRIC = "dell_sonic.pfc_asymmetric"
"""bool: whether the port obeys pauses of all priorities, also of those without PFC."""
COUNTER_POLL = "dell_sonic.watchdog_counters"
"""bool: whether the counters that the watchdog looks at are read; without, it sees no storm. The same for all
ports."""

OBJECTS = "dell_sonic.objects"
"""tuple of str ``KIND NAME CONTENT``: the maps and policies of the switch. A change has to know them; nothing
wants them."""
LINES = "dell_sonic.lines"
"""tuple of str: the lines of the port's own configuration that a change may touch, as the switch prints them,
and those of the watchdog that all ports share. What undo restores; nothing wants them."""
GROUPS = "dell_sonic.lossless_groups"
"""tuple of ints, ascending: the priority groups of the port with headroom. Nothing wants them."""

OURS = "FABRICCTL_"
"""What the names of our objects on a switch begin with."""

CABLES_M = (5, 40, 300)
"""The cable lengths that the switch has headroom for, in metres."""
LOSSLESS_MOST = 2
"""How many priorities may have PFC."""
LOSSY_GROUP = 7
"""Broadcom's priority group for what is not lossless."""
KILOBYTE = 1000
"""Bytes; the command line takes and shows WRED thresholds in these."""
THRESHOLDS = range(1 * KILOBYTE, 12480 * KILOBYTE + 1)
MTUS = range(1312, 9216 + 1)
DETECT_MS = range(100, 5000 + 1)
RESTORE_MS = range(100, 60000 + 1)
POLL_MS = range(100, 3000 + 1)

_NAME = re.compile(r"Ethernet[0-9]{1,4}|Eth[0-9]{1,2}/[0-9]{1,3}(?:/[0-9]{1,2})?")


def check_names(ports: Sequence[Port]) -> None:
    """Check that each port's name is one of Enterprise SONiC's.

    Raises
    ------
    RefusedError
        One is not (``Eth1/1``, ``Eth1/1/2`` and ``Ethernet0`` are).
    """
    for port in ports:
        if not _NAME.fullmatch(port.id.port):
            raise RefusedError(
                f"{port.id.port!r} is no port of Enterprise SONiC",
                device=port.id.device,
                next_step='write it as "show interface status" does: Eth1/1, or Ethernet0',
            )


def family(port: str) -> str:
    """Return the word that stands for all ports named like this one: ``Eth`` or ``Ethernet``."""
    return "Ethernet" if port.startswith("Ethernet") else "Eth"


def digest(content: str) -> str:
    """Return what an object holds, in 8 characters; the same for the same content."""
    return hashlib.sha256(content.encode()).hexdigest()[:8].upper()


def numbers(text: str, highest: int) -> tuple[int, ...]:
    """Return the numbers of a list as the command line writes it, ``0-3,5``.

    Raises
    ------
    Unread
        It is no such list, or one of them is above `highest`.
    """
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        ends = (low, high) if dash else (low, low)
        if not all(end.isascii() and end.isdigit() and len(end) < 4 for end in ends):  # noqa: PLR2004  digits
            raise Unread(f"unparsable: {text!r} is no list of numbers")
        found += range(int(ends[0]), int(ends[1]) + 1)
    if not found or max(found) > highest:
        raise Unread(f"unparsable: {text!r} is not within 0..{highest}")
    return tuple(found)


def listed(found: Sequence[int]) -> str:
    """Return ascending numbers as the command line writes them, ``0-3,5``."""
    parts: list[str] = []
    for number in found:
        last = parts[-1].split("-")[-1] if parts else ""
        if last and int(last) + 1 == number:
            parts[-1] = f"{parts[-1].split('-')[0]}-{number}"
        else:
            parts.append(str(number))
    return ",".join(parts)


def cable_m(length_m: int) -> int:
    """Return the next cable length that the switch has; `length_m` itself if it has none that long."""
    return next((have for have in CABLES_M if have >= length_m), length_m)


def kilobytes(threshold_bytes: int) -> int:
    """Return a WRED threshold as the switch holds it, in bytes: whole kilobytes, the nearest."""
    return (threshold_bytes + KILOBYTE // 2) // KILOBYTE * KILOBYTE
