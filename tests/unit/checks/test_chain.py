"""The chain as it was read, broken in every way, on a switch of every vendor's kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabricctl.model import facts, settings
from fabricctl.model.names import PortId
from fabricctl.model.policy import TrafficClass
from fabricctl.model.reading import Known, Missing, Value
from fabricctl.model.verdict import Outcome

SWITCH_PORTS = ("leaf1/Ethernet0", "leaf2/Ethernet1/1", "spine1/swp2", "pod1/Ethernet1/1")
every_switch = pytest.mark.parametrize("port", SWITCH_PORTS)


def swapped(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


def test_what_is_as_intended_passes_port_by_port(site: Any) -> None:
    found = site.judge("chain")
    assert {f.outcome for f in found} == {Outcome.PASS}
    assert {f.subject: f.what for f in found}["pod1/Ethernet1/1"] == (
        "as read: DSCP 26 -> priority 3 -> class 3 -> PFC -> ECN"
    )


@every_switch
@pytest.mark.parametrize(
    ("setting", "value", "what"),
    [
        (settings.TRUST, "pcp", "trust is pcp, not dscp: DSCPs are not looked at"),
        (settings.PFC, (), "priority 3 has no PFC: the chain ends there"),
        (settings.PFC, (3, 4), "PFC is on for priority 4, which the policy does not name"),
        (
            settings.LOSSLESS_BUFFERS,
            (),
            "priority 3 has PFC, but no buffer with headroom: it drops while it pauses",
        ),
        (
            settings.LOSSLESS_BUFFERS,
            (3, 4),
            "priority 4 is kept in a lossless buffer, and the policy does not name it",
        ),
        (
            settings.PAUSE,
            True,
            "pause of the whole link (802.3x) is on: it stops every class, and PFC does not work beside it",
        ),
        (
            settings.ECN,
            False,
            "ECN is off: the lossless queue does not mark, and only pauses hold senders back",
        ),
        (settings.ECN_KMIN, 1_500_000, "Kmin 1500000 bytes is not below Kmax 1500000 bytes"),
        (settings.ECN_KMAX, 150_000, "Kmin 150000 bytes is not below Kmax 150000 bytes"),
    ],
)
def test_a_setting_that_breaks_the_chain(site: Any, port: str, setting: str, value: Value, what: str) -> None:
    site.set(port, setting, value)
    assert (port, what) in site.fails("chain")
    assert {subject for subject, _ in site.fails("chain")} == {port}


@every_switch
def test_the_lossless_dscp_that_leads_elsewhere(site: Any, port: str) -> None:
    site.set(port, settings.DSCP_PRIORITY, swapped(site.held(port, settings.DSCP_PRIORITY), 26, 1))
    assert site.fails("chain") == [(port, "DSCP 26 of the lossless class leads to priority 1, not 3")]


@every_switch
def test_the_cnp_dscp_that_leads_into_what_pfc_pauses(site: Any, port: str) -> None:
    site.set(port, settings.DSCP_PRIORITY, swapped(site.held(port, settings.DSCP_PRIORITY), 48, 3))
    assert site.fails("chain") == [
        (port, "DSCP 48 of CNP leads to priority 3, not 6"),
        (port, "CNPs ride priority 3, which PFC can pause"),
    ]


@every_switch
def test_other_dscps_in_the_lossless_class(site: Any, port: str) -> None:
    found = list(site.held(port, settings.DSCP_PRIORITY))
    found[24:26] = [3, 3]
    found[31] = 3
    site.set(port, settings.DSCP_PRIORITY, tuple(found))
    assert site.fails("chain") == [(port, "DSCPs 24-25, 31 also lead to priority 3, which is RDMA's alone")]


@every_switch
def test_the_lossless_priority_in_the_queue_of_all_others(site: Any, port: str) -> None:
    site.set(port, settings.PRIORITY_TC, swapped(site.held(port, settings.PRIORITY_TC), 3, 0))
    assert site.fails("chain") == [
        (port, "priority 3 goes to class 0, not 3"),
        (port, "PFC priority 3 shares its traffic class with priorities 0, 1, 2, 4, 5, 7"),
    ]


@every_switch
def test_another_priority_in_the_lossless_queue(site: Any, port: str) -> None:
    site.set(port, settings.PRIORITY_TC, swapped(site.held(port, settings.PRIORITY_TC), 5, 3))
    assert site.fails("chain") == [(port, "PFC priority 3 shares its traffic class with priorities 5")]


@every_switch
def test_cnps_in_the_lossless_queue(site: Any, port: str) -> None:
    site.set(port, settings.PRIORITY_TC, swapped(site.held(port, settings.PRIORITY_TC), 6, 3))
    assert (port, "CNPs share class 3 with priority 3, which PFC can pause") in site.fails("chain")


@every_switch
def test_a_cnp_queue_that_is_not_strict(site: Any, port: str) -> None:
    queue = 7 if port.startswith("pod1") else 6
    site.set(port, settings.TC_SCHEDULER, ("ets",) * 8)
    assert site.fails("chain") == [
        (port, f"CNPs' class {queue} is scheduled ets, not strict: they wait for data")
    ]


@every_switch
def test_cnps_that_pfc_can_pause(site: Any, port: str) -> None:
    site.set(port, settings.PFC, (3, 6))
    assert (port, "CNPs ride priority 6, which PFC can pause") in site.fails("chain")


@every_switch
def test_kmax_at_or_above_the_point_at_which_the_port_pauses(site: Any, port: str) -> None:
    site.fact(port, facts.PAUSE_POINT, (0, 0, 0, 1_500_000, 0, 0, 0, 0))
    assert site.fails("chain") == [
        (
            port,
            (
                "Kmax 1500000 bytes is not below 1500000 bytes, at which priority 3 pauses: pauses come"
                " before all is marked"
            ),
        )
    ]
    site.fact(port, facts.PAUSE_POINT, (0, 0, 0, 1_500_001, 0, 0, 0, 0))
    assert site.fails("chain") == []


@pytest.mark.parametrize("entry", [Missing("it follows the free buffer"), (0,) * 8, "soon"])
def test_a_pause_point_that_the_switch_does_not_know_is_not_held_against_kmax(site: Any, entry: Any) -> None:
    site.fact("leaf1/Ethernet0", facts.PAUSE_POINT, entry)
    assert site.fails("chain") == []


def test_headroom_is_no_pause_point(site: Any) -> None:
    """61 KB of headroom below Kmax 1.5 MB is how it is meant to be."""
    site.fact("leaf1/Ethernet0", facts.HEADROOM, (0, 0, 0, 61_440, 0, 0, 0, 0))
    assert site.fails("chain") == []


@pytest.mark.parametrize(
    ("port", "setting", "value", "what"),
    [
        (
            "leaf1/Ethernet0",
            "sonic.tc_group",
            (0,) * 8,
            "sonic.tc_group is 0 at 3, not 3: the chain breaks there",
        ),
        (
            "leaf1/Ethernet4",
            "sonic.pfc_queue",
            (0, 1, 2, 4, 4, 5, 6, 7),
            "sonic.pfc_queue is 4 at 3, not 3: the chain breaks there",
        ),
        ("spine1/swp1", "cumulus.pfc_tx", False, "cumulus.pfc_tx is off, not on: the chain breaks there"),
        (
            "pod1/Ethernet1/2",
            "nxos.pfc_mode",
            "auto",
            "nxos.pfc_mode is auto, not on: the chain breaks there",
        ),
    ],
)
def test_a_link_of_the_chain_that_one_system_alone_has(
    site: Any, port: str, setting: str, value: Value, what: str
) -> None:
    site.set(port, setting, value)
    assert site.fails("chain") == [(port, what)]


@every_switch
@pytest.mark.parametrize(
    "setting",
    [
        settings.TRUST,
        settings.DSCP_PRIORITY,
        settings.PRIORITY_TC,
        settings.TC_SCHEDULER,
        settings.PFC,
        settings.PAUSE,
        settings.LOSSLESS_BUFFERS,
        settings.ECN,
        settings.ECN_KMIN,
        settings.ECN_KMAX,
        settings.ECN_PMAX,
    ],
)
def test_a_link_that_was_not_read_is_unknown(site: Any, port: str, setting: str) -> None:
    site.set(port, setting, Missing("unparsable"))
    assert site.bad("chain") == [(Outcome.UNKNOWN, port, f"{setting}: unparsable")]


def test_a_drivers_own_link_that_was_not_read_is_unknown(site: Any) -> None:
    site.set("leaf1/Ethernet0", "sonic.tc_group", Missing("no map is bound"))
    assert site.bad("chain") == [(Outcome.UNKNOWN, "leaf1/Ethernet0", "sonic.tc_group: no map is bound")]


def test_thresholds_of_a_port_that_does_not_mark_are_no_gap(site: Any) -> None:
    site.set("leaf1/Ethernet0", settings.ECN, Known(value=False))
    for name in (settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX):
        site.set("leaf1/Ethernet0", name, Missing("it does not mark"))
    assert [what[:10] for _, what in site.fails("chain")] == ["ECN is off"]


def test_ecn_that_the_policy_does_not_mean(site: Any) -> None:
    site.policy = replace(site.policy, ecn={}, cnp=None, dcqcn=None)
    site.as_intended()
    assert site.fails("chain") == []
    site.set("leaf2/Ethernet1/1", settings.ECN, Known(value=True))
    what = "ECN is on, and the policy means none here"
    assert (Outcome.FAIL, "leaf2/Ethernet1/1", what) in site.bad("chain")


@every_switch
def test_cnps_in_a_lossless_buffer(site: Any, port: str) -> None:
    site.set(port, settings.LOSSLESS_BUFFERS, (3, 6))
    assert (port, "CNPs ride priority 6, which is kept in a lossless buffer") in site.fails("chain")


@every_switch
def test_one_other_dscp_in_the_lossless_class(site: Any, port: str) -> None:
    site.set(port, settings.DSCP_PRIORITY, swapped(site.held(port, settings.DSCP_PRIORITY), 3, 3))
    assert site.fails("chain") == [(port, "DSCP 3 also leads to priority 3, which is RDMA's alone")]


def test_a_nic_is_followed_too(site: Any) -> None:
    site.set("node2/eth1", settings.TRUST, "pcp")
    site.set("node3/eth1", settings.PFC, (3, 5))
    assert site.fails("chain") == [
        ("node2/eth1", "trust is pcp, not dscp: DSCPs are not looked at"),
        ("node3/eth1", "PFC is on for priority 5, which the policy does not name"),
    ]


def test_nothing_lossless_where_the_policy_names_nothing(site: Any) -> None:
    site.policy = replace(
        site.policy, lossless=None, cnp=None, ecn={}, dcqcn=None, pfc_priorities=(), watchdog=None
    )
    site.as_intended()
    assert {f.what for f in site.judge("chain")} == {"no lossless class is meant, and none was read"}
    site.set("pod1/Ethernet1/1", settings.LOSSLESS_BUFFERS, (3,))
    assert site.fails("chain") == [
        ("pod1/Ethernet1/1", "priority 3 is kept in a lossless buffer, and the policy does not name it")
    ]


def test_a_policy_that_breaks_the_chain_stays_broken_when_it_is_set(site: Any) -> None:
    site.policy = replace(site.policy, cnp=TrafficClass(3, 48))
    site.as_intended()
    assert ("leaf1/Ethernet0", "CNPs ride priority 3, which PFC can pause") in site.fails("chain")


def test_only_what_was_read_is_followed(site: Any) -> None:
    site.readings = {"leaf1": site.readings["leaf1"]}
    assert [f.subject for f in site.judge("chain")] == ["leaf1/Ethernet0", "leaf1/Ethernet4"]
    site.readings = {}
    assert site.bad("chain") == [(Outcome.UNKNOWN, "fabric", "no port was read: nothing was followed")]


def test_a_port_of_which_nothing_was_read_is_unknown(site: Any) -> None:
    end = PortId("leaf1", "Ethernet0")
    bare = replace(site.readings["leaf1"].ports[end], settings={})
    ports = {**site.readings["leaf1"].ports, end: bare}
    site.readings["leaf1"] = replace(site.readings["leaf1"], ports=ports)
    found = site.bad("chain")
    assert {outcome for outcome, _, _ in found} == {Outcome.UNKNOWN}
    assert {subject for _, subject, _ in found} == {str(end)}
