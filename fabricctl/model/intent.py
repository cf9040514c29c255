"""What one port should be, the same for every vendor."""

from __future__ import annotations

from dataclasses import dataclass

from fabricctl.model.fabric import LinkLayer, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile


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
