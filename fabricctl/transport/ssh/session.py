"""One command on an open connection: what goes in, what comes out, within its deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko

from fabricctl.errors import DeadlineError, RefusedError, UnreachableError
from fabricctl.transport import shell
from fabricctl.transport.base import Reply
from fabricctl.transport.lines import SEND_S
from fabricctl.transport.ssh import errors

_BLOCK_BYTES = 65536
_LIMIT_BYTES = 64 * 1024 * 1024
_POLL_S = 0.02
_STATUS_S = 0.5
_QUIET: tuple[type[BaseException], ...] = (*errors.FOREIGN, RefusedError)


@dataclass
class Exchange:
    """Feeds a command and collects both its outputs at the same time, so that none can stall the others."""

    device: str
    channel: paramiko.Channel
    deadline_s: float
    _stderr: bytearray = field(default_factory=bytearray)

    def run(self, given: bytes, until_s: float) -> Reply:
        """Return what the command printed.

        Raises
        ------
        DeadlineError
            It did not end by `until_s` on the monotonic clock.
        UnreachableError
            The connection broke, or the command was killed: there is no exit status.
        RefusedError
            It printed more than 64 MiB.
        """
        sent_at = time.time()
        writer = self._spawn(lambda: self._feed(given))
        reader = self._spawn(lambda: self._collect(self.channel.recv_stderr, self._stderr, until_s))
        try:
            stdout = bytearray()
            self._collect(self.channel.recv, stdout, until_s)
            reader.join(max(until_s - time.monotonic(), 0.0))
            if not self.channel.status_event.wait(max(until_s - time.monotonic(), 0.0)) or reader.is_alive():
                raise self._late()
            rc = self.channel.recv_exit_status()
        except TimeoutError as exc:
            raise self._late() from exc
        finally:
            self.channel.close()
            for thread in (writer, reader):
                thread.join(_STATUS_S)
        if rc < 0:
            raise UnreachableError(
                "the command ended without an exit status: it was killed, or the connection broke",
                device=self.device,
            )
        return Reply(rc, shell.text(bytes(stdout)), shell.text(bytes(self._stderr)), sent_at)

    def _spawn(self, work: Callable[[], None]) -> threading.Thread:
        def quietly() -> None:
            try:
                work()
            except _QUIET:
                # What matters is seen by the reader of standard output: no exit status, or the deadline.
                return

        thread = threading.Thread(target=quietly, daemon=True)
        thread.start()
        return thread

    def _feed(self, given: bytes) -> None:
        self.channel.sendall(given)
        self.channel.shutdown_write()

    def _collect(self, receive: Callable[[int], bytes], into: bytearray, until_s: float) -> None:
        while True:
            self.channel.settimeout(max(until_s - time.monotonic(), 0.001))
            block = receive(_BLOCK_BYTES)
            if not block:
                return
            into += block
            if len(into) > _LIMIT_BYTES:
                raise RefusedError("the command printed more than 64 MiB", device=self.device)

    def _late(self) -> DeadlineError:
        said = shell.one_line(shell.text(bytes(self._stderr[-500:])))
        return DeadlineError(
            f"the command did not finish within {self.deadline_s:g} s" + (f": {said}" if said else ""),
            device=self.device,
            after_s=self.deadline_s,
        )


class SshChannel:
    """A running program as :class:`fabricctl.transport.lines.Channel`."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def read_stdout(self) -> bytes:
        """Return the next bytes of standard output, empty at the end."""
        return self._channel.recv(_BLOCK_BYTES)

    def read_stderr(self) -> bytes:
        """Return the next bytes of standard error, empty at the end."""
        return self._channel.recv_stderr(_BLOCK_BYTES)

    def write(self, content: bytes) -> None:
        """Write all bytes, or raise OSError after 30 s in which the program took none."""
        until = time.monotonic() + SEND_S
        rest = memoryview(content)
        while rest:
            if self._channel.send_ready():
                rest = rest[self._channel.send(bytes(rest[:_BLOCK_BYTES])) :]
                continue
            if time.monotonic() > until:
                message = f"it took no input for {SEND_S:g} s"
                raise TimeoutError(message)
            time.sleep(_POLL_S)

    def close(self) -> None:
        """End the program's input and close the channel."""
        try:
            self._channel.shutdown_write()
        except errors.FOREIGN:
            pass
        finally:
            self._channel.close()

    def status(self) -> str:
        """Say how the program ended."""
        if not self._channel.status_event.wait(_STATUS_S):
            return ""
        rc = self._channel.recv_exit_status()
        return f"exit status {rc}" if rc >= 0 else "killed, or the connection broke"
