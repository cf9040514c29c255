"""The lab itself: what its guests are, what faults do, and that nothing is left behind."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import RunningLab

pytestmark = pytest.mark.lab


def test_guests_are_told_apart(lab_fabric: RunningLab) -> None:
    ids = [
        lab_fabric.ssh(name, "hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id").split()
        for name in ("node1", "node2", "leaf1")
    ]
    assert [one[0] for one in ids] == ["node1", "node2", "leaf1"]
    assert len({one[1] for one in ids}) == 3
    assert len({one[2] for one in ids}) == 3


def test_dcb_keeps_what_it_is_told_and_refuses_what_a_nic_refuses(lab_fabric: RunningLab) -> None:
    printed = lab_fabric.ssh(
        "node2",
        "set -e; dcb pfc set dev eth1 prio-pfc all:off 3:on; dcb -j pfc show dev eth1; "
        "dcb pfc set dev eth1 prio-pfc all:off",
    )
    assert json.loads(printed)["prio_pfc"] == [False, False, False, True, False, False, False, False]
    apps = (
        "dcb app add dev eth1 dscp-prio 26:3; dcb app replace dev eth1 dscp-prio 26:4; "
        "dcb -j app show dev eth1"
    )
    shown = lab_fabric.ssh("node2", f"set -e; {apps}; dcb app flush dev eth1 dscp-prio")
    assert [entry[:2] for entry in json.loads(shown)["dscp_prio"]] == [[26, 4]]  # dcb adds a blank
    refused = (
        "dcb app add dev eth1 ethtype-prio 0x8915:3 2>&1 || "
        "dcb dcbx set dev eth1 lld-managed 2>&1 || echo refused"
    )
    assert "refused" in lab_fabric.ssh("node2", refused)


def test_loss_is_as_large_as_asked_and_counted_by_the_kernel(lab_fabric: RunningLab) -> None:
    lab_fabric.fault("loss", "node1", amount=10, direction="in")
    printed = lab_fabric.ssh(
        "node1", "ping -q -c 500 -i 0.005 10.10.0.2; tc -s qdisc show dev in-eth1", timeout_s=120
    )
    received = int(re.search(r"(\d+) received", printed)[1])  # type: ignore[index]
    dropped = int(re.search(r"dropped (\d+)", printed)[1])  # type: ignore[index]
    assert 20 <= 500 - received <= 90
    assert 0 <= dropped - (500 - received) <= 5  # other frames (ARP, LLDP) cross the port as well
    lab_fabric.clear()
    assert " 0% packet loss" in lab_fabric.ssh("node1", "ping -q -c 100 -i 0.005 10.10.0.2")


def test_a_pulled_cable_takes_the_carrier_from_both_ends(lab_fabric: RunningLab) -> None:
    lab_fabric.fault("link-down", "node2")
    assert lab_fabric.ssh("node2", "sleep 1; cat /sys/class/net/eth1/carrier").strip() == "0"
    assert lab_fabric.ssh("leaf1", "cat /sys/class/net/eth2/carrier").strip() == "0"
    lab_fabric.clear()
    assert lab_fabric.ssh("node2", "sleep 1; cat /sys/class/net/eth1/carrier").strip() == "1"


def test_settings_are_put_back_as_they_were(lab_fabric: RunningLab) -> None:
    lab_fabric.ssh("leaf1", "dcb pfc set dev eth3 prio-pfc all:off 3:on")
    before = lab_fabric.ssh("leaf1", "cat /sys/class/net/eth3/mtu; dcb pfc show dev eth3")
    lab_fabric.fault("mtu", "leaf1", "eth3", amount=1400)
    lab_fabric.fault("pfc-off", "leaf1", "eth3")
    assert lab_fabric.ssh("leaf1", "cat /sys/class/net/eth3/mtu; dcb pfc show dev eth3") != before
    lab_fabric.clear()
    assert lab_fabric.ssh("leaf1", "cat /sys/class/net/eth3/mtu; dcb pfc show dev eth3") == before
    lab_fabric.ssh("leaf1", "dcb pfc set dev eth3 prio-pfc all:off")


def test_a_frozen_guest_is_seen_and_thaws_with_the_right_time(lab_fabric: RunningLab) -> None:
    lab_fabric.fault("freeze", "node3")
    assert {g.name: g.condition for g in lab_fabric.status().guests}["node3"] == "frozen"
    lab_fabric.clear()
    assert {g.condition for g in lab_fabric.status().guests} == {"running"}
