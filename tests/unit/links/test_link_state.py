"""Links up, their speed and FEC, and the state of verbs ports."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from fabricctl.model import facts
from fabricctl.model.reading import Missing
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder

LINK = "node1/eth1 - leaf1/swp1"


def test_as_it_should_be_every_link_passes(site: Any) -> None:
    found = site.judge("link_state")
    assert [(f.outcome, f.what) for f in found] == [(Outcome.PASS, "up at both ends, 100 Gb/s")] * 8
    assert found[0].subject == LINK


def test_a_pulled_cable_is_down_at_both_ends(site: Any) -> None:
    site.fact("node1/eth1", facts.LINK_STATE, "down")
    site.fact("leaf1/swp1", facts.LINK_STATE, "down")
    (found,) = [f for f in site.judge("link_state") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject) == (Outcome.FAIL, LINK)
    assert found.what == "the link is down: node1/eth1 says down, leaf1/swp1 says down"
    assert found.culprit == ""
    assert "cable between them" in found.next_step


def test_a_link_that_works_in_one_direction_names_the_deaf_end(site: Any) -> None:
    site.fact("node1/eth1", facts.LINK_STATE, "down")
    (found,) = [f for f in site.judge("link_state") if f.outcome is not Outcome.PASS]
    assert found.what == (
        "the link is down: node1/eth1 says down, leaf1/swp1 says up (it works in one direction at most)"
    )
    assert found.next_step.startswith("node1/eth1 hears nothing from leaf1/swp1")


@pytest.mark.parametrize("state", ["DOWN", "INIT", "ARMED"])
def test_s44_a_verbs_port_that_is_not_active_fails_though_the_link_is_up(site: Any, state: str) -> None:
    site.fact("node2/eth2", facts.RDMA_STATE, state)
    assert site.bad("link_state") == [
        (
            Outcome.FAIL,
            "node2/eth2 - leaf2/swp2",
            f"the link is up, but rdma1 of node2/eth2 is {state}, not ACTIVE",
        )
    ]


def test_s48_a_virtual_functions_port_that_is_down_fails(make_site: Any) -> None:
    site = make_site("mlx5")
    site.fact("node1/eth1", facts.FUNCTIONS, ("enp23s0f0np0",))
    site.fact("node1/eth1", facts.RDMA_STATE, "DOWN")
    assert [what for _, _, what in site.bad("link_state")] == [
        "the link is up, but rdma0 of node1/eth1 is DOWN, not ACTIVE"
    ]


def test_a_verbs_device_that_is_not_there_is_not_known(site: Any) -> None:
    site.fact("node1/eth1", facts.RDMA_STATE, Missing("there is no verbs device rdma0"))
    assert site.bad("link_state") == [
        (Outcome.UNKNOWN, LINK, "the state of rdma0 is not known: there is no verbs device rdma0")
    ]


def test_s46_a_link_at_half_its_speed_fails(site: Any) -> None:
    for port in ("node1/eth1", "leaf1/swp1"):
        site.fact(port, facts.SPEED, 50_000)
    (found,) = [f for f in site.judge("link_state") if f.outcome is not Outcome.PASS]
    assert found.outcome is Outcome.FAIL
    assert found.what == (
        "node1/eth1 runs at 50 Gb/s, leaf1/swp1 runs at 50 Gb/s, the inventory says 100 Gb/s"
    )
    assert (found.measured, found.limit) == ("50 Gb/s", "100 Gb/s")


def test_the_speed_of_one_end_is_that_of_the_link(site: Any) -> None:
    site.fact("node1/eth1", facts.SPEED, Missing("the driver does not know its speed"))
    assert site.bad("link_state") == []


def test_a_speed_that_nobody_knows_is_unknown_and_no_failure_in_simulation(site: Any) -> None:
    for port in ("node1/eth1", "leaf1/swp1"):
        site.fact(port, facts.SPEED, Missing("the driver does not know its speed"))
    ((outcome, _, what),) = site.bad("link_state")
    assert outcome is Outcome.UNKNOWN
    assert "its speed is not known" in what
    site.fabric = replace(site.fabric, simulated="lab")
    assert site.bad("link_state") == []


def test_s50_a_bonds_speed_may_be_that_of_all_its_members(site: Any) -> None:
    site.fact("node1/eth1", facts.FUNCTIONS, ("ens1", "ens2"))
    site.fact("node1/eth1", facts.SPEED, 200_000)
    assert site.bad("link_state") == []
    site.fact("node1/eth1", facts.FUNCTIONS, ("ens1",))
    assert [outcome for outcome, _, _ in site.bad("link_state")] == [Outcome.FAIL]


@pytest.mark.parametrize(
    ("one", "other", "fails"),
    [
        ("rs", "rs", False),
        ("none", "off", False),
        ("rs", "none", True),
        ("fc", "RS", True),
        ("rs", "auto", False),
    ],
)
def test_fec_must_be_the_same_where_both_ends_name_it(
    site: Any, one: str, other: str, *, fails: bool
) -> None:
    site.fact("node1/eth1", facts.FEC, one)
    site.fact("leaf1/swp1", facts.FEC, other)
    said = f"FEC is not the same at both ends: node1/eth1 uses {one}, leaf1/swp1 uses {other}"
    assert site.bad("link_state") == ([(Outcome.FAIL, LINK, said)] if fails else [])


def test_a_state_that_cannot_be_read_is_unknown(site: Any) -> None:
    site.fact("node1/eth1", facts.LINK_STATE, Missing("there is no network interface eth1"))
    assert site.bad("link_state") == [
        (
            Outcome.UNKNOWN,
            LINK,
            (
                "whether the link is up is not known: node1/eth1 says nothing "
                "(there is no network interface eth1), leaf1/swp1 says up"
            ),
        )
    ]


def test_an_unreachable_device_does_not_hide_the_other_end(site: Any) -> None:
    site.unreachable("leaf1")
    site.fact("node2/eth1", facts.LINK_STATE, "down")
    found = {f.subject: f for f in site.judge("link_state")}
    assert len(found) == 8
    assert found[LINK].what == (
        "up at node1/eth1, 100 Gb/s; leaf1/swp1 was not read: its device could not be asked"
    )
    assert found["node2/eth1 - leaf1/swp2"].outcome is Outcome.FAIL


def test_nothing_read_is_no_pass(site: Any) -> None:
    for name in list(site.seen):
        site.unreachable(name)
    assert [(f.outcome, f.subject) for f in site.judge("link_state")] == [(Outcome.UNKNOWN, "fabric")]


def test_a_cable_in_another_port_is_no_matter_of_its_fibre(site: Any) -> None:
    site.fact("leaf1/swp1", facts.LINK_STATE, "down")
    site.fact("node1/eth1", facts.PARTNER, "leaf1/swp9")
    (found,) = [f for f in site.judge("link_state") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject) == (Outcome.FAIL, LINK)
    assert found.what == "leaf1/swp1 is down; node1/eth1 is up and is on leaf1/swp9: see check cabling"
    assert found.next_step == "see check cabling: the cable of node1/eth1 is not where the inventory has it"


@pytest.mark.parametrize("partner", ["leaf1/swp1", "sw-rack7/swp1", "leaf1/fortyGigE0/0"])
def test_a_neighbour_that_may_be_the_right_one_does_not_excuse_the_fibre(site: Any, partner: str) -> None:
    site.fact("leaf1/swp1", facts.LINK_STATE, "down")
    site.fact("node1/eth1", facts.PARTNER, partner)
    (found,) = [f for f in site.judge("link_state") if f.outcome is not Outcome.PASS]
    assert found.next_step.startswith("leaf1/swp1 hears nothing from node1/eth1: clean the fibre")


# documented: kernel, sysfs-class-net (flags) and include/uapi/linux/if.h (IFF_UP is bit 0)
ON, OFF = "eth1 0x1003\n", "eth1 0x1002\n"


def test_the_kernel_is_asked_which_ports_are_switched_on(site: Any) -> None:
    (query,) = finder.link_check("link_state").queries(site.fabric.device("node1"))
    assert (query.argv[0], query.argv[-2:], query.counts) == ("sh", ("eth1", "eth2"), False)
    done = subprocess.run([*query.argv[:-2], "lo", "none7"], capture_output=True, text=True, check=False)
    assert re.fullmatch(r"lo 0x[0-9a-f]+\n", done.stdout)
    assert done.returncode == 0


def test_a_port_that_is_switched_off_is_no_matter_of_its_fibre(site: Any) -> None:
    site.fact("node2/eth1", facts.LINK_STATE, "down")
    (query,) = finder.link_check("link_state").queries(site.fabric.device("node2"))
    site.answer("node2", query.key, OFF)
    (found,) = [f for f in site.judge("link_state") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject, found.culprit) == (
        Outcome.FAIL,
        "node2/eth1 - leaf1/swp2",
        "node2/eth1",
    )
    assert found.what == "the link is down: node2/eth1 is switched off, leaf1/swp2 says up"
    assert found.next_step == "on node2: ip link set dev eth1 up"


def test_a_switchs_port_that_is_switched_off_is_named(site: Any) -> None:
    for port in ("node2/eth1", "leaf1/swp2"):
        site.fact(port, facts.LINK_STATE, "down")
    (query,) = finder.link_check("link_state").queries(site.fabric.device("leaf1"))
    site.answer("leaf1", query.key, "swp1 0x1003\nswp2 0x1002\nodd\nswp3 x\n")
    site.answer("node2", query.key, ON)
    (found,) = [f for f in site.judge("link_state") if f.outcome is not Outcome.PASS]
    assert found.what == "the link is down: node2/eth1 says down, leaf1/swp2 is switched off"
    assert found.next_step == "on leaf1: switch swp2 on (ip link set dev swp2 up, or as its system does it)"
    assert found.culprit == "leaf1/swp2"


def test_both_ends_switched_off_blame_neither_alone(site: Any) -> None:
    for port in ("node2/eth1", "leaf1/swp2"):
        site.fact(port, facts.LINK_STATE, "down")
    site.answer("leaf1", "flags of ports", "swp2 0x1002\n")
    site.answer("node2", "flags of ports", OFF)
    (found,) = [f for f in site.judge("link_state") if f.outcome is not Outcome.PASS]
    assert found.what == "the link is down: node2/eth1 is switched off, leaf1/swp2 is switched off"
    assert found.culprit == ""
    assert found.next_step.startswith("on node2: ip link set dev eth1 up; on leaf1: switch swp2 on")


def test_a_port_that_is_switched_on_and_dark_is_one_of_its_fibre(site: Any) -> None:
    site.fact("node2/eth1", facts.LINK_STATE, "down")
    site.answer("node2", "flags of ports", ON)
    (found,) = [f for f in site.judge("link_state") if f.outcome is not Outcome.PASS]
    assert found.next_step == (
        "node2/eth1 hears nothing from leaf1/swp2: clean the fibre, reseat or change module and cable"
    )


def test_where_the_kernel_does_not_say_both_causes_are_named(site: Any) -> None:
    site.fact("node2/eth1", facts.LINK_STATE, "down")
    (found,) = [f for f in site.judge("link_state") if f.outcome is not Outcome.PASS]
    assert found.next_step == (
        "node2/eth1 hears nothing from leaf1/swp2: clean the fibre, reseat or change module and cable; "
        "or it is switched off there: ip link show eth1"
    )
