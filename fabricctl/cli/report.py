"""``fabricctl report``: a verify run as text or for a program."""

from __future__ import annotations

import click

from fabricctl.cli import stored
from fabricctl.plugin import finder
from fabricctl.store import Store


@click.command()
@click.argument("run", required=False)
@click.option("--format", "form", default="text", show_default=True, help="A report's name.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(*, run: str | None, form: str, as_json: bool) -> None:
    """Print a run as text or JSON.

    RUN is a verify run, by default the newest one that ended. The exit status says only that the report
    could be made; "verify" says how the run went.

    \b
    Exit codes: 0 printed, whatever the verdicts are; 2 there is no such run, or no such format;
    4 there is no store, or it cannot be read.
    """
    chosen = finder.report("json" if as_json else form)
    with Store.open(readonly=True) as store:
        click.echo(chosen.render(stored.report(store, run)), nl=False)
