"""The shape of a lab: which guests there are, and which port is cabled to which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from fabricctl.errors import UsageError

# Numbers of fabric NICs for which a guest can be saved. 24 is what fits on the PCI bus of q35.
NIC_COUNTS = (8, 16, 24)
MAX_RAILS = 8
MAX_NODES = 99
NODE_CABLE_M = 2
SPINE_CABLE_M = 5


class Role(StrEnum):
    """What a guest plays."""

    NODE = "node"
    SWITCH = "switch"


@dataclass(frozen=True)
class Shape:
    """What the user asks for."""

    nodes: int = 4
    rails: int = 1
    leaves: int = 1


@dataclass(frozen=True, order=True)
class End:
    """One end of a cable: a guest's name and its fabric NIC, counted from 1 (``eth1``)."""

    guest: str
    nic: int

    @property
    def port(self) -> str:
        """Interface name inside the guest."""
        return f"eth{self.nic}"


@dataclass(frozen=True)
class Cable:
    """Two ends that hear each other."""

    a: End
    b: End
    length_m: int


@dataclass(frozen=True)
class Guest:
    """A guest of the lab; `number` is unique in it and makes its MAC addresses."""

    name: str
    role: Role
    number: int
    tier: str = ""

    def mac(self, nic: int) -> str:
        """MAC address of a fabric NIC, counted from 1."""
        return f"52:54:00:fa:{self.number:02x}:{nic:02x}"


@dataclass(frozen=True)
class Fabric:
    """All guests and cables of a lab."""

    shape: Shape
    guests: tuple[Guest, ...]
    cables: tuple[Cable, ...]

    def guest(self, name: str) -> Guest:
        """Return the guest called `name`.

        Raises
        ------
        UsageError
            There is none.
        """
        for guest in self.guests:
            if guest.name == name:
                return guest
        names = ", ".join(guest.name for guest in self.guests)
        raise UsageError(f"the lab has no {name!r}", next_step=f"choose one of: {names}")

    def peer(self, end: End) -> End | None:
        """Return the other end of the cable in `end`, if one is plugged in."""
        for cable in self.cables:
            if cable.a == end:
                return cable.b
            if cable.b == end:
                return cable.a
        return None

    def swapped(self, one: End, other: End) -> Fabric:
        """Return the fabric after the plugs in two ports were exchanged."""
        places = {one: other, other: one}
        cables = tuple(Cable(places.get(c.a, c.a), places.get(c.b, c.b), c.length_m) for c in self.cables)
        return replace(self, cables=cables)

    def ends(self, guest: str) -> tuple[End, ...]:
        """Return the cabled ends of a guest, in port order."""
        both = (end for cable in self.cables for end in (cable.a, cable.b))
        return tuple(sorted(end for end in both if end.guest == guest))

    def of_role(self, role: Role) -> tuple[Guest, ...]:
        """Return the guests that play `role`."""
        return tuple(guest for guest in self.guests if guest.role is role)

    @property
    def nics(self) -> int:
        """Fabric NICs that every guest gets: the smallest count that fits the fullest guest."""
        used = max(len(self.ends(guest.name)) for guest in self.guests)
        return next(count for count in NIC_COUNTS if count >= used)


def address(node: int, rail: int) -> str:
    """Return the address of node `node` (from 1) on rail `rail` (from 0)."""
    return f"10.{10 + rail}.0.{node}/24"


def plan(shape: Shape) -> Fabric:
    """Lay out nodes, leaves, a spine if there are several leaves, and their cables.

    Raises
    ------
    UsageError
        The numbers make no fabric, or a switch would need more ports than a guest can have.
    """
    _check(shape)
    nodes = tuple(Guest(f"node{i}", Role.NODE, i) for i in range(1, shape.nodes + 1))
    leaves = tuple(
        Guest(f"leaf{i}", Role.SWITCH, shape.nodes + i, "leaf") for i in range(1, shape.leaves + 1)
    )
    spines: tuple[Guest, ...] = ()
    if shape.leaves > 1:
        spines = (Guest("spine1", Role.SWITCH, shape.nodes + shape.leaves + 1, "spine"),)
    used = dict.fromkeys((leaf.name for leaf in leaves), 0)
    cables: list[Cable] = []
    for index, node in enumerate(nodes):
        leaf = leaves[index % shape.leaves]
        for rail in range(shape.rails):
            used[leaf.name] += 1
            cables.append(Cable(End(node.name, rail + 1), End(leaf.name, used[leaf.name]), NODE_CABLE_M))
    for spine in spines:
        for index, leaf in enumerate(leaves, start=1):
            used[leaf.name] += 1
            cables.append(Cable(End(leaf.name, used[leaf.name]), End(spine.name, index), SPINE_CABLE_M))
    most = max(*used.values(), shape.leaves if spines else 0, shape.rails)
    if most > NIC_COUNTS[-1]:
        raise UsageError(
            f"a switch would need {most} ports and a guest can have {NIC_COUNTS[-1]}",
            next_step="take more --leaves, or fewer --nodes or --rails",
        )
    return Fabric(shape, (*nodes, *leaves, *spines), tuple(cables))


def _check(shape: Shape) -> None:
    wrong = ""
    if not 1 <= shape.nodes <= MAX_NODES:
        wrong = f"--nodes must lie in 1 to {MAX_NODES}"
    elif not 1 <= shape.rails <= MAX_RAILS:
        wrong = f"--rails must lie in 1 to {MAX_RAILS}"
    elif not 1 <= shape.leaves <= shape.nodes:
        wrong = "--leaves must lie in 1 to the number of nodes"
    if wrong:
        raise UsageError(wrong, next_step="see: fabricctl lab up --help")
