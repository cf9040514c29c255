"""Read what ``dump_fts -n`` printed: by which port each switch sends what is for a LID."""

from __future__ import annotations

import re

from fabricctl.infiniband.discovery import guid

_SWITCH = re.compile(r"^Unicast lids .* guid 0x([0-9a-f]+) \(")
_DROPPED = 255


def parse(text: str) -> dict[str, dict[int, int]]:
    """Return by node GUID of each switch its port by destination LID; LIDs that it drops are left out."""
    found: dict[str, dict[int, int]] = {}
    table: dict[int, int] | None = None
    for line in text.split("\n"):
        if line.startswith("0x") and table is not None:
            lid, _, rest = line.partition(" ")
            number = rest[:3]
            if number.isdecimal() and int(number) != _DROPPED:
                table[int(lid, 16)] = int(number)
        elif line.startswith("Unicast"):
            head = _SWITCH.match(line)
            table = found.setdefault(guid(head[1]), {}) if head else None
    return found
