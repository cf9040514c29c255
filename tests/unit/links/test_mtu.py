"""MTU at both ends of a link."""

from __future__ import annotations

from typing import Any

from fabricctl.model import facts, settings
from fabricctl.model.reading import Missing
from fabricctl.model.verdict import Outcome

LINK = "node1/eth1 - leaf1/swp1"


def test_as_it_should_be_every_link_passes(site: Any) -> None:
    found = site.judge("mtu")
    assert [(f.outcome, f.what) for f in found] == [
        (Outcome.PASS, f"node{n}/eth{rail} 9000, leaf{rail}/swp{n} 9216 bytes")
        for n in (1, 2, 3, 4)
        for rail in (1, 2)
    ]


def test_a_switch_port_with_a_smaller_mtu_is_a_hole(site: Any) -> None:
    site.setting("leaf1/swp1", settings.MTU, 1500)
    (found,) = [f for f in site.judge("mtu") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject, found.culprit) == (Outcome.FAIL, LINK, "leaf1/swp1")
    assert found.what == (
        "the MTU of leaf1/swp1 is 1500 bytes, smaller than the policy's 9216: larger packets vanish there"
    )
    assert (found.measured, found.limit) == ("1500 bytes", "9216 bytes")


def test_a_switch_port_with_a_larger_mtu_passes(site: Any) -> None:
    site.setting("leaf1/swp1", settings.MTU, 9412)
    assert site.bad("mtu") == []


def test_a_node_must_have_exactly_the_policys(site: Any) -> None:
    site.setting("node1/eth1", settings.MTU, 9412)
    site.setting("node2/eth1", settings.MTU, 1500)
    assert [what for _, _, what in site.bad("mtu")] == [
        (
            "the MTU of node1/eth1 is 9412 bytes, larger than the policy's 9000: "
            "what it sends may be too large for others"
        ),
        "the MTU of node2/eth1 is 1500 bytes, smaller than the policy's 9000: larger packets vanish there",
    ]


def test_s31_an_active_rdma_mtu_below_the_policys_fails(site: Any) -> None:
    site.fact("node1/eth1", facts.RDMA_MTU, 1024)
    assert site.bad("mtu") == [
        (
            Outcome.FAIL,
            LINK,
            "the active RDMA MTU of rdma0 on node1/eth1 is 1024 bytes, the policy's 4096",
        )
    ]


def test_mtus_that_cannot_be_read_are_unknown(site: Any) -> None:
    site.setting("leaf1/swp1", settings.MTU, Missing("no such file"))
    site.fact("node1/eth1", facts.RDMA_MTU, Missing("ibv_devinfo: the program is not installed"))
    assert site.bad("mtu") == [
        (
            Outcome.UNKNOWN,
            LINK,
            (
                "the MTU of node1/eth1 is not known: active RDMA MTU: "
                "ibv_devinfo: the program is not installed"
            ),
        ),
        (Outcome.UNKNOWN, LINK, "the MTU of leaf1/swp1 is not known: no such file"),
    ]


def test_eos_counts_headers_and_is_held_against_what_that_means_there(make_site: Any) -> None:
    site = make_site("mlx5", "nxos")
    assert site.bad("mtu") == []


def test_a_port_of_which_neither_mtu_is_known_is_told_once(site: Any) -> None:
    gone = Missing("there is no network interface eth1")
    site.setting("node1/eth1", settings.MTU, gone)
    site.fact("node1/eth1", facts.RDMA_MTU, Missing("there is no verbs device rdma0"))
    assert [(outcome, what) for outcome, _, what in site.bad("mtu")] == [
        (Outcome.UNKNOWN, f"the MTU of node1/eth1 is not known: {gone.reason}")
    ]
