"""Tells whether the process that began a run is still there."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_START_TIME = 19
"""Index of the start time in ``/proc/PID/stat`` behind the program's name (field 22 of ``proc(5)``)."""


def own_mark() -> str:
    """Return ``host:pid:start time`` of this process; a reused process id has another start time."""
    pid = os.getpid()
    return f"{platform.node()}:{pid}:{_started(pid)}"


def is_gone(mark: str) -> bool:
    """Say whether the process that `mark` names has ended; False if that cannot be known (another host)."""
    host, pid, started = mark.rsplit(":", 2)
    return host == platform.node() and _started(int(pid)) != started


def _started(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "none"
    # The program's name stands in parentheses and may hold blanks and parentheses itself.
    return text.rpartition(")")[2].split()[_START_TIME]
