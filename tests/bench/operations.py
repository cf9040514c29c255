"""What do READ, WRITE and SEND cost on this fabric, and what does loss do to their goodput?

    python tests/bench/operations.py -i inventory.yml --pair node1/eth1:node2/eth1 --rounds 5
    python tests/bench/operations.py -i lab.yml --pair node1/eth1:node2/eth1 --loss 0,0.01,0.1,1

Each round measures every operation at every message size, one after the other, so that a disturbance hits all
of them; a cell is the median of the rounds' medians (latency) or goodputs, with how many rounds it has. It
prints Markdown and asserts nothing. `docs/operations.md` says how to read it.

With ``--loss`` the goodput is also measured with netem losing so many percent of what leaves the source's
port: for the lab only, since it replaces the port's root qdisc.
"""

from __future__ import annotations

import shlex
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from fabricctl import inventory, transport
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Policy
from fabricctl.model.probe import Round, Sample
from fabricctl.model.stats import percentile
from fabricctl.plugin import finder
from fabricctl.transport.base import Transport
from fabricctl.verify.fleet import Fleet

LATENCIES = {
    "read_latency": "READ, round trip (us)",
    "write_latency": "WRITE, to ACK (us)",
    "write_pingpong": "WRITE, half round trip (us)",
    "send_latency": "SEND, half round trip (us)",
}
BANDWIDTHS = {
    "read_bandwidth": "READ (Gbit/s)",
    "write_bandwidth": "WRITE (Gbit/s)",
    "send_bandwidth": "SEND (Gbit/s)",
}
LARGE = 65536
"""Size at which goodput is measured against loss, in bytes."""
MANY_DIGITS = 1e4
Cells = dict[tuple[object, str], list[float]]
"""By row and probe: one number a round."""


@dataclass(frozen=True)
class Bench:
    """What is measured with."""

    fabric: Fabric
    policy: Policy
    pair: PairId
    fleet: Fleet
    samples: int
    seconds: float
    used: set[str] = field(default_factory=set)

    def one(self, probe: str, size: int) -> float | None:
        """Return the median latency in us, or the goodput in Gbit/s; None if it failed, which is told."""
        parameters = {**finder.probe(probe).parameters(self.policy)}
        if probe in LATENCIES:
            parameters |= {"samples": self.samples, "message_bytes": size}
        else:
            parameters |= {"seconds": self.seconds, "sizes": str(size)}
        (sample,) = self.fleet.run_round(Round(1, (self.pair,)), {probe: parameters}, self.policy)
        found = _latency(sample) if probe in LATENCIES else _goodput(sample)
        if not sample.error:
            self.used.add(f"{sample.engine}, path MTU {sample.parameters['path_mtu_bytes']}")
        if found is None:
            why = sample.error or sample.parameters.get("stopped", "nothing was counted")
            click.echo(f"{probe} at {size} bytes: {why}", err=True)
        return found


def _latency(sample: Sample) -> float | None:
    return percentile(sample.latencies, 50).value / 1000 if sample.latencies else None


def _goodput(sample: Sample) -> float | None:
    if not sample.numbers.get("elapsed_ns"):
        return None
    return sample.numbers["bytes"] * 8 / sample.numbers["elapsed_ns"]


def table(first: str, rows: Sequence[object], columns: dict[str, str], cells: Cells) -> str:
    """Return a table in Markdown; what was not measured is left empty."""
    lines = [f"| {first} | {' | '.join(columns.values())} |", "|---:" * (len(columns) + 1) + "|"]
    for row in rows:
        found = (_cell(cells.get((row, probe), [])) for probe in columns)
        lines.append(f"| {row} | {' | '.join(found)} |")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    middle = statistics.median(values)
    return f"{middle:.4g} (n={len(values)})" if middle < MANY_DIGITS else f"{middle:.0f} (n={len(values)})"


@contextmanager
def losing(percent: float, fabric: Fabric, source: PortId, way: Transport) -> Iterator[None]:
    """Lose a share of what leaves a port for as long as the block lasts."""
    if not percent:
        yield
        return
    device, port = fabric.device(source.device), shlex.quote(source.port)
    way.run(device, f"tc qdisc replace dev {port} root netem limit 100000 loss {percent}%", deadline_s=60)
    try:
        yield
    finally:
        way.run(device, f"tc qdisc del dev {port} root", deadline_s=60)


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",") if part]


def by_size(bench: Bench, sizes: Sequence[int], rounds: int) -> Cells:
    """Measure every operation at every size."""
    cells: Cells = defaultdict(list)
    for number in range(rounds):
        for size in sizes:
            for probe in (*LATENCIES, *BANDWIDTHS):
                found = bench.one(probe, size)
                if found is not None:
                    cells[size, probe].append(found)
        click.echo(f"round {number + 1} of {rounds}", err=True)
    return cells


def by_loss(bench: Bench, percents: Sequence[float], rounds: int, way: Transport) -> Cells:
    """Measure every operation's goodput at every rate of loss."""
    cells: Cells = defaultdict(list)
    for number in range(rounds):
        for percent in percents:
            with losing(percent, bench.fabric, bench.pair.source, way):
                for probe in BANDWIDTHS:
                    found = bench.one(probe, LARGE)
                    if found is not None:
                        cells[percent, probe].append(found)
        click.echo(f"loss, round {number + 1} of {rounds}", err=True)
    return cells


@click.command()
@click.option("-i", "path", type=click.Path(path_type=Path), required=True, help="Inventory.")
@click.option("--pair", required=True, help="SOURCE:TARGET, two ports: node1/eth1:node2/eth1.")
@click.option("--sizes", default="8,512,4096,65536,1048576", show_default=True, help="Bytes of a message.")
@click.option("--loss", default="", help="Percent, as 0,0.01,0.1,1; for a lab only.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--samples", default=300, show_default=True, help="Timed operations in a cell and round.")
@click.option("--seconds", default=1.0, show_default=True, help="Of a stream in a cell and round.")
@click.option("--engine", default="auto", show_default=True)
def main(**given: object) -> None:
    """Measure and print the tables."""
    fabric, policy = inventory.read(Path(str(given["path"])))
    percents, sizes = _numbers(str(given["loss"])), [int(size) for size in _numbers(str(given["sizes"]))]
    if percents and not fabric.simulated:
        sys.exit(f"{given['path']} is no lab: --loss breaks the source's port on purpose")
    rounds = int(str(given["rounds"]))
    source, _, target = str(given["pair"]).partition(":")
    pair = PairId(PortId.parse(source), PortId.parse(target))
    ports = (pair.source, pair.target)
    with transport.connect() as way, Fleet(fabric, ports, way, engine=str(given["engine"])) as fleet:
        for report in fleet.reports.values():
            if report.error:
                sys.exit(f"{report.node}: {report.error}")
        samples, seconds = int(str(given["samples"])), float(str(given["seconds"]))
        bench = Bench(fabric, policy, pair, fleet, samples, seconds)
        cells = by_size(bench, sizes, rounds)
        click.echo(f"{pair}; {fabric.simulated or 'hardware'}; {'; '.join(sorted(bench.used))}\n")
        click.echo(table("bytes", sizes, LATENCIES | BANDWIDTHS, cells))
        if percents:
            cells = by_loss(bench, percents, rounds, way)
            click.echo(f"\nGoodput of {LARGE} bytes a message:\n")
            click.echo(table("loss (%)", percents, BANDWIDTHS, cells))


if __name__ == "__main__":
    main()
