"""A configuration as NX-OS prints it: sections with what is indented under them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """One line, and those indented under it."""

    line: str
    inner: tuple[Section, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines directly under it."""
        return tuple(section.line for section in self.inner)


def read(text: str) -> tuple[Section, ...]:
    """Return the sections of a configuration; comments and empty lines are left out."""
    rows = [
        (len(row) - len(row.lstrip()), " ".join(row.split()))
        for row in text.splitlines()
        if row.strip() and not row.lstrip().startswith("!")
    ]
    return tuple(_sections(rows))


def after(sections: Sequence[Section], start: str) -> Iterator[tuple[str, Section]]:
    """Walk sections whose line begins with `start`, each with the rest of its line."""
    for section in sections:
        if section.line.startswith(f"{start} "):
            yield section.line.removeprefix(f"{start} "), section


def _sections(rows: Sequence[tuple[int, str]]) -> Iterator[Section]:
    at = 0
    while at < len(rows):
        indent, line = rows[at]
        end = at + 1
        while end < len(rows) and rows[end][0] > indent:
            end += 1
        yield Section(line, tuple(_sections(rows[at + 1 : end])))
        at = end
