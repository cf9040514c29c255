"""What every transport can do: run a script, put a file, start a process."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from fabricctl.model.fabric import Device


@dataclass(frozen=True, slots=True)
class Reply:
    """What a script printed, and its exit status."""

    rc: int
    stdout: str
    stderr: str


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
