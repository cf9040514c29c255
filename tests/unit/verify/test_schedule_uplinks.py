"""What counts as an uplink, and how much it carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, Port, Role
from fabricctl.model.names import PortId
from fabricctl.verify.schedule import bandwidth_rounds, expand
from fabricctl.verify.uplinks import Uplinks, uplinks
from tests.fakes.fabrics import build

Build = Callable[..., Fabric]


def of(fabric: Fabric) -> Uplinks:
    return uplinks(fabric, [port.id for port in fabric.node_ports()])


def capacities(fabric: Fabric) -> dict[str, int]:
    found = of(fabric)
    return dict(zip(found.names, found.capacities, strict=True))


def with_speeds(fabric: Fabric, speed: Callable[[Port], int]) -> Fabric:
    return replace(
        fabric,
        devices=tuple(
            replace(d, ports=tuple(replace(p, speed_gbps=speed(p)) for p in d.ports)) for d in fabric.devices
        ),
    )


def test_all_links_of_a_leaf_count_together() -> None:
    assert capacities(build(2, 4, 3, up_gbps=400)) == {"leaf leaf0-0": 1200, "leaf leaf1-0": 1200}
    assert of(build(2, 4, 4)).narrow() == ()
    assert of(build(2, 4, 3)).narrow() == ("leaf leaf0-0", "leaf leaf1-0")
    assert of(build(1, 4, 0)).narrow() == ()  # nobody is elsewhere


def test_rates_of_ports() -> None:
    found = of(build(1, 3, speeds=(400, 100)))
    assert found.rates == (100, 400)
    assert found.rate_of == (1, 0, 1)


def test_pods_are_the_switches_own_or_those_of_the_nodes_below(clos: Build) -> None:
    found = capacities(build(4, 4, 4, pods=2))
    assert found["pod pod0"] == found["pod pod1"] == 200
    assert found["leaf leaf3-0"] == 400
    # Here the nodes say their pod and the switches none; one leaf is a pod, no speed is known.
    assert capacities(clos(2, 3, pods=True)) == {
        "leaf leaf1": 3,
        "pod pod1": 3,
        "leaf leaf2": 3,
        "pod pod2": 3,
    }


def test_a_link_of_unknown_speed_carries_one_couple() -> None:
    fabric = build(2, 4, 2)
    blank = with_speeds(fabric, lambda p: 0 if p.id.device.startswith(("leaf", "spine")) else p.speed_gbps)
    assert capacities(blank) == {"leaf leaf0-0": 200, "leaf leaf1-0": 200}
    one_end = with_speeds(fabric, lambda p: 0 if p.id.device.startswith("spine") else p.speed_gbps)
    assert capacities(one_end) == capacities(fabric)
    slower = with_speeds(fabric, lambda p: 40 if p.id.device.startswith("spine") else p.speed_gbps)
    assert capacities(slower)["leaf leaf0-0"] == 80
    # Where no node says its speed, a fast uplink still carries one couple: nobody knows how fast they are.
    nodes = with_speeds(fabric, lambda p: 0 if p.id.device.startswith("n") else 800)
    assert capacities(nodes) == {"leaf leaf0-0": 2, "leaf leaf1-0": 2}
    assert of(nodes).rates == (1,)
    # A port of unknown speed counts as the fastest.
    odd = with_speeds(fabric, lambda p: 0 if p.id.device == "n0-0" else p.speed_gbps)
    assert of(odd).rates == (100,)


def test_without_an_uplink_on_record_one_couple_at_a_time(clos: Build) -> None:
    fabric = clos(2, 0)
    assert capacities(fabric) == {"leaf leaf1": 0, "leaf leaf2": 0}
    assert len(bandwidth_rounds(fabric, expand(fabric, "all"))) == 5


def test_links_between_leaves_count_only_where_there_are_no_others() -> None:
    fabric = build(2, 4, 2)
    near, far = PortId("leaf0-0", "peer"), PortId("leaf1-0", "peer")
    peer_link = Link(near, far)
    assert capacities(replace(fabric, links=(*fabric.links, peer_link)))["leaf leaf0-0"] == 200
    alone = build(2, 4, 0)
    assert capacities(replace(alone, links=(*alone.links, peer_link)))["leaf leaf0-0"] == 100


def test_nodes_without_a_switch(star: Build) -> None:
    a, b = PortId("a", "eth1"), PortId("b", "eth1")
    nodes = tuple(
        Device(p.device, Role.NODE, "", Endpoint("h"), (Port(p),), pod=pod) for p, pod in ((a, ""), (b, "p"))
    )
    direct = Fabric(nodes, (Link(a, b),))
    assert capacities(direct) == {"pod p": 0}
    assert of(direct).groups_at(0) == frozenset()
    assert capacities(replace(star(2), links=())) == {}
