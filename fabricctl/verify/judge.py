"""From samples to verdicts: every scheduled pair gets one, whatever came back of it.

A verdict is the worst of what the probes' own judges find, plus what the policy asks for and no probe
measured: that is unknown, so a shortened run never certifies. A pair that could only use a smaller path MTU
than the policy wants fails, however fast it was. A pair that is slow beside the others of its class says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Limits, LossLimit
from fabricctl.model.probe import AgentReport, Sample
from fabricctl.model.stats import interval, upper_bound
from fabricctl.model.verdict import Finding, Outcome, Verdict
from fabricctl.plugin import retries
from fabricctl.plugin.protocols import Probe
from fabricctl.verify.classproof import Proof, class_findings
from fabricctl.verify.outliers import outliers
from fabricctl.verify.topology import Classes, Paths

LOSS = "loss"
"""Name of the limit on loss, and of the probe that measures it."""

SETTINGS = "settings"
"""Name of the check that the ports on the way are set as the policy says."""
PATH_MTU = "path_mtu"
"""Name of the check on the path MTU that the probes could use."""
USED, WANTED = "path_mtu_bytes", "wanted_path_mtu_bytes"
"""Names of the parameters in samples."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What the samples are judged by.

    Parameters
    ----------
    probes
        Those that were to run, by name.
    agents
        By node; why a node took no part.
    deviations
        By port: how its settings differ from the policy. A port that is not in it is as it should be, or is
        not ours to set.
    doubts
        By port: why it is not known to have been so all the while (not read, or changed meanwhile).
    classes
        By port of a node: in which traffic class the probes were counted there.
    """

    fabric: Fabric
    limits: Limits
    probes: Mapping[str, Probe]
    agents: Mapping[str, AgentReport]
    deviations: Mapping[PortId, str] = field(default_factory=dict)
    doubts: Mapping[PortId, str] = field(default_factory=dict)
    classes: Mapping[PortId, tuple[Proof, ...]] = field(default_factory=dict)


def judge(pairs: Sequence[PairId], samples: Iterable[Sample], bench: Bench) -> tuple[Verdict, ...]:
    """Return a verdict for every pair, in their order.

    Parameters
    ----------
    pairs
        All that were scheduled, measured or not.
    """
    by_pair = _by_pair(samples)
    classes = Classes(Paths(bench.fabric))
    return _verdicts(pairs, by_pair, bench, outliers(by_pair, classes, bench.limits.outliers))


def judged_beside(
    pairs: Sequence[PairId],
    samples: Iterable[Sample],
    bench: Bench,
    beside: Mapping[PairId, Sequence[Finding]],
) -> tuple[Verdict, ...]:
    """Return a verdict for each of some pairs of a run that were compared with all others already.

    Parameters
    ----------
    beside
        By pair: what came of comparing it.
    """
    return _verdicts(pairs, _by_pair(samples), bench, beside)


def _by_pair(samples: Iterable[Sample]) -> dict[PairId, list[Sample]]:
    found: dict[PairId, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.pair, []).append(sample)
    return found


def _verdicts(
    pairs: Sequence[PairId],
    samples: Mapping[PairId, Sequence[Sample]],
    bench: Bench,
    beside: Mapping[PairId, Sequence[Finding]],
) -> tuple[Verdict, ...]:
    classes = Classes(Paths(bench.fabric))
    return tuple(
        _verdict(pair, str(classes.of(pair)[0]), samples.get(pair, ()), bench, beside.get(pair, ()))
        for pair in dict.fromkeys(pairs)
    )


def _verdict(
    pair: PairId, topology: str, samples: Sequence[Sample], bench: Bench, beside: Iterable[Finding]
) -> Verdict:
    absent = _absent(pair, bench.agents)
    if absent and not samples:
        return Verdict(pair, topology, absent)
    found = [
        finding
        for name, probe in bench.probes.items()
        for finding in probe.judge(pair, topology, [s for s in samples if s.probe == name], bench.limits)
    ]
    found += _unasked(pair, topology, bench)
    if bench.limits.loss and LOSS not in bench.probes:
        found.append(loss_by_counters(pair, samples, bench.limits.loss))
    good = [sample for sample in samples if not sample.error]
    found += _path_mtu(pair, good)
    if good:
        found += class_findings(pair, bench.classes, required=bench.limits.class_proof)
    found += _settings(pair, bench)
    return Verdict(pair, topology, (*absent, *found, *beside))


def _settings(pair: PairId, bench: Bench) -> list[Finding]:
    """Return what is wrong with the ports at either end and across their cables.

    A port that is not set as the policy says fails: such a pair may well pass its probes, for they load
    nothing, but must not be certified. A port of which that is not known throughout the run is unknown.
    """
    near = (pair.source, pair.target)
    ports = dict.fromkeys(port for end in near for port in (end, bench.fabric.peer(end)) if port is not None)
    doubtful = [
        Finding(
            check=SETTINGS,
            subject=str(pair),
            outcome=Outcome.UNKNOWN,
            what=f"{port}: {bench.doubts[port]}",
            next_step=f'"fabricctl verify --pairs {pair.source}:{pair.target}" again',
            culprit=str(port),
        )
        for port in ports
        if port in bench.doubts
    ]
    return doubtful + [
        Finding(
            check=SETTINGS,
            subject=str(pair),
            outcome=Outcome.FAIL,
            what=f"{port} is not set as the policy says: {bench.deviations[port]}",
            measured="differ",
            next_step='"fabricctl plan" shows all of it, "fabricctl apply" sets it',
            culprit=str(port),
        )
        for port in ports
        if port in bench.deviations
    ]


def _absent(pair: PairId, agents: Mapping[str, AgentReport]) -> tuple[Finding, ...]:
    """Return a finding for each end whose agent could not work."""
    nodes = dict.fromkeys((pair.source.device, pair.target.device))
    return tuple(
        Finding(
            check="agent",
            subject=node,
            outcome=Outcome.UNKNOWN,
            what=f"not measured: {node}: {agents[node].error}",
            next_step=f'make {node} and its RDMA device work, then "fabricctl verify --pairs {node}:all"',
            culprit=node,
        )
        for node in nodes
        if node in agents and agents[node].error
    )


def _unasked(pair: PairId, topology: str, bench: Bench) -> list[Finding]:
    """Return a finding for each limit on a latency or a bandwidth whose probe was not to run."""
    return [
        Finding(
            check=name,
            subject=str(pair),
            outcome=Outcome.UNKNOWN,
            what=f"the policy limits {name}, which this run did not probe",
            next_step=f"verify again without --probes, or with --probes {name} among them",
        )
        for name in unasked(topology, bench.limits, bench.probes)
    ]


def unasked(topology: str, limits: Limits, probes: Collection[str]) -> list[str]:
    """Return the probes that the limits of a class ask for and that were not to run."""
    holding = {topology, "any"}
    wanted = {limit.probe for limit in limits.latency if limit.topology in holding}
    wanted |= {limit.probe for limit in limits.bandwidth if limit.topology in holding}
    return sorted(wanted.difference(probes))


def _path_mtu(pair: PairId, samples: Sequence[Sample]) -> list[Finding]:
    """Return whether the path MTU that the samples ran with was the wanted one; nothing without samples.

    It fails if any sample ran with less, and is unknown if one does not say what it ran with.
    """
    if not samples:
        return []
    told = [s.parameters for s in samples if {USED, WANTED} <= s.parameters.keys()]
    small = min((p for p in told if int(p[USED]) < int(p[WANTED])), key=lambda p: int(p[USED]), default=None)
    if small is not None:
        used, wanted = int(small[USED]), int(small[WANTED])
        return [
            Finding(
                check=PATH_MTU,
                subject=str(pair),
                outcome=Outcome.FAIL,
                what=f"path MTU {used} on {_narrow(pair, small, wanted)}, the policy wants {wanted}:"
                " the port's MTU is too small",
                measured=f"{used} B",
                limit=f"{wanted} B",
                samples=len(samples),
                next_step='"fabricctl drift" shows MTUs that differ, "fabricctl apply" sets them',
            )
        ]
    if len(told) < len(samples):
        what = f"path MTU unknown: {len(samples) - len(told)} of {len(samples)} samples do not say it"
        return [Finding(PATH_MTU, str(pair), Outcome.UNKNOWN, what, next_step="verify this pair again")]
    used = min(int(p[USED]) for p in told)
    what = f"path MTU {used}, as the policy wants, in {len(told)} samples"
    return [Finding(PATH_MTU, str(pair), Outcome.PASS, what, f"{used} B", samples=len(told))]


def _narrow(pair: PairId, parameters: Mapping[str, str | int | float], wanted: int) -> str:
    """Return the ends whose own active MTU is below the wanted one; both where the sample does not say."""
    ends = {"source_mtu_bytes": pair.source, "target_mtu_bytes": pair.target}
    narrow = [str(port) for name, port in ends.items() if int(parameters.get(name, wanted)) < wanted]
    return " and ".join(narrow) or f"{pair.source} or {pair.target}"


def loss_by_counters(pair: PairId, samples: Sequence[Sample], limit: LossLimit) -> Finding:
    """Judge loss by what the NIC's counters say of the latency probes' packets.

    It is weaker evidence: each operation counts as one packet, and a burst of losses as one. Only gaps in
    the sequence count; retries by timer do not, for a slow host has them too. More gaps than are tolerated
    are unknown and no failure: other traffic of the port is in the same counters.
    """
    good = [sample for sample in samples if not sample.error and sample.latencies]
    operations = sum(sample.latencies.samples for sample in good)
    gaps = retries.moved(good, retries.GAPS)
    step = "verify again with the loss probe"
    if gaps is None or not operations:
        what = "loss was not measured: no loss probe, and no counter of sequence errors at the source"
        return Finding(LOSS, str(pair), Outcome.UNKNOWN, what, next_step=step)
    events = min(sum(gaps.values()), operations)
    bound = upper_bound(events, operations, limit.confidence)
    names = ", ".join(f"{name} +{count}" for name, count in sorted(gaps.items())) or "none moved"
    said = f"sequence errors in {operations} operations by the NIC's counters, no loss probe: {names}"
    if events > limit.max_rate * operations:
        low, high = interval(events, operations)
        outcome, said = Outcome.UNKNOWN, f"{said}; rate {low:.2g} .. {high:.2g} at 95 %"
    else:
        outcome = Outcome.PASS if bound <= limit.bound_rate else Outcome.UNKNOWN
        said = f"{said}; loss < {bound:.2g} at {limit.confidence * 100:g} %, bound {limit.bound_rate:g}"
    return Finding(
        check=LOSS,
        subject=str(pair),
        outcome=outcome,
        what=said,
        measured=f"{events} of {operations}",
        limit=f"rate <= {limit.max_rate:g}, bound <= {limit.bound_rate:g}",
        samples=operations,
        next_step="" if outcome is Outcome.PASS else step,
    )
