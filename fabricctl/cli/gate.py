"""``fabricctl gate``: the same as the program ``fabricctl-gate``, which starts faster."""

from __future__ import annotations

from pathlib import Path

import click

from fabricctl.cli.common import emit_json, json_option
from fabricctl.gate.command import ask, exit_code, job_nodes


@click.command()
@click.option("--nodes", metavar="LIST", help="node1,node2 or node[1-4,7].  [default: SLURM_JOB_NODELIST]")
@click.option("--store", type=click.Path(path_type=Path), metavar="FILE", help="Another store.")
@json_option
def command(*, nodes: str | None, store: Path | None, as_json: bool) -> None:
    """May a job run on these nodes, now?

    The answer is one line, from the certificates on record; nothing is contacted. Exit status: 0 yes, 1 no
    (a known fault), 4 unknown. "fabricctl-gate" does the same and starts faster: a scheduler's hook calls
    that one.
    """  # noqa: D400  the question is what the reader asks
    decision = ask(job_nodes(nodes), store)
    if as_json:
        emit_json(decision)
    else:
        click.echo(decision.line)
    raise SystemExit(exit_code(decision))
