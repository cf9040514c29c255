"""One run at a time: a lock that names its holder and that a killed process cannot leave behind."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fabricctl.errors import BusyError, StoreError
from fabricctl.resources import make_private_folder, state_folder


@contextmanager
def hold(name: str, purpose: str) -> Iterator[None]:
    """Hold the lock called `name` while the block runs.

    The kernel drops the lock with the process, so a killed run never blocks the next one. It is not
    re-entrant: a second ``hold`` of the same name is refused, in the same process too.

    Parameters
    ----------
    name
        What is locked (an inventory's path, ``lab``); two names never exclude each other.
    purpose
        What the holder does (``apply``), for the one who has to wait.

    Raises
    ------
    BusyError
        Another run holds it; the error names its process, since when and what for.
    StoreError
        The lock file cannot be made or written: no space, a read-only disk, or a file system without locks.
    """
    path = _path(name)
    try:
        make_private_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise _unusable(path, exc) from exc
    try:
        _take(handle, name, path, purpose)
        try:
            yield
        finally:
            # The file itself stays: removing it would let two runs hold two different files of that name.
            with suppress(OSError):
                os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _take(handle: int, name: str, path: Path, purpose: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _write(handle, json.dumps({"pid": os.getpid(), "since": time.time(), "purpose": purpose}))
    except BlockingIOError as exc:
        raise _busy(name, handle) from exc
    except OSError as exc:
        raise _unusable(path, exc) from exc


def _unusable(path: Path, exc: OSError) -> StoreError:
    full = exc.errno in {errno.ENOSPC, errno.EDQUOT}
    step = "make room on its disk" if full else "make its folder writable"
    return StoreError(
        f"the lock file cannot be written: {'no space is left' if full else exc.strerror}",
        where=str(path),
        next_step=f"{step}, or set FABRICCTL_STORE to a file elsewhere",
    )


def _path(name: str) -> Path:
    # Names are often paths: "/" becomes "%2f" and so on, one file a name.
    safe = re.sub(r"[^A-Za-z0-9._-]", lambda found: f"%{ord(found[0]):x}", name)
    return state_folder() / "locks" / f"{safe[-200:]}.lock"


def _write(handle: int, text: str) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, text.encode(), 0)


def _busy(name: str, handle: int) -> BusyError:
    who = "another run"
    # Its holder may be between taking the lock and writing its name.
    with suppress(ValueError, KeyError, TypeError):
        held = json.loads(os.pread(handle, 4096, 0))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(held["since"]))
        who = f"{held['purpose']} (process {held['pid']}, since {since})"
    return BusyError(f"{who} is at work on it", where=name, next_step="wait until it ends, then try again")
