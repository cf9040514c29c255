"""How long does ``fabricctl links`` take on InfiniBand, against the tools that it drives?

    python tests/bench/links_ibsim.py

Simulates 1,024 hosts on 32 leaves and 16 spines (Debian: ibsim-utils, opensm, infiniband-diags), and runs
in turn: ``ibnetdiscover``, ``iblinkinfo`` and ``ibqueryerrors`` by themselves; what a run of all InfiniBand
checks does once the inventory is read (ask, look twice, judge, keep); and the whole command, with Python's
start and ``ansible-inventory``. The interval is a tenth of a second: waiting is no work. Prints the times and
both medians of the ratios; the aim is a ratio under 3 for the whole command. On hardware the tools take
longer, since switches answer more slowly, and all else takes the same.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "ibsim"))

from ibsim_fabric import SimulatedFabric
from ibsim_layout import Shape

from fabricctl.plugin import finder

AIM = 3.0
_RUN = """
import sys, time
from pathlib import Path
from fabricctl import inventory, transport
from fabricctl.apply.intent import intents
from fabricctl.links import flow
from fabricctl.links.history import History
from fabricctl.model.verdict import worst
from fabricctl.store import Store
fabric, policy = inventory.read(Path(sys.argv[1]))
meant = flow.Meant(fabric, policy, intents(fabric, policy))
began = time.monotonic()
request = flow.Request(flow.asked(fabric, fabric.devices), tuple(sys.argv[2].split(",")), float(sys.argv[3]))
with transport.connect() as way, Store.open() as store:
    seen = flow.look(meant, request, way, History(store, fabric.source))
print(time.monotonic() - began, worst(finding.outcome for finding in seen.findings))
"""
TOOLS = (("ibnetdiscover",), ("iblinkinfo", "-l"), ("ibqueryerrors",))


def alone(fabric: SimulatedFabric, argv: tuple[str, ...]) -> float:
    """Return how long a tool takes by itself, in seconds."""
    began = time.monotonic()
    said = fabric.tool(*argv)
    seconds = time.monotonic() - began
    if not said:
        raise click.ClickException(f"{argv[0]} said nothing: the times say nothing either")
    return seconds


def whole(fabric: SimulatedFabric, checks: str, interval_s: float) -> float:
    """Return how long ``fabricctl links`` takes, in seconds."""
    began = time.monotonic()
    argv = [sys.executable, "-m", "fabricctl", "links", "-i", str(fabric.inventory), "--only", checks]
    argv += ["--interval", f"{interval_s:g}"]
    done = subprocess.run(argv, env=fabric.environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode:
        said = done.stdout[:2000] + done.stderr[-2000:]
        raise click.ClickException(f"a fabric without faults did not pass: exit {done.returncode}: {said}")
    return seconds


def run(fabric: SimulatedFabric, checks: str, interval_s: float) -> float:
    """Return how long a run takes once the inventory is read, in seconds."""
    argv = [sys.executable, "-c", _RUN, str(fabric.inventory), checks, f"{interval_s:g}"]
    done = subprocess.run(argv, env=fabric.environment, capture_output=True, text=True, check=True)
    seconds, outcome = done.stdout.split()
    if outcome != "pass":
        raise click.ClickException(f"a fabric without faults did not pass: {outcome}")
    return float(seconds)


@click.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="How often all of it.")
@click.option("--interval", default=0.1, show_default=True, help="Seconds between looks at counters.")
def main(rounds: int, interval: float) -> None:
    """Measure in turn, print one line a round, and fail if the aim is missed."""
    checks = ",".join(name for name in finder.names("link check") if name.startswith("ib_"))
    shape = Shape(leaves=32, nodes_per_leaf=32, spines=16, uplinks=2, radix=64, spares=())
    runs, wholes = [], []
    with tempfile.TemporaryDirectory() as name, SimulatedFabric(Path(name), shape) as fabric:
        click.echo(f"{len(fabric.plan.boxes)} devices, {len(fabric.plan.cables)} links; checks: {checks}")
        for _ in range(rounds):
            tools = [alone(fabric, argv) for argv in TOOLS]
            ours, all_of_it = run(fabric, checks, interval), whole(fabric, checks, interval)
            runs.append(ours / sum(tools))
            wholes.append(all_of_it / sum(tools))
            parts = ", ".join(f"{argv[0]} {took:.2f}" for argv, took in zip(TOOLS, tools, strict=True))
            click.echo(
                f"{parts}: {sum(tools):.2f} s; the run {ours:.2f} s, ratio {runs[-1]:.2f};"
                f" the whole command {all_of_it:.2f} s, ratio {wholes[-1]:.2f}"
            )
    ratio = statistics.median(wholes)
    click.echo(f"median ratio: command {ratio:.2f}, aim under {AIM:g}; run {statistics.median(runs):.2f}")
    if ratio >= AIM:
        sys.exit(1)


if __name__ == "__main__":
    main()
