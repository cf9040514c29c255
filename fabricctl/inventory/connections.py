"""How devices may be reached, and what of Ansible's variables would silently not be used or not work."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabricctl.inventory.schema import PREFIX
from fabricctl.inventory.sources import Kind, kind_of
from fabricctl.model.fabric import NETWORK_CLI, REST, Endpoint

CONNECTIONS: Mapping[str, str] = {
    "ssh": "ssh",
    "smart": "ssh",
    "paramiko": "ssh",
    "paramiko_ssh": "ssh",
    "network_cli": NETWORK_CLI,
    "ansible.builtin.ssh": "ssh",
    "ansible.builtin.paramiko_ssh": "ssh",
    "ansible.netcommon.network_cli": NETWORK_CLI,
    "httpapi": REST,
    "ansible.netcommon.httpapi": REST,
    "local": "local",
    "ansible.builtin.local": "local",
}
"""By ``ansible_connection``: `Endpoint.connection`."""

_SHELLS = ("ssh", "local")
_BECOME = "ansible_become_"
_PRIVATE = stat.S_IRWXG | stat.S_IRWXO
_OPTIONS = "put ProxyJump and other options of ssh into ~/.ssh/config"
_KEY = "leave it out and use a key: ansible_ssh_private_key_file, or one in the SSH agent"
_FILE = "write it into the first line of a file with mode 0600, and name that: fabric_password_file"
_SUDO = "sudo must ask for no password: leave it out"
_NO_API = "nothing is sent to a web interface over network_cli: leave it out"
_CHECKED = "a REST interface is spoken to over HTTPS alone, and its certificate is checked: fabric_ca_file"

_IN_SSH = {"ssh": _OPTIONS}
_PASSWORD = {"ssh": _KEY, NETWORK_CLI: _KEY, REST: _FILE}
_API_PASSWORD = {NETWORK_CLI: _NO_API, REST: _FILE}
_API = {NETWORK_CLI: _NO_API, REST: _CHECKED}
_SWITCHES = frozenset({"ansible_httpapi_validate_certs", "ansible_httpapi_use_ssl"})
"""Variables that are refused where they are off."""
_OFF = frozenset({"false", "no", "off", "n", "f", "0"})

_UNUSED: Mapping[str, Mapping[str, str]] = {
    "ansible_ssh_args": _IN_SSH,
    "ansible_ssh_common_args": _IN_SSH,
    "ansible_ssh_extra_args": _IN_SSH,
    "ansible_password": _PASSWORD,
    "ansible_ssh_pass": _PASSWORD,
    "ansible_ssh_password": _PASSWORD,
    "ansible_httpapi_pass": _API_PASSWORD,
    "ansible_httpapi_password": _API_PASSWORD,
    "ansible_httpapi_validate_certs": _API,
    "ansible_httpapi_use_ssl": _API,
    "ansible_become_method": {
        **dict.fromkeys(_SHELLS, "commands run through sudo -n"),
        NETWORK_CLI: 'over network_cli "enable" is sent',
    },
    "ansible_become_user": dict.fromkeys(_SHELLS, "commands run as root"),
    "ansible_become_pass": dict.fromkeys(_SHELLS, _SUDO),
    "ansible_become_password": dict.fromkeys(_SHELLS, _SUDO),
}
"""By variable and by the connection that would silently go without it: what to do instead."""
_AS_USED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("ansible_become_method", "ssh"): ("sudo", "ansible.builtin.sudo"),
    ("ansible_become_method", "local"): ("sudo", "ansible.builtin.sudo"),
    ("ansible_become_method", NETWORK_CLI): ("enable", "ansible.netcommon.enable"),
    ("ansible_become_user", "ssh"): ("root",),
    ("ansible_become_user", "local"): ("root",),
}
"""By variable and connection: values that say what is done anyway."""

_KEY_FILES = ("ansible_ssh_private_key_file", "ansible_private_key_file")
"""Where a private key is named; the first that is given counts."""
_NO_KEY = "it is on the machine that you administer from; leave it out to use the SSH agent"
_NO_HOST_KEYS = "record the host keys in it with ssh-keyscan, and compare the fingerprints"
_NO_PASSWORD = "write the password into its first line, with mode 0600"  # noqa: S105  advice
_NO_CA = (
    "it holds the certificates (PEM) that the device's own is checked against; "
    "leave it out to use the system's"
)


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with a variable that says how to reach a device.

    Parameters
    ----------
    file
        The file that `what` and `next_step` speak of, where they say ``FILE``; empty if they do not.
    """

    variable: str
    what: str
    next_step: str
    file: str = ""


def unused(variables: Mapping[str, Any], endpoint: Endpoint) -> Iterator[Flaw]:
    """Walk the connection variables that Ansible would heed and fabricctl does not."""
    way = endpoint.connection
    for variable, advice in _UNUSED.items():
        if way not in advice or (variable.startswith(_BECOME) and not endpoint.become):
            continue
        value = variables.get(variable)
        refused = _is_off(value) if variable in _SWITCHES else bool(value)
        if refused and value not in _AS_USED.get((variable, way), ()):
            yield Flaw(variable, "cannot be used", advice[way])


def unusable_files(variables: Mapping[str, Any], endpoint: Endpoint) -> Iterator[Flaw]:
    """Walk the files that are not on this machine, or not as a login needs them."""
    if endpoint.connection in {"ssh", NETWORK_CLI}:
        key = next((name for name in _KEY_FILES if variables.get(name)), _KEY_FILES[0])
        yield from _absent(key, endpoint.key_file, _NO_KEY)
        yield from _absent(f"{PREFIX}known_hosts", endpoint.known_hosts, _NO_HOST_KEYS)
    elif endpoint.connection == REST:
        yield from _password(endpoint.password_file)
        yield from _absent(f"{PREFIX}ca_file", endpoint.ca_file, _NO_CA)


def _is_off(value: Any) -> bool:
    return value is not None and str(value).strip().lower() in _OFF


def _absent(variable: str, file: str, advice: str) -> Iterator[Flaw]:
    if file and kind_of(Path(file)) in {Kind.NONE, Kind.FOLDER}:
        yield Flaw(variable, "there is no file FILE", advice, file)


def _password(file: str) -> Iterator[Flaw]:
    if not file:
        return
    variable, path = f"{PREFIX}password_file", Path(file)
    if kind_of(path) is not Kind.FILE:
        # A pipe would be read once, and the password is needed more often.
        yield Flaw(variable, "there is no file FILE", _NO_PASSWORD, file)
    elif path.stat().st_mode & _PRIVATE:
        yield Flaw(variable, "others can read FILE", "chmod 600 FILE", file)
    else:
        try:
            with path.open(encoding="utf-8") as stream:
                empty = not stream.readline().strip()
        except (OSError, ValueError):
            yield Flaw(variable, "FILE cannot be read as text", _NO_PASSWORD, file)
        else:
            if empty:
                yield Flaw(variable, "the first line of FILE is empty", _NO_PASSWORD, file)
