"""Verify: schedule, read, probe, judge, localise, certify, store."""

from __future__ import annotations

import fnmatch
import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from fabricctl import readback
from fabricctl.errors import FabricctlError, StoreError, UsageError
from fabricctl.model.certificate import Certificate
from fabricctl.model.evidence import Evidence
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Policy
from fabricctl.model.probe import AgentReport, Round, Sample
from fabricctl.model.reading import DeviceReading
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Outcome, worst
from fabricctl.model.words import count, quoted
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Probe, RunReport
from fabricctl.store import Store
from fabricctl.store.lock import hold
from fabricctl.transport.base import Transport
from fabricctl.verify.agents import Patience
from fabricctl.verify.certify import Occasion, certify
from fabricctl.verify.fleet import Fleet
from fabricctl.verify.judge import Bench, judge
from fabricctl.verify.localise import localise
from fabricctl.verify.schedule import expand, rounds
from fabricctl.verify.steadiness import steadiness

Progress = Callable[[int, int], None]
"""Called with the number of pairs done and of all pairs."""


def silent(done: int, total: int) -> None:
    """Show no progress."""
    del done, total


@dataclass(frozen=True, slots=True)
class Request:
    """What to verify.

    Parameters
    ----------
    pairs
        As ``--pairs`` takes it (``verify/schedule.py``).
    probes
        Names of probes; empty is all there are.
    limit
        Node names or patterns: only pairs with both ends among them. Empty is all.
    time_budget_s
        No round begins that would probably end later; the pairs left out are unknown. None: no bound.
    seed
        Chooses the pairs of a sample.
    """

    pairs: str = "rail"
    probes: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    time_budget_s: float | None = None
    seed: int = 0


Deviations = Callable[[Mapping[str, DeviceReading]], Mapping[PortId, str]]
"""From readings by device to how ports differ from the policy."""


def unjudged(readings: Mapping[str, DeviceReading]) -> Mapping[PortId, str]:
    """Find no deviation: the settings are not ours to judge."""
    del readings
    return {}


@dataclass(frozen=True)
class Means:
    """What a run works with."""

    transport: Transport
    store: Store
    progress: Progress = silent
    patience: Patience = field(default_factory=Patience)
    deviations: Deviations = unjudged


def verify(fabric: Fabric, policy: Policy, request: Request, means: Means) -> RunReport:
    """Probe the pairs, judge them, and keep everything.

    Raises
    ------
    UsageError
        The request makes no sense: an unknown probe, no pair.
    BusyError
        Another verify of this inventory is at work (two would disturb each other's latencies), or an apply.
    StoreError
        The results cannot be kept.
    """
    pairs = _limited(fabric, expand(fabric, request.pairs, seed=request.seed), request)
    _refuse_namesakes(fabric, pairs, means.store)
    probes = {name: finder.probe(name) for name in request.probes or finder.names("probe")}
    # The lock is the same as apply's: neither may change what the other relies on.
    with hold(fabric.source, "verify"):
        run = means.store.begin(RunKind.VERIFY, getpass.getuser(), fabric.source)
        try:
            return _verify(_Plan(fabric, policy, pairs, probes, request), run, means)
        except BaseException as exc:
            means.store.finish(run, Outcome.UNKNOWN, _early_end(exc))
            raise


def _refuse_namesakes(fabric: Fabric, pairs: Sequence[PairId], store: Store) -> None:
    """Refuse to mix the certificates of two fabrics: to the gate a port is its name."""
    ports = dict.fromkeys(str(port) for pair in pairs for port in (pair.source, pair.target))
    for held in store.certificates(ports, valid_at=time.time()):
        if held.inventory not in {"", fabric.source}:
            raise UsageError(
                f"{held.port} is certified already, from another inventory ({held.inventory})",
                where=str(store.path),
                next_step="keep one store a fabric (FABRICCTL_STORE); if that inventory is gone, end its"
                f' certificates: "fabricctl certs revoke {held.port.device} --why moved"',
            )


def _limited(fabric: Fabric, pairs: tuple[PairId, ...], request: Request) -> tuple[PairId, ...]:
    if not request.limit:
        return pairs

    names = [node.name for node in fabric.nodes()]
    for pattern in request.limit:
        if not fnmatch.filter(names, pattern):
            near = get_close_matches(pattern, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the first node is {names[0]}"
            raise UsageError(f"--limit {pattern}: the inventory has no such node", next_step=hint)

    def named(port: PortId) -> bool:
        return any(fnmatch.fnmatchcase(port.device, pattern) for pattern in request.limit)

    left = tuple(pair for pair in pairs if named(pair.source) and named(pair.target))
    if not left:
        limit = ",".join(request.limit)
        raise UsageError(
            f"--limit {limit} leaves no pair of --pairs {request.pairs}",
            next_step=f"name two nodes or more, or write --pairs {quoted(request.limit[0])}:all",
        )
    return left


@dataclass(frozen=True)
class _Plan:
    """What was asked for, resolved."""

    fabric: Fabric
    policy: Policy
    pairs: tuple[PairId, ...]
    probes: Mapping[str, Probe]
    request: Request


def _verify(plan: _Plan, run: Run, means: Means) -> RunReport:
    began = time.monotonic()
    ports = tuple(dict.fromkeys(port for pair in plan.pairs for port in (pair.source, pair.target)))
    names = dict.fromkeys(port.device for port in ports)
    peers = (plan.fabric.peer(port) for port in ports)
    switches = dict.fromkeys(peer.device for peer in peers if peer is not None)
    devices = [plan.fabric.device(name) for name in (names | switches)]
    readings = readback.read(plan.fabric, devices, means.transport)
    with Fleet(plan.fabric, ports, means.transport, means.patience) as fleet:
        samples = _run_rounds(plan, fleet, means, began)
        agents = fleet.reports
    again = readback.read(plan.fabric, devices, means.transport)
    return _conclude(plan, run, means, _Seen(agents, samples, readings, again))


def _run_rounds(plan: _Plan, fleet: Fleet, means: Means, began: float) -> tuple[Sample, ...]:
    parameters = {name: probe.parameters(plan.policy) for name, probe in plan.probes.items()}
    samples: list[Sample] = []
    done, total = 0, len(plan.pairs)
    means.progress(0, total)
    longest = 0.0
    for this in rounds(plan.pairs):
        started = time.monotonic()
        if _over_budget(this, plan.request, started - began + longest):
            samples += _left_out(plan, this.number - 1)
            break
        samples += fleet.run_round(this, parameters, plan.policy)
        done += len(this.pairs)
        means.progress(done, total)
        longest = max(longest, time.monotonic() - started)
    return tuple(samples)


def _left_out(plan: _Plan, done: int) -> list[Sample]:
    """Return a sample that says why for every pair that the time budget has no room for."""
    error = f"left out: --time-budget {plan.request.time_budget_s:g} s was used up"
    left = [pair for this in rounds(plan.pairs)[done:] for pair in this.pairs]
    return [
        Sample(pair, name, "", time.time(), 0.0, error=error, error_kind="budget")
        for pair in left
        for name in plan.probes
    ]


def _over_budget(this: Round, request: Request, ends_after_s: float) -> bool:
    return this.number > 1 and request.time_budget_s is not None and ends_after_s > request.time_budget_s


@dataclass(frozen=True)
class _Seen:
    """What came back.

    Parameters
    ----------
    readings, again
        By device, before the first probe and after the last.
    """

    agents: Mapping[str, AgentReport]
    samples: Sequence[Sample]
    readings: Mapping[str, DeviceReading]
    again: Mapping[str, DeviceReading]


def _conclude(plan: _Plan, run: Run, means: Means, seen: _Seen) -> RunReport:
    fabric, policy, samples, store = plan.fabric, plan.policy, tuple(seen.samples), means.store
    deviations = {**means.deviations(seen.readings), **means.deviations(seen.again)}
    doubts = {
        p: why for p, why in steadiness(fabric, seen.readings, seen.again).items() if p not in deviations
    }
    bench = Bench(fabric, policy.limits, plan.probes, seen.agents, deviations, doubts)
    verdicts = judge(plan.pairs, samples, bench)
    # What was looked at itself needs no suspects.
    suspects = localise([v for v in verdicts if not (v.outcome is Outcome.FAIL and v.culprits)], fabric)
    outcome = worst(verdict.outcome for verdict in verdicts)
    now, unkept = time.time(), ""
    certificates: tuple[Certificate, ...] = ()
    try:
        occasion = Occasion(run.id, fabric, policy, seen.again, now, store.unsettled_until(fabric.source))
        certificates = certify(verdicts, suspects, samples, occasion)
        evidence = Evidence(fabric, policy, seen.agents, verdicts, suspects, samples, seen.again)
        store.put_verify(run.id, evidence)
        store.put_certificates(certificates)
        run = store.finish(run, outcome, _summary([v.outcome for v in verdicts]), now=now)
    except StoreError as exc:
        unkept, certificates = str(exc), ()
    return RunReport(fabric, policy, run, seen.agents, verdicts, suspects, samples, certificates, unkept)


def _early_end(exc: BaseException) -> str:
    if isinstance(exc, FabricctlError):
        return f"ended early: {exc}"
    return "interrupted" if isinstance(exc, KeyboardInterrupt | SystemExit) else f"ended by a bug: {exc!r}"


def _summary(outcomes: Sequence[Outcome]) -> str:
    counts = [
        f"{outcomes.count(o)} {o}" for o in (Outcome.FAIL, Outcome.ERROR, Outcome.UNKNOWN, Outcome.PASS)
    ]
    return f"{count(len(outcomes), 'pair')}: " + ", ".join(c for c in counts if not c.startswith("0 "))
