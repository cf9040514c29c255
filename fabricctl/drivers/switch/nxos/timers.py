"""The timers of changes that are configured on a device: a schedule of its scheduler for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fabricctl.drivers.switch.nxos import terms, tree
from fabricctl.drivers.switch.nxos.tree import Section
from fabricctl.model.reading import Value

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NOW = re.compile(
    rf"^!Time: \w{{3}} ({'|'.join(_MONTHS)}) +(\d+) (\d\d):(\d\d):\d\d (\d{{4}})\s*$", re.MULTILINE
)
_START = re.compile(r"time start (\d{4}(?::\d{1,2}){4})")
_NAME = re.compile(rf"{terms.OURS}[\w-]+")
UNKNOWN = "-"
_OVER, _WAITS = "over", "waits"


@dataclass(frozen=True, slots=True)
class Timer:
    """One timer of ours, as the setting ``nxos.timers`` holds it.

    Parameters
    ----------
    start
        The minute at which it fires by the device's clock, ``-`` if that is not known.
    over
        Whether that minute had passed when the device was read, by its own clock; False if that is not known.
    """

    name: str
    start: str
    over: bool

    def __str__(self) -> str:
        """Return it as a row of the setting."""
        return f"{self.name} {self.start} {_OVER if self.over else _WAITS}"

    @property
    def apply_id(self) -> str:
        """The apply that it takes back."""
        return self.name.removeprefix(terms.OURS)


def find(text: str, sections: Sequence[Section]) -> Iterator[Timer]:
    """Walk our timers in a configuration, whose head says when it was shown."""
    now = _now(text)
    for name, section in tree.after(sections, "scheduler schedule name"):
        if not _NAME.fullmatch(name):
            continue
        found = next((match[1] for line in section.lines if (match := _START.fullmatch(line))), "")
        start = tuple(int(number) for number in found.split(":")) if found else ()
        # In its own minute it may be at work just now.
        yield Timer(name, found or UNKNOWN, over=bool(start and now and start < now))


def read(told: Value) -> tuple[Timer, ...]:
    """Return what the setting tells."""
    rows = (str(row).split() for row in (told if isinstance(told, tuple) else ()))
    return tuple(Timer(name, start, state == _OVER) for name, start, state in rows)


def _now(text: str) -> tuple[int, ...]:
    found = _NOW.search(text)
    if not found:
        return ()
    month, day, hour, minute, year = found.groups()
    return int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute)
