"""paramiko's and the socket's exceptions as ours, each with what to do about it."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from paramiko import auth_strategy, ber, buffered_pipe, hostkeys, packet, pkey, sftp
from paramiko import ssh_exception as ssh

from fabricctl.errors import DeadlineError, DeviceError, HostKeyError, UnreachableError
from fabricctl.transport.shell import one_line

_LOGIN = "check ansible_user and the key: ssh -v to the device shows which keys are offered"
_FILES = "check the file of the private key"
_CONFIG = "correct ~/.ssh/config"
_AGAIN = "try again; if it stays, look at sshd's log on the device"

MEANINGS: Mapping[type[BaseException], tuple[str, str]] = {
    ssh.SSHException: ("the SSH session failed", _AGAIN),
    ssh.AuthenticationException: ("the login was refused", _LOGIN),
    ssh.PasswordRequiredException: (
        "the private key is encrypted",
        "add it to the SSH agent (ssh-add) and start again",
    ),
    ssh.BadAuthenticationType: ("the device does not allow logins by key", _LOGIN),
    ssh.PartialAuthentication: ("the device asks for more than a key", "use a key-only login for fabricctl"),
    ssh.UnableToAuthenticate: ("the login was refused", _LOGIN),
    auth_strategy.AuthFailure: ("the login was refused", _LOGIN),
    ssh.ChannelException: (
        "the device opens no further session",
        "check MaxSessions and the limits of sshd on the device",
    ),
    ssh.BadHostKeyException: (
        "the device shows another host key than the recorded one",
        "if it was reinstalled, remove the old key (ssh-keygen -R); if not, somebody answers in its place",
    ),
    ssh.IncompatiblePeer: ("the device offers no algorithm in common", "update sshd on the device"),
    ssh.ProxyCommandFailure: ("the proxy command failed", _CONFIG),
    ssh.NoValidConnectionsError: (
        "no connection",
        "check that the device is up, its address and port, and that sshd runs",
    ),
    ssh.CouldNotCanonicalize: ("the host name cannot be canonicalised", _CONFIG),
    ssh.ConfigParseError: ("the SSH configuration cannot be read", _CONFIG),
    ssh.MessageOrderError: ("the device breaks the SSH protocol", "update sshd on the device"),
    buffered_pipe.PipeTimeout: ("the device does not answer", "check that it is up and not overloaded"),
    hostkeys.InvalidHostKey: ("the file of known hosts has a broken line", "remove that line"),
    pkey.UnknownKeyType: ("the private key has an unknown type", _FILES),
    ber.BERException: ("the private key cannot be read", _FILES),
    packet.NeedRekeyException: ("the SSH session failed at a key renewal", _AGAIN),
    sftp.SFTPError: ("the device refused a file transfer", _AGAIN),
    socket.gaierror: ("the host name is unknown", "check ansible_host and the name service"),
    TimeoutError: ("the device does not answer", "check that it is up and not overloaded"),
    ConnectionError: ("the connection broke", "check that the device is up"),
    EOFError: ("the device closed the connection", _AGAIN),
    FileNotFoundError: ("a file is not there", "check the paths of the private key and of known_hosts"),
    PermissionError: ("a file cannot be read", "check the owner and mode of the private key and known_hosts"),
    OSError: ("no connection", "check that the device is up, its address and port"),
    ValueError: ("the private key cannot be read", _FILES),
}
"""By exception: what it means and what to do; a subclass that is not named means what its base means."""

FOREIGN: tuple[type[BaseException], ...] = tuple(MEANINGS)
"""What paramiko may raise, for an ``except`` clause."""


def ours(exc: BaseException, device: str, target: str, after_s: float) -> DeviceError:
    """Return our error for `exc`; one that is ours already comes back as it is.

    Parameters
    ----------
    target
        ``host:port`` that was tried.
    after_s
        The time limit that held, in seconds.
    """
    if isinstance(exc, DeviceError):
        return exc
    what, next_step = _meaning(type(exc))
    if isinstance(exc, ssh.NoValidConnectionsError):
        said = ", ".join(
            sorted({str(getattr(inner, "strerror", None) or inner) for inner in exc.errors.values()})
        )
    else:
        said = str(exc)
    detail = one_line(said)
    line = f"{what} ({target}: {detail})" if detail else f"{what} ({target})"
    match exc:
        case ssh.BadHostKeyException():
            return HostKeyError(line, device=device, next_step=next_step)
        case TimeoutError() | buffered_pipe.PipeTimeout():
            slow = f"{what} within {after_s:.0f} s ({target})"
            return DeadlineError(slow, device=device, after_s=after_s, next_step=next_step)
        case _:
            return UnreachableError(line, device=device, next_step=next_step)


def _meaning(kind: type[BaseException]) -> tuple[str, str]:
    for base in kind.__mro__:
        if base in MEANINGS:
            return MEANINGS[base]
    return ("the connection failed", _AGAIN)
