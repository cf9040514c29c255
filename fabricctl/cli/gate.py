"""``fabricctl gate``: the same as the program ``fabricctl-gate``, which starts faster."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from fabricctl.cli.common import FilePath, json_option
from fabricctl.gate.command import ask, exit_code, job_nodes
from fabricctl.gate.printing import say
from fabricctl.model.codec import encode


@click.command()
@click.option("--nodes", metavar="LIST", help="node1,node2 or node[1-4,7].  [default: SLURM_JOB_NODELIST]")
@click.option("--store", type=FilePath(), metavar="FILE", help="Another store.")
@json_option
def command(*, nodes: str | None, store: Path | None, as_json: bool) -> None:
    """May a job run on these nodes, now?

    The answer is one line, from the certificates on record; nothing is contacted. Exit status: 0 yes, 1 no
    (a known fault), 4 unknown. "fabricctl-gate" does the same and starts faster: a scheduler's hook calls
    that one.
    """  # noqa: D400  the question is what the reader asks
    decision = ask(job_nodes(nodes), store)
    text = json.dumps(encode(decision), indent=2, ensure_ascii=False) if as_json else decision.line
    say(text, sys.stdout)  # the exit code is the answer, whether anybody reads the line or not
    raise SystemExit(exit_code(decision))
