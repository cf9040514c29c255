"""A fat tree, as ibsim reads it and as fabricctl's inventory has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

End = tuple[str, int]


@dataclass(frozen=True)
class Shape:
    """A fat tree: each leaf has `uplinks` cables to each spine; `speed` as ibnetdiscover writes it."""

    leaves: int = 4
    nodes_per_leaf: int = 4
    spines: int = 2
    uplinks: int = 2
    radix: int = 40
    speed: str = "HDR"
    spares: tuple[str, ...] = ("leaf99",)
    """Switches that no cable leads to."""


@dataclass(frozen=True)
class Box:
    """A device as the simulator has it: `id` is what its console calls it."""

    name: str
    guid: int
    ports: int
    switch: bool

    @property
    def id(self) -> str:
        return f"{'S' if self.switch else 'H'}-{self.guid:016x}"

    @property
    def description(self) -> str:
        return f"MF0;{self.name}:MQM8700/U1" if self.switch else f"{self.name} mlx5_0"

    @property
    def port_guid(self) -> int:
        return self.guid if self.switch else self.guid + 1


@dataclass(frozen=True)
class Plan:
    """Boxes by name, and cables."""

    boxes: Mapping[str, Box]
    cables: tuple[tuple[End, End], ...]
    speed: str

    @property
    def gbps(self) -> str:
        """Rate of one lane as iblinkinfo writes it."""
        return {"QDR": "10.0", "EDR": "25.78125", "HDR": "53.125"}[self.speed]


def plan(shape: Shape) -> Plan:
    """Return the fat tree: nodes on a leaf's ports from 1, then its cables to the spines."""
    leaves = [f"leaf{number:02d}" for number in range(1, shape.leaves + 1)]
    spines = [f"spine{number:02d}" for number in range(1, shape.spines + 1)]
    nodes = [f"node{number:04d}" for number in range(1, shape.leaves * shape.nodes_per_leaf + 1)]
    boxes = [Box(name, 0x0C42A10300000000 + 16 * at, 1, switch=False) for at, name in enumerate(nodes)]
    boxes += [
        Box(name, 0xB8CEF60300000000 + 64 * at, shape.radix, switch=True)
        for at, name in enumerate((*leaves, *spines, *shape.spares))
    ]
    cables: list[tuple[End, End]] = []
    for row, leaf in enumerate(leaves):
        first = row * shape.nodes_per_leaf
        mine = nodes[first : first + shape.nodes_per_leaf]
        cables += [((node, 1), (leaf, place)) for place, node in enumerate(mine, start=1)]
        for column, spine in enumerate(spines):
            for cable in range(shape.uplinks):
                up = shape.nodes_per_leaf + 1 + column * shape.uplinks + cable
                cables.append(((leaf, up), (spine, 1 + row * shape.uplinks + cable)))
    return Plan({box.name: box for box in boxes}, tuple(cables), shape.speed)


def netfile(layout: Plan) -> str:
    """Return what ibsim reads: the output of ibnetdiscover for this fabric."""
    far = {end: other for a, b in layout.cables for end, other in ((a, b), (b, a))}
    blocks = []
    for box in sorted(layout.boxes.values(), key=lambda box: not box.switch):
        kind = "switchguid" if box.switch else "caguid"
        guid = f"{box.guid:x}"
        tail = (
            f'({guid})\nSwitch\t{box.ports} "{box.id}"\t\t# "{box.description}" enhanced port 0 lid 0 lmc 0'
        )
        if not box.switch:
            tail = f'\nCa\t1 "{box.id}"\t\t# "{box.description}"'
        lines = ["", "vendid=0x2c9", f"devid=0x{'d2f0' if box.switch else '101b'}", f"sysimgguid=0x{guid}"]
        lines.append(f"{kind}=0x{guid}{tail}")
        for number in range(1, box.ports + 1):
            other = far.get((box.name, number))
            if other is not None:
                lines.append(_line(box, number, layout.boxes[other[0]], other[1], layout.speed))
        blocks.append("\n".join(lines))
    return "\n".join(blocks) + "\n"


def _line(box: Box, number: int, peer: Box, there: int, speed: str) -> str:
    if not box.switch:
        own = f'[{number}]({box.port_guid:x}) \t"{peer.id}"[{there}]'
        return f'{own}\t\t# lid 0 lmc 0 "{peer.description}" lid 0 4x{speed}'
    far = f'"{peer.id}"[{there}]' + ("" if peer.switch else f"({peer.port_guid:x})")
    return f'[{number}]\t{far} \t\t# "{peer.description}" lid 0 4x{speed}'


def inventory(layout: Plan) -> str:
    """Return the inventory of the same fabric; every node is this machine."""
    nodes: dict[str, Any] = {}
    switches: dict[str, Any] = {}
    for a, b in layout.cables:
        if layout.boxes[a[0]].switch:
            up = {"port": str(a[1]), "switch": b[0], "peer_port": str(b[1]), "speed_gbps": 200}
            switches.setdefault(a[0], {}).setdefault("fabric_uplinks", []).append(up)
            switches.setdefault(b[0], {"fabric_tier": "spine"})
        else:
            link = {"switch": b[0], "port": str(b[1])}
            port = {"name": "ib0", "rdma": "mlx5_0", "speed_gbps": 200, "link": link}
            nodes[a[0]] = {"fabric_ports": [port]}
    shared = {"fabric_policy": "policy.yml", "fabric_link_layer": "infiniband", "fabric_driver": "none"}
    groups = {
        "fabric_nodes": {"vars": {"fabric_role": "node", "ansible_connection": "local"}, "hosts": nodes},
        "fabric_switches": {"vars": {"fabric_role": "switch", "fabric_tier": "leaf"}, "hosts": switches},
    }
    return yaml.safe_dump({"all": {"vars": shared, "children": groups}}, sort_keys=False)
