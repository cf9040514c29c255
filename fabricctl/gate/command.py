"""``fabricctl-gate``: the pre-job decision as a program of its own that starts fast and reads no network."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from fabricctl.errors import FabricctlError, UsageError
from fabricctl.gate.decide import decide, undecided
from fabricctl.gate.printing import say, settle
from fabricctl.model.certificate import Answer, Decision
from fabricctl.model.codec import encode
from fabricctl.model.hostlist import expand
from fabricctl.model.names import HOST_NAME
from fabricctl.store import Store

YES, NO, USAGE, UNKNOWN, INTERNAL = 0, 1, 2, 4, 70
"""Exit codes, the same as those of ``fabricctl``."""

_VARIABLES = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the decision as one line and return the exit code.

    0 is yes, 1 no, 4 unknown, 2 wrong usage, 70 a bug.
    """
    try:
        return _answer(_parser().parse_args(argv))
    finally:
        settle()


def _answer(arguments: argparse.Namespace) -> int:
    try:
        nodes = job_nodes(arguments.nodes)
        decision = ask(nodes, arguments.store)
    except UsageError as exc:
        say(f"fabricctl-gate: {exc}", sys.stderr)
        return USAGE
    except Exception:  # noqa: BLE001  the outermost boundary: a bug must not look like a "no"
        say(traceback.format_exc(), sys.stderr)
        say("fabricctl-gate: internal error; please report the lines above", sys.stderr)
        return INTERNAL
    text = json.dumps(encode(decision), ensure_ascii=False) if arguments.json else decision.line
    say(text, sys.stdout)  # the exit code is the answer, whether anybody reads the line or not
    return exit_code(decision)


def job_nodes(text: str | None) -> tuple[str, ...]:
    """Return the nodes of a job: those in `text`, else in ``SLURM_JOB_NODELIST`` or ``SLURM_NODELIST``.

    Raises
    ------
    UsageError
        None are named, the list is malformed, or a name is none that an inventory can have.
    """
    named = text or next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), "")
    nodes = expand(named)
    if not nodes:
        raise UsageError("no nodes are named", next_step="give --nodes node1,node2 or set SLURM_JOB_NODELIST")
    if odd := next((name for name in nodes if not HOST_NAME.fullmatch(name)), ""):
        step = "names have letters, digits, dots, dashes and underscores"
        raise UsageError(f"{odd!r} is no name of a node", next_step=step)
    return nodes


def ask(nodes: Sequence[str], store: Path | None, now: float | None = None) -> Decision:
    """Decide from the store's certificates; a store that cannot be read is unknown, and so refused.

    Parameters
    ----------
    store
        None is the default place.
    now
        Unix time in seconds; None is the present.
    """
    at = time.time() if now is None else now
    try:
        with Store.open(store, readonly=True) as opened:
            certificates = opened.standing(nodes, at)
    except FabricctlError as exc:
        return undecided(str(exc), nodes, at)
    return decide(certificates, nodes, at)


def exit_code(decision: Decision) -> int:
    """Return 0 if the job may run, else 1 where it is known to be bad and 4 where that is not known."""
    if decision.allow:
        return YES
    return NO if decision.answer is Answer.NO else UNKNOWN


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fabricctl-gate",
        description="May a job run on these nodes, now? Exit code: 0 yes, 1 no, 4 unknown, 2 wrong usage.",
    )
    parser.add_argument(
        "--nodes", metavar="LIST", help="node1,node2 or node[1-4,7]; default: SLURM_JOB_NODELIST"
    )
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store; default: FABRICCTL_STORE")
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
