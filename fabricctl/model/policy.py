"""What the fabric should be: classes, MTU, PFC, ECN, the limits that certify, and how the gate behaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fabricctl.model.fabric import LinkLayer


class Stance(StrEnum):
    """What to do about something that is not as it should be."""

    REFUSE = "refuse"
    WARN = "warn"
    ALLOW = "allow"


class DscpMap(StrEnum):
    """Where packets go whose DSCP is neither the lossless class's nor that of congestion notification."""

    ZERO = "zero"
    """All to priority 0: nothing else rides the lossless class."""
    SHIFT = "shift"
    """To priority DSCP >> 3, as most NICs do by default."""


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """A class of traffic: `priority` 0..7 (802.1p), `dscp` 0..63."""

    priority: int
    dscp: int


@dataclass(frozen=True, slots=True)
class MtuPolicy:
    """MTU per layer, in bytes.

    Parameters
    ----------
    nic_bytes
        Netdev MTU of NIC ports, without the Ethernet header.
    switch_bytes
        Port MTU of switches, as their OS counts it; at least `nic_bytes`.
    rdma_bytes
        Path MTU of queue pairs: 256, 512, 1024, 2048 or 4096.
    """

    nic_bytes: int
    switch_bytes: int
    rdma_bytes: int


@dataclass(frozen=True, slots=True)
class EcnProfile:
    """WRED marking: nothing below `kmin_bytes`, `pmax_percent` at `kmax_bytes`, all above."""

    kmin_bytes: int
    kmax_bytes: int
    pmax_percent: int


@dataclass(frozen=True, slots=True)
class Watchdog:
    """PFC watchdog of switch ports, on all PFC priorities; times in milliseconds.

    Parameters
    ----------
    poll_ms
        How often the switch looks; detection takes at least twice as long.
    detect_ms
        Time without a packet sent after which a paused queue counts as stormed.
    restore_ms
        Time without a pause after which it works again.
    action
        ``drop`` or ``forward``: what becomes of a stormed queue's packets.
    """

    on: bool = True
    poll_ms: int = 200
    detect_ms: int = 400
    restore_ms: int = 400
    action: str = "drop"


@dataclass(frozen=True, slots=True)
class LatencyLimit:
    """An upper limit on one percentile of one probe.

    Parameters
    ----------
    probe
        Name of the probe (``read_latency``).
    percentile
        0 < percentile < 100, as perftest writes it: 50, 99, 99.9.
    max_ns
        Largest value that passes, in nanoseconds, as the probe counts (its docs say round trip or one way).
    topology
        Topology class it holds for, ``any`` for all.
    """

    probe: str
    percentile: float
    max_ns: int
    topology: str = "any"


@dataclass(frozen=True, slots=True)
class LossLimit:
    """How much packet loss is tolerated, and how surely that must be known.

    Parameters
    ----------
    max_rate
        Largest fraction of packets lost per direction that passes, 0..1. A single lost packet fails
        when it is 0.
    bound_rate
        The exact upper confidence bound must not exceed this fraction; it sets how many packets are sent.
    confidence
        One-sided confidence of the bound, 0 < confidence < 1.
    """

    max_rate: float
    bound_rate: float
    confidence: float


@dataclass(frozen=True, slots=True)
class BandwidthLimit:
    """A lower limit on the goodput of one probe; one of the two is given, or both.

    Parameters
    ----------
    probe
        Name of the probe (``write_bandwidth``).
    min_share
        Least share of the line rate that passes, 0 < share <= 1; None: no share is asked for. The line rate
        is the smaller of both ports' speeds in the inventory.
    min_gbps
        Least goodput that passes, in Gbit/s of payload (10^9 bits); None: none is asked for.
    topology
        Topology class it holds for, ``any`` for all.
    """

    probe: str
    min_share: float | None = None
    min_gbps: float | None = None
    topology: str = "any"


@dataclass(frozen=True, slots=True)
class OutlierLimit:
    """When a pair is too slow beside the others of its class, and what that does.

    Parameters
    ----------
    stance
        ``warn``: the pair passes, with a note and a suspect. ``refuse``: it fails. ``allow``: nothing is
        compared.
    false_alarms
        Chance that a run of a fabric without any outlier names one, 0 < chance < 1.
    percent, us
        Least difference from the class's median that matters, in percent; of latencies also in microseconds.
    pairs
        A class of fewer directed pairs is not compared.
    """

    stance: Stance = Stance.WARN
    false_alarms: float = 0.01
    percent: float = 10.0
    us: float = 1.0
    pairs: int = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a pair must show to be certified.

    Parameters
    ----------
    latency_samples
        Timed operations per pair, direction and probe.
    warmup
        Operations before them that are not counted.
    message_bytes
        Message size of the latency probes, in bytes.
    loss_queue_pairs
        Number of UC queue pairs, with differing flow labels, that the loss probe spreads over.
    bandwidth
        What the bandwidth probes must reach.
    bandwidth_seconds
        How long a bandwidth probe streams in one direction, in seconds.
    bandwidth_queue_pairs
        Number of RC queue pairs, with differing flow labels, that it streams on; a bond needs two.
    bandwidth_sizes
        Sizes of its messages in bytes, taken in turn; the largest is longer than the path MTU.
    bandwidth_depth
        Requests that it keeps under way on each queue pair.
    outliers
        When a pair is slow beside the others of its class.
    class_proof
        Whether a pair is unknown if no counters on its way prove that its probes rode the lossless class.
    """

    latency: tuple[LatencyLimit, ...]
    loss: LossLimit | None
    latency_samples: int = 1000
    warmup: int = 100
    message_bytes: int = 8
    loss_queue_pairs: int = 8
    bandwidth: tuple[BandwidthLimit, ...] = ()
    bandwidth_seconds: float = 1.0
    bandwidth_queue_pairs: int = 2
    bandwidth_sizes: tuple[int, ...] = (512, 65_536, 1_048_576)
    bandwidth_depth: int = 16
    outliers: OutlierLimit = OutlierLimit()
    class_proof: bool = False

    @property
    def limited(self) -> frozenset[str]:
        """Names of the probes whose latency or bandwidth is limited: a run that leaves one out is unknown."""
        return frozenset({a.probe for a in self.latency} | {b.probe for b in self.bandwidth})


ALL_PAIRS = "all"
"""`GatePolicy.pairs`: every pair of a job's ports counts."""


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """How the gate answers.

    Parameters
    ----------
    max_age_s
        How long a certificate lives, in seconds.
    unknown
        When a port has no certificate or the store cannot be read.
    simulated
        When the evidence comes from a simulated fabric.
    pairs
        ``all``: every pair of the job's ports on the same rail must have passed; ``ports``: each port's own
        certificate is enough.
    """

    max_age_s: int = 7 * 24 * 3600
    unknown: Stance = Stance.REFUSE
    simulated: Stance = Stance.REFUSE
    pairs: str = "all"


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """What links and hosts must hold; ``fabricctl links`` has no limit that is not here.

    Parameters
    ----------
    interval_s
        Seconds over which counters are watched.
    stable_s
        Seconds that must have passed since a link last went down.
    error_per_s, discard_per_s, storm_per_s
        Largest rate of one port that passes, per second: frames or symbols in error; packets dropped for lack
        of a buffer; pause storms and watchdog events.
    pause_percent
        Largest part of the interval for which a port may have been paused, in percent; pauses are congestion
        and not a fault, so what is more is told as such.
    congestion_per_s
        Rate above which InfiniBand's congestion counters (XmitWait apart) are told; they never fail a link.
    uplink_ratio
        How many times the even share of destinations an uplink of an InfiniBand leaf may carry; 0 is any.
    ib_width
        Lanes of an InfiniBand link: 1, 2, 4, 8 or 12.
    subnet_managers
        Nodes or GUIDs (``0x`` and 16 digits) that may be master; empty is any.
    symbol_ber, effective_ber
        Largest bit error rate that passes, as a fraction (1e-15): symbol, after all correction (what
        applications see of HDR and NDR); effective, after FEC, where the other is not given (EDR and older).
    memlock_bytes
        Least limit on locked memory that the launcher must have; None is unlimited.
    open_files
        Least limit on open files that the launcher must have.
    clock_skew_s
        Largest difference between a node's clock and the controller's that passes, in seconds.
    max_read_request_bytes
        PCIe maximum read request of NICs, in bytes; 0 is any.
    acs, relaxed_ordering
        ``on``, ``off`` or ``any``: PCIe access control redirection above NICs; relaxed ordering of NICs.
    gpu_direct
        ``peermem``, ``dmabuf``, ``either``, ``none``, or ``any`` for what nobody minds.
    numa_affinity
        Whether interrupts of a NIC must be served by CPUs of its own NUMA node.
    rails_in_order
        Whether NICs in PCI order must have ascending rails.
    """

    interval_s: int = 10
    stable_s: int = 600
    error_per_s: float = 0.0
    discard_per_s: float = 0.0
    storm_per_s: float = 0.0
    pause_percent: float = 5.0
    congestion_per_s: float = 100.0
    uplink_ratio: float = 2.0
    ib_width: int = 4
    subnet_managers: tuple[str, ...] = ()
    symbol_ber: float = 1e-15
    effective_ber: float = 1e-15
    memlock_bytes: int | None = None
    open_files: int = 65536
    clock_skew_s: float = 1.0
    max_read_request_bytes: int = 0
    acs: str = "any"
    relaxed_ordering: str = "any"
    gpu_direct: str = "any"
    numa_affinity: bool = False
    rails_in_order: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy file.

    Parameters
    ----------
    lossless
        Class that RDMA rides; None if no class is lossless.
    cnp
        Class of congestion notification packets; None if ECN is off.
    pfc_priorities
        Priorities with PFC on, ascending; empty is PFC off.
    ecn
        Marking profile by port speed in Gb/s; speed 0 holds for every speed not named. Empty is ECN off.
    class_weights
        ETS bandwidth in percent by priority; priorities not named share class 0. The CNP class is strict.
    unsupported
        What a setting that a device cannot have does to an apply (allow = silent is not on offer).
    source
        Path of the file.
    watchdog
        PFC watchdog of switch ports; None leaves it to them.
    dscp_map
        The priorities of all other DSCPs.
    dcqcn
        Whether NICs take part in DCQCN on the lossless priority; None leaves that to them.
    nic_parameters
        By NIC driver and name: values for NICs of that vendor alone (``mlx5``, ``rp_ai_rate``).
    nic_priority_buffer, nic_buffer_bytes
        Receive buffer of each of 8 priorities, size of each of 8 buffers in bytes; empty leaves both to the
        NIC's driver.
    links
        What ``fabricctl links`` holds links and hosts against.
    """

    name: str
    link_layer: LinkLayer
    lossless: TrafficClass | None
    cnp: TrafficClass | None
    mtu: MtuPolicy
    pfc_priorities: tuple[int, ...]
    ecn: Mapping[int, EcnProfile]
    limits: Limits
    gate: GatePolicy = field(default_factory=GatePolicy)
    class_weights: Mapping[int, int] = field(default_factory=dict)
    unsupported: Stance = Stance.WARN
    source: str = ""
    dscp_map: DscpMap = DscpMap.ZERO
    watchdog: Watchdog | None = None
    dcqcn: bool | None = None
    nic_parameters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    nic_priority_buffer: tuple[int, ...] = ()
    nic_buffer_bytes: tuple[int, ...] = ()
    links: LinkPolicy = field(default_factory=LinkPolicy)

    def ecn_for(self, speed_gbps: int) -> EcnProfile | None:
        """Return the marking profile of a port of that speed, None where none is meant."""
        return self.ecn.get(speed_gbps, self.ecn.get(0))

    @property
    def roce_tos(self) -> int:
        """Type of service of RoCE traffic: the lossless DSCP << 2, plus ECT(0) when ECN is on; 0 for none."""
        if self.lossless is None:
            return 0
        return self.lossless.dscp << 2 | (2 if self.ecn else 0)
