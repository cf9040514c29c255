"""``fabricctl drift``: what is no longer as the last apply proved it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabricctl.cli.common import emit_json, find_inventory, inventory_argument, json_option, load, tell, words
from fabricctl.cli.exits import Exit
from fabricctl.model.codec import encode
from fabricctl.model.words import count

if TYPE_CHECKING:
    from fabricctl.apply.drift import Drift

FEW = 4
"""So many devices are named in the last line."""


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
    Exit codes: 0 no drift, 2 nothing is recorded, 3 drift, 4 a device could not be read, an apply failed on
    a port, or nothing was compared (3 if another one has drifted).
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
        emit_json({**encode(found), "simulated": fabric.simulated})
    else:
        if fabric.simulated:
            tell(f"simulated: {fabric.simulated}")
        _print(found)
    if found.differences or found.pending:
        raise SystemExit(Exit.PENDING)
    if found.unread or found.unproven or not found.checked:
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
    if found.unproven:
        click.echo(f"an apply was to set it and did not prove it: {_few(list(map(str, found.unproven)))}")
    if found.never:
        more = f" and {len(found.never) - 1} more" if len(found.never) > 1 else ""
        click.echo(f"not compared, as no apply has proved it: {found.never[0]}{more}")
    click.echo(_verdict(found))


def _verdict(found: Drift) -> str:
    """Return the last line; what was not read is never called free of drift."""
    differ, compared = len(found.differences), count(found.checked, "setting")
    if not found.checked:
        text = "nothing was compared"
    elif differ:
        text = f"drift: {differ} of {compared} {'differs' if differ == 1 else 'differ'}"
    else:
        where = "on the devices that were read" if found.unread else "where an apply was proved"
        text = f"nothing differs {where}" if found.unread or found.unproven else "no drift"
    if found.pending:
        text += f"; {count(len(found.pending), 'setting')} stored and pending until a reset"
    if found.unread:
        text += f"; {_few(list(found.unread))} could not be read"
    return text if differ else f"{text} ({compared} compared)"


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:FEW])
    return shown if len(names) <= FEW else f"{shown} and {len(names) - FEW} more"
