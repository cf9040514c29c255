"""Cables against the inventory, by what LLDP hears."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabricctl.model import facts
from fabricctl.model.fabric import Link, Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Missing
from fabricctl.model.verdict import Outcome

LINK = "node1/eth1 - leaf1/swp1"
SILENT = Missing("no LLDP neighbour is heard on the port")


def test_as_it_should_be_every_link_passes(site: Any) -> None:
    found = site.judge("cabling")
    assert {f.outcome for f in found} == {Outcome.PASS}
    assert found[0].what == "node1/eth1 and leaf1/swp1 hear each other"
    assert len(found) == 8


def test_swapped_cables_are_said_in_plain_words(site: Any) -> None:
    for port, partner in {
        "node3/eth1": "leaf1/swp4",
        "node4/eth1": "leaf1/swp3",
        "leaf1/swp3": "node4/eth1",
        "leaf1/swp4": "node3/eth1",
    }.items():
        site.fact(port, facts.PARTNER, partner)
    assert site.bad("cabling") == [
        (
            Outcome.FAIL,
            "node3/eth1 - leaf1/swp3",
            "node3/eth1 should be on leaf1/swp3, is on leaf1/swp4; node4/eth1 the other way round",
        ),
        (
            Outcome.FAIL,
            "node4/eth1 - leaf1/swp4",
            "node4/eth1 should be on leaf1/swp4, is on leaf1/swp3; node3/eth1 the other way round",
        ),
    ]
    steps = {f.next_step for f in site.judge("cabling") if f.outcome is Outcome.FAIL}
    assert (
        "swap the cables in leaf1/swp3 and leaf1/swp4, or correct link in fabric_ports of the inventory"
        in steps
    )


def test_swapped_rails_of_a_node_are_seen_though_the_node_is_silent(site: Any) -> None:
    for port in ("node1/eth1", "node1/eth2"):
        site.fact(port, facts.PARTNER, SILENT)
    site.fact("leaf1/swp1", facts.PARTNER, "node1/eth2")
    site.fact("leaf2/swp1", facts.PARTNER, "node1/eth1")
    assert [what for _, _, what in site.bad("cabling")] == [
        "leaf1/swp1 should be on node1/eth1, is on node1/eth2; leaf2/swp1 the other way round",
        "leaf2/swp1 should be on node1/eth2, is on node1/eth1; leaf1/swp1 the other way round",
    ]


def test_a_wrong_port_that_the_inventory_does_not_name(site: Any) -> None:
    site.fact("node1/eth1", facts.PARTNER, "leaf1/swp17")
    site.fact("leaf1/swp1", facts.PARTNER, SILENT)
    assert site.bad("cabling") == [
        (Outcome.FAIL, LINK, "node1/eth1 should be on leaf1/swp1, is on leaf1/swp17")
    ]


def test_a_partner_that_is_not_in_the_inventory_is_unexpected(site: Any) -> None:
    site.fact("node1/eth1", facts.PARTNER, "office-switch/gi1/0/3")
    site.fact("leaf1/swp1", facts.PARTNER, SILENT)
    assert [what for _, _, what in site.bad("cabling")] == [
        ("node1/eth1 should be on leaf1/swp1, is on office-switch/gi1/0/3, which the inventory does not have")
    ]


@pytest.mark.parametrize("name", ["leaf1.example.net/swp1", "LEAF1/swp1", "leaf1/SWP1"])
def test_a_domain_and_case_make_no_difference(site: Any, name: str) -> None:
    site.fact("node1/eth1", facts.PARTNER, name)
    assert site.bad("cabling") == []


def test_a_short_name_of_a_port_is_the_same_port(make_site: Any) -> None:
    site = make_site()
    port = Port(PortId("leaf1", "Ethernet1/1"))
    site.fabric = replace(
        site.fabric,
        devices=tuple(
            replace(d, ports=(port, *d.ports[1:])) if d.name == "leaf1" else d for d in site.fabric.devices
        ),
        links=tuple(
            replace(link, a=port.id) if link.a == PortId("leaf1", "swp1") else link
            for link in site.fabric.links
        ),
    )
    site.fact("node1/eth1", facts.PARTNER, "leaf1/Eth1/1")
    (found,) = [f for f in site.judge("cabling") if f.subject.endswith("leaf1/Ethernet1/1")]
    assert (found.outcome, found.what[:34]) == (Outcome.PASS, "node1/eth1 hears leaf1/Ethernet1/1")


def test_one_end_that_hears_the_other_is_enough(site: Any) -> None:
    site.fact("node1/eth1", facts.PARTNER, SILENT)
    (found,) = [f for f in site.judge("cabling") if f.subject == LINK]
    assert found.outcome is Outcome.PASS
    assert found.what == (
        "leaf1/swp1 hears node1/eth1, which hears nothing (no LLDP neighbour is heard on the port)"
    )


def test_an_alias_is_proved_by_the_other_end_or_not_known(site: Any) -> None:
    site.fact("node1/eth1", facts.PARTNER, "leaf1/fortyGigE0/0")
    assert site.bad("cabling") == []
    site.fact("leaf1/swp1", facts.PARTNER, SILENT)
    assert site.bad("cabling") == [
        (
            Outcome.UNKNOWN,
            LINK,
            (
                "node1/eth1 hears leaf1/fortyGigE0/0, and the inventory names the ports of leaf1 otherwise; "
                "the other end confirms nothing"
            ),
        )
    ]


def test_a_switch_with_another_name_in_lldp_is_a_note(site: Any) -> None:
    site.fact("node1/eth1", facts.PARTNER, "sw-rack7/swp1")
    assert site.bad("cabling") == []
    assert site.notes("cabling")[0][1] == (
        "leaf1/swp1 hears node1/eth1, which hears sw-rack7/swp1: LLDP has that name for leaf1"
    )


def test_ends_that_contradict_each_other_are_unknown(site: Any) -> None:
    site.fact("leaf1/swp1", facts.PARTNER, "node2/eth1")
    ((outcome, subject, what),) = site.bad("cabling")
    assert (outcome, subject) == (Outcome.UNKNOWN, LINK)
    assert "contradict each other: node1/eth1 hears leaf1/swp1, leaf1/swp1 hears node2/eth1" in what


def test_silence_is_unknown(site: Any) -> None:
    site.fact("node1/eth1", facts.PARTNER, Missing("lldpcli: the program is not installed (sh)"))
    site.fact("leaf1/swp1", facts.PARTNER, SILENT)
    ((outcome, _, what),) = site.bad("cabling")
    assert outcome is Outcome.UNKNOWN
    assert what == (
        "no end says what it is connected to (node1/eth1: lldpcli: the program is not installed (sh); "
        "leaf1/swp1: no LLDP neighbour is heard on the port)"
    )


def test_a_pulled_cable_that_lldp_remembers_does_not_pass(site: Any) -> None:
    site.fact("node1/eth1", facts.LINK_STATE, "down")
    ((outcome, _, what),) = site.bad("cabling")
    assert (outcome, what) == (Outcome.UNKNOWN, "node1/eth1 has no link: LLDP hears nothing there now")


def test_s50_a_bond_is_heard_by_its_members(site: Any) -> None:
    site.fact("node1/eth1", facts.FUNCTIONS, ("ens1f0", "ens1f1"))
    site.fact("node1/eth1", facts.PARTNER, SILENT)
    site.fact("leaf1/swp1", facts.PARTNER, "node1/ens1f1")
    assert site.bad("cabling") == []


def test_a_host_that_names_its_port_by_address_is_known(site: Any) -> None:
    site.fact("node1/eth1", facts.PARTNER, SILENT)
    site.fact("leaf1/swp1", facts.PARTNER, "node1/52:54:00:00:01:01")
    assert site.bad("cabling") == []


def test_a_port_without_a_cable_that_has_one_fails(site: Any) -> None:
    site.fabric = replace(
        site.fabric, links=tuple(link for link in site.fabric.links if link.b != PortId("node1", "eth1"))
    )
    assert site.bad("cabling") == [
        (
            Outcome.FAIL,
            "node1/eth1",
            "node1/eth1 is connected to leaf1/swp1, the inventory has no cable there",
        ),
        (
            Outcome.FAIL,
            "leaf1/swp1",
            "leaf1/swp1 is connected to node1/eth1, the inventory has no cable there",
        ),
    ]


def test_ports_without_cables_in_the_inventory_have_nothing_to_judge(site: Any) -> None:
    site.fabric = replace(site.fabric, links=())
    for device in site.fabric.devices:
        for port in device.ports:
            site.fact(str(port.id), facts.PARTNER, SILENT)
    assert site.judge("cabling") == ()


def test_nothing_read_is_no_pass(site: Any) -> None:
    for name in list(site.seen):
        site.unreachable(name)
    assert [(f.outcome, f.subject) for f in site.judge("cabling")] == [(Outcome.UNKNOWN, "fabric")]


def test_with_a_limit_one_end_alone_is_judged(make_site: Any) -> None:
    site = make_site(only=("node1",))
    found = site.judge("cabling")
    assert [(f.outcome, f.what) for f in found] == [
        (Outcome.PASS, "node1/eth1 hears leaf1/swp1; leaf1/swp1 was not read: it was not asked"),
        (Outcome.PASS, "node1/eth2 hears leaf2/swp1; leaf2/swp1 was not read: it was not asked"),
    ]


@pytest.mark.parametrize("said", ["52:54:00:00:01:01/52:54:00:00:01:01", "5254.0000.0101/5254.0000.0101"])
def test_a_nics_firmware_agent_that_gives_only_its_address_is_the_nics_port(site: Any, said: str) -> None:
    site.fact("node1/eth1", facts.MAC, "52:54:00:00:01:01")
    site.fact("leaf1/swp1", facts.PARTNER, said)
    site.fact("node1/eth1", facts.PARTNER, SILENT)
    assert site.bad("cabling") == []
    site.fact("leaf1/swp1", facts.PARTNER, "leaf1/swp2")
    site.fact("leaf1/swp2", facts.PARTNER, said)
    site.fact("node2/eth1", facts.PARTNER, SILENT)
    assert (Outcome.FAIL, "node2/eth1 - leaf1/swp2") in [found[:2] for found in site.bad("cabling")]


def test_an_address_that_nobody_is_known_to_have_is_no_other_device(site: Any) -> None:
    site.fact("leaf1/swp1", facts.PARTNER, "b8:ce:f6:00:00:01/b8:ce:f6:00:00:01")
    site.fact("node1/eth1", facts.PARTNER, SILENT)
    ((outcome, subject, what),) = site.bad("cabling")
    assert (outcome, subject) == (Outcome.UNKNOWN, LINK)
    assert "it gives no name, and no port is known to have that address" in what


def test_an_abbreviation_that_may_be_an_alias_of_another_port_is_not_sure(make_site: Any) -> None:
    # Some SONiC platforms call Ethernet28 "Eth8" by LLDP, and have an Ethernet8 as well.
    site = make_site()
    names = {"swp1": "Ethernet28", "swp2": "Ethernet8"}
    site.fabric = replace(
        site.fabric,
        devices=tuple(
            replace(
                d,
                ports=tuple(replace(p, id=PortId("leaf1", names.get(p.id.port, p.id.port))) for p in d.ports),
            )
            if d.name == "leaf1"
            else d
            for d in site.fabric.devices
        ),
        links=tuple(
            replace(link, a=PortId("leaf1", names[link.a.port]))
            if link.a.device == "leaf1" and link.a.port in names
            else link
            for link in site.fabric.links
        ),
    )
    site.fact("node1/eth1", facts.PARTNER, "leaf1/Eth8")
    assert {f.outcome for f in site.judge("cabling") if f.subject == "node1/eth1 - leaf1/Ethernet28"} == {
        Outcome.UNKNOWN
    }


def test_an_inventory_without_cables_is_told_once_and_fails_no_port(site: Any) -> None:
    site.fabric = replace(site.fabric, links=())
    ((outcome, subject, what),) = site.bad("cabling")
    assert (outcome, subject) == (Outcome.UNKNOWN, "fabric")
    assert what == "LLDP hears neighbours, but the inventory names no cable: there is nothing to compare with"


def test_a_wrong_port_in_the_inventory_fails_though_the_one_it_names_is_down(site: Any) -> None:
    site.fact("leaf1/swp1", facts.LINK_STATE, "down")
    site.fact("leaf1/swp1", facts.PARTNER, SILENT)
    site.fact("node1/eth1", facts.PARTNER, "leaf1/swp9")
    (found,) = [f for f in site.judge("cabling") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject) == (Outcome.FAIL, LINK)
    assert found.what == "node1/eth1 should be on leaf1/swp1, is on leaf1/swp9"
    assert found.next_step == (
        "move the cable of node1/eth1 to leaf1/swp1, or correct link in fabric_ports of the inventory"
    )


def test_what_lldp_remembers_where_both_ends_are_down_is_no_proof(site: Any) -> None:
    for port in ("node1/eth1", "leaf1/swp1"):
        site.fact(port, facts.LINK_STATE, "down")
    site.fact("node1/eth1", facts.PARTNER, "leaf1/swp9")
    assert site.bad("cabling") == [
        (Outcome.UNKNOWN, LINK, "node1/eth1 and leaf1/swp1 have no link: LLDP hears nothing there now")
    ]


@pytest.mark.parametrize("partner", ["leaf1/swp1", "sw-rack7/swp1", "leaf1/fortyGigE0/0", SILENT])
def test_one_end_down_and_nothing_sure_at_the_other_stays_unknown(site: Any, partner: str | Missing) -> None:
    site.fact("leaf1/swp1", facts.LINK_STATE, "down")
    site.fact("node1/eth1", facts.PARTNER, partner)
    assert site.bad("cabling") == [
        (Outcome.UNKNOWN, LINK, "leaf1/swp1 has no link: LLDP hears nothing there now")
    ]


def test_cables_between_switches_stand_in_another_key(site: Any) -> None:
    up = Link(PortId("leaf1", "swp4"), PortId("leaf2", "swp4"), 3.0)
    kept = tuple(link for link in site.fabric.links if link.b.device != "node4")
    site.fabric = replace(site.fabric, links=(*kept, up))
    site.fact("leaf1/swp4", facts.PARTNER, "leaf2/swp9")
    site.fact("leaf2/swp4", facts.PARTNER, SILENT)
    (found,) = [f for f in site.judge("cabling") if f.subject == "leaf1/swp4 - leaf2/swp4"]
    assert found.outcome is Outcome.FAIL
    assert found.next_step == (
        "move the cable of leaf1/swp4 to leaf2/swp4, or correct fabric_uplinks in the inventory"
    )


# documented: lldpd's source (ctl.c and lldpcli.c) prints these with the time in front
STOPPED = (
    "lldpcli: 2026-11-30T14:02:03 [WARN/control] unable to connect to socket /run/lldpd.socket: "
    "No such file or directory 2026-11-30T14:02:03 [WARN/lldpctl] unable to get the list of ports: "
    "unable to connect to lldpd daemon"
)


def test_an_lldpd_that_is_not_running_is_named_with_what_starts_it(site: Any) -> None:
    site.fact("node4/eth1", facts.PARTNER, Missing(STOPPED))
    site.fact("leaf1/swp4", facts.PARTNER, SILENT)
    (found,) = [f for f in site.judge("cabling") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject) == (Outcome.UNKNOWN, "node4/eth1 - leaf1/swp4")
    assert found.what == (
        "no end says what it is connected to (lldpd is not running on node4; "
        "leaf1/swp4: no LLDP neighbour is heard on the port)"
    )
    assert found.next_step == "on node4: systemctl start lldpd; wait half a minute, and look again"


def test_an_lldpd_that_is_not_running_is_said_shortly_where_the_other_end_is_enough(site: Any) -> None:
    site.fact("node4/eth1", facts.PARTNER, Missing(STOPPED))
    (found,) = [f for f in site.judge("cabling") if f.subject == "node4/eth1 - leaf1/swp4"]
    assert (found.outcome, found.what) == (
        Outcome.PASS,
        "leaf1/swp4 hears node4/eth1, which hears nothing (lldpd is not running on node4)",
    )


def test_an_lldpd_that_may_not_be_asked_is_not_called_stopped(site: Any) -> None:
    denied = "lldpcli: 2026-11-30T14:02:03 [WARN/control] unable to connect to socket /run/lldpd.socket: "
    site.fact("node4/eth1", facts.PARTNER, Missing(denied + "Permission denied"))
    site.fact("leaf1/swp4", facts.PARTNER, SILENT)
    ((_, _, what),) = site.bad("cabling")
    assert "not running" not in what
    assert "lldpcli: unable to connect to socket /run/lldpd.socket: Permission denied" in what
    assert "2026-11-30" not in what


def test_a_port_without_a_cable_that_may_hear_another_port_is_unknown(site: Any) -> None:
    ids = {"swp1": "Ethernet28", "swp2": "Ethernet8"}
    site.fabric = replace(
        site.fabric,
        devices=tuple(
            replace(
                d, ports=tuple(replace(p, id=PortId("leaf1", ids.get(p.id.port, p.id.port))) for p in d.ports)
            )
            if d.name == "leaf1"
            else d
            for d in site.fabric.devices
        ),
        links=tuple(link for link in site.fabric.links if link.a.port not in ids or link.a.device != "leaf1"),
    )
    site.fact("node2/eth1", facts.PARTNER, SILENT)
    site.fact("node1/eth1", facts.PARTNER, "leaf1/Eth8")
    assert [found for found in site.bad("cabling") if found[1] == "node1/eth1"] == [
        (
            Outcome.UNKNOWN,
            "node1/eth1",
            (
                "node1/eth1 hears leaf1/Eth8, and it may mean leaf1/Ethernet8 or not; the inventory has no "
                "cable there"
            ),
        )
    ]
