"""Outcomes, findings and verdicts: a verdict starts as unknown, no evidence is no pass, the worst wins."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fabricctl.model.names import PairId, PortId


class Outcome(StrEnum):
    """How something was judged."""

    PASS = "pass"  # noqa: S105  an outcome, not a password
    UNKNOWN = "unknown"
    ERROR = "error"
    FAIL = "fail"


_RANK = {Outcome.PASS: 0, Outcome.UNKNOWN: 1, Outcome.ERROR: 2, Outcome.FAIL: 3}


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst outcome in any order (fail, error, unknown, pass); unknown if there is none."""
    return max(outcomes, key=_RANK.__getitem__, default=Outcome.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Finding:
    """One judged statement with its numbers.

    Parameters
    ----------
    check
        Name of the check or probe that found it.
    subject
        What it is about: ``node1/eth1``, ``node1/eth1 -> node2/eth1``, a device or a link.
    what
        One sentence with the measured value, its sample count and its limit.
    measured, limit
        The numbers again, as text with units; empty where there is none.
    samples
        How many samples or packets stand behind it; 0 for none.
    next_step
        What to do about it; empty when it passed, unless it passed with a note that has a remedy.
    culprit
        The device or port (as text) that is surely to blame, for it was looked at itself; empty where only
        the pair is known to be bad.
    interval_s
        Seconds over which it was counted; 0 where it is how things stood at one moment.
    """

    check: str
    subject: str
    outcome: Outcome
    what: str
    measured: str = ""
    limit: str = ""
    samples: int = 0
    next_step: str = ""
    culprit: str = ""
    interval_s: float = 0.0

    @property
    def anonymous(self) -> str:
        """What is said without the names of the subject's own ends: the same for all that are alike."""
        what = self.what
        for place, end in enumerate(self.subject.split(" - ")):
            own = f"{re.escape(end)}|'{re.escape(end.partition('/')[2])}'"
            what = re.sub(rf"(?<![\w/.-])(?:{own})(?![\w/.-])", f"\0{place}", what)
        return what


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on one directed pair.

    Parameters
    ----------
    topology
        ``loopback``, ``same_leaf``, ``cross_leaf``, ``cross_pod`` or ``cross_rail``.
    """

    pair: PairId
    topology: str
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of the findings; unknown if there are none."""
        if len(self.findings) == 1:
            return self.findings[0].outcome
        return worst(f.outcome for f in self.findings)

    @property
    def culprits(self) -> tuple[str, ...]:
        """Who is surely to blame for all that did not pass; empty if anything is left unexplained."""
        bad = [finding.culprit for finding in self.findings if finding.outcome is not Outcome.PASS]
        return tuple(dict.fromkeys(bad)) if all(bad) else ()


@dataclass(frozen=True, slots=True)
class Suspect:
    """An element whose fault would explain failed pairs.

    Parameters
    ----------
    element
        ``node node2``, ``link node2/eth1 - leaf1/eth2``, ``switch leaf1``.
    explains
        The failed pairs on whose paths it lies.
    ambiguous_with
        Other elements that explain just as much; empty when it is the only one.
    evidence
        One sentence: why it, and which pairs cleared the others.
    ports
        The ports at fault if it is: both ends of a link, all ports of a node; none for a switch.
    """

    element: str
    explains: tuple[PairId, ...]
    evidence: str
    ambiguous_with: tuple[str, ...] = ()
    ports: tuple[PortId, ...] = ()
