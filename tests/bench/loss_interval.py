"""Does the loss probe's 95 % interval hold the true rate of loss?

    python tests/bench/loss_interval.py -i inventory.yml --pair node1/eth1:node2/eth1

Puts netem on the source's port (and the target's, for both ways), loses 0, 0.01, 0.1, 1 and 5 % in turn:
each packet by itself one way and both ways, in bursts of four (Gilbert's model), and with a tenth of the
packets overtaken. It measures 20 times each, and says in how many runs the stated interval holds the rate
that netem was told. For the lab only: it replaces the root qdisc of both ports. With a receiver that is short
of CPU, which must not look like loss:

    python tests/bench/loss_interval.py ... --kind "one way" --rate 0 --runs 50 --busy 3
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from fabricctl import inventory, transport
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Policy
from fabricctl.model.probe import Round, Sample
from fabricctl.plugin import finder
from fabricctl.plugin.judging import PEER_SAID_NO
from fabricctl.probes.loss.rate import Counted, design_effect
from fabricctl.transport.base import Transport
from fabricctl.verify.fleet import Fleet

RATES_PERCENT = (0.0, 0.01, 0.1, 1.0, 5.0)
BURST = 4
"""Packets of a burst on average."""
KINDS = ("one way", "both ways", "bursts", "reordering")


def netem(kind: str, percent: float) -> str:
    """Return what netem is told: the loss of the kind at the rate."""
    if kind == "bursts":
        leaves = 100 / BURST
        return f"loss gemodel {percent * leaves / (100 - percent):.6g}% {leaves:.6g}%"
    moved = " delay 5ms reorder 90%" if kind == "reordering" else ""
    return f"loss {percent:g}%{moved}"


@contextmanager
def broken(way: Transport, fabric: Fabric, port: PortId, how: str) -> Iterator[None]:
    """Have a port's qdisc break packets while the block runs."""
    device, name = fabric.device(port.device), shlex.quote(port.port)
    way.run(device, f"tc qdisc replace dev {name} root netem limit 100000 {how}", deadline_s=60)
    try:
        yield
    finally:
        way.run(device, f"tc qdisc del dev {name} root", deadline_s=60)


@contextmanager
def busy(way: Transport, fabric: Fabric, port: PortId, programs: int) -> Iterator[None]:
    """Have so many programs that do nothing but compute on a port's node while the block runs."""
    argv = ("timeout", "3600", "sh", "-c", "while :; do :; done")
    device = fabric.device(port.device)
    started = [way.start(device, argv, deadline_s=60) for _ in range(programs)]
    try:
        yield
    finally:
        for program in started:
            program.close()
        way.run(device, "pkill -f '[w]hile :; do :; done' || true", deadline_s=60)


@dataclass
class Tally:
    """How many runs there were, in how many the interval held the rate, and what was lost at 0 %.

    netem's bursts go on from packet to packet, however long that takes: one that begins where the two ends
    keep in step outlasts all retries of that packet at times. Such a run fails without a rate: `unanswered`.
    """

    runs: int = 0
    held: int = 0
    false_losses: int = 0
    unanswered: int = 0

    def add(self, sample: Sample, kind: str, percent: float) -> None:
        """Count a run and show it; the program ends if it could not be measured."""
        if sample.error_kind == PEER_SAID_NO and percent:
            self.unanswered += 1
            click.echo(f"{kind}, {percent:g} %, {sample.pair}: no rate: {sample.error}")
            return
        if sample.error:
            sys.exit(f"{sample.pair}: {sample.error}")
        numbers = sample.numbers
        effect, batches = design_effect(numbers)
        lost = numbers["missing"] + numbers["corrupt"]
        counted = Counted(numbers["sent"], lost, numbers["events"], effect, batches)
        low, high = counted.interval()
        holds = low <= percent / 100 <= high
        self.runs += 1
        self.held += holds
        self.false_losses += 0 if percent else lost
        said = f"{lost} of {counted.sent} lost in {counted.events} events, {numbers['reordered']} reordered"
        verdict = "holds" if holds else "MISSES"
        click.echo(f"{kind}, {percent:g} %, {sample.pair}: {said}, {low:.3%} .. {high:.3%}: {verdict}")


@click.command()
@click.option("-i", "path", type=click.Path(path_type=Path), required=True, help="Inventory of a lab.")
@click.option("--pair", required=True, help="SOURCE:TARGET, two ports: node1/eth1:node2/eth1.")
@click.option("--runs", default=20, show_default=True, help="Runs at each rate of each kind.")
@click.option("--packets", default=3000, show_default=True, help="Packets in a run.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, default=KINDS, help="Only these.")
@click.option(
    "--rate", "rates", type=float, multiple=True, default=RATES_PERCENT, help="Only these percents."
)
@click.option("--busy", "programs", default=0, help="Programs that take the target's CPU meanwhile.")
def main(  # noqa: PLR0913  options
    path: Path,
    *,
    pair: str,
    runs: int,
    packets: int,
    kinds: tuple[str, ...],
    rates: tuple[float, ...],
    programs: int,
) -> None:
    """Count in how many runs the interval holds the true rate."""
    fabric, policy = inventory.read(path)
    if not fabric.simulated:
        sys.exit(f"{path} is no lab: this breaks ports on purpose")
    source, _, target = pair.partition(":")
    there = PairId(PortId.parse(source), PortId.parse(target))
    tallies: dict[str, Tally] = {}
    with (
        transport.connect() as way,
        Fleet(fabric, (there.source, there.target), way) as fleet,
        busy(way, fabric, there.target, programs),
    ):
        for kind in kinds:
            tally = tallies.setdefault(kind, Tally())
            pairs = (there, there.reverse) if kind == "both ways" else (there,)
            for percent in rates:
                with ExitStack() as stack:
                    for one in pairs:
                        stack.enter_context(broken(way, fabric, one.source, netem(kind, percent)))
                    for _ in range(-(-runs // len(pairs))):
                        for sample in run(fleet, pairs, policy, packets):
                            tally.add(sample, kind, percent)
    for kind, tally in tallies.items():
        click.echo(f"{kind}: {tally.held} of {tally.runs} intervals hold the true rate;", nl=False)
        click.echo(
            f" {tally.false_losses} packets reported lost at 0 %; {tally.unanswered} runs without a rate"
        )


def run(fleet: Fleet, pairs: tuple[PairId, ...], policy: Policy, packets: int) -> tuple[Sample, ...]:
    """Measure the pairs once."""
    parameters = {**finder.probe("loss").parameters(policy), "packets": packets, "deadline_s": 300.0}
    return fleet.run_round(Round(1, pairs), {"loss": parameters}, policy)


if __name__ == "__main__":
    main()
