"""The SSH transport: one connection a device, kept and reused, safe to use from several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import paramiko

from fabricctl.errors import DeadlineError, RefusedError, UsageError
from fabricctl.model.fabric import NETWORK_CLI, Device, Endpoint
from fabricctl.transport import shell
from fabricctl.transport.base import Process, Reply
from fabricctl.transport.lines import LineProcess
from fabricctl.transport.ssh import errors
from fabricctl.transport.ssh.conversation import Conversation
from fabricctl.transport.ssh.login import CONNECT_S, Login, login
from fabricctl.transport.ssh.session import Exchange, SshChannel

_CLOSERS = 32


@dataclass
class _Slot:
    """The place of one endpoint's connection."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    login: Login | None = None


class SshTransport:
    """Runs commands over SSH, as root: directly, or through ``sudo -n`` where the inventory says become."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[Endpoint, _Slot] = {}

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        """Run a shell script on the device; RefusedError too, if sudo wants a password."""
        argv = shell.shell_argv(become=device.endpoint.become)
        return self._exchange(device, argv, shell.whole(script), deadline_s)

    def put(self, device: Device, path: str, content: bytes, *, mode: int, deadline_s: float) -> None:
        """Write a file, whole or not at all; RefusedError if the device cannot."""
        argv = shell.put_argv(path, len(content), mode, become=device.endpoint.become)
        reply = self._exchange(device, argv, content, deadline_s)
        if reply.rc:
            raise RefusedError(f"cannot write {path}: {shell.one_line(reply.stderr)}", device=device.name)

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> Process:
        """Start a program; `deadline_s` limits how long that may take, not how long it runs."""
        full = (*shell.prefix(become=device.endpoint.become), *argv)
        channel = self._execute(device, full, time.monotonic() + deadline_s)
        channel.settimeout(None)
        return LineProcess(device.name, argv[0], SshChannel(channel))

    def converse(self, device: Device, lines: Sequence[str], *, deadline_s: float) -> tuple[Reply, ...]:
        """Give a device without a shell lines for its command line."""
        if device.endpoint.connection != NETWORK_CLI:
            raise UsageError("it is reached by a shell, not by a command line of its own", where=device.name)
        until_s = time.monotonic() + deadline_s
        channel = self._session(device, until_s)
        talk = Conversation(device.name, channel, until_s, deadline_s)
        return talk.hold(lines, enable=device.endpoint.become)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            logins = [slot.login for slot in self._slots.values() if slot.login is not None]
            self._slots.clear()
        if logins:
            # Each takes up to a tenth of a second: one after the other would be minutes on a large fabric.
            with ThreadPoolExecutor(min(_CLOSERS, len(logins))) as pool:
                list(pool.map(Login.close, logins))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _exchange(self, device: Device, argv: tuple[str, ...], given: bytes, deadline_s: float) -> Reply:
        until_s = time.monotonic() + deadline_s
        channel = self._execute(device, argv, until_s)
        try:
            reply = Exchange(device.name, channel, deadline_s).run(given, until_s)
        except errors.FOREIGN as exc:
            raise errors.ours(exc, device.name, device.endpoint.host, deadline_s) from exc
        if device.endpoint.become and reply.rc == 1 and reply.stderr.startswith("sudo:"):
            raise RefusedError(
                shell.one_line(reply.stderr.splitlines()[0]),
                device=device.name,
                next_step=f"let {device.endpoint.user or 'the user'} use sudo without a password (NOPASSWD)",
            )
        return reply

    def _execute(self, device: Device, argv: tuple[str, ...], until_s: float) -> paramiko.Channel:
        if device.endpoint.connection == NETWORK_CLI:
            step = "set ansible_connection to ssh if it has one"
            raise UsageError("it has no shell (network_cli)", where=device.name, next_step=step)
        channel = self._session(device, until_s)
        try:
            channel.settimeout(max(until_s - time.monotonic(), 0.001))
            channel.exec_command(shell.command_line(argv))
        except errors.FOREIGN as exc:
            channel.close()
            raise errors.ours(exc, device.name, device.endpoint.host, CONNECT_S) from exc
        return channel

    def _session(self, device: Device, until_s: float) -> paramiko.Channel:
        kept, channel = self._open(device, until_s)
        if channel is None and kept:
            # The kept connection was dead without saying so; a fresh one decides.
            _, channel = self._open(device, until_s)
        if channel is None:
            raise DeadlineError("no session was opened", device=device.name, after_s=CONNECT_S)
        return channel

    def _open(self, device: Device, until_s: float) -> tuple[bool, paramiko.Channel | None]:
        """Open a session; say whether on a kept connection, and None if that turned out to be dead."""
        with self._lock:
            slot = self._slots.setdefault(device.endpoint, _Slot())
        if not slot.lock.acquire(timeout=max(until_s - time.monotonic(), 0.0)):
            raise DeadlineError("another thread is still connecting", device=device.name, after_s=CONNECT_S)
        try:
            transport = slot.login.transport if slot.login else None
            kept = transport is not None
            if transport is None:
                if slot.login is not None:
                    slot.login.close()
                slot.login = login(device, until_s)
                transport = slot.login.transport
        finally:
            slot.lock.release()
        try:
            if transport is None:
                raise EOFError
            limit_s = min(max(until_s - time.monotonic(), 0.001), CONNECT_S)
            return kept, transport.open_session(timeout=limit_s)
        except errors.FOREIGN as exc:
            if kept and not isinstance(exc, paramiko.ChannelException):
                _drop(slot, transport)
                return kept, None
            raise errors.ours(exc, device.name, device.endpoint.host, CONNECT_S) from exc


def _drop(slot: _Slot, dead: paramiko.Transport | None) -> None:
    """Forget a dead connection, unless another thread has already replaced it."""
    with slot.lock:
        if slot.login is not None and slot.login.client.get_transport() in {dead, None}:
            slot.login.close()
            slot.login = None
