"""``fabricctl verify``: probe pairs of ports, judge them, and certify what passed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from fabricctl.model.verdict import Outcome
from fabricctl.model.verdicts import outcomes
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import RunReport
from fabricctl.store import Store
from fabricctl.verify.agents import AUTO, ENGINES
from fabricctl.verify.flow import Deviations, Means, Request, resume, verify
from fabricctl.verify.resume import interrupted, is_simulated
from fabricctl.verify.simulation import SIMULATED, marked, refuse_beside_real, simulated_launch, told

RUN = re.compile(r"v\d{8}-\d{6}-[0-9a-f]{4}")
"""The name of a verify."""
UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600}


@click.command(short_help="Probe pairs of ports, judge them, and certify what passed.")
@common.inventory_argument
@click.option(
    "--pairs",
    default="rail",
    show_default=True,
    help="all, rail, all-rails, leaf, ring, changed, sample=N, or A:B with nodes, ports or all.",
)
@click.option("--probes", help="Probes to run, separated by commas.  [default: all but those on request]")
@click.option("--limit", help="Only pairs of these nodes (patterns, separated by commas).")
@click.option("--time-budget", help="Begin no round that would end later: 90, 90s, 10m, 1h.")
@click.option("--seed", default=0, show_default=True, help="Chooses the pairs of sample=N.")
@click.option(
    "--engine",
    type=click.Choice((AUTO, *ENGINES)),
    default=AUTO,
    show_default=True,
    help="What runs the timed loops; auto is native on each node where it loads, else pyverbs.",
)
@click.option(
    "--launcher",
    type=click.Choice((*transport.LAUNCHERS, SIMULATED)),
    default=transport.SSH,
    show_default=True,
    help="What starts the agents: a connection to each node, or one srun for all. simulated reaches no node.",
)
@click.option(
    "--simulation", type=common.FilePath(), help="How simulated ports are: faults, latencies (YAML)."
)
@click.option(
    "--resume",
    "resumed",
    metavar="[RUN]",
    is_flag=False,
    flag_value="",
    help="Go on with a verify that was killed or interrupted.  [default: the last one of this inventory]",
)
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
    time_budget: str | None,
    seed: int,
    engine: str,
    launcher: str,
    simulation: Path | None,
    resumed: str | None,
    format_: str,
    as_json: bool,
) -> None:
    """Probe pairs of ports with RDMA reads and writes, judge them, and certify what passed.

    An agent runs on each node as long as this command does. Latency is measured with one operation at a time,
    loss with numbered packets on unreliable connections; all samples are kept. Exit status: 0 all pairs
    passed, 1 one failed, 4 one could not be measured, 5 another verify or apply of this inventory runs.
    With --resume, pairs and probes are those of the run that goes on; it must find its inventory and policy
    unchanged.

    A pair with a port, at either end of its cable, that is not set as the policy says fails even if its
    probes pass. While an apply waits to be confirmed, certificates end when it would revert.
    """
    chosen = finder.report(format_)
    wanted = common.words(probes, "--probes")
    request = Request(pairs, wanted, common.words(limit, "--limit"), _seconds(time_budget), seed, engine)
    if resumed and not RUN.fullmatch(resumed) and inventory is None:
        inventory, resumed = Path(resumed), ""  # an option whose value may be left out takes the next word
    how = _How(launcher, simulation, resumed)
    report, store = _run(common.find_inventory(inventory, inventory_option), policy, request, how)
    if as_json:
        common.emit_json(_as_json(report))
    else:
        click.echo(chosen.render(report), nl=False)
        if not report.unkept:
            common.tell(f"kept in {store}")
    code = exit_for(outcomes(report.verdicts) or [Outcome.PASS])  # nothing had changed
    if report.unkept:
        common.tell(f"NOT KEPT, and no certificate issued or ended: {report.unkept}")
        code = Exit.UNKNOWN if code is Exit.PASS else code
    raise SystemExit(code)


@dataclass(frozen=True, slots=True)
class _How:
    """What a run works with, as the options say; `resumed` is None for a new run."""

    launcher: str
    simulation: Path | None
    resumed: str | None


def _run(path: Path, policy_file: Path | None, request: Request, how: _How) -> tuple[RunReport, str]:
    fabric, policy = common.load(path, policy_file)
    with transport.connect() as way, Store.open() as store, progress() as show:
        simulates = how.launcher == SIMULATED or (
            how.resumed is not None and is_simulated(store, interrupted(store, fabric.source, how.resumed))
        )
        if how.simulation and not simulates:
            raise UsageError("--simulation is for simulated ports", next_step="add --launcher simulated")
        if simulates:
            world = told(how.simulation, fabric) if how.simulation else None
            fabric = marked(fabric, world)
            refuse_beside_real(store, fabric)
            launch, request = simulated_launch(fabric, world), replace(request, engine=SIMULATED)
        else:
            launch = transport.launcher(how.launcher)
        differing = deviations(fabric, policy)
        means = Means(way, store, show, deviations=differing, launch=launch, tell=common.tell)
        if how.resumed is not None:
            report = resume(fabric, policy, how.resumed, means, request.time_budget_s)
        else:
            report = verify(fabric, policy, request, means)
        return report, str(store.path)


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
        "measuring_share": round(report.measuring_share, 3),
        "coverage": report.coverage,
    }


def _seconds(written: str | None) -> float | None:
    if written is None:
        return None
    found = re.fullmatch(r"(\d+)([smh]?)", written.strip())
    if not found or not int(found[1]):
        raise UsageError(f"--time-budget {written!r}: not a time above 0", next_step="write 90s, 10m or 1h")
    return float(found[1]) * UNITS_S[found[2]]
