"""What ``send_latency`` is, for both of its halves; standard library only."""

from __future__ import annotations

NAME = "send_latency"
MEASURES = (
    "Half of the round trip of two SENDs, one each way, as ib_send_lat counts: each side sends and waits"
    " for the completion of its receive; both nodes' software is inside"
)
SLOWEST_S = 0.2
"""Seconds that a round trip may take on average before the probe is given up."""
