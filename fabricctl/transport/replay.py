"""Play recorded replies, so that flows can be tested against what devices really said."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from fabricctl.errors import DeadlineError, FabricctlError, WireError
from fabricctl.model.fabric import Device
from fabricctl.transport.base import Process, Reply


class ReplayTransport:
    """Answers with what was recorded; anything that was not recorded is an error.

    Parameters
    ----------
    replies
        By device name and script, or line of a command line; an exception instead of a reply is raised.
    lines
        By device name: the lines that a program started there prints, in order.
    """

    def __init__(
        self,
        replies: Mapping[tuple[str, str], Reply | Exception],
        lines: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._replies = replies
        self._lines = lines or {}
        self.files: dict[tuple[str, str], tuple[bytes, int]] = {}
        """What was put, by device name and path: content and mode."""

    @classmethod
    def load(cls, path: Path) -> ReplayTransport:
        """Read a recording: a JSON list of objects with device, script, rc, stdout and stderr."""
        return cls(
            {
                (item["device"], item["script"]): Reply(item["rc"], item["stdout"], item["stderr"])
                for item in json.loads(path.read_text())
            }
        )

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        """Return the recorded reply to this very script."""
        del deadline_s
        if (device.name, script) not in self._replies:
            known = any(name == device.name for name, _ in self._replies)
            what = "the script is not in the recording" if known else "the device is not in the recording"
            raise WireError(what, where=device.name)
        reply = self._replies[device.name, script]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def put(self, device: Device, path: str, content: bytes, *, mode: int, deadline_s: float) -> None:
        """Keep what was put in :attr:`files`."""
        del deadline_s
        self.files[device.name, path] = (content, mode)

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> Process:
        """Return a program that prints the recorded lines."""
        del deadline_s
        if device.name not in self._lines:
            raise WireError(f"no program is recorded, not even {argv[0]}", where=device.name)
        return ReplayProcess(device.name, self._lines[device.name])

    def converse(self, device: Device, lines: Sequence[str], *, deadline_s: float) -> tuple[Reply, ...]:
        """Return the recorded reply to each of these lines."""
        return tuple(self.run(device, line, deadline_s=deadline_s) for line in lines)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class ReplayProcess:
    """A recorded program: prints its lines whatever it is sent."""

    def __init__(self, device: str, lines: Sequence[str]) -> None:
        self._device = device
        self._lines = list(lines)
        self.sent: list[str] = []
        """What was sent to it."""

    def send(self, line: str) -> None:
        """Keep the line in :attr:`sent`."""
        self.sent.append(line)

    def receive(self, deadline_s: float) -> str:
        """Return the next recorded line; at the end it is as silent as a hung program."""
        if not self._lines:
            raise DeadlineError("the recording ends here", device=self._device, after_s=deadline_s)
        return self._lines.pop(0)

    def watch(self, take: Callable[[str | FabricctlError], None]) -> None:
        """Hand over all recorded lines."""
        while self._lines:
            take(self._lines.pop(0))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
