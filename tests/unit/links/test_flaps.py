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
    assert found.what.endswith(", seen just now; it fails until links.stable (600 s) has passed since")
    assert found.next_step.startswith(
        "nothing if you have just plugged it: if it stays up it counts as stable in 600 s, look again then"
    )


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
    assert ", 110 s ago; it fails until" in what


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
    assert what.startswith("not stable yet: leaf1/swp1 lost its carrier once about ")


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


def looks(site: Any, port: str, *seen: tuple[float, int]) -> None:
    site.past(port, *seen)
    site.fact(port, facts.LINK_DOWNS, seen[0][1])


def test_a_young_device_that_was_looked_at_before_has_flapped(site: Any) -> None:
    for device in ("node1", "leaf1"):
        site.answer(device, LOG, "uptime=549.00\n")
    looks(site, "node1/eth1", (22, 3), (140, 2))
    looks(site, "leaf1/swp1", (22, 3), (140, 2))
    (found,) = [f for f in site.judge("flaps") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject, found.measured) == (Outcome.FAIL, LINK, "22 s")
    assert found.what.startswith(
        "not stable yet: node1/eth1 lost its carrier once and leaf1/swp1 once between "
    )
    assert found.what.endswith(", seen 22 s ago; it fails until links.stable (600 s) has passed since")
    # 22 s and 578 s are the 600 s of the limit.
    assert "it counts as stable in 578 s" in found.next_step


def test_the_boot_of_the_other_end_excuses_only_what_fell_before_anybody_looked_at_it(site: Any) -> None:
    looks(site, "leaf1/swp1", (22, 3), (140, 2))
    site.answer("node1", LOG, "uptime=120.00\n")
    site.past("node1/eth1", (22, 1))
    assert site.bad("flaps") == []
    site.past("node1/eth1", (22, 1), (100, 1))
    looks(site, "leaf1/swp1", (22, 3), (60, 2), (140, 2))
    assert [outcome for outcome, _, _ in site.bad("flaps")] == [Outcome.FAIL]
    # Before it had booted, another boot was looked at.
    site.past("node1/eth1", (140, 1), boot="boot-0")
    assert site.bad("flaps") == []


def test_all_falls_within_the_stable_time_are_counted(site: Any) -> None:
    looks(site, "node1/eth1", (20, 4), (100, 3), (200, 2), (400, 1), (700, 1))
    ((outcome, _, what),) = site.bad("flaps")
    assert outcome is Outcome.FAIL
    assert "lost its carrier 3 times between" in what
    assert "seen 20 s ago" in what
    # One fall that may be long ago does not make the others less sure.
    looks(site, "node1/eth1", (20, 4), (100, 3), (86_400, 1))
    ((outcome, _, what),) = site.bad("flaps")
    assert outcome is Outcome.FAIL
    assert "lost its carrier 3 times between" in what


def test_the_time_of_the_log_is_that_of_the_reply_however_late_others_answered(site: Any) -> None:
    looks(site, "node1/eth1", (60, 2), (300, 1))
    site.answer("node1", LOG, "uptime=90000.00\n[89920.0] mlx5_core 0000:17:00.0 eth1: Link down\n")
    at_once, later = (site.bad("flaps", now=NOW + late)[0][2] for late in (0, 12))
    assert at_once.partition(", ")[0] == later.partition(", ")[0]
    assert "lost its carrier once about " in at_once
    assert ", 90 s ago" in at_once
    assert ", 102 s ago" in later


def test_the_log_is_never_later_than_the_look_that_saw_the_fall(site: Any) -> None:
    looks(site, "node1/eth1", (60, 2), (300, 1))
    site.answer("node1", LOG, "uptime=90000.00\n[89980.0] mlx5_core 0000:17:00.0 eth1: Link down\n")
    assert ", 60 s ago" in site.bad("flaps")[0][2]


def test_a_fall_before_the_oldest_look_is_known_from_the_log(site: Any) -> None:
    looks(site, "node1/eth1", (22, 2))
    site.answer("node1", LOG, "uptime=90000.00\n[89900.0] mlx5_core 0000:17:00.0 eth1: Link down\n")
    assert ", 110 s ago" in site.bad("flaps")[0][2]


def test_nothing_is_promised_of_a_link_that_is_not_known_to_be_up(site: Any) -> None:
    looks(site, "node1/eth1", (22, 3), (140, 2))
    site.fact("leaf1/swp1", facts.LINK_STATE, Missing("no such file"))
    (found,) = [f for f in site.judge("flaps") if f.outcome is not Outcome.PASS]
    assert found.outcome is Outcome.FAIL
    assert found.next_step.startswith("see check link_state")
    assert "counts as stable" not in found.next_step
