"""Read a device's REST interface over HTTPS: certificates are always checked."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from fabricctl import resources
from fabricctl.errors import (
    DeadlineError,
    FabricctlError,
    HostKeyError,
    UnreachableError,
    UsageError,
)
from fabricctl.model.fabric import Device
from fabricctl.transport.base import Process, Reply
from fabricctl.transport.shell import one_line, text

MANY_S = 12.0
"""How long the paths of one line may take together; those that are left are not asked."""

_LIMIT_BYTES = 64 * 1024 * 1024
_UNAUTHORISED = 401
_FORBIDDEN = 403
_OK = 300
_PRIVATE = 0o077
_LOGIN = "check ansible_user and fabric_password_file"


class RestTransport:
    """Answers lines of the form ``GET PATH...``; there is no shell, so it runs nothing."""

    def converse(self, device: Device, lines: Sequence[str], *, deadline_s: float) -> tuple[Reply, ...]:
        """Read what each line names, over one connection.

        Returns
        -------
        tuple
            The body of a line's one path; of several, a line ``== PATH`` before each. `rc` is 1 where the
            device says that there is nothing at the only path.

        Raises
        ------
        UnreachableError, HostKeyError, DeadlineError
        UsageError
            The password file is not there, or others can read it.
        """
        until = time.monotonic() + deadline_s
        end = device.endpoint
        headers = _headers(device)
        connection = http.client.HTTPSConnection(end.host, end.port, context=_trust(device))
        with closing(connection):
            try:
                return tuple(
                    _reply([_get(device, connection, path, headers, until) for path in _paths(line, until)])
                    for line in lines
                )
            except (OSError, http.client.HTTPException) as exc:
                _fail(device, exc, deadline_s)

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        """Refuse: there is no shell."""
        del script, deadline_s
        raise _no_shell(device)

    def put(self, device: Device, path: str, content: bytes, *, mode: int, deadline_s: float) -> None:
        """Refuse: there are no files."""
        del path, content, mode, deadline_s
        raise _no_shell(device)

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> Process:
        """Refuse: there are no programs."""
        del argv, deadline_s
        raise _no_shell(device)

    def close(self) -> None:
        """Do nothing: a connection lives as long as its conversation."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def environment(device: Device) -> dict[str, str]:
    """Return what a program on this machine needs to reach the device's REST interface; it holds no secret.

    ``FABRICCTL_REST`` is JSON with host, port, user, password_file and ca_file; ``FABRICCTL_RUN`` is a folder
    for what must outlive the program.
    """
    end = device.endpoint
    way = {
        "host": end.host,
        "port": end.port,
        "user": end.user,
        "password_file": str(_password_file(device)),
        "ca_file": end.ca_file,
    }
    return {
        "FABRICCTL_REST": json.dumps(way),
        "FABRICCTL_RUN": str(resources.state_folder() / "rest" / device.name),
    }


def _no_shell(device: Device) -> UsageError:
    return UsageError(
        "it is reached over REST, which runs no programs",
        where=device.name,
        next_step="its driver must be one that speaks REST, or set ansible_connection: ssh",
    )


def _password_file(device: Device) -> Path:
    """Return the file that holds the password, if only its owner can read it."""
    path = Path(device.endpoint.password_file)
    try:
        mode = path.stat().st_mode
    except OSError as exc:
        raise UsageError(
            f"the password file {path} cannot be read: {exc.strerror}",
            where=device.name,
            next_step="name a file with the password in its first line: fabric_password_file",
        ) from None
    if mode & _PRIVATE:
        raise UsageError(
            f"others can read the password file {path}", where=device.name, next_step=f"chmod 600 {path}"
        )
    return path


def _headers(device: Device) -> dict[str, str]:
    path = _password_file(device)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as exc:
        raise UsageError(f"the password file {path} cannot be read: {exc}", where=device.name) from None
    token = base64.b64encode(f"{device.endpoint.user}:{lines[0] if lines else ''}".encode()).decode()
    return {"Authorization": f"Basic {token}", "Accept": "application/json"}


def _trust(device: Device) -> ssl.SSLContext:
    """Return what the device's certificate is checked against: the CA that is named, else the system's."""
    try:
        return ssl.create_default_context(cafile=device.endpoint.ca_file or None)
    except OSError as exc:  # a ssl.SSLError is one
        raise UsageError(
            f"the CA file {device.endpoint.ca_file} cannot be used: {exc.strerror or exc}",
            where=device.name,
            next_step="name a file of PEM certificates: fabric_ca_file",
        ) from None


def _paths(line: str, until: float) -> Iterator[str]:
    """Yield the paths of a line; of several only as many as there is time for."""
    verb, *paths = line.split(" ")
    if verb != "GET" or not paths:
        message = f"not a line for a REST interface: {line!r}"
        raise ValueError(message)
    enough = min(until, time.monotonic() + MANY_S)
    for path in paths:
        if len(paths) > 1 and time.monotonic() > enough:
            return
        yield path


def _get(
    device: Device, connection: http.client.HTTPSConnection, path: str, headers: dict[str, str], until: float
) -> tuple[str, int, str]:
    """Return the path, the status and the body."""
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    connection.timeout = left_s
    if connection.sock is not None:
        connection.sock.settimeout(left_s)
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    body = text(reply.read(_LIMIT_BYTES))
    if reply.status == _UNAUTHORISED:
        raise UnreachableError("the login was refused", device=device.name, next_step=_LOGIN)
    if reply.status == _FORBIDDEN:
        raise UnreachableError(
            "the interface may not be used (HTTP 403)",
            device=device.name,
            next_step="change the user's default password first; the user needs the right to read",
        )
    return path, reply.status, body


def _reply(found: Sequence[tuple[str, int, str]]) -> Reply:
    if len(found) == 1:
        _, status, body = found[0]
        if status >= _OK:
            return Reply(1, "", f"HTTP {status}: {one_line(body)[:200]}")
        return Reply(0, body, "")
    shown = (f"== {path}\n{body if status < _OK else ''}" for path, status, body in found)
    return Reply(0, "\n".join(shown), "")


def _fail(device: Device, exc: OSError | http.client.HTTPException, deadline_s: float) -> NoReturn:
    if isinstance(exc, FabricctlError):  # some of ours are also Python's
        raise exc
    where = f"{device.endpoint.host}:{device.endpoint.port}"
    said = one_line(str(exc)) or type(exc).__name__
    match exc:
        case ssl.SSLCertVerificationError():
            raise HostKeyError(
                f"its certificate is not trusted ({where}: {one_line(exc.verify_message)})",
                device=device.name,
                next_step="name the CA that signed it, or the certificate itself: fabric_ca_file",
            ) from exc
        case TimeoutError():
            raise DeadlineError(
                f"it did not answer within {deadline_s:.0f} s ({where})",
                device=device.name,
                after_s=deadline_s,
                next_step="check that it is up and not overloaded",
            ) from exc
        case _:
            raise UnreachableError(
                f"no connection ({where}: {said})",
                device=device.name,
                next_step="check that it is up, its address and port, and that its REST interface is on",
            ) from exc
