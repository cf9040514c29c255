"""What every transport can do: run a script, put a file, start a process, talk to a command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from fabricctl.errors import FabricctlError
from fabricctl.model.fabric import Device


@dataclass(frozen=True, slots=True)
class Reply:
    """What a script printed, and its exit status.

    Parameters
    ----------
    sent_at
        Unix time in seconds when the connection stood and the script was sent; 0 if that is not known.
    """

    rc: int
    stdout: str
    stderr: str
    sent_at: float = field(default=0.0, compare=False)


class Process(Protocol):
    """A running program on a device, with lines in and lines out."""

    def send(self, line: str) -> None:
        """Write one line (without its newline) to the program; UnreachableError if its channel is gone."""
        ...

    def receive(self, deadline_s: float) -> str:
        """Return the next line of standard output.

        Raises
        ------
        DeadlineError
            No line within `deadline_s` seconds.
        UnreachableError
            The program ended or the channel broke; the error holds the last lines of its standard error.
        """
        ...

    def watch(self, take: Callable[[str | FabricctlError], None]) -> None:
        """Hand every line to `take` from now on, from a thread of its own; an error is the last thing.

        The lines are read no faster than `take` returns; it must not raise. There is no :meth:`receive` any
        more.
        """
        ...

    def close(self) -> None:
        """Close its standard input and the channel; never raises, never waits more than a second."""
        ...


class Transport(Protocol):
    """A way to reach devices. Safe to use from several threads; one connection a device, kept and reused."""

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        """Feed a POSIX shell script to ``/bin/sh`` on the device (as root) and return what it printed.

        Raises
        ------
        UnreachableError, HostKeyError, DeadlineError
        """
        ...

    def put(self, device: Device, path: str, content: bytes, *, mode: int, deadline_s: float) -> None:
        """Write a file beside `path` and rename it."""
        ...

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> Process:
        """Start a program whose life ends with its channel."""
        ...

    def converse(self, device: Device, lines: Sequence[str], *, deadline_s: float) -> tuple[Reply, ...]:
        """Give a device without a shell lines for its command line, one after the other, in one session.

        Paging is turned off and, where the inventory says become, ``enable`` is sent first. The lines only
        show: one that leads into a configuration mode changes the prompt and is never seen to end.

        Returns
        -------
        tuple
            What each line printed, without its echo and the prompt; `rc` is 1 if the device refused it.

        Raises
        ------
        UnreachableError, HostKeyError, DeadlineError
        RefusedError
            ``enable`` is refused or wants a password, or the device does not turn its paging off.
        UsageError
            The device has a shell.

        A REST interface takes lines ``GET PATH...`` in the same way.
        """
        ...

    def close(self) -> None:
        """Close all connections; never raises."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


Launch = Callable[[Transport, Sequence[Device]], AbstractContextManager[Transport]]
"""From an open transport and the nodes of a run to the transport that starts programs on them."""
