"""What ``read_latency`` is, for both of its halves; standard library only."""

from __future__ import annotations

NAME = "read_latency"
MEASURES = (
    "Round trip of one RDMA READ at a time on a reliable connection: from before the request is posted until"
    " its completion is seen, with the target NIC's memory read and the source's software inside, without the"
    " target's CPU"
)
SLOWEST_S = 0.1
"""Seconds that an operation may take on average before the probe is given up."""
