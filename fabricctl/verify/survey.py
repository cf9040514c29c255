"""What passing pairs clear, and which elements would explain each failed pair.

What lies on the path of a passing pair works, in the direction in which the pair crossed it: those elements
are cleared. Of several shortest paths only what they share is cleared, for a probe walks some of them. What
lies on some of them is dismissed when far fewer of the pairs that may have crossed it failed than must have.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fabricctl.model.fabric import Fabric, LinkLayer, Role
from fabricctl.model.names import PairId, PortId
from fabricctl.verify.likelihood import Choice, bits
from fabricctl.verify.topology import Element, Kind, Paths, Way, node_element

SENDS, RECEIVES, BOTH = "sending", "receiving", ""

_DISMISSED = 1e-6
"""An element on one of several paths is dismissed if so few failures were less probable than this."""

Atom = tuple[Element, str]
"""An element in one direction, as seen from its first end; a switch has no direction."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An element that is not cleared and would explain failed pairs.

    Parameters
    ----------
    side
        ``sending`` or ``receiving`` if the element's fault shows in that direction of its first end only.
    choice
        What speaks for and against it.
    doubts
        Passing pairs that may have crossed it, on one of several paths.
    """

    element: Element
    side: str
    choice: Choice
    doubts: int = 0

    @property
    def name(self) -> str:
        """As it is called in reports."""
        near = str(self.element.ports[0]) if self.element.ports else self.element.name
        return f"{self.element} ({self.side} side of {near})" if self.side else str(self.element)


@dataclass(frozen=True)
class Survey:
    """The judged pairs, and what they say of the elements.

    Parameters
    ----------
    cleared
        What passing pairs surely crossed.
    explained
        The failed pairs by their candidates: bit i is set if candidate i would explain them. 0 stands with
        those that none would; others may stand there more than once.
    passes
        How many passing pairs each port had.
    """

    paths: Paths
    failed: Sequence[PairId]
    passed: Sequence[PairId]
    cleared: frozenset[Atom]
    candidates: Sequence[Candidate]
    explained: Sequence[tuple[int, Sequence[PairId]]]
    passes: Mapping[PortId, int]

    def explains(self, chosen: int) -> Mapping[int, Sequence[PairId]]:
        """Return the failed pairs that each of some candidates, given by its bit, would explain."""
        found: dict[int, list[PairId]] = {index: [] for index in bits(chosen)}
        for mask, pairs in self.explained:
            for index in bits(mask & chosen):
                found[index] += pairs
        return found

    def crossed(self, pairs: Sequence[PairId]) -> set[Atom]:
        """Return what every packet of one of the pairs crosses."""
        surveyor = _Surveyor(self.paths)
        sent, received, routes = surveyor.routes(pairs)
        found = {atom for port in sent for atom in surveyor.end(port).atoms(SENDS)}
        found.update(atom for port in received for atom in surveyor.end(port).atoms(RECEIVES))
        ways = {(start, surveyor.end(target).switch) for start, held in routes.items() for target in held}
        for start, end in ways:
            if end:
                way = self.paths.way(start, end)
                found.update(_atom(element, way) for element in way.certain)
        return found


def at_node(element: Element) -> bool:
    """Say whether it is a node, or a cable with a NIC at its end."""
    return element.kind is Kind.NODE or element.near_node


def survey(fabric: Fabric, failed: Sequence[PairId], passed: Sequence[PairId]) -> Survey:
    """Return what the pairs say of the elements of a fabric."""
    return _Surveyor(Paths(fabric)).survey(failed, passed)


@dataclass(frozen=True, slots=True, eq=False)  # one of each port, looked up often
class _End:
    """A port with what stands next to it.

    Parameters
    ----------
    switch
        Name of the switch at the other end of its cable; empty if there is none.
    by_target
        Whether switches choose among equal links by the target alone.
    """

    port: PortId
    node: Element
    link: Element | None
    switch: str
    by_target: bool

    def atoms(self, side: str) -> list[Atom]:
        """Return what every packet crosses that this port sends, or receives."""
        if self.link is None:
            return [(self.node, side)]
        # Sides are told from the link's first end, the node's; back to back the second one mirrors it.
        mirrored = RECEIVES if side == SENDS else SENDS
        return [(self.node, side), (self.link, side if self.port == self.link.ports[0] else mirrored)]


@dataclass
class _Tally:
    """How the pairs fared that may have crossed something, in choices of a path.

    Parameters
    ----------
    doubts, bad
        How many pairs passed and failed.
    """

    passed: float = 0.0
    failed: float = 0.0
    expected: float = 0.0
    doubts: int = 0
    bad: int = 0
    by_target: bool = False

    def count(self, passed: int, failed: int) -> None:
        """Count the pairs from one switch to one port."""
        weight = 1 / (passed + failed) if self.by_target else 1.0
        self.passed += passed * weight
        self.failed += failed * weight
        self.doubts += passed
        self.bad += failed

    def add(self, other: _Tally, share: float, merged: int = 1) -> None:
        """Count what is like another, of which a part of `share` or more crosses this.

        Parameters
        ----------
        merged
            So many of them are one and the same choice.
        """
        self.passed += other.passed / merged
        self.failed += other.failed / merged
        self.expected += share * (other.passed + other.failed) / merged
        self.doubts += other.doubts
        self.bad += other.bad

    @property
    def dismissed(self) -> bool:
        """Whether fewer failed than must have, by Hoeffding's bound (1963, theorem 1)."""
        total = self.passed + self.failed
        seen, least = self.failed / total, self.expected / total
        return seen < least and total * _divergence(seen, least) > -math.log(_DISMISSED)


def _divergence(seen: float, least: float) -> float:
    """Return the relative entropy of two coins; `seen` < `least` < 1."""
    found = (1 - seen) * math.log((1 - seen) / (1 - least))
    return found + seen * math.log(seen / least) if seen else found


@dataclass
class _Surveyor:
    paths: Paths
    _ends: dict[PortId, _End] = field(default_factory=dict)

    def survey(self, failed: Sequence[PairId], passed: Sequence[PairId]) -> Survey:
        """Return what the pairs say."""
        sent, received, good = self.routes(passed)
        bad_sent, bad_received, bad = self.routes(failed)
        cleared = {atom for port in sent for atom in self.end(port).atoms(SENDS)}
        cleared.update(atom for port in received for atom in self.end(port).atoms(RECEIVES))
        tallies = self._tally(good, bad, cleared)
        out = cleared | {atom for atom, tally in tallies.items() if tally.dismissed}
        tested: dict[str, set[PortId]] = {}
        for port in (*sent, *received, *bad_sent, *bad_received):
            tested.setdefault(port.device, set()).add(port)
        # A node with one tested port fails as its link does: the link stands for both.
        for name, ports in tested.items():
            if len(ports) == 1 and self.end(next(iter(ports))).link is not None:
                out |= {(node_element(name), SENDS), (node_element(name), RECEIVES)}
        known, whole = self._explain(failed, out)
        candidates, kept = known.candidates(tallies), known.kept
        explained = [(mask & kept, pairs) for mask, pairs in whole]
        passes = dict(sent)
        for port, count in received.items():
            passes[port] = passes.get(port, 0) + count
        return Survey(self.paths, failed, passed, frozenset(cleared), candidates, explained, passes)

    def end(self, port: PortId) -> _End:
        """Return what stands next to a port."""
        if port not in self._ends:
            fabric = self.paths.fabric
            peer = fabric.peer(port)
            switch = (
                peer.device if peer is not None and fabric.device(peer.device).role is Role.SWITCH else ""
            )
            by_target = fabric.port(port).link_layer is LinkLayer.INFINIBAND
            self._ends[port] = _End(port, node_element(port.device), self.paths.link(port), switch, by_target)
        return self._ends[port]

    def routes(
        self, pairs: Iterable[PairId]
    ) -> tuple[dict[PortId, int], dict[PortId, int], dict[str, dict[PortId, int]]]:
        """Count pairs by source, by target, and by the source's switch and the target."""
        sent: dict[PortId, int] = {}
        received: dict[PortId, int] = {}
        routes: dict[str, dict[PortId, int]] = {}
        for pair in pairs:
            source, target = pair.source, pair.target
            sent[source] = sent.get(source, 0) + 1
            received[target] = received.get(target, 0) + 1
            held = routes.setdefault(self.end(source).switch, {})
            held[target] = held.get(target, 0) + 1
        routes.pop("", None)
        return sent, received, routes

    def _tally(
        self,
        good: Mapping[str, Mapping[PortId, int]],
        bad: Mapping[str, Mapping[PortId, int]],
        cleared: set[Atom],
    ) -> dict[Atom, _Tally]:
        """Add to `cleared` what passing pairs surely crossed; return how the rest fared that is not certain.

        On Ethernet each pair counts, for switches hash its addresses and ports. On InfiniBand the pairs to
        one port that meet in a switch count as one, for its table chooses by the destination alone.
        """
        ways = self._ways(good, bad)
        merging = Counter[tuple[Atom, str]]()
        for (start, end), held in ways.items():
            if held.by_target:
                way = self.paths.way(start, end)
                merging.update((_atom(element, way), end) for element in way.possible)
        found: dict[Atom, _Tally] = {}
        for ends, held in ways.items():
            way = self.paths.way(*ends)
            if held.doubts:
                cleared.update(_atom(element, way) for element in way.certain)
            for element, share in way.possible.items():
                atom = _atom(element, way)
                found.setdefault(atom, _Tally()).add(held, share, merging.get((atom, ends[1]), 1))
        return found

    def _ways(
        self, good: Mapping[str, Mapping[PortId, int]], bad: Mapping[str, Mapping[PortId, int]]
    ) -> dict[tuple[str, str], _Tally]:
        """Count by switches at both ends."""
        ways: dict[tuple[str, str], _Tally] = {}
        for start in dict.fromkeys((*good, *bad)):
            passed, failed = good.get(start, {}), bad.get(start, {})
            for target in dict.fromkeys((*passed, *failed)):
                end = self.end(target)
                if end.switch:
                    held = ways.setdefault((start, end.switch), _Tally(by_target=end.by_target))
                    held.count(passed.get(target, 0), failed.get(target, 0))
        return ways

    def _explain(
        self, failed: Iterable[PairId], out: set[Atom]
    ) -> tuple[_Bits, list[tuple[int, list[PairId]]]]:
        """Return the bits of what failed pairs crossed and nothing rules out, and the pairs by them."""
        known = _Bits(out)
        explained: dict[tuple[int, int, int], list[PairId]] = {}
        for pair in failed:
            source, target = self.end(pair.source), self.end(pair.target)
            over = 0
            if source.switch and target.switch:
                over = known.of((source.switch, target.switch), self._over)
            # Numbers are looked up, not masks: of masks with few bits each Python makes the same few hashes.
            ends = known.of((source, SENDS), _End.atoms), known.of((target, RECEIVES), _End.atoms)
            explained.setdefault((*ends, over), []).append(pair)
        masks = known.masks
        return known, [(masks[a] | masks[b] | masks[c], pairs) for (a, b, c), pairs in explained.items()]

    def _over(self, start: str, end: str) -> list[Atom]:
        """Return what pairs between two switches cross, or may cross."""
        way = self.paths.way(start, end)
        return [_atom(element, way) for element in (*way.certain, *way.possible)]


def _atom(element: Element, way: Way) -> Atom:
    if element.kind is Kind.SWITCH:
        return element, BOTH
    return element, SENDS if element in way.onward else RECEIVES


@dataclass
class _Bits:
    """Numbers elements, and each direction of trunks, by the bits of masks.

    Parameters
    ----------
    out
        What is ruled out.
    masks
        By number; 0 is the first.
    """

    out: set[Atom]
    masks: list[int] = field(default_factory=lambda: [0])
    _numbers: dict[int, int] = field(default_factory=lambda: {0: 0})
    _places: dict[Atom | Element, int] = field(default_factory=dict)
    _sides: dict[Element, set[str]] = field(default_factory=dict)
    _known: dict[tuple[object, str], int] = field(default_factory=dict)

    def of(self, key: tuple[Any, str], atoms: Callable[..., Iterable[Atom]]) -> int:
        """Return the number of the mask of what `atoms` of `key` gives, asking once for each key."""
        if key not in self._known:
            found = 0
            for element, side in atoms(*key):
                if (element, side) not in self.out:
                    self._sides.setdefault(element, set()).add(side)
                    found |= 1 << self._places.setdefault(element, len(self._places))
                    if element.trunk:
                        found |= 1 << self._places.setdefault((element, side), len(self._places))
            self._known[key] = self._numbers.setdefault(found, len(self.masks))
            if len(self._numbers) > len(self.masks):
                self.masks.append(found)
        return self._known[key]

    @property
    def kept(self) -> int:
        """The bits that count: one direction of a trunk is a choice of its own where pairs failed in both."""
        return sum(
            1 << place
            for key, place in self._places.items()
            if isinstance(key, Element) or len(self._sides[key[0]]) > 1
        )

    def candidates(self, tallies: Mapping[Atom, _Tally]) -> list[Candidate]:
        """Return a candidate for each bit."""
        return [
            _candidate(key, self._sides[key], self._side(key), tallies)
            if isinstance(key, Element)
            else _candidate(key[0], {key[1]}, key[1], tallies)
            for key in self._places
        ]

    def _side(self, element: Element) -> str:
        sides = self._sides[element]
        if len(sides) > 1 or BOTH in sides:
            return BOTH
        (side,) = sides
        other = RECEIVES if side == SENDS else SENDS
        # Only what was seen to work the other way round is at fault in one direction.
        return side if (element, other) in self.out else BOTH


def _candidate(element: Element, sides: set[str], side: str, tallies: Mapping[Atom, _Tally]) -> Candidate:
    held = [tallies[element, one] for one in sides if (element, one) in tallies]
    whole = _Tally()
    for tally in held:
        whole.add(tally, tally.expected / (tally.passed + tally.failed))
    share = whole.expected / (whole.passed + whole.failed) if held else 0.0
    weight = whole.failed / whole.bad if whole.bad else 1.0
    choice = Choice(whole.passed, whole.failed, share, weight, at_node(element), element.name)
    return Candidate(element, side, choice, whole.doubts)
