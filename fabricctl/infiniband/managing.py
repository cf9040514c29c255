"""Read what ``sminfo`` printed of subnet managers."""

from __future__ import annotations

import re

from fabricctl.infiniband.discovery import guid
from fabricctl.model.subnet import Manager

_MANAGER = re.compile(
    r"sm lid (\d+) sm guid 0x([0-9a-f]+), activity count \d+ priority (\d+) state \d+ SMINFO_(\w+)"
)


def parse(text: str) -> Manager | None:
    """Return the subnet manager that answered; None if none did."""
    found = _MANAGER.search(text)
    return Manager(guid(found[2]), int(found[1]), int(found[3]), found[4]) if found else None
