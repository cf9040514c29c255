"""Reach this machine itself, where the inventory says ``ansible_connection: local``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Self

from fabricctl.errors import DeadlineError, RefusedError, UnreachableError, UsageError
from fabricctl.model.fabric import Device
from fabricctl.transport import shell
from fabricctl.transport.base import Process, Reply
from fabricctl.transport.lines import LineProcess, write_all

_BLOCK_BYTES = 65536
_GRACE_S = 0.4
_TERM_S = 0.25


class LocalTransport:
    """Runs everything as child processes of this one, each in its own process group."""

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        """Run a shell script."""
        argv = shell.shell_argv(become=device.endpoint.become)
        return _run(device, argv, shell.whole(script), deadline_s)

    def put(self, device: Device, path: str, content: bytes, *, mode: int, deadline_s: float) -> None:
        """Write a file, whole or not at all."""
        argv = shell.put_argv(path, len(content), mode, become=device.endpoint.become)
        reply = _run(device, argv, content, deadline_s)
        if reply.rc:
            raise RefusedError(f"cannot write {path}: {shell.one_line(reply.stderr)}", device=device.name)

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> Process:
        """Start a program; `deadline_s` is not needed here, since nothing is waited for."""
        del deadline_s
        full = (*shell.prefix(become=device.endpoint.become), *argv)
        return LineProcess(device.name, argv[0], _Child(_popen(device, full)))

    def converse(self, device: Device, lines: Sequence[str], *, deadline_s: float) -> tuple[Reply, ...]:
        """Refuse: this machine has a shell."""
        del lines, deadline_s
        raise UsageError("this machine has a shell, and no command line of a switch", where=device.name)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Child:
    """A child process as a channel."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        if child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)

    def read_stdout(self) -> bytes:
        return _read(self._child.stdout)

    def read_stderr(self) -> bytes:
        return _read(self._child.stderr)

    def write(self, content: bytes) -> None:
        if self._child.stdin is None or self._child.stdin.closed:
            message = "closed"
            raise BrokenPipeError(message)
        write_all(self._child.stdin.fileno(), content)

    def close(self) -> None:
        if self._child.stdin is not None:
            with contextlib.suppress(OSError):
                self._child.stdin.close()
        _end(self._child, grace_s=_GRACE_S)

    def status(self) -> str:
        try:
            return f"exit status {self._child.wait(_GRACE_S)}"
        except subprocess.TimeoutExpired:
            return ""


def _read(stream: IO[bytes] | None) -> bytes:
    if stream is None or stream.closed:
        return b""
    block = stream.read(_BLOCK_BYTES)
    if not block:
        stream.close()
    return block


def _popen(device: Device, argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as exc:
        raise UnreachableError(f"cannot run {argv[0]}: {exc.strerror or exc}", device=device.name) from exc


def _run(device: Device, argv: tuple[str, ...], given: bytes, deadline_s: float) -> Reply:
    sent_at = time.time()
    with _popen(device, argv) as child:
        try:
            out, err = child.communicate(given, timeout=deadline_s)
        except subprocess.TimeoutExpired:
            raise DeadlineError(
                f"the command did not finish within {deadline_s:g} s", device=device.name, after_s=deadline_s
            ) from None
        finally:
            _end(child, grace_s=0.0)
    return Reply(child.returncode, shell.text(out), shell.text(err), sent_at)


def _end(child: subprocess.Popen[bytes], *, grace_s: float) -> None:
    """Let the child go by itself for a moment, then end its whole process group."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(grace_s)
    for number in (signal.SIGTERM, signal.SIGKILL):
        # Also when the child itself is gone: it may have left others of its group behind.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_TERM_S)
