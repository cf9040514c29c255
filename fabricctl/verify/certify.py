"""One certificate a port: what its pairs proved, bound to what was true of the port at the time.

The worst of the port's pairs decides, except for pairs that are clearly not the port's fault:

- what is wrong with another device or port that was looked at itself: its settings, its agent;
- a failure that localisation puts down to the peer alone;
- a gap in the evidence on a peer of which nothing at all passed;
- a failure between two ports that pass with others, put down to the switches or links between them, if the
  policy's gate asks for every pair of a job anyway.

One bad node thus does not take the certificates of all that were tested with it. The pair itself stays on
record as failed or unknown, and a gate that asks for all pairs refuses the two together.

A pair that a time budget left no time for is as one that nobody asked for: what was proved of it before
stands, as long as it holds. Only what is known to be wrong with it all the same counts. A port that no pair
was measured of, and that nothing is known to be wrong with, gets no new certificate.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import assert_never

from fabricctl.model import facts
from fabricctl.model.certificate import Certificate
from fabricctl.model.codec import encode
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import ALL_PAIRS, Limits, Policy
from fabricctl.model.probe import Sample
from fabricctl.model.reading import DeviceReading, Known
from fabricctl.model.verdict import Finding, Outcome, Suspect, Verdict, worst

SETTINGS = "settings"
"""Key of the digest of the port's settings in a fingerprint."""

BUDGET = "budget"
"""The error kind of samples that there was no time for, and the check of a finding that says so of a pair."""

_FINDINGS = 12
"""So many findings a certificate holds; the run has them all."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """The run that certificates are issued for.

    Parameters
    ----------
    readings
        By device, read in the same run.
    now
        Unix time in seconds.
    unsettled_until
        Unix time at which a change that nobody has confirmed yet reverts by itself; None if there is none.
        No certificate outlives it.
    """

    run_id: str
    fabric: Fabric
    policy: Policy
    readings: Mapping[str, DeviceReading]
    now: float
    unsettled_until: float | None = None


def certify(
    verdicts: Sequence[Verdict], suspects: Sequence[Suspect], samples: Iterable[Sample], occasion: Occasion
) -> tuple[Certificate, ...]:
    """Return a certificate for every port that was tested, in the order of ports."""
    heard = _heard(samples)
    by_port: dict[PortId, list[Verdict]] = {}
    for verdict in _asked_for(verdicts, heard):
        for port in dict.fromkeys((verdict.pair.source, verdict.pair.target)):
            by_port.setdefault(port, []).append(verdict)
    alive = frozenset(port for port, held in by_port.items() if any(v.outcome is Outcome.PASS for v in held))
    explaining: dict[PairId, list[Suspect]] = {}
    for suspect in suspects:
        for pair in suspect.explains:
            explaining.setdefault(pair, []).append(suspect)
    digest = policy_digest(occasion.policy.limits)
    every = occasion.policy.gate.pairs == ALL_PAIRS
    found = []
    for port in sorted(by_port):
        case = _Case(
            explaining,
            alive,
            ", ".join(sorted(heard.engines.get(port, ()))),
            digest,
            every,
            frozenset((port.device, str(port), str(occasion.fabric.peer(port)))),
        )
        held = by_port[port]
        # With nothing measured, what is wrong with a peer says nothing of this port.
        if any(v.pair not in heard.unmeasured or not _excused(port, v, case) for v in held):
            found.append(_certificate(port, held, case, occasion))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Heard:
    """What samples say besides what they measured.

    Parameters
    ----------
    engines
        By port: what ran the loops.
    left_out
        By pair: the probes that there was no time for.
    unmeasured
        The pairs that there was no time for at all.
    """

    engines: Mapping[PortId, set[str]]
    left_out: Mapping[PairId, AbstractSet[str]]
    unmeasured: AbstractSet[PairId]


def _heard(samples: Iterable[Sample]) -> _Heard:
    engines: dict[PortId, set[str]] = {}
    left_out: dict[PairId, set[str]] = {}
    tried: set[PairId] = set()
    for sample in samples:
        if sample.error_kind == BUDGET:
            left_out.setdefault(sample.pair, set()).add(sample.probe)
        else:
            tried.add(sample.pair)
        if sample.engine:
            engines.setdefault(sample.pair.source, set()).add(sample.engine)
            engines.setdefault(sample.pair.target, set()).add(sample.engine)
    return _Heard(engines, left_out, left_out.keys() - tried)


def _asked_for(verdicts: Sequence[Verdict], heard: _Heard) -> Iterator[Verdict]:
    """Yield the verdicts that certificates rest on, without what there was no time for."""
    gone = {verdict.pair for verdict in verdicts if _counting(verdict, heard) is None}
    for verdict in verdicts:
        counting = _counting(verdict, heard)
        # One way alone proves nothing of a couple, and is not what was asked for either.
        if counting and not (counting.outcome is Outcome.PASS and gone and verdict.pair.reverse in gone):
            yield counting


def _counting(verdict: Verdict, heard: _Heard) -> Verdict | None:
    """Return what counts of a verdict; None if that is nothing.

    Of a pair that was left out in part, what was measured counts if it is not good: it is news. If it is
    good it proves too little, and what was proved of the pair before says more. Of a pair that was left out
    as a whole only a failure counts, such as a setting that was read.
    """
    if verdict.outcome is Outcome.PASS:
        return verdict
    probes = heard.left_out.get(verdict.pair, ())
    rest = tuple(f for f in verdict.findings if f.check != BUDGET and f.check not in probes)
    if not probes and len(rest) == len(verdict.findings):
        return verdict
    known = {finding.outcome for finding in rest} - {Outcome.PASS}
    if Outcome.FAIL in known or (known and verdict.pair not in heard.unmeasured):
        return replace(verdict, findings=rest)
    return None


@dataclass(frozen=True, slots=True)
class _Case:
    """What is known besides a port's own verdicts.

    Parameters
    ----------
    explaining
        By failed pair: the suspects that explain it.
    alive
        Ports with at least one pair that passed.
    pairs_matter
        Whether the gate looks at every pair of a job.
    own
        The names whose fault is the port's: its device, itself, the other end of its cable.
    """

    explaining: Mapping[PairId, Sequence[Suspect]]
    alive: frozenset[PortId]
    engine: str
    digest: str
    pairs_matter: bool
    own: frozenset[str]


def _certificate(port: PortId, verdicts: Sequence[Verdict], case: _Case, occasion: Occasion) -> Certificate:
    counting = [v for v in verdicts if not _excused(port, v, case)]
    outcome = worst(v.outcome for v in counting)
    policy, fabric = occasion.policy, occasion.fabric
    return Certificate(
        id=f"{occasion.run_id}:{port}",
        port=port,
        run_id=occasion.run_id,
        outcome=outcome,
        peers=_peers(port, verdicts),
        findings=_deciding(counting or verdicts, outcome),
        fingerprint=fingerprint(port, occasion.readings.get(port.device)),
        engine=case.engine,
        policy=policy.name,
        policy_digest=case.digest,
        issued_at=occasion.now,
        expires_at=min(
            occasion.now + policy.gate.max_age_s,
            math.inf if occasion.unsettled_until is None else occasion.unsettled_until,
        ),
        simulated=fabric.simulated,
        rail=fabric.port(port).rail,
        node_ports=tuple(p.id for p in fabric.device(port.device).ports),
        suspects=_blamed(port, counting, case.explaining),
        gate=policy.gate,
        inventory=fabric.source,
    )


def _excused(port: PortId, verdict: Verdict, case: _Case) -> bool:
    """Say whether what is wrong with the pair is clearly not this port's."""
    outcome = verdict.outcome
    if outcome is Outcome.PASS:
        return False
    peer = _peer(port, verdict.pair)
    culprits = verdict.culprits
    if culprits:
        return case.own.isdisjoint(culprits)
    match outcome:
        case Outcome.FAIL:
            explaining = case.explaining.get(verdict.pair, ())
            if not explaining or any(port in s.ports for s in explaining):
                return False
            if any(peer in s.ports and not s.ambiguous_with for s in explaining):
                return True
            between = not any(peer in s.ports for s in explaining)
            return between and case.pairs_matter and {port, peer} <= case.alive
        case Outcome.UNKNOWN | Outcome.ERROR:
            return port in case.alive and peer not in case.alive
        case _:
            assert_never(outcome)


def _peer(port: PortId, pair: PairId) -> PortId:
    return pair.target if port == pair.source else pair.source


def _peers(port: PortId, verdicts: Sequence[Verdict]) -> dict[str, Outcome]:
    """Return by peer the worst of both directions; one that was tested one way only is unknown at best."""
    found: dict[PortId, dict[PairId, Outcome]] = {}
    for verdict in verdicts:
        found.setdefault(_peer(port, verdict.pair), {})[verdict.pair] = verdict.outcome
    return {
        str(peer): worst([*ways.values(), *([] if _both_ways(ways) else [Outcome.UNKNOWN])])
        for peer, ways in found.items()
    }


def _both_ways(ways: Mapping[PairId, Outcome]) -> bool:
    return all(pair.reverse in ways for pair in ways)


def _deciding(verdicts: Sequence[Verdict], outcome: Outcome) -> tuple[Finding, ...]:
    """Return the findings with the outcome of the whole; of a pass, one a check."""
    held = [finding for verdict in verdicts for finding in verdict.findings if finding.outcome is outcome]
    if outcome is Outcome.PASS:
        held = list({finding.check: finding for finding in reversed(held)}.values())[::-1]
    return tuple(held[:_FINDINGS])


def _blamed(
    port: PortId, verdicts: Sequence[Verdict], explaining: Mapping[PairId, Sequence[Suspect]]
) -> tuple[str, ...]:
    """Return the suspects of the port's failures, those with the port in them first, then the weightiest."""
    blamed: dict[str, Suspect] = {}
    for verdict in verdicts:
        if verdict.outcome is Outcome.FAIL:
            blamed |= {suspect.element: suspect for suspect in explaining.get(verdict.pair, ())}
    near_first = sorted(blamed.values(), key=lambda s: (port not in s.ports, -len(s.explains)))
    return tuple(" or ".join((s.element, *s.ambiguous_with)) for s in near_first)


def fingerprint(port: PortId, reading: DeviceReading | None) -> dict[str, str]:
    """Return what a certificate is bound to, as text by name; what could not be read is absent."""
    if reading is None or port not in reading.ports:
        return {}
    of_port = reading.ports[port]
    found = {}
    for name in facts.FINGERPRINT:
        entry = of_port.facts.get(name, reading.facts.get(name))
        if isinstance(entry, Known):
            found[name] = _text(entry)
    known = {
        name: encode(entry.value) for name, entry in of_port.settings.items() if isinstance(entry, Known)
    }
    if known:
        found[SETTINGS] = _digest(known)
    return found


def _text(entry: Known) -> str:
    if isinstance(entry.value, tuple):
        return ", ".join(str(item) for item in entry.value)
    return str(entry.value)


def policy_digest(limits: Limits) -> str:
    """Return the SHA-256 of the limits."""
    return _digest(encode(limits))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
