"""What ``write_bandwidth_both`` is, for both of its halves; standard library only."""

from __future__ import annotations

NAME = "write_bandwidth_both"
MEASURES = (
    "Goodput from source to target while the target streams to the source as well: RDMA WRITEs of mixed"
    " sizes on several reliable connections, from the first post to the last completion; the other"
    " direction's goodput is kept beside it and judged with the pair the other way round"
)
