"""What a NIC's own counters say of lost packets, by the names that drivers give them.

A reliable connection hides loss: the packet is sent again. The counters that moved meanwhile are of two
kinds. A sequence error means that the other end saw a gap: a packet was lost (or overtaken). A retry or a
timeout means only that no answer came in time, which a slow or overloaded host causes as well; it is shown,
it decides nothing. Counters of the responder are left out where they count what the requester counts too.
"""

from __future__ import annotations

from collections.abc import Iterable

from fabricctl.model.probe import Sample
from fabricctl.model.reading import Known

GAPS = frozenset(
    {
        "packet_seq_err",  # mlx5: sequence NAK received
        "implied_nak_seq_err",  # mlx5: a READ response is missing
        "seq_err_naks_rcvd",  # bnxt_re
        "rcvd_seq_err",  # rxe
        "rdma_req_rx_pkt_seq_err",  # ionic
        "rdma_req_rx_implied_nak_seq_err",  # ionic
    }
)
"""Requester counters that move only when the other end saw a gap."""

RETRIES = frozenset(
    {
        "local_ack_timeout_err",  # mlx5
        "roce_adp_retrans",  # mlx5, adaptive retransmission
        "roce_adp_retrans_to",  # mlx5
        "req_transport_retries_exceeded",  # mlx5
        "to_retransmits",  # bnxt_re
        "max_retry_exceeded",  # bnxt_re
        "RetransSegs",  # irdma
        "tcpRetransSegs",  # irdma, older kernels
        "completer_retry_err",  # rxe: every go-back-N, by timer or by NAK
        "retry_exceeded_err",  # rxe
    }
)
"""Requester counters that move on every retransmission, whatever its cause."""


def moved(samples: Iterable[Sample], names: frozenset[str]) -> dict[str, int] | None:
    """Return by how much counters of `names` moved at the source, those that did not move left out.

    None if not a single one of them could be read: then nothing is known.
    """
    found: dict[str, int] = {}
    readable = False
    for sample in samples:
        for key, entry in sample.counters.items():
            side, _, name = key.partition("/")
            if side != "source" or name not in names:
                continue
            if isinstance(entry, Known) and isinstance(entry.value, int):
                readable = True
                if entry.value:
                    found[name] = found.get(name, 0) + entry.value
    return found if readable else None


def remark(samples: Iterable[Sample]) -> str:
    """Return ``; the NIC sent again meanwhile: completer_retry_err +3``, or nothing if it did not."""
    found = moved(samples, GAPS | RETRIES)
    if not found:
        return ""
    return "; the NIC sent again meanwhile: " + ", ".join(f"{name} +{n}" for name, n in sorted(found.items()))
