"""A switch's NVUE as far as fabricctl needs it: revisions, confirms, and what it refuses.

Its state is one file of a folder, so that the ``nv`` stand-in (a process a command) and the REST server are
the same switch. Time is the clock's, or what is in the file ``clock``; a deadline that is over has passed.

Written from NVIDIA's user guide and from what public clients of the interface do; no switch was recorded.

Faults, by name in ``faults`` of the state: ``refuse_apply`` (a reason), ``refuse_patch`` (a reason),
``ignore_confirm`` (it applies without waiting), ``round`` (thresholds in hardware are rounded to cells),
``deaf_hardware`` (what is applied does not reach the ASIC), ``slow_s`` (before every command),
``die_after_apply`` (the session breaks when the apply is done), ``drop_confirm`` (it says yes to a confirm
and forgets it),
``other_says`` (a REST reply with this status in place of every other).
"""

from __future__ import annotations

import copy
import fcntl
import json
import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Tree = dict[str, Any]
_CELL = 12288
_PORT = re.compile(r"swp\d+(s\d)?|bond\d+|eth0|lo")
_PROFILED = ("pfc", "congestion-control", "mapping", "egress-scheduler", "link-pause")


class Refused(Exception):  # noqa: N818  what a switch answers, not an error of the program
    """What NVUE says no to, in its own words."""


def _number(lowest: int, highest: int) -> Any:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def _one_of(*words: str) -> Any:
    return lambda value: value in words


def _schema(version: tuple[int, int]) -> Tree:
    """Return what a release knows: names or ``*``, and below them more of it, or what a value must be."""
    on = _one_of("enable", "disable")
    priority, percent, size = _number(0, 7), _number(0, 100), _number(1, 2**31)
    profile = {"profile": lambda value: isinstance(value, str) and bool(value)}
    roce: Tree = {"mode": _one_of("lossless", "lossy", "lossless-single-ipool", "lossy-multi-tc")}
    roce |= (
        {"enable": _one_of("on", "off")} if version < (5, 15) else {"state": _one_of("enabled", "disabled")}
    )
    buffers = {"port-buffer": size, "xoff-threshold": size, "xon-threshold": size}
    pauses = {"rx": on, "tx": on, "cable-length": _number(1, 100_000), **buffers}
    port: Tree = {
        "type": lambda value: isinstance(value, str),
        "description": lambda value: isinstance(value, str),
        "link": {"mtu": _number(552, 9216), "state": {"*": {}}},
        "qos": {},
    }
    qos: Tree = {"roce": roce}
    if version >= (5, 3):
        marks = {"ecn": on, "red": on, "min-threshold": size, "max-threshold": size, "probability": percent}
        if version >= (5, 18):
            marks["mode"] = _one_of("absolute", "relative")
        qos |= {
            "congestion-control": {"*": {"traffic-class": {"*": marks}}},
            "egress-queue-mapping": {
                "default-global": {"switch-priority": {"*": {"traffic-class": priority}}}
            },
            "egress-scheduler": {
                "*": {"traffic-class": {"*": {"mode": _one_of("dwrr", "strict"), "bw-percent": percent}}}
            },
            "mapping": {
                "*": {
                    "trust": _one_of("l2", "l3", "port", "both"),
                    "dscp": {"*": {"switch-priority": priority}},
                    "pcp": {"*": {"switch-priority": priority}},
                    "port-default-sp": priority,
                }
            },
            "pfc": {"*": {**pauses, "switch-priority": {"*": {}}}},
            "traffic-pool": {"*": {"memory-percent": _number(1, 100), "switch-priority": {"*": {}}}},
        }
        port["qos"] |= dict.fromkeys(("congestion-control", "egress-scheduler", "mapping", "pfc"), profile)
    if version >= (5, 4):
        qos["link-pause"] = {"*": pauses}
        port["qos"]["link-pause"] = profile
    if version >= (5, 6):
        qos["pfc-watchdog"] = {"polling-interval": _number(100, 5000), "robustness": _number(1, 1000)}
        port["qos"]["pfc-watchdog"] = {"state": on}
    saving = (
        {"enable": _one_of("on", "off")} if version < (5, 10) else {"state": _one_of("enabled", "disabled")}
    )
    system = {"config": {"auto-save": saving, "apply": {"ignore": {"*": {}}}}, "hostname": lambda _: True}
    return {"interface": {"*": port}, "qos": qos, "system": system}


class Switch:
    """The switch whose state is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "switch.json"
        self._clock = folder / "clock"
        self._lock = folder / "switch.lock"
        self.state: Tree = {}

    def create(self, version: str, config: Tree | None = None, *, model: str = "MSN4700") -> None:
        """Make a switch that runs and has saved `config`."""
        start = config or {}
        self.state = {
            "version": version,
            "model": model,
            "revisions": {"1": {"state": "applied_and_saved", "config": start}},
            "applied": start,
            "startup": start,
            "staged": "",
            "waits": None,
            "faults": {},
            "counters": {},
            "next": 2,
            "applies": 0,
        }
        self._write()

    @contextmanager
    def open(self) -> Iterator[Switch]:
        """Hold the switch for one command: read its state, let time pass, and write what becomes of it."""
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.state = json.loads(self._file.read_text())
            self._tick()
            try:
                yield self
            finally:
                self._write()

    def _write(self) -> None:
        self._file.write_text(json.dumps(self.state))

    # For tests

    def fault(self, **faults: Any) -> None:
        """Make it misbehave from now on; None takes a fault back."""
        with self.open():
            self.state["faults"] = {
                k: v for k, v in {**self.state["faults"], **faults}.items() if v is not None
            }

    def by_hand(self, *lines: Tree, save: bool = True) -> None:
        """Let somebody else change and apply something: trees to set, None unsets."""
        with self.open():
            for line in lines:
                _patch(self.state["applied"], line)
            if save:
                self.state["startup"] = copy.deepcopy(self.state["applied"])

    def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self._clock.write_text(str(self.now() + seconds))

    # What NVUE does

    @property
    def release(self) -> tuple[int, int]:
        """Its version, as far as it matters."""
        major, minor, *_ = self.state["version"].split(".")
        return int(major), int(minor)

    def now(self) -> float:
        return float(self._clock.read_text()) if self._clock.exists() else time.time()

    def _tick(self) -> None:
        waits = self.state["waits"]
        if waits and self.now() >= waits["until"]:
            self._take_back("confirm_fail")

    def _take_back(self, state: str) -> None:
        waits = self.state["waits"]
        self.state["revisions"][waits["revision"]]["state"] = state
        self.state["applied"] = waits["before"]
        self.state["waits"] = None
        self._auto_save()

    def config(self, name: str) -> Tree:
        """Return the configuration of a revision by its number or name."""
        if name in {"applied", "startup"}:
            return dict(self.state[name])
        if name not in self.state["revisions"]:
            raise Refused(f"Error: Revision {name} does not exist.")
        return dict(self.state["revisions"][name]["config"])

    def revise(self) -> str:
        """Make a revision of the applied configuration."""
        name = str(self.state["next"])
        self.state["next"] += 1
        self.state["revisions"][name] = {"state": "pending", "config": copy.deepcopy(self.state["applied"])}
        return name

    def patch(self, revision: str, tree: Tree) -> None:
        """Set a tree in a revision, unset what is None in it; refuse what the release does not know."""
        if reason := self.state["faults"].get("refuse_patch"):
            raise Refused(f"Error: {reason}")
        _check(tree, _schema(self.release), ())
        _patch(self.state["revisions"][revision]["config"], tree)
        for port, node in self.state["revisions"][revision]["config"].get("interface", {}).items():
            if port.startswith("swp"):
                node.setdefault("type", "swp")

    def diff(self, old: Tree, new: Tree) -> list[Tree]:
        """Return two configurations' difference as sections of what is set and unset."""
        found = [{"unset": _minus(old, new)}, {"set": _plus(old, new)}]
        return [section for section in found if next(iter(section.values()))]

    def apply(self, revision: str, confirm_s: float | None) -> None:
        """Apply a revision; with a time, it is taken back unless it is confirmed."""
        config = self.config(revision)
        if self.state["waits"]:
            raise Refused("Error: Another apply is in progress: it waits to be confirmed.")
        if config == self.state["applied"]:
            raise Refused(
                "Warning: current pending configuration has no diff with applied; nothing to apply."
            )
        if reason := self.state["faults"].get("refuse_apply"):
            self.state["revisions"][revision]["state"] = "invalid"
            raise Refused(f"Invalid config [rev_id: {revision}]\n  {reason}")
        wrong = _invalid(config)
        if wrong:
            self.state["revisions"][revision]["state"] = "invalid"
            raise Refused(f"Invalid config [rev_id: {revision}]\n  {wrong}")
        before = self.state["applied"]
        self.state["applied"] = config
        self.state["applies"] += 1
        if confirm_s is None or self.state["faults"].get("ignore_confirm"):
            self._done(revision)
        else:
            self.state["revisions"][revision]["state"] = "confirm"
            self.state["waits"] = {"revision": revision, "until": self.now() + confirm_s, "before": before}

    def answer(self, revision: str, *, keep: bool) -> None:
        """Confirm what waits, or take it back."""
        waits = self.state["waits"]
        if not waits or revision not in {"", waits["revision"]}:
            state = self.state["revisions"].get(revision, {}).get("state", "pending")
            raise Refused(f"Error: Unknown state: '{state}'")
        if self.state["faults"].get("drop_confirm"):
            return
        if keep:
            self.state["waits"] = None
            self._done(waits["revision"])
        else:
            self._take_back("confirm_no")

    def _done(self, revision: str) -> None:
        self.state["revisions"][revision]["state"] = "applied"
        self._auto_save(revision)

    def _auto_save(self, revision: str = "") -> None:
        node = self.state["applied"].get("system", {}).get("config", {}).get("auto-save", {})
        said = node.get("enable") or node.get("state") or ("on" if self.release >= (5, 9) else "off")
        if said in {"on", "enabled"}:
            self.save(revision)

    def save(self, revision: str = "") -> None:
        """Keep what is applied for the next boot."""
        self.state["startup"] = copy.deepcopy(self.state["applied"])
        if revision:
            self.state["revisions"][revision]["state"] = "applied_and_saved"

    # What it shows

    def system(self) -> Tree:
        said = {"build": f"Cumulus Linux {self.state['version']}"} if self.release < (5, 12) else {}
        newer = {"product-name": "Cumulus Linux", "product-release": self.state["version"]}
        return {"hostname": "leaf1", "uptime": 763, **(said or newer)}

    def interfaces(self) -> Tree:
        ports = [name for name in self.state["applied"].get("interface", {}) if _PORT.fullmatch(name)]
        return {name: self._interface(name) for name in sorted({*ports, "swp1", "swp2", "swp3"})}

    def _interface(self, name: str) -> Tree:
        number = int(re.sub(r"\D", "", name) or 0)
        return {
            "type": "swp",
            "link": {
                "mtu": self.state["applied"]
                .get("interface", {})
                .get(name, {})
                .get("link", {})
                .get("mtu", 9216),
                "mac-address": f"44:38:39:00:00:{number:02x}",
                "oper-status": "up",
                "speed": "100G",
                "fec": "rs",
                "state": {"up": {}},
                "stats": {
                    "carrier-down-count": 1,
                    "in-errors": 0,
                    "in-drops": 2,
                    "out-errors": 0,
                    "out-drops": 0,
                },
            },
            "lldp": {
                "neighbor": {
                    f"node{number}": {"chassis": {"system-name": f"node{number}"}, "port": {"name": "eth1"}}
                }
            },
        }

    def port_qos(self, name: str) -> Tree:
        """Return what the hardware of a port works with."""
        deaf = self.state["faults"].get("deaf_hardware")
        config = self.state["revisions"]["1"]["config"] if deaf else self.state["applied"]
        attached = config.get("interface", {}).get(name, {}).get("qos", {})

        def profile(feature: str) -> tuple[str, Tree]:
            chosen = attached.get(feature, {}).get("profile", "default-global")
            return chosen, copy.deepcopy(config.get("qos", {}).get(feature, {}).get(chosen, {}))

        found: Tree = {}
        chosen, pfc = profile("pfc")
        if pfc.get("switch-priority"):
            pfc = {"rx": "enable", "tx": "enable", "cable-length": 10, **pfc}
            pfc |= {"port-buffer": "79872 B", "xoff-threshold": "19456 B", "xon-threshold": "19456 B"}
        found["pfc"] = {"profile": chosen, **pfc, "switch-priority": pfc.get("switch-priority", {})}
        chosen, marks = profile("congestion-control")
        for entry in marks.get("traffic-class", {}).values():
            for label in {"min-threshold", "max-threshold"} & set(entry):
                size = entry[label]
                rounded = math.ceil(size / _CELL) * _CELL if self.state["faults"].get("round") else size
                entry[label] = f"{rounded} B"
        found["congestion-control"] = {"profile": chosen, **marks}
        state = attached.get("pfc-watchdog", {}).get("state", "disable")
        found["pfc-watchdog"] = {"state": state}
        if state == "enable":
            stormed = self.state["counters"].get("storms", {})
            found["pfc-watchdog"]["status"] = {
                str(tc): {"status": "OK", "deadlock-count": 0, **stormed.get(str(tc), {})} for tc in range(8)
            }
        return found

    def port_counters(self, name: str) -> Tree:
        """Return the QoS counters of a port."""
        del name
        eight = [str(number) for number in range(8)]
        marked = self.state["counters"].get("marked", 0)
        return {
            "ingress-buffer-stats": {
                "priority-group": {n: {"rx-frames": 0, "rx-buffer-discards": "0 Bytes"} for n in eight}
            },
            "egress-queue-stats": {
                "traffic-class": {
                    n: {"tx-frames": 7, "tx-uc-buffer-discards": 0, "wred-discards": 0} for n in eight
                }
            },
            "pfc-stats": {
                "switch-priority": {n: {"rx-pause-frames": int(n), "tx-pause-frames": 0} for n in eight}
            },
            "port-stats": {"rx": {"ecn-marked-packets": "n/a"}, "tx": {"ecn-marked-packets": marked}},
        }


def _check(tree: Tree, schema: Tree, path: tuple[str, ...]) -> None:
    for key, value in tree.items():
        known = schema.get(key, schema.get("*"))
        where = ".".join((*path, key))
        if known is None or (path == ("interface",) and not _PORT.fullmatch(key)):
            raise Refused(
                f"Error: GET /nvue_v1/{where.replace('.', '/')}: unknown property {key!r} at {where}"
            )
        if value is None:
            continue
        if isinstance(known, dict):
            if not isinstance(value, dict):
                raise Refused(f"Error: {value!r} at {where} is not of type 'object'")
            _check(value, known, (*path, key))
        elif not known(value):
            raise Refused(f"Error: {value!r} at {where} is not valid")


def _patch(into: Tree, tree: Tree) -> None:
    for key, value in tree.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            node = into.setdefault(key, {})
            _patch(node, value)
            # What held only what is unset is gone with it.
            if not node and value and all(inner is None for inner in value.values()):
                del into[key]
        else:
            into[key] = value


def _plus(old: Any, new: Tree) -> Tree:
    found = {}
    for key, value in new.items():
        before = old.get(key) if isinstance(old, dict) else None
        if isinstance(value, dict):
            inner = _plus(before, value)
            if inner or before is None:
                found[key] = inner
        elif value != before:
            found[key] = value
    return found


def _minus(old: Tree, new: Any) -> Tree:
    found: Tree = {}
    for key, value in old.items():
        if not isinstance(new, dict) or key not in new:
            found[key] = None
        elif isinstance(value, dict):
            inner = _minus(value, new[key])
            if inner:
                found[key] = inner
    return found


def _invalid(config: Tree) -> str:
    """Return why NVUE does not apply it; empty if it does."""
    qos = config.get("qos", {})
    pools = {n: p["memory-percent"] for n, p in qos.get("traffic-pool", {}).items() if "memory-percent" in p}
    if sum(pools.values()) + (100 if pools and "default-lossy" not in pools else 0) > 100:
        return "qos.traffic-pool: the total memory allocation across pools must not exceed 100%."
    for port, node in config.get("interface", {}).items():
        attached = node.get("qos", {})
        pfc = qos.get("pfc", {}).get(attached.get("pfc", {}).get("profile", "default-global"), {})
        paused = bool(pfc.get("switch-priority")) or "roce" in qos
        if paused and "roce" not in qos and not any(name.endswith("lossless") for name in pools):
            return f"interface.{port}.qos.pfc: configure the default-lossless traffic pool before PFC."
        if paused and attached.get("link-pause", {}).get("profile"):
            return f"interface.{port}.qos: link pause and PFC cannot be configured on the same port."
        if attached.get("pfc-watchdog", {}).get("state") == "enable":
            if not port.startswith("swp"):
                return f"interface.{port}.qos.pfc-watchdog: only supported on physical interfaces (swp)."
            if not paused and not attached.get("link-pause", {}).get("profile"):
                return f"interface.{port}.qos.pfc-watchdog: requires PFC or link pause on the port."
        for feature in _PROFILED:
            name = attached.get(feature, {}).get("profile")
            if name and name != "default-global" and name not in qos.get(feature, {}):
                return f"interface.{port}.qos.{feature}.profile: profile {name} does not exist."
    return ""
