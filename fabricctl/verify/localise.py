"""Name what is at fault: the fewest elements that explain all failed pairs and that no passing pair clears.

What lies on the path of a passing pair works, in the direction in which the pair crossed it: those elements
are cleared. Of several shortest paths only what they share is cleared, for a probe walks some of them. A pair
that could not be measured neither blames nor clears. Where two explanations fit equally well, both are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Outcome, Suspect, Verdict
from fabricctl.verify.topology import Element, Kind, Path, Paths, node_element

_EXACT = 3
"""Up to so many elements the smallest set is found exactly; beyond, the one that explains most goes first."""

_CHOICES = 40
"""Candidates that the exact search looks at; the others explain fewer pairs than these do."""

_NAMED = 6
"""So many cleared devices are named."""

_SENDS, _RECEIVES, _BOTH = "sending", "receiving", ""

_Atom = tuple[Element, str]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An element with the failed pairs that it would explain.

    Parameters
    ----------
    side
        ``sending`` or ``receiving`` if the element's fault shows in that direction of the node only.
    doubts
        Passing pairs that may have crossed it, on one of several paths.
    """

    element: Element
    side: str
    explains: frozenset[PairId]
    doubts: int

    @property
    def name(self) -> str:
        side = f" ({self.side} side of {_near(self.element)})" if self.side else ""
        return f"{self.element}{side}"


@dataclass(frozen=True, slots=True)
class _Survey:
    """The judged pairs, and what they say of the elements.

    Parameters
    ----------
    cleared
        What passing pairs surely crossed.
    candidates
        What is not cleared and lies on a failed pair's way.
    """

    paths: Paths
    failed: tuple[PairId, ...]
    passed: tuple[PairId, ...]
    cleared: frozenset[_Atom]
    candidates: tuple[_Candidate, ...]


def localise(verdicts: Iterable[Verdict], fabric: Fabric) -> tuple[Suspect, ...]:
    """Return the suspects, the one that explains most first; none if no pair failed."""
    judged = {v.pair: v.outcome for v in verdicts if v.outcome in {Outcome.PASS, Outcome.FAIL}}
    failed = tuple(pair for pair, outcome in judged.items() if outcome is Outcome.FAIL)
    passed = tuple(pair for pair, outcome in judged.items() if outcome is Outcome.PASS)
    if not failed:
        return ()
    survey = _survey(fabric, failed, passed)
    blamed = _smallest(survey.candidates)
    covered = {pair for best in blamed for pair in best.explains}
    left = [pair for pair in failed if pair not in covered]
    return (*(_suspect(best, survey) for best in blamed), *_unexplained(left, survey))


def _survey(fabric: Fabric, failed: tuple[PairId, ...], passed: tuple[PairId, ...]) -> _Survey:
    paths = Paths(fabric)
    cleared: set[_Atom] = set()
    # Many pairs share the same way between their leaves: it is counted once with its number of pairs.
    certain: set[frozenset[Element]] = set()
    possible: Counter[frozenset[Element]] = Counter()
    for pair in passed:
        path = paths.of(pair)
        cleared.update(_ends(path, pair))
        certain.add(path.certain)
        possible[path.possible] += 1
    cleared.update((element, _BOTH) for elements in certain for element in elements)
    doubts: Counter[Element] = Counter()
    for elements, count in possible.items():
        doubts.update(dict.fromkeys(elements, count))
    blamed: dict[Element, dict[str, set[PairId]]] = {}
    for pair in failed:
        sure, maybe = _crossed(paths, pair)
        for element, side in (*sure, *maybe):
            if (element, side) not in cleared:
                blamed.setdefault(element, {}).setdefault(side, set()).add(pair)
    tested = _tested_ports([*failed, *passed])
    candidates = tuple(
        _Candidate(
            element=element,
            side=_one_side(element, sides, cleared),
            explains=frozenset(pair for pairs in sides.values() for pair in pairs),
            doubts=doubts[element],
        )
        for element, sides in blamed.items()
        # A node with one tested port fails as its link does: the link stands for both.
        if element.kind is not Kind.NODE
        or len(tested[element.name]) > 1
        or _unlinked(fabric, tested, element)
    )
    return _Survey(paths, failed, passed, frozenset(cleared), candidates)


def _crossed(paths: Paths, pair: PairId) -> tuple[list[_Atom], list[_Atom]]:
    """Return what every packet of a pair crosses and what it may cross, each with the direction."""
    path = paths.of(pair)
    sure = [*_ends(path, pair), *((element, _BOTH) for element in path.certain)]
    return sure, [(element, _BOTH) for element in path.possible]


def _ends(path: Path, pair: PairId) -> list[_Atom]:
    """Return the nodes and the cables at both ends, each with the direction."""
    found: list[_Atom] = [
        (node_element(pair.source.device), _SENDS),
        (node_element(pair.target.device), _RECEIVES),
    ]
    if path.source_link is not None:
        found.append((path.source_link, _side(path.source_link, pair.source, _SENDS)))
    if path.target_link is not None and path.target_link != path.source_link:
        found.append((path.target_link, _side(path.target_link, pair.target, _RECEIVES)))
    return found


def _side(link: Element, port: PortId, side: str) -> str:
    # Sides are told from the link's first end, which is the node's; back to back the second one mirrors it.
    if port == link.ports[0]:
        return side
    return _RECEIVES if side == _SENDS else _SENDS


def _one_side(element: Element, sides: Mapping[str, set[PairId]], cleared: set[_Atom]) -> str:
    if len(sides) > 1 or _BOTH in sides:
        return _BOTH
    (side,) = sides
    other = _RECEIVES if side == _SENDS else _SENDS
    # Only what was seen to work the other way round is at fault in one direction.
    return side if (element, other) in cleared else _BOTH


def _tested_ports(pairs: Iterable[PairId]) -> Mapping[str, set[PortId]]:
    tested: dict[str, set[PortId]] = {}
    for pair in pairs:
        for port in (pair.source, pair.target):
            tested.setdefault(port.device, set()).add(port)
    return tested


def _unlinked(fabric: Fabric, tested: Mapping[str, set[PortId]], node: Element) -> bool:
    return all(fabric.link(port) is None for port in tested[node.name])


def _smallest(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Return the fewest candidates that explain all that any candidate explains.

    Those that a passing pair may have crossed are asked only for what the others leave open.
    """
    plain = _cover([c for c in candidates if not c.doubts], frozenset())
    explained = frozenset(pair for candidate in plain for pair in candidate.explains)
    return [*plain, *_cover([c for c in candidates if c.doubts], explained)]


def _cover(candidates: Sequence[_Candidate], explained: frozenset[PairId]) -> list[_Candidate]:
    distinct: dict[frozenset[PairId], _Candidate] = {}
    for candidate in sorted(candidates, key=_rank):
        distinct.setdefault(candidate.explains, candidate)
    ranked = list(distinct.values())
    wanted = frozenset(pair for candidate in ranked for pair in candidate.explains) - explained
    if not wanted:
        return []
    for size in range(1, _EXACT + 1):
        for chosen in combinations(ranked[:_CHOICES], size):
            if sum(len(c.explains) for c in chosen) < len(wanted):
                continue
            if wanted.issubset(frozenset().union(*(c.explains for c in chosen))):
                return list(chosen)
    return _greedy(ranked, wanted)


def _rank(candidate: _Candidate) -> tuple[int, int, Element]:
    return (-len(candidate.explains), candidate.doubts, candidate.element)


def _greedy(ranked: Sequence[_Candidate], wanted: frozenset[PairId]) -> list[_Candidate]:
    chosen: list[_Candidate] = []
    left = wanted
    while left:
        best = max(ranked, key=lambda candidate: len(candidate.explains & left))
        chosen.append(best)
        left -= best.explains
    return chosen


def _suspect(best: _Candidate, survey: _Survey) -> Suspect:
    equal = [
        other
        for other in sorted(survey.candidates, key=_rank)
        if other.explains == best.explains and other.doubts == best.doubts and other != best
    ]
    return Suspect(
        element=best.name,
        explains=tuple(pair for pair in survey.failed if pair in best.explains),
        evidence=_evidence(best, survey),
        ambiguous_with=tuple(other.name for other in equal),
        ports=_ports(best.element, survey),
    )


def _ports(element: Element, survey: _Survey) -> tuple[PortId, ...]:
    if element.kind is Kind.NODE:
        return tuple(port.id for port in survey.paths.fabric.device(element.name).ports)
    return element.ports


def _evidence(best: _Candidate, survey: _Survey) -> str:
    failed, passed, count = len(survey.failed), len(survey.passed), len(best.explains)
    share = f"{count} of {failed} failed pairs cross it"
    if count == failed:
        share = f"all {failed} failed pairs cross it" if failed > 1 else "the one failed pair crosses it"
    cleared = f"the {passed} that passed clear {_cleared(best, survey)}" if passed else "no pair passed"
    if best.doubts:
        cleared = f"{cleared}; {best.doubts} of them may have gone around it"
    return f"{share}; {cleared}{_hint(best, passed)}"


def _cleared(best: _Candidate, survey: _Survey) -> str:
    """Name the devices on the way of the explained pairs that passing pairs clear."""
    crossed = {atom for pair in best.explains for atom in _crossed(survey.paths, pair)[0]}
    names = sorted({element.name for element, _ in crossed & survey.cleared if element.kind is not Kind.LINK})
    shown = ", ".join(names[:_NAMED])
    if not names:
        return "nothing on its way"
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def _hint(best: _Candidate, passed: int) -> str:
    if best.element.kind is Kind.SWITCH and not passed:
        return "; a setting that all ports share would look the same"
    if best.element.kind is not Kind.LINK:
        return ""
    if best.side:
        return f"; the other direction passed: look at what is {best.side} there (a fibre, a laser, a queue)"
    return "; the pairs alone cannot tell the cable from the ports at its two ends"


def _near(element: Element) -> str:
    return str(element.ports[0]) if element.ports else element.name


def _unexplained(left: Sequence[PairId], survey: _Survey) -> tuple[Suspect, ...]:
    """Return suspects for failed pairs on whose path every element has passed with another pair."""
    suspects: list[Suspect] = []
    rest = list(left)
    for link, (bad, total) in _flaky(left, survey):
        explained = tuple(pair for pair in rest if pair in bad)
        if not explained:
            continue
        rest = [pair for pair in rest if pair not in bad]
        text = (
            f"{len(bad)} of {total} pairs that cross it failed; the {total - len(bad)} that passed speak"
            " against a constant fault, so look for one that comes and goes (dirty optics, a loose cable)"
        )
        suspects.append(Suspect(str(link), explained, text, ports=link.ports))
    return (*suspects, *(_lone(pair) for pair in rest))


def _flaky(left: Sequence[PairId], survey: _Survey) -> list[tuple[Element, tuple[frozenset[PairId], int]]]:
    """Return the links on which most of the pairs failed, at least two, the worst first."""
    bad: dict[Element, set[PairId]] = {}
    total: dict[Element, int] = {}
    unexplained = frozenset(left)
    for pair in (*survey.failed, *survey.passed):
        path = survey.paths.of(pair)
        for link in dict.fromkeys((path.source_link, path.target_link)):
            if link is None:
                continue
            total[link] = total.get(link, 0) + 1
            if pair in unexplained:
                bad.setdefault(link, set()).add(pair)
    mostly = [
        (link, (frozenset(pairs), total[link]))
        for link, pairs in bad.items()
        if len(pairs) > 1 and 2 * len(pairs) > total[link]
    ]
    return sorted(mostly, key=lambda item: (-len(item[1][0]) / item[1][1], item[0]))


def _lone(pair: PairId) -> Suspect:
    text = (
        "every element on its way passed with other pairs: suspect one of several paths (ECMP), a fault that"
        f' comes and goes, or load; decide with "fabricctl verify --pairs {pair.source}:{pair.target}"'
    )
    return Suspect(f"pair {pair}", (pair,), text, ports=(pair.source, pair.target))
