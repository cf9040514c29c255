"""Links that went down and came back, and for how long they have been stable."""

from __future__ import annotations

from typing import Any

from fabricctl.model import facts
from fabricctl.model.reading import Missing
from fabricctl.model.verdict import Outcome

NOW = 1_800_000_000.0
LINK = "node1/eth1 - leaf1/swp1"
LOG = "kernel log of links"


def downs(site: Any, count: int) -> None:
    site.fact("node1/eth1", facts.LINK_DOWNS, count)


def test_as_it_should_be_every_link_passes(site: Any) -> None:
    found = site.judge("flaps")
    assert [(f.outcome, f.interval_s) for f in found] == [(Outcome.PASS, 10.0)] * 8
    assert found[0].what == (
        "no loss of carrier in 10.0 s; since boot it was lost once at node1/eth1, once at leaf1/swp1"
    )


def test_a_count_that_rises_while_it_is_watched_fails(site: Any) -> None:
    site.fact("node1/eth1", facts.LINK_DOWNS, 4, when="last")
    assert site.bad("flaps") == [(Outcome.FAIL, LINK, "node1/eth1 lost its carrier 3 times in 10.0 s")]


def test_s44_a_verbs_port_that_changes_its_state_fails(site: Any) -> None:
    site.fact("node1/eth1", facts.RDMA_STATE, "DOWN", when="first")
    assert site.bad("flaps") == [
        (Outcome.FAIL, LINK, "rdma0 of node1/eth1 went from DOWN to ACTIVE in 10.0 s")
    ]


def test_a_nics_own_counter_sees_what_the_kernel_did_not(make_site: Any) -> None:
    site = make_site("mlx5")
    site.counter("node1/eth1", "link_down_events_phy", 7, 8)
    assert site.bad("flaps") == [
        (
            Outcome.FAIL,
            LINK,
            "the link of node1/eth1 went down once, by its own count (link_down_events_phy) in 10.0 s",
        )
    ]


def test_s42_a_link_that_recovered_is_not_stable_yet(site: Any) -> None:
    downs(site, 3)
    site.past("node1/eth1", (120, 1), (300, 1))
    (found,) = [f for f in site.judge("flaps") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject, found.limit) == (Outcome.FAIL, LINK, "600 s")
    assert found.what.startswith("not stable yet: node1/eth1 lost its carrier 2 times between ")
    assert found.what.endswith(", 120 s ago at most")
    assert found.next_step.startswith("if it stays up it counts as stable in 600 s")


def test_s41_a_link_passes_again_by_itself_once_it_was_stable_for_long_enough(site: Any) -> None:
    downs(site, 3)
    site.past("node1/eth1", (60, 3), (500, 3), (590, 1))
    assert site.bad("flaps")[0][0] is Outcome.FAIL
    # The fall was seen 500 s ago, and happened 590 s ago at most.
    assert site.bad("flaps", now=NOW + 20)[0][0] is Outcome.UNKNOWN
    assert site.bad("flaps", now=NOW + 99)[0][0] is Outcome.UNKNOWN
    assert site.bad("flaps", now=NOW + 101) == []


def test_a_fall_since_a_run_long_ago_is_not_known_to_be_recent(site: Any) -> None:
    downs(site, 2)
    site.past("node1/eth1", (86_400, 1))
    ((outcome, _, what),) = site.bad("flaps")
    assert outcome is Outcome.UNKNOWN
    assert what.startswith("may have been down less than 600 s ago: node1/eth1 lost its carrier once ")


def test_the_kernels_log_says_when_it_was(site: Any) -> None:
    downs(site, 2)
    site.past("node1/eth1", (86_400, 1))
    # documented: netdev messages of mlx5_core, "Link down"; dmesg stamps them with seconds after boot
    line = "[{}] mlx5_core 0000:17:00.0 eth1: Link down\n"
    site.answer("node1", LOG, "uptime=90000.00\n" + line.format("10.000000") + line.format("80000.000000"))
    assert site.bad("flaps") == []
    site.answer("node1", LOG, "uptime=90000.00\n" + line.format("89900.000000"))
    ((outcome, _, what),) = site.bad("flaps")
    assert outcome is Outcome.FAIL
    assert what.endswith(", 110 s ago")


def test_the_log_of_another_interface_says_nothing(site: Any) -> None:
    downs(site, 2)
    site.past("node1/eth1", (100, 2))
    log = (
        "uptime=90000.00\n[89999.0] mlx5_core 0000:17:00.0 eth12: Link down\n[89999.5] eth1.100: Link down\n"
    )
    site.answer("node1", LOG, log)
    assert site.bad("flaps") == []


def test_s41_a_fall_at_boot_is_no_flap_and_a_later_one_is(site: Any) -> None:
    site.answer("leaf1", LOG, "uptime=550.00\n[ 12.5] br0: port 1(swp1) entered disabled state\n")
    assert site.bad("flaps") == []
    site.answer("leaf1", LOG, "uptime=5000.00\n[4900.5] br0: port 1(swp1) entered disabled state\n")
    ((outcome, subject, what),) = site.bad("flaps")
    assert (outcome, subject) == (Outcome.FAIL, LINK)
    assert what.startswith("not stable yet: leaf1/swp1 lost its carrier once at ")


def test_a_reboot_resets_the_count(site: Any) -> None:
    downs(site, 2)
    site.past("node1/eth1", (120, 1), boot="boot-0")
    assert site.bad("flaps") == []


def test_ends_without_a_count_are_unknown_only_if_both_are(site: Any) -> None:
    gone = Missing("NX-OS says when the link last flapped, not how often")
    site.fact("leaf1/swp1", facts.LINK_DOWNS, gone)
    assert site.bad("flaps") == []
    site.fact("node1/eth1", facts.LINK_DOWNS, gone)
    assert [outcome for outcome, _, _ in site.bad("flaps")] == [Outcome.UNKNOWN]


def test_a_link_that_is_down_is_told_once(site: Any) -> None:
    downs(site, 2)
    site.past("node1/eth1", (120, 1))
    site.fact("node1/eth1", facts.LINK_STATE, "down")
    ((outcome, subject, what),) = site.bad("flaps")
    assert (outcome, subject) == (Outcome.UNKNOWN, LINK)
    assert what == "it is down now: see check link_state"


def test_the_reboot_of_the_other_end_is_no_flap(site: Any) -> None:
    line = "[4900.5] br0: port 1(swp1) entered disabled state\n"
    site.answer("leaf1", LOG, f"uptime=5000.00\n{line}")
    site.answer("node1", LOG, "uptime=60.00\n")
    assert site.bad("flaps") == []
    site.answer("node1", LOG, "uptime=4000.00\n")
    ((outcome, subject, _),) = site.bad("flaps")
    assert (outcome, subject) == (Outcome.FAIL, LINK)


def test_a_log_with_odd_numbers_upsets_nothing(site: Any) -> None:
    downs(site, 2)
    for said in ("uptime=nan\n[4.5] eth1: Link down\n", f"uptime=9.0\n[{'9' * 400}.5] eth1: Link down\n"):
        site.answer("node1", LOG, said)
        assert site.bad("flaps") == []
