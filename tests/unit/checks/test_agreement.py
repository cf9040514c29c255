"""What was read of both ends of each link: every way to differ, and which end is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabricctl.model import facts, settings
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PortId
from fabricctl.model.reading import DeviceReading, Missing, Value
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder

LEAF, NODE, LINK = "leaf1/Ethernet0", "node1/eth1", "leaf1/Ethernet0 - node1/eth1"
UPLINK, SPINE, TRUNK = "leaf2/Ethernet2/1", "spine1/swp2", "leaf2/Ethernet2/1 - spine1/swp2"


def dscps(**changed: int) -> tuple[int, ...]:
    """Return the policy's DSCP map with some entries changed, as ``d26=0``."""
    meant = {26: 3, 48: 6, **{int(name[1:]): value for name, value in changed.items()}}
    return tuple(meant.get(dscp, 0) for dscp in range(64))


def test_what_is_as_intended_passes_link_by_link(site: Any) -> None:
    found = site.judge("agreement")

    assert {finding.outcome for finding in found} == {Outcome.PASS}
    assert len(found) == len(site.fabric.links)
    assert found[0].subject == LINK
    assert found[0].what == (
        "both ends agree, as read: trust dscp, PFC priorities 3, MTU 9216 and 9000 bytes, 100 Gb/s, FEC rs,"
        " RDMA MTU 4096"
    )
    assert "MTU 9214 and 9216 bytes" in found[4].what


@pytest.mark.parametrize(
    ("port", "setting", "value", "what"),
    [
        (
            LEAF,
            settings.PFC,
            (3, 4),
            f"PFC priorities are 3,4 on {LEAF} and 3 on {NODE}: {LEAF} is wrong, the policy says 3",
        ),
        (
            NODE,
            settings.PFC,
            (),
            f"PFC priorities are 3 on {LEAF} and none on {NODE}: {NODE} is wrong, the policy says 3",
        ),
        (
            LEAF,
            settings.TRUST,
            "pcp",
            f"trust is pcp on {LEAF} and dscp on {NODE}: {LEAF} is wrong, the policy says dscp",
        ),
        (
            NODE,
            settings.DSCP_PRIORITY,
            dscps(d26=0),
            f"DSCP 26 is priority 3 on {LEAF} and 0 on {NODE}: {NODE} is wrong, the policy says 3",
        ),
        (
            LEAF,
            settings.DSCP_PRIORITY,
            dscps(d3=3, d4=4),
            (
                f"DSCP 3 is priority 3 on {LEAF} and 0 on {NODE} (1 more differ): {LEAF} is wrong,"
                " the policy says 0"
            ),
        ),
        (
            LEAF,
            settings.PRIORITY_TC,
            (0, 0, 0, 0, 0, 0, 6, 0),
            f"priority 3 is class 0 on {LEAF} and 3 on {NODE}: {LEAF} is wrong, the policy says 3",
        ),
        (
            LEAF,
            settings.PAUSE,
            True,
            (
                f"pause of the whole link is on on {LEAF} and off on {NODE}: {LEAF} is wrong, "
                "the policy says off"
            ),
        ),
    ],
)
def test_a_setting_that_differs_names_the_wrong_end(
    site: Any, port: str, setting: str, value: Value, what: str
) -> None:
    site.set(port, setting, value)

    assert site.fails("agreement") == [(LINK, what)]
    (found,) = [f for f in site.judge("agreement") if f.outcome is Outcome.FAIL]
    assert (found.culprit, found.next_step) == (port, f"set {port} as the policy says")


@pytest.mark.parametrize(
    ("port", "setting", "value", "what"),
    [
        (UPLINK, settings.ECN, False, f"ECN is off on {UPLINK} and on on {SPINE}: {UPLINK} is wrong"),
        (SPINE, settings.ECN_KMIN, 1_048_576, f"Kmin is 150000 on {UPLINK} and 1048576 on {SPINE}: {SPINE}"),
        (SPINE, settings.ECN_KMAX, 2_097_152, "the policy says 1500000 bytes"),
        (UPLINK, settings.ECN_PMAX, 5, f"{UPLINK} is wrong, the policy says 100 %"),
        (SPINE, settings.WATCHDOG, (), f"watchdog are 3 on {UPLINK} and none on {SPINE}: {SPINE} is wrong"),
        (UPLINK, settings.WATCHDOG_DETECT, 200, f"{UPLINK} is wrong, the policy says 400 ms"),
        (SPINE, settings.WATCHDOG_RESTORE, 200, f"{SPINE} is wrong, the policy says 400 ms"),
        (SPINE, settings.WATCHDOG_POLL, 100, f"{SPINE} is wrong, the policy says 200 ms"),
        (UPLINK, settings.MTU, 9000, f"the MTU is 9000 on {UPLINK} and 9216 on {SPINE}: {UPLINK} is wrong"),
    ],
)
def test_switches_also_share_marking_watchdog_and_mtu(
    site: Any, port: str, setting: str, value: Value, what: str
) -> None:
    site.set(port, setting, value)

    ((subject, said),) = site.fails("agreement")
    assert subject == TRUNK
    assert what in said


def test_an_end_in_its_systems_own_terms_is_right(site: Any) -> None:
    assert site.held("pod1/Ethernet1/1", settings.PRIORITY_TC)[6] == 7
    assert site.held("node3/eth1", settings.PRIORITY_TC)[6] == 6
    site.set("pod1/Ethernet1/1", settings.PRIORITY_TC, site.held("node3/eth1", settings.PRIORITY_TC))

    assert site.fails("agreement") == [
        (
            "node3/eth1 - pod1/Ethernet1/1",
            (
                "priority 6 is class 6 on node3/eth1 and 6 on pod1/Ethernet1/1:"
                " pod1/Ethernet1/1 is wrong, the policy says 7"
            ),
        )
    ]


def test_both_ends_wrong_in_different_ways(site: Any) -> None:
    site.set(LEAF, settings.PFC, (3, 4))
    site.set(NODE, settings.PFC, ())

    assert site.fails("agreement") == [
        (
            LINK,
            f"PFC priorities are 3,4 on {LEAF} and none on {NODE}: both are wrong, the policy says 3",
        )
    ]


def test_both_ends_wrong_in_the_same_way_do_not_pass(site: Any) -> None:
    for port in (LEAF, NODE):
        site.set(port, settings.PFC, ())
        site.set(port, settings.DSCP_PRIORITY, dscps(d26=1))

    assert site.fails("agreement") == [
        (
            LINK,
            (
                "both ends agree, but not with the policy (in parentheses): DSCP 26 is priority 1 (3),"
                " PFC priorities none (3)"
            ),
        )
    ]


def test_the_mtu_has_to_hold_the_headers_too(site: Any) -> None:
    site.set(LEAF, settings.MTU, 8999)
    assert site.fails("agreement") == [
        (
            LINK,
            (
                f"{NODE} may send frames of 9022 bytes (MTU 9000 and 22 of headers), {LEAF} passes only 9021:"
                f" small messages pass, large ones are lost: {LEAF} is wrong, the policy says 9216"
            ),
        )
    ]
    site.set(LEAF, settings.MTU, 9000)
    assert site.fails("agreement") == []


def test_a_system_whose_mtu_counts_headers_passes_less(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    find: Any = finder.switch_driver
    monkeypatch.setattr(finder, "switch_driver", lambda name: replace(find(name), mtu_headers_bytes=22))
    site.set(LEAF, settings.MTU, 9021)
    ((_, what),) = site.fails("agreement")
    assert f"{LEAF} passes only 9021" in what

    site.set(LEAF, settings.MTU, 9022)
    assert site.fails("agreement") == []


def test_a_node_with_too_large_an_mtu_is_the_wrong_end(site: Any) -> None:
    site.set(NODE, settings.MTU, 9300)
    assert site.fails("agreement") == [
        (
            LINK,
            (
                f"{NODE} may send frames of 9322 bytes (MTU 9300 and 22 of headers), {LEAF} passes only 9238:"
                f" small messages pass, large ones are lost: {NODE} is wrong, the policy says 9000"
            ),
        )
    ]


def test_speed_is_held_against_the_inventory_and_names_the_wrong_end(site: Any) -> None:
    site.fact(NODE, facts.SPEED, 50_000)
    assert site.fails("agreement") == [
        (
            LINK,
            (
                f"the speed is 100 Gb/s on {LEAF} and 50 Gb/s on {NODE}: {NODE} is wrong,"
                " the inventory says 100 Gb/s"
            ),
        )
    ]
    site.fact(LEAF, facts.SPEED, 50_000)
    assert site.fails("agreement") == [
        (LINK, "the speed is 50 Gb/s on both ends, the inventory says 100 Gb/s")
    ]


def test_speeds_that_differ_where_the_inventory_names_none(site: Any) -> None:
    site.changed = {PortId.parse(port): {"speed_gbps": 0} for port in (LEAF, NODE)}
    site.fact(NODE, facts.SPEED, 25_000)
    assert site.fails("agreement") == [
        (
            LINK,
            (
                f"the speed is 100 Gb/s on {LEAF} and 25 Gb/s on {NODE}: they differ, "
                "and the inventory names none"
            ),
        )
    ]


def test_a_speed_that_is_not_known_is_not_proven(site: Any) -> None:
    site.fact(NODE, facts.SPEED, Missing("the link is down"))
    assert site.bad("agreement") == [(Outcome.UNKNOWN, NODE, "speed_mbps: the link is down")]


def test_the_speed_of_a_bond_says_nothing_of_its_cables(site: Any) -> None:
    site.fact(NODE, facts.SPEED, 200_000)
    site.fact(NODE, facts.FUNCTIONS, ("eth1", "eth2"))
    assert site.bad("agreement") == [
        (Outcome.UNKNOWN, NODE, "speed_mbps: it is that of several physical functions together")
    ]


@pytest.mark.parametrize(("one", "other"), [("rs", "RS-FEC"), ("none", "off"), ("fc", "BaseR")])
def test_one_fec_spelled_in_two_ways_is_the_same(site: Any, one: str, other: str) -> None:
    site.fact(LEAF, facts.FEC, one)
    site.fact(NODE, facts.FEC, other)
    assert site.fails("agreement") == []


def test_fec_that_differs_fails_on_a_link_that_is_down(site: Any) -> None:
    site.fact(LEAF, facts.FEC, "rs")
    site.fact(NODE, facts.FEC, "none")
    assert site.bad("agreement") == [
        (
            Outcome.UNKNOWN,
            LINK,
            (
                f"FEC is rs on {LEAF} and none on {NODE}, though the link is up: one of them does not say"
                " what it uses"
            ),
        )
    ]
    site.fact(NODE, facts.LINK_STATE, "down")
    assert site.fails("agreement") == [(LINK, f"FEC is rs on {LEAF} and none on {NODE}: they differ")]


@pytest.mark.parametrize("entry", [Missing("no such file"), "auto", ""])
def test_fec_that_an_end_does_not_name_is_not_compared(site: Any, entry: Any) -> None:
    site.fact(NODE, facts.FEC, entry)
    assert site.fails("agreement") == []
    assert "FEC" not in site.judge("agreement")[0].what


def test_a_missing_value_is_unknown_with_its_reason_never_a_pass(site: Any) -> None:
    site.set(NODE, settings.PFC, Missing("mlnx_qos: no answer in time"))
    assert site.bad("agreement") == [(Outcome.UNKNOWN, NODE, "pfc_priorities: mlnx_qos: no answer in time")]


def test_what_a_port_cannot_have_is_unknown_unless_it_is_meant_to_be_off(site: Any) -> None:
    site.set(NODE, settings.PFC, Missing("no PFC in software", impossible=True))
    assert site.bad("agreement") == [(Outcome.UNKNOWN, NODE, "pfc_priorities: no PFC in software")]

    site.policy = replace(site.policy, pfc_priorities=())
    site.as_intended()
    site.set(NODE, settings.PFC, Missing("no PFC in software", impossible=True))
    assert site.fails("agreement") == []


@pytest.mark.parametrize("odd", ["3", (9,), (True, 3), 3, "", ((3,),)])
def test_a_value_of_another_kind_is_unknown(site: Any, odd: Any) -> None:
    site.set(NODE, settings.PFC, odd)
    ((outcome, subject, what),) = site.bad("agreement")
    assert (outcome, subject) == (Outcome.UNKNOWN, NODE)
    assert what.startswith("pfc_priorities: unparsable: ")


def test_a_failure_and_a_gap_of_one_link_are_both_named(site: Any) -> None:
    site.set(LEAF, settings.TRUST, "pcp")
    site.set(NODE, settings.PFC, Missing("unparsable"))
    assert sorted(outcome for outcome, _, _ in site.bad("agreement")) == [Outcome.FAIL, Outcome.UNKNOWN]


def test_an_end_that_was_not_read_is_unknown(site: Any) -> None:
    del site.readings["node1"]
    assert site.bad("agreement") == [(Outcome.UNKNOWN, LINK, "node1 was not read")]

    site.readings["node1"] = DeviceReading("node1", 1.0, {}, error="no route to host")
    assert site.bad("agreement") == [(Outcome.UNKNOWN, LINK, "node1 could not be read: no route to host")]

    site.readings["node1"] = DeviceReading("node1", 1.0, {})
    assert site.bad("agreement") == [(Outcome.UNKNOWN, LINK, "node1/eth1 was not read, though node1 was")]


def test_an_end_without_a_driver_is_unknown(site: Any) -> None:
    bare = [replace(d, driver="") if d.name == "node1" else d for d in site.fabric.devices]
    site.fabric = Fabric(tuple(bare), site.fabric.links)
    del site.readings["node1"]
    assert site.bad("agreement") == [(Outcome.UNKNOWN, LINK, "node1 has no driver and is not read")]


def test_links_of_which_no_end_was_read_are_left_out(site: Any) -> None:
    site.readings = {name: site.readings[name] for name in ("leaf1", "node1")}
    found = site.judge("agreement")
    assert [(f.outcome, f.subject) for f in found] == [
        (Outcome.PASS, LINK),
        (Outcome.UNKNOWN, "leaf1/Ethernet4 - spine1/swp1"),
    ]


def test_nothing_read_is_unknown(site: Any) -> None:
    site.readings = {}
    assert site.bad("agreement") == [
        (Outcome.UNKNOWN, "fabric", "no end of any link was read: nothing was compared")
    ]


def test_a_node_port_without_a_cable_is_unknown_also_when_it_was_read(site: Any) -> None:
    site.fabric = Fabric(site.fabric.devices, site.fabric.links[1:])
    assert [(o, s) for o, s, _ in site.bad("agreement")] == [(Outcome.UNKNOWN, NODE)]
