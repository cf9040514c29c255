"""``fabricctl check``: is what the inventory and the policy say sound? Contacts nothing."""

from __future__ import annotations

from pathlib import Path

import click

from fabricctl.cli.common import emit_json, find_inventory, inventory_argument, json_option, load
from fabricctl.cli.exits import exit_for
from fabricctl.cli.findings import grouped, outcome_line, summary
from fabricctl.model.fabric import Fabric
from fabricctl.model.policy import Policy
from fabricctl.model.verdict import Finding, worst
from fabricctl.model.words import count
from fabricctl.plugin import finder


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
    return [*lines, *summary(findings), *grouped(fabric, findings), outcome_line(findings)]
