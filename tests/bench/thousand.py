"""What does a controller pay for all pairs of a thousand nodes? Simulated agents, so the numbers are its own.

    python tests/bench/thousand.py --nodes 1024 --kill

Makes a fabric of as many nodes (leaves of 32, four spines), runs ``verify --pairs all`` with the simulated
launcher over it, and prints: how long the schedule takes, the controller's CPU time for each couple of ports
(of its own process, the simulated agents' not counted), and its peak memory. With ``--kill`` the run is
killed (SIGKILL) at a random moment first and then resumed; it is shown that no couple was lost or measured
twice. The aims: schedule under 2 s, 100 us a couple, 1 GB.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from fabricctl.agent.simulated import ENGINE
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import (
    EcnProfile,
    LatencyLimit,
    Limits,
    LossLimit,
    MtuPolicy,
    Policy,
    TrafficClass,
)
from fabricctl.model.run import RunKind
from fabricctl.model.verdicts import outcomes
from fabricctl.plugin.protocols import RunReport
from fabricctl.store import Store
from fabricctl.transport import connect
from fabricctl.verify.flow import Means, Request, resume, verify
from fabricctl.verify.schedule import expand, rounds
from fabricctl.verify.simulation import marked, simulated_launch

LEAF_NODES, SPINES = 32, 4
POLICY = Policy(
    name="bench",
    link_layer=LinkLayer.ETHERNET,
    lossless=TrafficClass(3, 26),
    cnp=TrafficClass(6, 48),
    mtu=MtuPolicy(9000, 9216, 4096),
    pfc_priorities=(3,),
    ecn={0: EcnProfile(1, 2, 3)},
    limits=Limits(
        latency=(LatencyLimit("read_latency", 50.0, 50_000),),
        loss=LossLimit(0.0, 0.05, 0.95),
        latency_samples=100,
        warmup=5,
    ),
)


def make_fabric(nodes: int, source: str) -> Fabric:
    """Return nodes with one port each, on leaves that all have links to all spines."""
    devices, links, leaves = [], [], dict[str, list[PortId]]()
    for number in range(nodes):
        name, leaf = f"node{number:04d}", f"leaf{number // LEAF_NODES:02d}"
        address = f"10.{number >> 8}.{number & 255}.1/8"
        port = Port(PortId(name, "eth1"), "mlx5_0", 0, address, 100)
        devices.append(Device(name, Role.NODE, "", Endpoint(name), (port,)))
        leaves.setdefault(leaf, []).append(PortId(leaf, f"down{number % LEAF_NODES}"))
        links.append(Link(leaves[leaf][-1], port.id))
    spines: dict[str, list[PortId]] = {f"spine{number}": [] for number in range(SPINES)}
    for leaf in leaves:
        for spine, ports in spines.items():
            up, down = PortId(leaf, f"up-{spine}"), PortId(spine, f"down-{leaf}")
            leaves[leaf].append(up)
            ports.append(down)
            links.append(Link(up, down))
    for tier, switches in (("leaf", leaves), ("spine", spines)):
        for name, ids in switches.items():
            ports = tuple(Port(port, speed_gbps=400) for port in ids)
            devices.append(Device(name, Role.SWITCH, "", Endpoint(name), ports, tier=tier))
    return marked(Fabric(tuple(devices), tuple(links), source=source))


def run(folder: Path, nodes: int, *, going_on: bool) -> RunReport:
    """Run verify over all pairs, or go on with it."""
    fabric = make_fabric(nodes, str(folder / "inventory.yml"))
    with Store.open(folder / "store.sqlite") as store, connect() as way:
        means = Means(way, store, launch=simulated_launch(fabric))
        if going_on:
            return resume(fabric, POLICY, "", means)
        probes = ("read_latency", "loss")
        return verify(fabric, POLICY, Request(pairs="all", probes=probes, engine=ENGINE), means)


def schedule_s(nodes: int) -> float:
    """Return how long the schedule takes, in seconds."""
    fabric, began = make_fabric(nodes, ""), time.monotonic()
    rounds(expand(fabric, "all"), fabric)
    return time.monotonic() - began


def killed(folder: Path, nodes: int, after_s: float) -> tuple[str, int]:
    """Kill a run some time after it has begun to measure; return its name and how many couples it kept."""
    argv = [sys.executable, __file__, "--nodes", str(nodes), "--folder", str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as child:
        store = folder / "store.sqlite"
        while child.poll() is None and not (store.exists() and _kept(store)[1]):
            time.sleep(0.05)
        time.sleep(after_s)
        if child.poll() is not None:
            raise click.ClickException("the run was over before it could be killed: take more nodes")
        child.kill()
    return _kept(store)


def _kept(path: Path) -> tuple[str, int]:
    with Store.open(path) as store:
        (held,) = store.runs(kind=RunKind.VERIFY) or (None,)
        return (held.id, len({s.pair for s in store.probed(held.id)}) // 2) if held else ("", 0)


def twice(folder: Path, run_id: str) -> tuple[int, int]:
    """Return how many samples of pairs and probes there are, and how many of them more than once."""
    with Store.open(folder / "store.sqlite") as store:
        counts = Counter((sample.pair, sample.probe) for sample in store.probed(run_id))
    return len(counts), sum(number > 1 for number in counts.values())


@click.command()
@click.option("--nodes", default=128, show_default=True)
@click.option("--kill", is_flag=True, help="Kill the run at a random moment and resume it.")
@click.option("--seed", default=0, help="Chooses the moment.")
@click.option("--profile", default=0, help="Show so many functions that take the most time.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the store is put.")
def main(nodes: int, *, kill: bool, seed: int, profile: int, folder: Path | None) -> None:
    """Measure the controller over all pairs of simulated nodes."""
    os.environ.setdefault("FABRICCTL_STORE", "/dev/null")
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        told: dict[str, object] = {"nodes": nodes, "schedule_s": round(schedule_s(nodes), 2)}
        if kill:
            after_s = random.Random(seed).uniform(0.2, 0.2 + nodes**2 / 20_000)  # noqa: S311
            run_id, kept = killed(place, nodes, after_s)
            told |= {"killed": run_id, "couples kept": kept}
        profiler = cProfile.Profile()
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
        report = (
            profiler.runcall(run, place, nodes, going_on=kill)
            if profile
            else run(place, nodes, going_on=kill)
        )
        after = resource.getrusage(resource.RUSAGE_SELF)
        couples = len(report.verdicts) // 2
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        told |= {
            "couples": couples,
            "wall_s": round(time.monotonic() - began, 1),
            "controller_us_a_couple": round(cpu_s / couples * 1e6, 1),
            "peak_MB": round(after.ru_maxrss / 1024),
            "outcomes": {str(outcome): number for outcome, number in outcomes(report.verdicts).items()},
            "certificates": len(report.certificates),
        }
        if kill:
            samples, repeated = twice(place, report.run.id)
            told |= {"same run": report.run.id == run_id, "samples": samples, "measured twice": repeated}
    click.echo(json.dumps(told, indent=2))
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(profile)


if __name__ == "__main__":
    main()
