"""``fabricctl drift``: what is no longer as the last apply proved it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabricctl.cli.common import emit_json, find_inventory, inventory_argument, json_option, load, tell, words
from fabricctl.cli.exits import Exit

if TYPE_CHECKING:
    from fabricctl.apply.drift import Drift


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
    """Say what differs from the last apply, and would it survive a reboot.

    Compares with what was proved and recorded, not with a policy that was edited since: for that, see
    "fabricctl plan". The setting "boot" says whether a port would be set again after a reboot.

    \b
    Examples:
      fabricctl drift
      fabricctl drift --limit node2 --json

    \b
    Exit codes: 0 no drift, 2 nothing is recorded, 3 drift, 4 a device could not be read
    (3 if another one has drifted).
    """
    from fabricctl.apply.drift import drift  # noqa: PLC0415  jinja2 and paramiko load slowly
    from fabricctl.apply.record import load as history  # noqa: PLC0415
    from fabricctl.apply.tools import connected  # noqa: PLC0415
    from fabricctl.store import Store  # noqa: PLC0415

    fabric, _ = load(find_inventory(inventory, inventory_option), policy)
    with Store.open() as store:
        known = history(store, fabric.source)
    with connected(fabric, tell) as tools:
        found = drift(fabric, known, words(limit, "--limit"), tools)
    if as_json:
        emit_json(found)
    else:
        _print(found)
    if found.differences or found.pending:
        raise SystemExit(Exit.PENDING)
    if found.unread:
        raise SystemExit(Exit.UNKNOWN)


def _print(found: Drift) -> None:
    from fabricctl.apply.drift import line  # noqa: PLC0415
    from fabricctl.apply.show import pending_line  # noqa: PLC0415

    for item in found.differences:
        click.echo(line(item))
    for port, rivals in found.rivals.items():
        click.echo(f"{port}: another sets the same: {', '.join(rivals)}")
    for waiting in found.pending:
        click.echo(pending_line(waiting))
    for device, why in found.unread.items():
        click.echo(f"{device}: could not be read: {why}")
    if found.never:
        more = f" and {len(found.never) - 1} more" if len(found.never) > 1 else ""
        click.echo(f"not compared, as no apply has proved it: {found.never[0]}{more}")
    differ = len(found.differences)
    verdict = f"drift: {differ} of {found.checked} settings differ" if differ else "no drift"
    if found.pending:
        verdict += f"; {len(found.pending)} settings stored and pending until a reset"
    if found.unread:
        verdict += f"; {len(found.unread)} devices could not be read"
    click.echo(f"{verdict} ({found.checked} settings compared)" if not differ else verdict)
