"""Reads a policy file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fabricctl.errors import InventoryError
from fabricctl.inventory.complaints import Complaint, complaints, dotted
from fabricctl.inventory.policy_schema import LimitsFile, PolicyFile, latency_limits
from fabricctl.inventory.positions import compose, entries, repeated_keys, scalars, spot
from fabricctl.inventory.problems import Problems, suggestion
from fabricctl.inventory.sources import Kind, display, kind_of
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.policy import (
    EcnProfile,
    GatePolicy,
    LatencyLimit,
    Limits,
    LossLimit,
    MtuPolicy,
    Policy,
    TrafficClass,
    Watchdog,
)
from fabricctl.plugin import finder

ABOVE_PERCENTILE = 3
"""A percentile counts only if at least so many of the samples lie above it."""

LOOKS_LIKE_ONE = 2
"""A file with so many of a policy's keys is one, be it a good one or not."""

FORCED_TOS = "traffic_class"
"""What drivers call a parameter that goes before the type of service that queue pairs ask for."""
UNSET = -1
"""Its value that forces nothing."""

LONGEST_SHOWN = 40
"""So many characters of a value that makes no sense are shown."""

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


def read_policy(path: Path) -> Policy:
    """Read the policy file at `path`.

    Raises
    ------
    InventoryFileError
        Everything that is wrong with the file, each with its line.
    """
    shown = display(path)
    problems = Problems()
    if kind_of(path) not in {Kind.FILE, Kind.NONE}:
        # It is read more than once, and a pipe may never begin.
        problems.add(shown, "is not a regular file", "write the policy to a file")
        problems.raise_if_any()
    node = compose(path, shown)
    values = _values(path, shown, problems, node)
    if node is None or not isinstance(values, dict):
        problems.add(f"{shown}:1", "a policy is a mapping", 'see "fabricctl init" for an example')
        problems.raise_if_any()
        raise AssertionError(shown)
    for key, first, line in repeated_keys(node):
        problems.add(f"{shown}:{line}", f"{key}: stands here for the second time", f"first: line {first}")
    given, found = _validated(values)
    for complaint in found:
        text = f"{dotted(complaint.path)}: {complaint.what}" if complaint.path else complaint.what
        problems.add(f"{shown}:{spot(node, complaint.path).line}", text, complaint.next_step)
    problems.raise_if_any()
    if given is None:
        raise AssertionError(shown)
    return _policy(given, path)


def is_policy(path: Path) -> bool:
    """Say whether a file looks like a policy: several of its keys are a policy's, none is a group's."""
    try:
        node = compose(path, str(path))
    except InventoryError:
        return False
    keys = {key for key, _, _ in entries(node)}
    return len(keys & set(PolicyFile.model_fields)) >= LOOKS_LIKE_ONE and "all" not in keys


def _validated(values: dict[str, Any]) -> tuple[PolicyFile | None, list[Complaint]]:
    try:
        given = PolicyFile.model_validate(values)
    except ValidationError as exc:
        return None, complaints(PolicyFile, exc)
    return given, list(_contradictions(given))


def _values(path: Path, shown: str, problems: Problems, node: yaml.Node | None) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        problems.add(f"{shown}:{line}", f"cannot be used: {exc.problem}")
        problems.raise_if_any()
        raise
    except RecursionError:
        problems.add(f"{shown}:1", "cannot be used: it is nested too deeply")
        problems.raise_if_any()
        raise
    except ValueError:
        # What looks like a number or a date and is none, such as 2026-13-01 or a number of 5,000 digits.
        for bad in _senseless(node):
            text = bad.value if len(bad.value) <= LONGEST_SHOWN else f"{bad.value[:LONGEST_SHOWN]}..."
            problems.add(f"{shown}:{bad.start_mark.line + 1}", f"cannot be used: {text}", "put it in quotes")
        problems.raise_if_any()
        raise


def _senseless(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """Walk the scalars below `node` that YAML takes for a value of a kind and cannot make one of."""
    for scalar in scalars(node):
        try:
            yaml.constructor.SafeConstructor().construct_object(scalar)
        except ValueError:
            yield scalar


def _contradictions(given: PolicyFile) -> Iterator[Complaint]:
    """Walk what no single value shows."""
    yield from _layer(given)
    clashes = list(_clashes(given))
    yield from clashes
    yield from _classes(given)
    if not clashes:
        yield from _weights(given)
    yield from _congestion(given)
    yield from _parameters(given.nic_parameters)
    yield from _forced_class(given)
    yield from _limits(given.limits)


def _layer(given: PolicyFile) -> Iterator[Complaint]:
    if given.link_layer is LinkLayer.ETHERNET:
        for key in ("nic_bytes", "switch_bytes"):
            if getattr(given.mtu, key) is None:
                yield Complaint(("mtu", key), "is missing")
        return
    for key in _ETHERNET_ONLY:
        if getattr(given, key):
            yield Complaint((key,), "has no meaning on InfiniBand", "leave it out")
    for key in ("nic_bytes", "switch_bytes"):
        if getattr(given.mtu, key) is not None:
            yield Complaint(("mtu", key), "has no meaning on InfiniBand", "leave it out")


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
    if given.pfc_watchdog and given.pfc_watchdog.on and not pfc:
        yield Complaint(("pfc_watchdog",), "there is no PFC to watch", "add pfc_priorities, or leave it out")
    if given.lossless and given.cnp and given.lossless.dscp == given.cnp.dscp:
        what = f"{given.cnp.dscp} is the DSCP of the lossless class already"
        yield Complaint(("cnp", "dscp"), what, "one DSCP can have only one priority")
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


def _parameters(given: Mapping[str, Mapping[str, int]]) -> Iterator[Complaint]:
    drivers = finder.names("NIC driver")
    for name, values in given.items():
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
    wanted = _policy(given, Path()).roce_tos
    for name, values in given.nic_parameters.items():
        forced = values.get(FORCED_TOS, UNSET)
        if given.lossless and forced not in {UNSET, wanted}:
            what = f"forces type of service {forced} on all queue pairs, the lossless class's is {wanted}"
            yield Complaint(("nic_parameters", name, FORCED_TOS), what, f"write {wanted}, or leave it out")


def _weights(given: PolicyFile) -> Iterator[Complaint]:
    weights = given.class_weights
    if not weights:
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


def _limits(given: LimitsFile) -> Iterator[Complaint]:
    if not given.latency and given.loss is None:
        yield Complaint(("limits",), "no latency and no loss limit: nothing could ever be certified")
    known = finder.names("probe")
    for probe, topologies in given.latency.items():
        if probe not in known:
            path = ("limits", "latency", probe)
            yield Complaint(path, "there is no such probe", suggestion(probe, known))
        for limit in _latency_of(probe, topologies):
            above = given.latency_samples * (100 - limit.percentile) / 100
            needed = round(ABOVE_PERCENTILE * 100 / (100 - limit.percentile))
            if above < ABOVE_PERCENTILE - 1e-6:
                what = f"p{limit.percentile:g} of {probe} needs {needed} samples, not {given.latency_samples}"
                yield Complaint(("limits", "latency_samples"), what)


def _latency_of(probe: str, topologies: dict[Any, dict[str, float]]) -> tuple[LatencyLimit, ...]:
    return tuple(
        limit for name, given in topologies.items() for limit in latency_limits(probe, str(name), given)
    )


def _policy(given: PolicyFile, path: Path) -> Policy:
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
    )


def _model_limits(given: LimitsFile) -> Limits:
    return Limits(
        latency=tuple(limit for probe, by in given.latency.items() for limit in _latency_of(probe, by)),
        loss=LossLimit(**given.loss.model_dump()) if given.loss else None,
        latency_samples=given.latency_samples,
        warmup=given.warmup,
        message_bytes=given.message_bytes,
        loss_queue_pairs=given.loss_queue_pairs,
    )
