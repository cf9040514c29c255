"""Verify: schedule, read, probe, judge, localise, certify, store."""

from __future__ import annotations

import getpass
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from fabricctl import readback
from fabricctl.agent.simulated import ENGINE as SIMULATED
from fabricctl.errors import BusyError, FabricctlError, StoreError
from fabricctl.model.certificate import Certificate
from fabricctl.model.evidence import Evidence
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PortId
from fabricctl.model.past import Past
from fabricctl.model.policy import Policy
from fabricctl.model.probe import AgentReport, Round, Sample
from fabricctl.model.reading import DeviceReading
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Outcome, Verdict, worst
from fabricctl.model.verdicts import outcomes
from fabricctl.model.words import count
from fabricctl.plugin.protocols import Probe, RunReport
from fabricctl.store import Store
from fabricctl.store.lock import hold
from fabricctl.transport import SSH, launcher
from fabricctl.transport.base import Launch, Transport
from fabricctl.verify.agents import Patience
from fabricctl.verify.certify import Occasion, certify
from fabricctl.verify.classproof import prove
from fabricctl.verify.course import Leg
from fabricctl.verify.coverage import recall, repair
from fabricctl.verify.fleet import Fleet
from fabricctl.verify.garbage import seldom_collected
from fabricctl.verify.judge import Bench
from fabricctl.verify.ledger import Kept, Ledger
from fabricctl.verify.localise import localise
from fabricctl.verify.pairing import Parameters
from fabricctl.verify.pairs import Pairs
from fabricctl.verify.request import NOTED, Request, chosen, limited, refuse_namesakes
from fabricctl.verify.resume import Noted, interrupted, note, noted
from fabricctl.verify.risk import needed
from fabricctl.verify.schedule import expand
from fabricctl.verify.settle import advise, settle
from fabricctl.verify.steadiness import steadiness
from fabricctl.verify.telltales import telltales
from fabricctl.verify.timetable import Budget, Probes, Timetable

__all__ = ["Means", "Request", "resume", "verify"]

Progress = Callable[[int, int], None]
"""Called with the number of pairs done and of all pairs."""


def silent(done: int, total: int) -> None:
    """Show no progress."""
    del done, total


Deviations = Callable[[Mapping[str, DeviceReading]], Mapping[PortId, str]]
"""From readings by device to how ports differ from the policy."""


def unjudged(readings: Mapping[str, DeviceReading]) -> Mapping[PortId, str]:
    """Find no deviation: the settings are not ours to judge."""
    del readings
    return {}


MORE_GOES = 2
"""How often pairs that nobody asked for are tried to tell what is at fault, after all others."""
CHANGED = "changed"
"""The pairs that are not known to be good still: what they are shows when the devices have been read."""


def unheard(line: str) -> None:
    """Show nothing."""
    del line


@dataclass(frozen=True)
class Means:
    """What a run works with.

    Parameters
    ----------
    tell
        Shows a line while the run goes on: what a time budget covers, and why there are more pairs.
    """

    transport: Transport
    store: Store
    progress: Progress = silent
    patience: Patience = field(default_factory=Patience)
    deviations: Deviations = unjudged
    launch: Launch = field(default=launcher(SSH))
    tell: Callable[[str], None] = unheard


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
    pairs = limited(fabric, expand(fabric, request.pairs, seed=request.seed), request)
    refuse_namesakes(fabric, pairs, means.store)
    probes = chosen(policy, request)
    # The lock is the same as apply's: neither may change what the other relies on.
    with hold(fabric.source, "verify"):
        run = means.store.begin(RunKind.VERIFY, getpass.getuser(), fabric.source)
        return _verify(_Plan(fabric, policy, pairs, probes, request), run, means)


def resume(
    fabric: Fabric, policy: Policy, run_id: str, means: Means, time_budget_s: float | None = None
) -> RunReport:
    """Go on with a verify that was killed or interrupted: probe what it has not, and conclude over all.

    Parameters
    ----------
    run_id
        Empty: the last verify of this inventory.
    time_budget_s
        From now on.

    Raises
    ------
    UsageError
        There is nothing to go on with, or the inventory or the policy has changed since.
    BusyError, StoreError
        As :func:`verify`.
    """
    with hold(fabric.source, "verify"):
        run = interrupted(means.store, fabric.source, run_id)
        before = noted(means.store, run, fabric, policy)
        given = before.request
        request = Request(
            given["pairs"],
            tuple(given["probes"]),
            tuple(given["limit"]),
            time_budget_s,
            given["seed"],
            given["engine"],
        )
        pairs = limited(fabric, expand(fabric, request.pairs, seed=request.seed), request)
        refuse_namesakes(fabric, pairs, means.store)
        plan = _Plan(fabric, policy, pairs, chosen(policy, request), request)
        return _verify(plan, means.store.resume(run), means, before)


@dataclass(frozen=True)
class _Plan:
    """What was asked for, resolved."""

    fabric: Fabric
    policy: Policy
    pairs: Pairs
    probes: Mapping[str, Probe]
    request: Request


def _verify(plan: _Plan, run: Run, means: Means, before: Noted | None = None) -> RunReport:
    """Do what was planned, or the rest of it; an early end is on record."""
    try:
        with seldom_collected():
            return _carried_out(plan, run, means, before)
    except BaseException as exc:
        with suppress(StoreError, BusyError):  # why it ended matters more
            means.store.finish(run, Outcome.UNKNOWN, _early_end(exc))
        raise


def _carried_out(plan: _Plan, run: Run, means: Means, before: Noted | None) -> RunReport:
    budget, store = Budget(plan.request.time_budget_s, time.monotonic()), means.store
    whole = plan  # the devices that were read before are read afterwards, whatever has changed of them
    readings = before.readings if before else _read(plan, means)
    if plan.request.pairs.strip() == CHANGED and before and before.pairs is not None:
        plan = replace(plan, pairs=Pairs.of(before.pairs))
    past = recall(store, plan.fabric, plan.policy, readings, time.time())
    if before is None:
        changing = plan.request.pairs.strip() == CHANGED
        if changing:
            plan = replace(plan, pairs=needed(plan.pairs, past))
        request = {name: getattr(plan.request, name) for name in NOTED}
        wanted = Noted(request, readings, tuple(plan.pairs) if changing else None)
        note(store, run, (plan.fabric, plan.policy), wanted)
    kept = Kept(partial(store.put_probed, run.id), partial(store.probed, run.id))
    ledger = Ledger(plan.fabric, plan.policy.limits, plan.pairs, plan.probes, kept)
    if before:
        ledger.recall()
    timetable = Timetable(plan.fabric, past, budget, _parameters(plan), means.tell)
    try:
        seen = _probe(plan, means, timetable, ledger, readings)
    finally:
        ledger.flush()
    return _conclude(plan, run, means, replace(seen, again=_read(whole, means)))


def _read(plan: _Plan, means: Means) -> dict[str, DeviceReading]:
    """Read the nodes that take part and the switches next to them; a simulation reaches no device."""
    if plan.request.engine == SIMULATED:
        return {}
    names = dict.fromkeys(port.device for port in plan.pairs.taking_part())
    peers = (plan.fabric.peer(port) for port in plan.pairs.taking_part())
    switches = dict.fromkeys(peer.device for peer in peers if peer is not None)
    devices = [plan.fabric.device(name) for name in (names | switches)]
    return readback.read(plan.fabric, devices, means.transport)


def _probe(
    plan: _Plan, means: Means, timetable: Timetable, ledger: Ledger, readings: Mapping[str, DeviceReading]
) -> _Seen:
    """Run the agents, and all rounds there is time for; return what was seen."""
    ports, engine = plan.pairs.taking_part(), plan.request.engine
    nodes = [plan.fabric.device(name) for name in dict.fromkeys(port.device for port in ports)]
    with (
        means.launch(means.transport, nodes) as way,
        Fleet(plan.fabric, ports, way, means.patience, engine=engine) as fleet,
    ):
        _measure(plan, fleet, means, timetable, ledger)
        for sample in timetable.left_out():
            ledger.leave_out(sample)
        coverage = {kind: chosen.as_json() for kind, chosen in timetable.chosen.items()}
        seen = _Seen(fleet.reports, ledger, readings, coverage=coverage)
        _settle(plan, fleet, means, seen, timetable.budget)
        return replace(seen, share=fleet.measuring_share)


def _parameters(plan: _Plan) -> tuple[Probes, Probes]:
    """Return what the probes take from the policy: those that are quiet, and those that fill links."""
    quiet: dict[str, Parameters] = {}
    filling: dict[str, Parameters] = {}
    for name, probe in plan.probes.items():
        (filling if probe.fills_link else quiet)[name] = probe.parameters(plan.policy)
    return quiet, filling


def _measure(plan: _Plan, fleet: Fleet, means: Means, timetable: Timetable, ledger: Ledger) -> None:
    """Run all rounds that there is time for, but for what the ledger has already."""
    total, each = len(plan.pairs), max(1, len(plan.probes))
    done = ledger.taken if ledger.taken < total * each else 0

    def show() -> None:
        means.progress(min(total, done // each), total)

    def take(found: list[Sample]) -> None:
        nonlocal done
        ledger.take(found)
        done += len(found)
        show()

    show()
    fleet.run(_missing(timetable.legs(plan.pairs, fleet.course), ledger), plan.policy, take)


def _missing(legs: Iterable[Leg | None], ledger: Ledger) -> Iterator[Leg | None]:
    """Leave out of each leg the couples that the ledger has; without those there is nothing to leave out."""
    resumed = bool(ledger.taken)
    for leg in legs:
        if leg is None or not resumed:
            yield leg
            continue
        names = tuple(leg.probes)
        left = tuple(pair for pair in leg.round.pairs if not ledger.has(pair, names))
        yield replace(leg, round=Round(leg.round.number, left))


def _settle(plan: _Plan, fleet: Fleet, means: Means, seen: _Seen, budget: Budget) -> None:
    """Pair suspects with good partners and try what tells explanations apart: two more goes at most.

    Only ports that take part anyway are used: others may be busy, and nobody asked for them. So a pair that
    there is no time for at all is not on record as left out.
    """
    bench = Bench(plan.fabric, plan.policy.limits, plan.probes, seen.agents, means.deviations(seen.readings))
    for _ in range(MORE_GOES):
        if budget.left_s is not None and budget.left_s <= 0:
            break
        account = seen.ledger.conclude(bench)
        verdicts = account.verdicts
        suspects = localise(_unexplained(verdicts), plan.fabric, telltales(account.samples))
        if not suspects:
            break
        wanted = (*repair(verdicts, plan.fabric), *settle(suspects, plan.fabric, verdicts))
        more = Pairs.of(wanted).among(plan.pairs.taking_part()) if wanted else ()
        if not more:
            break
        timetable = Timetable(plan.fabric, Past(), budget, _parameters(plan), means.tell)
        means.tell(f"{count(len(more), 'pair')} more, to tell what is at fault")
        _measure(replace(plan, pairs=more), fleet, means, timetable, seen.ledger)
        left = tuple(timetable.left_out())
        times = Counter(sample.pair for sample in left)
        for sample in left:
            if times[sample.pair] < len(plan.probes):
                seen.ledger.leave_out(sample)


def _unexplained(verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Leave out the failures that need no suspects: of them it is known what is to blame."""
    return (v for v in verdicts if not (v.outcome is Outcome.FAIL and v.culprits))


@dataclass(frozen=True)
class _Seen:
    """What came back.

    Parameters
    ----------
    readings, again
        By device, before the first probe and after the last.
    share, coverage
        As :attr:`RunReport.measuring_share` and :attr:`RunReport.coverage`.
    """

    agents: Mapping[str, AgentReport]
    ledger: Ledger
    readings: Mapping[str, DeviceReading] = field(default_factory=dict)
    again: Mapping[str, DeviceReading] = field(default_factory=dict)
    share: float = 0.0
    coverage: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def _conclude(plan: _Plan, run: Run, means: Means, seen: _Seen) -> RunReport:
    fabric, policy, store = plan.fabric, plan.policy, means.store
    deviations = {**means.deviations(seen.readings), **means.deviations(seen.again)}
    doubts = {
        p: why for p, why in steadiness(fabric, seen.readings, seen.again).items() if p not in deviations
    }
    classes = prove(fabric, policy, seen.ledger.carried, seen.readings, seen.again)
    bench = Bench(fabric, policy.limits, plan.probes, seen.agents, deviations, doubts, classes)
    account = seen.ledger.conclude(bench)
    verdicts, samples, unkept = account.verdicts, account.samples, account.unkept
    suspects = advise(localise(_unexplained(verdicts), fabric, telltales(samples)), fabric, verdicts)
    counts, now = outcomes(verdicts), time.time()
    certificates: tuple[Certificate, ...] = ()
    if not unkept:
        try:
            until = store.unsettled_until(fabric.source)
            if seen.ledger.recalled:
                # What it measured first is as old as the run.
                until = min(until or math.inf, run.started_at + policy.gate.max_age_s)
            occasion = Occasion(run.id, fabric, policy, seen.again, now, until)
            certificates = certify(verdicts, suspects, samples, occasion)
            evidence = Evidence(fabric, policy, seen.agents, verdicts, suspects, samples, seen.again)
            # Only "changed" may come to no pair: then each has a certificate that still holds.
            outcome = worst(counts) if counts else Outcome.PASS
            run = store.conclude(run, outcome, _summary(counts), evidence, certificates, now)
        except (StoreError, BusyError) as exc:
            unkept, certificates = str(exc), ()
    report = RunReport(fabric, policy, run, seen.agents, verdicts, suspects, samples, certificates, unkept)
    return replace(report, measuring_share=seen.share, coverage=seen.coverage)


def _early_end(exc: BaseException) -> str:
    if isinstance(exc, FabricctlError):
        return f"ended early: {exc}"
    return "interrupted" if isinstance(exc, KeyboardInterrupt | SystemExit) else f"ended by a bug: {exc!r}"


def _summary(counts: Counter[Outcome]) -> str:
    order = (Outcome.FAIL, Outcome.ERROR, Outcome.UNKNOWN, Outcome.PASS)
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in order if counts[outcome])
    return f"{count(counts.total(), 'pair')}: {told or 'nothing has changed since they were certified'}"
