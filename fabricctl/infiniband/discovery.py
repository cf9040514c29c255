"""Read what ``ibnetdiscover`` printed: nodes with their GUIDs, and the cables between their ports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_NODE = re.compile(r'^(Switch|Ca|Rt)\t+\d+ "[SHR]-([0-9a-f]{16})"[^#\n]*# "(.*)"')
_LID = re.compile(r" lid (\d+)")
_CABLE = re.compile(
    r'^\[(\d+)\](?:\[[^\]]*\])?(?:\(([0-9a-f]+)\))?\s+"[SHR]-([0-9a-f]{16})"\[(\d+)\]'
    r"(?:\[[^\]]*\])?(?:\(([0-9a-f]+)\))?(?:\s+#(?: lid (\d+) )?)?"
)
_INITIATED = re.compile(r"^# Initiated from node ([0-9a-f]{16}) port ([0-9a-f]{16})", re.MULTILINE)
_KINDS = {"Switch": "SW", "Ca": "CA", "Rt": "RT"}

Key = tuple[str, int]
"""GUID of a node (``0x`` and 16 digits) and number of its port."""


@dataclass
class Node:
    """A node of the subnet.

    Parameters
    ----------
    guid
        ``0x`` and 16 digits.
    kind
        ``CA``, ``SW`` or ``RT``.
    description
        What it calls itself.
    lid
        Of a switch; 0 if it has none. Other nodes have one for each port, in `lids`.
    lids, guids
        By port number, of nodes that are not switches.
    """

    guid: str
    kind: str
    description: str
    lid: int = 0
    lids: dict[int, int] = field(default_factory=dict)
    guids: dict[int, str] = field(default_factory=dict)


@dataclass
class Discovery:
    """What was found.

    Parameters
    ----------
    start, first
        GUID of the port that it was begun from, and of its node; empty if it was not said.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    cables: dict[Key, Key] = field(default_factory=dict)
    start: str = ""
    first: str = ""

    @property
    def ports(self) -> Mapping[str, Key]:
        """By GUID of a port that is no switch's: where it is."""
        return {
            guid: (node.guid, number) for node in self.nodes.values() for number, guid in node.guids.items()
        }


def guid(said: str) -> str:
    """Return a GUID as it stands everywhere here: ``0x`` and 16 digits, from ``0x1a`` or ``1a``."""
    return f"0x{int(said, 16):016x}"


def parse(text: str) -> Discovery:
    """Read the topology that ``ibnetdiscover`` prints, or a file in which it was saved."""
    found = Discovery()
    started = _INITIATED.search(text)
    if started:
        found.first, found.start = guid(started[1]), guid(started[2])
    node: Node | None = None
    for line in text.split("\n"):
        if line.startswith("["):
            if node is not None:
                _cable(found, node, line)
            continue
        head = _NODE.match(line)
        if head:
            node = Node(guid(head[2]), _KINDS[head[1]], head[3].strip())
            lid = _LID.search(line, head.end())
            node.lid = int(lid[1]) if lid and node.kind == "SW" else 0
            # Of two nodes with one GUID the first is kept; the tools do the same.
            node = found.nodes.setdefault(node.guid, node)
    return found


def _cable(found: Discovery, node: Node, line: str) -> None:
    match = _CABLE.match(line)
    if not match:
        return
    number = int(match[1])
    found.cables[node.guid, number] = (guid(match[3]), int(match[4]))
    if node.kind != "SW":
        if match[2]:
            node.guids[number] = guid(match[2])
        if match[6]:
            node.lids[number] = int(match[6])
