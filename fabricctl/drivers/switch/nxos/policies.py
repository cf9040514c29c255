"""The three kinds of policy-maps: what one holds, read from a configuration, and the lines that make one.

The names of the queuing and network-qos classes are NX-OS's own and fixed (``c-out-8q-q3``, ``c-8q-nq3``).
What a policy-map holds beyond the values here (shaping, policing, matching by access list, WRED without ECN,
buffer sizes) is named in `beyond`, so that nobody takes it for one that does only what is meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabricctl.drivers.switch.nxos import terms
from fabricctl.drivers.switch.nxos.terms import DSCPS, QUEUES, TOP
from fabricctl.drivers.switch.nxos.tree import Section

DEFAULT_MTU = 1500
_UNITS = {"bytes": 1, "kbytes": 1000, "mbytes": 1000**2}
_PHB = {"default": 0, "ef": 46}
_PHB |= {f"cs{n}": 8 * n for n in range(8)}
_PHB |= {f"af{c}{d}": 8 * c + 2 * d for c in range(1, 5) for d in range(1, 4)}
_MARK = re.compile(
    r"random-detect minimum-threshold (\d+) (bytes|kbytes|mbytes)"
    r" maximum-threshold (\d+) (bytes|kbytes|mbytes)"
    r" drop-probability (\d+) weight 0 ecn"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """ECN marking of one queue: from `kmin` bytes on, with `pmax` percent at `kmax` bytes."""

    kmin: int
    kmax: int
    pmax: int


@dataclass(frozen=True, slots=True)
class Classifier:
    """A policy-map of type qos.

    Parameters
    ----------
    priorities, queues
        By DSCP. The priority is the name of a class-map of ours, else the policy's class of the queue.
    class_maps
        Those that it refers to.
    cos
        Whether it matches 802.1p priorities.
    """

    priorities: tuple[int, ...] = (0,) * DSCPS
    queues: tuple[int, ...] = (0,) * DSCPS
    class_maps: tuple[str, ...] = ()
    beyond: str = ""
    cos: bool = False

    @property
    def strict(self) -> int:
        """The policy's class that rides queue 7 by this classifier."""
        at_top = [dscp for dscp, queue in enumerate(self.queues) if queue == TOP]
        if not at_top:
            return terms.USUAL
        named = any(terms.priority_of(name) is not None for name in self.class_maps)
        return min(self.priorities[dscp] for dscp in at_top) if named else at_top[0] >> 3

    @property
    def digest(self) -> str:
        """What it holds, in short."""
        return terms.digest((self.priorities, self.queues))


@dataclass(frozen=True, slots=True)
class Queuing:
    """A policy-map of type queuing; everything by queue."""

    schedulers: tuple[str, ...]
    percents: tuple[int, ...]
    marks: tuple[Mark | None, ...] = (None,) * QUEUES
    beyond: str = ""

    @property
    def digest(self) -> str:
        """What it holds, in short."""
        return terms.digest((self.schedulers, self.percents, self.marks))


@dataclass(frozen=True, slots=True)
class NetworkQos:
    """A policy-map of type network-qos; by queue.

    Parameters
    ----------
    mtus
        In bytes.
    pauses
        The 802.1p priorities that PFC pauses for the queue; empty if it may drop.
    """

    mtus: tuple[int, ...] = (DEFAULT_MTU,) * QUEUES
    pauses: tuple[tuple[int, ...], ...] = ((),) * QUEUES
    beyond: str = ""

    @property
    def digest(self) -> str:
        """What it holds, in short."""
        return terms.digest((self.mtus, self.pauses))


Policy = Classifier | Queuing | NetworkQos

# What NX-OS uses where nothing is bound (default-8q-out-policy, default-8q-nq-policy, no classification).
NOTHING = Classifier()
DEFAULT_QUEUING = Queuing(("ets",) * TOP + ("strict",), (100,) + (0,) * TOP)
DEFAULT_NETWORK = NetworkQos()


def classifier(section: Section, class_maps: Mapping[str, Section]) -> Classifier:
    """Return what a policy-map of type qos does; the first class that matches a DSCP has it."""
    queues: dict[int, tuple[int, int | None]] = {}
    rest: tuple[int, int | None] = (0, None)
    used, beyond, cos = [], "", False
    for inner in section.inner:
        name = inner.line.removeprefix("class ").removeprefix("type qos ")
        group, odd = _group(inner)
        beyond = beyond or odd
        if name == "class-default":
            rest = (group, None)
            continue
        used.append(name)
        dscps, odd = _matched(class_maps.get(name))
        cos = cos or odd.startswith("match cos")
        beyond = beyond or odd
        for dscp in dscps:
            queues.setdefault(dscp, (group, terms.priority_of(name)))
    found = [queues.get(dscp, rest) for dscp in range(DSCPS)]
    ours = any(priority is not None for _, priority in found)
    made = Classifier(tuple(0 for _ in found), tuple(queue for queue, _ in found), tuple(used), beyond, cos)
    priorities = tuple(
        priority if priority is not None else 0 if ours else terms.swapped(queue, made.strict)
        for queue, priority in found
    )
    return Classifier(priorities, made.queues, made.class_maps, beyond, cos)


def queuing(section: Section) -> Queuing:
    """Return what a policy-map of type queuing does; ValueError if its classes are not eight queues'."""
    schedulers, percents = ["ets"] * QUEUES, [0] * QUEUES
    marks: list[Mark | None] = [None] * QUEUES
    levels: dict[int, int] = {}
    beyond = ""
    for inner in section.inner:
        queue = _number(inner.line, "class type queuing c-out-8q-q")
        for line in inner.lines:
            if found := re.fullmatch(r"priority level (\d)", line):
                schedulers[queue], levels[queue] = "strict", int(found[1])
            elif found := re.fullmatch(r"bandwidth remaining percent (\d+)", line):
                percents[queue] = int(found[1])
            elif found := _MARK.fullmatch(line):
                kmin, kmax = int(found[1]) * _UNITS[found[2]], int(found[3]) * _UNITS[found[4]]
                marks[queue] = Mark(kmin, kmax, int(found[5]))
            else:
                beyond = beyond or line
    if levels != _levels(schedulers):
        beyond = beyond or "priority levels"
    return Queuing(tuple(schedulers), tuple(percents), tuple(marks), beyond)


def network_qos(section: Section) -> NetworkQos:
    """Return what a policy-map of type network-qos does; ValueError if its classes are not eight queues'."""
    mtus: list[int] = [DEFAULT_MTU] * QUEUES
    pauses: list[tuple[int, ...]] = [()] * QUEUES
    beyond = ""
    for inner in section.inner:
        queue = _number(inner.line, "class type network-qos c-8q-nq")
        for line in inner.lines:
            if found := re.fullmatch(r"mtu (\d+)", line):
                mtus[queue] = int(found[1])
            elif found := re.fullmatch(r"pause (.*?)\s*pfc-cos ([\d,-]+)(.*)", line):
                pauses[queue] = tuple(numbers(found[2]))
                beyond = beyond or (line if found[1] or found[3] else "")
            else:
                beyond = beyond or line
    return NetworkQos(tuple(mtus), tuple(pauses), beyond)


def members(policy: Classifier) -> dict[int, tuple[int, ...]]:
    """Return the DSCPs of each priority that has to have a class-map: all but 0, which is the rest."""
    found: dict[int, list[int]] = {}
    for dscp, priority in enumerate(policy.priorities):
        found.setdefault(priority, []).append(dscp)
    return {priority: tuple(dscps) for priority, dscps in sorted(found.items()) if priority}


def matched(section: Section) -> str:
    """Return what a class-map matches, in short; ``-`` if that is more than DSCPs."""
    try:
        dscps, odd = _matched(section)
    except ValueError:
        return "-"
    return "-" if odd else terms.digest(tuple(sorted(dscps)))


def class_map_lines(name: str, dscps: Sequence[int]) -> list[str]:
    """Return the lines that make a class-map of DSCPs."""
    return [f"class-map type qos match-any {name}", f"match dscp {ranges(dscps)}"]


def classifier_lines(name: str, policy: Classifier, class_maps: Mapping[int, str]) -> list[str]:
    """Return the lines that make a policy-map of type qos.

    Parameters
    ----------
    class_maps
        By priority.
    """
    lines = [f"policy-map type qos {name}"]
    for priority, dscps in members(policy).items():
        lines += [f"class {class_maps[priority]}", f"set qos-group {policy.queues[dscps[0]]}"]
    rest = next((q for p, q in zip(policy.priorities, policy.queues, strict=True) if not p), 0)
    return [*lines, "class class-default", f"set qos-group {rest}"]


def queuing_lines(name: str, policy: Queuing) -> list[str]:
    """Return the lines that make a policy-map of type queuing, all eight queues named."""
    lines = [f"policy-map type queuing {name}"]
    levels = _levels(policy.schedulers)
    for queue in reversed(range(QUEUES)):
        lines.append(f"class type queuing c-out-8q-q{_suffix(queue)}")
        if queue in levels:
            lines.append(f"priority level {levels[queue]}")
        else:
            lines.append(f"bandwidth remaining percent {policy.percents[queue]}")
        mark = policy.marks[queue]
        if mark:
            lines.append(
                f"random-detect minimum-threshold {mark.kmin} bytes maximum-threshold {mark.kmax} bytes"
                f" drop-probability {mark.pmax} weight 0 ecn"
            )
    return lines


def network_lines(name: str, policy: NetworkQos) -> list[str]:
    """Return the lines that make a policy-map of type network-qos; classes left out are as by default."""
    lines = [f"policy-map type network-qos {name}"]
    for queue in reversed(range(QUEUES)):
        mtu, pause = policy.mtus[queue], policy.pauses[queue]
        if mtu == DEFAULT_MTU and not pause:
            continue
        lines.append(f"class type network-qos c-8q-nq{_suffix(queue)}")
        lines.append(f"mtu {mtu}")
        if pause:
            lines.append(f"pause pfc-cos {ranges(pause)}")
    return lines


def numbers(text: str) -> list[int]:
    """Return ``24-26,48`` as numbers; per-hop behaviours may be named. ValueError for others."""
    found: list[int] = []
    for word in text.split(","):
        first, dash, last = word.partition("-")
        low = _PHB[first] if first in _PHB else int(first)
        high = int(last) if dash else low
        if not 0 <= low <= high < DSCPS:
            raise ValueError(f"{word} is no DSCP")
        found += range(low, high + 1)
    return found


def ranges(values: Sequence[int]) -> str:
    """Return ascending numbers as ``24-26,48``."""
    pieces: list[list[int]] = []
    for value in values:
        if pieces and pieces[-1][-1] == value - 1:
            pieces[-1].append(value)
        else:
            pieces.append([value])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in pieces)


def _group(section: Section) -> tuple[int, str]:
    """Return the qos-group that a class sets, and the first line that does something else."""
    group, odd = 0, ""
    for line in section.lines:
        found = re.fullmatch(r"set qos-group ([0-7])", line)
        if found:
            group = int(found[1])
        else:
            odd = odd or line
    return group, odd


def _matched(section: Section | None) -> tuple[list[int], str]:
    """Return the DSCPs that a class-map matches, and the first line that matches something else."""
    if section is None:
        return [], "a class-map that is not shown"
    found: list[int] = []
    odd = ""
    for line in section.lines:
        kind, _, value = line.removeprefix("match ").partition(" ")
        if kind == "dscp":
            found += numbers(value)
        elif kind == "precedence":
            found += [8 * number + low for number in numbers(value) for low in range(8)]
        elif kind != "description":
            odd = odd or line
    if " match-all " in f"{section.line} " and len(section.inner) > 1:
        odd = odd or section.line
    return found, odd


def _number(line: str, start: str) -> int:
    rest = line.removeprefix(start)
    if rest == line or not re.fullmatch(r"[1-7]|-default", rest):
        raise ValueError(f"{line!r} is none of the eight queues' classes")
    return 0 if rest == "-default" else int(rest)


def _suffix(queue: int) -> str:
    return str(queue) if queue else "-default"


def _levels(schedulers: Sequence[str]) -> dict[int, int]:
    """Return the priority level of every strict queue: the highest queue has the first."""
    strict = [queue for queue in reversed(range(QUEUES)) if schedulers[queue] == "strict"]
    return {queue: level for level, queue in enumerate(strict, 1)}
