"""Printing where nobody may read: a closed pipe, a closed stream, a full disk."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def say(text: str, stream: TextIO | None) -> bool:
    """Print a line, and say whether that was possible; it never raises.

    Parameters
    ----------
    stream
        None: Python found it closed when it started.
    """
    if stream is None:
        return False
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except (OSError, ValueError):  # ValueError: it was closed meanwhile
        drop(stream)
        return False
    return True


def drop(stream: TextIO) -> None:
    """Lead a stream that cannot be written to nowhere: its buffer would fail again at the exit of Python."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


def settle() -> None:
    """Write out what standard output and standard error still hold, or drop it."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError):
                drop(stream)
