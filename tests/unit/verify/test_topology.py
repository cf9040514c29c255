from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fabricctl.model.fabric import Fabric, Link
from fabricctl.model.names import PairId, PortId
from fabricctl.verify.topology import Classes, Element, Kind, Paths, classify

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


def test_what_part_of_the_traffic_crosses_what(clos: Build) -> None:
    fabric = clos()
    way = Paths(fabric).way("leaf1", "leaf2")
    assert (way.hops, set(way.possible.values())) == (2, {0.5})
    assert names(way.onward) == {"link leaf1/up1 - spine1/eth1", "link leaf1/up2 - spine2/eth1"}
    back = Paths(fabric).way("leaf2", "leaf1")
    assert names(back.onward) == {"link leaf2/up1 - spine1/eth2", "link leaf2/up2 - spine2/eth2"}
    # A second cable to spine1 draws a third of the traffic, so that spine1 has two thirds.
    more = Link(PortId("leaf1", "up9"), PortId("spine1", "eth9"))
    wider = Paths(replace(fabric, links=(*fabric.links, more))).way("leaf1", "leaf2")
    shares = {str(element): round(share, 3) for element, share in wider.possible.items()}
    assert shares["switch spine1"] == 0.667
    assert shares["link leaf1/up9 - spine1/eth9"] == shares["switch spine2"] == 0.333


def test_classes_are_the_same_as_one_by_one(clos: Build, star: Build) -> None:
    for fabric in (clos(3, 2, pods=True), clos(2, 1), star(3, 2), replace(clos(), links=())):
        classes = Classes(Paths(fabric))
        ports = [port.id for port in fabric.node_ports()]
        for pair in (PairId(a, b) for a in ports for b in ports):
            assert classes.of(pair)[0] is classify(fabric, pair)
            assert classes.of(pair) is classes.of(pair) or pair.source == pair.target


def test_pairs_are_alike_by_their_way_and_their_nics(clos: Build) -> None:
    fabric = clos()
    classes = Classes(Paths(fabric))
    assert classes.of(pair("node11/eth1", "node12/eth1"))[1] == "same_leaf over 1 switch, rxe ?G"
    assert classes.of(pair("node11/eth1", "node21/eth1"))[1] == "cross_leaf over 3 switches, rxe ?G"
    fast = replace(fabric.devices[0], driver="mlx5")
    fast = replace(fast, ports=(replace(fast.ports[0], speed_gbps=400),))
    mixed = Classes(Paths(replace(fabric, devices=(fast, *fabric.devices[1:]))))
    assert mixed.of(pair("node11/eth1", "node12/eth1"))[1] == "same_leaf over 1 switch, mlx5 400G to rxe ?G"
    bare = Classes(Paths(replace(fabric, links=())))
    assert bare.of(pair("node11/eth1", "node12/eth1"))[1] == "same_leaf, rxe ?G"
