"""GIDs of RoCE ports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fabricctl.model import facts
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Missing
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder


def gids(site: Any, port: str, *entries: str) -> None:
    site.fact(port, facts.GIDS, entries)


def with_port(site: Any, port: str, **changed: Any) -> None:
    """Describe a port otherwise in the inventory."""
    end = PortId.parse(port)
    devices = []
    for device in site.fabric.devices:
        ports = tuple(replace(p, **changed) if p.id == end else p for p in device.ports)
        devices.append(replace(device, ports=ports))
    site.fabric = replace(site.fabric, devices=tuple(devices))


def test_as_it_should_be_every_port_passes(site: Any) -> None:
    found = site.judge("gids")
    assert [f.subject for f in found] == [f"node{n}/eth{r}" for n in (1, 2, 3, 4) for r in (1, 2)]
    assert {f.outcome for f in found} == {Outcome.PASS}
    assert found[0].what == "RoCE v2 with 10.10.0.1, which no other port has"


def test_a_duplicate_address_names_both_ports(site: Any) -> None:
    gids(site, "node3/eth1", "0 RoCE v2 fe80::1", "1 RoCE v2 ::ffff:10.10.0.1")
    for port in ("node1/eth1", "node3/eth1"):
        with_port(site, port, address="")
    said = "node1/eth1 and node3/eth1 both have 10.10.0.1: packets go to whichever answers"
    assert site.bad("gids") == [(Outcome.FAIL, "node1/eth1", said), (Outcome.FAIL, "node3/eth1", said)]


def test_s04_link_local_gids_alone_are_of_no_use(site: Any) -> None:
    gids(site, "node1/eth1", "0 IB/RoCE v1 fe80::1", "1 RoCE v2 fe80::1")
    assert site.bad("gids") == [(Outcome.FAIL, "node1/eth1", "rdma0 has link-local RoCE v2 GIDs only")]


def test_s06_roce_v1_alone_fails(site: Any) -> None:
    gids(site, "node1/eth1", "0 IB/RoCE v1 ::ffff:10.10.0.1")
    assert site.bad("gids") == [(Outcome.FAIL, "node1/eth1", "rdma0 has no RoCE v2 GID, only IB/RoCE v1")]


def test_s03_a_unique_local_ipv6_gid_is_enough_where_the_inventory_gives_it(site: Any) -> None:
    gids(site, "node1/eth1", "0 RoCE v2 fe80::1", "2 RoCE v2 fd00:1::1")
    with_port(site, "node1/eth1", address="fd00:1::1/64")
    assert site.bad("gids") == []


def test_an_empty_table_fails(site: Any) -> None:
    gids(site, "node1/eth1")
    assert site.bad("gids") == [(Outcome.FAIL, "node1/eth1", "rdma0 has no RoCE v2 GID")]


def test_another_address_than_the_inventorys(site: Any) -> None:
    gids(site, "node1/eth1", "1 RoCE v2 ::ffff:10.10.0.77")
    gids(site, "node2/eth1", "1 RoCE v2 ::ffff:192.168.7.2")
    assert [what for _, _, what in site.bad("gids")] == [
        ("node1/eth1 has no GID of 10.10.0.1, the inventory's address; it has 10.10.0.77, in 10.10.0.0/24"),
        (
            "node2/eth1 has no GID of 10.10.0.2, the inventory's address; "
            "it has 192.168.7.2, outside 10.10.0.0/24"
        ),
    ]


def test_without_an_address_in_the_inventory_the_rails_subnet_counts(site: Any) -> None:
    with_port(site, "node1/eth1", address="")
    assert site.bad("gids") == []
    gids(site, "node1/eth1", "1 RoCE v2 ::ffff:10.10.1.99")
    assert [what for _, _, what in site.bad("gids")] == [
        "node1/eth1 has 10.10.1.99, outside 10.10.0.0/24, where the other ports of rail 0 are"
    ]


def test_routed_links_with_a_subnet_each_have_no_rails_subnet(site: Any) -> None:
    for n in (1, 2, 3):
        with_port(site, f"node{n}/eth1", address=f"10.20.{n}.1/31")
        gids(site, f"node{n}/eth1", f"1 RoCE v2 ::ffff:10.20.{n}.1")
    with_port(site, "node4/eth1", address="")
    assert site.bad("gids") == []


def test_a_table_that_cannot_be_read_is_unknown(site: Any) -> None:
    site.fact("node1/eth1", facts.GIDS, Missing("ibv_devinfo: the program is not installed (sh)"))
    assert site.bad("gids") == [
        (
            Outcome.UNKNOWN,
            "node1/eth1",
            "the GID table of rdma0 is not known: ibv_devinfo: the program is not installed (sh)",
        )
    ]


def test_odd_entries_are_left_out(site: Any) -> None:
    gids(site, "node1/eth1", "x", "1 RoCE v2 ::ffff:10.10.0.1", "2 RoCE v2 nonsense", "3 RoCE v2 ::")
    assert site.bad("gids") == []


def vlan_site(site: Any) -> Any:
    """Put node1's first port on VLAN 100; the interface under it has the same verbs device."""
    port = Port(PortId("node1", "eth1.100"), rdma="rdma0", address="10.10.0.1/24")
    devices = tuple(
        replace(d, ports=(*d.ports, port)) if d.name == "node1" else d for d in site.fabric.devices
    )
    site.fabric = replace(site.fabric, devices=devices)
    site.as_intended()
    return site


NDEVS = "/sys/class/infiniband/rdma0/ports/1/gid_attrs/ndevs"


def test_a_vlan_has_its_own_gid_and_number(site: Any) -> None:
    vlan_site(site)
    (query,) = finder.link_check("gids").queries(site.fabric.device("node1"))
    assert query.argv[-2:] == ("eth1.100", "rdma0")
    assert finder.link_check("gids").queries(site.fabric.device("node2")) == ()
    # documented: kernel, sysfs-class-infiniband (gid_attrs/ndevs) and 8021q's /proc/net/vlan
    site.answer("node1", query.key, f"eth1.100 {NDEVS}/1:eth1.100\neth1.100 vid 100\n")
    assert site.bad("gids") == []
    site.answer("node1", query.key, f"eth1.100 {NDEVS}/1:eth1\neth1.100 vid 200\n")
    assert [what for _, subject, what in site.bad("gids") if subject == "node1/eth1.100"] == [
        "node1/eth1.100 is VLAN 200, its name says 100",
        "no GID of rdma0 belongs to eth1.100: they are those of eth1",
    ]


def test_a_fabric_without_verbs_devices_has_nothing_to_judge(site: Any) -> None:
    for n in (1, 2, 3, 4):
        for r in (1, 2):
            with_port(site, f"node{n}/eth{r}", rdma="")
    assert site.judge("gids") == ()


def test_nothing_read_is_no_pass(site: Any) -> None:
    for name in list(site.seen):
        site.unreachable(name)
    assert [(f.outcome, f.subject) for f in site.judge("gids")] == [(Outcome.UNKNOWN, "fabric")]


def test_a_truncated_answer_about_a_vlan_upsets_nothing(site: Any) -> None:
    vlan = PortId("node1", "eth1.100")
    port = replace(site.fabric.port(PortId("node1", "eth1")), id=vlan)
    devices = tuple(
        replace(d, ports=(port, *d.ports[1:])) if d.name == "node1" else d for d in site.fabric.devices
    )
    links = tuple(link for link in site.fabric.links if link.b != PortId("node1", "eth1"))
    site.fabric = replace(site.fabric, devices=devices, links=links)
    site.as_intended()
    site.answer("node1", "gids of VLANs", "eth1.100\neth1.100 vid\n")
    assert site.bad("gids") == []


def test_a_pulled_cable_is_no_second_fault(site: Any) -> None:
    # NetworkManager and systemd-networkd take the address away with the carrier.
    site.fact("node1/eth1", facts.LINK_STATE, "down")
    gids(site, "node1/eth1", "0 RoCE v2 fe80::1")
    ((outcome, subject, what),) = site.bad("gids")
    assert (outcome, subject) == (Outcome.UNKNOWN, "node1/eth1")
    assert what == "its link is down (see check link_state): an address may be gone with it"


def test_one_address_alone_says_nothing_of_the_rails_subnet(site: Any) -> None:
    for n in (2, 3, 4):
        with_port(site, f"node{n}/eth1", address="")
        gids(site, f"node{n}/eth1", f"1 RoCE v2 ::ffff:10.10.{n}.1")
    with_port(site, "node1/eth1", address="10.10.0.1/31")
    assert site.bad("gids") == []


def test_who_has_anothers_address_is_the_one_at_fault(site: Any) -> None:
    gids(site, "node4/eth1", "1 RoCE v2 ::ffff:10.10.0.4", "2 RoCE v2 ::ffff:10.10.0.3")
    (found,) = [f for f in site.judge("gids") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject, found.culprit) == (Outcome.FAIL, "node4/eth1", "node4/eth1")
    assert found.what == "node4/eth1 also has 10.10.0.3, which the inventory gives to node3/eth1"
    assert found.next_step == "on node4: ip addr del 10.10.0.3/24 dev eth1"
    (victim,) = [f for f in site.judge("gids") if f.subject == "node3/eth1"]
    assert victim.what == "RoCE v2 with 10.10.0.3; node4/eth1 also has 10.10.0.3, which is not its own"


def test_an_address_that_the_inventory_gives_to_neither_is_told_at_both(site: Any) -> None:
    for n in (3, 4):
        gids(site, f"node{n}/eth1", f"1 RoCE v2 ::ffff:10.10.0.{n}", "2 RoCE v2 ::ffff:10.10.0.99")
    said = "node3/eth1 and node4/eth1 both have 10.10.0.99: packets go to whichever answers"
    assert site.bad("gids") == [(Outcome.FAIL, "node3/eth1", said), (Outcome.FAIL, "node4/eth1", said)]


def test_an_address_that_the_inventory_gives_to_both_is_told_at_both(site: Any) -> None:
    with_port(site, "node4/eth1", address="10.10.0.3/24")
    gids(site, "node4/eth1", "1 RoCE v2 ::ffff:10.10.0.3")
    assert [subject for _, subject, _ in site.bad("gids")] == ["node3/eth1", "node4/eth1"]
