"""How long does it take to schedule all pairs of a large cluster, and in how much memory?

    python tests/bench/schedule.py --nodes 1024

Makes fabrics of nodes with 1 and with 8 rails of 400 Gb/s, 32 nodes on a leaf, with as much up from a leaf as
down and with half of it, then names all pairs and puts them into rounds. For each it prints the seconds of
CPU and the peak of memory for naming and `rounds`, and for naming and `bandwidth_rounds`. Nothing is
contacted. Exit status 1 if any of it takes more than two seconds, but for the bandwidth rounds of 8 rails
with too few uplinks: those are four million couples, and only printed.
"""

from __future__ import annotations

import time
import tracemalloc
from itertools import pairwise

import click

from fabricctl.model.fabric import Fabric
from fabricctl.verify.schedule import bandwidth_rounds, expand, rounds
from tests.fakes.fabrics import build

NODES_ON_A_LEAF = 32
LIMIT_S = 2.0
REPEATS = 3
"""The fastest of so many counts: other work on the machine makes CPU seconds longer, never shorter."""


def seconds(fabric: Fabric) -> tuple[float, float, float]:
    """Return the CPU seconds for naming, for that and rounds, and for that and bandwidth rounds."""
    times = [time.process_time()]
    pairs = expand(fabric, "all")
    times.append(time.process_time())
    rounds(pairs, fabric)
    times.append(time.process_time())
    bandwidth_rounds(fabric, pairs)
    times.append(time.process_time())
    named, plain, filling = (after - before for before, after in pairwise(times))
    return named, named + plain, named + filling


def peaks(fabric: Fabric) -> tuple[float, float]:
    """Return the peak of memory in MB for either kind of rounds; naming them is in both."""
    found = []
    for filling in (False, True):
        tracemalloc.start()
        pairs = expand(fabric, "all")
        held = bandwidth_rounds(fabric, pairs) if filling else rounds(pairs, fabric)
        found.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
        del held
    return found[0], found[1]


@click.command()
@click.option("--nodes", default=1024, show_default=True, help="A multiple of 32.")
@click.option("--no-memory", is_flag=True, help="Leave the memory out: looking at it takes most of the time.")
def main(*, nodes: int, no_memory: bool) -> None:
    """Measure, and print a line for each fabric."""
    slowest = 0.0
    for rails in (1, 8):
        for uplinks in (NODES_ON_A_LEAF, NODES_ON_A_LEAF // 2):
            fabric = build(
                nodes // NODES_ON_A_LEAF, NODES_ON_A_LEAF, uplinks, rails, up_gbps=400, speeds=(400,)
            )
            named, plain, filling = map(min, zip(*(seconds(fabric) for _ in range(REPEATS)), strict=True))
            within = filling if rails == 1 or uplinks == NODES_ON_A_LEAF else 0.0
            slowest = max(slowest, plain, within)
            memory = "" if no_memory else "; peak {:.0f} MB, {:.0f} MB".format(*peaks(fabric))
            pairs = expand(fabric, "all")
            turns, wide = rounds(pairs, fabric), bandwidth_rounds(fabric, pairs)
            click.echo(
                f"{nodes} nodes, {rails} rails, {uplinks} uplinks a leaf: {len(pairs)} pairs (named in"
                f" {named:.2f} s); with that, {len(turns)} rounds {plain:.2f} s, {len(wide)} bandwidth rounds"
                f" {filling:.2f} s{memory}"
            )
    if slowest > LIMIT_S:
        click.echo(f"too slow: {slowest:.2f} s, {LIMIT_S:g} s are allowed", err=True)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
