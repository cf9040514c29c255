"""Errors, discards and storms at both ends of a link, and what counters mean."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.linkparts.counters import Kind, meaning
from fabricctl.model import facts
from fabricctl.model.names import PortId
from fabricctl.model.policy import LinkPolicy
from fabricctl.model.reading import Missing
from fabricctl.model.verdict import Outcome

LINK = "node1/eth1 - leaf1/swp1"
CASES = Path(__file__).resolve().parents[2] / "cases" / "nic"


def test_as_it_should_be_every_link_passes(site: Any) -> None:
    found = site.judge("counters")
    assert [(f.outcome, f.interval_s) for f in found] == [(Outcome.PASS, 10.0)] * 8
    assert found[0].what == ("no error or discard in 10.0 s, by 4 at node1/eth1 and 4 at leaf1/swp1 counters")


def test_damaged_frames_blame_the_cable_and_the_other_end(site: Any) -> None:
    site.counter("leaf1/swp1", "rx_crc_errors", 5, 17)
    (found,) = [f for f in site.judge("counters") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject, found.culprit) == (Outcome.FAIL, LINK, "")
    assert found.what == (
        "leaf1/swp1: 12 frames received with a bad CRC (rx_crc_errors, 1.2/s) in 10.0 s, limit 0/s"
    )
    assert (found.measured, found.limit, found.interval_s) == ("1.2/s", "0/s", 10.0)
    assert found.next_step.startswith(
        "clean, reseat or change the cable and its modules, and see the transmitter of node1/eth1"
    )


def test_all_that_rises_at_both_ends_is_one_finding_with_the_worst_first(site: Any) -> None:
    site.counter("node1/eth1", "rx_crc_errors", 0, 3)
    site.counter("leaf1/swp1", "rx_crc_errors", 0, 40)
    ((outcome, _, what),) = site.bad("counters")
    assert outcome is Outcome.FAIL
    assert what == (
        "leaf1/swp1: 40 frames received with a bad CRC (rx_crc_errors, 4/s); "
        "node1/eth1: 3 frames received with a bad CRC (rx_crc_errors, 0.3/s) in 10.0 s, limit 0/s"
    )


def test_a_rate_within_the_policys_limit_passes(site: Any) -> None:
    site.policy = replace(site.policy, links=LinkPolicy(error_per_s=2.0))
    site.counter("leaf1/swp1", "rx_crc_errors", 0, 20)
    assert site.bad("counters") == []
    site.counter("leaf1/swp1", "rx_crc_errors", 0, 21)
    assert [outcome for outcome, _, _ in site.bad("counters")] == [Outcome.FAIL]


@pytest.mark.parametrize("counter", ["rx_dropped", "tx_dropped", "rx_nohandler", "multicast", "rx_packets"])
def test_frames_that_nobody_listened_for_never_alarm(site: Any, counter: str) -> None:
    site.counter("leaf1/swp1", counter, 0, 10_000)
    site.counter("node1/eth1", counter, 0, 10_000)
    assert site.bad("counters") == []


def test_old_errors_are_not_new_ones(site: Any) -> None:
    site.counter("leaf1/swp1", "rx_crc_errors", 900_000, 900_000)
    assert site.bad("counters") == []


def test_a_counter_that_went_back_is_unknown(site: Any) -> None:
    site.counter("leaf1/swp1", "rx_crc_errors", 9, 2)
    assert site.bad("counters") == [
        (
            Outcome.UNKNOWN,
            LINK,
            (
                "whether errors are counted is not known: leaf1/swp1: rx_crc_errors went back from 9 to 2: "
                "somebody cleared it, or it wrapped"
            ),
        )
    ]


def test_s47_a_counter_that_is_not_there_is_left_out(site: Any) -> None:
    gone = Missing("unparsable: ValueError('N/A (no PMA)')")
    site.counter("node1/eth1", "rx_crc_errors", gone, gone)
    assert site.bad("counters") == []
    site.counter("node1/eth1", "rx_errors", 4, Missing("Invalid argument"))
    assert [(outcome, what) for outcome, _, what in site.bad("counters")] == [
        (
            Outcome.UNKNOWN,
            "whether errors are counted is not known: node1/eth1: rx_errors: Invalid argument",
        )
    ]


def test_one_look_is_no_evidence(site: Any) -> None:
    site.once()
    assert {(outcome, what) for outcome, _, what in site.bad("counters")} == {
        (
            Outcome.UNKNOWN,
            (
                f"whether errors are counted is not known: node{n}/eth{rail}: it was read only once; "
                f"leaf{rail}/swp{n}: it was read only once"
            ),
        )
        for n in (1, 2, 3, 4)
        for rail in (1, 2)
    }


def test_an_end_without_such_counters_is_unknown(make_site: Any) -> None:
    site = make_site("rxe", "sonic")
    for name in ("rx_errors", "tx_errors"):
        site.counter("leaf1/swp1", name, Missing("not polled"), Missing("not polled"))
    found = [what for _, subject, what in site.bad("counters") if subject == LINK]
    assert found == [
        ("whether errors are counted is not known: leaf1/swp1: it reports no counter of errors or discards")
    ]


def test_a_drop_at_a_switch_names_its_port(make_site: Any) -> None:
    site = make_site("mlx5", "sonic")
    site.counter("leaf1/swp1", "queue3.dropped_packets", 0, 70)
    site.counter("leaf1/swp1", "tx_discards", 0, 70)
    (found,) = [f for f in site.judge("counters") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.culprit) == (Outcome.FAIL, "leaf1/swp1")
    assert found.what == (
        "leaf1/swp1: 70 packets to send that found the queue full (queue3.dropped_packets, 7/s) in 10.0 s, "
        "limit 0/s"
    )
    assert found.next_step.startswith("what leaf1/swp1 should send to node1/eth1 finds no buffer")


def test_drops_of_a_class_that_may_drop_are_congestion(make_site: Any) -> None:
    site = make_site("mlx5", "sonic")
    site.counter("leaf1/swp1", "queue3.dropped_packets", 0, 0)
    site.counter("leaf1/swp1", "queue0.dropped_packets", 0, 70)
    site.counter("leaf1/swp1", "tx_discards", 0, 70)
    site.counter("leaf1/swp1", "rx_discards", 0, 70)
    assert site.bad("counters") == []


def test_a_total_of_drops_counts_where_classes_are_not_told_apart(make_site: Any) -> None:
    site = make_site("mlx5", "nxos")
    site.counter("leaf1/swp1", "tx_dropped", 0, 5)
    ((outcome, _, what),) = site.bad("counters")
    assert outcome is Outcome.FAIL
    assert what.startswith("leaf1/swp1: 5 packets to send that were dropped (tx_dropped, 0.5/s)")


def test_s20_a_queue_that_the_watchdog_holds_fails_though_nothing_rises(make_site: Any) -> None:
    site = make_site("mlx5", "sonic")
    site.counter("leaf1/swp1", "watchdog.queue3.stormed", 1, 1)
    ((outcome, _, what),) = site.bad("counters")
    assert outcome is Outcome.FAIL
    assert "the PFC watchdog holds a queue for stormed (watchdog.queue3.stormed)" in what


def test_a_storm_of_a_switch_is_the_other_ends(make_site: Any) -> None:
    site = make_site("mlx5", "sonic")
    site.counter("leaf1/swp1", "watchdog.queue3.storms_detected", 2, 3)
    (found,) = [f for f in site.judge("counters") if f.outcome is not Outcome.PASS]
    assert found.what.startswith("leaf1/swp1: 1 pause storms (watchdog.queue3.storms_detected, 0.1/s)")
    assert found.next_step.startswith("node1/eth1 paused leaf1/swp1 without end")


def test_a_host_that_is_too_slow_is_no_fault_of_the_link(make_site: Any) -> None:
    site = make_site("mlx5", "sonic")
    for name in ("rx_out_of_buffer", "rnr_nak_retry_err", "out_of_sequence", "out_of_buffer"):
        site.counter("node1/eth1", name, 0, 900)
    assert site.bad("counters") == []


def test_nothing_read_is_no_pass(site: Any) -> None:
    for name in list(site.seen):
        site.unreachable(name)
    assert [(f.outcome, f.subject) for f in site.judge("counters")] == [(Outcome.UNKNOWN, "fabric")]


# Names documented in the kernel: mlx5/counters.rst, bnxt_ethtool.c, ice_ethtool.c, ionic_stats.c, and the
# counters of mlx5_ib, bnxt_re, irdma and rdma_rxe.
@pytest.mark.parametrize(
    ("driver", "counter", "kind"),
    [
        ("mlx5", "rx_crc_errors_phy", Kind.ERROR),
        ("mlx5", "rx_symbol_err_phy", Kind.ERROR),
        ("mlx5", "rx_pcs_symbol_err_phy", Kind.ERROR),
        ("mlx5", "rx_icrc_encapsulated", Kind.ERROR),
        ("mlx5", "rx_discards_phy", Kind.DISCARD),
        ("mlx5", "rx_prio3_buf_discard", Kind.DISCARD),
        ("mlx5", "rx_prio3_cong_discard", Kind.DISCARD),
        ("mlx5", "tx_pause_storm_error_events", Kind.STORM),
        ("mlx5", "tx_pause_storm_warning_events", Kind.STORM),
        ("mlx5", "link_down_events_phy", Kind.DOWN),
        ("mlx5", "rx_prio3_pause_duration", Kind.PAUSED),
        ("mlx5", "tx_prio3_pause_duration", Kind.PAUSING),
        ("mlx5", "rx_prio3_pause", Kind.PAUSES_RECEIVED),
        ("mlx5", "np_ecn_marked_roce_packets", Kind.CONGESTION),
        ("mlx5", "outbound_pci_stalled_rd_events", Kind.HOST),
        ("mlx5", "outbound_pci_stalled_rd", None),
        ("mlx5", "rx_out_of_buffer", Kind.HOST),
        ("mlx5", "rx_missed_errors", Kind.HOST),
        ("mlx5", "rnr_nak_retry_err", Kind.HOST),
        ("mlx5", "out_of_sequence", Kind.RETRY),
        ("mlx5", "rx_in_range_len_errors_phy", None),
        ("mlx5", "rx_corrected_bits_phy", None),
        ("mlx5", "rx_prio3_pause_transition", None),
        ("mlx5", "symbol_error", None),
        ("mlx5", "ens1f0 rx_crc_errors_phy", Kind.ERROR),
        ("bnxt", "rx_fcs_err_frames", Kind.ERROR),
        ("bnxt", "rx_roce_discards", Kind.DISCARD),
        ("bnxt", "to_retransmits", Kind.RETRY),
        ("bnxt", "recoverable_errors", None),
        ("irdma", "rx_crc_errors.nic", Kind.ERROR),
        ("irdma", "RxECNMrkd", Kind.CONGESTION),
        ("irdma", "cnpHandled", Kind.CONGESTION),
        ("irdma", "RNR sent", Kind.HOST),
        ("irdma", "Rx out-of-order packets", Kind.RETRY),
        ("irdma", "RX ICRC errors", Kind.ERROR),
        ("irdma", "rx_length_errors.nic", None),
        ("ionic", "frames_rx_bad_fcs", Kind.ERROR),
        ("ionic", "frames_rx_bad_length", None),
        ("ionic", "frames_rx_dropped", Kind.DISCARD),
        ("ionic", "rdma_req_rx_pkt_seq_err", Kind.RETRY),
        ("ionic", "rdma_req_rx_rnr_retry_err", Kind.HOST),
        ("rxe", "completer_retry_err", Kind.RETRY),
        ("rxe", "link_downed", Kind.DOWN),
        ("rxe", "rx_frame_errors", Kind.ERROR),
        ("rxe", "rx_missed_errors", Kind.DISCARD),
        ("rxe", "rx_dropped", None),
        ("linux", "rx_dropped", None),
        ("linux", "red.pdrop", Kind.DISCARD),
        ("sonic", "rx_errors", Kind.ERROR),
        ("sonic", "rx_discards", None),
        ("eos", "pfc.rx_frames", Kind.PAUSES_RECEIVED),
        ("nxos", "rx_dropped", None),
        ("nxos", "tx_dropped", Kind.DISCARD),
        ("cumulus", "tx_dropped", None),
        ("dell_sonic", "rx_oversize", Kind.ERROR),
        ("mlx5", "rx_prio3_packets", Kind.TRAFFIC),
        ("mlx5", "rx_prio3_bytes", None),
        ("bnxt", "tx_packets_pri3", Kind.TRAFFIC),
        ("bnxt", "tx_packets_cos3", None),
        ("ionic", "frames_tx_pri_3", Kind.TRAFFIC),
        ("sonic", "queue3.tx_packets", Kind.TRAFFIC),
        ("nxos", "queue3.tx_packets", Kind.TRAFFIC),
        ("rxe", "tx_packets", None),
    ],
)
def test_what_a_counter_means(driver: str, counter: str, kind: Kind | None) -> None:
    found = meaning(driver, counter)
    assert (found.kind if found is not None else None) is kind


@pytest.mark.parametrize(
    ("driver", "counter", "sending"),
    [
        ("mlx5", "rx_prio3_packets", False),
        ("mlx5", "tx_prio3_packets", True),
        ("bnxt", "rx_packets_pri3", False),
        ("ionic", "frames_rx_pri_3", False),
        ("ionic", "frames_tx_pri_3", True),
        ("eos", "queue3.tx_packets", True),
    ],
)
def test_traffic_of_a_class_has_a_direction(driver: str, counter: str, *, sending: bool) -> None:
    found = meaning(driver, counter)
    assert found is not None
    assert (found.kind, found.queue, found.sending) == (Kind.TRAFFIC, 3, sending)


@pytest.mark.parametrize(
    ("case", "port", "wanted"),
    [
        ("mlx5/ofed-two-ports", 0, {"rx_crc_errors_phy", "rx_discards_phy", "tx_pause_storm_error_events"}),
        (
            "bnxt/thor2-as-shipped",
            0,
            {"rx_fcs_err_frames", "rx_fec_uncorrectable_blocks", "tx_fcs_err_frames"},
        ),
        ("irdma/e810-set", 0, {"rx_crc_errors.nic", "illegal_bytes.nic", "rx_dropped.nic"}),
        ("ionic/pollara-as-recommended", 0, {"frames_rx_bad_fcs", "frames_rx_dropped", "frames_tx_bad"}),
        ("mlx5/ofed-bond", 0, {"enp23s0f0np0 rx_crc_errors_phy", "enp23s0f1np1 rx_crc_errors_phy"}),
    ],
)
def test_every_nic_driver_reads_counters_that_tell_of_faults(case: str, port: int, wanted: set[str]) -> None:
    ports = json.loads((CASES / case / "reading.json").read_text())["ports"]
    held = list(ports.values())[port]
    driver = case.partition("/")[0]
    known = {name for name, entry in held["counters"].items() if "known" in entry}
    faults = {
        name
        for name in known
        if (found := meaning(driver, name)) is not None
        and found.kind in {Kind.ERROR, Kind.DISCARD, Kind.STORM}
    }
    assert wanted <= faults
    assert held["facts"]["fec"] == {"known": "rs"}
    assert not {name for name in known if name.startswith(("rx0_", "[0]", "tx_queue_0"))}


def test_a_host_that_is_slow_to_take_other_traffic_fails_no_link_of_a_thor(make_site: Any) -> None:
    site = make_site("bnxt")
    site.counter("node1/eth1", "rx_missed_errors", 0, 40)
    assert site.bad("counters") == []


def test_a_port_that_is_not_there_is_no_matter_of_counting(site: Any) -> None:
    site.fact("leaf1/swp1", facts.LINK_STATE, Missing("there is no network interface swp1"))
    for name in site.seen["leaf1"].last.ports[PortId("leaf1", "swp1")].counters:
        site.counter("leaf1/swp1", name, Missing("no such file"), Missing("no such file"))
    (found,) = [f for f in site.judge("counters") if f.outcome is not Outcome.PASS]
    assert (found.outcome, found.subject) == (Outcome.UNKNOWN, LINK)
    assert found.what == (
        "whether errors are counted is not known: leaf1/swp1: there is no network interface swp1"
    )
    assert found.next_step == "see check link_state: nothing could be read of leaf1/swp1"


def vendor(site: Any, *names: str) -> None:
    for number in (1, 2, 3, 4):
        for rail in (1, 2):
            for name in names:
                site.counter(f"node{number}/eth{rail}", name, 0, 0)


def forget(site: Any, names: tuple[str, ...], when: str) -> None:
    """Let counters of node1/eth1 be absent at one of the two looks."""
    end, seen = PortId("node1", "eth1"), site.seen["node1"]
    reading = getattr(seen, when)
    kept = {name: held for name, held in reading.ports[end].counters.items() if name not in names}
    ports = {**reading.ports, end: replace(reading.ports[end], counters=kept)}
    site.seen["node1"] = replace(seen, **{when: replace(reading, ports=ports)})


@pytest.mark.parametrize("when", ["first", "last"])
def test_s47_counters_that_only_one_look_has_are_unknown(make_site: Any, when: str) -> None:
    site = make_site("mlx5")
    vendor(site, "rx_crc_errors_phy", "rx_discards_phy", "tx_pause_storm_error_events", "rx_bytes_phy")
    assert site.bad("counters") == []
    forget(site, ("rx_crc_errors_phy", "rx_bytes_phy"), when)
    assert site.bad("counters") == [
        (
            Outcome.UNKNOWN,
            LINK,
            (
                "whether errors are counted is not known: node1/eth1: rx_crc_errors_phy: the driver did not "
                "report it"
            ),
        )
    ]


def test_many_counters_that_vanished_are_not_all_named(make_site: Any) -> None:
    site = make_site("mlx5")
    names = tuple(f"rx_prio{number}_discards" for number in range(8))
    vendor(site, *names)
    forget(site, names, "last")
    ((_, _, what),) = site.bad("counters")
    assert what.count("the driver did not report it") == 4
    assert what.endswith("; node1/eth1: 4 more counters are not known")


def test_a_counter_that_rises_is_told_though_others_vanished(make_site: Any) -> None:
    site = make_site("mlx5")
    vendor(site, "rx_discards_phy")
    forget(site, ("rx_discards_phy",), "last")
    site.counter("node1/eth1", "rx_crc_errors", 0, 9)
    assert [outcome for outcome, _, _ in site.bad("counters")] == [Outcome.FAIL]


def test_what_a_nic_could_count_but_does_not_is_not_claimed(make_site: Any) -> None:
    site = make_site("mlx5")
    # The kernel's own counters of full buffers stay at 0 with that driver.
    vendor(site, "rx_fifo_errors", "tx_fifo_errors")
    for number in (1, 2, 3, 4):
        for rail in (1, 2):
            site.fact(f"node{number}/eth{rail}", facts.FEC, Missing("ethtool: the program is not installed"))
    assert site.bad("counters") == []
    subject, what, step = site.notes("counters")[0]
    assert (subject, what) == (
        LINK,
        (
            "no error in 10.0 s, by 4 at node1/eth1 and 4 at leaf1/swp1 counters; discards and storms are "
            "not counted at node1/eth1"
        ),
    )
    assert step == "install ethtool on node1, to have the NIC's own counters"


def test_a_nic_without_a_storm_counter_is_no_reason_to_install_anything(make_site: Any) -> None:
    site = make_site("mlx5")
    vendor(site, "rx_crc_errors_phy", "rx_discards_phy")
    found = site.judge("counters")[0]
    assert (found.outcome, found.next_step) == (Outcome.PASS, "")
    assert found.what.startswith("no error or discard in 10.0 s, by ")
    assert found.what.endswith("; storms are not counted at node1/eth1")
    vendor(site, "tx_pause_storm_error_events")
    assert site.judge("counters")[0].what.startswith("no error, discard or storm in 10.0 s, by ")


def test_soft_roce_has_no_notes(site: Any) -> None:
    assert site.notes("counters") == []
    assert "not counted" not in "".join(found.what for found in site.judge("counters"))
