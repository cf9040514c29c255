"""How long does ``fabricctl links`` take on InfiniBand, against the tools that it drives?

    python tests/bench/links_ibsim.py

Simulates 1,024 hosts on 32 leaves and 16 spines (Debian: ibsim-utils, opensm, infiniband-diags), and runs
in turn: ``ibnetdiscover``, ``iblinkinfo`` and ``ibqueryerrors`` by themselves, and the whole of ``fabricctl
links`` with all its InfiniBand checks, from reading the inventory to the last line. Prints the times and the
median of the ratios, the interval included; the aim is a ratio under 3. Says too what of it is Python's own
start and what is reading the inventory. On hardware the tools take longer: switches answer more slowly.
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

from fabricctl import inventory
from fabricctl.plugin import finder

AIM = 3.0
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


def inside(fabric: SimulatedFabric) -> tuple[float, float]:
    """Return how long it takes to start the command at all, and to read the inventory, in seconds."""
    began = time.monotonic()
    argv = [sys.executable, "-m", "fabricctl", "links", "--help"]
    subprocess.run(argv, env=fabric.environment, stdout=subprocess.DEVNULL, check=True)
    started = time.monotonic()
    inventory.read(fabric.inventory)
    return started - began, time.monotonic() - started


@click.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="How often all of it.")
@click.option("--interval", default=1.0, show_default=True, help="Seconds between looks at counters.")
def main(rounds: int, interval: float) -> None:
    """Measure in turn, print one line a round, and fail if the aim is missed."""
    checks = ",".join(name for name in finder.names("link check") if name.startswith("ib_"))
    shape = Shape(leaves=32, nodes_per_leaf=32, spines=16, uplinks=2, radix=64, spares=())
    ratios = []
    with tempfile.TemporaryDirectory() as name, SimulatedFabric(Path(name), shape) as fabric:
        click.echo(f"{len(fabric.plan.boxes)} devices, {len(fabric.plan.cables)} links; checks: {checks}")
        for _ in range(rounds):
            tools = [alone(fabric, argv) for argv in TOOLS]
            ours = whole(fabric, checks, interval)
            ratios.append(ours / sum(tools))
            parts = ", ".join(f"{argv[0]} {took:.2f}" for argv, took in zip(TOOLS, tools, strict=True))
            start, reading = inside(fabric)
            click.echo(
                f"fabricctl links {ours:.2f} s (start {start:.2f}, inventory {reading:.2f}); "
                f"{parts}: {sum(tools):.2f} s; ratio {ratios[-1]:.2f}"
            )
    ratio = statistics.median(ratios)
    click.echo(f"median ratio {ratio:.2f}, aim under {AIM:g}")
    if ratio >= AIM:
        sys.exit(1)


if __name__ == "__main__":
    main()
