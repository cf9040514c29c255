"""Traps that users and documents report, each by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabricctl.drivers.switch.dell_sonic import PLUGIN, config, objects, parse, shown, terms
from fabricctl.errors import RefusedError
from fabricctl.model import facts, settings
from fabricctl.model.fabric import LinkLayer, Port
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.policy import EcnProfile, Watchdog
from fabricctl.model.reading import Known
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Answer


@pytest.mark.parametrize(
    ("metres", "have"), [(1.0, 5), (5.0, 5), (5.5, 40), (40.0, 40), (41.0, 300), (300.0, 300)]
)
def test_cables_are_rounded_up_to_those_that_the_switch_has(intent_of: Any, metres: float, have: int) -> None:
    wanted = PLUGIN.wanted(intent_of(PortId("leaf1", "Eth1/1"), cable_length_m=metres))
    assert wanted[settings.CABLE_LENGTH] == have


@pytest.mark.parametrize(
    ("meant", "held"), [(150_000, 150_000), (153_600, 154_000), (150_499, 150_000), (1_536_000, 1_536_000)]
)
def test_thresholds_are_whole_kilobytes_and_compare_equal(bench: Any, meant: int, held: int) -> None:
    profile = EcnProfile(meant, 2_000_000, 100)
    bench.set(ecn=profile)
    assert bench.known(settings.ECN_KMIN) == [held]
    assert bench.differs(bench.wanted(ecn=profile)) == {}


@pytest.mark.parametrize(("said", "held"), [("153", "153000"), ("153.6", "153600"), ("2048.0", "2048000")])
def test_thresholds_with_a_fraction_are_read(said: str, held: str) -> None:
    lines = (f"green minimum-threshold {said} maximum-threshold 3000 drop-probability 5", "ecn all")
    assert objects.content(objects.WRED, lines) == f"all:{held}:3000000:5"


def test_ecn_without_thresholds_never_marks(bench: Any) -> None:
    """SONiC's own trap: ``ecn`` is set, and WRED is not enabled for the colour."""
    bench.by_hand()
    bench.switch.configure("qos wred-policy SILENT\necn green\nexit")
    bench.port_by_hand("queue 3 wred-policy SILENT")
    assert bench.known(settings.ECN) == [False]
    assert "nothing is marked" in bench.why(settings.ECN_KMIN)
    bench.set()
    assert bench.known(settings.ECN) == [True]


def test_a_policy_of_another_colour_is_not_taken_for_one_that_marks() -> None:
    lines = ("yellow minimum-threshold 1 maximum-threshold 2 drop-probability 5", "ecn green")
    assert objects.content(objects.WRED, lines) == objects.ODD
    with pytest.raises(Unread, match="other colours"):
        objects.mark(objects.ODD)


def test_pfc_on_more_than_two_priorities_is_refused(bench: Any) -> None:
    rc, why = bench.push(bench.goals(bench.wanted(pfc_priorities=(3, 4, 5))))
    assert (rc, why.partition("\n")[0]) == (
        1,
        "Eth1/1: pfc_priorities: a switch has PFC on 2 priorities at most",
    )


def test_two_priorities_are_exchanged_for_two_others(bench: Any) -> None:
    """The switch takes two at a time: one goes before another comes."""
    first = {"pfc_priorities": (3, 4), "priority_tc": (0, 0, 0, 3, 4, 0, 6, 0)}
    bench.set(**first)
    lines = bench.set(pfc_priorities=(2, 5), priority_tc=(0, 0, 2, 0, 0, 5, 6, 0))
    moves = [line for line in lines if "priority-flow-control priority" in line]
    assert moves[:4] == [
        "no priority-flow-control priority 3",
        "no priority-flow-control priority 4",
        "priority-flow-control priority 2",
        "priority-flow-control priority 5",
    ]
    assert bench.known(settings.PFC) == [(2, 5)]


def test_the_watchdog_comes_after_pfc_and_goes_before_it(bench: Any) -> None:
    """The switch refuses a watchdog on a port without PFC."""
    on = bench.set()
    assert on.index("priority-flow-control priority 3") < on.index(
        "priority-flow-control watchdog on detect-time 400"
    )
    off = bench.set(pfc_priorities=(), watchdog=Watchdog(on=False))
    assert off.index("priority-flow-control watchdog off") < off.index("no priority-flow-control priority 3")


def test_trap_17_buffers_are_never_initialised_by_us(bench: Any) -> None:
    bench.switch.change(top=[])
    lines = bench.lines_of(bench.goals(bench.wanted()))
    assert not [line for line in lines if "buffer" in line or "roce" in line]


@pytest.mark.parametrize(
    ("setting", "is_said"),
    [
        (settings.LOSSLESS_BUFFERS, Disruption.BUFFERS),
        (settings.CABLE_LENGTH, Disruption.BUFFERS),
        (terms.TC_GROUP, Disruption.BUFFERS),
        (settings.PFC, Disruption.QUEUE_RESET),
        (settings.MTU, Disruption.MTU_CHANGE),
        (settings.WATCHDOG_POLL, Disruption.SYSTEM_WIDE),
        (settings.ECN_KMIN, Disruption.NONE),
        (settings.WATCHDOG_DETECT, Disruption.NONE),
    ],
)
def test_trap_17_changing_buffers_under_traffic_is_said_to_disrupt(setting: str, is_said: Disruption) -> None:
    assert PLUGIN.disruption(setting, Known(0), 1) is is_said


@pytest.mark.parametrize(
    "name", ["Eth1", "Eth1/1.10", "PortChannel1", "Vlan10", "eth1/1", "Eth1/1/1/1", "Eth 1/1"]
)
def test_what_is_no_port_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="no port of Enterprise SONiC"):
        PLUGIN.queries([Port(PortId("leaf1", name))])


def test_tables_of_all_ports_are_asked_by_the_naming_that_is_in_use() -> None:
    keys = {
        name: [q.key for q in PLUGIN.queries([Port(PortId("l", name))])] for name in ("Eth1/1", "Ethernet0")
    }
    assert "show buffer interface Eth all priority-group" in keys["Eth1/1"]
    assert "show buffer interface Ethernet all priority-group" in keys["Ethernet0"]


def test_a_release_that_shows_nothing_saved_is_not_planned_for_ever(bench: Any) -> None:
    bench.switch.change(shows_startup=False)
    found = bench.read()[settings.BOOT]
    assert (found.impossible, found.reason) == (True, parse._UNSEEN)  # noqa: SLF001  its own words
    assert bench.set()
    assert bench.switch.state()["startup"] == bench.running()


def test_a_saved_configuration_whose_map_was_edited_since_is_not_as_saved(bench: Any) -> None:
    bench.by_hand()
    assert bench.known(settings.BOOT) == [settings.SAVED]
    bench.switch.configure("qos map dscp-tc ROCE\ndscp 30 traffic-class 3")
    assert bench.known(settings.BOOT) == [settings.NOT_KEPT]


def test_older_spellings_of_the_watchdog_are_read() -> None:
    lines = (
        "priority-flow-control watchdog detect-time 650",
        "priority-flow-control watchdog restore-time 1000",
    )
    assert config.watchdog(lines) == {"detect-time": "650", "restore-time": "1000"}
    assert config.watchdog(("priority-flow-control watchdog action drop",)) == {}


def test_interfaces_with_a_blank_in_their_name_are_the_same() -> None:
    found = config.read("interface Eth 1/1\n mtu 9216\n!\ninterface Loopback 0\n ip address 192.0.2.1/32\n")
    assert found.interfaces == {"Eth1/1": ("mtu 9216",), "Loopback0": ("ip address 192.0.2.1/32",)}


def test_lines_of_other_blocks_are_not_taken_for_the_ports(bench: Any) -> None:
    text = (
        "interface Eth1/1\n mtu 9216\n!\nrouter bgp 65000\n mtu 1500\n!\nline vty\n queue 3 wred-policy X\n"
    )
    found = config.read(text)
    assert found.interface("Eth1/1") == ("mtu 9216",)
    assert found.top == ("router bgp 65000", "line vty")
    assert bench.id().port == "Eth1/1"


@pytest.mark.parametrize(
    ("weights", "percents"),
    [
        ([50, 0, 0, 50, 0, 0, 0, 0], (50, 0, 0, 50, 0, 0, 0, 0)),
        ([25, 0, 0, 25, 0, 0, 0, 0], (50, 0, 0, 50, 0, 0, 0, 0)),
        ([50, 0, 0, 50, 50, 0, 0, 0], (34, 0, 0, 33, 33, 0, 0, 0)),
        ([0] * 8, (0,) * 8),
    ],
)
def test_weights_become_shares_that_sum_to_100(weights: list[int], percents: tuple[int, ...]) -> None:
    assert objects.shares(weights) == percents


def test_a_scheduler_that_shapes_is_not_taken_for_a_plain_one(bench: Any) -> None:
    assert objects.content(objects.SCHEDULER, ("queue 3", "type dwrr", "weight 50", "pir 100")) == objects.ODD
    assert objects.content(objects.SCHEDULER, ("port", "pir 100")) == objects.ODD
    with pytest.raises(Unread, match="a shaper"):
        objects.schedules(objects.ODD)
    assert bench.id().port == "Eth1/1"


def test_packet_by_packet_is_not_ets() -> None:
    held = objects.content(objects.SCHEDULER, ("queue 0", "type wrr", "weight 10", "queue 6", "type strict"))
    assert held == "w10,-,-,-,-,-,s,-"
    assert objects.schedules(held)[0] == ("vendor", *("ets",) * 5, "strict", "ets")
    assert objects.scheduler_of(*objects.schedules(held)) == "w100,-,-,-,-,-,s,-"


def test_one_odd_object_costs_what_uses_it_and_nothing_else(bench: Any) -> None:
    bench.by_hand()
    answers = bench.answers()
    said = answers[parse.RUNNING].stdout.replace(" traffic-class 3 queue 3", " traffic-class 3 queue x")
    readings, _ = PLUGIN.parse(bench.ports, {**answers, parse.RUNNING: Answer(0, said, "")})
    found = readings[bench.id()].settings
    assert "unparsable" in found[settings.PRIORITY_TC].reason
    missing = {name for name, entry in found.items() if not isinstance(entry, Known)}
    assert missing == {settings.PRIORITY_TC}
    assert any(row.startswith("tc-queue ROCE ?") for row in found[terms.OBJECTS].value)


@pytest.mark.parametrize(
    ("row", "state", "speed", "mtu"),
    [
        ("Eth1/1  -  up  oper-up  off  400000  9216  Ethernet0", "up", 400_000, 9216),
        ("Eth1/1  marked up in  description  down  admin-down  on  100000  1500  N/A", "down", 100_000, 1500),
        ("Eth1/1  -  up  up  40000  9100", "up", 40_000, 9100),
        ("Eth1/1  -  down  up  40GB  9100", "down", 40_000, 9100),
    ],
)
def test_status_rows_of_several_releases_are_read(row: str, state: str, speed: int, mtu: int) -> None:
    answers = {shown.STATUS: Answer(0, f"Name Description Oper\n-----\n{row}\n", "")}
    found = shown.read_facts("Eth1/1", answers)
    assert found[facts.LINK_STATE] == Known(state)
    assert found[facts.SPEED] == Known(speed)
    assert shown.mtu("Eth1/1", answers) == mtu


def test_a_counter_that_is_not_counted_is_missing_and_not_zero(bench: Any) -> None:
    line = shown.pauses_line("Eth all")
    said = "Flow Control frames received\n Eth1/1 0 1 2 1,234 N/A 5 6 7\n"
    found = shown.read_counters("Eth1/1", {line: Answer(0, said, "")})
    assert found["pfc3.rx_frames"] == Known(1234)
    assert not isinstance(found["pfc4.rx_frames"], Known)
    assert "pfc0.tx_frames" not in found
    assert bench.id().port == "Eth1/1"


def test_a_neighbour_that_names_its_port_by_a_mac_address_is_known_by_the_description(bench: Any) -> None:
    assert bench.readings()[bench.id()].facts[facts.PARTNER] == Known("node1/eth1")
    assert "no LLDP neighbour" in bench.readings()[bench.id(2)].facts[facts.PARTNER].reason


def test_a_lossless_profile_without_a_pause_threshold_is_not_taken_for_headroom() -> None:
    answers = {
        shown.PROFILES: Answer(0, "Profile pg_lossless_x_profile:\n size : 0\n", ""),
        shown.groups_line("Eth all"): Answer(
            0, "Interface Group Profile\nEth1/1 3-4 pg_lossless_x_profile\n", ""
        ),
    }
    with pytest.raises(Unread, match="shows no pause threshold"):
        shown.headrooms("Eth1/1", answers)


def test_infiniband_is_nothing_for_this_switch(intent_of: Any) -> None:
    meant = replace(intent_of(PortId("leaf1", "Eth1/1")), link_layer=LinkLayer.INFINIBAND)
    assert PLUGIN.wanted(meant) == {}


def test_a_port_that_trusts_the_tag_has_a_map_for_it(bench: Any) -> None:
    wanted = {bench.id(): {settings.TRUST: "pcp"}}
    bench.by_hand()
    assert bench.push(bench.goals(wanted)) == (0, "")
    assert bench.known(settings.TRUST) == ["pcp"]
    assert "dot1p 0 traffic-class 0" in bench.said
