"""How likely it is that elements are at fault together, by what failed and what passed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_ROUNDS = 40
"""Of expectation and maximisation; 10 settle most chances to three digits."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What speaks for and against an element.

    Parameters
    ----------
    passed, failed
        How many of those that may have crossed it on one of several paths passed and failed.
    share
        The part of them that must have crossed it, 0 < share < 1 (where there are any).
    weight
        What one fact counts among those that failed (where many facts count as one, less than 1).
    common
        Whether it is of a kind of which two are often at fault at the same time (NICs and their cables), so
        that two of them are weighed against one other element that would explain as much.
    what
        The thing that it is, where it may be one direction of a thing: no set has the same thing twice.
    """

    passed: float = 0.0
    failed: float = 0.0
    share: float = 0.0
    weight: float = 1.0
    common: bool = False
    what: str = ""

    def unlikely(self, part: float = 1.0) -> float:
        """Return minus the log likelihood of what was seen if it is at fault, 0 or more.

        Each of those that may have crossed it fails with one and the same chance, at least `share`.

        Parameters
        ----------
        part
            Of those that failed, how many nothing else explains, 0..1; more makes it less likely.
        """
        if self.passed <= 0:
            return 0.0
        failed = self.failed * part
        chance = max(failed / (failed + self.passed), self.share)
        return -failed * math.log(chance) - self.passed * math.log1p(-chance)


def bits(mask: int) -> Iterator[int]:
    """Return the places of the bits that are set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def together(lucky: Mapping[int, Choice], failed: Mapping[int, int]) -> float:
    """Return minus the log likelihood of what elements explain by luck, each with one chance of its own.

    What may have crossed several of them passes if it passes each: a "noisy or" (Pearl, *Probabilistic
    Reasoning in Intelligent Systems*, 1988, section 4.3.2). The chances are the likeliest that are no less
    than the shares (expectation and maximisation: Dempster, Laird, Rubin, J. R. Stat. Soc. B 39, 1977).

    Parameters
    ----------
    failed
        Facts that nothing surely explains, by the elements that may have.
    """
    crossed = {row: [(place, lucky[place]) for place in bits(row)] for row in failed}
    counts = {row: failed[row] * sum(c.weight for _, c in held) / len(held) for row, held in crossed.items()}
    seen = {place: choice.passed for place, choice in lucky.items()}
    for row, held in crossed.items():
        for place, _ in held:
            seen[place] += counts[row]
    chance = {place: max(c.share, c.failed / (c.failed + c.passed)) for place, c in lucky.items()}
    for _ in range(_ROUNDS if len(lucky) > 1 else 1):
        fails = {row: _any(held, chance) for row, held in crossed.items()}
        own = dict.fromkeys(lucky, 0.0)
        for row, held in crossed.items():
            for place, _ in held:
                own[place] += counts[row] * chance[place] / fails[row]
        chance = {place: max(choice.share, own[place] / seen[place]) for place, choice in lucky.items()}
    cost = -sum(count * math.log(_any(crossed[row], chance)) for row, count in counts.items())
    return cost - sum(choice.passed * math.log1p(-chance[place]) for place, choice in lucky.items())


def _any(held: Iterable[tuple[int, Choice]], chance: Mapping[int, float]) -> float:
    """Return the chance that at least one of some elements fails what crosses them all."""
    return 1.0 - math.prod(1.0 - chance[place] for place, _ in held)
