"""What a run has measured: kept as it goes, judged as it comes, so that a million pairs need little memory.

Every couple's samples go to the store, some couples at a time. In a small run they also stay here, and its
verdicts are whole. Of a large one a pair that passes is only a number: its samples are in the store, and its
verdict says no more than that it passed. What did not pass, and one passing pair of each port, is judged from
its samples in the store when the run is over.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from fabricctl.errors import BusyError, StoreError, WireError
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Limits
from fabricctl.model.probe import Sample
from fabricctl.model.verdict import Finding, Outcome, Verdict
from fabricctl.model.verdicts import WHOLE, Alike, Verdicts
from fabricctl.plugin.protocols import Brisk, Probe
from fabricctl.verify.certify import BUDGET
from fabricctl.verify.classproof import Carried, is_wrong
from fabricctl.verify.judge import LOSS, USED, WANTED, Bench, judge, judged_beside, loss_by_counters, unasked
from fabricctl.verify.outliers import Gathered
from fabricctl.verify.pairs import Pairs
from fabricctl.verify.pending import Keep, Pending, Wanted
from fabricctl.verify.topology import Classes, Paths

WHOLE_PAIRS = 20_000
"""Runs of up to so many directed pairs have whole verdicts and all samples at hand."""
PASSED = "verify"
"""Name of the check that a pair of a large run passed all that was asked of it."""

Recall = Callable[[Callable[[str, str], bool] | None], Iterable[Sample]]
"""Walks what the store has, all or of the pairs that are wanted."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The way to the store."""

    keep: Keep
    recall: Recall


@dataclass(frozen=True, slots=True)
class Account:
    """What a run came to.

    Parameters
    ----------
    samples
        All of a small run; of a large one those of the verdicts that are whole.
    unkept
        Why samples could not be stored, or read again; empty if they could.
    """

    verdicts: Sequence[Verdict]
    samples: tuple[Sample, ...]
    unkept: str = ""


class Ledger:
    """The record of a run under way.

    Parameters
    ----------
    pairs
        All that are scheduled.
    probes
        Those that are to run, by name.
    """

    def __init__(
        self,
        fabric: Fabric,
        limits: Limits,
        pairs: Pairs,
        probes: Mapping[str, Probe],
        kept: Kept,
    ) -> None:
        self._limits, self._probes, self._kept = limits, probes, kept
        self._pairs = Pairs(pairs.ports, pairs.sources[:], pairs.targets[:], pairs.groups)
        self._is_small = len(pairs) <= WHOLE_PAIRS
        self._classes = Classes(Paths(fabric))
        self._beside = Gathered(self._classes, limits.outliers)
        self._brisk = {name: probe for name, probe in probes.items() if isinstance(probe, Brisk)}
        self._bits = {name: 1 << number for number, name in enumerate(probes)}
        self._numbers = {port: number for number, port in enumerate(pairs.ports)}
        size = len(pairs.ports)
        self._places = array("i", bytes(4 * size * size))
        for place, (source, target) in enumerate(zip(pairs.sources, pairs.targets, strict=True), start=1):
            self._places[source * size + target] = place
        self._seen = array("I", bytes(4 * len(pairs)))
        self._odd = bytearray(len(pairs))
        self._examples: list[int] = []
        self._shown = bytearray(size)
        self._is_countable = True
        self._pending = Pending(kept.keep)
        self._samples: list[Sample] = []
        self._aside: list[Sample] = []
        self._unasked: dict[str, bool] = {}
        self._left_out: dict[int, str] = {}
        self._errors: dict[str, str] = {}
        self._last: tuple[int, Bench, Account] | None = None
        self.carried = Carried()
        self.taken = 0
        self.recalled = False

    @property
    def pairs(self) -> Pairs:
        """All that were scheduled, and those that came later."""
        return self._pairs

    # As it goes

    def take(self, samples: list[Sample]) -> None:
        """Keep and judge what a couple measured."""
        is_due = self._pending.add(samples)
        self._note(samples)
        if is_due:
            self.flush()

    def flush(self) -> None:
        """Have the store keep what it has not yet; if another run writes to it, that is tried again later."""
        lost = self._pending.flush()
        if not self._is_small:
            # Nobody has the others any more: that they passed is all that can be said of them.
            self._aside += (sample for sample in lost if self._odd[self._place(sample.pair)])

    def recall(self) -> None:
        """Take note of what was kept before the run was interrupted."""
        self.recalled = True
        for _, held in groupby(self._kept.recall(None), key=lambda sample: frozenset(_ends(sample))):
            self._note(list(held))

    def has(self, pair: PairId, probes: Iterable[str]) -> bool:
        """Say whether all these probes have samples of a pair."""
        wanted = self._mask(probes)
        return self._seen[self._place(pair)] & wanted == wanted

    def leave_out(self, sample: Sample) -> None:
        """Note why a pair is not measured: the sample's error. What was measured before stands."""
        if self.has(sample.pair, (sample.probe,)):
            return
        if self._is_small:
            self._note([sample])
        else:
            self._last = None
            self._left_out[self._place(sample.pair)] = self._errors.setdefault(sample.error, sample.error)

    def _mask(self, probes: Iterable[str]) -> int:
        return sum(self._bits[name] for name in dict.fromkeys(probes))

    def _place(self, pair: PairId) -> int:
        """Return the place of a pair; one that was not scheduled at first comes last."""
        numbers = self._numbers
        source, target = numbers[pair.source], numbers[pair.target]
        at = source * len(numbers) + target
        if not self._places[at]:
            pairs = self._pairs
            self._pairs = Pairs(pairs.ports, pairs.sources, pairs.targets)  # the groups are not all any more
            pairs.sources.append(source)
            pairs.targets.append(target)
            self._seen.append(0)
            self._odd.append(0)
            self._places[at] = len(pairs)
        return self._places[at] - 1

    def _note(self, samples: list[Sample]) -> None:
        self.taken += len(samples)
        self.carried.take(samples)
        if self._is_small:
            self._samples += samples
        by_pair: dict[int, list[Sample]] = {}
        for sample in samples:
            # The same pair is one object where samples come from one couple.
            by_pair.setdefault(id(sample.pair), []).append(sample)
        bits = self._bits
        for held in by_pair.values():
            pair = held[0].pair
            place = self._place(pair)
            seen = self._seen[place]
            for sample in held:
                bit = bits.get(sample.probe, 0)
                if seen & bit or not bit:
                    self._is_countable = False
                seen |= bit
            self._seen[place] = seen
            if not self._is_small:
                topology, alike = self._classes.of(pair)
                self._beside.take(place, held, alike)
                if self._is_clear(topology, held):
                    self._exemplify(place)
                else:
                    self._odd[place] = 1

    def _exemplify(self, place: int) -> None:
        """Have a pair that passes stand for its ports: the first ones do, which the store tells soonest."""
        shown, source, target = self._shown, self._pairs.sources[place], self._pairs.targets[place]
        if not (shown[source] and shown[target]):
            shown[source] = shown[target] = 1
            self._examples.append(place)

    def _is_clear(self, topology: str, samples: Sequence[Sample]) -> bool:
        """Say whether nothing but passes can be said of samples of a pair."""
        limits = self._limits
        if topology not in self._unasked:
            self._unasked[topology] = bool(unasked(topology, limits, self._probes))
        if self._unasked[topology]:
            return False
        for sample in samples:
            given = sample.parameters
            if sample.error or USED not in given or given[USED] != given.get(WANTED):
                return False
        if not self._all_pass(topology, samples):
            return False
        if limits.loss is None or LOSS in self._probes:
            return True
        return loss_by_counters(samples[0].pair, samples, limits.loss).outcome is Outcome.PASS

    def _all_pass(self, topology: str, samples: Sequence[Sample]) -> bool:
        by_probe: dict[str, list[Sample]] = {}
        for sample in samples:
            by_probe.setdefault(sample.probe, []).append(sample)
        for name, held in by_probe.items():
            if name in self._brisk:
                if not self._brisk[name].passes(topology, held, self._limits):
                    return False
            elif name not in self._probes:
                return False
            else:
                found = self._probes[name].judge(samples[0].pair, topology, held, self._limits)
                if any(f.outcome is not Outcome.PASS or f.next_step for f in found):
                    return False
        return True

    @property
    def _unkept(self) -> str:
        return self._pending.unkept or self._pending.busy

    # When it is over

    def conclude(self, bench: Bench) -> Account:
        """Return the verdicts on all pairs; at once if nothing has changed since it was last asked."""
        self.flush()
        if self._last is None or self._last[:2] != (self.taken, bench) or self._last[2].unkept:
            self._last = (self.taken, bench, self._account(bench))
        account = self._last[2]
        return replace(account, unkept=self._unkept or account.unkept)

    def _account(self, bench: Bench) -> Account:
        if self._is_small:
            samples = tuple(self._samples)
            return Account(judge(self._pairs, samples, bench), samples)
        beside = self._beside.outliers(self._pairs)
        spoiled = [self._is_spoiled(port, bench) for port in self._pairs.ports]
        codes, alike = self._codes(spoiled, {self._place(pair) for pair in beside})
        places = [place for place, code in enumerate(codes) if code == WHOLE]
        samples, unread = self._of(places)
        lacking = self._lacking(places)
        held = judged_beside(self._pairs.at(places), (*samples, *lacking), bench, beside)
        if self._unkept or unread:
            gone = self._gone(places, samples, spoiled)
            held = tuple(
                replace(verdict, findings=(gone[place], *beside.get(verdict.pair, ())))
                if place in gone
                else verdict
                for place, verdict in zip(places, held, strict=True)
            )
        pairs = self._pairs
        verdicts = Verdicts(
            tuple(pairs.ports),
            pairs.sources,
            pairs.targets,
            codes,
            tuple(alike),
            dict(zip(places, held, strict=True)),
        )
        return Account(verdicts, (*samples, *lacking), unread)

    def _codes(self, spoiled: Sequence[bool], own: Collection[int]) -> tuple[array[int], list[Alike]]:
        """Return by place of a pair what is said of it and of others alike, `WHOLE` for what is its own.

        Parameters
        ----------
        spoiled
            By port: whether something is known of it that its pairs' own samples do not tell.
        own
            Places of pairs of which there is something else to say.
        """
        pairs, everything = self._pairs, self._mask(self._probes)
        ports, class_of = pairs.ports, self._classes.of
        examples, shown = self._good_examples(spoiled, own)
        codes, numbers, alike = array("H", bytes(2 * len(pairs))), dict[tuple[str, str], int](), list[Alike]()
        known = zip(pairs.sources, pairs.targets, self._seen, self._odd, strict=True)
        for place, (source, target, seen, odd) in enumerate(known):
            passed = seen == everything and not odd
            left_out = "" if seen else self._left_out.get(place, "")
            if spoiled[source] or spoiled[target] or place in own or not (passed or left_out):
                continue
            if place in examples:
                continue
            if passed and not (shown[source] and shown[target]):
                shown[source] = shown[target] = True
                continue
            key = (class_of(PairId(ports[source], ports[target]))[0], left_out)
            if key not in numbers:
                alike.append(Alike(str(key[0]), (self._said(left_out),)))
                numbers[key] = len(alike)
            codes[place] = numbers[key]
        return codes, alike

    def _good_examples(self, spoiled: Sequence[bool], own: Collection[int]) -> tuple[set[int], bytearray]:
        """Return the examples of which there is nothing but good to say, and by port whether one shows it."""
        everything, sources, targets = self._mask(self._probes), self._pairs.sources, self._pairs.targets
        found, shown = set(), bytearray(len(self._pairs.ports))
        for place in self._examples:
            source, target = sources[place], targets[place]
            passed = self._seen[place] == everything and not self._odd[place]
            if passed and place not in own and not (spoiled[source] or spoiled[target]):
                found.add(place)
                shown[source] = shown[target] = 1
        return found, shown

    def _said(self, left_out: str) -> Finding:
        names = ", ".join(self._probes)
        if left_out:
            step = 'verify again with more time, or with "--pairs changed"'
            return Finding(BUDGET, "", Outcome.UNKNOWN, f"not measured: {left_out}", next_step=step)
        return Finding(PASSED, "", Outcome.PASS, f"passed {names}; {self._where()}")

    def _where(self) -> str:
        return "not all samples could be kept" if self._unkept else "its samples are in the store"

    def _gone(
        self, places: Iterable[int], samples: Iterable[Sample], spoiled: Sequence[bool]
    ) -> dict[int, Finding]:
        """Return by place what is left to say of pairs whose samples were measured, and are gone."""
        at_hand: dict[PairId, int] = {}
        for sample in samples:
            at_hand[sample.pair] = at_hand.get(sample.pair, 0) | self._bits.get(sample.probe, 0)
        pairs, everything = self._pairs, self._mask(self._probes)
        found = {}
        for place in places:
            source, target = pairs.sources[place], pairs.targets[place]
            held = at_hand.get(PairId(pairs.ports[source], pairs.ports[target]), 0)
            seen = self._seen[place]
            if held & seen == seen or spoiled[source] or spoiled[target]:
                continue
            if seen == everything and not self._odd[place]:
                found[place] = self._said("")
            elif not held:
                what = "it was measured, but its samples could not be kept, or not be read again"
                found[place] = Finding(PASSED, "", Outcome.UNKNOWN, what, next_step="verify again")
        return found

    def _lacking(self, places: Iterable[int]) -> list[Sample]:
        """Return a sample that says why for each probe of these pairs that there was no time for."""
        held = ((place, self._left_out[place]) for place in places if place in self._left_out)
        return [
            Sample(self._pairs[place], name, "", 0.0, 0.0, error=why, error_kind=BUDGET)
            for place, why in held
            for name, bit in self._bits.items()
            if not self._seen[place] & bit
        ]

    def _is_spoiled(self, port: PortId, bench: Bench) -> bool:
        """Say whether something is known of a port that its pairs' own samples do not tell."""
        peer, agent = bench.fabric.peer(port), bench.agents.get(port.device)
        ends = {port, peer}
        return (
            bool(agent and agent.error)
            or any(end in bench.deviations or end in bench.doubts for end in ends)
            or is_wrong(bench.classes.get(port, ()), required=self._limits.class_proof)
        )

    def _of(self, places: Iterable[int]) -> tuple[tuple[Sample, ...], str]:
        """Return the samples of some pairs, and why those in the store cannot be read; empty if they can."""
        places = list(places)
        asked = set(self._pairs.at(places))
        at_hand = [s for s in (*self._aside, *self._pending.samples) if s.pair in asked]
        left = sum(self._seen[place].bit_count() for place in places) - len(at_hand)
        wanted = Wanted(asked, left if self._is_countable else -1)
        found, why = list[Sample](), ""
        try:
            for sample in self._kept.recall(wanted) if wanted else ():
                found.append(sample)
                wanted.left -= 1
        except (StoreError, BusyError, WireError) as exc:
            found, why = [], str(exc)
        return (*found, *at_hand), why


def _ends(sample: Sample) -> tuple[PortId, PortId]:
    return sample.pair.source, sample.pair.target
