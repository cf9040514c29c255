"""Read what ``iblinkinfo --line`` printed: one line for each port."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fabricctl.model.lanes import lane_gbps

_LINE = re.compile(
    r'^(0x[0-9a-f]{16}) "(.*?)" +(\d+) +(\d+)\[.*?\] ==\((.*?)(\w+)/ *(\w[\w ]*)\)(?: \(HOQ[^)]*\))?==> +'
    r"(?:(0x[0-9a-f]{16}) +(\d+) +(\d+)\[)?"
)
_WIDTH = re.compile(r"^(\d+)X\b")


@dataclass(frozen=True, slots=True)
class Line:
    """A port: GUID of the port (of the node, on a switch), what it is doing, and what is plugged in.

    Parameters
    ----------
    width
        Lanes; 0 if the link is down.
    lane_gbps
        0 if the link is down, or the tool knows no word for it.
    peer
        GUID of the other port and its number; None if nothing is plugged in or nothing answers.
    """

    guid: str
    node: str
    lid: int
    number: int
    width: int
    lane_gbps: float
    state: str
    physical: str
    peer: tuple[str, int] | None


def parse(text: str) -> Iterator[Line]:
    """Walk the ports; a line of another form is left out."""
    for line in text.split("\n"):
        match = _LINE.match(line)
        if match:
            speed = match[5].strip()
            width = _WIDTH.match(speed)
            yield Line(
                match[1],
                match[2].strip(),
                int(match[3]),
                int(match[4]),
                int(width[1]) if width else 0,
                lane_gbps(speed[width.end() :] if width else speed),
                match[6],
                match[7],
                (match[8], int(match[10])) if match[8] else None,
            )
