"""Stands in for dcb, tc and ip in a test: keeps their state in a file, and logs each change.

Called as ``fake_tools.py STATE TOOL ARGUMENT...``. What it refuses and what it says follow the real tools.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

State = dict[str, Any]


def main() -> int:
    """Play the tool; return its exit status."""
    path, tool, *words = sys.argv[1:]
    file = Path(path)
    state: State = json.loads(file.read_text())
    plain = [word for word in words if not word.startswith("-")]
    rc = {"dcb": dcb, "tc": tc, "ip": ip}[tool](state, plain)
    file.write_text(json.dumps(state))
    return rc


def say(text: str) -> None:
    """Print a line as the tool would."""
    sys.stdout.write(f"{text}\n")


def complain(text: str) -> int:
    """Print an error as the tool would; return its exit status."""
    sys.stderr.write(f"{text}\n")
    return 1


def dcb(state: State, words: list[str]) -> int:
    """Play dcb: app, pfc, ets and buffer."""
    what, verb, _, _, *rest = words
    if what in state["refuses"]:
        return complain("Attribute read: Operation not supported")
    if verb == "show":
        blank = [" "] if state["blanks"] else []
        shown = {"dscp_prio": [[*pair, *blank] for pair in state["app"]]} if what == "app" else state[what]
        say(json.dumps({} if shown == {"dscp_prio": []} else shown, separators=(",", ":")))
        return 0
    state["log"].append(" ".join(["dcb", what, verb, *rest]))
    return change_app(state, verb, rest) if what == "app" else change_lists(state[what], rest)


def change_app(state: State, verb: str, rest: list[str]) -> int:
    """Add, delete or flush DSCP entries; `replacing` plays a NIC that keeps one priority for a DSCP."""
    pairs = [[int(number) for number in word.split(":")] for word in rest[1:]]
    app = state["app"]
    for pair in pairs:
        if verb == "add" and pair in app:
            return complain("Attribute write: File exists")
        if verb == "add" and state["replacing"]:
            app[:] = [entry for entry in app if entry[0] != pair[0]]
        if verb == "add":
            app.append(pair)
        elif pair in app:
            app.remove(pair)
        else:
            return complain("Attribute write: No such file or directory")
    if verb == "flush":
        app.clear()
    return 0


def change_lists(lists: State, rest: list[str]) -> int:
    """Set ``NAME N:VALUE...`` words in lists; ets shares must sum to 100, as dcb itself checks."""
    name = ""
    for word in rest:
        index, colon, value = word.partition(":")
        if not colon:
            name = word.replace("-", "_")
            continue
        known: Any = {"on": True, "off": False}.get(value, int(value) if value.isdecimal() else value)
        for at in range(8) if index == "all" else [int(index)]:
            lists[name][at] = known
    shares = [
        bw for bw, tsa in zip(lists.get("tc_bw", []), lists.get("tc_tsa", []), strict=True) if tsa == "ets"
    ]
    if shares and sum(shares) != 100:
        return complain(f"Bandwidth percentages in tc-bw sum to {sum(shares)}%, expected 100%")
    return 0


def tc(state: State, words: list[str]) -> int:
    """Play tc: the root qdisc of one device."""
    verb = words[1]
    if verb == "show":
        say(json.dumps(state["qdiscs"], separators=(",", ":")))
        return 0
    state["log"].append(" ".join(["tc", *words]))
    state["qdiscs"] = []
    if verb == "replace":
        given = dict(zip(words[6::2], words[7::2], strict=False))
        options: State = {name: int(given[name]) for name in ("limit", "min", "max")}
        options |= {"ecn": words[-1] == "ecn", "probability": float(given["probability"])}
        state["qdiscs"] = [
            {"kind": "red", "handle": "8001:", "dev": "lo", "root": True, "refcnt": 2, "options": options}
        ]
    return 0


def ip(state: State, words: list[str]) -> int:
    """Play ip: only log."""
    state["log"].append(" ".join(["ip", *words]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
