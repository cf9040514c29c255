"""``fabricctl apply``: set the fabric as intended and prove it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import click

from fabricctl.cli.common import (
    find_inventory,
    inventory_argument,
    json_option,
    load,
    remember_inventory,
    tell,
    words,
)
from fabricctl.errors import UsageError
from fabricctl.model.verdict import Outcome

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_SHORTEST_S, _LONGEST_S = 10, 24 * 3600
_DRAIN_WAIT_S = 3600


def seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Return the seconds of ``90s``, ``5m`` or ``1h``; a usage error outside of 10 s to 24 h."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d{1,6})\s*([smh]?)", value.strip())
    if not found:
        raise click.BadParameter(f"{value!r} is no time; write 90s, 5m or 1h")
    number = int(found[1]) * _UNITS[found[2]]
    if not _SHORTEST_S <= number <= _LONGEST_S:
        raise click.BadParameter(f"{value!r} is outside of 10s to 24h")
    return number


def drain_seconds(wait_s: int | None, *, drain: bool) -> int | None:
    """Return how long to wait for jobs, in seconds; None without ``--drain``.

    Raises
    ------
    UsageError
        A time was given without ``--drain``.
    """
    if drain:
        return _DRAIN_WAIT_S if wait_s is None else wait_s
    if wait_s is not None:
        raise UsageError("--drain-wait means nothing without --drain", next_step="add --drain")
    return None


@click.command()
@inventory_argument
@click.option(
    "--limit", metavar="DEVICES", help="Only these devices: names or patterns, with commas between."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help='Change nothing: the same as "fabricctl plan".')
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="Nodes changed at the same time. With more nodes than that, a single one goes first.",
)
@click.option(
    "--confirm-within",
    metavar="TIME",
    callback=seconds,
    help='Each device reverts by itself unless "fabricctl confirm" comes within this time (5m).',
)
@click.option("--disrupt", is_flag=True, help="Go on under running jobs.")
@click.option(
    "--drain",
    is_flag=True,
    help="Drain the nodes that would be disturbed, wait for their jobs, apply, verify, undrain.",
)
@click.option(
    "--drain-wait",
    metavar="TIME",
    callback=seconds,
    help="How long --drain waits for jobs to end.  [default: 1h]",
)
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917  one parameter an option
    ctx: click.Context,
    inventory: Path | None,
    inventory_option: Path | None,
    policy: Path | None,
    limit: str | None,
    yes: bool,  # noqa: FBT001  click passes flags by name
    dry_run: bool,  # noqa: FBT001
    batch: int,
    confirm_within: int | None,
    disrupt: bool,  # noqa: FBT001
    drain: bool,  # noqa: FBT001
    drain_wait: int | None,
    as_json: bool,  # noqa: FBT001
) -> None:
    """Set NICs and switches as intended, and prove it by reading back.

    Switches go before nodes, batch after batch. Before anything is changed, each device gets a timer that
    reverts it; it is stopped once the device has been read back as intended. A port that is not proven is
    reverted at once, together with the other end of its link, and the batches behind it are not begun. The
    settings are then kept over reboots. A second apply finds nothing to do and contacts no device to write.

    What would disturb a node on which a job runs, or may run, is not attempted: the port and the other end of
    its link are left as they are, the rest goes on. The scheduler (fabric_scheduler) is asked. --drain keeps
    new jobs off these nodes and waits; it undrains only what it drained, and only nodes that were read back
    as intended and passed a verify with the other drained or idle nodes.

    \b
    Examples:
      fabricctl apply
      fabricctl apply --limit leaf1,'node[12]' --yes
      fabricctl apply --confirm-within 5m     then, if all is well: fabricctl confirm
      fabricctl apply --batch 8 --yes --json
      fabricctl apply --drain --drain-wait 4h --yes

    \b
    Exit codes: 0 done and proven, or nothing to do; 1 a port failed, the policy refuses, or all is
    set and a check fails that no setting mends; 2 usage; 3 you said no, or nodes are in use; 4 a
    device could not be read, or a drained node could not be verified; 5 another run is at work, or an
    apply waits to be confirmed.
    """
    if dry_run:
        from fabricctl.cli import plan  # noqa: PLC0415

        ctx.invoke(
            plan.command,
            inventory=inventory,
            inventory_option=inventory_option,
            policy=policy,
            limit=limit,
            as_json=as_json,
        )
        return
    from fabricctl.apply.flow import Options, apply  # noqa: PLC0415  jinja2 and paramiko load slowly
    from fabricctl.apply.tools import connected  # noqa: PLC0415
    from fabricctl.cli.changes import asker, finish  # noqa: PLC0415
    from fabricctl.store import Store  # noqa: PLC0415

    started = time.monotonic()
    path = find_inventory(inventory, inventory_option)
    fabric, rules = load(path, policy)
    wait = drain_seconds(drain_wait, drain=drain)
    options = Options(words(limit, "--limit"), batch, confirm_within, disrupt, wait)
    with connected(fabric, tell) as tools, Store.open() as store:
        result = apply(fabric, rules, options, tools, store, asker(yes=yes, question="Apply this?"))
        if result is not None and result.drain is not None:
            from fabricctl.cli.draining import prove_and_undrain  # noqa: PLC0415  only then verify is loaded

            result = prove_and_undrain(result, fabric, rules, tools, store)
    if result is not None and result.outcome is Outcome.PASS:
        remember_inventory(path)
    finish(result, started, as_json=as_json, simulated=fabric.simulated)
