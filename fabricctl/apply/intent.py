"""Derives what every port should be from the fabric and its policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fabricctl.model.fabric import Device, Fabric, LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import DscpMap, Policy

PRIORITIES = 8
DSCPS = 64
_ECT0 = 2
"""ECN field of a packet whose sender understands congestion marks."""


@dataclass(frozen=True, slots=True)
class _Classes:
    """What is the same on every Ethernet port."""

    dscp_priority: tuple[int, ...]
    priority_tc: tuple[int, ...]
    tc_scheduler: tuple[str, ...]
    tc_bandwidth_percent: tuple[int, ...]
    roce_tos: int


def intents(fabric: Fabric, policy: Policy) -> dict[PortId, PortIntent]:
    """Return the intent of every port of the fabric; both ends of a link follow from the same policy.

    The lossless class, the CNP class and every PFC priority have the traffic class of their own number, all
    other priorities share class 0. The CNP class is strict, the others share the bandwidth by weight.
    """
    classes = _classes(policy)
    return {
        port.id: _intent(fabric, policy, device, port, classes)
        for device in fabric.devices
        for port in device.ports
    }


def _intent(fabric: Fabric, policy: Policy, device: Device, port: Port, classes: _Classes) -> PortIntent:
    ethernet = port.link_layer is LinkLayer.ETHERNET
    link = fabric.link(port.id)
    speed = _speed_gbps(fabric, port)
    is_switch = device.role is Role.SWITCH
    return PortIntent(
        port=port.id,
        role=device.role,
        link_layer=port.link_layer,
        speed_gbps=speed,
        mtu_bytes=policy.mtu.switch_bytes if is_switch else policy.mtu.nic_bytes,
        rdma_mtu_bytes=policy.mtu.rdma_bytes,
        trust="dscp" if ethernet else "",
        dscp_priority=classes.dscp_priority if ethernet else (),
        priority_tc=classes.priority_tc if ethernet else (),
        tc_scheduler=classes.tc_scheduler if ethernet else (),
        tc_bandwidth_percent=classes.tc_bandwidth_percent if ethernet else (),
        pfc_priorities=policy.pfc_priorities if ethernet else (),
        ecn=policy.ecn_for(speed) if ethernet and is_switch else None,
        roce_tos=classes.roce_tos if ethernet else None,
        cable_length_m=link.cable_length_m if link else 0.0,
        watchdog=policy.watchdog if ethernet and is_switch else None,
        **(_of_a_nic(policy) if ethernet and not is_switch else {}),
    )


def _of_a_nic(policy: Policy) -> dict[str, Any]:
    """Return what only NICs have: notifications are theirs, and so are their receive buffers."""
    return {
        # Pause of the whole link would stop the classes that PFC leaves alone.
        "pause": False if policy.pfc_priorities else None,
        "cnp_dscp": policy.cnp.dscp if policy.cnp else None,
        "cnp_priority": policy.cnp.priority if policy.cnp else None,
        "lossless_priority": policy.lossless.priority if policy.lossless else None,
        "dcqcn": policy.dcqcn if policy.lossless else None,
        "parameters": policy.nic_parameters,
        "priority_buffer": policy.nic_priority_buffer,
        "buffer_size_bytes": policy.nic_buffer_bytes,
    }


def _speed_gbps(fabric: Fabric, port: Port) -> int:
    """Return the port's speed, else that of the port at the other end of its cable; 0 if neither is known."""
    peer = fabric.peer(port.id)
    return port.speed_gbps or (fabric.port(peer).speed_gbps if peer else 0)


def _classes(policy: Policy) -> _Classes:
    own = set(policy.pfc_priorities)
    if policy.lossless:
        own.add(policy.lossless.priority)
    strict = {policy.cnp.priority} if policy.cnp else set()
    bandwidth = _bandwidth(sorted((own | {0}) - strict), policy.class_weights)
    return _Classes(
        dscp_priority=_dscp_priority(policy),
        priority_tc=tuple(p if p in own | strict else 0 for p in range(PRIORITIES)),
        tc_scheduler=tuple("strict" if tc in strict else "ets" for tc in range(PRIORITIES)),
        tc_bandwidth_percent=tuple(bandwidth.get(tc, 0) for tc in range(PRIORITIES)),
        roce_tos=_roce_tos(policy),
    )


def _dscp_priority(policy: Policy) -> tuple[int, ...]:
    shift = policy.dscp_map is DscpMap.SHIFT
    priorities = [dscp >> 3 if shift else 0 for dscp in range(DSCPS)]
    for named in (policy.lossless, policy.cnp):
        if named:
            priorities[named.dscp] = named.priority
    return tuple(priorities)


def _bandwidth(classes: list[int], weights: Mapping[int, int]) -> dict[int, int]:
    """Return percents that sum to 100: the weights, what they leave to class 0; else equal shares."""
    if not classes:
        return {}
    rest = 0 if 0 in classes else classes[0]
    shares = {tc: weights.get(tc, 0) if weights else 100 // len(classes) for tc in classes}
    shares[rest] += 100 - sum(shares.values())
    return shares


def _roce_tos(policy: Policy) -> int:
    dscp = policy.lossless.dscp if policy.lossless else 0
    return dscp << 2 | (_ECT0 if policy.ecn else 0)
