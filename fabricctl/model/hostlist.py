"""Slurm's way to write many node names: ``node[1-4,7],login1``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from fabricctl.errors import UsageError

LARGEST = 100_000
"""More names than any job has: a range beyond is a typing error."""

_PIECE = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


def expand(text: str) -> tuple[str, ...]:
    """Return the names in a host list, in its order, each once.

    Parameters
    ----------
    text
        Names separated by commas; numbers in brackets keep their leading zeros (``n[08-10]``).

    Raises
    ------
    UsageError
        Brackets do not match, a range is empty or runs backwards, there are more than 100,000 names, or a
        character is not printable (a line break).
    """
    if not text.isprintable():
        raise _wrong(text)
    names: dict[str, None] = {}
    rest = text.strip()
    while rest:
        piece = _PIECE.match(rest)
        if piece is None:
            raise _wrong(text)
        for name in _names(piece[0].strip(), text):
            names[name] = None
            if len(names) > LARGEST:
                raise UsageError(f"{text!r} is more than {LARGEST} nodes", next_step="check the ranges")
        rest = rest[piece.end() :]
        if rest and not rest.startswith(","):
            raise _wrong(text)
        rest = rest[1:]
    return tuple(names)


def _names(piece: str, text: str) -> Iterator[str]:
    parts = re.split(r"\[([^\[\]]*)\]", piece)
    # Every second part stood in brackets.
    choices = [list(_numbers(part, text)) if i % 2 else [part] for i, part in enumerate(parts)]
    return ("".join(chosen) for chosen in product(*choices))


def _numbers(inside: str, text: str) -> Iterator[str]:
    for item in inside.split(","):
        found = _RANGE.fullmatch(item.strip())
        if found is None:
            raise _wrong(text)
        first, last = found[1], found[2] or found[1]
        if int(last) < int(first) or int(last) - int(first) > LARGEST:
            raise UsageError(f"{text!r}: the range {item} makes no sense", next_step="write node[1-4,7]")
        yield from (f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))


def _wrong(text: str) -> UsageError:
    return UsageError(f"{text!r} is no list of nodes", next_step="write node1,node2 or node[1-4,7]")
