"""The rate of loss and the interval in which it lies, bursts included.

The exact (Clopper-Pearson) interval takes losses as independent. They come in bursts: five packets that were
lost together are about one event, and say as much of the rate as one. How strongly they do shows in how much
equal stretches of time differ: their variance over that of a binomial is the design effect, taken at its
upper 90 % bound. The interval for bursts is the exact one of as many effective packets and losses, as in
E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number of positive
counts estimated from survey data", Survey Methodology 24 (1998), 193-201; its degrees of freedom are those of
the batches, or the number of effective losses where that is smaller. The wider of the two intervals is the
one that is stated.

How many packets an event costs, a run without one does not show, a single one hardly, and one too short for
two stretches not at all. There :data:`~fabricctl.probes.loss.spec.TOGETHER` packets are assumed to be lost
together on average; what was seen of a single event counts where it is more. So no loss bounds events
exactly, and packets by that assumption only: it is to be named wherever the number is.

The interval holds in at least 95 % of runs while bursts are no longer than that on average, and alike. Where
most are short and a few are long, runs that saw no long one state too little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

from fabricctl.model.stats import CONFIDENCE, interval, upper_bound
from fabricctl.probes.loss.spec import TOGETHER

DOUBT = 0.9
"""Confidence with which the design effect is not larger than what is taken: it is an estimate itself."""

_STEPS = 60
"""Halvings of a bisection between 0 and pi / 2."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted in one direction.

    Parameters
    ----------
    sent, lost
        Packets, 0 <= lost <= sent.
    events
        Runs of consecutive lost packets of one queue pair; None if they were not told apart.
    effect
        Design effect: how many packets are lost together, 1 or more; 1 for independent losses.
    batches
        Stretches of time behind it; less than 2 say nothing of bursts, not even that there are none.
    """

    sent: int
    lost: int
    events: int | None = None
    effect: float = 1.0
    batches: int = 0

    @property
    def is_bursty(self) -> bool:
        """Whether the interval for bursts is the wider one."""
        return self.interval() != interval(self.lost, self.sent)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the two-sided interval of the rate of packets: the wider of the exact one and for bursts."""
        low, high = interval(self.lost, self.sent, confidence)
        each = self._worth(confidence)
        wide = interval(self.lost / each, self.sent / each, confidence)
        return min(low, wide[0]), max(high, wide[1])

    def upper_bound(self, confidence: float) -> float:
        """Return the one-sided upper bound of the rate: of packets, but of events where nothing was lost."""
        return self.packets_bound(confidence) if self.lost else upper_bound(0, self.sent, confidence)

    def packets_bound(self, confidence: float) -> float:
        """Return the one-sided upper bound of the rate of packets; an assumed one where nothing was lost."""
        high = upper_bound(self.lost, self.sent, confidence)
        each = self._worth(2 * confidence - 1)
        return max(high, upper_bound(self.lost / each, self.sent / each, confidence))

    def _worth(self, confidence: float) -> float:
        """Return how many packets are worth one independent one, for a two-sided interval; 1 or more."""
        most = max(1.0, self.sent)
        if not self.lost or self.batches < 2:  # noqa: PLR2004  a spread takes two
            return min(TOGETHER, most)
        if confidence <= 0:
            return 1.0
        freedom = min(self.lost / self.effect, self.batches - 1)
        few = (student_t(max(2, int(freedom) // 2 * 2), confidence) / _normal(confidence)) ** 2
        least = TOGETHER if self.lost < 2 * self.effect else 1  # one event hardly tells more than none
        return min(max(least, self.effect * _doubt(self.batches - 1) * few), most)


def design_effect(numbers: Mapping[str, int]) -> tuple[float, int]:
    """Return the design effect of one sample's batches, at least 1, and their number.

    1 and 0 where the batches are missing, fewer than two, or make no sense.
    """
    names = ("batches", "batch_packets", "batch_lost", "batch_squares")
    if not set(names) <= numbers.keys():
        return 1.0, 0
    batches, packets, lost, squares = (numbers[name] for name in names)
    if batches < 2 or packets < 1 or not 0 <= lost <= batches * packets:  # noqa: PLR2004
        return 1.0, 0
    if lost in {0, batches * packets}:
        return 1.0, batches
    rate = lost / (batches * packets)
    variance = (squares - lost * lost / batches) / (batches - 1)
    return max(1.0, variance / (packets * rate * (1 - rate))), batches


def strongest(samples: Sequence[Mapping[str, int]]) -> tuple[float, int]:
    """Return the largest design effect of several samples and the number of its batches."""
    return max((design_effect(numbers) for numbers in samples), default=(1.0, 0))


def _doubt(freedom: int) -> float:
    """Return by how much a variance from so many degrees of freedom may be larger than it was found to be.

    One-sided, at :data:`DOUBT`; the quantile of chi-square after E. B. Wilson and M. M. Hilferty, "The
    distribution of chi-square", Proc. Natl. Acad. Sci. 17 (1931), 684-688.
    """
    part = 2 / (9 * freedom)
    return 1 / max(1 - part - NormalDist().inv_cdf(DOUBT) * math.sqrt(part), 0.1) ** 3


def _normal(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


@cache
def student_t(freedom: int, confidence: float) -> float:
    """Return the two-sided quantile of Student's t for an even number of degrees of freedom.

    Abramowitz and Stegun 26.7.4: with t = sqrt(n) tan(angle), the probability between -t and t is
    sin(angle) (1 + 1/2 cos^2 + 1*3/(2*4) cos^4 + ... up to cos^(n-2)).

    Parameters
    ----------
    freedom
        2, 4, 6, ...
    confidence
        0 < confidence < 1.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(_STEPS):
        angle = (low + high) / 2
        term = total = 1.0
        for k in range(1, freedom // 2):
            term *= (2 * k - 1) / (2 * k) * math.cos(angle) ** 2
            total += term
        if math.sin(angle) * total < confidence:
            low = angle
        else:
            high = angle
    return math.sqrt(freedom) * math.tan(low)
