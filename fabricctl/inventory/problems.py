"""Collects everything that is wrong with a file, so that the author can mend it in one go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from fabricctl.errors import InventoryError

SHOWN = 20
"""How many problems are printed; the rest are counted."""


class InventoryFileError(InventoryError):
    """All that is wrong with an inventory or a policy: the first is the error itself.

    Attributes
    ----------
    others
        The problems after the first, in the order of the file.
    lines
        One line a problem, at most `SHOWN`, then how many more there are.
    """

    def __init__(self, problems: list[InventoryError]) -> None:
        first = problems[0]
        super().__init__(first.what, where=first.where, next_step=first.next_step)
        self.others = tuple(problems[1:])

    @property
    def lines(self) -> tuple[str, ...]:
        """One line a problem."""
        first = InventoryError(self.what, where=self.where, next_step=self.next_step)
        shown = [str(problem) for problem in (first, *self.others)[:SHOWN]]
        hidden = 1 + len(self.others) - len(shown)
        more = [f"{hidden} more problems are not shown; mend these first"] if hidden > 0 else []
        return (*shown, *more)

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass
class Problems:
    """The problems found so far; the same one found through several hosts counts once."""

    found: dict[tuple[str, str], InventoryError] = field(default_factory=dict)

    def add(self, where: str, what: str, next_step: str = "") -> None:
        """Note a problem; what cannot be printed is written as Python does."""
        where, what, next_step = map(printable, (where, what, next_step))
        self.found.setdefault((where, what), InventoryError(what, where=where, next_step=next_step))

    def raise_if_any(self) -> None:
        """Raise everything that was noted.

        Raises
        ------
        InventoryFileError
            There is at least one problem.
        """
        if self.found:
            raise InventoryFileError(sorted(self.found.values(), key=_place))


def printable(text: str) -> str:
    """Return a text that moves no cursor and begins no line, whoever wrote the names in it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _place(problem: InventoryError) -> tuple[str, int]:
    file, _, line = problem.where.rpartition(":")
    return (file, int(line)) if line.isdecimal() else (problem.where, 0)


def suggestion(wrong: object, known: Iterable[str]) -> str:
    """Return ``did you mean X?`` for the nearest name, else the known names, else nothing."""
    names = sorted(known)
    near = get_close_matches(str(wrong), names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known: {', '.join(names)}" if names else ""
