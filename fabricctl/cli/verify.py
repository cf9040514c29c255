"""``fabricctl verify``: probe pairs of ports, judge them, and certify what passed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import click

from fabricctl import readback, transport
from fabricctl.apply import plan
from fabricctl.apply.intent import intents
from fabricctl.cli import common
from fabricctl.cli.exits import Exit, exit_for
from fabricctl.cli.progress import progress
from fabricctl.errors import UsageError
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import RunReport
from fabricctl.store import Store
from fabricctl.verify.flow import Deviations, Means, Request, verify

UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600}


@click.command(short_help="Probe pairs of ports, judge them, and certify what passed.")
@common.inventory_argument
@click.option(
    "--pairs",
    default="rail",
    show_default=True,
    help="all, rail, all-rails, leaf, ring, sample=N, or A:B with nodes, ports or all.",
)
@click.option("--probes", help="Probes to run, separated by commas.  [default: all]")
@click.option("--limit", help="Only pairs of these nodes (patterns, separated by commas).")
@click.option("--time-budget", default="", help="Begin no round that would end later: 90, 90s, 10m, 1h.")
@click.option("--seed", default=0, show_default=True, help="Chooses the pairs of sample=N.")
@click.option("--format", "format_", default="text", show_default=True, help="A report's name.")
@common.json_option
def command(  # noqa: PLR0913  options
    *,
    inventory: Path | None,
    inventory_option: Path | None,
    policy: Path | None,
    pairs: str,
    probes: str | None,
    limit: str | None,
    time_budget: str,
    seed: int,
    format_: str,
    as_json: bool,
) -> None:
    """Probe pairs of ports with RDMA reads and writes, judge them, and certify what passed.

    An agent runs on each node as long as this command does. Latency is measured with one operation at a time,
    loss with numbered packets on unreliable connections; all samples are kept. Exit status: 0 all pairs
    passed, 1 one failed, 4 one could not be measured, 5 another verify or apply of this inventory runs.

    A pair with a port, at either end of its cable, that is not set as the policy says fails even if its
    probes pass. While an apply waits to be confirmed, certificates end when it would revert.
    """
    chosen = finder.report(format_)
    wanted = common.words(probes, "--probes")
    request = Request(pairs, wanted, common.words(limit, "--limit"), _seconds(time_budget), seed)
    report, store = _run(common.find_inventory(inventory, inventory_option), policy, request)
    if as_json:
        common.emit_json(_as_json(report))
    else:
        click.echo(chosen.render(report), nl=False)
        if not report.unkept:
            common.tell(f"kept in {store}")
    code = exit_for(verdict.outcome for verdict in report.verdicts)
    if report.unkept:
        common.tell(f"NOT KEPT, and no certificate issued or ended: {report.unkept}")
        code = Exit.UNKNOWN if code is Exit.PASS else code
    raise SystemExit(code)


def _run(path: Path, policy_file: Path | None, request: Request) -> tuple[RunReport, str]:
    fabric, policy = common.load(path, policy_file)
    with transport.connect() as way, Store.open() as store, progress() as show:
        means = Means(way, store, show, deviations=deviations(fabric, policy))
        return verify(fabric, policy, request, means), str(store.path)


def deviations(fabric: Fabric, policy: Policy) -> Deviations:
    """Return what compares readings with the policy, for the devices that have a driver."""

    def compare(readings: Mapping[str, DeviceReading]) -> Mapping[PortId, str]:
        drivers = {
            name: readback.driver_of(device) for name in readings if (device := fabric.device(name)).driver
        }
        return plan.deviations(fabric, intents(fabric, policy), readings, drivers)

    return compare


def _as_json(report: RunReport) -> dict[str, object]:
    """Return what a program wants of a run: everything but the inventory and the single samples."""
    return {
        "run": report.run,
        "simulated": report.fabric.simulated,
        "policy": report.policy.name,
        "agents": report.agents,
        "pairs": [
            {"outcome": v.outcome, "source": v.pair.source, "target": v.pair.target, "topology": v.topology}
            | {"findings": v.findings}
            for v in report.verdicts
        ],
        "suspects": report.suspects,
        "certificates": report.certificates,
        "not_kept": report.unkept,
    }


def _seconds(written: str) -> float | None:
    if not written:
        return None
    found = re.fullmatch(r"(\d+)([smh]?)", written.strip())
    if not found:
        raise UsageError(f"--time-budget {written}: not a time", next_step="write 90s, 10m or 1h")
    return float(found[1]) * UNITS_S[found[2]]
