"""``fabricctl links``: whether every link and host is what the inventory and the policy say."""

from __future__ import annotations

import dataclasses
import getpass
import json
import time
from collections.abc import Sequence
from pathlib import Path

import click

from fabricctl import transport
from fabricctl.apply.intent import intents
from fabricctl.cli import common
from fabricctl.cli.exits import exit_for
from fabricctl.cli.findings import grouped, outcome_line, summary
from fabricctl.errors import UsageError
from fabricctl.links import flow, history
from fabricctl.model.codec import encode
from fabricctl.model.fabric import Fabric
from fabricctl.model.policy import Policy
from fabricctl.model.run import RunKind
from fabricctl.model.verdict import Finding, Outcome, worst
from fabricctl.model.words import count
from fabricctl.plugin import finder
from fabricctl.plugin.surveying import Survey
from fabricctl.store import Store
from fabricctl.transport.base import Transport

LONGEST_INTERVAL_S = 3600.0


@click.command()
@common.inventory_argument
@click.option(
    "--interval", type=float, metavar="SECONDS", help="Watch counters so long.  [default: the policy's]"
)
@click.option("--watch", is_flag=True, help="Do it again and again, and show what changed.")
@click.option("--only", metavar="CHECKS", help="Only these checks, separated by commas.")
@click.option("--limit", metavar="DEVICES", help="Only these devices (patterns, separated by commas).")
@click.option(
    "--from", "vantage", default="", metavar="NODE", help="Look at InfiniBand from this node.  [default: any]"
)
@click.option("--list", "listing", is_flag=True, help="List the checks and what each does, and exit.")
@common.json_option
def command(  # noqa: PLR0913  options
    *,
    inventory: Path | None,
    inventory_option: Path | None,
    policy: Path | None,
    interval: float | None,
    watch: bool,
    only: str | None,
    limit: str | None,
    vantage: str,
    listing: bool,
    as_json: bool,
) -> None:
    """Check every link and host: state, speed, cabling, errors over an interval, limits.

    Asks every device once, all at the same time, and changes nothing. Counters are read twice, an interval
    apart: what matters is by how much they rose. InfiniBand is looked at from one host of each plane, with
    infiniband-diags. What each check looks at: --list.

    \b
    Examples:
      fabricctl links
      fabricctl links --interval 60 --only counters,flaps
      fabricctl links --limit 'leaf1,node*' --json
      fabricctl links --watch

    \b
    Exit codes: 0 every check passed; 1 one failed; 2 usage, or a mistake in a file; 4 something could not
    be seen. With --watch it ends with Ctrl-C, and then with 130; --json is one line a round.
    """
    if listing:
        _list()
        return
    fabric, rules = common.load(common.find_inventory(inventory, inventory_option), policy)
    request = _request(fabric, rules, interval, common.words(only, "--only"), common.words(limit, "--limit"))
    request = dataclasses.replace(request, vantage=vantage)
    with transport.connect() as way, Store.open() as store:
        show = _Show(fabric, rules, as_json=as_json, watch=watch)
        while True:
            findings = _round(fabric, rules, request, way, store, show)
            if not watch:
                break
    raise SystemExit(exit_for(finding.outcome for finding in findings))


def _list() -> None:
    for name in finder.names("link check"):
        lines = finder.about("link check", name).splitlines()
        click.echo(f"{name}\n" + "".join(f"  {line}\n" if line else "\n" for line in lines))


def _request(
    fabric: Fabric, policy: Policy, interval: float | None, only: Sequence[str], limit: Sequence[str]
) -> flow.Request:
    seconds = float(policy.links.interval_s) if interval is None else interval
    if not 0 < seconds <= LONGEST_INTERVAL_S:
        raise UsageError(
            f"--interval {seconds:g}: not from 0 to {LONGEST_INTERVAL_S:g} seconds", next_step="write 10"
        )
    flow.checks_of(tuple(only))
    devices = flow.asked(fabric, fabric.named(limit))
    return flow.Request(devices, tuple(only), seconds, limited=bool(limit))


def _round(
    fabric: Fabric,
    policy: Policy,
    request: flow.Request,
    way: Transport,
    store: Store,
    show: _Show,
) -> tuple[Finding, ...]:
    """Look once, judge, keep it and show it."""
    past = history.load(store, fabric.source)
    run = store.begin(RunKind.LINKS, getpass.getuser(), fabric.source)
    tools = flow.Tools(way, past)
    seen = flow.survey(fabric, policy, intents(fabric, policy), request, tools)
    findings = flow.judge(seen, request.checks)
    store.put_record(run.id, history.RECORD, history.record(seen))
    outcome = worst(finding.outcome for finding in findings)
    store.finish(run, outcome, history.summary(finding.outcome for finding in findings))
    show.round(seen, findings, run.id)
    return findings


class _Show:
    """Prints rounds: the first whole, later ones only where something is another than before."""

    def __init__(self, fabric: Fabric, policy: Policy, *, as_json: bool, watch: bool) -> None:
        self._fabric, self._policy = fabric, policy
        self._json, self._watch = as_json, watch
        self._before: dict[tuple[str, str], Finding] | None = None

    def round(self, seen: Survey, findings: tuple[Finding, ...], run_id: str) -> None:
        """Show a round."""
        changed = self._changed(findings)
        if self._json:
            self._emit(seen, findings, run_id, changed)
        elif changed is None:
            click.echo("\n".join(self._whole(seen, findings)))
        else:
            at = time.strftime("%H:%M:%S", time.localtime(seen.now))
            click.echo(
                "".join(f"{at} {line}\n" for line in _changes(changed)) or f"{at} no change\n", nl=False
            )

    def _emit(
        self, seen: Survey, findings: tuple[Finding, ...], run_id: str, changed: list[_Change] | None
    ) -> None:
        value = {
            "run": run_id,
            "inventory": self._fabric.source,
            "policy": {"name": self._policy.name, "source": self._policy.source},
            "simulated": self._fabric.simulated,
            "at": seen.now,
            "unreachable": {name: one.error for name, one in seen.devices.items() if one.error},
            "outcome": worst(finding.outcome for finding in findings),
            "findings": findings,
        }
        if changed is not None:
            value["changed"] = [new for _, new in changed]
        click.echo(json.dumps(encode(value), indent=None if self._watch else 2, ensure_ascii=False))

    def _changed(self, findings: tuple[Finding, ...]) -> list[_Change] | None:
        """Return what is not as in the round before; None in the first round."""
        now = {(finding.check, finding.subject): finding for finding in _worst_of_each(findings)}
        before, self._before = self._before, now
        if before is None:
            return None
        return [
            (before.get(key), finding)
            for key, finding in now.items()
            if key not in before or before[key].outcome is not finding.outcome
        ]

    def _whole(self, seen: Survey, findings: tuple[Finding, ...]) -> list[str]:
        reached = sum(1 for one in seen.devices.values() if not one.error)
        watched = max((one.interval_s for one in seen.devices.values()), default=0.0)
        answered = f"{reached} of {count(len(seen.devices), 'device')} answered"
        lines = [f"{answered}; counters watched for {watched:.1f} s; policy {self._policy.name}"]
        if self._fabric.simulated:
            lines.append(f"simulated: {self._fabric.simulated}")
        return [*lines, *summary(findings), *grouped(self._fabric, findings), outcome_line(findings)]


_Change = tuple[Finding | None, Finding]


def _worst_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """Return one finding for each check and subject: the worst."""
    found: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.check, finding.subject)
        held = found.get(key)
        if held is None or worst((held.outcome, finding.outcome)) is not held.outcome:
            found[key] = finding
    return list(found.values())


def _changes(changed: Sequence[_Change]) -> list[str]:
    lines = []
    for before, now in changed:
        was = f" (was {before.outcome})" if before is not None else ""
        step = f"; {now.next_step}" if now.outcome is not Outcome.PASS and now.next_step else ""
        lines.append(f"{now.outcome}{was}: {now.subject}: {now.what}{step} [{now.check}]")
    return lines
