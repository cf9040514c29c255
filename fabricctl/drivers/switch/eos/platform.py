"""What the hardware of a switch calls its queues, from its model and from what its configuration uses."""

from __future__ import annotations

import re

from fabricctl.drivers.switch.eos.profile import SHARED, UNICAST
from fabricctl.plugin.answers import Unread

# The R-series (Jericho and its kin) has one kind of queue. The others (Trident, Tomahawk) tell unicast queues
# from multicast queues.
_SHARED = re.compile(r"(?:DCS-)?7(?:020|280|289|500|504|508|512|516|700|800|804|808|812|816)")
_UNICAST = re.compile(r"(?:DCS-)?7(?:010|050|060|250|260|300|304|308|316|320|324|328|358|368|388)(?!\d)")


def queue_mode(model: str, config: str) -> str:
    """Return ``uc-tx-queue`` or ``tx-queue``; Unread if neither the model nor the configuration tells."""
    if _UNICAST.match(model):
        return UNICAST
    if _SHARED.match(model):
        return SHARED
    used = {mode for mode in (UNICAST, SHARED) if re.search(rf"(?m)^\s+{mode} [0-7]$", config)}
    if len(used) == 1:
        return used.pop()
    raise Unread(f"the model {model!r} is not known, so neither is what it calls its queues")
