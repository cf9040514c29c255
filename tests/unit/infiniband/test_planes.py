from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabricctl.errors import UsageError
from fabricctl.infiniband.asking import Hca, look_key
from fabricctl.links import planes
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.reading import DeviceReading
from fabricctl.plugin.protocols import Answer
from fabricctl.plugin.surveying import Observation

IB = LinkLayer.INFINIBAND
HCA = Hca("mlx5_0")


def two_planes(nodes: int = 4, *, cabled: bool = True, connection: str = "ssh") -> Fabric:
    """Return nodes with a port on each of two leaves that have no cable between them."""
    devices, links = [], []
    for n in range(1, nodes + 1):
        at = Endpoint("192.0.2.1", connection=connection if n == 1 else "ssh")
        ports = tuple(
            Port(PortId(f"node{n}", f"ib{rail}"), f"mlx5_{rail}", rail, link_layer=IB) for rail in (0, 1)
        )
        devices.append(Device(f"node{n}", Role.NODE, "", at, ports))
        links += [Link(PortId(f"leaf{rail}", str(n)), PortId(f"node{n}", f"ib{rail}")) for rail in (0, 1)]
    for rail in (0, 1):
        ports = tuple(Port(PortId(f"leaf{rail}", str(n)), link_layer=IB) for n in range(1, nodes + 1))
        devices.append(Device(f"leaf{rail}", Role.SWITCH, "", Endpoint("192.0.2.1"), ports))
    return Fabric(tuple(devices), tuple(links) if cabled else (), source="/inventory.yml")


def unanswered(name: str) -> Observation:
    reading = DeviceReading(name, 0.0, {}, error="no route to host")
    return Observation(name, reading, reading)


def blind(name: str) -> Observation:
    reading = DeviceReading(name, 0.0, {})
    return Observation(name, reading, reading)


def test_planes_are_what_cables_join() -> None:
    fabric = two_planes()
    first, second = planes.views(fabric, fabric.devices, "")
    assert (first.plane, second.plane) == ("plane 1", "plane 2")
    assert first.vantage == PortId("node1", "ib0")
    assert second.vantage == PortId("node1", "ib1")
    assert first.others == (PortId("node2", "ib0"), PortId("node3", "ib0"))
    assert PortId("leaf0", "4") in first.members
    assert PortId("leaf1", "4") not in first.members


def test_each_plane_is_asked_of_its_own_hca() -> None:
    fabric = two_planes()
    asked = planes.queries(planes.views(fabric, fabric.devices, ""), fabric.device("node1"))
    assert [query.argv[-2:] for query in asked] == [("mlx5_0", "1"), ("mlx5_1", "1")]
    assert len({query.key for query in asked}) == 2
    assert planes.queries(planes.views(fabric, fabric.devices, ""), fabric.device("node2")) == ()


def test_one_plane_needs_no_number(pod: Any) -> None:
    (view,) = planes.views(pod.fabric, pod.fabric.devices, "")
    assert view.plane == "InfiniBand"
    assert len(view.members) == 24


def test_ports_without_a_cable_join_the_only_plane_or_have_one_for_each_rail(pod: Any) -> None:
    fabric = two_planes(cabled=False)
    found = planes.views(fabric, fabric.nodes(), "")
    assert [view.vantage for view in found] == [PortId("node1", "ib0"), PortId("node1", "ib1")]
    bare = replace(pod.fabric, links=pod.fabric.links[1:])
    (view,) = planes.views(bare, bare.devices, "")
    assert PortId("node1", "ib0") in view.members


def test_a_port_without_a_cable_joins_the_plane_of_its_rail() -> None:
    fabric = two_planes()
    fabric = replace(fabric, links=fabric.links[1:])
    # A switch's port has no rail of its own: the nodes' ports say which it is.
    first, second = planes.views(fabric, fabric.devices, "")
    assert PortId("node1", "ib0") in first.members
    assert len(first.members) == len(second.members) == 8


def test_no_infiniband_no_plane(pod: Any) -> None:
    ethernet = tuple(
        replace(d, ports=tuple(replace(p, link_layer=LinkLayer.ETHERNET) for p in d.ports))
        for d in pod.fabric.devices
    )
    fabric = replace(pod.fabric, devices=ethernet)
    assert planes.views(fabric, fabric.devices, "") == ()


def test_a_limited_run_looks_from_a_device_that_it_asks() -> None:
    fabric = two_planes()
    first, _ = planes.views(fabric, fabric.named(("node3",)), "")
    assert (first.vantage, first.others) == (PortId("node3", "ib0"), ())
    (only,) = planes.views(fabric, fabric.named(("leaf1",)), "")
    assert (only.plane, only.vantage) == ("plane 2", None)
    (subnet,) = planes.subnets(fabric, (only,), {})
    assert subnet.missing["links"] == "none of the nodes that were asked has a port in it"


def test_a_device_without_a_shell_is_no_vantage() -> None:
    fabric = two_planes(connection="network_cli")
    first, _ = planes.views(fabric, fabric.devices, "")
    assert first.vantage == PortId("node2", "ib0")


def test_the_named_node_is_the_vantage_of_all_its_planes() -> None:
    fabric = two_planes()
    first, second = planes.views(fabric, fabric.devices, "node3")
    assert (first.vantage, second.vantage) == (PortId("node3", "ib0"), PortId("node3", "ib1"))
    assert (first.others, second.others) == ((), ())


@pytest.mark.parametrize("vantage", ["nobody", "leaf0", "node2", "bare", "node1"])
def test_a_node_that_cannot_be_looked_from(vantage: str) -> None:
    fabric = two_planes(connection="rest")
    bare = Device("bare", Role.NODE, "", Endpoint("192.0.2.1"), ())
    fabric = replace(fabric, devices=(*fabric.devices, bare))
    asked = [device for device in fabric.devices if device.name != "node2"]
    with pytest.raises(UsageError, match=f"--from {vantage}"):
        planes.views(fabric, asked, vantage)


def test_where_the_first_host_sees_nothing_the_next_is_asked_and_then_one_more() -> None:
    fabric = two_planes()
    views = planes.views(fabric, fabric.devices, "")
    seen = {device.name: blind(device.name) for device in fabric.devices}
    seen["node1"] = unanswered("node1")
    seen["node2"] = unanswered("node2")
    views, again = planes.second_choices(views, seen)
    assert again == ("node3",)
    assert [view.vantage for view in views] == [PortId("node3", "ib0"), PortId("node3", "ib1")]
    views, again = planes.second_choices(views, seen)
    assert again == ()
    first, _ = planes.subnets(fabric, views, seen)
    assert first.missing["links"] == "it was not asked"


def test_a_host_that_saw_its_plane_stays(pod: Any) -> None:
    views = planes.views(pod.fabric, pod.fabric.devices, "")
    found, again = planes.second_choices(views, {"node1": pod.observed("good")})
    assert (found, again) == (views, ())


def test_a_host_whose_own_cable_is_out_is_no_vantage(pod: Any) -> None:
    views = planes.views(pod.fabric, pod.fabric.devices, "")
    alone = pod.observed("good")
    key = look_key(HCA)
    text = '\n== topology\nCa\t1 "H-0c42a10300000010"\t\t# "node1 mlx5_0"\n\n== topology rc 0\n'
    alone = replace(alone, answers={key: Answer(0, text, "")}, later={})
    found, again = planes.second_choices(views, {"node1": alone, "node2": blind("node2")})
    assert again == ("node2",)
    assert found[0].vantage == PortId("node2", "ib0")
    found, again = planes.second_choices(views, {"node1": alone})
    assert (found[0].vantage, again) == (PortId("node2", "ib0"), ("node2",)), "it may not have been asked yet"
    dead = {name: unanswered(name) for name in ("node2", "node3")}
    found, again = planes.second_choices(views, {"node1": alone, **dead})
    assert (found, again) == (views, ())


def test_a_plane_of_which_the_host_did_not_answer_says_why(pod: Any) -> None:
    views = planes.views(pod.fabric, pod.fabric.devices, "")
    (subnet,) = planes.subnets(pod.fabric, views, {"node1": unanswered("node1")})
    assert subnet.missing["counters"] == "node1 could not be asked: no route to host"
    (subnet,) = planes.subnets(pod.fabric, views, {})
    assert subnet.missing["counters"] == "node1 was not asked"


def test_planes_that_are_one_subnet_after_all_are_judged_once(pod: Any) -> None:
    apart = tuple(link for link in pod.fabric.links if not link.b.device.startswith("spine"))
    pod.fabric = Fabric(pod.fabric.devices, apart, source="/inventory.yml")
    views = planes.views(pod.fabric, pod.fabric.devices, "")
    assert len(views) > 1
    answers = pod.observed("good")
    hcas = {view.vantage.device: answers for view in views if view.vantage is not None}
    (subnet,) = planes.subnets(pod.fabric, [view for view in views if view.vantage is not None], hcas)
    assert subnet.plane == "InfiniBand"
    assert {str(port) for port in subnet.members} >= {"leaf1/1", "leaf2/1", "node1/ib0", "node8/ib0"}


def test_a_named_host_is_the_only_one_that_looks(pod: Any) -> None:
    views = planes.views(pod.fabric, pod.fabric.devices, "node3")
    assert [(view.vantage, view.others) for view in views] == [(PortId("node3", "ib0"), ())]
    found, again = planes.second_choices(views, {"node3": blind("node3")})
    assert (found, again) == (views, ())


def test_a_bug_in_reading_one_plane_makes_it_unknown(pod: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(planes.seeing, "look", broken)
    views = planes.views(pod.fabric, pod.fabric.devices, "")
    (subnet,) = planes.subnets(pod.fabric, views, {"node1": pod.observed("good")})
    assert "failed inside fabricctl (ZeroDivisionError())" in subnet.missing["links"]
