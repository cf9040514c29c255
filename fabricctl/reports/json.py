"""A verify run as JSON for a program: everything but the histograms, of which it holds percentiles."""

from __future__ import annotations

import json
from typing import Any

from fabricctl.model.codec import encode
from fabricctl.model.probe import Sample
from fabricctl.model.stats import DISTRIBUTION, percentiles
from fabricctl.model.verdict import Verdict
from fabricctl.plugin.protocols import RunReport

FORMAT = 1
"""Rises when a key changes its meaning or goes; new keys do not count."""


class Json:
    """The report ``json``."""

    name: str = "json"

    def render(self, run: RunReport) -> str:
        """Return one JSON object, indented, ended by a newline."""
        return json.dumps(content(run), indent=2, ensure_ascii=False) + "\n"


def content(report: RunReport) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "format": FORMAT,
        "run": encode(report.run),
        "simulated": report.fabric.simulated,
        "policy": report.policy.name,
        "limits": encode(report.policy.limits),
        "agents": encode(report.agents),
        "pairs": [_verdict(verdict) for verdict in report.verdicts],
        "suspects": encode(report.suspects),
        "samples": [_sample(sample) for sample in report.samples],
        "certificates": encode(report.certificates),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "source": str(verdict.pair.source),
        "target": str(verdict.pair.target),
        "topology": verdict.topology,
        "outcome": str(verdict.outcome),
        "findings": encode(verdict.findings),
    }


def _sample(sample: Sample) -> dict[str, Any]:
    held = encode(sample)
    held.pop("latencies")
    values = sample.latencies
    source, target = held.pop("pair")
    # Too few samples leave a side of the interval open: null, not a number that nobody measured.
    latency = encode(percentiles(values, DISTRIBUTION)) if values else []
    return {
        "source": source,
        "target": target,
        **held,
        "samples": values.samples,
        "latency_min_ns": values.minimum,
        "latency_ns": latency,
        "latency_max_ns": values.maximum,
    }


PLUGIN = Json()
