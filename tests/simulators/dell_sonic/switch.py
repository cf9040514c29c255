"""What a switch with Enterprise SONiC holds, in one file, so that every session and every timer sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SINGLE = ("pfc-priority-queue", "pfc-priority-pg")
KEYS = {
    "dscp-tc": ("dscp", 63, "traffic-class"),
    "dot1p-tc": ("dot1p", 7, "traffic-class"),
    "tc-queue": ("traffic-class", 7, "queue"),
    "tc-pg": ("traffic-class", 7, "priority-group"),
    "pfc-priority-queue": ("pfc-priority", 7, "queue"),
    "pfc-priority-pg": ("pfc-priority", 7, "pg"),
}
# The order in which a port's lines are printed.
SLOTS = (
    "description",
    "mtu",
    "speed",
    "fec",
    "no shutdown",
    "queue",
    "scheduler-policy",
    "cable-length",
    "qos-map",
    "priority-flow-control priority",
    "priority-flow-control asymmetric",
    "priority-flow-control watchdog action",
    "priority-flow-control watchdog on",
    "priority-flow-control watchdog restore-time",
)


def factory(ports: tuple[str, ...] = ("Eth1/1", "Eth1/2", "Eth1/3")) -> dict[str, Any]:
    """Return a switch whose buffers are lossless and whose ports have no QoS."""
    made: dict[str, Any] = {
        "hostname": "leaf1",
        "version": "4.4.0-Enterprise_Premium",
        "booted": "Mon Nov 30 03:12:44 UTC 2026",
        "top": ["buffer init lossless"],
        "rebooted": True,
        "maps": {kind: {} for kind in KEYS},
        "schedulers": {},
        "wreds": {},
        "interfaces": {port: {"mtu": "9100", "speed": "100000", "no shutdown": ""} for port in ports},
        "links": dict.fromkeys(ports, "up"),
        "neighbours": {},
        "counters": {},
        "shows_startup": True,
        "odd_refusals": {},
    }
    return {**made, "startup": running(made)}


def load(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "switch.json").read_text()))


def save(folder: Path, state: dict[str, Any]) -> None:
    beside = folder / "switch.json.beside"
    beside.write_text(json.dumps(state))
    beside.replace(folder / "switch.json")


def listed(numbers: list[int]) -> str:
    """Return ascending numbers as a running-configuration has them: ``0-3,5``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] + 1 == number:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def running(state: dict[str, Any]) -> str:
    """Return the running-configuration."""
    return "\n!\n".join(_blocks(state)) + "\n"


def _blocks(state: dict[str, Any]) -> Iterator[str]:
    yield "\n".join(["!", f"hostname {state['hostname']}", *state["top"]])
    for name, wred in state["wreds"].items():
        green = wred.get("green")
        lines = [f"qos wred-policy {name}"]
        if green:
            low, high, drop = green
            lines.append(f" green minimum-threshold {low} maximum-threshold {high} drop-probability {drop}")
        lines += [f" ecn {wred['ecn']}"] if wred.get("ecn") else []
        yield "\n".join(lines)
    for name, queues in state["schedulers"].items():
        lines = [f"qos scheduler-policy {name}"]
        for number, held in queues.items():
            lines += [" !", f" queue {number}", *(f"  {word} {value}" for word, value in held.items())]
        yield "\n".join(lines)
    for kind, maps in state["maps"].items():
        key, _, word = KEYS[kind]
        for name, entries in maps.items():
            lines = [f"qos map {kind} {name}"]
            for value in sorted(set(entries.values())):
                keys = sorted(int(one) for one, found in entries.items() if found == value)
                lines.append(f" {key} {listed(keys)} {word} {value}")
            yield "\n".join(lines)
    for name, held in state["interfaces"].items():
        yield "\n".join([f"interface {name}", *(f" {line}" for line in port_lines(held))])


def port_lines(held: dict[str, str]) -> list[str]:
    """Return the lines of a port in the order in which they are printed."""
    order = sorted(held, key=lambda slot: (next(i for i, s in enumerate(SLOTS) if slot.startswith(s)), slot))
    return [f"{slot} {held[slot]}".strip() for slot in order]


def used(state: dict[str, Any], kind: str, name: str) -> bool:
    """Say whether a port uses a map or a policy."""
    for held in state["interfaces"].values():
        for slot, value in held.items():
            if value == name and (slot == f"qos-map {kind}" or slot.endswith(kind)):
                return True
    return False
