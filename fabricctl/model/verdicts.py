"""A million verdicts in little memory: what is said alike of many pairs is kept once."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Finding, Outcome, Verdict, worst

WHOLE = 0
"""Code of a pair whose verdict is kept by itself."""


@dataclass(frozen=True, slots=True)
class Alike:
    """What is said of many pairs; the findings name none of them."""

    topology: str
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of the findings."""
        return worst(finding.outcome for finding in self.findings)


@dataclass(frozen=True)
class Verdicts(Sequence[Verdict]):
    """The verdicts of a large run, in the order of its pairs; each is made when it is asked for.

    Parameters
    ----------
    ports
        What the numbers mean, by place.
    sources, targets
        Numbers of the ports of each pair.
    codes
        By pair: `WHOLE`, or which of `alike` holds, from 1.
    whole
        By place of the pair: the verdicts that are kept by themselves.
    """

    ports: tuple[PortId, ...]
    sources: array[int]
    targets: array[int]
    codes: array[int]
    alike: tuple[Alike, ...]
    whole: Mapping[int, Verdict]

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Verdict]:
        ports, alike, whole = self.ports, self.alike, self.whole
        ends = zip(self.codes, self.sources, self.targets, strict=True)
        for place, (code, source, target) in enumerate(ends):
            if code:
                same = alike[code - 1]
                yield Verdict(PairId(ports[source], ports[target]), same.topology, same.findings)
            else:
                yield whole[place]

    @overload
    def __getitem__(self, place: int) -> Verdict: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Verdict, ...]: ...

    def __getitem__(self, place: int | slice) -> Verdict | tuple[Verdict, ...]:
        """Return one verdict, or some of them."""
        if isinstance(place, slice):
            return tuple(self[i] for i in range(len(self))[place])
        place = range(len(self))[place]
        code = self.codes[place]
        if not code:
            return self.whole[place]
        same = self.alike[code - 1]
        pair = PairId(self.ports[self.sources[place]], self.ports[self.targets[place]])
        return Verdict(pair, same.topology, same.findings)

    def outcomes(self) -> Counter[Outcome]:
        """Count the pairs by their outcome."""
        found = Counter(verdict.outcome for verdict in self.whole.values())
        for code, count in Counter(self.codes).items():
            if code:
                found[self.alike[code - 1].outcome] += count
        return found

    def __hash__(self) -> int:
        return hash((len(self.codes), self.ports))


def outcomes(verdicts: Sequence[Verdict]) -> Counter[Outcome]:
    """Count pairs by their outcome."""
    if isinstance(verdicts, Verdicts):
        return verdicts.outcomes()
    return Counter(verdict.outcome for verdict in verdicts)
