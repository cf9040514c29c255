"""What several commands read from the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from fabricctl.cli.common import emit_json
from fabricctl.errors import UsageError
from fabricctl.model.names import PairId
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdicts import Verdicts
from fabricctl.plugin.protocols import RunReport
from fabricctl.resources import store_path
from fabricctl.store import Store


def nothing_yet(*, as_json: bool) -> bool:
    """Say whether there is no store yet, and print so: who lists what there is gets an empty list."""
    if not Store.is_absent():
        return False
    if as_json:
        emit_json([])
    else:
        click.echo(f"nothing yet: there is no store at {store_path()}")
    return True


def report(store: Store, run_id: str | None) -> RunReport:
    """Return a verify run with all it saw; the newest that got so far if none is named.

    Raises
    ------
    UsageError
        There is no such run, or it is not a verify run, or it was ended before it judged.
    """
    run = store.run(run_id) if run_id else _newest(store)
    evidence = store.verify(run.id)
    if run.kind is not RunKind.VERIFY or evidence is None:
        raise UsageError(
            f"run {run.id} ({run.kind}) has no verdicts", next_step='name a verify run, see "fabricctl runs"'
        )
    return RunReport(
        fabric=evidence.fabric,
        policy=evidence.policy,
        run=run,
        agents=evidence.agents,
        verdicts=evidence.verdicts,
        suspects=evidence.suspects,
        samples=evidence.samples,
        certificates=store.certificates(run_id=run.id),
    )


def with_samples(store: Store, report: RunReport, pairs: Sequence[PairId]) -> RunReport:
    """Return the report with the samples of some pairs: of a large run it holds only a few by itself."""
    if not isinstance(report.verdicts, Verdicts):
        return report
    wanted = {(str(pair.source), str(pair.target)) for pair in pairs}
    found = store.probed(report.run.id, lambda source, target: (source, target) in wanted)
    return replace(report, samples=tuple(found))


def _newest(store: Store) -> Run:
    for run in store.runs(limit=100, kind=RunKind.VERIFY):
        if run.outcome is not None and store.verify(run.id) is not None:
            return run
    raise UsageError("no verify run is on record", next_step='run "fabricctl verify"')
