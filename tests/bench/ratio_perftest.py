"""Do our latencies agree with perftest's, on the same pair, in one run?

    python tests/bench/ratio_perftest.py -i inventory.yml --pair node1/eth1:node2/eth1 --rounds 10

Each round measures with ``ib_read_lat`` and our ``read_latency``, then with ``ib_write_lat`` and our
``write_pingpong``, right after each other, and compares the medians of all samples. It asserts nothing: on a
busy machine a single ratio says little, so it prints each and their median. Needs perftest on both nodes.
"""

from __future__ import annotations

import re
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from fabricctl import inventory, transport
from fabricctl.model.fabric import Device, Fabric, Port
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Policy
from fabricctl.model.probe import Round
from fabricctl.transport.base import Transport
from fabricctl.verify.fleet import Fleet

TOOLS = {"read_latency": "ib_read_lat", "write_pingpong": "ib_write_lat"}
RAW = re.compile(r"^\s*(\d+),\s*(\d+\.\d+)\s*$", re.MULTILINE)
TOO_LONG_S = 60
PORT = 18515


@dataclass(frozen=True)
class Setting:
    """What both are run with."""

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


def perftest(tool: str, setting: Setting, gids: Mapping[str, int], way: Transport) -> list[float]:
    """Return all samples of a perftest tool, in microseconds as it prints them."""
    (source, near), (target, far) = setting.ends()

    def argv(port: Port, gid: int) -> tuple[str, ...]:
        options = f"-d {port.rdma} -x {gid} -F -s {setting.size} -n {setting.samples} -p {PORT} -U"
        outstanding = " -o 1" if tool == "ib_read_lat" else ""
        tos = f" --tclass={setting.policy.roce_tos}"
        return ("timeout", str(TOO_LONG_S), "stdbuf", "-oL", tool, *shlex.split(options + outstanding + tos))

    server = way.start(target, argv(far, gids["target"]), deadline_s=TOO_LONG_S)
    try:
        for _ in range(4):
            if "Waiting for client" in server.receive(TOO_LONG_S):
                break
        client = shlex.join((*argv(near, gids["source"]), far.address.partition("/")[0]))
        reply = way.run(source, client, deadline_s=TOO_LONG_S)
    finally:
        server.close()
    found = [float(value) for _, value in RAW.findall(reply.stdout)]
    if len(found) < setting.samples // 2:
        sys.exit(
            f"{tool} printed {len(found)} samples, status {reply.rc}:\n{reply.stdout[-800:]}{reply.stderr}"
        )
    return found


def ours(probe: str, setting: Setting, fleet: Fleet) -> tuple[list[float], dict[str, int]]:
    """Return all samples of our probe in microseconds (to 0.1 %), and the GID indexes that it used."""
    parameters = {
        "samples": setting.samples,
        "warmup": 100,
        "message_bytes": setting.size,
        "deadline_s": float(TOO_LONG_S),
    }
    (sample,) = fleet.run_round(Round(1, (setting.pair,)), {probe: parameters}, setting.policy)
    if sample.error:
        sys.exit(f"{probe}: {sample.error}")
    gids = {side: int(sample.parameters[f"{side}_gid_index"]) for side in ("source", "target")}
    return [ns / 1000 for ns, times in sample.latencies.counts() for _ in range(times)], gids


def table(ratios: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return both medians of each round, their ratio, and the median ratio."""
    lines = []
    for probe, rounds in ratios.items():
        lines.append(f"{probe} p50 / {TOOLS[probe]} p50 (us)")
        lines += [f"  {mine:10.1f} / {theirs:10.1f} = {mine / theirs:.3f}" for mine, theirs in rounds]
        lines.append(f"  median ratio of {len(rounds)}: {statistics.median(m / t for m, t in rounds):.3f}")
    return "\n".join(lines)


@click.command()
@click.option("-i", "path", type=click.Path(path_type=Path), required=True, help="Inventory.")
@click.option("--pair", required=True, help="SOURCE:TARGET, two ports: node1/eth1:node2/eth1.")
@click.option("--rounds", default=10, show_default=True)
@click.option("--samples", default=300, show_default=True)
@click.option("--size", default=8, show_default=True, help="Message size in bytes.")
def main(path: Path, pair: str, rounds: int, samples: int, size: int) -> None:
    """Compare our latencies with perftest's."""
    fabric, policy = inventory.read(path)
    source, _, target = pair.partition(":")
    setting = Setting(fabric, policy, PairId(PortId.parse(source), PortId.parse(target)), samples, size)
    found: dict[str, list[tuple[float, float]]] = {probe: [] for probe in TOOLS}
    with transport.connect() as way, Fleet(fabric, (setting.pair.source, setting.pair.target), way) as fleet:
        for report in fleet.reports.values():
            if report.error:
                sys.exit(f"{report.node}: {report.error}")
        for number in range(rounds):
            for probe, tool in TOOLS.items():
                mine, gids = ours(probe, setting, fleet)
                theirs = perftest(tool, setting, gids, way)
                found[probe].append((statistics.median(mine), statistics.median(theirs)))
            click.echo(f"round {number + 1} of {rounds}", err=True)
    click.echo(table(found))


if __name__ == "__main__":
    main()
