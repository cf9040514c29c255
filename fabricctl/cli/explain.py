"""``fabricctl explain``: the evidence and the reasoning behind a mark, and what to do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import click

from fabricctl.cli import stored
from fabricctl.cli.common import emit_json, json_option
from fabricctl.errors import UsageError
from fabricctl.model.fabric import Role
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId
from fabricctl.model.probe import Sample
from fabricctl.model.reading import Known, Missing
from fabricctl.model.stats import DISTRIBUTION, percentiles
from fabricctl.model.verdict import Outcome, Suspect, Verdict
from fabricctl.model.words import count, quoted
from fabricctl.plugin import finder
from fabricctl.plugin.layout import duration, durations, moment
from fabricctl.plugin.protocols import RunReport
from fabricctl.store import Store
from fabricctl.verify.topology import Kind, Path, Paths

MOST_PAIRS = 12
"""So many pairs are explained at once, those that did not pass first."""

FEW_PAIRS = 2
"""Up to so many pairs their samples are shown whatever the outcome: the two directions of one pair."""


@click.command()
@click.argument("target", metavar="PAIR|NODE|PORT|RUN")
@click.option("--run", "run_id", metavar="RUN", help="The verify run to explain.  [default: the newest]")
@json_option
def command(*, target: str, run_id: str | None, as_json: bool) -> None:
    """Show the evidence behind a mark on a pair, a node or a run, and what to do.

    A pair is written node1:node2 or node1/eth1:node2/eth1, a port node1/eth1.

    \b
    Exit codes: 0 explained, whatever the verdicts are; 2 the run has no such pair, node or port, or
    there is no such run; 4 there is no store, or it cannot be read.
    """
    if not target.strip(" :"):
        raise UsageError("no pair, node, port or run is named", next_step="name one, as in node1:node2")
    with Store.open(readonly=True) as store:
        if run_id is None and any(run.id == target for run in store.runs(limit=10_000)):
            run_id = target
        report = stored.report(store, run_id)
        verdicts = _chosen(report, target)
        report = stored.with_samples(store, report, [verdict.pair for verdict in verdicts[:MOST_PAIRS]])
    suspects = [s for s in report.suspects if any(v.pair in s.explains for v in verdicts)]
    if as_json:
        emit_json(
            {
                "run": report.run,
                "simulated": report.fabric.simulated,
                "verdicts": [{"outcome": v.outcome, "verdict": v} for v in verdicts],
                "suspects": suspects,
                "certificates": _certificates(report, verdicts),
            }
        )
        return
    click.echo("\n".join(_lines(report, target, verdicts, suspects)))


def _chosen(report: RunReport, target: str) -> tuple[Verdict, ...]:
    """Return the verdicts that a target names, those that did not pass first."""
    if target == report.run.id:
        chosen = list(report.verdicts)
    else:
        left, _, right = target.replace(" -> ", ":").partition(":")
        chosen = [v for v in report.verdicts if _named(v.pair, left.strip(), right.strip())]
    if not chosen:
        raise _no_such(report, target)
    return tuple(sorted(chosen, key=lambda v: v.outcome is Outcome.PASS))


def _no_such(report: RunReport, target: str) -> UsageError:
    """Return what to say of a target without a pair: advise only a verify that can be."""
    names = [
        part.strip().partition("/")[0] for part in target.replace(" -> ", ":").split(":") if part.strip()
    ]
    what = f"run {report.run.id} has no pair of {target!r}"
    for name in names:
        if not report.fabric.has_device(name):
            near = get_close_matches(name, [device.name for device in report.fabric.devices], n=1)
            hint = f"did you mean {near[0]}? Or " if near else ""
            return UsageError(
                f"{what}: its inventory had no {name!r}", next_step=f"{hint}name another run with --run"
            )
        if report.fabric.device(name).role is not Role.NODE:
            return UsageError(
                f"{what}: {name} is a switch, and pairs are of nodes",
                next_step="name a node that hangs on it",
            )
    spec = quoted(target.strip() if ":" in target else f"{target.strip()}:all")
    step = f'name another run with --run, or run "fabricctl verify --pairs {spec}"'
    return UsageError(what, next_step=step)


def _named(pair: PairId, left: str, right: str) -> bool:
    ends = [{port.device, str(port)} for port in (pair.source, pair.target)]
    if not right:
        return any(left in names for names in ends)
    return (left in ends[0] and right in ends[1]) or (left in ends[1] and right in ends[0])


def _certificates(report: RunReport, verdicts: Sequence[Verdict]) -> list[object]:
    ports = {port for v in verdicts for port in (v.pair.source, v.pair.target)}
    return [c for c in report.certificates if c.port in ports]


def _lines(
    report: RunReport, target: str, verdicts: Sequence[Verdict], suspects: Sequence[Suspect]
) -> Iterator[str]:
    counts = [v.outcome for v in verdicts]
    tally = ", ".join(f"{counts.count(o)} {o}" for o in dict.fromkeys(counts))
    yield f"{target} in run {report.run.id} of {moment(report.run.started_at)}: {tally}"
    if report.fabric.simulated:
        yield f"SIMULATED: {report.fabric.simulated}; this says nothing about real hardware"
    yield from _suspect_lines(suspects)
    names = {name for v in verdicts for name in (v.pair.source.device, v.pair.target.device)}
    for name in sorted(names & report.agents.keys()):
        if report.agents[name].error:
            yield f"agent {name}: {report.agents[name].error}"
    paths, probes = Paths(report.fabric), dict[str, None]()
    samples: dict[PairId, list[Sample]] = {}
    for sample in report.samples:
        samples.setdefault(sample.pair, []).append(sample)
    for verdict in verdicts[:MOST_PAIRS]:
        yield ""
        yield from _verdict_lines(verdict, paths.of(verdict.pair))
        if verdict.outcome is not Outcome.PASS or len(verdicts) <= FEW_PAIRS:
            for sample in samples.get(verdict.pair, ()):
                probes[sample.probe] = None
                yield from _sample_lines(sample)
    if len(verdicts) > MOST_PAIRS:
        yield ""
        yield f"and {count(len(verdicts) - MOST_PAIRS, 'more pair')}; name one, as in node1:node2"
    yield ""
    yield from (f"{name} measures: {_measures(name)}" for name in probes)
    yield from _standing(report, verdicts)


def _suspect_lines(suspects: Sequence[Suspect]) -> Iterator[str]:
    for suspect in suspects:
        yield f"suspect {suspect.element}: {suspect.evidence}"
        if suspect.ambiguous_with:
            yield f"  ambiguous: {', '.join(suspect.ambiguous_with)} would explain as much"


def _verdict_lines(verdict: Verdict, path: Path) -> Iterator[str]:
    yield f"{verdict.outcome.upper()} {verdict.pair} ({verdict.topology})"
    yield f"  way: {_way(verdict.pair, path)}"
    for finding in verdict.findings:
        yield f"  {finding.outcome}: {finding.what}"
        if finding.limit:
            yield f"    limit: {finding.limit}"
        if finding.next_step:
            yield f"    next: {finding.next_step}"


def _way(pair: PairId, path: Path) -> str:
    sure = [element.name for element in sorted(path.certain) if element.kind is Kind.SWITCH]
    perhaps = [element.name for element in sorted(path.possible) if element.kind is Kind.SWITCH]
    over = [*sure, *([f"one or more of {', '.join(perhaps)}"] if perhaps else [])]
    return f"{pair.source} over {', '.join(over) or 'what the inventory does not name'} to {pair.target}"


def _sample_lines(sample: Sample) -> Iterator[str]:
    when = time.strftime("%H:%M:%S", time.localtime(sample.started_at))
    yield f"  {sample.probe} at {when} for {sample.duration_s:.1f} s by {sample.engine}: {_measured(sample)}"
    if sample.latencies and not sample.error:
        yield f"    95 % intervals: {_intervals(sample.latencies)}"
    counters = [
        f"{name} +{entry.value}"
        for name, entry in sample.counters.items()
        if isinstance(entry, Known) and entry.value != 0
    ]
    unread = [name for name, entry in sample.counters.items() if isinstance(entry, Missing)]
    if counters:
        yield f"    counters: {', '.join(counters)}"
    if unread:
        yield f"    counters that could not be read: {', '.join(unread)}"
    if sample.parameters:
        yield "    ran with: " + ", ".join(f"{name} {value}" for name, value in sample.parameters.items())
    for number, path in enumerate(sample.numbers_by_path):
        yield f"    queue pair {number}: " + ", ".join(f"{name} {value}" for name, value in path.items())


def _measured(sample: Sample) -> str:
    if sample.error:
        return sample.error
    if held := sample.latencies:
        shown = [(f"p{found.percent:g}", found.value) for found in percentiles(held, DISTRIBUTION)]
        return durations([("min", held.minimum), *shown, ("max", held.maximum)]) + f" (n={held.samples})"
    return ", ".join(f"{name} {value}" for name, value in sample.numbers.items()) or "nothing"


def _intervals(latencies: Histogram) -> str:
    found = percentiles(latencies, DISTRIBUTION)
    return ", ".join(
        f"p{p.percent:g} too few samples"
        if p.low is None or p.high is None
        else f"p{p.percent:g} {duration(p.low)} .. {duration(p.high)}"
        for p in found
    )


def _measures(probe: str) -> str:
    if probe not in finder.names("probe"):
        return "unknown: this installation has no such probe"
    return finder.probe(probe).measures


def _standing(report: RunReport, verdicts: Sequence[Verdict]) -> Iterator[str]:
    ports = {port for v in verdicts for port in (v.pair.source, v.pair.target)}
    for certificate in report.certificates:
        if certificate.port in ports:
            yield f"certificate of {certificate.port} from this run: {certificate.outcome}"
    bad = sorted({v.pair.source.device for v in verdicts if v.outcome is not Outcome.PASS})
    if bad:
        yield f'after the repair: "fabricctl verify --pairs {quoted(bad[0])}:all"'
