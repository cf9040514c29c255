"""A verify run as text for a reader: what failed first, every number with its count and bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fabricctl.model.certificate import Certificate
from fabricctl.model.verdict import Finding, Outcome, Suspect, Verdict, worst
from fabricctl.plugin.layout import moment, state, table
from fabricctl.plugin.protocols import RunReport

MOST_PASSED = 64
"""So many pairs that passed are listed; those that did not pass are listed all."""

_WORST_FIRST = (Outcome.FAIL, Outcome.ERROR, Outcome.UNKNOWN, Outcome.PASS)


class Text:
    """The report ``text``."""

    name: str = "text"

    def render(self, run: RunReport) -> str:
        """Return the report, lines ended by newlines."""
        parts = (
            _head(run),
            _reasons(run.verdicts),
            _suspects(run.suspects),
            _agents(run),
            _pairs(run.verdicts),
            _certificates(run.certificates),
        )
        return "\n".join("\n".join(lines) for lines in map(list, parts) if lines) + "\n"


def _head(report: RunReport) -> Iterator[str]:
    run = report.run
    yield f"run {run.id} ({run.kind}) by {run.by}: {state(run)}"
    ended = moment(run.ended_at) if run.ended_at is not None else "no end"
    yield f"from {moment(run.started_at)} to {ended}, inventory {run.inventory}, policy {report.policy.name}"
    if report.fabric.simulated:
        yield f"SIMULATED: {report.fabric.simulated}; these results say nothing about real hardware"
    counts = [v.outcome for v in report.verdicts]
    shown = ", ".join(f"{counts.count(o)} {o}" for o in _WORST_FIRST if o in counts)
    yield f"{len(counts)} directed pairs: {shown}" if counts else "no pair was judged"
    engines = sorted({sample.engine for sample in report.samples if sample.engine})
    if engines:
        yield f"engine: {', '.join(engines)}"


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    for verdict in _ordered(verdicts):
        if verdict.outcome is Outcome.PASS:
            continue
        yield ""
        yield f"{verdict.outcome.upper()} {verdict.pair} ({verdict.topology})"
        bad = [f for f in verdict.findings if f.outcome is not Outcome.PASS]
        for finding in bad:
            yield f"  {finding.outcome}: {finding.what}"
        for step in dict.fromkeys(f.next_step for f in bad if f.next_step):
            yield f"  next: {step}"


def _ordered(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return sorted(verdicts, key=lambda verdict: _WORST_FIRST.index(verdict.outcome))


def _suspects(suspects: Iterable[Suspect]) -> Iterator[str]:
    for suspect in suspects:
        yield ""
        yield f"SUSPECT {suspect.element}"
        yield f"  {suspect.evidence}"
        if suspect.ambiguous_with:
            yield f"  ambiguous: {', '.join(suspect.ambiguous_with)} would explain as much"


def _agents(report: RunReport) -> Iterator[str]:
    silent = [agent for agent in report.agents.values() if agent.error]
    for agent in silent:
        yield ""
        yield f"AGENT {agent.node}: {agent.error}"


def _pairs(verdicts: Sequence[Verdict]) -> Iterator[str]:
    bad = [v for v in _ordered(verdicts) if v.outcome is not Outcome.PASS]
    passed = [v for v in verdicts if v.outcome is Outcome.PASS]
    shown = [*bad, *passed[:MOST_PASSED]]
    if not shown:
        return
    checks = list(dict.fromkeys(f.check for v in shown for f in v.findings))
    rows = [("pair", "class", "outcome", *checks)]
    rows += [
        (str(v.pair), v.topology, str(v.outcome), *(_cell(v.findings, check) for check in checks))
        for v in shown
    ]
    yield ""
    yield from table(rows)
    if len(passed) > MOST_PASSED:
        yield f"and {len(passed) - MOST_PASSED} more pairs that passed"


def _cell(findings: Iterable[Finding], check: str) -> str:
    """Return what a check measured; of several findings the worst."""
    held = [f for f in findings if f.check == check]
    if not held:
        return "-"
    outcome = worst(f.outcome for f in held)
    finding = [f for f in held if f.outcome is outcome][-1]  # limits come with the highest percentile last
    measured = finding.measured or str(outcome)
    count = "" if " of " in measured or not finding.samples else f" n={finding.samples}"
    return f"{measured}{count}"


def _certificates(certificates: Sequence[Certificate]) -> Iterator[str]:
    if not certificates:
        return
    yield ""
    rows = [("certificate of", "outcome", "until", "suspect")]
    rows += [
        (str(c.port), str(c.outcome), moment(c.expires_at), c.suspects[0] if c.suspects else "-")
        for c in certificates
    ]
    yield from table(rows)


PLUGIN = Text()
