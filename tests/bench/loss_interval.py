"""Does the loss probe's 95 % interval hold the true rate of loss?

    python tests/bench/loss_interval.py -i inventory.yml --pair node1/eth1:node2/eth1

Puts netem loss on the source's port, 0, 0.5, 2 and 5 % in turn, measures five times at each rate, and says
in how many of the 20 runs the exact interval holds the rate that netem was told. For the lab only: it
replaces the root qdisc of the port.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from fabricctl import inventory, transport
from fabricctl.model.names import PairId, PortId
from fabricctl.model.probe import Round
from fabricctl.model.stats import interval
from fabricctl.plugin import finder
from fabricctl.verify.fleet import Fleet

RATES_PERCENT = (0.0, 0.5, 2.0, 5.0)


@click.command()
@click.option("-i", "path", type=click.Path(path_type=Path), required=True, help="Inventory of a lab.")
@click.option("--pair", required=True, help="SOURCE:TARGET, two ports: node1/eth1:node2/eth1.")
@click.option("--runs", default=5, show_default=True, help="Runs at each rate.")
@click.option("--packets", default=1024, show_default=True, help="Packets in a run.")
def main(path: Path, pair: str, runs: int, packets: int) -> None:
    """Count in how many runs the interval holds the true rate."""
    fabric, policy = inventory.read(path)
    if not fabric.simulated:
        sys.exit(f"{path} is no lab: this breaks the source's port on purpose")
    source, _, target = pair.partition(":")
    ends = PairId(PortId.parse(source), PortId.parse(target))
    parameters = {**finder.probe("loss").parameters(policy), "packets": packets, "deadline_s": 90.0}
    device, port = fabric.device(ends.source.device), shlex.quote(ends.source.port)
    held = false_losses = 0
    with transport.connect() as way, Fleet(fabric, (ends.source, ends.target), way) as fleet:
        for rate in RATES_PERCENT:
            way.run(
                device, f"tc qdisc replace dev {port} root netem limit 100000 loss {rate}%", deadline_s=60
            )
            try:
                for _ in range(runs):
                    (sample,) = fleet.run_round(Round(1, (ends,)), {"loss": parameters}, policy)
                    if sample.error:
                        sys.exit(f"{ends}: {sample.error}")
                    missing, sent = sample.numbers["missing"], sample.numbers["sent"]
                    low, high = interval(missing, sent)
                    holds = low <= rate / 100 <= high
                    held += holds
                    false_losses += missing if not rate else 0
                    bounds = f"{low:.3%} .. {high:.3%}"
                    says = "holds" if holds else "MISSES"
                    click.echo(f"netem {rate} %: {missing} of {sent} lost, {bounds}: {says}")
            finally:
                way.run(device, f"tc qdisc del dev {port} root", deadline_s=60)
    click.echo(f"{held} of {runs * len(RATES_PERCENT)} intervals hold the true rate")
    click.echo(f"{false_losses} packets reported lost at 0 %")


if __name__ == "__main__":
    main()
