"""Names of settings that only this driver has, and what stands in for them."""

from __future__ import annotations

ECN_QUEUES = "eos.ecn_queues"
"""tuple of ints, ascending: the transmit queues that mark."""
ECN_COUNTED = "eos.ecn_counted"
"""bool: whether the marks of every queue that marks are counted."""

QUEUE_MODE = "eos.queue_mode"
"""str: ``uc-tx-queue`` or ``tx-queue``. Never wanted, as all that follow: a push must know them."""
MAP_MODE = "eos.map_mode"
"""str: what the switch calls its queues in the map of traffic classes."""
PROFILE = "eos.profile"
"""str: the QoS profile of the port, ``none`` without one."""
DEFAULT_TRUST = "eos.default_trust"
"""str: what the port trusts where nothing is said: ``dscp`` if it is routed, ``pcp`` if it is switched."""
GUARANTEED = "eos.guaranteed"
"""tuple of strs ``3 percent 1``: queues with guaranteed bandwidth."""
REST = "eos.profile_rest"
"""tuple of strs: lines of the port's profile that mean none of our settings; they move with the port."""
OWN_LINES = "eos.interface_lines"
"""tuple of strs: lines of the interface itself that hold in place of those of its profile."""
PROFILES = "eos.profiles"
"""tuple of strs ``NAME DIGEST USER,USER``: every profile of the switch, what it says, and its interfaces."""

NONE = "none"
MTU_MAX = 9214
"""The largest MTU of EOS, in bytes of the IP packet: what a fabric of 9216 bytes has there."""
RESERVED = 7
"""Traffic class and queue of the switch's own control traffic; it cannot be moved."""
QUEUES = 8
DSCPS = 64
ACTIONS = {"drop": "drop", "forward": "notify-only"}
"""What a policy's action of the watchdog is here: EOS cannot let a stormed queue's packets go on."""
