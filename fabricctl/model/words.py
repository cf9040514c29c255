"""Small words of messages: how many there are of something, and a name that somebody else chose."""

from __future__ import annotations

import shlex


def count(number: int, one: str, many: str = "") -> str:
    """Return ``1 switch`` or ``3 switches``.

    Parameters
    ----------
    many
        The plural; empty is `one` with an s.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def quoted(name: str) -> str:
    """Return a name as a shell takes it literally, on one line: what is pasted runs nothing else."""
    return shlex.quote(name) if name.isprintable() else shlex.quote(ascii(name)[1:-1])
