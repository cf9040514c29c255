"""Nodes on which all is well give no alarm, and what cannot be asked is not passed."""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder

CHECKS = (
    "access_control",
    "clock",
    "device_nodes",
    "gpu_direct",
    "memlock",
    "numa",
    "open_files",
    "pcie",
    "rails",
    "uniform",
)
every_check = pytest.mark.parametrize("check", CHECKS)


@every_check
def test_a_guest_of_the_lab_passes(hosts: Any, check: str) -> None:
    for number in range(4):
        hosts.guest(f"node{number + 1}")
    assert hosts.bad(check) == []
    assert hosts.judge(check)


@every_check
def test_a_server_passes(hosts: Any, check: str) -> None:
    for number in range(4):
        hosts.server(f"node{number + 1}", rails=8)
    hosts.policy(rails_in_order=True, acs="off", max_read_request_bytes=4096, relaxed_ordering="on")
    assert hosts.bad(check) == []
    assert hosts.judge(check)


@every_check
def test_a_guest_with_virtual_functions_passes(hosts: Any, check: str) -> None:
    """A virtual function's own link status is all zeros: PCI Express Base Specification, SR-IOV."""
    guest = hosts.node()
    path = guest.pci(
        "pci0000:00/0000:00:05.0", "15B3:101E", now=("Unknown", "0"), most=("32.0 GT/s PCIe", "16")
    )
    guest.nic("eth1", path, "mlx5_0", rail=0)
    assert hosts.bad(check) == []


@every_check
def test_a_node_that_did_not_answer_is_not_passed(hosts: Any, check: str) -> None:
    hosts.server("node1").error = "node1: no route to host"
    hosts.server("node2").error = "node2: no route to host"
    what = "none of 2 nodes answered: there is nothing to judge"
    assert hosts.bad(check) == [(Outcome.UNKNOWN, "fabric", what)]


@every_check
def test_one_node_that_did_not_answer_does_not_void_the_rest(hosts: Any, check: str) -> None:
    hosts.server("node1").error = "node1: no route to host"
    hosts.server("node2")
    assert hosts.bad(check) == []
    assert {f.subject.partition("/")[0] for f in hosts.judge(check)} & {"node2", "leaf1"}


@every_check
def test_no_node_asked_is_nothing_to_say(hosts: Any, check: str) -> None:
    hosts.server("node1")
    survey = hosts.survey(check)
    survey.devices.clear()
    assert finder.link_check(check).judge(survey) == ()


@pytest.mark.parametrize("check", [name for name in CHECKS if name != "clock"])
def test_what_was_not_said_is_unknown(hosts: Any, check: str) -> None:
    hosts.server("node1")
    survey = hosts.survey(check)
    survey.devices["node1"].answers.clear()
    found = finder.link_check(check).judge(survey)
    assert {f.outcome for f in found} == {Outcome.UNKNOWN}


@every_check
def test_what_is_no_answer_is_unknown_or_passed_over(hosts: Any, check: str) -> None:
    """Rubbish in place of every answer crashes nothing and passes nothing but the clock, which was read."""
    node = hosts.server("node1")
    for key in ("pci", "irq", "launchers", "uverbs", "gpu_direct", "timekeepers", "ibv_devinfo -l"):
        node.says(key, "\x00rubbish : / x\nport\nconfig\nuverbs\nnode a b c d e\n*\n", rc=1)
    outcomes = {f.outcome for f in hosts.judge(check)}
    assert outcomes == ({Outcome.PASS} if check == "clock" else {Outcome.UNKNOWN})
