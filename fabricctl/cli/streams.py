"""Standard output and standard error of a command: whoever reads them may leave before the command ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, TypeVar, cast

from fabricctl.errors import OutputError
from fabricctl.gate.printing import drop, settle

Written = TypeVar("Written")


class Stream:
    """A text stream that is silent from the moment on that its reader leaves.

    Parameters
    ----------
    needed
        Any other trouble (a full disk) ends the command: what it prints is what it was called for.

    Attributes
    ----------
    used
        Something has been written.
    """

    def __init__(self, stream: TextIO, *, needed: bool) -> None:
        self._stream = stream
        self._needed = needed
        self._lost: OutputError | None = None
        self.used = False

    def write(self, text: str) -> int:
        """Write text."""
        self.used = self.used or bool(text)
        return self._try(lambda: self._stream.write(text), len(text))

    def flush(self) -> None:
        """Write out what is buffered."""
        self._try(self._stream.flush, None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, do: Callable[[], Written], otherwise: Written) -> Written:
        if self._lost is not None:
            raise self._lost  # again: click tries out a stream first, and ignores what it raises then
        try:
            return do()
        except OSError as exc:
            drop(self._stream)
            if self._needed and not isinstance(exc, BrokenPipeError):
                what, step = f"the output cannot be written: {exc.strerror}", "send it elsewhere"
                self._lost = OutputError(what, next_step=step)
                raise self._lost from exc
            return otherwise


@contextmanager
def patient() -> Iterator[Stream | None]:
    """Let the block print to streams whose reader may leave, and yield its standard output.

    It is None if standard output was closed from the beginning.
    """
    before = sys.stdout, sys.stderr
    out = None if before[0] is None else Stream(before[0], needed=True)
    # They have all that print and click use of a stream.
    sys.stdout = cast("TextIO", out)
    sys.stderr = cast("TextIO", None if before[1] is None else Stream(before[1], needed=False))
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = before
        settle()
