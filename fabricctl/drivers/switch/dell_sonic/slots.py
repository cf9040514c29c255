"""A port's configuration as slots that hold one line each, and the lines that lead from one state to another.

Going there and going back are the same: undo is the way from the new state to the lines that were read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from fabricctl.drivers.switch.dell_sonic import terms

State = Mapping[str, str]
"""By slot (``qos-map dscp-tc``): the line that fills it; a slot that is missing is empty."""

MTU, SCHEDULER, CABLE = "mtu", "scheduler-policy", "cable-length"
ASYMMETRIC = "priority-flow-control asymmetric"
WATCHDOG = "priority-flow-control watchdog"
ON, RESTORE, ACTION = f"{WATCHDOG} on detect-time", f"{WATCHDOG} restore-time", f"{WATCHDOG} action"
POLL, COUNTERS = f"{WATCHDOG} polling-interval", f"{WATCHDOG} counter-poll"
OF_ALL = (POLL, COUNTERS)
"""Slots that all ports share."""

# Buffers and maps before PFC, PFC before ECN, the watchdog last: it is refused where there is no PFC.
_ORDER = tuple(
    re.compile(pattern)
    for pattern in (
        MTU,
        "qos-map d",
        "qos-map tc-queue",
        SCHEDULER,
        CABLE,
        "qos-map tc-pg",
        "qos-map pfc-",
        "priority-flow-control priority",
        ASYMMETRIC,
        "queue ",
        ACTION,
        ON,
        RESTORE,
    )
)


def priority(number: int) -> str:
    """Return the slot of PFC for a priority; its line is the slot itself."""
    return f"priority-flow-control priority {number}"


def queue(number: int) -> str:
    """Return the slot of a queue's WRED policy."""
    return f"queue {number} wred-policy"


def read(lines: Iterable[str]) -> dict[str, str]:
    """Return the slots that these lines of a configuration fill."""
    found: dict[str, str] = {}
    for line in lines:
        if line == f"no {COUNTERS}":
            found[COUNTERS] = line
        elif line.startswith("priority-flow-control priority "):
            found |= {priority(p): priority(p) for p in terms.numbers(line.rsplit(maxsplit=1)[1], 7)}
        elif line == ASYMMETRIC:
            found[line] = line
        else:
            start, _, value = line.rpartition(" ")
            # Older releases print the time alone where the watchdog is on.
            slot = ON if start == f"{WATCHDOG} detect-time" else start
            found[slot] = f"{slot} {value}"
    return found


def way(old: State, new: State, touched: Iterable[str]) -> list[str]:
    """Return the lines, in interface mode, that lead a port from one state to the other.

    Parameters
    ----------
    touched
        The slots that may change; the others stay.
    """
    changing = [slot for slot in touched if old.get(slot) != new.get(slot) and slot not in OF_ALL]
    changing.sort(key=lambda slot: (_rank(slot), slot))
    off = ON in changing and ON not in new
    # A switch takes two priorities with PFC: one goes before another comes.
    going = [
        slot for slot in changing if slot.startswith("priority-flow-control priority") and slot not in new
    ]
    rest = [slot for slot in changing if slot not in going and not (off and slot.startswith(WATCHDOG))]
    first = [f"{WATCHDOG} off"] if off else []
    return [*first, *(new.get(slot, f"no {slot}") for slot in sorted([*going, *rest], key=_rank))]


def common_way(old: State, new: State, touched: Iterable[str]) -> Iterator[str]:
    """Walk the lines, in configuration mode, that lead what all ports share from one state to the other."""
    for slot in touched:
        if slot in OF_ALL and old.get(slot) != new.get(slot):
            # Of the counters the line is the one that switches them off.
            empty = slot if slot == COUNTERS else f"no {slot}"
            yield new.get(slot, empty)


def _rank(slot: str) -> int:
    return next(at for at, pattern in enumerate(_ORDER) if pattern.match(slot))
