"""``fabricctl confirm``: keep an apply that waits."""

from __future__ import annotations

import time
from pathlib import Path

import click

from fabricctl.cli.common import find_inventory, inventory_option, json_option, load, tell


@click.command()
@click.argument("apply_id", metavar="[APPLY]", required=False)
@inventory_option
@json_option
def command(
    apply_id: str | None,
    inventory_option: Path | None,
    policy: Path | None,
    as_json: bool,  # noqa: FBT001  click passes flags by name
) -> None:
    """Keep an apply that was started with --confirm-within.

    Stops the timers that would revert the devices, keeps the settings over reboots, and reads back.

    \b
    Examples:
      fabricctl confirm
      fabricctl confirm a20261129-201707-3f2a --json

    \b
    Exit codes: 0 kept and proven, 1 a device had reverted already or lost a setting,
    2 nothing waits to be confirmed, 4 a device could not be read, 5 another run is at work.
    """
    from fabricctl.apply.confirm import confirm  # noqa: PLC0415  jinja2 and paramiko load slowly
    from fabricctl.apply.tools import connected  # noqa: PLC0415
    from fabricctl.cli.changes import finish  # noqa: PLC0415
    from fabricctl.store import Store  # noqa: PLC0415

    started = time.monotonic()
    fabric, _ = load(find_inventory(None, inventory_option), policy)
    with connected(fabric, tell) as tools, Store.open() as store:
        result = confirm(fabric, apply_id, tools, store)
    finish(result, started, as_json=as_json, simulated=fabric.simulated)
