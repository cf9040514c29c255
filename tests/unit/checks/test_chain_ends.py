"""The ends of the chain, as they were read: what a NIC sends, and whether a switch marks at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.model import settings
from fabricctl.model.policy import EcnProfile
from fabricctl.model.reading import Known, Missing, Value
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder

NICS = ("node1/eth1", "node2/eth1", "node3/eth1")
SWITCH_PORTS = ("leaf1/Ethernet0", "leaf2/Ethernet1/1", "spine1/swp2", "pod1/Ethernet1/1")
every_nic = pytest.mark.parametrize("port", NICS)
every_switch = pytest.mark.parametrize("port", SWITCH_PORTS)


@every_nic
def test_a_nic_whose_packets_have_no_dscp(site: Any, port: str) -> None:
    site.set(port, settings.ROCE_MODE, "IB/RoCE v1")
    assert site.fails("chain") == [
        (port, "RoCE is sent as IB/RoCE v1, not RoCE v2: it has no DSCP that could lead to a class")
    ]


@every_nic
@pytest.mark.parametrize(("tos", "bits"), [(104, "Not-ECT"), (107, "CE")])
def test_packets_that_switches_cannot_mark(site: Any, port: str, tos: int, bits: str) -> None:
    site.set(port, settings.ROCE_TOS, tos)
    assert site.fails("chain") == [
        (
            port,
            f"RoCE is sent with ECN bits {bits}, not ECT(0) or ECT(1): switches drop it instead of marking",
        )
    ]


@every_nic
def test_either_way_to_say_that_a_packet_can_be_marked(site: Any, port: str) -> None:
    assert site.held(port, settings.ROCE_TOS) == 106
    site.set(port, settings.ROCE_TOS, 105)
    assert site.fails("chain") == []


@every_nic
@pytest.mark.parametrize("tos", [104, 105, 106])
def test_ecn_bits_are_no_matter_where_nothing_is_to_mark(site: Any, port: str, tos: int) -> None:
    site.policy = replace(site.policy, ecn={}, cnp=None, dcqcn=None)
    site.as_intended()
    site.set(port, settings.ROCE_TOS, tos)
    assert site.fails("chain") == []


@pytest.mark.parametrize(
    ("setting", "value", "what"),
    [
        ("bnxt.roce_dscp", 0, "bnxt.roce_dscp is 0, not 26: the chain breaks there"),
        ("bnxt.roce_priority", 0, "bnxt.roce_priority is 0, not 3: the chain breaks there"),
        ("bnxt.udp_4791_priority", (), "bnxt.udp_4791_priority is none, not 3: the chain breaks there"),
        ("bnxt.udp_4791_priority", (5,), "bnxt.udp_4791_priority is 5, not 3: the chain breaks there"),
        (
            "bnxt.ecn_marking",
            0,
            "switches mark, but the NIC does not slow down for it (bnxt.ecn_marking is 0): pauses spread",
        ),
    ],
)
def test_a_nics_own_idea_of_the_class_of_roce(site: Any, setting: str, value: Value, what: str) -> None:
    site.set("node2/eth1", setting, value)
    assert site.fails("chain") == [("node2/eth1", what)]


def test_a_kind_of_pause_that_one_nic_alone_has(site: Any) -> None:
    devices = tuple(replace(d, driver="ionic") if d.name == "node2" else d for d in site.fabric.devices)
    site.fabric = replace(site.fabric, devices=devices)
    site.as_intended()
    assert site.fails("chain") == []
    site.set("node2/eth1", "ionic.pause", "link rx tx")
    assert site.fails("chain") == [
        ("node2/eth1", "ionic.pause is link rx tx, not pfc rx tx: the chain breaks there")
    ]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("bnxt.ecn_marking", 2), ("bnxt.priority_vlan", True), ("bnxt.g", 9), ("bnxt.roce_unheard_of", 0)],
)
def test_what_does_not_decide_the_class_of_roce_is_left_to_plan(
    site: Any, setting: str, value: Value
) -> None:
    site.policy = replace(site.policy, nic_parameters={"bnxt": {"g": 8}})
    site.as_intended()
    site.set("node2/eth1", setting, value)
    assert site.fails("chain") == []


@every_nic
@pytest.mark.parametrize(
    ("setting", "value", "what"),
    [
        (settings.CNP_DSCP, 0, "CNPs are sent with DSCP 0, not 48"),
        (settings.CNP_PRIORITY, 0, "CNPs are sent with priority 0, not 6"),
        (
            settings.CNP_DSCP,
            26,
            "CNPs are sent with DSCP 26, not 48: they ride the lossless class that they are to relieve",
        ),
        (
            settings.CNP_PRIORITY,
            3,
            "CNPs are sent with priority 3, not 6: they ride the lossless class that they are to relieve",
        ),
    ],
)
def test_a_nic_that_notifies_in_another_class(
    site: Any, port: str, setting: str, value: int, what: str
) -> None:
    site.set(port, setting, value)
    assert site.fails("chain") == [(port, what)]


@every_switch
@pytest.mark.parametrize(
    ("setting", "what"),
    [
        (settings.ECN_KMIN, "Kmin is 0 bytes, not 150000: marking begins at an empty queue"),
        (settings.ECN_PMAX, "Pmax is 0 %, not 100 %: nothing is marked before the queue is past Kmax"),
    ],
)
def test_a_switch_that_marks_always_or_never(site: Any, port: str, setting: str, what: str) -> None:
    site.set(port, setting, 0)
    assert site.fails("chain") == [(port, what)]


@every_switch
@pytest.mark.parametrize(
    ("setting", "profile"),
    [(settings.ECN_KMIN, EcnProfile(0, 1_500_000, 100)), (settings.ECN_PMAX, EcnProfile(1, 1_500_000, 0))],
)
def test_zero_is_right_where_it_is_meant(site: Any, port: str, setting: str, profile: EcnProfile) -> None:
    site.policy = replace(site.policy, ecn={0: profile})
    site.as_intended()
    assert site.held(port, setting) == 0
    assert site.fails("chain") == []


@pytest.mark.parametrize("port", ["node1/eth1", "node2/eth1"])
@pytest.mark.parametrize("setting", [settings.ROCE_MODE, settings.CNP_DSCP, settings.CNP_PRIORITY])
def test_what_a_nic_sends_and_was_not_read_is_unknown(site: Any, port: str, setting: str) -> None:
    site.set(port, setting, Missing("no answer in time"))
    assert site.bad("chain") == [(Outcome.UNKNOWN, port, f"{setting}: no answer in time")]


def test_a_nics_own_setting_that_was_not_read_is_unknown(site: Any) -> None:
    site.set("node2/eth1", "bnxt.roce_dscp", Missing("no answer in time"))
    assert site.bad("chain") == [(Outcome.UNKNOWN, "node2/eth1", "bnxt.roce_dscp: no answer in time")]


@pytest.mark.parametrize(
    "setting",
    [settings.CNP_DSCP, settings.CNP_PRIORITY, "bnxt.roce_dscp", "bnxt.roce_priority", "bnxt.ecn_marking"],
)
def test_what_a_port_cannot_have_stays_out(site: Any, setting: str) -> None:
    site.set("node2/eth1", setting, Missing("the firmware owns it", impossible=True))
    assert site.bad("chain") == []


@pytest.mark.parametrize("driver", finder.names("NIC driver"))
@pytest.mark.parametrize("dcqcn", [True, None])
def test_what_a_driver_cannot_have_stays_out(site: Any, driver: str, dcqcn: Any) -> None:
    """A driver without DCQCN at all still says so."""
    devices = tuple(replace(d, driver=driver) if d.name == "node2" else d for d in site.fabric.devices)
    site.fabric = replace(site.fabric, devices=devices)
    site.policy = replace(site.policy, dcqcn=dcqcn)
    site.as_intended()
    gaps = [what for _, subject, what in site.bad("chain") if subject == "node2/eth1"]
    assert [what for what in gaps if "dcqcn" not in what] == []
    assert {outcome for outcome, subject, _ in site.bad("chain")} <= {Outcome.UNKNOWN}


def test_notifications_do_not_matter_to_a_nic_that_sends_none(site: Any) -> None:
    """A NIC may show their class only while congestion control is on."""
    site.set("node2/eth1", settings.DCQCN, Known(value=False))
    site.set("node2/eth1", settings.CNP_DSCP, Missing("only shown while it is on"))
    assert [what[:13] for _, what in site.fails("chain")] == ["switches mark"]


def test_no_check_names_a_driver() -> None:
    folder = Path(finder.check("chain").judge.__code__.co_filename).parent
    names = (*finder.names("NIC driver"), *finder.names("switch driver"))
    for file in folder.glob("*.py"):
        text = file.read_text()
        assert [name for name in names if f"{name}." in text] == []
