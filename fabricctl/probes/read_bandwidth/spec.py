"""What ``read_bandwidth`` is, for both of its halves; standard library only."""

from __future__ import annotations

NAME = "read_bandwidth"
MEASURES = (
    "Goodput one way, from target to source: payload of RDMA READs of mixed sizes on several reliable"
    " connections, from the first post to the last completion; headers are not in it, packets sent again"
    " count once; the target's CPU takes no part"
)
