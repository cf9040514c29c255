"""``fabricctl check``: is what the inventory and the policy say sound? Contacts nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from fabricctl.cli.common import emit_json, find_inventory, inventory_argument, json_option, load
from fabricctl.cli.exits import exit_for
from fabricctl.model.fabric import Fabric
from fabricctl.model.policy import Policy
from fabricctl.model.verdict import Finding, Outcome, worst
from fabricctl.model.words import count
from fabricctl.plugin import finder

NAMED = 3
"""So many subjects of which the same is said are named; the rest are counted."""


@click.command()
@inventory_argument
@json_option
def command(
    inventory: Path | None, inventory_option: Path | None, policy: Path | None, *, as_json: bool
) -> None:
    """Check inventory and policy offline: both ends of every link, and the chain of classes.

    Nothing is contacted. Exit code 0: sound; 1: a check failed; 2: a mistake in a file; 4: something
    could not be judged.
    """
    from fabricctl.apply.intent import intents  # noqa: PLC0415  loaded only when the command runs

    fabric, chosen = load(find_inventory(inventory, inventory_option), policy)
    wanted = intents(fabric, chosen)
    checks = [finder.check(name) for name in finder.names("check")]
    findings = tuple(finding for check in checks for finding in check.judge(fabric, chosen, wanted, None))
    if as_json:
        emit_json(_as_json(fabric, chosen, findings))
    else:
        click.echo("\n".join(_as_text(fabric, chosen, findings)))
    raise SystemExit(exit_for(finding.outcome for finding in findings))


def _as_json(fabric: Fabric, policy: Policy, findings: tuple[Finding, ...]) -> dict[str, object]:
    return {
        "inventory": fabric.source,
        "policy": {"name": policy.name, "source": policy.source},
        "simulated": fabric.simulated,
        "nodes": len(fabric.nodes()),
        "switches": len(fabric.switches()),
        "links": len(fabric.links),
        "outcome": worst(finding.outcome for finding in findings),
        "findings": findings,
    }


def _as_text(fabric: Fabric, policy: Policy, findings: tuple[Finding, ...]) -> list[str]:
    """Return one line a check, then what did not pass in full, notes of what passed, and the outcome."""
    ports = sum(len(device.ports) for device in fabric.devices)
    devices = f"{count(len(fabric.nodes()), 'node')}, {count(len(fabric.switches()), 'switch', 'switches')}"
    cabling = f"{count(ports, 'port')}, {count(len(fabric.links), 'cable')}"
    lines = [f"{devices}, {cabling}; policy {policy.name}"]
    if fabric.simulated:
        lines.append(f"simulated: {fabric.simulated}")
    for check in dict.fromkeys(finding.check for finding in findings):
        of_check = [finding for finding in findings if finding.check == check]
        lines.append(f"{check:<12} {worst(f.outcome for f in of_check):<8} {_counts(of_check)}")
    lines += grouped(fabric, findings)
    return [*lines, f"outcome: {worst(f.outcome for f in findings)}"]


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
