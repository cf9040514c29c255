"""What ``send_bandwidth`` is, for both of its halves; standard library only."""

from __future__ import annotations

NAME = "send_bandwidth"
MEASURES = (
    "Goodput one way, from source to target, of SENDs of mixed sizes on several reliable connections,"
    " from the first post to the last acknowledgement; the target's software posts a receive for each"
    " message, and where it is slow the goodput is less"
)
