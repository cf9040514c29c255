"""A running program as lines in and lines out, over any kind of channel."""

from __future__ import annotations

import os
import queue
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from fabricctl.errors import DeadlineError, DeviceError, FabricctlError, UnreachableError
from fabricctl.transport.shell import one_line, text

_TAIL_LINES = 20
_LINE_LIMIT_BYTES = 64 * 1024 * 1024
_QUEUED_LINES = 10_000
_CLOSE_S = 0.5
_FULL_S = 0.05
SEND_S = 30.0
"""How long a program may take to accept what it is sent, in seconds."""


class Channel(Protocol):
    """The bytes of one running program. Each method may be called from its own thread."""

    def read_stdout(self) -> bytes:
        """Return the next bytes, empty at the end; DeviceError or OSError if the channel broke."""
        ...

    def read_stderr(self) -> bytes:
        """Return the next bytes, empty at the end; DeviceError or OSError if the channel broke."""
        ...

    def write(self, content: bytes) -> None:
        """Write all bytes; DeviceError or OSError if the channel is gone."""
        ...

    def close(self) -> None:
        """End the program's input and the channel; unblocks the readers; never raises."""
        ...

    def status(self) -> str:
        """Say how the program ended (``exit status 1``), empty if that is not known."""
        ...


def write_all(number: int, content: bytes) -> None:
    """Write all bytes to a pipe that does not block; OSError if it is closed or takes nothing for SEND_S."""
    until = time.monotonic() + SEND_S
    rest = memoryview(content)
    while rest:
        if not select.select([], [number], [], max(until - time.monotonic(), 0.0))[1]:
            message = f"it took no input for {SEND_S:g} s"
            raise TimeoutError(message)
        with suppress(BlockingIOError):
            rest = rest[os.write(number, rest) :]


@dataclass(frozen=True, slots=True)
class _End:
    why: str


class LineProcess:
    """Implements :class:`fabricctl.transport.base.Process` over a channel.

    Two threads read the program's two outputs from the start, so that neither can fill up and stall it.
    """

    def __init__(self, device: str, program: str, channel: Channel) -> None:
        self._device = device
        self._program = program
        self._channel = channel
        self._lines: queue.Queue[str | _End] = queue.Queue(_QUEUED_LINES)
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._closed = threading.Event()
        self._ended: _End | None = None
        self._take: Callable[[str | FabricctlError], None] | None = None
        self._handing_over = threading.Lock()
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        self._output = threading.Thread(target=self._read_output, daemon=True)
        self._errors.start()
        self._output.start()

    def send(self, line: str) -> None:
        """Write one line to the program."""
        try:
            self._channel.write(line.encode() + b"\n")
        except (DeviceError, OSError) as exc:
            self._errors.join(_CLOSE_S)
            raise self._gone(f"its input is closed ({exc})") from exc

    def receive(self, deadline_s: float) -> str:
        """Return the next line of the program's standard output."""
        if self._ended is not None:
            raise self._gone(self._ended.why)
        try:
            item = self._lines.get(timeout=max(deadline_s, 0.0))
        except queue.Empty:
            raise DeadlineError(
                f"{self._program} did not answer within {deadline_s:g} s{self._last_words()}",
                device=self._device,
                after_s=deadline_s,
            ) from None
        if isinstance(item, _End):
            self._ended = item
            self._errors.join(_CLOSE_S)
            raise self._gone(item.why)
        return item

    def watch(self, take: Callable[[str | FabricctlError], None]) -> None:
        """Hand every line to `take` from now on, as they are read."""
        with self._handing_over:
            while not self._lines.empty():
                self._hand_over(take, self._lines.get_nowait())
            self._take = take

    def _hand_over(self, take: Callable[[str | FabricctlError], None], item: str | _End) -> None:
        if isinstance(item, _End):
            self._errors.join(_CLOSE_S)
            take(self._gone(item.why))
        else:
            take(item)

    def close(self) -> None:
        """Close the program's input and the channel."""
        self._closed.set()
        self._channel.close()
        until = time.monotonic() + _CLOSE_S
        for thread in (self._output, self._errors):
            thread.join(max(until - time.monotonic(), 0.0))

    def _gone(self, why: str) -> UnreachableError:
        return UnreachableError(f"{self._program} ended: {why}{self._last_words()}", device=self._device)

    def _last_words(self) -> str:
        said = " | ".join(one_line(line) for line in list(self._tail) if line.strip())
        return f"; its last words: {said}" if said else ""

    def _read_output(self) -> None:
        rest = bytearray()
        try:
            while block := self._channel.read_stdout():
                rest += block
                if b"\n" in block:
                    *whole, last = bytes(rest).split(b"\n")
                    rest = bytearray(last)
                    for line in whole:
                        self._pass_on(text(line).removesuffix("\r"))
                if len(rest) > _LINE_LIMIT_BYTES:
                    self._pass_on(_End("it sent a line longer than 64 MiB"))
                    return
            if rest:
                self._pass_on(text(bytes(rest)))
            self._pass_on(_End(self._channel.status() or "no exit status"))
        except (DeviceError, OSError) as exc:
            self._pass_on(_End(f"the connection broke ({exc})"))

    def _pass_on(self, item: str | _End) -> None:
        """Queue an item; once closed, drop it, since nobody will ask for it."""
        while not self._closed.is_set():
            with self._handing_over:
                if self._take is not None:
                    self._hand_over(self._take, item)
                    return
                with suppress(queue.Full):
                    self._lines.put_nowait(item)
                    return
            time.sleep(_FULL_S)

    def _read_errors(self) -> None:
        rest = b""
        try:
            while block := self._channel.read_stderr():
                *whole, rest = (rest + block).split(b"\n")
                self._tail.extend(text(line) for line in whole)
                rest = rest[-65536:]
        except (DeviceError, OSError):
            return
        finally:
            if rest:
                self._tail.append(text(rest))
