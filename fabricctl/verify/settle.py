"""The probe that would decide between explanations that are as good as each other.

It crosses what one explanation blames and nothing that another one does, between ends that are known to be
good (or at least not seen to be bad): if it passes, the first is cleared, if it fails, the other does not
explain it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fabricctl.model.fabric import Fabric, Role
from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Outcome, Suspect, Verdict
from fabricctl.verify.localise import AND, OR
from fabricctl.verify.outliers import is_outlier
from fabricctl.verify.topology import Element, Kind, Paths, node_element

MOST = 8
"""So many couples of ports at most are asked for at a time."""

_PARTNERS = 64
"""So many partners of a port are looked at."""

_Explanation = frozenset[Element]


def settle(suspects: Iterable[Suspect], fabric: Fabric, verdicts: Iterable[Verdict]) -> tuple[PairId, ...]:
    """Return the pairs, each in both directions, that would tell the explanations of suspects apart.

    Parameters
    ----------
    verdicts
        On all pairs that were tried: none of them is asked for again.
    """
    ambiguous = [suspect for suspect in suspects if suspect.ambiguous_with]
    if not ambiguous:
        return ()
    bench = _Bench.of(fabric, verdicts)
    found: dict[PairId, None] = {}
    for suspect in ambiguous:
        pair = _deciding(suspect, bench)
        if pair is not None and pair not in found and len(found) < 2 * MOST:
            found |= {pair: None, pair.reverse: None}
    return tuple(found)


def advise(suspects: Sequence[Suspect], fabric: Fabric, verdicts: Iterable[Verdict]) -> tuple[Suspect, ...]:
    """Return the suspects, the ambiguous ones with the probe that would settle it, or that none would."""
    if not any(suspect.ambiguous_with for suspect in suspects):
        return tuple(suspects)
    bench = _Bench.of(fabric, verdicts)
    return tuple(_advised(suspect, bench) for suspect in suspects)


def _advised(suspect: Suspect, bench: _Bench) -> Suspect:
    if not suspect.ambiguous_with:
        return suspect
    pair = _deciding(suspect, bench)
    told = "no pair that was not tried would tell them apart: look at counters, swap a cable"
    if pair is not None:
        told = f'"fabricctl verify --pairs {pair.source}:{pair.target}" would tell them apart'
    return replace(suspect, evidence=f"{suspect.evidence}; {told}")


@dataclass(frozen=True)
class _Bench:
    """What is known of the ports.

    Parameters
    ----------
    good, bad
        Ports with a pair that passed; those without, of which one failed.
    """

    paths: Paths
    tried: frozenset[PairId]
    good: frozenset[PortId]
    bad: frozenset[PortId]
    elements: Mapping[str, Element]
    partners: dict[int | None, list[PortId]] = field(default_factory=dict)

    @classmethod
    def of(cls, fabric: Fabric, verdicts: Iterable[Verdict]) -> _Bench:
        tried: set[PairId] = set()
        good: set[PortId] = set()
        bad: set[PortId] = set()
        for verdict in verdicts:
            pair = verdict.pair
            tried.add(pair)
            fine = verdict.outcome is Outcome.PASS and not any(map(is_outlier, verdict.findings))
            (good if fine else bad).update((pair.source, pair.target))
        paths = Paths(fabric)
        links = (paths.link(link.a) for link in fabric.links)
        elements = [node_element(node.name) for node in fabric.nodes()]
        elements += [Element(Kind.SWITCH, switch.name) for switch in fabric.switches()]
        elements += [link for link in links if link is not None]
        by_name = {str(element): element for element in elements}
        return cls(paths, frozenset(tried), frozenset(good), frozenset(bad - good), by_name)

    def beside(self, port: PortId) -> list[PortId]:
        """Return the ports of a port's rail that are not known to be bad, those known to be good first."""
        rail = self.paths.fabric.port(port).rail
        if rail not in self.partners:
            usable = [p.id for p in self.paths.fabric.node_ports() if p.rail == rail and p.id not in self.bad]
            self.partners[rail] = sorted(usable, key=lambda p: p not in self.good)
        return self.partners[rail]

    def near(self, element: Element) -> Sequence[PortId]:
        """Return the ports whose packets surely cross an element; none for what lies between leaves."""
        fabric = self.paths.fabric
        if element.kind is Kind.NODE:
            return [port.id for port in fabric.device(element.name).ports]
        if element.kind is Kind.LINK:
            return element.ports[:1] if element.near_node else ()
        ends = (fabric.peer(port.id) for port in fabric.device(element.name).ports)
        return [
            end
            for end in ends
            if end is not None and fabric.device(end.device).role is Role.NODE and end not in self.bad
        ]

    def crosses(self, pair: PairId) -> tuple[_Explanation, _Explanation]:
        """Return what a pair surely crosses, and all that it may cross."""
        path = self.paths.of(pair)
        ends = {node_element(port.device) for port in (pair.source, pair.target)}
        ends |= {link for link in (path.source_link, path.target_link) if link is not None}
        return path.certain | ends, path.certain | path.possible | ends


def _explanations(suspect: Suspect, bench: _Bench) -> list[_Explanation]:
    return [
        frozenset(
            bench.elements[name.partition(" (")[0]]
            for part in entry.split(AND)
            for name in part.split(OR)
            if name.partition(" (")[0] in bench.elements
        )
        for entry in (suspect.element, *suspect.ambiguous_with)
    ]


def _deciding(suspect: Suspect, bench: _Bench) -> PairId | None:
    """Return the pair that sets one explanation apart from most others; None if none does from any."""
    explanations = _explanations(suspect, bench)
    best: PairId | None = None
    most = 0
    for place, blamed in enumerate(explanations):
        others = [other - blamed for number, other in enumerate(explanations) if number != place]
        for pair in _crossing(blamed, bench):
            sure, perhaps = bench.crosses(pair)
            apart = sum(1 for other in others if other and not other & perhaps) if sure & blamed else 0
            if apart > most:
                best, most = pair, apart
            if most == len(others):
                return best
    return best


def _crossing(blamed: _Explanation, bench: _Bench) -> Iterator[PairId]:
    """Walk pairs that were not tried and cross one of some elements, between ends that are not bad."""
    for element in sorted(blamed):
        for port in bench.near(element):
            for partner in bench.beside(port)[:_PARTNERS]:
                pair = PairId(port, partner)
                new = pair not in bench.tried and pair.reverse not in bench.tried
                if new and partner.device != port.device:
                    yield pair
