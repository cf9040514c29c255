"""``fabricctl plan``: what apply would change."""

from __future__ import annotations

from pathlib import Path

import click

from fabricctl.cli.common import emit_json, find_inventory, inventory_argument, json_option, load, tell, words
from fabricctl.cli.exits import Exit
from fabricctl.errors import FabricctlError
from fabricctl.model.codec import encode
from fabricctl.model.policy import Stance


@click.command()
@inventory_argument
@click.option(
    "--limit", metavar="DEVICES", help="Only these devices: names or patterns, with commas between."
)
@json_option
def command(
    inventory: Path | None,
    inventory_option: Path | None,
    policy: Path | None,
    limit: str | None,
    as_json: bool,  # noqa: FBT001  click passes flags by name
) -> None:
    """Show what apply would change, how to undo it, and what it disrupts.

    Reads every device over SSH and changes nothing. Ports with the same changes stand together. Every check
    is put to what was read: "now" is wrong until the plan is applied, "fail" stays wrong with it and names
    the end that is wrong, "not proven" could not be judged.

    \b
    Examples:
      fabricctl plan
      fabricctl plan inventory.yml --limit 'leaf*,node1'
      fabricctl plan --policy stricter.yml --json

    \b
    Exit codes: 0 nothing to do; 1 the policy says "unsupported: refuse" and a device cannot have a
    setting, or there is nothing to set and a check fails that no setting mends; 2 usage, or a mistake
    in a file; 3 changes are pending or wait for a reset; 4 a device could not be read.
    """
    from fabricctl.apply.flow import prepare  # noqa: PLC0415  jinja2 and paramiko load slowly
    from fabricctl.apply.plan import refusal  # noqa: PLC0415
    from fabricctl.apply.show import plan_lines  # noqa: PLC0415
    from fabricctl.apply.tools import connected  # noqa: PLC0415

    fabric, rules = load(find_inventory(inventory, inventory_option), policy)
    with connected(fabric, tell) as tools:
        prepared = prepare(fabric, rules, words(limit, "--limit"), tools)
    plan, judged = prepared.plan, prepared.judged
    if as_json:
        emit_json({**encode(plan), "checks": judged, "simulated": fabric.simulated})
    else:
        if fabric.simulated:
            tell(f"simulated: {fabric.simulated}")
        for line in plan_lines(plan, judged):
            click.echo(line)
    if plan.unsupported and rules.unsupported is Stance.REFUSE:
        raise FabricctlError(
            f"apply would refuse this: {refusal(plan)}",
            where=rules.source or rules.name,
            next_step='set "unsupported: warn" in the policy to apply the rest',
        )
    to_do = bool(plan.steps or plan.pending)
    if judged.left and not to_do:
        raise SystemExit(Exit.FAILED)
    if plan.unknown:
        raise SystemExit(Exit.UNKNOWN)
    if to_do:
        raise SystemExit(Exit.PENDING)
