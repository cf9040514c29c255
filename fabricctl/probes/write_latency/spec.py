"""What ``write_latency`` is, for both of its halves; standard library only."""

from __future__ import annotations

NAME = "write_latency"
MEASURES = (
    "Request to acknowledgement of one RDMA WRITE at a time on a reliable connection: from before the request"
    " is posted until its completion is seen, with the source's software inside; an acknowledgement does not"
    " say that the target's memory already shows the data"
)
SLOWEST_S = 0.1
"""Seconds that an operation may take on average before the probe is given up."""
