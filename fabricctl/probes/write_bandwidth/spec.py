"""What ``write_bandwidth`` is, for both of its halves; standard library only."""

from __future__ import annotations

NAME = "write_bandwidth"
MEASURES = (
    "Goodput one way, from source to target: payload of RDMA WRITEs of mixed sizes on several reliable"
    " connections, acknowledged within the time from the first post to the last completion; headers are"
    " not in it, packets sent again count once; the target's CPU takes no part"
)
