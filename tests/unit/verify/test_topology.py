from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fabricctl.model.fabric import Fabric, Link
from fabricctl.model.names import PairId, PortId
from fabricctl.verify.topology import Element, Kind, Paths, classify

Build = Callable[..., Fabric]


def pair(a: str, b: str) -> PairId:
    return PairId(PortId.parse(a), PortId.parse(b))


def names(elements: frozenset[Element]) -> set[str]:
    return {str(element) for element in elements}


def test_classes(star: Build, clos: Build) -> None:
    flat = star(3, 2)
    assert classify(flat, pair("node1/eth1", "node1/eth1")) == "loopback"
    assert classify(flat, pair("node1/eth1", "node2/eth1")) == "same_leaf"
    assert classify(flat, pair("node1/eth1", "node2/eth2")) == "cross_rail"
    assert classify(clos(), pair("node11/eth1", "node12/eth1")) == "same_leaf"
    assert classify(clos(), pair("node11/eth1", "node21/eth1")) == "cross_leaf"
    assert classify(clos(pods=True), pair("node11/eth1", "node21/eth1")) == "cross_pod"


def test_a_port_without_a_cable_gets_the_strictest_class(clos: Build) -> None:
    bare = replace(clos(), links=())
    assert classify(bare, pair("node11/eth1", "node21/eth1")) == "same_leaf"


def test_back_to_back_is_the_strictest_class(star: Build) -> None:
    fabric = Fabric(star(2).nodes(), (Link(PortId("node1", "eth1"), PortId("node2", "eth1")),))
    assert classify(fabric, pair("node1/eth1", "node2/eth1")) == "same_leaf"
    path = Paths(fabric).of(pair("node2/eth1", "node1/eth1"))
    assert str(path.source_link) == str(path.target_link) == "link node1/eth1 - node2/eth1"
    assert path.certain == path.possible == frozenset()


def test_the_way_over_one_leaf(star: Build) -> None:
    path = Paths(star()).of(pair("node1/eth1", "node2/eth1"))
    assert path.source_link == Element(
        Kind.LINK, "node1/eth1 - leaf1/eth1", (PortId("node1", "eth1"), PortId("leaf1", "eth1"))
    )
    assert str(path.target_link) == "link node2/eth1 - leaf1/eth2"
    assert names(path.certain) == {"switch leaf1"}
    assert path.possible == frozenset()


def test_all_shortest_ways_over_two_spines(clos: Build) -> None:
    path = Paths(clos()).of(pair("node11/eth1", "node22/eth1"))
    assert names(path.certain) == {"switch leaf1", "switch leaf2"}
    assert names(path.possible) == {
        "switch spine1",
        "switch spine2",
        "link leaf1/up1 - spine1/eth1",
        "link leaf1/up2 - spine2/eth1",
        "link leaf2/up1 - spine1/eth2",
        "link leaf2/up2 - spine2/eth2",
    }


def test_one_spine_is_certain(clos: Build) -> None:
    path = Paths(clos(2, 1)).of(pair("node11/eth1", "node22/eth1"))
    assert names(path.certain) >= {"switch spine1", "link leaf1/up1 - spine1/eth1"}
    assert path.possible == frozenset()


def test_leaves_without_a_way_between_them(clos: Build) -> None:
    fabric = clos()
    cut = replace(fabric, links=tuple(link for link in fabric.links if "spine" not in str(link)))
    path = Paths(cut).of(pair("node11/eth1", "node22/eth1"))
    assert names(path.certain) == {"switch leaf1", "switch leaf2"}
    assert path.possible == frozenset()


def test_a_port_without_a_cable_has_no_link_on_its_way(clos: Build) -> None:
    fabric = clos()
    path = Paths(replace(fabric, links=fabric.links[1:])).of(pair("node11/eth1", "node12/eth1"))
    assert path.source_link is None or path.target_link is None
    assert path.certain == frozenset()
