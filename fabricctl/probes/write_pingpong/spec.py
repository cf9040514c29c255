"""What ``write_pingpong`` is, for both of its halves; standard library only."""

from __future__ import annotations

NAME = "write_pingpong"
MEASURES = (
    "Half of the round trip of two RDMA WRITEs, one each way, as ib_write_lat counts: each side writes, takes"
    " the completion and waits until the other's message shows in its memory; both nodes' software is inside"
)
SLOWEST_S = 0.2
"""Seconds that a round trip may take on average before the probe is given up."""
ALIGN_BYTES = 64
"""Messages start on cache lines of their own."""


def inbound_offset(message_bytes: int) -> int:
    """Return where in its memory each side receives; it sends from offset 0."""
    return -(-message_bytes // ALIGN_BYTES) * ALIGN_BYTES
