"""The change of a switch as one shell script: the program that talks to NVUE, its order, and how it is run.

The program comes along with every push: nothing is installed on a switch, and nothing is left there. With
REST the same script runs on the controller.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from fabricctl.errors import RefusedError
from fabricctl.model import settings
from fabricctl.plugin.protocols import PortGoal

PORT = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,31}")
"""What an interface of Cumulus Linux may be called."""

_LIST = re.compile(r"\[[^\[\]{}]*\]")
_PARTS = ("tree", "goal", "channels", "run")
_PACKAGE = "fabricctl/drivers/switch/cumulus"
_START = """\
umask 077
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' HUP INT TERM
mkdir -p "$dir"/{package} || exit 1"""
_RUN = """\
python3 -E -s -S -B -c '
import sys
sys.path.insert(0, sys.argv[1])
from fabricctl.drivers.switch.cumulus import run
sys.exit(run.main(sys.argv[2]))' "$dir" "$dir"/order.json </dev/null"""


class NvueMethod:
    """NVUE's revisions: one is staged, applied with NVUE's own timer, and confirmed or taken back whole."""

    @property
    def whole(self) -> bool:
        """A revision is taken back as a whole."""
        return True

    def push(self, apply_id: str, slot: int, goals: Sequence[PortGoal], within_s: int) -> str:
        """Return what sets the ports; NVUE takes it back unless it is confirmed in time."""
        return _script(
            {
                "do": "push",
                "apply": apply_id,
                "slot": slot,
                "within_s": int(within_s),
                "goals": [{"port": _name(goal), "set": _values(goal)} for goal in goals],
            }
        )

    def revert(self, apply_id: str, ports: Sequence[str]) -> str:
        """Return what takes back all of an apply that is not confirmed; ports cannot be told apart."""
        del ports
        return _script({"do": "revert", "apply": apply_id})

    def confirm(self, apply_id: str, slots: Sequence[int]) -> str:
        """Return what confirms and saves the configuration."""
        return _script({"do": "confirm", "apply": apply_id, "slots": list(slots)})


def _name(goal: PortGoal) -> str:
    name = goal.port.id.port
    check_name(goal.port.id.device, name)
    return name


def check_name(device: str, name: str) -> None:
    """Refuse what is no name of an interface; RefusedError."""
    if not PORT.fullmatch(name):
        raise RefusedError(
            f"{name!r} is not the name of an interface",
            device=device,
            next_step="write the name in fabric_ports as `nv show interface` shows it",
        )


def _values(goal: PortGoal) -> dict[str, object]:
    return {name: goal.wanted[name] for name in sorted(goal.names) if name not in settings.KEPT}


def _script(order: Mapping[str, object]) -> str:
    # Lists of numbers on one line each: the order is what a reader of the script looks for.
    text = _LIST.sub(lambda found: " ".join(found[0].split()), json.dumps(order, sort_keys=True, indent=1))
    lines = [_START.format(package=_PACKAGE), *_program(), _here("order.json", text), _RUN]
    return "\n".join(lines) + "\n"


@cache
def _program() -> tuple[str, ...]:
    """Return the lines that lay the program down; the packages above it are empty there."""
    above = [Path(_PACKAGE), *list(Path(_PACKAGE).parents)[:-1]]
    empty = " ".join(f'"$dir"/{folder}/__init__.py' for folder in reversed(above))
    here = Path(__file__).resolve().parent
    files = [(f"{_PACKAGE}/{part}.py", (here / f"{part}.py").read_text(encoding="utf-8")) for part in _PARTS]
    touch = f'for file in {empty}; do : >"$file" || exit 1; done'
    return (touch, *(_here(name, text) for name, text in files))


def _here(name: str, text: str) -> str:
    # The delimiter holds the text's digest, so that no line of the text can equal it.
    mark = f"END_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    body = text if text.endswith("\n") else text + "\n"
    return f"cat >\"$dir\"/{name} <<'{mark}' || exit 1\n{body}{mark}"
