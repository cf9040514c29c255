"""What one port should be, the same for every vendor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabricctl.model.fabric import LinkLayer, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Watchdog


@dataclass(frozen=True, slots=True)
class PortIntent:
    """The intent for one port; both ends of a link are derived from the same policy.

    Parameters
    ----------
    mtu_bytes
        MTU of the netdev (node) or of the switch port as its OS counts it.
    rdma_mtu_bytes
        Path MTU that queue pairs are to use; it must follow from `mtu_bytes` on a node.
    trust
        ``dscp`` or ``pcp``; empty on InfiniBand.
    dscp_priority
        64 priorities; empty on InfiniBand.
    priority_tc, tc_scheduler, tc_bandwidth_percent
        8 entries each as in ``model/settings.py``; empty on InfiniBand.
    pfc_priorities
        Ascending.
    ecn
        Marking profile of a switch port's lossless queue; None is ECN off. NICs do not mark.
    roce_tos
        Type of service of RoCE traffic, DSCP << 2 | 2 (ECT(0)) when ECN is on; None on InfiniBand.
    cable_length_m
        Length of the cable in this port; 0 if the inventory does not say.
    watchdog
        PFC watchdog of a switch port; None is not ours to set.
    pause
        802.3x pause of the whole link; None is not ours to set.
    cnp_dscp, cnp_priority
        Class of the congestion notifications that a NIC sends; None without one.
    lossless_priority
        Priority that RDMA rides; None without a lossless class.
    dcqcn
        Whether a NIC takes part in DCQCN on the lossless priority; None is not ours to set.
    parameters
        By driver and name: what the policy gives NICs of that vendor beyond the common settings.
    priority_buffer, buffer_size_bytes
        8 entries each as in ``model/settings.py``; empty leaves the NIC's receive buffers to its driver.
    """

    port: PortId
    role: Role
    link_layer: LinkLayer
    speed_gbps: int
    mtu_bytes: int
    rdma_mtu_bytes: int
    trust: str
    dscp_priority: tuple[int, ...]
    priority_tc: tuple[int, ...]
    tc_scheduler: tuple[str, ...]
    tc_bandwidth_percent: tuple[int, ...]
    pfc_priorities: tuple[int, ...]
    ecn: EcnProfile | None
    roce_tos: int | None
    cable_length_m: float
    pause: bool | None = None
    cnp_dscp: int | None = None
    cnp_priority: int | None = None
    lossless_priority: int | None = None
    dcqcn: bool | None = None
    parameters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    priority_buffer: tuple[int, ...] = ()
    buffer_size_bytes: tuple[int, ...] = ()
    watchdog: Watchdog | None = None
