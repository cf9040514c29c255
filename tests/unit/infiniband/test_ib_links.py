from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Outcome

CHECK = "ib_links"
PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN
CABLES = 12


def test_every_cable_of_a_good_fabric_passes_with_its_lanes_and_speed(pod: Any) -> None:
    found = pod.judge(CHECK, "good")
    assert len(found) == CABLES
    assert pod.odd(found) == {}
    one = found["node3/ib0 - leaf1/3"]
    assert one.what == "Active, 4X HDR (200 Gb/s) at both ends, as meant (4X, 200 Gb/s)"
    assert (one.measured, one.limit) == ("4X HDR (200 Gb/s)", "4X, 200 Gb/s")


def test_a_cable_that_is_out_and_an_uplink_that_is_down(pod: Any) -> None:
    found = pod.judge(CHECK, "link_down")
    assert pod.odd(found) == {"node5/ib0 - leaf2/1": FAIL, "leaf1/5 - spine1/1": FAIL}
    one = found["node5/ib0 - leaf2/1"]
    assert one.what == "leaf2/1 is Down (Polling): it finds nobody at the other end"
    assert one.measured == "Down (Polling)"


def test_a_link_that_waits_for_a_subnet_manager(pod: Any) -> None:
    found = pod.judge(CHECK, "manager_dead")
    assert pod.odd(found) == {"node5/ib0 - leaf2/1": FAIL}
    one = found["node5/ib0 - leaf2/1"]
    assert one.what == "node5/ib0 is Initialize (LinkUp): no subnet manager has brought it up"
    assert "opensm" in one.next_step


def test_a_link_of_one_lane(pod: Any) -> None:
    found = pod.judge(CHECK, "one_lane")
    assert pod.odd(found) == {"node1/ib0 - leaf1/1": FAIL}
    one = found["node1/ib0 - leaf1/1"]
    assert one.what == "1X HDR (50 Gb/s) at both ends: 1 of 4 lanes"
    assert "ibportstate" in one.next_step


def test_a_link_slower_than_the_inventory_says(pod: Any) -> None:
    found = pod.judge(CHECK, "slow_uplink")
    assert pod.odd(found) == {"leaf1/5 - spine1/1": FAIL}
    assert found["leaf1/5 - spine1/1"].what == "4X EDR (100 Gb/s) at both ends: the inventory says 200 Gb/s"


def test_without_a_speed_in_the_inventory_any_passes_and_it_is_said(pod: Any) -> None:
    pod.fabric = dataclasses.replace(
        pod.fabric,
        devices=tuple(
            dataclasses.replace(d, ports=tuple(dataclasses.replace(p, speed_gbps=0) for p in d.ports))
            for d in pod.fabric.devices
        ),
    )
    found = pod.judge(CHECK, "slow_uplink")
    assert pod.odd(found) == {}
    assert found["leaf1/5 - spine1/1"].what == (
        "Active, 4X EDR (100 Gb/s) at both ends, 4X is meant, and no speed in the inventory"
    )


@pytest.mark.parametrize(
    ("width", "lane", "outcome"),
    [
        (2, 106.25, PASS),  # NDR200: two lanes by design
        (2, 53.125, FAIL),  # HDR100 where 200 is meant
        (4, 106.25, PASS),  # faster than meant: told
        (4, 53.125, PASS),
        (0, 0.0, UNKNOWN),
    ],
)
def test_lanes_and_speeds_of_newer_generations(pod: Any, width: int, lane: float, outcome: Outcome) -> None:
    survey = pod.with_ports(pod.survey("good"), width=width, lane_gbps=lane)
    found = pod.of(CHECK, survey)
    assert {one.outcome for one in found.values()} == {outcome}
    faster = (width, lane) == (4, 106.25)
    if outcome is PASS:
        assert all(bool(one.next_step) is faster for one in found.values())


def test_one_end_lower_than_the_other_names_the_lower_one(pod: Any) -> None:
    survey = pod.with_port(pod.survey("good"), "leaf1/3", width=1)
    found = pod.of(CHECK, survey)
    assert found["node3/ib0 - leaf1/3"].what == "1X HDR (50 Gb/s) at leaf1/3: 1 of 4 lanes"


def test_the_width_is_the_policys(pod: Any) -> None:
    pod.rules = LinkPolicy(ib_width=8)
    assert set(pod.odd(pod.judge(CHECK, "good")).values()) == {FAIL}


@pytest.mark.parametrize("physical", ["Disabled", "PortConfigurationTraining"])
def test_why_a_port_is_down(pod: Any, physical: str) -> None:
    survey = pod.with_port(pod.survey("good"), "leaf1/3", state="Down", physical=physical)
    one = pod.of(CHECK, survey)["node3/ib0 - leaf1/3"]
    assert one.outcome is FAIL
    assert physical in one.what
    assert ("enable" in one.next_step) is (physical == "Disabled")


def test_a_node_that_answers_no_mad_is_unknown(pod: Any) -> None:
    found = pod.judge(CHECK, "silent_node")
    assert pod.odd(found) == {"node6/ib0 - leaf2/2": UNKNOWN}
    assert "did not answer" in found["node6/ib0 - leaf2/2"].what


def test_a_port_of_which_the_state_was_not_read_is_unknown(pod: Any) -> None:
    found = pod.judge(CHECK, "port_not_read")
    assert pod.odd(found) == {"node6/ib0 - leaf2/2": UNKNOWN}
    assert found["node6/ib0 - leaf2/2"].what == "node6/ib0 is NoChange"


def test_a_limited_run_is_about_its_own_devices(pod: Any) -> None:
    found = pod.judge(CHECK, "link_down", only=("node1", "node5"))
    assert set(found) == {"node1/ib0 - leaf1/1", "node5/ib0 - leaf2/1"}


def test_a_plane_that_was_not_seen_is_unknown_once(pod: Any) -> None:
    survey = pod.survey("good")
    subnet = dataclasses.replace(survey.subnets[0], missing={"links": "sminfo: no answer"}, ports={})
    found = pod.of(CHECK, dataclasses.replace(survey, subnets=(subnet,)))
    assert pod.odd(found) == {"InfiniBand": UNKNOWN}


def test_a_fabric_without_infiniband_is_no_matter(pod: Any) -> None:
    survey = dataclasses.replace(pod.survey("good"), subnets=())
    assert pod.of(CHECK, survey) == {}


def test_a_wider_link_than_the_policy_means_is_told(pod: Any) -> None:
    pod.rules = LinkPolicy(ib_width=2)
    one = pod.judge(CHECK, "good")["node3/ib0 - leaf1/3"]
    assert one.outcome is PASS
    assert one.what.endswith("wider than the 2X that the policy means")


def test_an_end_that_leads_to_somebody_without_a_name_says_so(pod: Any) -> None:
    stock = {"id": None, "device": "", "node": "MT4129 ConnectX7"}
    one = pod.of(CHECK, pod.with_port(pod.survey("good"), "node3/ib0", **stock))["node3/ib0 - leaf1/3"]
    assert one.outcome is UNKNOWN
    assert one.what.endswith("leaf1/3 is Active and leads to 'MT4129 ConnectX7'")
    assert "rdma-ndd" in one.next_step


@pytest.mark.parametrize("label", ["node3/ib0", "leaf1/3"])
def test_an_active_port_that_is_not_linkup_is_unknown(pod: Any, label: str) -> None:
    survey = pod.with_port(pod.survey("good"), label, physical="LinkErrorRecovery")
    found = pod.of(CHECK, survey)
    assert pod.odd(found) == {"node3/ib0 - leaf1/3": UNKNOWN}
    one = found["node3/ib0 - leaf1/3"]
    assert one.what == f"{label} is Active, but LinkErrorRecovery: it loses and mends the link over and over"
    assert one.measured == "Active (LinkErrorRecovery)"


def test_an_active_port_without_a_known_physical_state_is_unknown(pod: Any) -> None:
    survey = pod.with_port(pod.survey("good"), "leaf1/3", physical="?")
    assert pod.of(CHECK, survey)["node3/ib0 - leaf1/3"].what == "leaf1/3 is Active, but ?"


def test_an_end_that_is_down_fails_whatever_the_other_says(pod: Any) -> None:
    survey = pod.with_port(pod.survey("good"), "node3/ib0", physical="LinkErrorRecovery")
    survey = pod.with_port(survey, "leaf1/3", state="Down", physical="Polling")
    assert pod.odd(pod.of(CHECK, survey)) == {"node3/ib0 - leaf1/3": FAIL}


@pytest.mark.parametrize(
    ("missing", "program"),
    [
        ("saquery: the program is not installed", "saquery"),
        ("ibnetdiscover: no answer in time", "ibnetdiscover"),
        ("it was not asked", "iblinkinfo"),
    ],
)
def test_the_advice_names_the_program_that_had_no_answer(pod: Any, missing: str, program: str) -> None:
    survey = pod.survey("good")
    subnet = dataclasses.replace(survey.subnets[0], missing={"links": missing}, ports={})
    (one,) = pod.of(CHECK, dataclasses.replace(survey, subnets=(subnet,))).values()
    assert one.next_step.startswith(f"run {program} on node1 ")
