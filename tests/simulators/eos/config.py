"""The configuration of a simulated EOS switch: the lines it takes, what each replaces, how it prints them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from simulators.cli.server import Refused

_DSCP_DEFAULT = (1, 0, 2, 3, 4, 5, 6, 7)
_LIST = r"\d+(?:[ ,]\d+)*"
_WATCHDOG = r"priority-flow-control pause watchdog"
_SECONDS = r"\d+(?:\.\d{1,3})?"
_ECN = (
    r"random-detect ecn minimum-threshold \d+ (?:bytes|kbytes|mbytes|segments) "
    r"maximum-threshold \d+ (?:bytes|kbytes|mbytes|segments)(?: max-mark-probability \d+)?(?: weight \d+)?"
)

# By kind of section: what a line must match, and the key of what it sets: an equal key is replaced.
_QOS = {
    r"qos trust (?:cos|dscp)": "qos trust",
    r"priority-flow-control on": "priority-flow-control",
    r"priority-flow-control priority ([0-7]) (?:no-)?drop": r"priority-flow-control priority \1",
    _WATCHDOG: _WATCHDOG,
    rf"{_WATCHDOG} port timer timeout {_SECONDS} polling-interval (?:auto|{_SECONDS}) "
    rf"recovery-time {_SECONDS}(?: forced)?": f"{_WATCHDOG} port timer",
    rf"{_WATCHDOG} port action (?:drop|notify-only)": f"{_WATCHDOG} port action",
    r"service-policy type qos input \S+": "service-policy type qos input",
}
_LINES: dict[str, dict[str, str]] = {
    "": {
        r"hostname \S+": "hostname",
        r"hardware counter feature ecn out": "hardware counter feature ecn out",
        r"priority-flow-control all off": "priority-flow-control all off",
        rf"{_WATCHDOG} default (timeout|recovery-time|polling-interval) {_SECONDS}": (
            rf"{_WATCHDOG} default \1"
        ),
        rf"{_WATCHDOG} action (?:drop|errdisable|notify-only)": f"{_WATCHDOG} action",
        rf"{_WATCHDOG} override action drop": f"{_WATCHDOG} override action drop",
    },
    "profile": _QOS,
    "interface": {
        **_QOS,
        r"mtu \d+": "mtu",
        r"flowcontrol (send|receive) (?:on|off|desired)": r"flowcontrol \1",
        r"service-profile \S+": "service-profile",
        r"description .+": "description",
        r"switchport": "switchport",
        r"speed \S+": "speed",
    },
    "queue": {
        r"priority strict": "priority",
        r"bandwidth percent \d+": "bandwidth percent",
        r"bandwidth guaranteed (?:percent )?\d+": "bandwidth guaranteed",
        r"shape rate \d+(?: percent| kbps)?": "shape rate",
        _ECN: "random-detect ecn",
        r"random-detect ecn count": "random-detect ecn count",
    },
}
# A "no" that is kept, since it is not the default.
_KEPT_NO = {"qos trust", "priority", "switchport"}
_DEFAULTS = {"priority strict", "switchport"}
_ORDER = ("hostname", "hardware", "qos profile", "interface", "qos map", "priority-flow-control")


@dataclass
class Section:
    """Lines by key, and the sections in it by head."""

    kind: str
    lines: dict[str, str] = field(default_factory=dict)
    sections: dict[str, Section] = field(default_factory=dict)


@dataclass
class Config:
    """A whole configuration.

    Parameters
    ----------
    interfaces
        Names of the interfaces that exist.
    mode
        What queues are called.
    """

    interfaces: tuple[str, ...]
    mode: str
    root: Section = field(default_factory=lambda: Section(""))

    def copy(self) -> Config:
        return copy.deepcopy(self)

    def section(self, path: tuple[str, ...]) -> Section:
        found = self.root
        for head in path:
            found = found.sections[head]
        return found

    def enter(self, path: tuple[str, ...], line: str) -> tuple[str, ...] | None:
        """Return the path of the section that a line opens, from `path` or any section around it."""
        for depth in range(len(path), -1, -1):
            here = path[:depth]
            kind = self._opens(self.section(here).kind, line)
            if kind is not None:
                self.section(here).sections.setdefault(line, Section(kind))
                return (*here, line)
        return None

    def _opens(self, kind: str, line: str) -> str | None:
        if kind == "" and re.fullmatch(r"qos profile \S+", line):
            return "profile"
        if kind == "" and line.removeprefix("interface ") in self.interfaces:
            return "interface"
        if kind in {"profile", "interface"} and re.fullmatch(rf"(?:{self.mode}|mc-tx-queue) [0-7]", line):
            return "queue"
        return None

    def take(self, path: tuple[str, ...], line: str) -> None:
        """Do what a line says in a section; Refused if it is none of that section's."""
        here = self.section(path)
        if not path and self._map(line):
            return
        negated = re.fullmatch(r"(no|default) (.+)", line)
        if negated is not None:
            self._without(here, negated[1], negated[2])
            return
        key = _key(here.kind, line)
        self._check(here, line)
        here.lines[key] = line

    def _check(self, here: Section, line: str) -> None:
        mtu = re.fullmatch(r"mtu (\d+)", line)
        if mtu and not 68 <= int(mtu[1]) <= 9214:
            raise Refused(f"% Invalid input (at token 1: '{mtu[1]}')")
        percent = re.fullmatch(r"bandwidth percent (\d+)", line)
        if percent and not 1 <= int(percent[1]) <= 100:
            raise Refused(f"% Invalid input (at token 2: '{percent[1]}')")
        profile = re.fullmatch(r"service-profile (\S+)", line)
        if profile and f"qos profile {profile[1]}" not in self.root.sections:
            raise Refused(f"% QoS profile {profile[1]} does not exist")
        if line == "priority-flow-control on" and any(
            "on" in v for k, v in here.lines.items() if "flowcontrol " in k
        ):
            raise Refused("% Link-level flow control is on: priority flow control cannot be")

    def _without(self, here: Section, how: str, line: str) -> None:
        profile = re.fullmatch(r"qos profile (\S+)", line)
        if profile and here.kind == "":
            if profile[1] in self.users():
                raise Refused(f"% QoS profile {profile[1]} is in use")
            here.sections.pop(line, None)
            return
        key = next((found for rule in _LINES[here.kind].items() if (found := _bare(rule, line))), "")
        if not key:
            raise Refused(_invalid(f"{how} {line}", 1))
        here.lines.pop(key, None)
        if how == "no" and key in _KEPT_NO:
            here.lines[key] = f"no {key}"

    def _map(self, line: str) -> bool:
        """Do what a line about a map says, if it is one."""
        match = re.fullmatch(rf"qos map dscp ({_LIST}) to traffic-class ([0-7])", line)
        if match is not None:
            for dscp in map(int, re.split(r"[ ,]", match[1])):
                if dscp > 63:
                    raise Refused(_invalid(line, 3))
                self._entry(
                    f"qos map dscp {dscp}",
                    f"to traffic-class {match[2]}",
                    int(match[2]) == default_class(dscp),
                )
            return True
        match = re.fullmatch(rf"qos map traffic-class ({_LIST}) to (uc-tx-queue|tx-queue) ([0-7])", line)
        if match is not None and match[2] == self.mode:
            for tc in map(int, re.split(r"[ ,]", match[1])):
                if (tc == 7) != (int(match[3]) == 7):
                    raise Refused("% Traffic class 7 and transmit queue 7 are reserved")
                self._entry(f"qos map traffic-class {tc}", f"to {match[2]} {match[3]}", int(match[3]) == tc)
            return True
        return False

    def _entry(self, key: str, meant: str, default: bool) -> None:  # noqa: FBT001  one of two cases
        self.root.lines.pop(key, None)
        if not default:
            self.root.lines[key] = f"{key} {meant}"

    def users(self) -> dict[str, list[str]]:
        """Return the interfaces of each profile."""
        found: dict[str, list[str]] = {}
        for head, section in self.root.sections.items():
            if "service-profile" in section.lines:
                found.setdefault(section.lines["service-profile"].split()[1], []).append(head.split()[1])
        return found

    def dscp_map(self) -> list[int]:
        return [
            int(self.root.lines.get(f"qos map dscp {dscp}", f" {default_class(dscp)}").split()[-1])
            for dscp in range(64)
        ]

    def queue_map(self) -> list[int]:
        return [
            int(self.root.lines.get(f"qos map traffic-class {tc}", f" {tc}").split()[-1]) for tc in range(8)
        ]

    def change(self, rule: Callable[[str], str]) -> None:
        """Replace every line by what `rule` makes of it, as hardware that rounds."""
        for section in _walk(self.root):
            section.lines = {key: rule(line) for key, line in section.lines.items()}

    def text(self) -> str:
        """Return the configuration as the switch prints it: without what is a default."""
        blocks = [[line] for line in self.root.lines.values()]
        blocks += [[head, *_body(section, "   ")] for head, section in self.root.sections.items()]
        blocks.sort(
            key=lambda block: next((n for n, start in enumerate(_ORDER) if block[0].startswith(start)), 9)
        )
        return "".join("".join(f"{line}\n" for line in block) + "!\n" for block in blocks)


def default_class(dscp: int) -> int:
    """Return the traffic class of a DSCP that no line names."""
    return _DSCP_DEFAULT[dscp // 8]


def _key(kind: str, line: str) -> str:
    for rule, key in _LINES[kind].items():
        match = re.fullmatch(rule, line)
        if match is not None:
            return match.expand(key)
    raise Refused(_invalid(line, 0))


def _bare(rule: tuple[str, str], line: str) -> str:
    """Return the key of a line or of the bare beginning of one; empty if it is another rule's."""
    match = re.fullmatch(rule[0], line)
    if match is not None:
        return match.expand(rule[1])
    bare = re.escape(rule[1]).replace(re.escape(r"\1"), r"\S+")
    return line if re.fullmatch(bare, line) else ""


def _invalid(line: str, token: int) -> str:
    words = line.split()
    return f"% Invalid input (at token {token}: '{words[min(token, len(words) - 1)]}')"


def _body(section: Section, indent: str) -> Iterator[str]:
    yield from (f"{indent}{line}" for line in section.lines.values() if line not in _DEFAULTS)
    for head, inner in section.sections.items():
        lines = list(_body(inner, indent + "   "))
        if lines:
            yield from (f"{indent}!", f"{indent}{head}", *lines)


def _walk(section: Section) -> Iterator[Section]:
    yield section
    for inner in section.sections.values():
        yield from _walk(inner)
