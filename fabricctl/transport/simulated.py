"""Agents without hardware: one child process plays those of all nodes, over one channel."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

from fabricctl.errors import DeadlineError, FabricctlError, RefusedError, UnreachableError
from fabricctl.model.fabric import Device
from fabricctl.transport.base import Process, Reply

_BLOCK_BYTES = 1 << 18
_GRACE_S = 2.0
_TOGETHER_S = 0.002
_OVER = b""
"""What is sent last: no line is empty."""

Take = Callable[[str | FabricctlError], None]


class SimulatedTransport:
    """Starts simulated agents; nothing is ever sent to a device.

    Parameters
    ----------
    world
        What the ports are like, as one line of JSON (``agent/simulated/world.py``).
    """

    def __init__(self, world: str) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._channels: dict[bytes, _Channel] = {}
        self._reader: threading.Thread | None = None
        self._writer: threading.Thread | None = None
        self._sent: SimpleQueue[bytes] = SimpleQueue()
        self._why = ""

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        """Refuse: there is no device."""
        del script, deadline_s
        raise _nothing(device)

    def put(self, device: Device, path: str, content: bytes, *, mode: int, deadline_s: float) -> None:
        """Refuse: there is no device."""
        del path, content, mode, deadline_s
        raise _nothing(device)

    def converse(self, device: Device, lines: Sequence[str], *, deadline_s: float) -> tuple[Reply, ...]:
        """Refuse: there is no device."""
        del lines, deadline_s
        raise _nothing(device)

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> Process:
        """Begin a simulated agent; `argv` says how a real one is started and is not needed."""
        del argv, deadline_s
        with self._lock:
            if self._child is None:
                self._child = self._begin(device)
            number = b"%d" % (len(self._channels) + 1)
            channel = self._channels[number] = _Channel(self, number, device.name)
        self.send(device.name, b"%s open %s\n" % (number, device.name.encode()))
        return channel

    def _begin(self, device: Device) -> subprocess.Popen[bytes]:
        argv = (sys.executable, "-m", "fabricctl.agent.simulated")
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
            )
        except OSError as exc:
            raise UnreachableError(
                f"the simulation cannot be started: {exc.strerror}", device=device.name
            ) from exc
        self._reader = threading.Thread(target=self._read, args=(child,), daemon=True)
        self._writer = threading.Thread(target=self._write, args=(child,), daemon=True)
        self._reader.start()
        self._writer.start()
        self._child = child
        self.send(device.name, self._world.encode() + b"\n")
        return child

    def send(self, device: str, content: bytes) -> None:
        """Have lines written to the child."""
        if self._child is None:
            raise UnreachableError("the simulation was ended", device=device)
        if self._why:
            raise UnreachableError(f"the simulation ended ({self._why})", device=device)
        self._sent.put(content)

    def _write(self, child: subprocess.Popen[bytes]) -> None:
        """Write what was sent, all at once that comes within a moment: a write for each line takes long."""
        assert child.stdin is not None  # noqa: S101  a pipe
        is_over = False
        with child.stdin:
            while not is_over:
                held = [self._sent.get()]
                time.sleep(_TOGETHER_S)
                with contextlib.suppress(Empty):
                    while True:
                        held.append(self._sent.get_nowait())
                is_over = _OVER in held
                rest = memoryview(b"".join(held))
                try:
                    while rest:
                        rest = rest[os.write(child.stdin.fileno(), rest) :]
                except OSError as exc:
                    self._why = str(exc)
                    return

    def _read(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None  # noqa: S101  a pipe
        rest, channels = b"", self._channels
        with child.stdout, contextlib.suppress(OSError, ValueError):
            while block := os.read(child.stdout.fileno(), _BLOCK_BYTES):
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    number, _, text = line.partition(b" ")
                    channels[number].deliver(text.decode())
        ended = f"the simulation ended with exit status {child.wait()}"
        for channel in tuple(channels.values()):
            channel.deliver(UnreachableError(ended, device=channel.device))

    def close(self) -> None:
        """End the child."""
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return
        self._sent.put(_OVER)
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        for thread in (self._reader, self._writer):
            if thread is not None:
                thread.join(_GRACE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Channel:
    """One simulated agent."""

    def __init__(self, transport: SimulatedTransport, number: bytes, device: str) -> None:
        self._transport, self._number, self.device = transport, number, device
        self._lines: SimpleQueue[str | FabricctlError] = SimpleQueue()
        self.deliver: Take = self._lines.put

    def send(self, line: str) -> None:
        """Write one line to the agent."""
        self._transport.send(self.device, b"%s %s\n" % (self._number, line.encode()))

    def receive(self, deadline_s: float) -> str:
        """Return the next line that the agent says."""
        try:
            said = self._lines.get(timeout=max(deadline_s, 0.0))
        except Empty:
            what = f"the simulation did not answer within {deadline_s:g} s"
            raise DeadlineError(what, device=self.device, after_s=deadline_s) from None
        if isinstance(said, FabricctlError):
            self._lines.put(said)
            raise said
        return said

    def watch(self, take: Take) -> None:
        """Hand every line to `take` from now on; an agent says nothing before it is asked."""
        with contextlib.suppress(Empty):
            while True:
                take(self._lines.get_nowait())
        self.deliver = take

    def close(self) -> None:
        """End the agent."""
        with contextlib.suppress(UnreachableError):
            self._transport.send(self.device, b"%s close\n" % self._number)


def _nothing(device: Device) -> RefusedError:
    return RefusedError("a simulation reaches no device", device=device.name)
