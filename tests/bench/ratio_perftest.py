"""Do our numbers agree with perftest's, on the same pair, in one run?

    python tests/bench/ratio_perftest.py -i inventory.yml --pair node1/eth1:node2/eth1 --rounds 20

Each round measures with perftest's tool and then with our probe, by each engine, right after each other:
``ib_read_lat`` and ``read_latency``, ``ib_write_lat`` and ``write_pingpong``, ``ib_write_bw`` and
``write_bandwidth``. Printed are the ratios of p50 and p99 of a round's samples, or of the bandwidths, and
their median over the rounds. Which of them comes first changes from round to round. It ends with an error if
a median ratio misses the aim: within 5 % (native) or 8 % (pyverbs) of 1, p99 within 15 %. Wants an idle
machine: on a busy one the ratios of single rounds spread by tens of percent. Needs perftest on both nodes.
"""

from __future__ import annotations

import re
import shlex
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from fabricctl import inventory, transport
from fabricctl.model.fabric import Device, Fabric, Port
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Policy
from fabricctl.model.probe import Round, Sample
from fabricctl.transport.base import Transport
from fabricctl.verify.fleet import Fleet

TOOLS = {"read_latency": "ib_read_lat", "write_pingpong": "ib_write_lat", "write_bandwidth": "ib_write_bw"}
ENGINES = ("native", "pyverbs")
AIMS = {"native": 0.05, "pyverbs": 0.08}
AIM_P99 = 0.15
FLOW_BYTES, FLOW_PAIRS, FLOW_DEPTH = 65536, 2, 4
FLOW_S, FLOW_MESSAGES = 4.0, 200
"""Of bandwidth: how long ours streams, and how many messages perftest sends on each queue pair."""
RAW = re.compile(r"^\s*(\d+),\s*(\d+\.\d+)\s*$", re.MULTILINE)
ROW = re.compile(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", re.MULTILINE)
"""perftest's line of a bandwidth: bytes, iterations, peak, average, messages a second."""
TOO_LONG_S = 60
PORT = 18515

Numbers = dict[str, float]


@dataclass(frozen=True)
class Setting:
    """What all are run with."""

    fabric: Fabric
    policy: Policy
    pair: PairId
    samples: int
    size: int

    def ends(self) -> tuple[tuple[Device, Port], tuple[Device, Port]]:
        """Return source and target."""
        a, b = self.pair.source, self.pair.target
        return (
            (self.fabric.device(a.device), self.fabric.port(a)),
            (self.fabric.device(b.device), self.fabric.port(b)),
        )

    def parameters(self, probe: str) -> dict[str, int | float | str]:
        """Return what our probe is given."""
        if probe == "write_bandwidth":
            flow: dict[str, int | float | str] = {"sizes": str(FLOW_BYTES), "queue_pairs": FLOW_PAIRS}
            return {**flow, "depth": FLOW_DEPTH, "seconds": FLOW_S, "deadline_s": float(TOO_LONG_S)}
        few = {"samples": self.samples, "warmup": 100, "message_bytes": self.size}
        return {**few, "deadline_s": float(TOO_LONG_S)}

    def options(self, tool: str) -> str:
        """Return what perftest's tool is given, so that it does the same."""
        if tool == "ib_write_bw":
            # Both have a quarter of the requests report completion.
            many = f"-q {FLOW_PAIRS} -t {FLOW_DEPTH} -Q {FLOW_DEPTH // 4}"
            return f"-s {FLOW_BYTES} -n {FLOW_MESSAGES} {many} --report_gbits"
        outstanding = " -o 1" if tool == "ib_read_lat" else ""
        return f"-s {self.size} -n {self.samples} -U{outstanding}"


def perftest(tool: str, setting: Setting, gids: Mapping[str, int], way: Transport) -> Numbers:
    """Return what a perftest tool finds: p50 and p99 in microseconds, or Gbit/s."""
    (source, near), (target, far) = setting.ends()

    def argv(port: Port, gid: int) -> tuple[str, ...]:
        options = f"-d {port.rdma} -x {gid} -F -p {PORT} --tclass={setting.policy.roce_tos}"
        words = shlex.split(f"{options} {setting.options(tool)}")
        return ("timeout", str(TOO_LONG_S), "stdbuf", "-oL", tool, *words)

    server = way.start(target, argv(far, gids["target"]), deadline_s=TOO_LONG_S)
    try:
        for _ in range(4):
            if "Waiting for client" in server.receive(TOO_LONG_S):
                break
        client = shlex.join((*argv(near, gids["source"]), far.address.partition("/")[0]))
        reply = way.run(source, client, deadline_s=TOO_LONG_S)
    finally:
        server.close()
    if tool == "ib_write_bw" and (row := ROW.search(reply.stdout)):
        return {"Gbit/s": float(row[1])}
    found = [float(value) for _, value in RAW.findall(reply.stdout)]
    if len(found) < setting.samples // 2:
        sys.exit(f"{tool} ended with {reply.rc}:\n{reply.stdout[-800:]}{reply.stderr}")
    return percentiles(found)


def percentiles(samples: Sequence[float]) -> Numbers:
    """Return p50 and p99 of samples."""
    return {"p50": statistics.median(samples), "p99": statistics.quantiles(samples, n=100)[98]}


def ours(probe: str, setting: Setting, fleet: Fleet) -> Sample:
    """Measure with our probe."""
    (sample,) = fleet.run_round(Round(1, (setting.pair,)), {probe: setting.parameters(probe)}, setting.policy)
    if sample.error:
        sys.exit(f"{probe}: {sample.error}")
    return sample


def numbers(sample: Sample) -> Numbers:
    """Return what our probe found in the units of :func:`perftest`, times to 0.1 %."""
    if "bytes" in sample.numbers:
        return {"Gbit/s": sample.numbers["bytes"] * 8 / sample.numbers["elapsed_ns"]}
    return percentiles([ns / 1000 for ns, times in sample.latencies.counts() for _ in range(times)])


@dataclass(frozen=True)
class Compared:
    """Ratios of one engine to perftest in one measure, a round each."""

    probe: str
    engine: str
    measure: str
    ratios: list[float]

    @property
    def median(self) -> float:
        """The median ratio."""
        return statistics.median(self.ratios)

    @property
    def aim(self) -> float:
        """How far it may be from 1."""
        return AIM_P99 if self.measure == "p99" else AIMS[self.engine]

    @property
    def holds(self) -> bool:
        """Whether it is as near to 1 as is aimed for."""
        return abs(self.median - 1) <= self.aim

    def __str__(self) -> str:
        low, *_, high = sorted(self.ratios)
        missed = "" if self.holds else "  MISSED"
        return (
            f"{self.probe} ({self.engine}) / {TOOLS[self.probe]}, {self.measure}: median ratio of"
            f" {len(self.ratios)}: {self.median:.3f} ({low:.2f} to {high:.2f}), aim within"
            f" {self.aim:.0%}{missed}"
        )


def measured(
    setting: Setting, probe: str, fleets: Mapping[str, Fleet], way: Transport, *, turned: bool
) -> Mapping[str, Numbers]:
    """Return the numbers of one round by who measured them, perftest's as ``perftest``."""
    gids = {"source": -1, "target": -1}
    found: dict[str, Numbers] = {}

    def mine(engine: str, fleet: Fleet) -> None:
        sample = ours(probe, setting, fleet)
        gids.update({side: int(sample.parameters[f"{side}_gid_index"]) for side in gids})
        found[engine] = numbers(sample)

    def theirs() -> None:
        found["perftest"] = perftest(TOOLS[probe], setting, gids, way)

    steps: list[Callable[[], None]] = []
    for engine, fleet in fleets.items():
        steps.append(lambda engine=engine, fleet=fleet: mine(engine, fleet))  # type: ignore[misc]
    # perftest is told the GID indexes that ours found, so ours comes first once, and then in turn.
    steps.insert(len(steps) if not turned else 1, theirs)
    for step in steps:
        step()
    return found


def show(probe: str, found: Mapping[str, Numbers]) -> str:
    """Return a round's numbers as a line."""
    said = [f"{who} {' '.join(f'{k} {v:.4g}' for k, v in each.items())}" for who, each in found.items()]
    return f"{probe}: {'; '.join(said)}"


@click.command()
@click.option("-i", "path", type=click.Path(path_type=Path), required=True, help="Inventory.")
@click.option("--pair", required=True, help="SOURCE:TARGET, two ports: node1/eth1:node2/eth1.")
@click.option("--rounds", default=20, show_default=True)
@click.option("--samples", default=1000, show_default=True)
@click.option("--size", default=8, show_default=True, help="Message size in bytes of the latencies.")
@click.option("--engine", "engines", type=click.Choice(ENGINES), multiple=True, default=ENGINES)
@click.option("--probe", "probes", type=click.Choice(tuple(TOOLS)), multiple=True, default=tuple(TOOLS))
def main(  # noqa: PLR0913  options
    path: Path,
    *,
    pair: str,
    rounds: int,
    samples: int,
    size: int,
    engines: tuple[str, ...],
    probes: tuple[str, ...],
) -> None:
    """Compare our numbers with perftest's."""
    fabric, policy = inventory.read(path)
    source, _, target = pair.partition(":")
    setting = Setting(fabric, policy, PairId(PortId.parse(source), PortId.parse(target)), samples, size)
    ports = (setting.pair.source, setting.pair.target)
    found: dict[tuple[str, str, str], Compared] = {}
    with ExitStack() as stack:
        way = stack.enter_context(transport.connect())
        fleets = {engine: stack.enter_context(Fleet(fabric, ports, way, engine=engine)) for engine in engines}
        for report in (report for fleet in fleets.values() for report in fleet.reports.values()):
            if report.error:
                sys.exit(f"{report.node}: {report.error}")
        for number in range(rounds):
            for probe in probes:
                row = measured(setting, probe, fleets, way, turned=bool(number % 2))
                click.echo(f"{number + 1}/{rounds} {show(probe, row)}", err=True)
                for engine in engines:
                    for measure, value in row[engine].items():
                        key = (probe, engine, measure)
                        compared = found.setdefault(key, Compared(*key, []))
                        compared.ratios.append(value / row["perftest"][measure])
    for compared in found.values():
        click.echo(str(compared))
    if not all(compared.holds for compared in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
