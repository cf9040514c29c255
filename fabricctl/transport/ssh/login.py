"""Log in to a device: host key checked, key or agent, through jump hosts if the user's config says so."""

from __future__ import annotations

import contextlib
import logging
import shlex
import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, cast

import paramiko

from fabricctl.errors import DeadlineError, HostKeyError, UnreachableError
from fabricctl.model.fabric import Device
from fabricctl.transport.ssh import errors
from fabricctl.transport.ssh.target import SSH_PORT, Target, jump_endpoint, target

CONNECT_S = 15.0
_KEEPALIVE_S = 15
_UNANSWERED_MS = 45_000
_HOPS = 8
_HOP_LOGINS = threading.BoundedSemaphore(8)
"""Logins to jump hosts at the same time: sshd's MaxStartups drops the tenth that has not logged in yet."""
_GONE = (EOFError, OSError, paramiko.SSHException)

# Without a handler of its own Python would print paramiko's tracebacks to the user's terminal.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Login:
    """An open connection, with the jump hosts that carry it."""

    client: paramiko.SSHClient
    target: Target
    carriers: ExitStack

    @property
    def transport(self) -> paramiko.Transport | None:
        """The live transport, None once the connection is gone."""
        transport = self.client.get_transport()
        return transport if transport is not None and transport.is_active() else None

    def close(self) -> None:
        """Close the connection, then what carries it; never raises."""
        try:
            self.client.close()
            self.carriers.close()
        except errors.FOREIGN as exc:
            logging.getLogger(__name__).debug("closing %s: %r", self.target, exc)


class Carried:
    """A channel through a jump host, as the socket of another connection.

    paramiko closes its socket in a thread of its own; if the jump host is gone, the channel's close raises
    there and the user would see a traceback.
    """

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None:
        """Close the channel; never raises."""
        with contextlib.suppress(*_GONE):
            self._channel.close()


def login(device: Device, until_s: float) -> Login:
    """Connect and log in.

    Parameters
    ----------
    until_s
        Latest time on the monotonic clock; no step takes longer than 15 s in any case.

    Raises
    ------
    UnreachableError, HostKeyError, DeadlineError
    """
    where = f"{device.endpoint.host}:{device.endpoint.port}"
    started = time.monotonic()
    try:
        return _login(device, target(device.endpoint, device.name), until_s, depth=0)
    except errors.FOREIGN as exc:
        raise errors.ours(exc, device.name, where, time.monotonic() - started) from exc


def _login(device: Device, goal: Target, until_s: float, depth: int) -> Login:
    carriers = ExitStack()
    try:
        channel = _through(device, goal, until_s, depth, carriers) if goal.jump else None
        sock = cast("paramiko.Channel", Carried(channel)) if channel is not None else None
        client = _client(device, goal)
        try:
            _connect(device, client, goal, until_s, sock)
        except BaseException:
            client.close()
            raise
    except BaseException:
        carriers.close()
        raise
    return Login(client, goal, carriers)


def _client(device: Device, goal: Target) -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(_Refuse(device, goal))
    for path in goal.known_hosts:
        # A file that does not exist yet is an empty one: the refusal then says how to fill it.
        if Path(path).exists():
            client.load_system_host_keys(path)
    return client


def _connect(
    device: Device, client: paramiko.SSHClient, goal: Target, until_s: float, sock: paramiko.Channel | None
) -> None:
    left_s = _left(device, until_s)
    keys = [key for key in goal.key_files if goal.only_those or Path(key).exists()]
    try:
        client.connect(
            goal.host,
            goal.port,
            goal.user,
            sock=sock,
            key_filename=keys,  # type: ignore[arg-type]  # a list is allowed, the stub has only str
            look_for_keys=not goal.only_those,
            timeout=left_s,
            banner_timeout=left_s,
            auth_timeout=left_s,
            channel_timeout=left_s,
        )
    except paramiko.BadHostKeyException as exc:
        raise _changed(device, goal, exc) from exc
    transport = client.get_transport()
    if transport is None:
        raise UnreachableError("the connection was closed at once", device=device.name)
    transport.set_keepalive(_KEEPALIVE_S)
    over_tcp = getattr(transport.sock, "family", None) in {socket.AF_INET, socket.AF_INET6}
    if over_tcp and isinstance(transport.sock, socket.socket) and hasattr(socket, "TCP_USER_TIMEOUT"):
        # A peer that vanished without a word would else be noticed after a quarter of an hour.
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)


def _through(
    device: Device, goal: Target, until_s: float, depth: int, carriers: ExitStack
) -> paramiko.Channel:
    """Open a channel to `goal` on its last jump host, which is itself reached through those before it."""
    if depth >= _HOPS:
        raise UnreachableError(
            f"more than {_HOPS} jump hosts in a row", device=device.name, next_step="correct ~/.ssh/config"
        )
    before, _, last = goal.jump.rpartition(",")
    hop = target(jump_endpoint(last, device.endpoint), device.name)
    hop = replace(hop, jump=before or hop.jump)
    carrier = _at_the_hop(device, hop, until_s, depth)
    carriers.callback(carrier.close)
    transport = carrier.transport
    if transport is None:
        raise UnreachableError(f"the jump host {hop} closed the connection", device=device.name)
    source = ("127.0.0.1", 0)
    return transport.open_channel(
        "direct-tcpip", (goal.host, goal.port), source, timeout=_left(device, until_s)
    )


def _at_the_hop(device: Device, hop: Target, until_s: float, depth: int) -> Login:
    """Log in to a jump host, a few at a time: sshd drops who comes while too many have not logged in yet."""
    if depth:
        return _login(device, hop, until_s, depth + 1)
    if not _HOP_LOGINS.acquire(timeout=max(0.0, until_s - time.monotonic())):
        raise DeadlineError(
            f"too many wait to log in to the jump host {hop}", device=device.name, after_s=0.0
        )
    try:
        return _login(device, hop, until_s, depth + 1)
    finally:
        _HOP_LOGINS.release()


def _left(device: Device, until_s: float) -> float:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise DeadlineError("no time is left to connect", device=device.name, after_s=0.0)
    return min(left_s, CONNECT_S)


class _Refuse(paramiko.MissingHostKeyPolicy):
    """Refuses a host key that is not recorded, and says how to record it."""

    def __init__(self, device: Device, goal: Target) -> None:
        self._device = device
        self._goal = goal

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> NoReturn:
        """Raise HostKeyError."""
        del client, hostname
        file = self._goal.known_hosts[0]
        port = "" if self._goal.port == SSH_PORT else f"-p {self._goal.port} "
        scan = f"ssh-keyscan {port}{shlex.quote(self._goal.host)} >> {shlex.quote(file)}"
        raise HostKeyError(
            f"its host key {key.get_name()} {key.fingerprint} is not in {file}",
            device=self._device.name,
            next_step=f"compare the fingerprint with the device's own, then record it: {scan}",
        )


def _changed(device: Device, goal: Target, exc: paramiko.BadHostKeyException) -> HostKeyError:
    name = goal.host if goal.port == SSH_PORT else f"[{goal.host}]:{goal.port}"
    file = goal.known_hosts[0]
    return HostKeyError(
        f"its host key is {exc.key.get_name()} {exc.key.fingerprint}, but {file} "
        f"has {exc.expected_key.get_name()} {exc.expected_key.fingerprint}",
        device=device.name,
        next_step=f"if it was reinstalled: ssh-keygen -f {shlex.quote(file)} -R {shlex.quote(name)}, "
        "then record the new key; if not, somebody answers in its place",
    )
