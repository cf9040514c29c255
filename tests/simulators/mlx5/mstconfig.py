#!/usr/bin/python3 -IS
"""Stands in for mstconfig, mlxconfig and mstfwreset: play the one under whose name this file is started.

The state is that of ``tools.py``: ``firmware`` in ``state.json`` has, by card, each value as default, current
and next boot's. What is printed follows "Examples of mlxconfig Usage" in NVIDIA's documentation of its
firmware tools, and output in issues of mstflint.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("FABRICCTL_SIM", "/run/fabricctl-sim"))
HEAD = "\nDevice #1:\n----------\n\nDevice type:        ConnectX7           \n"


def main(words: list[str]) -> int:
    """Query, set or reset."""
    file = FOLDER / "state.json"
    state = json.loads(file.read_text())
    try:
        device = words[words.index("-d") + 1]
    except (ValueError, IndexError):
        return error("No device found.")
    slot = device.rpartition(".")[0]
    card = state["firmware"].get(slot if slot.count(":") > 1 else f"0000:{slot}")
    if card is None:
        return error(f"Failed to open the device: {device}")
    rest = [word for word in words if word not in {"-d", device, "-y", "-e"}]
    if Path(sys.argv[0]).name == "mstfwreset":
        for values in card.values():
            values[1] = values[2]
        file.write_text(json.dumps(state))
        return 0
    if rest[:1] in (["q"], ["query"]):
        return query(card, device, rest[1:], columns="-e" in words)
    if rest[:1] != ["set"] or not rest[1:]:
        return error(f"Invalid command: {' '.join(rest)}")
    state["log"].append(" ".join([Path(sys.argv[0]).name, *words]))
    rc = change(card, device, rest[1:], agreed="-y" in words)
    file.write_text(json.dumps(state))
    return rc


def query(card: dict[str, Any], device: str, names: list[str], *, columns: bool) -> int:
    """Print values: the next boot's, or with -e also the default and the current ones."""
    for name in names:
        if name not in card:
            return error(f"The Device doesn't support {name} parameter")
    say(f"{HEAD}Device:             {device}             \n")
    heads = ["Default", "Current", "Next Boot"] if columns else ["Next Boot"]
    say(f"{'Configurations:':<44}{''.join(f'{head:<21}' for head in heads)}")
    for name in names or card:
        values = card[name] if columns else card[name][2:]
        star = "*" if columns and card[name][1] != card[name][2] else " "
        say(f"{star}       {name:<36}{''.join(f'{value:<21}' for value in values)}")
    if columns and any(values[1] != values[2] for values in card.values()):
        say("The '*' shows parameters with next value different from default/current value.")
    return 0


def change(card: dict[str, Any], device: str, words: list[str], *, agreed: bool) -> int:
    """Store values for the next boot."""
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in card:
            return error(f"The Device doesn't support {name} parameter")
        if not re.fullmatch(r"0x[0-9a-f]+|\d+", text) or int(text, 0) > 255:
            return error(f"Failed to parse {name}={text}: value out of range")
    say(f"{HEAD}Device:             {device}             \n")
    say(f"{'Configurations:':<44}{'Next Boot':<21}New")
    for word in words:
        name, _, text = word.partition("=")
        say(f"        {name:<36}{card[name][2]:<21}{text}")
    say("\n Apply new Configuration? (y/n) [n] : " + ("y" if agreed else ""))
    if not agreed:
        return error("Aborted by user.")
    for word in words:
        name, _, text = word.partition("=")
        value = str(int(text, 0))
        old = card[name][2]
        card[name][2] = re.sub(r"^\w+\(\d+\)$", {"0": "False(0)", "1": "True(1)"}.get(value, value), old)
        if "(" not in old:
            card[name][2] = value
    say("Applying... Done!\n-I- Please reboot machine to load new configurations.")
    return 0


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


def error(text: str) -> int:
    """Print an error as the tools do; return their exit status."""
    say(f"-E- {text}")
    return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
