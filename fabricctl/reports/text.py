"""A verify run as text for a reader: what failed first, every number with its count and bound."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabricctl.model.certificate import Certificate
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId
from fabricctl.model.policy import Limits
from fabricctl.model.probe import Sample
from fabricctl.model.stats import DISTRIBUTION, percentiles
from fabricctl.model.verdict import Finding, Outcome, Suspect, Verdict, worst
from fabricctl.model.verdicts import Verdicts
from fabricctl.model.words import count
from fabricctl.plugin import finder
from fabricctl.plugin.judging import ANY
from fabricctl.plugin.layout import MILLISECOND_NS, duration, moment, state, table
from fabricctl.plugin.protocols import RunReport

MOST_PASSED = 64
"""So many pairs that passed are listed; those that did not pass are listed all."""

MOST_NAMED = 4
"""So many of the pairs that have one and the same reason are named there; the table has them all."""

MOST_MERGED = 20_000
"""So many samples are put together (in about a second); a larger run has its distributions in ``json``."""

MEDIAN = 50.0

_WORST_FIRST = (Outcome.FAIL, Outcome.ERROR, Outcome.UNKNOWN, Outcome.PASS)


class Text:
    """The report ``text``."""

    name: str = "text"

    def render(self, run: RunReport) -> str:
        """Return the report, lines ended by newlines."""
        parts = (
            _head(run),
            _pairs(run),
            _distributions(run),
            _reasons(_own(run.verdicts)),
            _suspects(run.suspects),
            _agents(run),
            _certificates(run.certificates),
            _next_step(run),
        )
        return "\n\n".join("\n".join(lines) for lines in map(list, parts) if lines) + "\n"


def _head(report: RunReport) -> Iterator[str]:
    run = report.run
    if report.fabric.simulated:
        yield f"SIMULATED: {report.fabric.simulated}; these results say nothing about real hardware"
    yield f"run {run.id} ({run.kind}) by {run.by}: {state(run)}"
    ended = moment(run.ended_at) if run.ended_at is not None else "no end"
    yield f"from {moment(run.started_at)} to {ended}, inventory {run.inventory}, policy {report.policy.name}"
    engines = sorted({sample.engine for sample in report.samples if sample.engine})
    if engines:
        yield f"engine: {', '.join(engines)}"
    if not report.verdicts:
        yield "no pair was judged"


def _pairs(report: RunReport) -> Iterator[str]:
    own = _own(report.verdicts)
    bad = [v for v in _ordered(own) if v.outcome is not Outcome.PASS]
    passed = [v for v in own if v.outcome is Outcome.PASS]
    shown = [*bad, *passed[:MOST_PASSED]]
    if not shown:
        return
    # What was found of one end (its agent) stands with the reasons: only the pair's own checks have columns.
    checks = list(dict.fromkeys(f.check for v in shown for f in v.findings if f.subject == str(v.pair)))
    series = _series(report.samples)
    columns = [
        ("pair", "", *(str(v.pair) for v in shown)),
        ("class", "", *(v.topology for v in shown)),
        ("outcome", "", *(str(v.outcome) for v in shown)),
        *(
            _column(check, [_measured(v, check, series, report.policy.limits) for v in shown])
            for check in checks
        ),
    ]
    yield from table(list(zip(*columns, strict=True)))
    if len(passed) > MOST_PASSED:
        yield f"and {count(len(passed) - MOST_PASSED, 'more pair')} that passed"
    yield from _alike(report.verdicts)
    known = finder.names("probe")
    for check in checks:
        if check in known:
            # The first clause says which way is counted; "fabricctl explain" has the rest.
            yield f"{check}: {re.split('[:;]', finder.probe(check).measures)[0]}"


def _own(verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
    """Return the verdicts that are not only a number among many that are alike."""
    return tuple(verdicts.whole.values()) if isinstance(verdicts, Verdicts) else verdicts


def _alike(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Say of how many pairs of a large run the same is so."""
    if isinstance(verdicts, Verdicts):
        counts = Counter(verdicts.codes)
        for code, same in enumerate(verdicts.alike, start=1):
            said = "; ".join(finding.what for finding in same.findings)
            yield f"and {count(counts[code], 'more pair')} of {same.topology}: {same.outcome}: {said}"


def _ordered(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return sorted(verdicts, key=lambda verdict: _WORST_FIRST.index(verdict.outcome))


_Series = Mapping[tuple[PairId, str], Sequence[Histogram]]
"""The latencies of every pair and probe that has some, one histogram a sample."""


def _series(samples: Iterable[Sample]) -> _Series:
    found: dict[tuple[PairId, str], list[Histogram]] = {}
    for sample in samples:
        if sample.latencies and not sample.error:
            found.setdefault((sample.pair, sample.probe), []).append(sample.latencies)
    return found


def _distributions(report: RunReport) -> Iterator[str]:
    """Say for each probe and class how all its latencies lie, in one line each."""
    if isinstance(report.verdicts, Verdicts):
        yield "the samples of most pairs are in the store only: no distribution of all of them is shown"
        return
    classes = {verdict.pair: verdict.topology for verdict in report.verdicts}
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in report.samples:
        if sample.latencies and not sample.error and sample.pair in classes:
            groups.setdefault((sample.probe, classes[sample.pair]), []).append(sample)
    if not groups:
        return
    if sum(map(len, groups.values())) > MOST_MERGED:
        yield f"more than {MOST_MERGED} samples: their distributions are in the report json"
        return
    head = ("latency", "class", "n", "min", *(f"p{p:g}" for p in DISTRIBUTION), "max", "unit", "floor")
    rows = [head, *(_distribution(*key, held) for key, held in sorted(groups.items()))]
    if all(row[-1] == "-" for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    else:
        yield "floor: p50 of the same operation of the engine with itself"
    yield from table(rows)
    if any("-" in row[4 : 4 + len(DISTRIBUTION)] for row in rows):
        yield "-: too few samples to bound that percentile at 95 %"


def _distribution(probe: str, topology: str, held: Sequence[Sample]) -> tuple[str, ...]:
    whole = Histogram().merge(*(sample.latencies for sample in held))
    values = [
        whole.minimum,
        *(p.value if p.bounded else None for p in percentiles(whole, DISTRIBUTION)),
        whole.maximum,
    ]
    # An agent may say anything of its floor: only whole numbers are shown.
    floors = [floor for s in held if isinstance(floor := s.parameters.get("floor_ns"), int)]
    known = [value for value in (*values, *floors) if value is not None]
    unit, size = ("ms", 1e6) if min(known) >= MILLISECOND_NS else ("us", 1e3)
    digits = 2 if unit == "ms" else 1
    cells = ["-" if value is None else f"{value / size:.{digits}f}" for value in values]
    ends = dict.fromkeys(f"{end / size:.{digits}f}" for end in (min(floors), max(floors))) if floors else ()
    return (probe, topology, str(whole.samples), *cells, unit, " .. ".join(ends) or "-")


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a cell of the table shows.

    Parameters
    ----------
    words
        The finding's own words, where there are no latencies.
    samples
        0 where the words name the count.
    percents, values_ns
        The percentiles shown and their values.
    """

    words: str = "-"
    samples: int = 0
    percents: tuple[float, ...] = ()
    values_ns: tuple[int, ...] = ()


def _measured(verdict: Verdict, check: str, series: _Series, limits: Limits) -> _Measured:
    """Return what a check measured: of latencies the median and the highest limited percentile."""
    if held := series.get((verdict.pair, check)):
        values = Histogram().merge(*held)
        limited = [
            a.percentile
            for a in limits.latency
            if a.probe == check and a.topology in {verdict.topology, ANY} and a.percentile > MEDIAN
        ]
        percents = (MEDIAN, *([max(limited)] if limited else []))
        shown = tuple(found.value for found in percentiles(values, percents))
        return _Measured(samples=values.samples, percents=percents, values_ns=shown)
    findings = [f for f in verdict.findings if f.check == check]
    return _in_words(findings) if findings else _Measured()


def _in_words(held: Sequence[Finding]) -> _Measured:
    outcome = worst(f.outcome for f in held)
    finding = [f for f in held if f.outcome is outcome][-1]  # limits come with the highest percentile last
    words = finding.measured or str(outcome)
    return _Measured(words, 0 if " of " in words else finding.samples)


def _column(check: str, cells: Sequence[_Measured]) -> tuple[str, ...]:
    """Return the check's name, what all its cells share (percentiles, unit, count), and the cells."""
    percents = {cell.percents for cell in cells if cell.percents}
    units = {duration(value).split()[1] for cell in cells for value in cell.values_ns}
    counts = {cell.samples for cell in cells if cell.samples}
    shared = []
    if len(percents) == 1:
        shared.append("/".join(f"p{percent:g}" for percent in next(iter(percents))))
    if len(units) == 1:
        shared += units
    if len(counts) == 1:
        shared.append(f"n={next(iter(counts))}")
    return (check, " ".join(shared), *(_text(cell, shared) for cell in cells))


def _text(cell: _Measured, shared: Sequence[str]) -> str:
    """Return a cell without what its column's head says already."""
    names = [f"p{percent:g}" for percent in cell.percents]
    head = names if "/".join(names) not in shared else [""] * len(names)
    parts = []
    for name, value in zip(head, cell.values_ns, strict=True):
        number, unit = duration(value).split()
        parts.append(" ".join(word for word in (name, number, "" if unit in shared else unit) if word))
    count = f"n={cell.samples}"
    counted = cell.samples and count not in shared
    return ("/".join(parts) or cell.words) + (f" {count}" if counted else "")


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    groups: dict[tuple[str, ...], list[Verdict]] = {}
    for verdict in _ordered(verdicts):
        if verdict.outcome is not Outcome.PASS:
            groups.setdefault(tuple(_why(verdict)), []).append(verdict)
    for lines, held in groups.items():
        named = ", ".join(str(v.pair) for v in held[:MOST_NAMED])
        more = f" and {len(held) - MOST_NAMED} more" if len(held) > MOST_NAMED else ""
        yield f"{held[0].outcome.upper()} {named}{more}"
        yield from (f"  {line}" for line in lines)


def _why(verdict: Verdict) -> Iterator[str]:
    bad = [f for f in verdict.findings if f.outcome is not Outcome.PASS]
    if not bad:
        yield f"{verdict.outcome}: nothing was measured"
    for finding in bad:
        yield f"{finding.outcome}: {finding.what}"
    for step in dict.fromkeys(f.next_step for f in bad if f.next_step):
        yield f"next: {step}"


def _suspects(suspects: Iterable[Suspect]) -> Iterator[str]:
    for suspect in suspects:
        yield f"SUSPECT {suspect.element}: explains {count(len(suspect.explains), 'pair')}"
        yield f"  {suspect.evidence}"
        if suspect.ambiguous_with:
            yield f"  ambiguous: {', '.join(suspect.ambiguous_with)} would explain as much"


def _agents(report: RunReport) -> Iterator[str]:
    for name, agent in report.agents.items():
        if agent.error:
            yield f"AGENT {name}: {agent.error}"


def _certificates(certificates: Sequence[Certificate]) -> Iterator[str]:
    for certificate in certificates:
        if certificate.outcome is not Outcome.PASS:
            suspect = f"; suspect {certificate.suspects[0]}" if certificate.suspects else ""
            yield f"no certificate for {certificate.port}: {certificate.outcome}{suspect}"
    passed = [c.expires_at for c in certificates if c.outcome is Outcome.PASS]
    if passed:
        yield f"{count(len(passed), 'port')} certified until {moment(min(passed))}"


def _next_step(report: RunReport) -> Iterator[str]:
    for verdict in _ordered(_own(report.verdicts))[:1]:
        if verdict.outcome is Outcome.PASS:
            yield f'run {report.run.id}; next: "fabricctl certs list"'
        else:
            pair = verdict.pair
            yield f'next: "fabricctl explain {pair.source}:{pair.target} --run {report.run.id}"'


PLUGIN = Text()
