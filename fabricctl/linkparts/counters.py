"""What the counters of ports mean: which tell of a fault, which of congestion, which of neither.

Counters keep the names that each driver gives them. Those that are in no table here say nothing about a link,
and nobody judges them: ``rx_dropped`` and ``tx_dropped`` of a Linux interface count frames that nobody
listened for, and so do a switch's discards of what it received.

Sources: Linux, Documentation/networking/statistics.rst and
.../device_drivers/ethernet/mellanox/mlx5/counters.rst; ``bnxt_ethtool.c``, ``ice_ethtool.c``,
``ionic_stats.c``; counters of the RDMA drivers ``mlx5_ib``, ``bnxt_re``, ``irdma`` and ``rdma_rxe``. Those of
switches are what their drivers here make of SAI, EOS, NX-OS and NVUE.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What it means that a counter rises."""

    ERROR = "error"
    """Damaged frames, symbols or packets: cable, module or transmitter."""
    DISCARD = "discard"
    """Packets dropped for lack of a buffer, in what RDMA rides as far as the counter can tell."""
    STORM = "storm"
    """A pause that did not end: a storm that a NIC or a watchdog noticed."""
    DOWN = "down"
    """How often the link went down."""
    PAUSED = "paused"
    """Microseconds for which the port sent nothing because the other end asked for it."""
    PAUSING = "pausing"
    """Microseconds for which the port asked the other end to send nothing."""
    PAUSES_RECEIVED = "pauses received"
    PAUSES_SENT = "pauses sent"
    CONGESTION = "congestion"
    """ECN marks, congestion notifications, and drops where drops are how congestion shows."""
    HOST = "host"
    """The host or its program was too slow; the link is not to blame."""
    RETRY = "retry"
    """Retransmissions and disorder that RDMA saw: loss somewhere on the way, or reordering."""
    TRAFFIC = "traffic"
    """Packets of one traffic class that went the right way."""


FAULTS = (Kind.ERROR, Kind.DISCARD, Kind.STORM)
"""What has a limit in the policy, and fails a link."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a counter means.

    Parameters
    ----------
    what
        What is counted, in the plural: ``frames received with a bad CRC``.
    sending
        Whether it is about what the port sends; otherwise it is about what it receives.
    queue
        The traffic class that it is about, 0..7; None if it is about all.
    total
        Whether there may be counters of each queue as well, which tell more.
    gauge
        Whether it is no count: 1 while it is so, else 0.
    """

    kind: Kind
    what: str
    sending: bool = False
    queue: int | None = None
    total: bool = False
    gauge: bool = False


_Row = tuple[str, Kind | None, str]
"""A pattern for the whole name, the kind (None for nothing that matters), and what is counted."""

_NETDEV: tuple[_Row, ...] = (
    ("rx_errors", Kind.ERROR, "frames received in error"),
    ("rx_crc_errors", Kind.ERROR, "frames received with a bad CRC"),
    ("rx_frame_errors", Kind.ERROR, "frames received misaligned"),
    # Also frames whose length field is odd and which are none the worse: spanning tree has those.
    ("rx_length_errors", None, ""),
    ("rx_(?:fifo|over)_errors", Kind.DISCARD, "frames received that found its buffer full"),
    ("rx_missed_errors", Kind.DISCARD, "frames received that the host had no buffer for"),
    ("tx_errors", Kind.ERROR, "frames that could not be sent"),
    ("tx_carrier_errors", Kind.ERROR, "frames that could not be sent for lack of carrier"),
    ("tx_fifo_errors", Kind.DISCARD, "frames to send that found its buffer empty or full"),
)
"""Documentation/networking/statistics.rst; totals and parts overlap, so they are never added up."""
_DCB: tuple[_Row, ...] = (
    (r"pfc\.indications\.(\d)", Kind.PAUSES_RECEIVED, "PFC frames received"),
    (r"pfc\.requests\.(\d)", Kind.PAUSES_SENT, "PFC frames sent"),
)
_VERBS: tuple[_Row, ...] = (
    ("link_downed", Kind.DOWN, "times the link went down"),
    ("port_xmit_wait", Kind.CONGESTION, "ticks for which it had data to send and could not"),
)
"""``ports/1/counters``; the rest of them counts on InfiniBand only, and says 0 or nonsense on Ethernet."""

_MLX5: tuple[_Row, ...] = (
    # A sum of what is below, and of frames whose length field is odd.
    ("rx_errors|rx_in_range_len_errors_phy|rx_out_of_range_len_phy", None, ""),
    ("rx_missed_errors|rx_out_of_buffer", Kind.HOST, "frames that the host had no buffer for"),
    ("rx_crc_errors_phy", Kind.ERROR, "frames received with a bad CRC"),
    ("rx_symbol_err_phy", Kind.ERROR, "frames received with bad symbols"),
    ("rx_pcs_symbol_err_phy", Kind.ERROR, "symbols that FEC could not mend"),
    ("rx_oversize_pkts_phy", Kind.ERROR, "frames received that are longer than its MTU"),
    ("rx_(?:undersize_pkts|fragments|jabbers)_phy", Kind.ERROR, "frames received that are malformed"),
    ("tx_errors_phy", Kind.ERROR, "frames that could not be sent"),
    ("rx_icrc_encapsulated", Kind.ERROR, "RoCE packets received with a bad ICRC"),
    ("rx_discards_phy", Kind.DISCARD, "frames received that found its buffer full"),
    (r"rx_prio(\d)_(?:discards|buf_discard|cong_discard)", Kind.DISCARD, "frames received without a buffer"),
    ("tx_discards_phy", Kind.DISCARD, "frames to send that were dropped"),
    ("tx_pause_storm_error_events", Kind.STORM, "times it paused for so long that its pauses were disabled"),
    ("tx_pause_storm_warning_events", Kind.STORM, "times it paused for long"),
    ("link_down_events_phy", Kind.DOWN, "times the link went down"),
    ("rx_global_pause_duration", Kind.PAUSED, "microseconds paused"),
    (r"rx_prio(\d)_pause_duration", Kind.PAUSED, "microseconds paused"),
    ("tx_global_pause_duration", Kind.PAUSING, "microseconds of pauses sent"),
    (r"tx_prio(\d)_pause_duration", Kind.PAUSING, "microseconds of pauses sent"),
    (r"rx_prio(\d)_pause|rx_global_pause", Kind.PAUSES_RECEIVED, "pause frames received"),
    (r"tx_prio(\d)_pause|tx_global_pause", Kind.PAUSES_SENT, "pause frames sent"),
    (r"rx_prio(\d)_marked", Kind.CONGESTION, "packets that the NIC itself marked"),
    (r"[rt]x_prio(\d)_packets", Kind.TRAFFIC, "packets"),
    ("np_ecn_marked_roce_packets", Kind.CONGESTION, "packets received with an ECN mark"),
    ("np_cnp_sent", Kind.CONGESTION, "congestion notifications sent"),
    ("rp_cnp_handled", Kind.CONGESTION, "congestion notifications obeyed"),
    ("rp_cnp_ignored", Kind.CONGESTION, "congestion notifications ignored (DCQCN is off there)"),
    ("rx_buffer_passed_thres_phy", Kind.CONGESTION, "times its buffer was nearly full"),
    ("out_of_buffer", Kind.HOST, "packets that no receive request waited for"),
    ("rnr_nak_retry_err|req_rnr_retries_exceeded", Kind.HOST, "retries because the peer was not ready"),
    # Without "events" it is no count but the percentage of the last second.
    ("outbound_pci_stalled_(?:rd|wr)_events", Kind.HOST, "seconds in which the NIC waited for PCIe"),
    (r"[rt]x_pci_signal_integrity", Kind.HOST, "PCIe errors"),
    (
        "(?:packet|implied_nak)_seq_err|local_ack_timeout_err|roce_adp_retrans(?:_to)?|out_of_sequence",
        Kind.RETRY,
        "retransmissions or packets out of order",
    ),
    (
        "duplicate_request|req_transport_retries_exceeded",
        Kind.RETRY,
        "retransmissions or packets out of order",
    ),
)
_BNXT: tuple[_Row, ...] = (
    ("rx_fcs_err_frames", Kind.ERROR, "frames received with a bad CRC"),
    ("rx_align_err_frames", Kind.ERROR, "frames received misaligned"),
    ("rx_(?:ovrsz|jbr|mtu_err|undrsz|runt)_frames", Kind.ERROR, "frames received of a length not allowed"),
    ("rx_pcs_symbol_err", Kind.ERROR, "symbols that FEC could not mend"),
    ("rx_fec_uncorrectable_blocks", Kind.ERROR, "blocks that FEC could not mend"),
    ("tx_fcs_err_frames|tx_err|tx_stat_error|tx_fifo_underruns", Kind.ERROR, "frames that could not be sent"),
    # bnxt_get_ring_stats() adds up what the rings of the host had no descriptor for; RoCE rides none of them.
    ("rx_missed_errors", Kind.HOST, "frames that the host had no buffer for"),
    ("rx_roce_errors", Kind.ERROR, "RoCE packets received in error"),
    ("rx_roce_discards", Kind.DISCARD, "RoCE packets received and dropped"),
    # The number is the NIC's own class of service, and which priorities those are is not known here.
    (r"rx_discard_packets_cos\d", Kind.HOST, "frames received that the host had no buffer for"),
    ("link_down_events", Kind.DOWN, "times the link went down"),
    ("continuous_(?:roce_)?pause_events", Kind.CONGESTION, "times it paused for long"),
    (r"pfc_pri(\d)_rx_duration_us", Kind.PAUSED, "microseconds paused"),
    (r"pfc_pri(\d)_tx_duration_us", Kind.PAUSING, "microseconds of pauses sent"),
    (r"rx_pfc_ena_frames_pri(\d)|rx_pause_frames", Kind.PAUSES_RECEIVED, "pause frames received"),
    (r"tx_pfc_ena_frames_pri(\d)|tx_pause_frames", Kind.PAUSES_SENT, "pause frames sent"),
    (r"[rt]x_packets_pri(\d)", Kind.TRAFFIC, "packets"),
    ("rx_ecn_marked_pkts", Kind.CONGESTION, "packets received with an ECN mark"),
    ("[rt]x_cnp_pkts", Kind.CONGESTION, "congestion notifications"),
    ("rx_buffer_passed_threshold", Kind.CONGESTION, "times its buffer was nearly full"),
    ("rx_out_of_buffer|rnr_naks_rcvd", Kind.HOST, "packets that no receive request waited for"),
    (
        "to_retransmits|seq_err_naks_rcvd|missing_resp|max_retry_exceeded|dup_req|oos_drop_count",
        Kind.RETRY,
        "retransmissions or packets out of order",
    ),
)
_IRDMA: tuple[_Row, ...] = (
    # A sum of what is below, and in older kernels of frames whose length field is odd.
    ("rx_errors", None, ""),
    (r"rx_crc_errors\.nic", Kind.ERROR, "frames received with a bad CRC"),
    (r"illegal_bytes\.nic", Kind.ERROR, "illegal bytes received"),
    (r"rx_(?:undersize|fragments|oversize|jabber)\.nic", Kind.ERROR, "frames received that are malformed"),
    (r"tx_errors\.nic", Kind.ERROR, "frames that could not be sent"),
    (r"ip[46]InTruncatedPkts", Kind.ERROR, "packets received truncated"),
    (r"(?i:.*icrc.*)", Kind.ERROR, "RoCE packets received with a bad ICRC"),
    (r"rx_dropped\.nic", Kind.DISCARD, "frames received that found its buffer full"),
    (r"tx_dropped_link_down\.nic", Kind.HOST, "frames dropped while the link was down"),
    (r"link_down_events\.nic", Kind.DOWN, "times the link went down"),
    (r"rx_priority_(\d)_xoff\.nic|link_xoff_rx\.nic", Kind.PAUSES_RECEIVED, "pause frames received"),
    (r"tx_priority_(\d)_xoff\.nic|link_xoff_tx\.nic", Kind.PAUSES_SENT, "pause frames sent"),
    ("cnp(?:Handled|Ignored|Sent)", Kind.CONGESTION, "congestion notifications"),
    ("RxECNMrkd", Kind.CONGESTION, "packets received with an ECN mark"),
    (r"ip[46]InDiscards|ip[46]OutNoRoutes", Kind.HOST, "packets that the host dropped"),
    (r"(?i:.*\brnr\b.*)", Kind.HOST, "receiver-not-ready messages"),
    (r"(?:tcp)?RetransSegs|(?i:rto|.*nak.*|.*out-of-order.*)", Kind.RETRY, "retransmissions or disorder"),
)
"""Names with blanks in them are those of the third generation."""
_IONIC: tuple[_Row, ...] = (
    ("frames_rx_bad_fcs", Kind.ERROR, "frames received with a bad CRC"),
    ("frames_rx_stomped_crc", Kind.ERROR, "frames that were damaged before the last switch passed them on"),
    (
        "frames_rx_(?:undersized|oversized|fragments|jabber|too_long)",
        Kind.ERROR,
        "frames received that are malformed",
    ),
    ("frames_tx_bad|frames_tx_truncated", Kind.ERROR, "frames sent in error"),
    ("rsfec_uncorrectable_blocks", Kind.ERROR, "blocks that FEC could not mend"),
    ("frames_rx_dropped|hw_rx_over_errors", Kind.DISCARD, "frames received that found its buffer full"),
    ("hw_rx_missed_errors", Kind.HOST, "frames that the host had no buffer for"),
    ("frames_rx_(?:pri)?pause", Kind.PAUSES_RECEIVED, "pause frames received"),
    ("frames_tx_(?:pri)?pause", Kind.PAUSES_SENT, "pause frames sent"),
    (r"frames_[rt]x_pri_(\d)", Kind.TRAFFIC, "packets"),
    ("[rt]x_rdma_cnp_(?:packets|pkts)", Kind.CONGESTION, "congestion notifications"),
    ("rx_rdma_ecn_(?:packets|pkts)", Kind.CONGESTION, "packets received with an ECN mark"),
    (
        "(?:req|resp)_[rt]x_.*rnr.*|rdma_.*(?:rnr_retry_err|out_of_buffer)|.*out_of_buf.*",
        Kind.HOST,
        "packets that no receive request waited for",
    ),
    (
        "(?:rdma_)?(?:req|resp)_[rt]x_.*(?:seq_err|out_of_seq|dup_re|retry_exc).*",
        Kind.RETRY,
        "retransmissions or packets out of order",
    ),
)
_RXE: tuple[_Row, ...] = (
    ("rcvd_rnr_err|send_rnr_err|retry_rnr_exceeded_err", Kind.HOST, "receiver-not-ready messages"),
    (
        "duplicate_request|out_of_seq_request|rcvd_seq_err|completer_retry_err|retry_exceeded_err",
        Kind.RETRY,
        "retransmissions or packets out of order",
    ),
)

_SWITCH: tuple[_Row, ...] = (
    ("rx_errors", Kind.ERROR, "frames received in error"),
    ("tx_errors", Kind.ERROR, "frames that could not be sent"),
    ("rx_oversize", Kind.ERROR, "frames received that are longer than its MTU"),
    ("tx_discards", Kind.DISCARD, "packets to send that were dropped"),
    (r"queue(\d)\.dropped_packets", Kind.DISCARD, "packets to send that found the queue full"),
    (r"group(\d)\.dropped_packets", Kind.DISCARD, "packets received that found the buffer full"),
    (r"watchdog\.queue(\d)\.dropped_packets", Kind.DISCARD, "packets that the PFC watchdog dropped"),
    (r"watchdog\.queue(\d)\.storms_detected", Kind.STORM, "pause storms"),
    (r"watchdog\.queue(\d)\.stormed", Kind.STORM, "queues held for stormed"),
    (r"pfc(\d)\.rx_frames|pfc\.rx_frames|rx_pauses", Kind.PAUSES_RECEIVED, "PFC frames received"),
    (r"pfc(\d)\.tx_frames|pfc\.tx_frames|tx_pauses", Kind.PAUSES_SENT, "PFC frames sent"),
    (r"ecn\.marked_packets", Kind.CONGESTION, "packets sent with an ECN mark"),
    (r"queue(\d)\.wred_dropped_packets", Kind.CONGESTION, "packets dropped by WRED"),
    (r"queue(\d)\.tx_packets", Kind.TRAFFIC, "packets"),
)
_LINUX: tuple[_Row, ...] = (
    (r"red\.pdrop", Kind.DISCARD, "packets to send that found the queue full"),
    (r"red\.early", Kind.CONGESTION, "packets dropped by RED, for they could not be marked"),
    (r"red\.marked", Kind.CONGESTION, "packets sent with an ECN mark"),
)
_NXOS: tuple[_Row, ...] = (("tx_dropped", Kind.DISCARD, "packets to send that were dropped"),)

# The first pattern that fits counts: what a vendor's table says of a name goes before the general ones.
_TABLES: Mapping[str, tuple[_Row, ...]] = {
    "mlx5": (*_MLX5, *_NETDEV, *_DCB, *_VERBS),
    "bnxt": (*_BNXT, *_NETDEV, *_DCB, *_VERBS),
    "irdma": (*_IRDMA, *_NETDEV, *_DCB, *_VERBS),
    "ionic": (*_IONIC, *_NETDEV, *_VERBS),
    "rxe": (*_RXE, *_NETDEV, *_DCB, *_VERBS),
    "linux": (*_LINUX, *_NETDEV, *_DCB),
    "cumulus": (*_SWITCH, *_NETDEV),
    "nxos": (*_NXOS, *_SWITCH),
}
_OF_ETHTOOL = frozenset({"mlx5", "bnxt", "irdma", "ionic"})
"""Drivers that count what found no buffer in their own statistics; the kernel's general ones stay 0."""
_SENDING = re.compile(r"(?:^|[._ ])tx(?:_|$)|_tx_|^queue|^watchdog|^red\.|^port_xmit")
_TOTALS = frozenset({"tx_discards", "tx_dropped", "rx_discards_phy", "tx_discards_phy"})


@functools.lru_cache(maxsize=16384)
def meaning(driver: str, counter: str) -> Meaning | None:
    """Return what a counter of a port with that driver means; None if it says nothing about the link.

    Parameters
    ----------
    counter
        As the driver names it; one of a bond's member has the member's name before it (``eth1 rx_errors``).
    """
    table = _TABLES.get(driver, _SWITCH)
    for name in (counter, counter.partition(" ")[2]):
        for pattern, kind, what in table:
            found = re.fullmatch(pattern, name)
            if name and found:
                queue = next((each for each in found.groups() if each), None)
                return None if kind is None else _meaning(name, kind, what, queue)
    return None


@functools.lru_cache(maxsize=64)
def countable(driver: str) -> frozenset[Kind]:
    """Return the kinds of faults that a port with that driver may have counters of."""
    return frozenset(kind for _, kind, _ in _TABLES.get(driver, _SWITCH) if kind in FAULTS)


@functools.lru_cache(maxsize=16384)
def proves(driver: str, counter: str) -> bool:
    """Say whether a counter that stays at 0 proves that there was nothing to count.

    Of a NIC's discards only its own counters do; of damage the kernel's do as well.
    """
    found = meaning(driver, counter)
    if found is None or driver not in _OF_ETHTOOL or found.kind is Kind.ERROR:
        return found is not None
    names = (counter, counter.partition(" ")[2])
    return not any(re.fullmatch(pattern, name) for pattern, _, _ in _NETDEV for name in names)


def _meaning(name: str, kind: Kind, what: str, queue: str | None) -> Meaning:
    return Meaning(
        kind,
        what,
        sending=_SENDING.search(name) is not None,
        queue=None if queue is None else int(queue),
        total=name in _TOTALS,
        gauge=name.endswith(".stormed"),
    )
