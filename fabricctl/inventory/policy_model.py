"""Turns a policy file into the model's policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fabricctl.inventory.policy_schema import (
    LimitsFile,
    LinksFile,
    PolicyFile,
    bandwidth_limits,
    latency_limits,
)
from fabricctl.model.policy import (
    EcnProfile,
    GatePolicy,
    LatencyLimit,
    Limits,
    LinkPolicy,
    LossLimit,
    MtuPolicy,
    OutlierLimit,
    Policy,
    TrafficClass,
    Watchdog,
)


def latency_of(probe: str, topologies: dict[Any, dict[str, float]]) -> tuple[LatencyLimit, ...]:
    """Return the latency limits of one probe."""
    return tuple(
        limit for name, given in topologies.items() for limit in latency_limits(probe, str(name), given)
    )


def policy_of(given: PolicyFile, path: Path) -> Policy:
    """Return what the policy file at `path` means."""
    mtu, gate = given.mtu, given.gate
    rdma = mtu.rdma_bytes
    return Policy(
        name=given.name,
        link_layer=given.link_layer,
        lossless=TrafficClass(**given.lossless.model_dump()) if given.lossless else None,
        cnp=TrafficClass(**given.cnp.model_dump()) if given.cnp else None,
        mtu=MtuPolicy(mtu.nic_bytes or rdma, mtu.switch_bytes or rdma, rdma),
        pfc_priorities=tuple(sorted(given.pfc_priorities or ())),
        ecn={speed: EcnProfile(e.kmin, e.kmax, e.pmax) for speed, e in (given.ecn or {}).items()},
        limits=_model_limits(given.limits),
        gate=GatePolicy(gate.max_age, gate.unknown, gate.simulated, gate.pairs),
        class_weights=dict(given.class_weights),
        unsupported=given.unsupported,
        source=str(path.resolve()),
        dscp_map=given.dscp_map,
        watchdog=Watchdog(**given.pfc_watchdog.model_dump()) if given.pfc_watchdog else None,
        # Where nothing marks, nothing is to be heeded, and what NICs would do about it is their own matter.
        dcqcn=(True if given.ecn and given.cnp else None) if given.dcqcn is None else given.dcqcn,
        nic_parameters=given.nic_parameters,
        nic_priority_buffer=given.nic_buffers.by_priority if given.nic_buffers else (),
        nic_buffer_bytes=given.nic_buffers.sizes if given.nic_buffers else (),
        links=_model_links(given.links),
    )


def _model_limits(given: LimitsFile) -> Limits:
    return Limits(
        latency=tuple(limit for probe, by in given.latency.items() for limit in latency_of(probe, by)),
        loss=LossLimit(**given.loss.model_dump()) if given.loss else None,
        latency_samples=given.latency_samples,
        warmup=given.warmup,
        message_bytes=given.message_bytes,
        loss_queue_pairs=given.loss_queue_pairs,
        bandwidth=bandwidth_limits(given.bandwidth),
        bandwidth_seconds=given.bandwidth_seconds,
        bandwidth_queue_pairs=given.bandwidth_queue_pairs,
        bandwidth_sizes=given.bandwidth_sizes,
        bandwidth_depth=given.bandwidth_depth,
        outliers=OutlierLimit(**given.outliers.model_dump()),
        class_proof=given.class_proof,
    )


def _model_links(given: LinksFile) -> LinkPolicy:
    return LinkPolicy(
        interval_s=given.interval,
        stable_s=given.stable,
        error_per_s=given.errors_per_s,
        discard_per_s=given.discards_per_s,
        storm_per_s=given.storms_per_s,
        pause_percent=given.pause_percent,
        congestion_per_s=given.congestion_per_s,
        uplink_ratio=given.uplink_ratio,
        ib_width=given.ib_width,
        subnet_managers=given.subnet_managers,
        symbol_ber=given.symbol_ber,
        effective_ber=given.effective_ber,
        memlock_bytes=given.memlock,
        open_files=given.open_files,
        clock_skew_s=given.clock_skew_s,
        max_read_request_bytes=given.max_read_request,
        acs=given.acs,
        relaxed_ordering=given.relaxed_ordering,
        gpu_direct=given.gpu_direct,
        numa_affinity=given.numa_affinity,
        rails_in_order=given.rails_in_order,
    )
