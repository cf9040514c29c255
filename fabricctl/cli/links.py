"""``fabricctl links``: whether every link and host is what the inventory and the policy say."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from fabricctl import transport
from fabricctl.apply.intent import intents
from fabricctl.cli import common
from fabricctl.cli.exits import exit_for
from fabricctl.cli.findings import grouped, outcome_line, summary
from fabricctl.errors import UsageError
from fabricctl.infiniband.seen import wiring
from fabricctl.inventory.quantities import duration_s
from fabricctl.links import flow
from fabricctl.links.flow import Round
from fabricctl.links.history import History
from fabricctl.model.codec import encode
from fabricctl.model.fabric import Fabric
from fabricctl.model.policy import Policy
from fabricctl.model.subnet import Wiring
from fabricctl.model.verdict import Finding, Outcome, worst
from fabricctl.model.words import count
from fabricctl.plugin import finder
from fabricctl.store import Store

LONGEST_INTERVAL_S = 3600.0


@click.command()
@common.inventory_argument
@click.option(
    "--interval", metavar="TIME", help="Watch counters so long: 2, 30s, 5m.  [default: the policy's]"
)
@click.option("--watch", is_flag=True, help="Do it again and again, and show what changed.")
@click.option("--only", metavar="CHECKS", help="Only these checks, separated by commas.")
@click.option("--limit", metavar="DEVICES", help="Only these devices (patterns, separated by commas).")
@click.option(
    "--from", "vantage", default="", metavar="NODE", help="Look at InfiniBand from this node.  [default: any]"
)
@click.option(
    "--topology",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare InfiniBand's cables with this saved output of ibnetdiscover.  [default: the inventory]",
)
@click.option("--list", "listing", is_flag=True, help="List the checks and what each does, and exit.")
@common.json_option
def command(  # noqa: PLR0913  options
    *,
    inventory: Path | None,
    inventory_option: Path | None,
    policy: Path | None,
    interval: str | None,
    watch: bool,
    only: str | None,
    limit: str | None,
    vantage: str,
    topology: Path | None,
    listing: bool,
    as_json: bool,
) -> None:
    """Check every link and host: state, speed, cabling, errors over an interval, limits.

    Asks every device once, all at the same time, and changes nothing. Counters are read twice, an interval
    apart: what matters is by how much they rose. InfiniBand is looked at from one host of each plane, with
    infiniband-diags. What each check looks at: --list. Packets that are lost without being counted anywhere
    are seen by "fabricctl verify" only.

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
        _list(common.words(only, "--only"), as_json=as_json)
        return
    fabric, rules = common.load(common.find_inventory(inventory, inventory_option), policy)
    chosen = fabric.named(common.words(limit, "--limit"))
    request = flow.Request(
        flow.asked(fabric, chosen),
        common.words(only, "--only"),
        _seconds(rules, interval),
        vantage,
        limited=limit is not None,
        named=frozenset(device.name for device in chosen),
    )
    flow.checks_of(request.checks)
    show = _Show(fabric, rules, as_json=as_json, watch=watch)
    cables = _wiring(fabric, topology) if topology is not None else None
    meant = flow.Meant(fabric, rules, intents(fabric, rules), cables)
    with transport.connect() as way, Store.open() as store:
        history = History(store, fabric.source)
        while True:
            seen = flow.look(meant, request, way, history)
            show.round(seen)
            if not watch:
                break
    raise SystemExit(exit_for(finding.outcome for finding in seen.findings))


def _list(only: Sequence[str], *, as_json: bool) -> None:
    about = {name: finder.about("link check", name) for name in only or finder.names("link check")}
    if as_json:
        common.emit_json(about)
        return
    for name, text in about.items():
        click.echo(f"{name}\n" + "".join(f"  {line}\n" if line else "\n" for line in text.splitlines()))


def _wiring(fabric: Fabric, file: Path) -> Wiring:
    """Return the cables of a saved ``ibnetdiscover``; UsageError if there are none to be read."""
    step = "save one of a good fabric: ibnetdiscover > fabric.topo"
    try:
        found = wiring(fabric, str(file), file.read_text(errors="replace"))
    except OSError as exc:
        raise UsageError(f"--topology {file}: {exc.strerror}", next_step=step) from exc
    if found is None:
        raise UsageError(f"--topology {file}: it holds no cables", next_step=step)
    return found


def _seconds(policy: Policy, interval: str | None) -> float:
    if interval is None:
        return float(policy.links.interval_s)
    step = "write 2, 30s or 5m"
    try:
        seconds = float(interval)
    except ValueError:
        try:
            seconds = float(duration_s(interval))
        except ValueError as exc:
            raise UsageError(f"--interval {interval}: {exc}", next_step=step) from None
    if not 0 < seconds <= LONGEST_INTERVAL_S:
        limit = f"not above 0 and at most {LONGEST_INTERVAL_S:g} seconds"
        raise UsageError(f"--interval {interval}: {limit}", next_step=step)
    return seconds


class _Show:
    """Prints rounds: the first whole, later ones only where something is another than before."""

    def __init__(self, fabric: Fabric, policy: Policy, *, as_json: bool, watch: bool) -> None:
        self._fabric, self._policy = fabric, policy
        self._json, self._watch = as_json, watch
        self._before: dict[tuple[str, str], Finding] | None = None

    def round(self, seen: Round) -> None:
        """Show a round."""
        changed = self._changed(seen.findings)
        if self._json:
            value = self._value(seen)
            if changed is not None:
                value["changed"] = [{"before": old, "now": new} for old, new in changed]
            click.echo(json.dumps(encode(value), indent=None if self._watch else 2, ensure_ascii=False))
        elif changed is None:
            click.echo("\n".join(self._whole(seen)))
        else:
            at = time.strftime("%H:%M:%S", time.localtime(seen.survey.now))
            for line in _changes(changed) or ["no change"]:
                click.echo(f"{at} {line}")

    def _value(self, seen: Round) -> dict[str, Any]:
        devices = seen.survey.devices
        return {
            "run": seen.run_id,
            "inventory": self._fabric.source,
            "policy": {"name": self._policy.name, "source": self._policy.source},
            "simulated": self._fabric.simulated,
            "at": seen.survey.now,
            "unreachable": {name: one.error for name, one in devices.items() if one.error},
            "outcome": worst(finding.outcome for finding in seen.findings),
            "findings": seen.findings,
        }

    def _changed(self, findings: Sequence[Finding]) -> list[_Change] | None:
        """Return what is not as in the round before; None in the first round."""
        now = _worst_of_each(findings)
        before, self._before = self._before, now
        if before is None:
            return None
        gone = [(old, None) for key, old in before.items() if key not in now]
        others = [
            (before.get(key), finding)
            for key, finding in now.items()
            if key not in before or before[key].outcome is not finding.outcome
        ]
        return [*others, *gone]

    def _whole(self, seen: Round) -> list[str]:
        devices, findings = seen.survey.devices, seen.findings
        reached = sum(1 for one in devices.values() if not one.error)
        watched = max((one.interval_s for one in devices.values()), default=0.0)
        answered = f"{reached} of {count(len(devices), 'device')} answered"
        lines = [f"{answered}; counters watched for {watched:.1f} s at most; policy {self._policy.name}"]
        if self._fabric.simulated:
            lines.append(f"simulated: {self._fabric.simulated}")
        return [*lines, *summary(findings), *grouped(self._fabric, findings), outcome_line(findings)]


_Change = tuple[Finding | None, Finding | None]


def _worst_of_each(findings: Sequence[Finding]) -> dict[tuple[str, str], Finding]:
    """Return one finding for each check and subject: the worst."""
    found: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.check, finding.subject)
        held = found.get(key)
        if held is None or worst((held.outcome, finding.outcome)) is not held.outcome:
            found[key] = finding
    return found


def _changes(changed: Sequence[_Change]) -> list[str]:
    lines = []
    for before, now in changed:
        if now is None:
            lines += [f"no longer judged: {before.subject} [{before.check}]"] if before else []
            continue
        was = f" (was {before.outcome})" if before is not None else ""
        step = f"; {now.next_step}" if now.outcome is not Outcome.PASS and now.next_step else ""
        lines.append(f"{now.outcome}{was}: {now.subject}: {now.what}{step} [{now.check}]")
    return lines
