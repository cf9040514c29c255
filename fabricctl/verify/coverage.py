"""How far the time goes: which pairs a time budget covers, the most pressing first, and what it leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId
from fabricctl.model.past import Past, Result
from fabricctl.model.policy import Policy
from fabricctl.model.probe import Round
from fabricctl.model.reading import DeviceReading
from fabricctl.model.words import count
from fabricctl.store import Store
from fabricctl.verify.certify import fingerprint, policy_digest
from fabricctl.verify.pairs import Pairs
from fabricctl.verify.repair import PARTNERS, repair
from fabricctl.verify.risk import RISKS, Risk, risks
from fabricctl.verify.schedule import bandwidth_rounds, packed, rounds
from fabricctl.verify.uplinks import uplinks

__all__ = ["PARTNERS", "Chosen", "Past", "Result", "choose", "estimate_s", "recall", "repair"]

LIVES = 4
"""Results are remembered for so many lives of a certificate; what is older was never tested."""

SETUP_S = 1.0
"""Guess: seconds that a round takes besides its probes (connecting, reading counters)."""
OPERATION_S = 20e-6
"""Guess: seconds that an operation of a latency probe takes: some round trips through a few switches."""
PACKET_S = 5e-6
"""Guess: seconds that a packet of the loss probe takes, in trains with pauses between them."""

_COUNTED = {"samples": OPERATION_S, "warmup": OPERATION_S, "packets": PACKET_S, "seconds": 1.0}


def recall(
    store: Store, fabric: Fabric, policy: Policy, readings: Mapping[str, DeviceReading], now: float
) -> Past:
    """Return what the store knows of earlier runs on this inventory, and how the ports are now.

    A simulation's results are no past of a real run, nor of another simulation's, and the other way round.

    Parameters
    ----------
    readings
        By device, of now. A port of a device that is not among them counts as changed.
    now
        Unix time in seconds.
    """
    ports = [port.id for port in fabric.node_ports()]
    last = store.last_verdicts(fabric.source, now - LIVES * policy.gate.max_age_s, fabric.simulated)
    held = (
        c
        for c in store.certificates(peers=False)
        if c.inventory in {"", fabric.source} and c.simulated == fabric.simulated
    )
    return Past(
        now=now,
        max_age_s=policy.gate.max_age_s,
        results=last.results,
        bases=last.bases,
        certificates={certificate.port: certificate for certificate in held},
        fingerprints={p: fingerprint(p, readings[p.device]) for p in ports if p.device in readings},
        policy_digest=policy_digest(policy.limits),
    )


def estimate_s(parameters: Iterable[Mapping[str, int | float | str]]) -> float:
    """Return how many seconds a round will take, by what its probes are to do; a guess until one is measured.

    Parameters
    ----------
    parameters
        Of each probe, as its plug-in takes them from the policy (``Probe.parameters``): ``samples`` and
        ``warmup`` operations, ``packets``, ``seconds`` of a stream. A probe with none of these counts with
        its ``deadline_s``. Each runs in both directions of a couple.
    """
    total = SETUP_S
    for held in parameters:
        known = [float(held[name]) * each for name, each in _COUNTED.items() if name in held]
        total += 2 * (sum(known) if known else float(held.get("deadline_s", 0.0)))
    return total


@dataclass(frozen=True)
class Chosen:
    """What a time budget has room for.

    Parameters
    ----------
    turns
        All rounds, in the order in which they run.
    counts
        By round: how many pairs of each risk (in the order of `RISKS`) lie in it.
    done
        So many rounds have run already.
    upto
        The rounds before this one are to run, or have run.
    left_s
        Seconds that are left of the budget; None where there is none.
    seconds_a_round
        What a round is taken to need.
    """

    turns: tuple[Round, ...]
    counts: tuple[tuple[int, ...], ...]
    done: int
    upto: int
    left_s: float | None
    seconds_a_round: float

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds that are still to run."""
        return self.turns[self.done : self.upto]

    @property
    def left_out(self) -> tuple[Round, ...]:
        """The rounds that there is no time for."""
        return self.turns[self.upto :]

    @property
    def covered(self) -> Mapping[Risk, int]:
        """How many pairs are covered, by risk, those of the rounds that have run included; no zeros."""
        return _summed(self.counts[: self.upto])

    @property
    def left(self) -> Mapping[Risk, int]:
        """How many pairs are left out, by risk; no zeros."""
        return _summed(self.counts[self.upto :])

    @property
    def why(self) -> str:
        """Say what is covered and what is left, in one line."""
        covers, leaves = sum(self.covered.values()), sum(self.left.values())
        ahead = self.upto - self.done
        total = count(covers + leaves, "pair")
        took = f"{count(ahead, 'round')} of about {self.seconds_a_round:.3g} s"
        if self.left_s is None:
            return f"all {total}, {took}: {_said(self.covered)}"
        within = f"the time budget has {self.left_s:.0f} s left: {took}"
        if not leaves:
            return f"{within}, enough for all {total}: {_said(self.covered)}"
        return (
            f"{within} cover {covers} of {total} ({_said(self.covered)})"
            f" and leave {leaves} ({_said(self.left)})"
        )

    def as_json(self) -> dict[str, object]:
        """Return the same for a program."""
        return {
            "rounds": self.upto - self.done,
            "rounds_done": self.done,
            "rounds_left_out": len(self.turns) - self.upto,
            "seconds_a_round": self.seconds_a_round,
            "budget_left_s": self.left_s,
            "covered": {risk.name.lower(): number for risk, number in self.covered.items()},
            "left_out": {risk.name.lower(): number for risk, number in self.left.items()},
        }

    def again(self, done: int, left_s: float | None, seconds_a_round: float) -> Chosen:
        """Return the choice anew, after a round; cheap.

        Parameters
        ----------
        done
            How many rounds have run by now.
        left_s
            Seconds that are left of the budget.
        seconds_a_round
            What a round took on average so far.
        """
        upto = done + _fitting(len(self.turns) - done, left_s, seconds_a_round)
        # Without a first round nothing would be measured, whatever it costs.
        return replace(
            self,
            done=done,
            upto=max(upto, min(1, len(self.turns))),
            left_s=left_s,
            seconds_a_round=seconds_a_round,
        )


def _fitting(turns: int, left_s: float | None, seconds_a_round: float) -> int:
    if left_s is None or turns * seconds_a_round <= left_s:
        return turns
    return max(0, int(left_s / seconds_a_round))


def _summed(counts: Sequence[Sequence[int]]) -> dict[Risk, int]:
    totals = (sum(column) for column in zip(*counts, strict=True))
    return {risk: total for risk, total in zip(RISKS, totals, strict=False) if total}


def _said(counts: Mapping[Risk, int]) -> str:
    return ", ".join(f"{number} {risk}" for risk, number in counts.items()) or "none"


def choose(
    pairs: Sequence[PairId],
    past: Past,
    budget_s: float | None,
    seconds_a_round: float,
    fabric: Fabric,
    *,
    fills_link: bool = False,
) -> Chosen:
    """Return which rounds run within a time budget: those with the pairs that need it most.

    Never tested comes first, then failed and not judged before, then changed since, then the oldest. Pairs
    of less need fill the gaps of earlier rounds. That takes some rounds more than the fewest there can be (a
    few of a hundred); where only the fewest fit, those are taken, so that nothing is left out.

    Parameters
    ----------
    past
        What earlier runs left on record.
    budget_s
        Seconds that there are for these rounds; None is no bound.
    seconds_a_round
        What a round takes; `estimate_s` before one has been measured. Where probes that fill links run in
        rounds of their own after these, include theirs times how many of those there are for one of these.
    fabric
        Says what is on one leaf, and what uplinks carry.
    fills_link
        Whether the rounds must not overload uplinks either.
    """
    held = Pairs.of(pairs)
    plain = bandwidth_rounds(fabric, held) if fills_link else rounds(held, fabric)
    fewest = Pairs.joined([Pairs.of(this.pairs) for this in plain])
    if budget_s is None or not fewest:
        return _chosen(plain, past, budget_s, seconds_a_round)
    pressing = risks(fewest, past)
    keys = list(zip(pressing.of, pressing.tested_at, strict=True))
    if all(one <= other for one, other in pairwise(keys)):
        return _chosen(plain, past, budget_s, seconds_a_round)
    in_order = fewest.at(sorted(range(len(keys)), key=keys.__getitem__))
    turns = packed(in_order, uplinks(fabric, fewest.ports) if fills_link else None)
    if len(plain) * seconds_a_round <= budget_s < len(turns) * seconds_a_round:
        return _chosen(plain, past, budget_s, seconds_a_round)
    by_risk = tuple(Round(number, turn) for number, turn in enumerate(turns, start=1))
    return _chosen(by_risk, past, budget_s, seconds_a_round)


def _chosen(turns: tuple[Round, ...], past: Past, budget_s: float | None, seconds_a_round: float) -> Chosen:
    held = [Pairs.of(this.pairs) for this in turns]
    pressing = risks(Pairs.joined(held), past).of
    counts, start = [], 0
    for part in held:
        kinds = pressing[start : start + len(part)]
        counts.append(tuple(kinds.count(place) for place in range(len(RISKS))))
        start += len(part)
    return Chosen(turns, tuple(counts), 0, 0, budget_s, seconds_a_round).again(0, budget_s, seconds_a_round)
