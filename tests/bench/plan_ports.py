"""How much CPU does a plan for 1,000 ports take?

    python tests/bench/plan_ports.py --ports 1000 --driver rxe

Makes a fabric of nodes with 8 ports each on leaf switches and readings in which every setting differs, then
derives the intents and the plan (diff, boot scripts and their digests) and prints the CPU time of each part.
Nothing is contacted. The aim is less than one second for 1,000 ports of NICs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import click

from fabricctl.apply.intent import intents
from fabricctl.apply.plan import make_plan
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Limits, MtuPolicy, Policy, TrafficClass
from fabricctl.model.reading import DeviceReading, Known, PortReading
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Driver

PORTS_PER_NODE = 8
POLICY = Policy(
    name="bench",
    link_layer=LinkLayer.ETHERNET,
    lossless=TrafficClass(3, 26),
    cnp=TrafficClass(6, 48),
    mtu=MtuPolicy(9000, 9216, 4096),
    pfc_priorities=(3,),
    ecn={0: EcnProfile(150_000, 1_500_000, 100)},
    limits=Limits(latency=(), loss=None),
    dcqcn=True,
)


def fabric_of(ports: int, driver: str) -> Fabric:
    """Return nodes with 8 ports each, and one leaf switch a rail."""
    nodes, links = [], []
    for node in range(-(-ports // PORTS_PER_NODE)):
        name = f"node{node:04d}"
        rails = range(min(PORTS_PER_NODE, ports - node * PORTS_PER_NODE))
        own = tuple(Port(PortId(name, f"eth{r}"), f"mlx5_{r}", r, speed_gbps=400) for r in rails)
        nodes.append(Device(name, Role.NODE, driver, Endpoint(name), own))
        links += [Link(PortId(f"leaf{p.rail}", f"swp{node}"), p.id, 3.0) for p in own]
    leaves: dict[str, list[Port]] = {}
    for link in links:
        leaves.setdefault(link.a.device, []).append(Port(link.a))
    switches = [
        Device(name, Role.SWITCH, "linux", Endpoint(name), tuple(own), tier="leaf")
        for name, own in leaves.items()
    ]
    return Fabric((*nodes, *switches), tuple(links))


def readings_of(fabric: Fabric, driver: Driver) -> Mapping[str, DeviceReading]:
    """Return readings of all nodes in which no setting is as intended."""
    meant = intents(fabric, POLICY)
    return {
        node.name: DeviceReading(
            node.name,
            0.0,
            {
                port.id: PortReading(
                    port.id, {name: Known("other") for name in driver.wanted(meant[port.id])}
                )
                for port in node.ports
            },
        )
        for node in fabric.nodes()
    }


@click.command()
@click.option("--ports", default=1000, show_default=True, help="Ports of nodes.")
@click.option("--driver", default="rxe", show_default=True, help="NIC driver.")
def main(ports: int, driver: str) -> None:
    """Measure, and print one line."""
    nic = finder.nic_driver(driver)
    fabric = fabric_of(ports, driver)
    readings = readings_of(fabric, nic)
    drivers = dict.fromkeys(readings, nic)
    began = time.process_time()
    meant = intents(fabric, POLICY)
    after_intents = time.process_time()
    plan = make_plan(fabric, meant, readings, drivers)
    ended = time.process_time()
    click.echo(
        f"{ports} ports, {len(plan.steps)} steps: {ended - began:.2f} s of CPU"
        f" (intents {after_intents - began:.2f} s, plan {ended - after_intents:.2f} s)"
    )


if __name__ == "__main__":
    main()
