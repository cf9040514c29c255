"""``fabricctl runs``: what was done, when and by whom."""

from __future__ import annotations

import click

from fabricctl.cli.common import emit_json, json_option
from fabricctl.cli.stored import nothing_yet
from fabricctl.model.run import RunKind
from fabricctl.plugin.layout import moment, state, table
from fabricctl.store import Store


@click.command()
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1), help="So many at most.")
@click.option("--kind", type=click.Choice([kind.value for kind in RunKind]), help="Only runs of this kind.")
@json_option
def command(*, limit: int, kind: str | None, as_json: bool) -> None:
    """List what was done, when and by whom.

    The newest comes first. A run that was killed or stopped is shown as interrupted.

    \b
    Exit codes: 0 listed, or nothing has been done yet; 2 a wrong option; 4 the store cannot be read.
    """
    if nothing_yet(as_json=as_json):
        return
    with Store.open(readonly=True) as store:
        runs = store.runs(limit=limit, kind=RunKind(kind) if kind else None)
    if as_json:
        emit_json(runs)
        return
    if not runs:
        click.echo("no runs on record")
        return
    rows = [("run", "kind", "started", "by", "outcome", "inventory")]
    rows += [(r.id, str(r.kind), moment(r.started_at), r.by, state(r), r.inventory) for r in runs]
    click.echo("\n".join(table(rows)))
