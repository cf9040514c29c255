"""What ansible needs to reach devices without a shell: ``network_cli`` over paramiko.

Its plugin reads host keys from ``~/.ssh/known_hosts`` alone, knows nothing of ``~/.ssh/config``, and keeps a
process for each device. So a push has a home of its own, in which every device has exactly the host keys that
reading it accepts, and ends those processes.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import site
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fabricctl.apply.compose import Job
from fabricctl.model.fabric import NETWORK_CLI, Device
from fabricctl.transport.ssh.target import Target, host_key_lines, target

COMMAND_S = 150
"""Longest time for one line, in seconds: a commit on a busy switch takes a minute."""
_IDLE_S = 60
_CONNECT_S = 20
_GRACE_S = 3.0
_POLL_S = 0.05
_CONTROL = "pc"
_SOCKET_BYTES = 107
"""Linux takes no longer path for a Unix socket."""
_SOCKET_NAME = "0123456789"
"""Ansible names a connection's socket by as many characters of a hash."""
_PROGRAM = b"ansible_connection_cli_stub"
_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")


def without_shell(jobs: Sequence[Job]) -> list[Device]:
    """Return the jobs' devices that have no shell."""
    return [job.device for job in jobs if job.device.endpoint.connection == NETWORK_CLI]


def variables(job: Job, ssh_arguments: str) -> dict[str, Any]:
    """Return the inventory variables of a device without a shell, for values that are not to be templated.

    Parameters
    ----------
    ssh_arguments
        ssh's options for a jump host.
    """
    device = job.device
    goal = target(device.endpoint, device.name)
    values: dict[str, Any] = {
        "ansible_host": _literal(goal.host),
        "ansible_port": goal.port,
        "ansible_user": _literal(goal.user),
        "ansible_connection": "ansible.netcommon.network_cli",
        "ansible_python_interpreter": _literal(sys.executable),
        "ansible_network_cli_ssh_type": "paramiko",
        "ansible_host_key_checking": True,
        "ansible_ssh_host_key_checking": True,
        "ansible_paramiko_host_key_checking": True,
        "ansible_network_cli_retries": 0,
        "ansible_paramiko_timeout": _CONNECT_S,
        "ansible_connect_timeout": _IDLE_S,
        "ansible_command_timeout": COMMAND_S,
        "fabricctl_lines": [_literal(line) for line in job.script.splitlines() if line.strip()],
    }
    keys = [key for key in goal.key_files if goal.only_those or Path(key).exists()]
    if keys:
        values["ansible_ssh_private_key_file"] = _literal(keys[0])
    if goal.jump:
        values["ansible_paramiko_proxy_command"] = _literal(_proxy(goal, ssh_arguments))
    if device.endpoint.become:
        values["ansible_become"] = True
        values["ansible_become_method"] = "ansible.netcommon.enable"
    return values


def make_home(folder: Path, devices: Sequence[Device]) -> dict[str, str]:
    """Make a home with the devices' host keys and the user's own keys; return the environment it needs."""
    home = folder / "home"
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700, parents=True)
    lines = [line for device in devices for line in host_key_lines(target(device.endpoint, device.name))]
    (ssh / "known_hosts").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for name in _DEFAULT_KEYS:
        own = Path("~/.ssh").expanduser() / name
        if own.exists():
            (ssh / name).symlink_to(own)
    return {
        "HOME": str(home),
        "PYTHONUSERBASE": site.getuserbase(),  # ansible may be installed there
        "ANSIBLE_HOST_KEY_AUTO_ADD": "False",
        "ANSIBLE_PARAMIKO_HOST_KEY_AUTO_ADD": "False",
        "ANSIBLE_PARAMIKO_RECORD_HOST_KEYS": "False",
        "ANSIBLE_PERSISTENT_CONTROL_PATH_DIR": str(folder / _CONTROL),
        "ANSIBLE_COLLECTIONS_PATH": _collections(),
    }


def room_for_sockets(folder: Path) -> bool:
    """Say whether the sockets of a push's connections can lie in its folder."""
    return len(os.fsencode(folder / _CONTROL / _SOCKET_NAME)) <= _SOCKET_BYTES


def end_connections(folder: Path) -> None:
    """End the processes that hold the connections of a push, known by its folder in their environment.

    A push that comes to its end has none left; one that was stopped has, for they are detached.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = list(_connections(folder))
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        until = time.monotonic() + _GRACE_S
        while left and any(True for _ in _connections(folder)) and time.monotonic() < until:
            time.sleep(_POLL_S)


def _connections(folder: Path) -> Iterator[int]:
    mark = f"ANSIBLE_PERSISTENT_CONTROL_PATH_DIR={folder / _CONTROL}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if _PROGRAM not in (entry / "cmdline").read_bytes():
                continue
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def _collections() -> str:
    # By default they are looked for in ANSIBLE_HOME, which is the push's own.
    named = os.environ.get("ANSIBLE_COLLECTIONS_PATH") or os.environ.get("ANSIBLE_COLLECTIONS_PATHS")
    own = Path(os.environ.get("ANSIBLE_HOME", "~/.ansible")).expanduser() / "collections"
    return named or f"{own}:/usr/share/ansible/collections"


def _proxy(goal: Target, ssh_arguments: str) -> str:
    before, _, last = goal.jump.rpartition(",")
    through = f"-J {shlex.quote(before)} " if before else ""
    host = f"[{goal.host}]" if ":" in goal.host else goal.host
    return f"ssh {ssh_arguments} {through}-W {host}:{goal.port} {shlex.quote(_uri(last))}"


def _uri(hop: str) -> str:
    return hop if hop.startswith("ssh://") else f"ssh://{hop}"


def _literal(text: str) -> dict[str, str]:
    # Ansible does not template a value that is marked so.
    return {"__ansible_unsafe": text}
