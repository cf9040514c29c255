"""Findings as text: a line for each check, then what did not pass; what is said alike of many is one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from fabricctl.model.fabric import Fabric
from fabricctl.model.verdict import Finding, Outcome, worst
from fabricctl.model.words import count

NAMED = 3
"""So many subjects of which the same is said are named; the rest are counted."""


def summary(findings: Sequence[Finding]) -> Iterator[str]:
    """Walk one line for each check: its outcome, and how many findings of each."""
    by_check: dict[str, list[Finding]] = {}
    for finding in findings:
        by_check.setdefault(finding.check, []).append(finding)
    width = max(12, *(len(check) for check in by_check)) if by_check else 0
    for check, of_check in by_check.items():
        yield f"{check:<{width}} {worst(f.outcome for f in of_check):<8} {_counts(of_check)}"


def outcome_line(findings: Iterable[Finding]) -> str:
    """Return the last line."""
    return f"outcome: {worst(f.outcome for f in findings)}"


def grouped(fabric: Fabric, findings: Sequence[Finding]) -> Iterator[str]:
    """Walk the lines of what did not pass, then the notes; what is said alike of many is one line."""
    groups: dict[tuple[bool, Outcome, str, str, str], list[Finding]] = {}
    for finding in findings:
        passed = finding.outcome is Outcome.PASS
        if not passed or finding.next_step:
            key = (passed, finding.outcome, finding.check, finding.anonymous, finding.next_step)
            groups.setdefault(key, []).append(finding)
    for passed in (False, True):
        for key, group in groups.items():
            if key[0] is passed:
                yield _line(fabric, group)


def _line(fabric: Fabric, group: Sequence[Finding]) -> str:
    """Return the line of findings that say the same, or the same with the names of their own ends."""
    first, names = group[0], [finding.subject for finding in group]
    if len({finding.what for finding in group}) == 1:
        text = f"{_subjects(fabric, names)}: {first.what}"
    else:
        text = f"{names[0]}: {first.what}; the same goes for {_subjects(fabric, names[1:])}"
    if first.outcome is Outcome.PASS:
        return f"note: {text}"
    advice = f"; {first.next_step}" if first.next_step else ""
    return f"{first.outcome}: {text}{advice} [{first.check}]"


def _subjects(fabric: Fabric, subjects: Sequence[str]) -> str:
    """Return ``34 ports (leaf1/Ethernet0, leaf1/Ethernet4, leaf1/Ethernet8 and 31 more)``; one as it is."""
    if len(subjects) == 1:
        return subjects[0]
    rest = len(subjects) - NAMED
    listed = ", ".join(subjects[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
    kinds = {
        "port": {str(port.id) for device in fabric.devices for port in device.ports},
        "device": {device.name for device in fabric.devices},
        "cable": {subject for subject in subjects if " - " in subject},
    }
    kind = next((kind for kind, known in kinds.items() if known.issuperset(subjects)), "")
    return f"{count(len(subjects), kind)} ({listed})" if kind else listed


def _counts(findings: Iterable[Finding]) -> str:
    counts = Counter(finding.outcome for finding in findings)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])
