"""How a SONiC switch is changed: one shell script that carries a small Python program and runs it.

The program reads CONFIG_DB as it is at that moment, works out what to change, has SONiC's own updater
rehearse it, takes a checkpoint, arms a timer, and lets the updater do it. It never calls ``qos reload`` or
``qos clear``, which write all ports, nor ``ecnconfig``, which knows no ports.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fabricctl.plugin.protocols import PortGoal

_PACKAGE = "fabricctl.drivers.switch.sonic.node"
_RUN_FOLDER = "/run/fabricctl"


@dataclass(frozen=True, slots=True)
class SonicMethod:
    """A :class:`fabricctl.plugin.protocols.Method`: ports can be taken back one by one."""

    whole: bool = False

    def push(self, apply_id: str, slot: int, goals: Sequence[PortGoal], within_s: int) -> str:
        """Return the script that sets the ports, with a timer that takes it back after `within_s` seconds."""
        number = f"{slot:04d}"
        said = json.dumps([_goal(goal) for goal in goals], indent=1, sort_keys=True)
        folder = _q(f"{_RUN_FOLDER}/{apply_id}.{number}")
        revert = f"{_PATH}cd {folder} || exit 0\nexec {_CALL} revert {_q(apply_id)}\n"
        call = f'push {_q(apply_id)} {number} "$new" {int(within_s)}'
        return _script({"goals.json": said + "\n", "revert.sh": revert}, call)

    def revert(self, apply_id: str, ports: Sequence[str]) -> str:
        """Return the script that takes back an unconfirmed apply: of the ports, or all of it."""
        return _script({}, " ".join(["revert", _q(apply_id), *(_q(port) for port in ports)]))

    def confirm(self, apply_id: str, slots: Sequence[int]) -> str:
        """Return the script that saves the switch's configuration and stops the timers."""
        return _script({}, " ".join(["confirm", _q(apply_id), *(f"{slot:04d}" for slot in slots)]))


_PATH = "PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin; export PATH\n"
_CALL = f"python3 -B -m {_PACKAGE}.run"


def _goal(goal: PortGoal) -> Mapping[str, object]:
    return {"port": goal.port.id.port, "names": list(goal.names), "wanted": dict(goal.wanted)}


def _script(files: Mapping[str, str], call: str) -> str:
    """Return a script that lays the program and `files` into a new folder and calls the program."""
    folder = "/".join(_PACKAGE.split("."))
    lines = [
        "umask 077",
        _PATH.rstrip("\n"),
        "command -v python3 >/dev/null || { echo 'fabricctl: the switch has no python3' >&2; exit 1; }",
        f"mkdir -p {_RUN_FOLDER} || exit 1",
        f"new=$(mktemp -d {_RUN_FOLDER}/new-XXXXXX) || exit 1",
        # A push moves it to its place.
        "trap 'rm -rf \"$new\"' EXIT",
        f'mkdir -p "$new"/{folder} && : >"$new"/fabricctl/__init__.py || exit 1',
    ]
    lines += [_file(f"{folder}/{name}", text) for name, text in _program().items()]
    lines += [_file(name, text) for name, text in files.items()]
    # Python looks for modules in the working folder first.
    lines.append(f'cd "$new" && {_CALL} {call} </dev/null')
    return "\n".join(lines) + "\n"


@cache
def _program() -> Mapping[str, str]:
    """Return the program's modules by file name."""
    found = (each for each in resources.files(_PACKAGE).iterdir() if each.name.endswith(".py"))
    return {each.name: each.read_text(encoding="utf-8") for each in sorted(found, key=lambda each: each.name)}


def _file(path: str, text: str) -> str:
    # The delimiter holds the text's digest, so that no line of the text can equal it.
    mark = f"END_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return f"cat >\"$new\"/{path} <<'{mark}' || exit 1\n{text}{mark}"


def _q(word: str) -> str:
    return shlex.quote(word)


METHOD = SonicMethod()
