"""The change of NVUE's configuration that makes ports hold what they are to hold; pure.

Like ``tree.py`` it also runs on the switch. Profiles are named by what they hold: two policies on one switch
never fight over a name, and a profile that nobody names any more can be told to be fabricctl's.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from fabricctl.drivers.switch.cumulus import tree as nvue

if TYPE_CHECKING:  # Python 3.7 cannot evaluate dict[str, Any]
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from fabricctl.drivers.switch.cumulus.tree import Tree, Values

PROFILED = ("link-pause", "mapping", "egress-scheduler", "pfc", "congestion-control")
"""Features that a port takes from a profile."""

_POOL_PERCENT = 50
"""Share of the lossless pool where nobody has given it one, as NVIDIA's guide has it."""

_OF_A_PORT = 3
"""Length of the shortest path that is about a part of a port: interface, its name, what of it."""
_ON = {True: "enable", False: "disable"}


class Refusal(Exception):  # noqa: N818  it is said to the user as it is
    """The change cannot be made on this switch; the message says why."""


def change(tree: Tree, goals: Mapping[str, Values]) -> tuple[Tree, Tree]:
    """Return what to unset (leaves are None) and what to set; both are empty if all is so already.

    Parameters
    ----------
    tree
        The applied configuration, ranges expanded.
    goals
        By port: the settings to set. Settings that are not named keep what they have.

    Raises
    ------
    Refusal
        A value cannot be had on this switch, or two ports want different values of what all ports share.
    """
    made = _Change(tree)
    for port, wanted in goals.items():
        made.port(port, {name: _tuples(value) for name, value in wanted.items()})
    made.shared(goals)
    made.clean()
    return made.removed, _news(made.added, tree, made.removed)


def _news(added: Tree, old: Any, removed: Any) -> Tree:
    """Return what of `added` is not there already; what is removed first is set anew as a whole."""
    found: Tree = {}
    for key, value in added.items():
        if isinstance(removed, dict) and key in removed and removed[key] is None:
            found[key] = value
        elif isinstance(value, dict) and value:
            inner = _news(value, nvue.at(old, key), nvue.at(removed, key))
            if inner:
                found[key] = inner
        elif not isinstance(old, dict) or key not in old or old[key] not in (value, str(value)):
            found[key] = value
    return found


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class _Change:
    """A change in the making; `tree` is kept as it will be."""

    def __init__(self, tree: Tree) -> None:
        self.tree = nvue.merged(tree)
        self.removed: Tree = {}
        self.added: Tree = {}

    def set(self, value: Any, *path: str) -> None:
        for root in (self.tree, self.added):
            node = root
            for key in path[:-1]:
                node = node.setdefault(key, {})
            node[path[-1]] = value

    def unset(self, *path: str) -> None:
        above = nvue.at(self.tree, *path[:-1])
        if path[-1] not in above:
            return
        del above[path[-1]]
        planned = nvue.at(self.added, *path[:-1])
        planned.pop(path[-1], None)
        node = self.removed
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = None

    def port(self, port: str, wanted: Values) -> None:
        before = nvue.known(self.tree, port)
        if wanted.get("mtu_bytes", before.get("mtu_bytes")) != before.get("mtu_bytes"):
            self.set(wanted["mtu_bytes"], "interface", port, "link", "mtu")
        changed = [
            feature
            for feature in PROFILED
            if any(name in wanted and wanted[name] != before.get(name) for name in nvue.NAMES[feature])
        ]
        for feature in changed:
            self._attach(port, feature, _meant(feature, before, wanted))
        on = wanted.get("pfc_watchdog")
        if on is None and {"pfc", "link-pause"} & set(changed) and not self._pauses(port):
            on = ()  # NVUE refuses a watchdog that has nothing to watch
        if on is not None and bool(on) != nvue.is_watched(self.tree, port):
            self.set(_ON[bool(on)], "interface", port, "qos", "pfc-watchdog", "state")

    def _attach(self, port: str, feature: str, want: Values) -> None:
        """Give the port a profile that holds what is wanted: one that is there already, else one of ours."""
        content = _CONTENTS[feature](want)
        chosen = self._existing(port, feature, content)
        if chosen is None:
            text = json.dumps(content, sort_keys=True)
            chosen = f"{nvue.OWN}{hashlib.sha256(text.encode()).hexdigest()[:10]}"
            # It is there only if somebody has changed it: nothing of that is to stay.
            self.unset("qos", feature, chosen)
            self.set(content, "qos", feature, chosen)
        if chosen == nvue.DEFAULT:
            self.unset("interface", port, "qos", feature, "profile")
        elif chosen != nvue.attached(self.tree, port, feature):
            self.set(chosen, "interface", port, "qos", feature, "profile")

    def _existing(self, port: str, feature: str, content: Tree) -> str | None:
        """Return a profile that does the same: a rollback leads back to it, with all that is not modelled."""
        given = nvue.at(self.tree, "qos", feature)
        others = sorted(given, key=lambda name: (name.startswith(nvue.OWN), name))
        current = nvue.attached(self.tree, port, feature) or nvue.DEFAULT
        names = (current, nvue.DEFAULT, *others)
        return next((name for name in names if self._does(name, feature, content)), None)

    def _does(self, name: str, feature: str, goal: Tree) -> bool:
        try:
            is_default = name == nvue.DEFAULT
            has = nvue.default(self.tree, feature) if is_default else dict(self.tree["qos"][feature][name])
            return bool(_compared(feature, has, goal) == _compared(feature, goal, goal))
        except (nvue.Odd, LookupError, TypeError, ValueError, AttributeError):
            return False

    def shared(self, goals: Mapping[str, Values]) -> None:
        """Set what all ports of the switch share: queues, the watchdog's clock, the buffer pools."""
        queues = _agreed(goals, "priority_tc")
        if queues is not None:
            has = nvue.at(nvue.default(self.tree, "egress-queue-mapping"), "switch-priority")
            for priority, tc in enumerate(queues):
                if nvue.at(has, str(priority)).get("traffic-class", priority) not in {tc, str(tc)}:
                    path = ("qos", "egress-queue-mapping", nvue.DEFAULT, "switch-priority", str(priority))
                    self.set(tc, *path, "traffic-class")
        self._clock(_agreed(goals, "pfc_watchdog_poll_ms"), _agreed(goals, "pfc_watchdog_detect_ms"))
        if any("lossless_buffers" in wanted or "pfc_priorities" in wanted for wanted in goals.values()):
            self._pools()

    def _clock(self, poll: int | None, detect: int | None) -> None:
        has = nvue.at(self.tree, "qos", "pfc-watchdog")
        old = int(has.get("polling-interval", 100)), int(has.get("robustness", 3))
        poll = old[0] if poll is None else poll
        detect = old[0] * old[1] if detect is None else detect
        rounds = max(1, -(-detect // poll))
        if poll != old[0]:
            self.set(poll, "qos", "pfc-watchdog", "polling-interval")
        if rounds != old[1]:
            self.set(rounds, "qos", "pfc-watchdog", "robustness")

    def _pools(self) -> None:
        """Give lossless traffic its pool where it has none; take back ours where it has no use any more."""
        given = nvue.at(self.tree, "qos", "traffic-pool")
        shares = {name: nvue.at(pool, "memory-percent") for name, pool in given.items()}
        pools = {name: int(percent) for name, percent in shares.items() if percent}
        ours = {"default-lossless": _POOL_PERCENT, "default-lossy": 100 - _POOL_PERCENT}
        if not self._uses_pfc():
            if pools == ours:
                for name in ours:
                    self.unset("qos", "traffic-pool", name, "memory-percent")
            return
        pool = nvue.lossless_pool(self.tree)
        if pool:
            self._admit(pool)
            return
        if "default-lossy" not in pools:
            pools["default-lossy"] = ours["default-lossy"]
            self.set(pools["default-lossy"], "qos", "traffic-pool", "default-lossy", "memory-percent")
        left = 100 - sum(pools.values())
        if left < 1:
            said = ", ".join(f"{name} {percent} %" for name, percent in sorted(pools.items()))
            raise Refusal(
                f"lossless_buffers: the traffic pools ({said}) leave no memory for lossless traffic; make "
                "room: nv set qos traffic-pool default-lossy memory-percent 50"
            )
        self.set(min(left, _POOL_PERCENT), "qos", "traffic-pool", "default-lossless", "memory-percent")

    def _admit(self, pool: str) -> None:
        """Give a pool that is for named priorities all that have PFC; no other pool may name them then."""
        if not nvue.at(self.tree, "qos", "traffic-pool", pool, "switch-priority"):
            return
        for port in nvue.at(self.tree, "interface"):
            paused = nvue.known(self.tree, port).get("pfc_priorities", ())
            for priority in map(str, paused):
                for name, other in list(nvue.at(self.tree, "qos", "traffic-pool").items()):
                    path = ("qos", "traffic-pool", name, "switch-priority", priority)
                    if name == pool and priority not in nvue.at(other, "switch-priority"):
                        self.set({}, *path)
                    elif name != pool:
                        self.unset(*path)

    def _uses_pfc(self) -> bool:
        return any(self._pauses(port) for port in (*nvue.at(self.tree, "interface"), ""))

    def _pauses(self, port: str) -> bool:
        """Say whether a port may need lossless buffers; without a name: the ports that have no profile."""
        try:
            if nvue.paused_priorities(nvue.profile(self.tree, port, "pfc")):
                return True
            return bool(nvue.read_pause(nvue.profile(self.tree, port, "link-pause"))["global_pause"])
        except nvue.Odd:
            return True

    def clean(self) -> None:
        """Remove profiles of ours that no port names any more."""
        for feature in PROFILED:
            used = {nvue.attached(self.tree, port, feature) for port in nvue.at(self.tree, "interface")}
            for name in list(nvue.at(self.tree, "qos", feature)):
                if name.startswith(nvue.OWN) and name not in used:
                    self.unset("qos", feature, name)


def _agreed(goals: Mapping[str, Values], name: str) -> Any:
    """Return what all ports want of a value that they share; None if none wants one."""
    values = {json.dumps(wanted[name]): _tuples(wanted[name]) for wanted in goals.values() if name in wanted}
    if len(values) > 1:
        raise Refusal(f"{name}: all ports of the switch share it, and ports want different values of it")
    return next(iter(values.values()), None)


def _meant(feature: str, before: Values, wanted: Values) -> Values:
    """Return what a profile is to hold: what is asked for, and the rest as the port has it.

    Without PFC its ways and the cable do nothing. They are not kept then: they may be what somebody has
    broken PFC with, and no profile that does the same is to be passed over because of them.
    """
    found = {**before, **wanted}
    if feature == "pfc" and not found.get("pfc_priorities"):
        idle = {"cumulus.pfc_rx", "cumulus.pfc_tx", "cable_length_m"} - set(wanted)
        return {name: value for name, value in found.items() if name not in idle}
    return found


def _mapping(want: Values) -> Tree:
    trust = {word: said for said, word in nvue.TRUST.items()}[want.get("trust", "dscp")]
    dscp = want.get("dscp_priority", tuple(key >> 3 for key in nvue.DSCPS))
    pcp = want.get("cumulus.pcp_priority", tuple(nvue.PRIORITIES))
    return {
        "trust": trust,
        "dscp": {str(key): {"switch-priority": value} for key, value in enumerate(dscp)},
        "pcp": {str(key): {"switch-priority": value} for key, value in enumerate(pcp)},
    }


def _scheduler(want: Values) -> Tree:
    modes = want.get("tc_scheduler", ("ets",) * 8)
    shares = want.get("tc_bandwidth_percent", (0,) * 8)
    found: Tree = {}
    for tc, (mode, share) in enumerate(zip(modes, shares)):
        if mode == "strict":
            found[str(tc)] = {"mode": "strict"}
        elif mode != "ets":
            raise Refusal(f"tc_scheduler: {mode} of class {tc} cannot be had, only strict and ets")
        elif share:
            found[str(tc)] = {"mode": "dwrr", "bw-percent": share}
    return {"traffic-class": found}


def _pfc(want: Values) -> Tree:
    on = want.get("pfc_priorities", ())
    ways = {label: bool(on) or bool(want.get(f"cumulus.pfc_{label}", True)) for label in ("rx", "tx")}
    content: Tree = {
        "switch-priority": {str(priority): {} for priority in on},
        "rx": _ON[ways["rx"]],
        "tx": _ON[ways["tx"]],
    }
    if on or "cable_length_m" in want:
        content["cable-length"] = want.get("cable_length_m", 10)
    sizes = want.get("cumulus.pfc_buffer_bytes", (0, 0, 0))
    labels = ("port-buffer", "xoff-threshold", "xon-threshold")
    content.update({label: size for label, size in zip(labels, sizes) if size})
    if not on:
        del content["switch-priority"]
    return content


def _pause(want: Values) -> Tree:
    on = _ON[bool(want.get("global_pause", False))]
    return {"rx": on, "tx": on}


def _congestion(want: Values) -> Tree:
    queues = want.get("priority_tc", tuple(nvue.PRIORITIES))
    lossless = {queues[priority] for priority in want.get("pfc_priorities", ())}
    classes = set(want.get("cumulus.ecn_classes", ()))
    if want.get("ecn") is False:
        classes = classes - lossless if lossless else set()
    elif want.get("ecn"):
        classes = classes | lossless or {0}
    entry = {
        "ecn": "enable",
        "red": _ON[bool(want.get("cumulus.red", False))],
        "min-threshold": want.get("ecn_kmin_bytes", nvue.ECN_FACTORY["min-threshold"]),
        "max-threshold": want.get("ecn_kmax_bytes", nvue.ECN_FACTORY["max-threshold"]),
        "probability": want.get("ecn_pmax_percent", nvue.ECN_FACTORY["probability"]),
    }
    if not classes:
        # A profile that names no class could be taken for the factory's, which marks class 0.
        return {"traffic-class": {"0": {"ecn": "disable", "red": entry["red"]}}}
    return {"traffic-class": {str(tc): dict(entry) for tc in sorted(classes)}}


_CONTENTS: Mapping[str, Callable[[Values], Tree]] = {
    "link-pause": _pause,
    "mapping": _mapping,
    "egress-scheduler": _scheduler,
    "pfc": _pfc,
    "congestion-control": _congestion,
}


def _compared(feature: str, content: Tree, goal: Tree) -> Any:
    """Return what of a profile's content counts when it is compared with what is wanted."""
    if feature == "mapping":
        return nvue.read_mapping(content)
    if feature == "egress-scheduler":
        return nvue.read_scheduler(content)
    if feature == "link-pause":
        return nvue.read_pause(content)
    if feature == "pfc":
        found = nvue.read_pfc(content)
        if found["pfc_priorities"]:
            return found
        # Without PFC nothing hangs on the cable; buffers do on the priorities that are named.
        cable = found["cable_length_m"] if "cable-length" in goal else None
        return found["cumulus.pfc_rx"], found["cumulus.pfc_tx"], nvue.paused_priorities(content), cable
    marks = nvue.read_marking(content, ())
    return {name: str(value) for name, value in marks.items()}


def leaves(tree: Tree, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every leaf of a tree with its path; an empty mapping is a leaf."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, *path, key)
        else:
            yield (*path, key), value


def beyond(diff: Iterable[Mapping[str, Any]], removed: Tree, added: Tree) -> str:
    """Return the first path in NVUE's own diff that the change does not hold; empty if there is none.

    NVUE adds the type of an interface by itself; emptied branches go with their last leaf.
    """
    own = {path for tree in (removed, added) for path, _ in leaves(tree)}
    for section in diff:
        for verb in ("set", "unset"):
            for path, _ in leaves(nvue.expanded(section.get(verb) or {})):
                if path[0] == "interface" and (len(path) < _OF_A_PORT or path[2:] == ("type",)):
                    inside = path[2:] == ("type",)
                else:
                    inside = any(path[: len(mine)] == mine or mine[: len(path)] == path for mine in own)
                if not inside:
                    return ".".join(path)
    return ""
