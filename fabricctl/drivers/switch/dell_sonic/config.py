"""What a configuration of Enterprise SONiC says, running or saved: its lines in their blocks.

A block is read only when it is asked for: an odd object costs what uses it, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl.drivers.switch.dell_sonic import objects, terms
from fabricctl.plugin.answers import Unread

_OBJECT = re.compile(r"qos (map [a-z0-9-]+|scheduler-policy|wred-policy) (\S+)")
_BUFFERS = re.compile(r"(?:qos )?buffer init lossless|roce enable\b.*")
_OF_A_PORT = re.compile(
    r"mtu \d|qos-map (?:dscp-tc|dot1p-tc|tc-queue|tc-pg|pfc-priority-queue|pfc-priority-pg) |"
    r"scheduler-policy |queue \d+ wred-policy |cable-length |priority-flow-control "
)
_OF_ALL = re.compile(r"(?:no )?priority-flow-control watchdog ")


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration.

    Parameters
    ----------
    top
        Lines that stand in no block.
    interfaces
        By interface: its lines, without indentation.
    blocks
        By kind (``map dscp-tc``, ``scheduler-policy``, ``wred-policy``) and name: the object's lines.
    """

    top: tuple[str, ...] = ()
    interfaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blocks: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    @property
    def lossless(self) -> bool:
        """Whether it has the switch's buffers made for lossless traffic."""
        return any(_BUFFERS.fullmatch(line) for line in self.top)

    def interface(self, name: str) -> tuple[str, ...]:
        """Return the lines of a port; Unread if the configuration has no such port."""
        if name not in self.interfaces:
            raise Unread(f"the configuration has no interface {name}")
        return self.interfaces[name]

    def own(self, name: str) -> tuple[str, ...]:
        """Return the lines of a port that a change may touch, and those of the watchdog of all ports."""
        port = tuple(line for line in self.interface(name) if _OF_A_PORT.match(line))
        return (*port, *(line for line in self.top if _OF_ALL.match(line)))

    def value(self, name: str, start: str) -> str | None:
        """Return what follows `start` in a line of a port; None if no line begins so."""
        return _after(self.interface(name), start)

    def common(self, start: str) -> str | None:
        """Return what follows `start` in a line that stands in no block; None if none begins so."""
        return _after(self.top, start)

    def content(self, kind: str, name: str) -> str:
        """Return what an object holds, as :mod:`objects` writes it.

        Raises
        ------
        Unread
            There is no such object, or it is odd.
        """
        if (kind, name) not in self.blocks:
            raise Unread(f"the configuration has no qos {kind} {name}")
        return objects.content(kind, self.blocks[kind, name])

    def bound(self, name: str, kind: str) -> str:
        """Return what the map of a kind that is bound to a port holds; Unread if none is."""
        found = self.value(name, f"qos-{kind} ")
        if found is None:
            raise Unread(f"no qos-{kind} is bound to the port")
        return self.content(kind, found)

    def wreds(self, name: str) -> dict[int, str]:
        """Return by queue of a port the name of its WRED policy, ascending."""
        found: dict[int, str] = {}
        for line in self.interface(name):
            match = re.fullmatch(r"queue ([0-7]) wred-policy (\S+)", line)
            if match:
                found[int(match[1])] = match[2]
        return dict(sorted(found.items()))

    def told(self) -> Iterator[str]:
        """Walk all objects of the switch as ``KIND NAME CONTENT``; of an odd one the content is ``?``."""
        for kind, name in self.blocks:
            try:
                held = self.content(kind, name)
            except (Unread, LookupError, ValueError):
                held = objects.ODD
            yield f"{objects.short(kind)} {name} {held}"


def read(text: str) -> Config:
    """Read a configuration; Unread if it holds none."""
    top: list[str] = []
    interfaces: dict[str, list[str]] = {}
    blocks: dict[tuple[str, str], list[str]] = {}
    block: list[str] | None = None
    for raw in text.splitlines():
        line = " ".join(raw.split())
        if not line or line == "!":
            continue
        if raw[0].isspace() and block is not None:
            block.append(line)
            continue
        block = _opened(line, interfaces, blocks)
        if block is None:
            top.append(line)
            # The lines below it are of a block that nobody asks for.
            block = []
    if not interfaces:
        raise Unread(f"unparsable: no interface in {text[:60]!r}")
    return Config(
        tuple(top),
        {name: tuple(lines) for name, lines in interfaces.items()},
        {key: tuple(lines) for key, lines in blocks.items()},
    )


def _opened(
    line: str, interfaces: dict[str, list[str]], blocks: dict[tuple[str, str], list[str]]
) -> list[str] | None:
    """Return where the lines below a line belong; None if it opens no block that is read."""
    word, _, rest = line.partition(" ")
    if word == "interface" and rest and "range" not in rest:
        # "interface Eth 1/1" and "interface Eth1/1" are the same.
        return interfaces.setdefault(rest.replace(" ", ""), [])
    match = _OBJECT.fullmatch(line)
    return blocks.setdefault((match[1], match[2]), []) if match else None


def _after(lines: Sequence[str], start: str) -> str | None:
    return next((line.removeprefix(start) for line in lines if line.startswith(start)), None)


def priorities(lines: Sequence[str]) -> tuple[int, ...]:
    """Return the priorities with PFC, ascending, of the lines of a port."""
    start = "priority-flow-control priority "
    found = [terms.numbers(line.removeprefix(start), 7) for line in lines if line.startswith(start)]
    return tuple(sorted({number for several in found for number in several}))


def watchdog(lines: Sequence[str]) -> dict[str, str]:
    """Return the watchdog's words of the lines of a port: ``detect-time``, ``restore-time``, ``action``.

    Empty if it is off. A release prints ``watchdog on detect-time 200``, older ones ``watchdog detect-time
    200``; both print it only where it is on.
    """
    start = "priority-flow-control watchdog "
    words = [line.removeprefix(start).removeprefix("on ") for line in lines if line.startswith(start)]
    found = dict(text.split(maxsplit=1) for text in words if len(text.split()) == 2)  # noqa: PLR2004  name, value
    return found if "detect-time" in found else {}
