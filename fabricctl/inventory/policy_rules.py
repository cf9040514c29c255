"""What the values of a policy must be together; each rule looks at what it needs and no further."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from fabricctl.inventory.complaints import Complaint
from fabricctl.inventory.policy_model import latency_of, policy_of
from fabricctl.inventory.policy_schema import RDMA_HEADERS_BYTES, PolicyFile
from fabricctl.inventory.problems import suggestion
from fabricctl.model.fabric import LinkLayer
from fabricctl.plugin import finder
from fabricctl.plugin.bandwidth import BandwidthProbe
from fabricctl.plugin.goodput import goodput_share

ABOVE_PERCENTILE = 3
"""A percentile counts only if at least so many of the samples lie above it."""

FORCED_TOS = "traffic_class"
"""What drivers call a parameter that goes before the type of service that queue pairs ask for."""
UNSET = -1
"""Its value that forces nothing."""

_ETHERNET_ONLY = (
    "lossless",
    "cnp",
    "pfc_priorities",
    "pfc_watchdog",
    "ecn",
    "class_weights",
    "dcqcn",
    "nic_parameters",
    "nic_buffers",
)


def contradictions(given: PolicyFile, doubtful: AbstractSet[str] = frozenset()) -> Iterator[Complaint]:
    """Walk what no single value shows.

    Parameters
    ----------
    doubtful
        Top-level keys of which something is wrong and left out of `given`: a rule that would hold against the
        author what is only left out says nothing.
    """
    rules = [rule for needed, rule in _RULES if doubtful.isdisjoint(needed)]
    found = [complaint for rule in rules for complaint in rule(given)]
    yield from found
    if found or doubtful:
        yield from _paused(given)


def _layer(given: PolicyFile) -> Iterator[Complaint]:
    if given.link_layer is LinkLayer.INFINIBAND:
        for key in _ETHERNET_ONLY:
            if getattr(given, key):
                yield Complaint((key,), "has no meaning on InfiniBand", "leave it out")


def _mtus(given: PolicyFile) -> Iterator[Complaint]:
    mtu, ethernet = given.mtu, given.link_layer is LinkLayer.ETHERNET
    for key in ("nic_bytes", "switch_bytes"):
        if ethernet and getattr(mtu, key) is None:
            yield Complaint(("mtu", key), "is missing")
        elif not ethernet and getattr(mtu, key) is not None:
            yield Complaint(("mtu", key), "has no meaning on InfiniBand", "leave it out")
    needed = mtu.rdma_bytes + RDMA_HEADERS_BYTES
    if mtu.nic_bytes is not None and mtu.nic_bytes < needed:
        what = f"rdma_bytes {mtu.rdma_bytes} needs nic_bytes {needed} or more, not {mtu.nic_bytes}"
        yield Complaint(("mtu",), what)
    if mtu.nic_bytes is not None and mtu.switch_bytes is not None and mtu.switch_bytes < mtu.nic_bytes:
        what = f"switch_bytes {mtu.switch_bytes} is less than nic_bytes {mtu.nic_bytes}"
        yield Complaint(("mtu",), what)


def _profiles(given: PolicyFile) -> Iterator[Complaint]:
    for speed, profile in (given.ecn or {}).items():
        if profile.kmin >= profile.kmax:
            what = f"kmin ({profile.kmin} bytes) must be less than kmax ({profile.kmax} bytes)"
            yield Complaint(("ecn", speed or "default"), what)


def _watchdog(given: PolicyFile) -> Iterator[Complaint]:
    times = given.pfc_watchdog
    if times is None:
        return
    if 2 * times.poll_ms > times.detect_ms:
        what = f"detect_ms {times.detect_ms} must be at least twice poll_ms {times.poll_ms}"
        yield Complaint(("pfc_watchdog",), what)
    if times.poll_ms > times.restore_ms:
        what = f"restore_ms {times.restore_ms} must not be below poll_ms {times.poll_ms}"
        yield Complaint(("pfc_watchdog",), what)
    if times.on and not given.pfc_priorities:
        yield Complaint(("pfc_watchdog",), "there is no PFC to watch", "add pfc_priorities, or leave it out")


def _buffers(given: PolicyFile) -> Iterator[Complaint]:
    if given.nic_buffers is None:
        return
    first: dict[int, int] = {}
    for priority, buffer in enumerate(given.nic_buffers.by_priority):
        first.setdefault(buffer, priority)
    for buffer, priority in first.items():
        if buffer not in given.nic_buffers.bytes:
            what = f"priority {priority} is sent to buffer {buffer}, which has no size in bytes"
            yield Complaint(("nic_buffers",), what)


def _clashes(given: PolicyFile) -> Iterator[Complaint]:
    """Walk what is wrong between lossless class, notifications and PFC: weights would only repeat it."""
    if given.lossless is None:
        return
    if given.cnp and given.cnp.priority == given.lossless.priority:
        what = f"{given.cnp.priority} is the priority of the lossless class already"
        yield Complaint(("cnp", "priority"), what, "PFC would pause the notifications: choose another")
    if given.pfc_priorities and given.lossless.priority not in given.pfc_priorities:
        what = f"PFC does not include {given.lossless.priority}, the priority of the lossless class"
        yield Complaint(("pfc_priorities",), what, "add it, or pfc_priorities: off")


def _classes(given: PolicyFile) -> Iterator[Complaint]:
    pfc = given.pfc_priorities or ()
    if len(set(pfc)) != len(pfc):
        yield Complaint(("pfc_priorities",), "names a priority twice")
    if given.lossless and given.cnp and given.lossless.dscp == given.cnp.dscp:
        what = f"{given.cnp.dscp} is the DSCP of the lossless class already"
        yield Complaint(("cnp", "dscp"), what, "one DSCP can have only one priority")


def _marking(given: PolicyFile) -> Iterator[Complaint]:
    if given.ecn and given.lossless is None:
        yield Complaint(
            ("ecn",), "there is no lossless class whose queue could mark", "add lossless, or ecn: off"
        )


def _congestion(given: PolicyFile) -> Iterator[Complaint]:
    if not given.dcqcn:
        return
    if given.lossless is None:
        yield Complaint(("dcqcn",), "there is no lossless class to slow down", "add lossless, or dcqcn: off")
    if given.cnp is None:
        yield Complaint(("dcqcn",), "its notifications have no class", "add cnp, or dcqcn: off")
    if not given.ecn:
        yield Complaint(("dcqcn",), "nothing marks: without ecn no NIC has a reason to notify", "add ecn")


def _parameters(given: PolicyFile) -> Iterator[Complaint]:
    drivers = finder.names("NIC driver")
    for name, values in given.nic_parameters.items():
        if name not in drivers:
            yield Complaint(
                ("nic_parameters", name), "there is no such NIC driver", suggestion(name, drivers)
            )
            continue
        known = finder.nic_driver(name).parameters
        for key, value in values.items():
            path = ("nic_parameters", name, key)
            if key not in known:
                yield Complaint(path, f"{name} has no such parameter", suggestion(key, tuple(known)))
            elif not known[key].lowest <= value <= known[key].highest:
                span = f"{known[key].lowest} to {known[key].highest}"
                yield Complaint(path, f"must be {span} ({known[key].meaning}), not {value}")


def _forced_class(given: PolicyFile) -> Iterator[Complaint]:
    """Refuse a NIC's override of what queue pairs ask for, if it is not what the lossless class asks for."""
    wanted = policy_of(given, Path()).roce_tos
    for name, values in given.nic_parameters.items():
        forced = values.get(FORCED_TOS, UNSET)
        if given.lossless and forced not in {UNSET, wanted}:
            what = f"forces type of service {forced} on all queue pairs, the lossless class's is {wanted}"
            yield Complaint(("nic_parameters", name, FORCED_TOS), what, f"write {wanted}, or leave it out")


def _weights(given: PolicyFile) -> Iterator[Complaint]:
    weights = given.class_weights
    if not weights or any(_clashes(given)):
        return
    own = {0, *(given.pfc_priorities or ())} | ({given.lossless.priority} if given.lossless else set())
    if given.cnp:
        own.discard(given.cnp.priority)
    for priority in sorted(set(weights) - own):
        why = "is strict" if given.cnp and priority == given.cnp.priority else "has no class of its own"
        yield Complaint(("class_weights", priority), f"priority {priority} {why} and takes no weight")
    total = sum(weights.values())
    complete = own <= set(weights)
    if complete and total != 100:  # noqa: PLR2004  percent
        yield Complaint(("class_weights",), f"the weights sum to {total}, not to 100")
    if not complete and own - set(weights) != {0}:
        missing = ", ".join(str(p) for p in sorted(own - set(weights) - {0}))
        yield Complaint(("class_weights",), f"lacks the weight of priority {missing}")
    elif not complete and total >= 100:  # noqa: PLR2004  percent
        yield Complaint(("class_weights",), f"the weights sum to {total} and leave nothing for priority 0")


def _limits(policy: PolicyFile) -> Iterator[Complaint]:
    given = policy.limits
    if given.loss and given.loss.bound_rate <= given.loss.max_rate:
        what = "bound_rate must be more than max_rate, or no number of packets can prove it"
        yield Complaint(("limits", "loss"), what)
    if not given.latency and given.loss is None and not any(given.bandwidth.values()):
        yield Complaint(("limits",), "no latency, loss or bandwidth limit: nothing could ever be certified")
    known = finder.names("probe")
    for probe, topologies in given.latency.items():
        path = ("limits", "latency", probe)
        if probe not in known:
            yield Complaint(path, "there is no such probe", suggestion(probe, known))
        elif isinstance(finder.probe(probe), BandwidthProbe):
            yield Complaint(path, "has no latency", f"limit it below limits.bandwidth: {probe}")
        for limit in latency_of(probe, topologies):
            above = given.latency_samples * (100 - limit.percentile) / 100
            needed = round(ABOVE_PERCENTILE * 100 / (100 - limit.percentile))
            if above < ABOVE_PERCENTILE - 1e-6:
                what = f"p{limit.percentile:g} of {probe} needs {needed} samples, not {given.latency_samples}"
                yield Complaint(("limits", "latency_samples"), what)


def _bandwidth(policy: PolicyFile) -> Iterator[Complaint]:
    given, mtu = policy.limits, policy.mtu.rdma_bytes
    if max(given.bandwidth_sizes) <= mtu:
        what = f"no message is longer than the path MTU ({mtu} bytes): an MTU hole would pass"
        yield Complaint(("limits", "bandwidth_sizes"), what, "add a longer one: 64KiB")
    known = {name: finder.probe(name) for name in finder.names("probe")}
    measuring = {name: probe for name, probe in known.items() if isinstance(probe, BandwidthProbe)}
    for name, topologies in given.bandwidth.items():
        path = ("limits", "bandwidth", name)
        if name not in measuring:
            what = "measures no bandwidth" if name in known else "there is no such probe"
            yield Complaint(path, what, suggestion(name, tuple(measuring)))
            continue
        best = goodput_share(given.bandwidth_sizes, mtu, policy.link_layer, measuring[name].operation)
        for topology, least in topologies.items():
            if least.min_share is None and least.min_gbps is None:
                yield Complaint((*path, topology), "limits nothing", "give min_share or min_gbps")
            if least.min_share is not None and least.min_share > best:
                what = (
                    f"{least.min_share:g} of the line rate cannot be reached: at a path MTU of {mtu} and with"
                    f" these sizes no more than {best:.3f} can be payload"
                )
                yield Complaint((*path, topology, "min_share"), what)


def _paused(given: PolicyFile) -> Iterator[Complaint]:
    """Walk what a check would fail for: a policy that is refused anyway is to be mended in one go."""
    clash = given.lossless and given.cnp and given.cnp.priority == given.lossless.priority
    if given.cnp and given.cnp.priority in (given.pfc_priorities or ()) and not clash:
        what = f"PFC pauses priority {given.cnp.priority}: notifications would wait with what they relieve"
        yield Complaint(("cnp", "priority"), what, "choose another, or take it out of pfc_priorities")


_RULES: tuple[tuple[AbstractSet[str], Callable[[PolicyFile], Iterator[Complaint]]], ...] = (
    (frozenset({"link_layer"}), _layer),
    (frozenset({"link_layer", "mtu"}), _mtus),
    (frozenset(), _profiles),
    (frozenset(), _clashes),
    (frozenset(), _classes),
    (frozenset({"lossless"}), _marking),
    (frozenset({"pfc_watchdog", "pfc_priorities"}), _watchdog),
    (frozenset({"class_weights", "lossless", "cnp", "pfc_priorities"}), _weights),
    (frozenset({"lossless", "cnp", "ecn"}), _congestion),
    (frozenset(), _parameters),
    (frozenset({"lossless", "ecn"}), _forced_class),
    (frozenset({"nic_buffers"}), _buffers),
    (frozenset({"limits"}), _limits),
    (frozenset({"limits", "mtu", "link_layer"}), _bandwidth),
)
"""Each rule, and the keys of which it must know everything."""
