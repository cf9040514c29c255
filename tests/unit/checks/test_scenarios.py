"""Field reports, as far as readings can show them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabricctl.model import facts, settings
from fabricctl.model.reading import Known, Missing
from fabricctl.model.verdict import Outcome

LEAF, NODE, LINK = "leaf1/Ethernet0", "node1/eth1", "leaf1/Ethernet0 - node1/eth1"


def test_s19_a_reload_that_makes_priorities_lossless_that_nobody_named(site: Any) -> None:
    """The stock configuration has PFC on 3 and 4, and DSCPs 3 and 4 lead there."""
    stock = [1] * 64
    for dscp, priority in {0: 1, 3: 3, 4: 4, 46: 5, 48: 6}.items():
        stock[dscp] = priority
    site.set(LEAF, settings.PFC, (3, 4))
    site.set(LEAF, settings.LOSSLESS_BUFFERS, (3, 4))
    site.set(LEAF, settings.DSCP_PRIORITY, tuple(stock))

    assert [what for subject, what in site.fails("chain") if subject == LEAF] == [
        "DSCP 26 of the lossless class leads to priority 1, not 3",
        "DSCP 3 also leads to priority 3, which is RDMA's alone",
        "PFC is on for priority 4, which the policy does not name",
        "priority 4 is kept in a lossless buffer, and the policy does not name it",
    ]
    says = [what for _, what in site.fails("agreement")]
    assert f"PFC priorities are 3,4 on {LEAF} and 3 on {NODE}: {LEAF} is wrong, the policy says 3" in says


def test_s20_a_watchdog_that_stays_stormed_is_not_passed_over(site: Any) -> None:
    """The counters may be wrong as well, so it is not called a failure."""
    site.counter(LEAF, "watchdog.queue3.storms_detected", 5)
    site.counter(LEAF, "watchdog.queue3.storms_restored", 4)
    assert site.bad("watchdog") == [
        (
            Outcome.UNKNOWN,
            LEAF,
            (
                "queue 3: 5 pause storms began and 4 ended: its packets are dropped now,"
                " or the switch counts wrongly"
            ),
        )
    ]
    site.counter(LEAF, "watchdog.queue3.storms_restored", 5)
    assert site.fails("watchdog") == []


@pytest.mark.parametrize("restored", [Missing("no such counter"), "many"])
def test_s20_counters_that_are_not_there_prove_no_storm(site: Any, restored: Any) -> None:
    site.counter(LEAF, "watchdog.queue3.storms_detected", 5)
    site.counter(LEAF, "watchdog.queue3.storms_restored", restored)
    assert site.fails("watchdog") == []


def test_s21_headroom_is_used_and_no_pause_is_ever_sent(site: Any) -> None:
    site.counter(LEAF, "group3.headroom_watermark_bytes", 20_480)
    site.counter(LEAF, "pfc3.tx_frames", 0)
    ((outcome, subject, what),) = site.bad("headroom")
    assert (outcome, subject) == (Outcome.UNKNOWN, LEAF)
    assert what.startswith("20480 bytes of the headroom of priority 3 were used, and no pause was ever sent")
    site.counter(LEAF, "pfc3.tx_frames", 7)
    assert site.fails("headroom") == []


@pytest.mark.parametrize("frames", [Missing("not counted"), 3])
def test_s21_a_counter_that_is_missing_is_not_zero(site: Any, frames: Any) -> None:
    site.counter(LEAF, "group3.headroom_watermark_bytes", 20_480)
    site.counter(LEAF, "pfc3.tx_frames", frames)
    assert site.fails("headroom") == []


def test_s23_rdma_in_the_wrong_class(site: Any) -> None:
    site.set("node3/eth1", settings.ROCE_TOS, 0)
    assert site.fails("chain") == [("node3/eth1", "RoCE is sent with DSCP 0, the lossless class has 26")]


def test_s24_pfc_is_off_on_both_nics_and_auto_agrees_on_off_at_the_leaf(site: Any) -> None:
    """Both ends agree, so nothing looks wrong from either: only the policy tells."""
    for port in ("node3/eth1", "pod1/Ethernet1/1"):
        site.set(port, settings.PFC, ())
    site.set("pod1/Ethernet1/1", "nxos.pfc_mode", "auto")
    ((subject, what),) = site.fails("agreement")
    assert subject == "node3/eth1 - pod1/Ethernet1/1"
    assert what == "both ends agree, but not with the policy (in parentheses): PFC priorities none (3)"


@pytest.mark.parametrize(
    ("link", "node", "switch"),
    [
        (LINK, NODE, LEAF),
        ("leaf2/Ethernet1/1 - node2/eth1", "node2/eth1", "leaf2/Ethernet1/1"),
        ("node3/eth1 - pod1/Ethernet1/1", "node3/eth1", "pod1/Ethernet1/1"),
    ],
)
@pytest.mark.parametrize("side", ["node", "switch"])
def test_s25_pfc_on_one_side_only(site: Any, link: str, node: str, switch: str, side: str) -> None:
    wrong = node if side == "node" else switch
    site.set(wrong, settings.PFC, ())
    ((subject, what),) = site.fails("agreement")
    assert subject == link
    assert what.startswith("PFC priorities are ")
    assert f"none on {wrong}" in what
    assert what.endswith(f": {wrong} is wrong, the policy says 3")


def test_s28_switches_mark_and_a_nic_does_not_slow_down(site: Any) -> None:
    site.set("node1/eth1", "mlx5.dcqcn_priority_3", Known(value=False))
    site.set("node2/eth1", settings.DCQCN, Known(value=False))
    assert site.fails("chain") == [
        (
            "node1/eth1",
            (
                "switches mark, but the NIC does not slow down for it (mlx5.dcqcn_priority_3 is off): "
                "pauses spread"
            ),
        ),
        ("node2/eth1", "switches mark, but the NIC does not slow down for it (dcqcn is off): pauses spread"),
    ]


def test_s28_a_nic_that_was_not_asked_is_unknown(site: Any) -> None:
    site.set("node2/eth1", settings.DCQCN, Missing("niccli: no answer in time"))
    assert site.bad("chain") == [(Outcome.UNKNOWN, "node2/eth1", "dcqcn: niccli: no answer in time")]


def test_s28_also_where_the_policy_leaves_dcqcn_to_the_nics(site: Any) -> None:
    site.policy = replace(site.policy, dcqcn=None)
    site.as_intended()
    for node, setting in (("node1", "mlx5.dcqcn_priority_3"), ("node3", "mlx5.dcqcn_priority_3")):
        site.set(f"{node}/eth1", setting, Known(value=True))
    site.set("node2/eth1", settings.DCQCN, Known(value=False))
    assert [subject for subject, _ in site.fails("chain")] == ["node2/eth1"]


def test_s32_a_small_rdma_mtu_works_but_is_wrong(site: Any) -> None:
    site.fact(NODE, facts.RDMA_MTU, 1024)
    assert site.fails("agreement") == [
        (
            LINK,
            (
                f"the RDMA MTU is 1024 on {NODE}: it works, but slower than it could, and queue pairs of"
                f" 4096 fail: {NODE} is wrong, the policy says 4096"
            ),
        )
    ]
    site.fact(NODE, facts.RDMA_MTU, Missing("the port is down"))
    assert site.bad("agreement") == [(Outcome.UNKNOWN, NODE, "rdma_mtu_bytes: the port is down")]


def test_s32_small_messages_pass_and_large_ones_are_lost_at_a_hop(site: Any) -> None:
    """Between two switches, where no node is an end of the link."""
    site.set("leaf1/Ethernet4", settings.MTU, 1500)
    site.set("spine1/swp1", settings.MTU, 1500)
    says = [what for subject, what in site.fails("agreement") if subject == "leaf1/Ethernet4 - spine1/swp1"]
    lost = (
        "passes frames of up to 1522 bytes, nodes send up to 9022: small messages pass, large ones are lost"
    )
    assert says[1].startswith(f"leaf1/Ethernet4 {lost} here: leaf1/Ethernet4 is wrong, the policy says 9216")
    assert says[2].startswith(f"spine1/swp1 {lost} here: spine1/swp1 is wrong, the policy says 9216")


def test_s32_a_hop_is_held_against_what_nodes_really_send(site: Any) -> None:
    for node in ("node1", "node2", "node3"):
        site.set(f"{node}/eth1", settings.MTU, 1500)
    site.set("leaf1/Ethernet4", settings.MTU, 4200)
    ((_, what),) = [each for each in site.fails("agreement") if "Ethernet4" in each[0]]
    assert what.startswith(
        "the MTU is 4200 on leaf1/Ethernet4 and 9216 on spine1/swp1: leaf1/Ethernet4 is wrong"
    )
