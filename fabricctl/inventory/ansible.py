"""Runs ``ansible-inventory`` and returns every host's variables, templates and vaulted values resolved."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabricctl.errors import InventoryError, MissingToolError
from fabricctl.model.words import quoted

DEADLINE_S = 120.0
"""How long resolving a small inventory may take in all."""
DEADLINE_S_PER_MB = 60.0
"""How much longer it may take for each megabyte of its files: on a busy machine a megabyte takes 10 s."""

CONNECTION = (
    "ansible_host",
    "ansible_port",
    "ansible_user",
    "ansible_ssh_host",
    "ansible_ssh_port",
    "ansible_ssh_user",
    "ansible_private_key_file",
    "ansible_ssh_private_key_file",
    "ansible_connection",
    "ansible_httpapi_port",
    "ansible_httpapi_use_ssl",
    "ansible_httpapi_validate_certs",
    "ansible_become",
    "ansible_become_method",
    "ansible_become_user",
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
)
"""The connection variables that are used, or refused where they would silently not be."""

SECRETS = (
    "ansible_password",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_httpapi_pass",
    "ansible_httpapi_password",
    "ansible_become_pass",
    "ansible_become_password",
)
"""Passwords: only whether there is one is kept, to say that it is not used."""

HOST_RANGE = "host range"
"""Begins what Ansible says of brackets in a host's name that are no range."""

_SPARING = """\
import copy, gc, types
gc.set_threshold(100_000, 50, 100)
from ansible.parsing import dataloader
class Shared(types.ModuleType):
    deepcopy = staticmethod(lambda value, memo=None: value)
    def __getattr__(self, name):
        return getattr(copy, name)
dataloader.copy = Shared("copy")
from ansible.cli.inventory import main
main()
"""
"""``ansible-inventory`` in a third of its time: without its search for garbage, of which it has none, and
without a second copy of each file that it has read, which only tasks would change."""

_OURS = "fabric_"
_ANSWER = re.compile(r"(\S+) \| (\w+)!? => (\{.*\})")
_FAILED_PARSE = re.compile(
    # Ansible breaks lines, in the path too where it has a dash.
    r"Failed to parse .+? with (?!host_list|auto|toml)\w+ plugin: (.*?)(?=\[WARNING\]|ERROR!|$)"
)


@dataclass(frozen=True)
class Listing:
    """What an inventory says.

    Parameters
    ----------
    hosts
        By host, in inventory order: its ``fabric_`` and connection variables.
    groups
        By host: its groups, the most specific first, ``all`` last.
    """

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Deadline:
    """When resolving must be done.

    Parameters
    ----------
    within_s
        How long it may take in all, in seconds.
    end
        On the monotonic clock.
    """

    within_s: float
    end: float


@dataclass(frozen=True)
class Resolving:
    """An ``ansible-inventory`` that is at work: its caller reads the files meanwhile."""

    path: Path
    process: subprocess.Popen[str]
    end: Deadline

    def listing(self) -> Listing:
        """Wait for it, and fill in templates and vaulted values.

        Raises
        ------
        InventoryError
            Ansible cannot parse the inventory, decrypt it, or did not finish in time.
        """
        raw: dict[str, Any] = json.loads(_output("ansible-inventory", self.process, self.path, self.end))
        depths: dict[str, dict[str, int]] = {}
        _walk(raw, "all", 0, depths)
        given = raw.get("_meta", {}).get("hostvars", {})
        hosts = {host: _relevant(given.get(host, {})) for host in depths}
        _resolve(hosts, self.path, self.end)
        groups = {host: tuple(sorted(of, key=lambda name: (-of[name], name))) for host, of in depths.items()}
        return Listing(hosts, groups)


@contextlib.contextmanager
def resolving(path: Path, *, size_bytes: int = 0) -> Iterator[Resolving]:
    """Resolve the inventory at `path` with Ansible itself, in the user's environment and configuration.

    Parameters
    ----------
    size_bytes
        Size of its files: the more there is to read, the longer it may take.

    Raises
    ------
    MissingToolError
        There is no ``ansible-inventory``.
    """
    within_s = DEADLINE_S + DEADLINE_S_PER_MB * size_bytes / 1e6
    end = Deadline(within_s, time.monotonic() + within_s)
    with _started("ansible-inventory", ("-i", str(path), "--list")) as process:
        yield Resolving(path, process, end)


def _walk(
    raw: Mapping[str, Any], group: str, depth: int, depths: dict[str, dict[str, int]]
) -> tuple[str, ...]:
    """Note the depth of every group of every host, hosts in inventory order; return the group's hosts."""
    body = raw.get(group, {})
    hosts = list(body.get("hosts", ()))
    for host in hosts:
        depths.setdefault(host, {})
    for inner in body.get("children", ()):
        hosts.extend(_walk(raw, inner, depth + 1, depths))
    for host in hosts:
        depths[host][group] = max(depth, depths[host].get(group, 0))
    return tuple(hosts)


def _relevant(variables: Mapping[str, Any]) -> dict[str, Any]:
    kept = {k: _plain(v) for k, v in variables.items() if k in CONNECTION or k.startswith(_OURS)}
    return kept | {key: True for key in SECRETS if variables.get(key)}


def _plain(value: Any) -> Any:
    """Unwrap what a plug-in marked as "not a template", so that its braces are kept as they are."""
    match value:
        case {"__ansible_unsafe": text}:
            return _Literal(text)
        case dict() if "__ansible_vault" not in value:
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case _:
            return value


class _Literal(str):
    """A text that is never a template."""

    __slots__ = ()


def _unresolved(value: Any) -> bool:
    match value:
        case _Literal():
            return False
        case str():
            return "{{" in value or "{%" in value
        case dict():
            return "__ansible_vault" in value or any(map(_unresolved, value.values()))
        case list():
            return any(map(_unresolved, value))
        case _:
            return False


def _resolve(hosts: dict[str, dict[str, Any]], path: Path, end: Deadline) -> None:
    """Let Ansible fill in templates and vaulted values, which ``--list`` leaves as they are."""
    wanted: dict[tuple[str, ...], list[str]] = {}
    for host, variables in hosts.items():
        if keys := tuple(sorted(key for key, value in variables.items() if _unresolved(value))):
            wanted.setdefault(keys, []).append(host)
    for keys, names in wanted.items():
        for host, answer in _templated(keys, names, path, end).items():
            hosts[host].update(answer)
        if missing := [host for host in names if any(_unresolved(hosts[host][key]) for key in keys)]:
            raise InventoryError(
                f"{', '.join(keys)} of {missing[0]} cannot be resolved: it is a template or a vaulted value",
                where=str(path),
                next_step=f"see what Ansible says: ansible {quoted(missing[0])} -i {quoted(str(path))}"
                f" -m debug -a var={keys[0]}",
            )


def _templated(
    keys: tuple[str, ...], hosts: list[str], path: Path, end: Deadline
) -> dict[str, dict[str, Any]]:
    question = json.dumps({"msg": {key: f"{{{{ {key} }}}}" for key in keys}})
    with tempfile.NamedTemporaryFile("w", prefix="fabricctl-", encoding="utf-8") as limit:
        limit.write("\n".join(hosts))
        limit.flush()
        argv = ("all", "-i", str(path), "--limit", f"@{limit.name}", "--one-line", "--forks", "20")
        text = _run("ansible", (*argv, "-m", "ansible.builtin.debug", "-a", question), path, end)
    answers = {}
    for line in text.splitlines():
        match = _ANSWER.fullmatch(line)
        if not match:
            continue
        answer = json.loads(match[3])
        if match[2] != "SUCCESS":
            raise InventoryError(
                f"{match[1]}: {', '.join(keys)} cannot be resolved: {answer.get('msg', 'no reason given')}",
                where=str(path),
                next_step=_advice(str(answer.get("msg"))),
            )
        answers[match[1]] = dict(answer["msg"])
    return answers


def _run(program: str, arguments: tuple[str, ...], path: Path, end: Deadline) -> str:
    with _started(program, arguments) as process:
        return _output(program, process, path, end)


@contextlib.contextmanager
def _started(program: str, arguments: tuple[str, ...]) -> Iterator[subprocess.Popen[str]]:
    """Start `program`; it is ended with what it started if anything goes wrong meanwhile."""
    environment = {
        **os.environ,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "0",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        "LC_ALL": "C.UTF-8",  # ansible refuses to start in another encoding
    }
    environment.pop("ANSIBLE_FORCE_COLOR", None)
    with subprocess.Popen(
        [*_command(program), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            yield process
        except BaseException:
            _kill(process)
            raise


def _output(program: str, process: subprocess.Popen[str], path: Path, end: Deadline) -> str:
    """Wait for `process` and return what it printed."""
    try:
        out, err = process.communicate(timeout=max(0.1, end.end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise InventoryError(
            f"{program} did not finish within {end.within_s:.0f} s",
            where=str(path),
            next_step=f"see what it waits for: ansible-inventory -i {quoted(str(path))} --list",
        ) from None
    if process.returncode != 0 and (program == "ansible-inventory" or not out.strip()):
        reason = _reason(err)
        raise InventoryError(f"Ansible cannot read it: {reason}", where=str(path), next_step=_advice(reason))
    return out


def _kill(process: subprocess.Popen[str]) -> None:
    """End the program with the inventory scripts that it started: they share its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()


def _command(program: str) -> list[str]:
    """Return how to start `program`: the inventory's own so that it looks for garbage less often."""
    found = _find(program)
    if program == "ansible-inventory" and Path(found).parent == Path(sys.executable).parent:
        return [sys.executable, "-P", "-c", _SPARING]
    return [found]


def _find(program: str) -> str:
    beside = Path(sys.executable).parent / program
    found = str(beside) if beside.is_file() else shutil.which(program)
    if not found:
        raise MissingToolError(
            f"{program} is not installed", next_step="install it: pip install ansible-core"
        )
    return found


def _reason(err: str) -> str:
    text = " ".join(err.split())
    if causes := _FAILED_PARSE.findall(text):
        # Each plug-in says why it could not; only the one for INI gets as far as a range.
        cause = next((cause for cause in causes if HOST_RANGE in cause), causes[0])
        return str(cause).strip().rstrip(".")
    _, _, error = text.rpartition("ERROR! ")
    return error or "no reason given"


def _advice(reason: str) -> str:
    if "decrypt" in reason or "vault" in reason.lower():
        return "name the vault password: ANSIBLE_VAULT_PASSWORD_FILE, or vault_password_file in ansible.cfg"
    return ""
