"""What a NIC's own counters and a probe's latencies say of lost packets.

A reliable connection hides loss: the packet is sent again. The counters that moved meanwhile are of two
kinds. A sequence error means that the other end saw a gap: a packet was lost (or overtaken). A retry or a
timeout means only that no answer came in time, which a slow or overloaded host causes as well; it is shown,
it decides nothing. Where there are no counters, a packet that was sent again after a timeout shows as a step
of the latency (facts and thresholds: IBTA, local ACK timeout 4.096 us * 2^n; ConnectX takes n < 16 for 16).

Counters are a port's, not a queue pair's: "rdma statistic qp" would tell them apart on mlx5, but binding a
counter takes CAP_NET_ADMIN and changes the port's mode for everybody on it. A probe changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId
from fabricctl.model.policy import LossLimit
from fabricctl.model.probe import Sample
from fabricctl.model.reading import ZERO, Known
from fabricctl.model.verdict import Finding, Outcome

CHECK = "retransmission"
"""Name of the finding that packets were lost, or overtaken, though a reliable connection hid it."""

GAPS = frozenset(
    {
        "packet_seq_err",  # mlx5: sequence NAK received
        "implied_nak_seq_err",  # mlx5: a READ response is missing
        "seq_err_naks_rcvd",  # bnxt_re
        "missing_resp",  # bnxt_re: a READ response is missing
        "rcvd_seq_err",  # rxe
        "rdma_req_rx_pkt_seq_err",  # ionic
        "rdma_req_rx_implied_nak_seq_err",  # ionic
        "Nak Sequence Error",  # irdma, generation 3
        "Nak Sequence Error Implied",  # irdma, generation 3
    }
)
"""Requester counters that move only when the other end saw a gap."""

RESPONDER_GAPS = frozenset(
    {
        "out_of_sequence",  # mlx5
        "oos_drop_count",  # bnxt_re
        "out_of_seq_request",  # rxe
        "rdma_resp_rx_out_of_seq_pkts",  # ionic
        "Rcvd Out of order packets",  # irdma, generation 3
    }
)
"""The same seen at the responder: packets that came out of sequence. Never added to the requester's."""

SOFT_GAPS = frozenset({"rcvd_seq_err", "out_of_seq_request"})
"""Those of rxe. It takes packets from a UDP socket, and a stream that is faster than the host's CPU overruns
that socket's buffer: then they tell of the host, not of the fabric."""

RETRIES = frozenset(
    {
        "local_ack_timeout_err",  # mlx5
        "roce_adp_retrans",  # mlx5, adaptive retransmission: the first to move where it is on
        "roce_adp_retrans_to",  # mlx5
        "req_transport_retries_exceeded",  # mlx5
        "to_retransmits",  # bnxt_re
        "max_retry_exceeded",  # bnxt_re
        "RetransSegs",  # irdma
        "tcpRetransSegs",  # irdma, older kernels
        "RTO",  # irdma, generation 3
        "completer_retry_err",  # rxe: every go-back-N, by timer or by NAK
        "retry_exceeded_err",  # rxe
    }
)
"""Requester counters that move on retransmissions, whatever their cause."""

STEP_NS = 4_000_000
"""Above the median by so much, an operation waited for a timer: soft-RoCE's shortest is a jiffy of 4 ms,
ConnectX's first adaptive one 8.6 ms, and a fabric's queues hold less than 4 ms of a line rate."""


def moved(samples: Iterable[Sample], names: frozenset[str], side: str = "source") -> dict[str, int] | None:
    """Return by how much counters of `names` moved at one side, those that did not move left out.

    None if not a single one of them could be read: then nothing is known.
    """
    found: dict[str, int] = {}
    readable = False
    for sample in samples:
        for key, entry in sample.counters.items():
            where, _, name = key.partition("/")
            if where != side or name not in names:
                continue
            if isinstance(entry, Known) and isinstance(entry.value, int):
                readable = True
                if entry.value:
                    found[name] = found.get(name, 0) + entry.value
    return found if readable else None


def stood_still(sample: Sample) -> bool:
    """Say whether no counter of a sample moved, of those that could be read."""
    held = list(sample.counters.values())
    if held.count(ZERO) == len(held):  # the same object nearly always, which is fast
        return True
    return all(not isinstance(entry, Known) or not entry.value for entry in held)


def gaps(samples: Sequence[Sample], *, but: frozenset[str] = frozenset(), both_ways: bool = False) -> str:
    """Return ``packet_seq_err +3 at the source, out_of_sequence +3 at the target``; "" if nothing moved.

    Parameters
    ----------
    but
        Counters to leave out.
    both_ways
        Whether the target sends as well, so that each end is requester and responder.
    """
    ends = {"source": GAPS - but, "target": RESPONDER_GAPS - but}
    if both_ways:
        ends = dict.fromkeys(ends, (GAPS | RESPONDER_GAPS) - but)
    return ", ".join(
        f"{say(found)} at the {side}"
        for side, names in ends.items()
        if (found := moved(samples, names, side))
    )


def gap_count(samples: Sequence[Sample]) -> int:
    """Return how many gaps were counted, by whichever end counted more: both see the same ones."""
    ends = (moved(samples, GAPS), moved(samples, RESPONDER_GAPS, "target"))
    return max(sum((found or {}).values()) for found in ends)


def say(found: dict[str, int]) -> str:
    """Return ``completer_retry_err +3, rcvd_seq_err +1``."""
    return ", ".join(f"{name} +{count}" for name, count in sorted(found.items()))


def remark(samples: Iterable[Sample]) -> str:
    """Return ``; the NIC sent again meanwhile: completer_retry_err +3``, or nothing if it did not."""
    found = moved(samples, GAPS | RETRIES)
    return f"; the NIC sent again meanwhile: {say(found)}" if found else ""


def steps(latencies: Histogram) -> str:
    """Return ``; 3 of 1000 took 4 ms more than the median, ...``, or nothing if none did."""
    if not latencies:
        return ""
    median = latencies.value_at_rank((latencies.samples + 1) // 2)
    slow = latencies.count_above(median + STEP_NS)
    if not slow:
        return ""
    return (
        f"; {slow} of {latencies.samples} took over {STEP_NS // 1_000_000} ms more than the median:"
        " sent again after a timeout, or a host stood still"
    )


def findings(
    probe: str, pair: PairId, samples: Sequence[Sample], limit: LossLimit | None
) -> tuple[Finding, ...]:
    """Return a finding if the policy tolerates no loss and a NIC counted gaps while `probe` ran; else none.

    It is unknown, not a failure: counters are the port's, so another connection's packets may be meant, and
    a packet that was overtaken counts like a lost one. But such a pair is not shown to lose nothing.
    """
    return _finding(probe, pair, gaps(samples)) if _tolerates_none(limit) else ()


def findings_of_stream(
    probe: str, pair: PairId, samples: Sequence[Sample], limit: LossLimit | None, *, both_ways: bool
) -> tuple[Finding, ...]:
    """Return the same of a probe that fills the link, which leaves out what rxe counts (:data:`SOFT_GAPS`).

    Where rxe's counter at the source moved, `remark` tells it. rxe's gaps while single messages are on their
    way, or trains that wait for their receiver, cannot come from a full socket buffer and stay findings.
    """
    if not _tolerates_none(limit):
        return ()
    return _finding(probe, pair, gaps(samples, but=SOFT_GAPS, both_ways=both_ways))


def _tolerates_none(limit: LossLimit | None) -> bool:
    return limit is not None and limit.max_rate == 0


def _finding(probe: str, pair: PairId, counted: str) -> tuple[Finding, ...]:
    if not counted:
        return ()
    return (
        Finding(
            check=CHECK,
            subject=str(pair),
            outcome=Outcome.UNKNOWN,
            what=f"while {probe} ran, the NICs counted gaps: {counted}; packets of this port were lost and"
            " sent again, or overtaken, and the policy tolerates no loss",
            measured=counted,
            limit="none",
            next_step=f'"fabricctl verify --probes loss --pairs {pair.source}:{pair.target}" counts on'
            " connections that hide nothing; drain other traffic first",
        ),
    )
