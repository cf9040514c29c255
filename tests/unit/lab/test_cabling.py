"""Swapping cables: real datagram sockets, sent to by path as QEMU does."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fabricctl.errors import UsageError
from fabricctl.lab import cabling, fabric, faults
from fabricctl.lab.boot import socket_path
from fabricctl.lab.fabric import End, Fabric, Shape
from fabricctl.lab.state import Fault

SWAP = Fault("swap", "node1", "eth1", partner="node2/eth1")
ENDS = (End("node1", 1), End("leaf1", 1), End("node2", 1), End("leaf1", 2))


class Wires:
    """One socket for each end of a fabric's cables, bound to its path."""

    def __init__(self, layout: Fabric, run: Path) -> None:
        self.layout, self.run = layout, run
        self.sockets: dict[End, socket.socket] = {}

    def plug(self, end: End) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.settimeout(0)
        sock.bind(str(socket_path(self.run, end)))
        self.sockets[end] = sock

    def heard(self, sender: End) -> End:
        """Return who hears what `sender` sends to the path of its peer."""
        peer = self.layout.peer(sender)
        assert peer is not None
        self.sockets[sender].sendto(str(sender).encode(), str(socket_path(self.run, peer)))
        for end, sock in self.sockets.items():
            with contextlib.suppress(BlockingIOError):
                if sock.recv(100) == str(sender).encode():
                    return end
        raise AssertionError(sender)

    def all_heard(self) -> dict[str, str]:
        pairs = {end: self.heard(end) for end in self.sockets}
        return {f"{a.guest}/{a.port}": f"{b.guest}/{b.port}" for a, b in pairs.items()}


@pytest.fixture
def wires() -> Iterator[Wires]:
    layout = fabric.plan(Shape(nodes=3))
    with tempfile.TemporaryDirectory() as folder:
        made = Wires(layout, Path(folder))
        for cable in layout.cables:
            made.plug(cable.a)
            made.plug(cable.b)
        yield made
        for sock in made.sockets.values():
            sock.close()


MEANT = {
    "node1/eth1": "leaf1/eth1",
    "leaf1/eth1": "node1/eth1",
    "node2/eth1": "leaf1/eth2",
    "leaf1/eth2": "node2/eth1",
    "node3/eth1": "leaf1/eth3",
    "leaf1/eth3": "node3/eth1",
}
SWAPPED = {
    **MEANT,
    "node1/eth1": "leaf1/eth2",
    "leaf1/eth2": "node1/eth1",
    "node2/eth1": "leaf1/eth1",
    "leaf1/eth1": "node2/eth1",
}


def test_swapped_cables_carry_frames_to_the_other_port_both_ways(wires: Wires) -> None:
    assert cabling.ends_of(wires.layout, SWAP) == ENDS
    files = sorted(path.name for path in wires.run.iterdir())
    assert wires.all_heard() == MEANT
    cabling.swap(wires.run, ENDS)
    assert wires.all_heard() == SWAPPED
    cabling.restore(wires.run, ENDS)
    assert wires.all_heard() == MEANT
    assert sorted(path.name for path in wires.run.iterdir()) == files


def test_a_swap_that_was_cut_short_is_finished_or_undone_in_any_state(wires: Wires) -> None:
    cabling.swap(wires.run, ENDS)
    cabling.swap(wires.run, ENDS)
    assert wires.all_heard() == SWAPPED
    # As after a kill between two renames: one socket is at both paths, the other at none.
    (wires.run / "node1.1").unlink()
    cabling.restore(wires.run, ENDS)
    cabling.restore(wires.run, ENDS)
    assert wires.all_heard() == MEANT


def test_current_cabling_follows_swaps() -> None:
    layout = fabric.plan(Shape(nodes=3))
    other = Fault("swap", "leaf1", "eth2", partner="leaf1/eth3")
    now = cabling.current(layout, (Fault("loss", "node1", "eth1", 1), SWAP))
    assert [now.peer(end) for end in ENDS] == [
        End("leaf1", 2),
        End("node2", 1),
        End("leaf1", 1),
        End("node1", 1),
    ]
    assert cabling.current(layout, (other,)).peer(End("node2", 1)) == End("leaf1", 3)
    assert cabling.current(layout, ()) == layout


@pytest.mark.parametrize(
    ("shape", "wish", "made", "says"),
    [
        (Shape(), Fault("swap", "node1", "eth1", partner="node1/eth1"), (), "with itself"),
        (Shape(), Fault("swap", "node1", "eth1", partner="leaf1/eth1"), (), "with itself"),
        # It would join node1 to node2, and leaf1 to itself.
        (Shape(), Fault("swap", "node1", "eth1", partner="leaf1/eth2"), (), "another kind"),
        (Shape(4, 1, 2), Fault("swap", "leaf1", "eth1", partner="leaf2/eth3"), (), "another kind"),
        (Shape(4, 1, 2), Fault("swap", "leaf1", "eth3", partner="spine1/eth2"), (), "another kind"),
        (Shape(), Fault("swap", "node1", "eth1", partner="node9/eth1"), (), "no 'node9'"),
        (
            Shape(),
            Fault("swap", "node1", "eth1", partner="node2/eth5"),
            (),
            "no cable is plugged into 'eth5'",
        ),
        (Shape(), SWAP, (Fault("swap", "node2", "eth1", partner="node3/eth1"),), "pulled or swapped already"),
        (Shape(), SWAP, (Fault("link-down", "leaf1", "eth2"),), "pulled or swapped already"),
    ],
)
def test_a_swap_that_makes_no_sense_is_refused(
    shape: Shape, wish: Fault, made: tuple[Fault, ...], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        cabling.check(fabric.plan(shape), wish, made)


@pytest.mark.parametrize(
    ("shape", "wish"),
    [
        (Shape(), SWAP),
        (Shape(2, 2), Fault("swap", "node1", "eth1", partner="node1/eth2")),
        (Shape(4, 1, 2), Fault("swap", "node1", "eth1", partner="node2/eth1")),
        (Shape(4, 1, 2), Fault("swap", "leaf1", "eth3", partner="leaf2/eth3")),
    ],
)
def test_a_swap_of_like_cables_is_made(shape: Shape, wish: Fault) -> None:
    elsewhere = (Fault("loss", "node1", "eth1", 1), Fault("link-down", "node4", "eth1"))
    cabling.check(fabric.plan(shape), wish, elsewhere if shape.nodes == 4 else ())


def test_a_swap_is_described_with_both_ports() -> None:
    assert faults.describe(SWAP) == "node1 eth1: cable swapped with that of node2 eth1"
