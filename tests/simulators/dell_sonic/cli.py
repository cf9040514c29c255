"""The command line ``sonic-cli``: modes, what it takes in each, and how it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulators.dell_sonic.show import shown
from simulators.dell_sonic.switch import KEYS, SINGLE, load, running, save, used

UNKNOWN = "% Error: Unrecognized command."


class No(Exception):  # noqa: N818  what the switch prints, not an error of the program
    """The switch refuses a line; the message is what it prints."""


class Cli:
    """One session of ``sonic-cli`` on the switch that lies in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mode: tuple[str, ...] = ()

    def prompt(self) -> str:
        host = load(self.folder)["hostname"]
        if not self.mode:
            return f"{host}# "
        if self.mode == ("config",):
            return f"{host}(config)# "
        return f"{host}(config-{'-'.join(self.mode[1:]).replace(' ', '-')})# "

    def answer(self, line: str) -> str:
        """Do what a line says and return what it prints; No if the switch refuses it."""
        line = " ".join(line.split())
        piped, _, filtered = line.partition(" | ")
        if not line or line.startswith("!"):
            return ""
        state = load(self.folder)
        for pattern, said in state["odd_refusals"].items():
            if re.fullmatch(pattern, line):
                raise No(said)
        if line in {"exit", "end"}:
            self.mode = self.mode[:-1] if line == "exit" else ()
            return ""
        if piped.startswith("show ") and not self.mode:
            found = shown(state, piped) if filtered in {"", "no-more"} else None
            if found is None:
                raise No(UNKNOWN)
            return found
        if line.startswith("terminal length ") and not self.mode:
            return ""
        said = self._configure(state, line) if self.mode else self._exec(state, line)
        save(self.folder, state)
        return said

    def _exec(self, state: dict[str, Any], line: str) -> str:
        if line == "configure terminal":
            self.mode = ("config",)
        elif line == "write memory":
            state["startup"] = running(state)
        else:
            raise No(UNKNOWN)
        return ""

    def _configure(self, state: dict[str, Any], line: str) -> str:
        takes = {
            "if": _interface,
            "map": _map,
            "sched": _scheduler,
            "queue": _queue,
            "wred": _wred,
        }
        if self.mode == ("config",) or (
            line.startswith(("qos ", "interface ", "no qos ")) and len(self.mode) > 1
        ):
            self.mode = self._top(state, line)
            return ""
        kind = self.mode[-1].split()[0] if self.mode[-1].startswith("queue") else self.mode[1].split()[0]
        deeper = takes[kind](state, self.mode, line)
        if deeper:
            self.mode = (*self.mode, deeper)
        return ""

    def _top(self, state: dict[str, Any], line: str) -> tuple[str, ...]:
        for pattern, take in _TOP.items():
            match = re.fullmatch(pattern, line)
            if match:
                return ("config", *filter(None, (take(state, *match.groups()),)))
        raise No(UNKNOWN)


def _open_interface(state: dict[str, Any], name: str) -> str:
    if name.replace(" ", "") not in state["interfaces"]:
        raise No("%Error: Interface does not exist")
    return f"if {name.replace(' ', '')}"


def _open_map(state: dict[str, Any], kind: str, name: str) -> str:
    if kind not in KEYS:
        raise No(UNKNOWN)
    if kind in SINGLE and set(state["maps"][kind]) - {name}:
        raise No("%Error: Only one map of this type is supported")
    state["maps"][kind].setdefault(name, {})
    return f"map {kind} {name}"


def _drop(state: dict[str, Any], kind: str, name: str) -> str:
    home = (
        state["maps"].get(kind)
        if kind in KEYS
        else state[{"scheduler-policy": "schedulers"}.get(kind, "wreds")]
    )
    if used(state, kind, name):
        raise No("%Error: Entry is in use and cannot be deleted")
    home.pop(name, None)
    return ""


def _poll(state: dict[str, Any], no: str | None, value: str | None) -> str:
    start = "priority-flow-control watchdog polling-interval"
    if not no and not 100 <= int(value or 0) <= 3000:
        raise No("%Error: Value is out of range")
    state["top"] = [one for one in state["top"] if not one.startswith(start)]
    state["top"] += [] if no else [f"{start} {value}"]
    return ""


def _counter_poll(state: dict[str, Any], no: str | None) -> str:
    line = "no priority-flow-control watchdog counter-poll"
    state["top"] = [one for one in state["top"] if one != line] + ([line] if no else [])
    return ""


_TOP: dict[str, Callable[..., str]] = {
    r"interface (.+)": _open_interface,
    r"qos map (\S+) (\S{1,32})": _open_map,
    r"qos scheduler-policy (\S{1,32})": lambda s, n: (s["schedulers"].setdefault(n, {}), f"sched {n}")[1],
    r"qos wred-policy (\S{1,32})": lambda s, n: (s["wreds"].setdefault(n, {}), f"wred {n}")[1],
    r"no qos map (\S+) (\S+)": _drop,
    r"no qos (scheduler-policy|wred-policy) (\S+)": _drop,
    r"(no )?priority-flow-control watchdog polling-interval(?: (\d+))?": _poll,
    r"(no )?priority-flow-control watchdog counter-poll": _counter_poll,
}


def _map(state: dict[str, Any], mode: tuple[str, ...], line: str) -> str:
    _, kind, name = mode[1].split()
    key, highest, word = KEYS[kind]
    match = re.fullmatch(rf"{key} ([0-9,-]+) {word} ([0-7])", line)
    if not match:
        raise No(UNKNOWN)
    for part in match[1].split(","):
        low, _, high = part.partition("-")
        if int(high or low) > highest:
            raise No("%Error: Value is out of range")
        for number in range(int(low), int(high or low) + 1):
            state["maps"][kind][name][str(number)] = int(match[2])
    return ""


def _scheduler(state: dict[str, Any], mode: tuple[str, ...], line: str) -> str:
    match = re.fullmatch(r"queue ([0-7])", line)
    if not match:
        raise No(UNKNOWN)
    state["schedulers"][mode[1].split()[1]].setdefault(match[1], {})
    return f"queue {match[1]}"


def _queue(state: dict[str, Any], mode: tuple[str, ...], line: str) -> str:
    held = state["schedulers"][mode[1].split()[1]][mode[2].split()[1]]
    match = re.fullmatch(r"type (strict|dwrr|wrr)|weight (\d+)", line)
    if not match:
        raise No(UNKNOWN)
    if match[2] and not 1 <= int(match[2]) <= 100:
        raise No("%Error: Value is out of range")
    word, _, value = line.partition(" ")
    held[word] = value
    return ""


def _wred(state: dict[str, Any], mode: tuple[str, ...], line: str) -> str:
    held = state["wreds"][mode[1].split()[1]]
    match = re.fullmatch(
        r"green minimum-threshold (\d+) maximum-threshold (\d+) drop-probability (\d+)", line
    )
    if match:
        low, high, drop = map(int, match.groups())
        if not (1 <= low <= 12480 and 1 <= high <= 12480 and drop <= 100):
            raise No("%Error: Value is out of range")
        held["green"] = [low, high, drop]
    elif re.fullmatch(r"ecn (none|green|all)", line):
        held["ecn"] = line.split()[1]
    else:
        raise No(UNKNOWN)
    return ""


def _interface(state: dict[str, Any], mode: tuple[str, ...], line: str) -> str:
    held = state["interfaces"][mode[1].split()[1]]
    no = line.startswith("no ")
    text = line.removeprefix("no ")
    for pattern, take in _OF_PORT.items():
        match = re.fullmatch(pattern, text)
        if match:
            take(state, held, match, no)
            return ""
    raise No(UNKNOWN)


def _simple(state: dict[str, Any], held: dict[str, str], match: re.Match[str], no: bool) -> None:  # noqa: FBT001
    del state
    if no:
        held.pop(match[1], None)
    elif match[2] is None:
        raise No("% Error: Incomplete command.")
    else:
        held[match[1]] = match[2]


def _mtu(state: dict[str, Any], held: dict[str, str], match: re.Match[str], no: bool) -> None:  # noqa: FBT001
    del state
    if not no and not 1312 <= int(match[1] or 0) <= 9216:
        raise No("%Error: Value is out of range")
    held["mtu"] = "9100" if no else match[1]


def _bind(state: dict[str, Any], held: dict[str, str], match: re.Match[str], no: bool) -> None:  # noqa: FBT001
    slot, name = match[1], match[2]
    kind = slot.split()[-1]
    home = (
        state["maps"].get(kind)
        if kind in KEYS
        else state[{"scheduler-policy": "schedulers"}.get(kind, "wreds")]
    )
    if no:
        held.pop(slot, None)
    elif name not in home:
        raise No("%Error: No such policy or map")
    else:
        held[slot] = name


def _pfc(state: dict[str, Any], held: dict[str, str], match: re.Match[str], no: bool) -> None:  # noqa: FBT001
    del state
    slot = f"priority-flow-control priority {match[1]}"
    others = [one for one in held if one.startswith("priority-flow-control priority") and one != slot]
    if no:
        held.pop(slot, None)
    elif len(others) > 1:
        raise No("%Error: Maximum of two lossless priorities supported")
    else:
        held[slot] = ""


def _asymmetric(state: dict[str, Any], held: dict[str, str], match: re.Match[str], no: bool) -> None:  # noqa: FBT001
    del state, match
    held.pop("priority-flow-control asymmetric", None)
    if not no:
        held["priority-flow-control asymmetric"] = ""


def _watchdog(state: dict[str, Any], held: dict[str, str], match: re.Match[str], no: bool) -> None:  # noqa: FBT001
    del state
    slot = f"priority-flow-control watchdog {match[1]}"
    if match[1] == "off":
        for one in [one for one in held if one.startswith("priority-flow-control watchdog")]:
            del held[one]
        return
    if not any(one.startswith("priority-flow-control priority") for one in held) and not no:
        raise No("%Error: PFC is not enabled on the interface")
    _simple({}, held, re.fullmatch(r"(.*)/(.*)", f"{slot}/{match[2] or ''}") or match, no)


_OF_PORT: dict[str, Callable[..., None]] = {
    r"mtu(?: (\d+))?": _mtu,
    r"(qos-map (?:dscp-tc|dot1p-tc|tc-queue|tc-pg|pfc-priority-queue|pfc-priority-pg))(?: (\S+))?": _bind,
    r"(scheduler-policy)(?: (\S+))?": _bind,
    r"(queue [0-7] wred-policy)(?: (\S+))?": _bind,
    r"(cable-length)(?: (5m|40m|300m))?": _simple,
    r"(description)(?: (.+))?": _simple,
    r"priority-flow-control priority ([0-7])": _pfc,
    r"priority-flow-control asymmetric": _asymmetric,
    r"priority-flow-control watchdog (action)(?: (drop|forward|alert))?": _watchdog,
    r"priority-flow-control watchdog (on detect-time)(?: (\d{3,4}))?": _watchdog,
    r"priority-flow-control watchdog (restore-time)(?: (\d{3,5}))?": _watchdog,
    r"priority-flow-control watchdog (off)": _watchdog,
}
