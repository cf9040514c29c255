"""Pauses, marks and slow hosts: told, and never a failure."""

from __future__ import annotations

from typing import Any

from fabricctl.model.reading import Missing
from fabricctl.model.verdict import Outcome

LINK = "node1/eth1 - leaf1/swp1"


def test_a_quiet_fabric_passes_without_a_note(site: Any) -> None:
    found = site.judge("congestion")
    assert {(f.outcome, f.what, f.next_step) for f in found} == {
        (Outcome.PASS, "no pause, mark or delay in 10.0 s", "")
    }


def test_a_node_that_was_paused_blames_the_network(make_site: Any) -> None:
    site = make_site("mlx5", "sonic")
    site.counter("node1/eth1", "rx_prio3_pause_duration", 0, 1_234_000)
    assert site.bad("congestion") == []
    assert site.notes("congestion") == [
        (
            LINK,
            (
                "node1/eth1 was paused for 12.3 % of the time, more than 5 %: the network is congested "
                "in 10.0 s"
            ),
            "look for the receiver that cannot keep up, and whether ECN slows its senders down",
        )
    ]


def test_a_node_that_pauses_is_too_slow_itself(make_site: Any) -> None:
    site = make_site("mlx5", "sonic")
    site.counter("node1/eth1", "tx_prio3_pause_duration", 0, 900_000)
    ((_, what, advice),) = site.notes("congestion")
    assert what.startswith(
        "node1/eth1 paused the other end for 9.0 % of the time, more than 5 %: node1 is too slow"
    )
    assert advice == "see the host of node1/eth1: CPU, memory, PCIe"


def test_a_little_pause_is_told_and_no_note(make_site: Any) -> None:
    site = make_site("mlx5", "sonic")
    site.counter("node1/eth1", "rx_prio3_pause_duration", 0, 400_000)
    site.counter("node1/eth1", "rx_prio3_pause", 0, 12)
    site.counter("leaf1/swp1", "pfc3.tx_frames", 0, 12)
    site.counter("leaf1/swp1", "ecn.marked_packets", 0, 7)
    assert site.notes("congestion") == []
    (found,) = [f for f in site.judge("congestion") if f.subject == LINK]
    assert found.what == (
        "node1/eth1 received 12 pause frames; leaf1/swp1 sent 12 pause frames; "
        "leaf1/swp1: 7 packets sent with an ECN mark (ecn.marked_packets) in 10.0 s"
    )


def test_a_slow_host_and_retransmissions_are_notes(make_site: Any) -> None:
    site = make_site("mlx5", "sonic")
    site.counter("node1/eth1", "out_of_buffer", 0, 9)
    site.counter("node1/eth1", "packet_seq_err", 0, 4)
    ((_, what, advice),) = site.notes("congestion")
    assert "node1/eth1: 9 packets that no receive request waited for (out_of_buffer)" in what
    assert "node1/eth1: 4 retransmissions or packets out of order (packet_seq_err)" in what
    assert advice.startswith("see the host of node1/eth1")


def test_drops_of_a_class_that_may_drop_are_told_here(make_site: Any) -> None:
    site = make_site("mlx5", "sonic")
    site.counter("leaf1/swp1", "queue0.dropped_packets", 0, 70)
    (found,) = [f for f in site.judge("congestion") if f.subject == LINK]
    assert found.outcome is Outcome.PASS
    assert found.what.startswith("leaf1/swp1: 70 packets to send that found the queue full")


def test_one_look_is_no_evidence(site: Any) -> None:
    site.once()
    assert {outcome for outcome, _, _ in site.bad("congestion")} == {Outcome.UNKNOWN}


def test_ends_without_a_counter_that_would_tell_are_not_known(site: Any) -> None:
    for name in ("node1/eth1", "leaf1/swp1"):
        site.counter(name, "port_xmit_wait", Missing("no such file"), Missing("no such file"))
    assert site.bad("congestion") == [
        (
            Outcome.UNKNOWN,
            LINK,
            (
                "whether it is congested is not known: node1/eth1: it reports no counter of pauses, marks or "
                "delays; leaf1/swp1: it reports no counter of pauses, marks or delays"
            ),
        )
    ]
