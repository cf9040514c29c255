"""Where a connection goes, from the endpoint and, where that is silent, from ``~/.ssh/config``."""

from __future__ import annotations

import functools
import getpass
from dataclasses import dataclass
from pathlib import Path

import paramiko

from fabricctl.errors import UnreachableError
from fabricctl.model.fabric import Endpoint
from fabricctl.transport.ssh import errors

SSH_PORT = 22


@dataclass(frozen=True, slots=True)
class Target:
    """Everything a login needs.

    Parameters
    ----------
    key_files
        Private keys to try first.
    only_those
        Whether the user's default keys are left out, since the inventory names a key.
    known_hosts
        Files of host keys that exist, the first being where a new key would be recorded.
    jump
        ``user@host:port`` to go through, empty for a direct connection; several stand with commas.
    """

    host: str
    port: int
    user: str
    key_files: tuple[str, ...]
    only_those: bool
    known_hosts: tuple[str, ...]
    jump: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def target(endpoint: Endpoint, device: str) -> Target:
    """Return where to connect for `endpoint`.

    Raises
    ------
    UnreachableError
        ``~/.ssh/config`` asks for a ProxyCommand.
    """
    found = _config().lookup(endpoint.host)
    if found.get("proxycommand", "none") != "none" and "proxyjump" not in found:
        raise UnreachableError(
            f"~/.ssh/config has a ProxyCommand for {endpoint.host}, which is not supported",
            device=device,
            next_step="use ProxyJump instead",
        )
    port = endpoint.port if endpoint.port != SSH_PORT else int(found.get("port", SSH_PORT))
    keys = (endpoint.key_file,) if endpoint.key_file else tuple(found.get("identityfile", ()))
    jump = found.get("proxyjump", "")
    return Target(
        host=found.get("hostname", endpoint.host),
        port=port,
        user=endpoint.user or found.get("user", "") or getpass.getuser(),
        key_files=tuple(str(Path(key).expanduser()) for key in keys),
        only_those=bool(endpoint.key_file),
        known_hosts=_known_hosts(endpoint, found.get("userknownhostsfile", "")),
        jump="" if jump == "none" else jump,
    )


def host_key_lines(goal: Target) -> tuple[str, ...]:
    """Return the host keys that a login to `goal` accepts, as lines of a file of known hosts for it alone.

    Raises
    ------
    UnreachableError
        A file of known hosts cannot be read.
    """
    name = goal.host if goal.port == SSH_PORT else f"[{goal.host}]:{goal.port}"
    lines: list[str] = []
    for path in goal.known_hosts:
        if Path(path).exists():
            try:
                found = paramiko.HostKeys(path).lookup(name)
            except errors.FOREIGN as exc:
                raise errors.ours(exc, goal.host, path, 0.0) from exc
            if found is not None:
                lines += [f"{name} {kind} {key.get_base64()}" for kind, key in found.items()]
    return tuple(lines)


def jump_endpoint(hop: str, endpoint: Endpoint) -> Endpoint:
    """Return the endpoint of one hop ``[user@]host[:port]``; host keys are checked in the same file."""
    user, _, place = hop.strip().removeprefix("ssh://").rpartition("@")
    host, port = place, SSH_PORT
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        port = int(rest.removeprefix(":") or SSH_PORT)
    elif place.count(":") == 1:
        host, _, rest = place.partition(":")
        port = int(rest)
    return Endpoint(host=host, port=port, user=user, known_hosts=endpoint.known_hosts)


def _known_hosts(endpoint: Endpoint, configured: str) -> tuple[str, ...]:
    if endpoint.known_hosts:
        return (str(Path(endpoint.known_hosts).expanduser()),)
    users = configured.split() or ["~/.ssh/known_hosts"]
    every = [Path(name).expanduser() for name in (*users, "/etc/ssh/ssh_known_hosts")]
    return tuple(str(path) for path in every if path.is_file()) or (str(every[0]),)


@functools.cache
def _read_config(path: Path, changed_ns: int) -> paramiko.SSHConfig:
    del changed_ns  # part of the cache's key: a changed file is read again
    return paramiko.SSHConfig.from_path(str(path))


def _config() -> paramiko.SSHConfig:
    path = Path("~/.ssh/config").expanduser()
    if not path.is_file():
        return paramiko.SSHConfig()
    return _read_config(path, path.stat().st_mtime_ns)
