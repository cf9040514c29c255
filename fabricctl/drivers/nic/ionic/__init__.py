"""AMD Pensando NICs (Pollara and its successors) through ``nicctl``.

Facts come from AMD's ROCm documentation (distributed inference with MoRI; network configuration for
performance), the fixtures of AMD's node-scraper and the kernel's ionic driver; nothing was run on hardware.

- ``ethtool -A`` must not be used here: the kernel's driver then asks for pause of the whole link, which
  replaces priority pause, and ``ethtool -a`` shows the directions of either kind.
- Every priority has a queue of its own, so there is no map of priorities to classes; a priority without a
  DSCP has no queue. A strict queue needs a rate limit.
- Whatever parameter of DCQCN is set switches it on.
"""

from __future__ import annotations

from fabricctl.drivers.nic.ionic import parse, steps
from fabricctl.model.fabric import Role
from fabricctl.plugin.driving import MadeDriver

PLUGIN = MadeDriver(
    name="ionic",
    role=Role.NODE,
    queries=parse.queries,
    parse=parse.parse,
    wanted=steps.wanted,
    disruption=steps.disruption,
    unsupported=steps.UNSUPPORTED,
    parameters=steps.PARAMETERS,
)
