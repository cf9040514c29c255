"""Judge the few messages of several packets that every probe tries after its short ones.

Passes
    All of them were answered; nothing is said.
Fails
    One of them was not, while short messages on the same connections were: the path has an MTU hole.
Unknown
    Nothing: a sample that does not say that any were tried is left to the probe's own judge.

``fabricctl/agent/beyond.py`` is the half on the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabricctl.model.names import PairId
from fabricctl.model.probe import Sample
from fabricctl.model.verdict import Finding, Outcome

SMALL_BYTES, SMALL_ANSWERED = "small_bytes", "small_answered"
LARGE_BYTES, LARGE_ASKED, LARGE_ANSWERED = "large_bytes", "large_asked", "large_answered"
STOPPED = "stopped"
"""Parameter of a sample: why its source ended early."""


def has_hole(sample: Sample, flow: str = "") -> bool:
    """Say whether a long message of the sample was not answered; `flow` stands in front of the counts."""
    asked = sample.numbers.get(flow + LARGE_ASKED)
    return asked is not None and sample.numbers.get(flow + LARGE_ANSWERED, 0) < asked


def holes(probe: str, pair: PairId, samples: Sequence[Sample]) -> tuple[Finding, ...]:
    """Return a finding for each sample whose long messages did not all arrive."""
    return tuple(_hole(probe, pair, sample) for sample in samples if not sample.error and has_hole(sample))


def _hole(probe: str, pair: PairId, sample: Sample) -> Finding:
    numbers, mtu = sample.numbers, sample.parameters.get("path_mtu_bytes", "?")
    asked, answered = numbers[LARGE_ASKED], numbers.get(LARGE_ANSWERED, 0)
    large, small = numbers.get(LARGE_BYTES, 0), numbers.get(SMALL_BYTES, 0)
    why = sample.parameters.get(STOPPED, "no reason was given")
    passed = numbers.get(SMALL_ANSWERED, 0)
    return Finding(
        check=probe,
        subject=str(pair),
        outcome=Outcome.FAIL,
        what=f"{probe}: messages of {large} bytes do not arrive while those of {small} bytes do: {answered}"
        f" of {asked} with packets of the path MTU {mtu} were answered, all {passed} short ones were; {why}",
        measured=f"{answered} of {asked} long messages answered",
        limit=f"{asked} of {asked}",
        samples=asked,
        next_step="an MTU on the way is too small for the path MTU, or nearly all long packets are lost:"
        ' "fabricctl plan" shows MTUs that differ, also those of switch ports',
    )
