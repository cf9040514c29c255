"""The shape of a lab: guests, cables, and what is refused."""

from __future__ import annotations

import pytest

from fabricctl.errors import UsageError
from fabricctl.lab import fabric
from fabricctl.lab.fabric import End, Role, Shape


def test_default_lab_is_four_nodes_on_one_leaf() -> None:
    plan = fabric.plan(Shape())
    assert [g.name for g in plan.guests] == ["node1", "node2", "node3", "node4", "leaf1"]
    assert plan.peer(End("node3", 1)) == End("leaf1", 3)
    assert plan.nics == 8


def test_rails_hang_on_the_leaf_of_their_node_and_leaves_on_the_spine() -> None:
    plan = fabric.plan(Shape(nodes=4, rails=2, leaves=2))
    assert plan.peer(End("node1", 2)) == End("leaf1", 2)
    assert plan.peer(End("node2", 1)) == End("leaf2", 1)
    assert plan.peer(End("node3", 1)) == End("leaf1", 3)
    assert plan.peer(End("leaf1", 5)) == End("spine1", 1)
    assert plan.peer(End("leaf2", 5)) == End("spine1", 2)


@pytest.mark.parametrize(
    "shape", [Shape(n, r, v) for n in (1, 3, 8) for r in (1, 2) for v in (1, 2, 3) if v <= n]
)
def test_every_end_is_plugged_in_once_and_ports_are_in_order(shape: Shape) -> None:
    plan = fabric.plan(shape)
    ends = [end for cable in plan.cables for end in (cable.a, cable.b)]
    assert len(ends) == len(set(ends))
    for guest in plan.guests:
        nics = [end.nic for end in plan.ends(guest.name)]
        assert nics == list(range(1, len(nics) + 1))
    for node in plan.of_role(Role.NODE):
        assert len(plan.ends(node.name)) == shape.rails


def test_macs_are_unique_in_a_lab() -> None:
    plan = fabric.plan(Shape(nodes=8, rails=2, leaves=2))
    macs = [g.mac(nic) for g in plan.guests for nic in range(1, plan.nics + 1)]
    assert len(macs) == len(set(macs))


@pytest.mark.parametrize(("nodes", "nics"), [(8, 8), (9, 16), (17, 24)])
def test_fuller_switches_get_a_larger_guest(nodes: int, nics: int) -> None:
    assert fabric.plan(Shape(nodes=nodes)).nics == nics


@pytest.mark.parametrize(
    "shape", [Shape(0), Shape(100), Shape(4, 0), Shape(4, 9), Shape(2, 1, 3), Shape(25), Shape(1, 1, 0)]
)
def test_impossible_shapes_are_refused_with_advice(shape: Shape) -> None:
    with pytest.raises(UsageError) as caught:
        fabric.plan(shape)
    assert caught.value.next_step


def test_an_unknown_guest_is_refused_and_the_known_are_named() -> None:
    with pytest.raises(UsageError, match="leaf1"):
        fabric.plan(Shape()).guest("node9")
