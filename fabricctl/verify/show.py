"""A verify run as text for a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fabricctl.model.names import PairId
from fabricctl.model.policy import Limits
from fabricctl.model.probe import Sample
from fabricctl.model.stats import CONFIDENCE, percentile, upper_bound
from fabricctl.model.verdict import Outcome, Suspect, Verdict
from fabricctl.plugin.judging import microseconds
from fabricctl.plugin.protocols import RunReport

MOST_ROWS = 60
"""With more pairs than this, the table leaves out those that passed."""
MOST_REASONS = 20
"""Reasons that are written out; the stored run has all."""
HEAD = ("pair", "class", "read p50", "read p99", "write p50", "ping-pong p50", "loss", "outcome")
COLUMNS = (("read_latency", 50.0), ("read_latency", 99.0), ("write_latency", 50.0), ("write_pingpong", 50.0))
WORST_FIRST = (Outcome.FAIL, Outcome.ERROR, Outcome.UNKNOWN, Outcome.PASS)


def text(report: RunReport, store: str) -> str:
    """Return the whole text.

    Parameters
    ----------
    store
        Where the run is kept.
    """
    lines = [
        *_simulated(report),
        *_table(report),
        *_small_mtu(report),
        *_reasons(report.verdicts),
        *_agents(report),
        *_suspects(report.suspects),
        *_certificates(report),
        f"run {report.run.id}: {report.run.summary}; kept in {store}",
        *_next_step(report),
    ]
    return "\n".join(lines)


def _simulated(report: RunReport) -> Iterator[str]:
    if report.fabric.simulated:
        yield f"simulated ({report.fabric.simulated}): these numbers say nothing about hardware"


def _table(report: RunReport) -> Iterator[str]:
    samples: dict[tuple[PairId, str], list[Sample]] = {}
    for sample in report.samples:
        if not sample.error:
            samples.setdefault((sample.pair, sample.probe), []).append(sample)
    shown = report.verdicts
    if len(shown) > MOST_ROWS:
        shown = tuple(verdict for verdict in shown if verdict.outcome is not Outcome.PASS)
    rows = [_row(verdict, samples, report.policy.limits) for verdict in shown]
    if rows:
        widths = [max(len(row[column]) for row in [HEAD, *rows]) for column in range(len(HEAD))]
        for row in [HEAD, *rows]:
            cells = zip(row, widths, strict=True)
            yield "  ".join(cell.ljust(width) for cell, width in cells).rstrip()
    if len(shown) < len(report.verdicts):
        yield f"and {len(report.verdicts) - len(shown)} pairs that passed"


def _row(
    verdict: Verdict, samples: Mapping[tuple[PairId, str], Sequence[Sample]], limits: Limits
) -> tuple[str, ...]:
    latencies = [_latency(samples.get((verdict.pair, name), ()), percent) for name, percent in COLUMNS]
    loss = _loss(samples.get((verdict.pair, "loss"), ()), limits)
    return (str(verdict.pair), verdict.topology, *latencies, loss, str(verdict.outcome))


def _latency(samples: Iterable[Sample], percent: float) -> str:
    values = [value for sample in samples for value in sample.latencies_ns]
    return microseconds(percentile(values, percent).value) if values else "-"


def _loss(samples: Iterable[Sample], limits: Limits) -> str:
    counts = [
        (s.numbers["missing"], s.numbers["sent"]) for s in samples if {"missing", "sent"} <= s.numbers.keys()
    ]
    missing, sent = sum(m for m, _ in counts), sum(n for _, n in counts)
    if not sent:
        return "-"
    confidence = limits.loss.confidence if limits.loss else CONFIDENCE
    return f"{missing} of {sent} (< {upper_bound(missing, sent, confidence):.2%})"


def _small_mtu(report: RunReport) -> Iterator[str]:
    """Say where the ports' active MTU made the probes use a smaller path MTU than the policy wants."""
    wanted = report.policy.mtu.rdma_bytes
    used = {s.pair: int(s.parameters["path_mtu_bytes"]) for s in report.samples if not s.error}
    small = sorted(mtu for mtu in used.values() if mtu < wanted)
    if small:
        yield (
            f"path MTU: {len(small)} of {len(used)} pairs used {small[0]} bytes, not the wanted {wanted}:"
            ' the ports\' active MTU is smaller; see "fabricctl plan"'
        )


def _reasons(verdicts: Iterable[Verdict]) -> Iterator[str]:
    bad = sorted(
        (v for v in verdicts if v.outcome is not Outcome.PASS), key=lambda v: WORST_FIRST.index(v.outcome)
    )
    for verdict in bad[:MOST_REASONS]:
        decisive = next((f for f in verdict.findings if f.outcome is verdict.outcome), None)
        if decisive is None:
            yield f"{str(verdict.outcome).upper()} {verdict.pair}: nothing was measured"
            continue
        step = f"; {decisive.next_step}" if decisive.next_step else ""
        yield f"{str(verdict.outcome).upper()} {verdict.pair}: {decisive.what}{step}"
    if len(bad) > MOST_REASONS:
        yield f"and {len(bad) - MOST_REASONS} more pairs that did not pass"


def _agents(report: RunReport) -> Iterator[str]:
    for node, agent in report.agents.items():
        if agent.error:
            yield f"agent {node}: {agent.error}"


def _suspects(suspects: Iterable[Suspect]) -> Iterator[str]:
    for suspect in suspects:
        also = f" (ambiguous with {', '.join(suspect.ambiguous_with)})" if suspect.ambiguous_with else ""
        yield f"suspect {suspect.element}: explains {len(suspect.explains)} pairs{also}; {suspect.evidence}"


def _certificates(report: RunReport) -> Iterator[str]:
    outcomes = [certificate.outcome for certificate in report.certificates]
    if not outcomes:
        return
    counts = ", ".join(f"{outcomes.count(o)} {o}" for o in WORST_FIRST if o in outcomes)
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(min(c.expires_at for c in report.certificates)))
    yield f"certificates: {counts}; valid until {until}"


def _next_step(report: RunReport) -> Iterator[str]:
    worst_first = sorted(report.verdicts, key=lambda v: WORST_FIRST.index(v.outcome))
    if worst_first and worst_first[0].outcome is not Outcome.PASS:
        pair = worst_first[0].pair
        yield f'next: "fabricctl explain {pair.source}:{pair.target}"'
    elif worst_first:
        yield 'next: "fabricctl certs list" shows what is certified'
