"""Name what is at fault: the fewest elements that explain all failed pairs and that no passing pair clears.

A pair that could not be measured neither blames nor clears. Where other elements explain as much, all are
named. Two NICs (or their cables) are weighed against a single switch that would explain the same, for two of
them are often bad at the same time. Pairs that are slow beside the others of their class are localised apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Outcome, Suspect, Verdict
from fabricctl.verify.covers import Cover, Set, covers
from fabricctl.verify.outliers import is_outlier
from fabricctl.verify.survey import Candidate, Survey, survey
from fabricctl.verify.topology import Element, Kind

AND, OR = " and ", " or "
"""How elements are joined in `Suspect.ambiguous_with`: those at fault together, and those that are alike."""

_NAMED = 6
"""So many cleared devices are named."""


@dataclass(frozen=True, slots=True)
class _Words:
    """What the pairs are called that did not do well, and those that did."""

    failed: str = "failed"
    did: str = "failed"
    passed: str = "that passed"
    none: str = "no pair passed"


_SLOW = _Words("slow", "are slow", "that are as fast as their class", "no pair is as fast as its class")


@dataclass(frozen=True)
class _Case:
    """A survey with what else is known.

    Parameters
    ----------
    telltales
        By port: what its own counters say against it.
    explained
        By candidate, of those that are named: the failed pairs that it would explain, those alike side by
        side.
    """

    survey: Survey
    words: _Words
    telltales: Mapping[PortId, str]
    explained: Mapping[int, Sequence[PairId]]

    def signs(self, index: int) -> list[str]:
        """Return what the counters of its ports say against an element."""
        ports = self.ports(index)
        return [f"{port}: {self.telltales[port]}" for port in ports if port in self.telltales]

    def ports(self, index: int) -> tuple[PortId, ...]:
        """Return the ports at fault if the element is."""
        element = self.survey.candidates[index].element
        if element.kind is Kind.NODE:
            return tuple(port.id for port in self.survey.paths.fabric.device(element.name).ports)
        return element.ports


def localise(
    verdicts: Iterable[Verdict], fabric: Fabric, telltales: Mapping[PortId, str] | None = None
) -> tuple[Suspect, ...]:
    """Return the suspects, the one that explains most first; none if no pair failed or is slow.

    Parameters
    ----------
    telltales
        By port: what speaks against it besides the pairs (``rx_crc_errors_phy +12``). Of explanations that
        are as good as each other, those with such a sign go first and the others are no longer "ambiguous".
    """
    failed: list[PairId] = []
    passed: list[PairId] = []
    slow: list[PairId] = []
    for verdict in verdicts:
        outcome = verdict.outcome
        if outcome is Outcome.FAIL:
            failed.append(verdict.pair)
        elif outcome is Outcome.PASS:
            (slow if any(map(is_outlier, verdict.findings)) else passed).append(verdict.pair)
    found = _suspects(fabric, failed, [*passed, *slow], _Words(), telltales or {})
    return (*found, *_suspects(fabric, slow, passed, _SLOW, telltales or {}))


def _suspects(
    fabric: Fabric,
    failed: Sequence[PairId],
    passed: Sequence[PairId],
    words: _Words,
    telltales: Mapping[PortId, str],
) -> tuple[Suspect, ...]:
    if not failed:
        return ()
    held = survey(fabric, failed, passed)
    facts = [(mask, len(pairs)) for mask, pairs in held.explained if mask]
    found = covers(facts, [candidate.choice for candidate in held.candidates])
    named = {index for cover in found for sets in cover.sets for members in sets for index in members}
    case = _Case(held, words, telltales, held.explains(sum(1 << index for index in named)))
    suspects = [suspect for cover in found for suspect in _explanation(cover, case)]
    suspects.sort(key=lambda suspect: (-len(suspect.explains), suspect.element))
    left = [pair for mask, pairs in held.explained if not mask for pair in pairs]
    return (*suspects, *_unexplained(left, case))


def _explanation(cover: Cover, case: _Case) -> list[Suspect]:
    """Return a suspect for each place of the best set, with what may stand in its place."""
    sets = [tuple(_ranked(members, case) for members in held) for held in cover.sets]
    signed = [held for held in sets if all(case.signs(members[0]) for members in held)]
    best = (signed or sets)[0]
    others = [held for held in signed or sets if held != best]
    told = ""
    if signed and len(signed) < len(sets):
        told = "; the pairs alone leave it open between this and other elements, the counters do not"
    if not cover.exact:
        told = f"{told}; too many elements at once to be sure that these are the fewest"
    if any(len(held) > len(best) for held in others):
        told = f"{told}; by how many passed, one element more may well be at fault"
    entries = {members: list[str]() for members in best}
    for members in best:
        entries[members] += [case.survey.candidates[index].name for index in _alike(members, case)[1:]]
    _add_others(best, others, entries, case)
    return [_suspect(members, tuple(dict.fromkeys(entries[members])), told, case) for members in best]


def _ranked(members: Sequence[int], case: _Case) -> tuple[int, ...]:
    """Put those first that their own counters speak against, then those that explain most."""
    candidates = case.survey.candidates

    def rank(index: int) -> tuple[bool, int, float, Element]:
        held = candidates[index]
        return not case.signs(index), -len(case.explained[index]), held.choice.unlikely(), held.element

    return tuple(sorted(members, key=rank)) if len(members) > 1 else tuple(members)


def _alike(members: Sequence[int], case: _Case) -> Sequence[int]:
    """Return those of a class that nothing tells apart."""
    signed = [index for index in members if case.signs(index)]
    return signed or members


def _add_others(
    best: Set, others: Iterable[Set], entries: dict[tuple[int, ...], list[str]], case: _Case
) -> None:
    """Name the other sets at the places of the best one where they differ."""
    swapped: set[tuple[int, ...]] = set()
    for other in sorted(others, key=lambda held: len(set(held) - set(best))):
        new = [members for members in other if members not in best]
        places = [members for members in best if members not in other]
        if new and not places:  # the best one and more
            for place in _overlapping(best, new[0], case):
                entries[place].append(AND.join(_any_of(members, case) for members in (place, *new)))
        elif len(new) == len(places) == 1:
            swapped.update(new)
            entries[places[0]] += [case.survey.candidates[index].name for index in _alike(new[0], case)]
        elif not swapped.issuperset(new):
            text = AND.join(_any_of(members, case) for members in new)
            for place in places:
                entries[place].append(text)


def _overlapping(best: Set, new: Sequence[int], case: _Case) -> list[tuple[int, ...]]:
    """Return the places of a set that explain some of what another element would explain too."""
    pairs = set(case.explained[new[0]])
    return [members for members in best if not pairs.isdisjoint(case.explained[members[0]])]


def _any_of(members: Sequence[int], case: _Case) -> str:
    return OR.join(case.survey.candidates[index].name for index in _alike(members, case))


def _suspect(members: Sequence[int], ambiguous: tuple[str, ...], told: str, case: _Case) -> Suspect:
    index = members[0]
    best = case.survey.candidates[index]
    explains = tuple(case.explained[index])
    signs = case.signs(index)
    seen = f"; {', '.join(signs)}" if signs else ""
    if len(members) > len(_alike(members, case)):
        told = told or "; the pairs alone leave it open between this and other elements, the counters do not"
    return Suspect(
        element=best.name,
        explains=explains,
        evidence=f"{_evidence(best, explains, case)}{seen}{told}",
        ambiguous_with=ambiguous,
        ports=case.ports(index),
    )


def _evidence(best: Candidate, explains: Sequence[PairId], case: _Case) -> str:
    failed, passed, count = len(case.survey.failed), len(case.survey.passed), len(explains)
    bad, good = case.words.failed, case.words.passed
    share = f"{count} of {failed} {bad} pairs cross it"
    if count == failed:
        share = f"all {failed} {bad} pairs cross it" if failed > 1 else f"the one {bad} pair crosses it"
    cleared = case.words.none
    if passed:
        cleared = f"the {passed} {good} clear {_cleared(explains, case.survey)}"
    if best.doubts:
        cleared = f"{cleared}; {best.doubts} of them may have gone around it"
    return f"{share}; {cleared}{_hint(best, passed)}"


def _cleared(explains: Sequence[PairId], held: Survey) -> str:
    """Name the devices on the way of the explained pairs that passing pairs clear."""
    crossed = held.crossed(explains) & held.cleared
    names = sorted({element.name for element, _ in crossed if element.kind is not Kind.LINK})
    shown = ", ".join(names[:_NAMED])
    if not names:
        return "nothing on its way"
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def _hint(best: Candidate, passed: int) -> str:
    if best.element.kind is Kind.SWITCH and not passed:
        return "; a setting that all ports share would look the same"
    if best.element.kind is not Kind.LINK:
        return ""
    if best.side:
        return f"; the other direction passed: look at what is {best.side} there (a fibre, a laser, a queue)"
    return "; the pairs alone cannot tell the cable from the ports at its two ends"


def _unexplained(left: Sequence[PairId], case: _Case) -> tuple[Suspect, ...]:
    """Return suspects for failed pairs on whose path every element has passed with another pair."""
    suspects: list[Suspect] = []
    rest = dict.fromkeys(left)
    for link, bad, passes in _flaky(left, case.survey):
        explained = tuple(pair for pair in bad if pair in rest)
        if not explained:
            continue
        for pair in explained:
            del rest[pair]
        text = (
            f"{len(bad)} of {len(bad) + passes} pairs that cross it {case.words.did}; the {passes}"
            f" {case.words.passed} speak against a constant fault, so look for one that comes and goes (dirty"
            " optics, a loose cable)"
        )
        suspects.append(Suspect(str(link), explained, text, ports=link.ports))
    return (*suspects, *(_lone(pair) for pair in rest))


def _flaky(left: Iterable[PairId], held: Survey) -> list[tuple[Element, list[PairId], int]]:
    """Return the links on which most of the pairs failed, at least two, the worst first."""
    bad: dict[Element, list[PairId]] = {}
    for pair in left:
        for link in dict.fromkeys((held.paths.link(pair.source), held.paths.link(pair.target))):
            if link is not None:
                bad.setdefault(link, []).append(pair)
    passes = {link: max(held.passes.get(port, 0) for port in link.ports) for link in bad}
    mostly = [
        (link, pairs, passes[link])
        for link, pairs in bad.items()
        if len(pairs) > 1 and len(pairs) > passes[link]
    ]
    return sorted(mostly, key=lambda item: (item[2] / len(item[1]), item[0]))


def _lone(pair: PairId) -> Suspect:
    text = (
        "every element on its way passed with other pairs: suspect one of several paths (ECMP), a fault that"
        f' comes and goes, or load; decide with "fabricctl verify --pairs {pair.source}:{pair.target}"'
    )
    return Suspect(f"pair {pair}", (pair,), text, ports=(pair.source, pair.target))
