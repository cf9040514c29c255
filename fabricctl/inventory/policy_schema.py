"""What each value of a policy file may be; what they must be together is in ``policy_rules``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from fabricctl.inventory.quantities import duration_s, size_bytes
from fabricctl.inventory.schema import Int, Strict, Text, Title, not_bool
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.policy import BandwidthLimit, DscpMap, LatencyLimit, Stance

RDMA_HEADERS_BYTES = 96
"""What a NIC takes off its MTU before it rounds down to an RDMA MTU; soft-RoCE takes only 80."""
RDMA_MTUS = (256, 512, 1024, 2048, 4096)

LONGEST_LIMIT_NS = 60 * 1_000_000_000
"""No operation that takes a minute passes as a latency; more is a typing error."""
LONGEST_AGE_S = 10 * 365 * 24 * 3600
LARGEST_BYTES = 1 << 40
MOST_SIZES = 16

_PERCENTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,4})?)_(ns|us|ms)")
_SPEED = re.compile(r"[1-9][0-9]{0,5}")
_UNIT_NS = {"ns": 1, "us": 1000, "ms": 1_000_000}


def _off(value: Any) -> Any:
    """YAML reads a bare ``off`` as false; here it means "none of it"."""
    return None if value is False else value


def _rdma_mtu(value: int) -> int:
    if value not in RDMA_MTUS:
        raise ValueError(f"must be one of {', '.join(map(str, RDMA_MTUS))}")
    return value


def _speed_key(value: Any) -> Any:
    if value == "default":
        return 0
    if not _SPEED.fullmatch(str(value)):
        raise ValueError("must be a port speed in Gb/s, or default")
    return value


def _age(value: int) -> int:
    if value > LONGEST_AGE_S:
        raise ValueError(f"must be at most {LONGEST_AGE_S // (24 * 3600)}d (10 years)")
    return value


Priority = Annotated[Int, Field(ge=0, le=7)]
Dscp = Annotated[Int, Field(ge=0, le=63)]
Mtu = Annotated[Int, Field(ge=68, le=65535)]
Size = Annotated[int, BeforeValidator(size_bytes), Field(ge=1, le=LARGEST_BYTES)]
Message = Annotated[int, BeforeValidator(size_bytes), Field(ge=1, le=1 << 30)]
Age = Annotated[int, BeforeValidator(duration_s), Field(ge=60), AfterValidator(_age)]
Percent = Annotated[Int, Field(ge=1, le=100)]
SpeedKey = Annotated[int, BeforeValidator(_speed_key), Field(ge=0, le=3200)]
Topology = Literal["any", "loopback", "same_leaf", "cross_leaf", "cross_pod", "cross_rail"]


class ClassFile(Strict):
    """``lossless`` or ``cnp``."""

    priority: Priority
    dscp: Dscp


class MtuFile(Strict):
    """``mtu``; on InfiniBand only ``rdma_bytes``."""

    rdma_bytes: Annotated[Int, AfterValidator(_rdma_mtu)]
    nic_bytes: Mtu | None = None
    switch_bytes: Mtu | None = None


class EcnFile(Strict):
    """One profile of ``ecn``."""

    kmin: Size
    kmax: Size
    pmax: Percent


class LossFile(Strict):
    """``limits.loss``."""

    max_rate: Annotated[float, Field(ge=0, lt=1)] = 0.0
    bound_rate: Annotated[float, Field(gt=0, lt=1)]
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95


def latency_limits(probe: str, topology: str, given: Mapping[str, Any]) -> tuple[LatencyLimit, ...]:
    """Return the limits that ``{p50_us: 10, p99_us: 30}`` means, in ascending order of percentile.

    Raises
    ------
    ValueError
        A key is no percentile with a unit, a value is no number from 1 ns to a minute, or a higher
        percentile has the lower limit.
    """
    found: dict[float, int] = {}
    for key, value in given.items():
        match = _PERCENTILE.fullmatch(str(key))
        if not match or float(match[1]) <= 0:
            raise ValueError(f"{key}: unknown key; write pN_ns, pN_us or pN_ms with 0 < N < 100: p99_us")
        if float(match[1]) in found:
            raise ValueError(f"{key}: a second limit for p{match[1]}")
        found[float(match[1])] = _limit_ns(str(key), value, _UNIT_NS[match[2]])
    ordered = sorted(found.items())
    for (low, low_ns), (high, high_ns) in pairwise(ordered):
        if high_ns < low_ns:
            raise ValueError(f"the limit of p{high:g} is less than that of p{low:g}")
    return tuple(LatencyLimit(probe, percentile, max_ns, topology) for percentile, max_ns in ordered)


def _limit_ns(key: str, value: Any, unit_ns: int) -> int:
    # Not a number (.nan) is above nothing; infinity (.inf) is refused with what is too much.
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{key}: must be a number above 0")
    if value > LONGEST_LIMIT_NS / unit_ns:
        raise ValueError(f"{key}: must be at most a minute")
    if value * unit_ns < 1:
        raise ValueError(f"{key}: must be at least 1 ns")
    return round(value * unit_ns)


def _percentiles(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        raise ValueError("must be a mapping such as {p50_us: 10, p99_us: 30}")
    latency_limits("", "any", value)
    return value


Percentiles = Annotated[dict[str, float], BeforeValidator(_percentiles)]


def _some(sizes: tuple[int, ...]) -> tuple[int, ...]:
    # After the entries: a list of which one entry is wrong would also count as too short.
    if not 1 <= len(sizes) <= MOST_SIZES:
        raise ValueError(f"must have 1 to {MOST_SIZES} entries")
    return sizes


class GoodputFile(Strict):
    """What one bandwidth probe must reach in one topology class."""

    min_share: Annotated[float | None, BeforeValidator(not_bool), Field(gt=0, le=1)] = None
    min_gbps: Annotated[float | None, BeforeValidator(not_bool), Field(gt=0, le=100_000)] = None


Goodputs = dict[str, dict[Topology, GoodputFile]]


def bandwidth_limits(given: Goodputs) -> tuple[BandwidthLimit, ...]:
    """Return the limits that ``{write_bandwidth: {any: {min_share: 0.9}}}`` means."""
    return tuple(
        BandwidthLimit(probe, least.min_share, least.min_gbps, topology)
        for probe, topologies in given.items()
        for topology, least in topologies.items()
    )


class OutlierFile(Strict):
    """``limits.outliers``: as :class:`fabricctl.model.policy.OutlierLimit`."""

    stance: Stance = Stance.WARN
    false_alarms: Annotated[float, BeforeValidator(not_bool), Field(ge=1e-6, le=0.5)] = 0.01
    percent: Annotated[float, BeforeValidator(not_bool), Field(ge=0, le=1000)] = 10.0
    us: Annotated[float, BeforeValidator(not_bool), Field(ge=0, le=1e6)] = 1.0
    pairs: Annotated[Int, Field(ge=8)] = 20


def _allowed(value: Any) -> Any:
    return {"stance": "allow"} if value is False else value


class LimitsFile(Strict):
    """``limits``."""

    latency: dict[str, dict[Topology, Percentiles]] = Field(default_factory=dict)
    bandwidth: Goodputs = Field(default_factory=dict)
    bandwidth_seconds: Annotated[float, BeforeValidator(not_bool), Field(ge=0.05, le=60)] = 1.0
    bandwidth_queue_pairs: Annotated[Int, Field(ge=1, le=64)] = 2
    bandwidth_sizes: Annotated[tuple[Message, ...], AfterValidator(_some)] = (512, 65_536, 1_048_576)
    bandwidth_depth: Annotated[Int, Field(ge=1, le=1024)] = 16
    loss: Annotated[LossFile | None, BeforeValidator(_off)] = None
    latency_samples: Annotated[Int, Field(ge=1, le=10_000_000)] = 1000
    warmup: Annotated[Int, Field(ge=0, le=1_000_000)] = 100
    message_bytes: Annotated[Int, Field(ge=1, le=1 << 30)] = 8
    loss_queue_pairs: Annotated[Int, Field(ge=1, le=256)] = 8
    outliers: Annotated[OutlierFile, BeforeValidator(_allowed)] = OutlierFile()
    class_proof: bool = False


class GateFile(Strict):
    """``gate``."""

    max_age: Age = 7 * 24 * 3600
    unknown: Stance = Stance.REFUSE
    simulated: Stance = Stance.REFUSE
    pairs: Literal["all", "ports"] = "all"


def _eight(values: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(values.get(number, 0) for number in range(8))


class BuffersFile(Strict):
    """``nic_buffers``: receive buffers of NICs; what is not named is buffer 0, or has no room."""

    priority: dict[Priority, Priority]
    bytes: dict[Priority, Size]

    @property
    def by_priority(self) -> tuple[int, ...]:
        """The buffer of each priority."""
        return _eight(self.priority)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each buffer, in bytes."""
        return _eight(self.bytes)


Milliseconds = Annotated[Int, Field(ge=10, le=60_000)]


class WatchdogFile(Strict):
    """``pfc_watchdog``: as :class:`fabricctl.model.policy.Watchdog`."""

    on: bool = True
    poll_ms: Milliseconds = 200
    detect_ms: Milliseconds = 400
    restore_ms: Milliseconds = 400
    action: Literal["drop", "forward"] = "drop"


def _switched_off(value: Any) -> Any:
    return {"on": False} if value is False else value


def _switch_word(value: Any) -> Any:
    """YAML reads a bare ``on`` as true."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _unlimited(value: Any) -> Any:
    if value == "unlimited":
        return None
    try:
        return size_bytes(value)
    except ValueError as exc:
        raise ValueError(f"{exc}; or unlimited") from None


Rate = Annotated[float, BeforeValidator(not_bool), Field(ge=0, le=1e12)]
Ratio = Annotated[float, BeforeValidator(not_bool), Field(gt=0, lt=1)]
SwitchWord = Annotated[Literal["on", "off", "any"], BeforeValidator(_switch_word)]
ReadRequest = Annotated[Literal[0, 128, 256, 512, 1024, 2048, 4096], BeforeValidator(not_bool)]


class LinksFile(Strict):
    """``links``: as :class:`fabricctl.model.policy.LinkPolicy`."""

    interval: Annotated[int, BeforeValidator(duration_s), Field(ge=1, le=3600)] = 10
    stable: Annotated[int, BeforeValidator(duration_s), Field(ge=0), AfterValidator(_age)] = 600
    errors_per_s: Rate = 0.0
    discards_per_s: Rate = 0.0
    storms_per_s: Rate = 0.0
    pause_percent: Annotated[float, BeforeValidator(not_bool), Field(ge=0, le=100)] = 5.0
    congestion_per_s: Rate = 100.0
    uplink_ratio: Annotated[float, BeforeValidator(not_bool), Field(ge=0, le=1000)] = 2.0
    ib_width: Annotated[Literal[1, 2, 4, 8, 12], BeforeValidator(not_bool)] = 4
    subnet_managers: tuple[Title, ...] = ()
    symbol_ber: Ratio = 1e-15
    effective_ber: Ratio = 1e-15
    memlock: Annotated[int | None, BeforeValidator(_unlimited)] = None
    open_files: Annotated[Int, Field(ge=0, le=1 << 31)] = 65536
    clock_skew_s: Annotated[float, BeforeValidator(not_bool), Field(gt=0, le=86400)] = 1.0
    max_read_request: ReadRequest = 0
    acs: SwitchWord = "any"
    relaxed_ordering: SwitchWord = "any"
    gpu_direct: Literal["peermem", "dmabuf", "either", "none", "any"] = "any"
    numa_affinity: bool = False
    rails_in_order: bool = False


class PolicyFile(Strict):
    """A policy file."""

    name: Title
    link_layer: LinkLayer = LinkLayer.ETHERNET
    mtu: MtuFile
    lossless: Annotated[ClassFile | None, BeforeValidator(_off)] = None
    cnp: Annotated[ClassFile | None, BeforeValidator(_off)] = None
    pfc_priorities: Annotated[tuple[Priority, ...] | None, BeforeValidator(_off)] = None
    ecn: Annotated[dict[SpeedKey, EcnFile] | None, BeforeValidator(_off)] = None
    pfc_watchdog: Annotated[WatchdogFile | None, BeforeValidator(_switched_off)] = None
    class_weights: dict[Priority, Percent] = Field(default_factory=dict)
    dscp_map: DscpMap = DscpMap.ZERO
    dcqcn: bool | None = None
    nic_parameters: dict[Text, dict[Text, Int]] = Field(default_factory=dict)
    nic_buffers: BuffersFile | None = None
    unsupported: Literal[Stance.REFUSE, Stance.WARN] = Stance.WARN
    limits: LimitsFile
    gate: GateFile = GateFile()
    links: LinksFile = LinksFile()
