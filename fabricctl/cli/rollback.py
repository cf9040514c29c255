"""``fabricctl rollback``: take an apply back."""

from __future__ import annotations

import time
from pathlib import Path

import click

from fabricctl.cli.common import find_inventory, inventory_option, json_option, load, tell


@click.command()
@click.argument("apply_id", metavar="[APPLY]", required=False)
@inventory_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--batch", type=click.IntRange(min=1), default=32, show_default=True, help="As for apply.")
@click.option("--disrupt", is_flag=True, help="Go on under running jobs.")
@json_option
def command(  # noqa: PLR0913, PLR0917  one parameter an option
    apply_id: str | None,
    inventory_option: Path | None,
    policy: Path | None,
    yes: bool,  # noqa: FBT001  click passes flags by name
    batch: int,
    disrupt: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> None:
    """Restore what was read before an apply.

    Without a name it takes back the last apply; applies after the one that is named are taken back with it.
    What is restored is pushed, read back and kept over reboots as by apply. An apply that waits to be
    confirmed is reverted at once, without a question. What would disturb a node on which a job runs is
    left as it is, as by apply, unless --disrupt says otherwise.

    \b
    Examples:
      fabricctl rollback
      fabricctl rollback a20261129-201707-3f2a --yes

    \b
    Exit codes: 0 restored and proven, 1 a port failed, 2 usage, 3 you said no, or nodes are
    in use, 4 a device could not be read, 5 another run is at work.
    """
    from fabricctl.apply.flow import Options  # noqa: PLC0415  jinja2 and paramiko load slowly
    from fabricctl.apply.rollback import rollback  # noqa: PLC0415
    from fabricctl.apply.tools import connected  # noqa: PLC0415
    from fabricctl.cli.changes import asker, finish  # noqa: PLC0415
    from fabricctl.store import Store  # noqa: PLC0415

    started = time.monotonic()
    fabric, _ = load(find_inventory(None, inventory_option), policy)
    with connected(fabric, tell) as tools, Store.open() as store:
        agree = asker(yes=yes, question="Restore this?")
        result = rollback(fabric, apply_id, Options(batch=batch, disrupt=disrupt), tools, store, agree)
    finish(result, started, as_json=as_json, simulated=fabric.simulated)
