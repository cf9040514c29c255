"""Did the probes ride the lossless class? The counters of each priority and queue on the way say so.

Probes carry the DSCP of the lossless class, but what becomes of it is decided by the NIC that sends, each
switch and the NIC that receives. At each of three places on a port's cable the packets of every class are
counted: as its NIC sends them, as the switch's port sends them to it, and as its NIC takes them. What rose
during the run is compared with what the run's probes surely sent there.

Proven is a place at which the lossless class rose by as much as the probes sent. Wrong is one at which it
rose by less than half of that, and another class by at least half: that names who remarked or mis-mapped. A
place that counts no classes (soft-RoCE, Intel E800) proves nothing, and the policy says whether that matters.
Switches poll their counters (SONiC those of queues every 10 s): after a short run theirs blame nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from fabricctl.linkparts.counters import Kind, meaning
from fabricctl.model.fabric import Fabric, LinkLayer, Role
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Policy
from fabricctl.model.probe import Sample
from fabricctl.model.reading import DeviceReading, Known
from fabricctl.model.verdict import Finding, Outcome

CHECK = "traffic_class"
_POLLED_S = 30.0
"""Shortest run after which a switch's counters have caught up: three times what SONiC takes, in seconds."""
_ENOUGH = 0.5
"""Share of the probes' packets that another class must have carried, and the lossless one not, to blame."""


class Place(Enum):
    """Where packets of a port are counted by class."""

    SENDS = "sends"
    SWITCHED = "is sent to by its switch"
    TAKES = "takes"


@dataclass(frozen=True, slots=True)
class Proof:
    """What a place showed.

    Parameters
    ----------
    outcome
        Pass is proven, fail is another class, unknown is that it proves nothing.
    what
        One sentence with the counts.
    culprit
        The port that is to blame if it failed.
    """

    place: Place
    outcome: Outcome
    what: str
    culprit: str = ""


@dataclass(slots=True)
class Carried:
    """How many packets every port has sent and has received at the least, by its good samples.

    An operation that was timed is at least one packet each way (request and response, or data and
    acknowledgement); of loss and bandwidth, what was counted as arrived, in full packets.
    """

    sent: dict[PortId, int] = field(default_factory=dict)
    received: dict[PortId, int] = field(default_factory=dict)

    def take(self, samples: Iterable[Sample]) -> None:
        """Count samples in."""
        for sample in samples:
            if sample.error:
                continue
            source, target = sample.pair.source, sample.pair.target
            single = sample.latencies.samples
            there = single + _stream(sample)
            for counts, port, packets in (
                (self.sent, source, there),
                (self.received, target, there),
                (self.sent, target, single),
                (self.received, source, single),
            ):
                counts[port] = counts.get(port, 0) + packets


def _stream(sample: Sample) -> int:
    """Return the full packets that went one way at the least; a READ's data go the other way: 0."""
    numbers = sample.numbers
    if "sent" in numbers and "missing" in numbers:
        return numbers["sent"] - numbers["missing"]
    mtu = int(sample.parameters.get("path_mtu_bytes", 0))
    writes = not sample.probe.startswith("read")
    return numbers["bytes"] // mtu if writes and mtu and "bytes" in numbers else 0


def prove(
    fabric: Fabric,
    policy: Policy,
    carried: Carried,
    before: Mapping[str, DeviceReading],
    after: Mapping[str, DeviceReading],
    *,
    resumed: bool = False,
) -> Mapping[PortId, tuple[Proof, ...]]:
    """Return what each of the three places showed, by port of a node that took part; none on InfiniBand.

    Parameters
    ----------
    resumed
        Whether the run was interrupted between the readings: jobs may have run then, so nothing is proven.
    """
    if policy.link_layer is LinkLayer.INFINIBAND or policy.lossless is None:
        return {}
    sent, received = carried.sent, carried.received
    risen = _Risen(fabric, before, after)
    lossless = policy.lossless.priority

    def proofs(port: PortId) -> Iterator[Proof]:
        yield _weigh(Place.SENDS, port, lossless, sent.get(port, 0), risen.of(port, sending=True))
        peer = fabric.peer(port)
        if peer is not None and fabric.device(peer.device).role is Role.SWITCH:
            proof = _weigh(
                Place.SWITCHED, peer, lossless, received.get(port, 0), risen.of(peer, sending=True)
            )
            if proof.outcome is Outcome.FAIL and risen.seconds(peer) < _POLLED_S:
                proof = Proof(Place.SWITCHED, Outcome.UNKNOWN, f"{proof.what}, which it may count late")
            yield proof
        yield _weigh(Place.TAKES, port, lossless, received.get(port, 0), risen.of(port, sending=False))

    found = {port: tuple(proofs(port)) for port in {**sent, **received}}
    return {port: tuple(map(_in_doubt, of)) for port, of in found.items()} if resumed else found


def _in_doubt(proof: Proof) -> Proof:
    if proof.outcome is not Outcome.PASS:
        return proof
    return Proof(
        proof.place, Outcome.UNKNOWN, f"{proof.what}, of which jobs may have been since it was interrupted"
    )


def _weigh(place: Place, port: PortId, lossless: int, expected: int, rose: Mapping[int, int] | str) -> Proof:
    if isinstance(rose, str):
        return Proof(place, Outcome.UNKNOWN, f"{port} {rose}")
    if expected < 1:
        return Proof(place, Outcome.UNKNOWN, f"{port}: no packet of the probes is known to have passed there")
    name, here = str(port), rose.get(lossless)
    told = f"{name}: {expected} packets of the probes at least"
    if here is None:
        return Proof(place, Outcome.UNKNOWN, f"{name} counts no packets of priority {lossless}")
    if here >= expected:
        return Proof(place, Outcome.PASS, f"{told}, {here} in priority {lossless}")
    other = max((each for each in rose if each != lossless), key=lambda each: rose[each], default=lossless)
    told = f"{told}, {here} in priority {lossless}"
    if here < _ENOUGH * expected <= rose[other] and other != lossless:
        return Proof(place, Outcome.FAIL, f"{told}, {rose[other]} in priority {other}", name)
    return Proof(place, Outcome.UNKNOWN, told)


@dataclass(frozen=True, slots=True)
class _Risen:
    """By how much the packets of each class rose during the run."""

    fabric: Fabric
    before: Mapping[str, DeviceReading]
    after: Mapping[str, DeviceReading]

    def of(self, port: PortId, *, sending: bool) -> Mapping[int, int] | str:
        """Return the packets by class, or why they are not known."""
        driver = self.fabric.device(port.device).driver
        first = _counts(self.before, port, driver, sending=sending)
        last = _counts(self.after, port, driver, sending=sending)
        if first is None or last is None:
            return "was not read"
        found = {queue: last[queue] - count for queue, count in first.items() if queue in last}
        if any(rise < 0 for rise in found.values()):
            return "has reset its counters meanwhile"
        return found or "does not count packets by priority"

    def seconds(self, port: PortId) -> float:
        """Return how long after the first reading of a port's device the second was taken."""
        return self.after[port.device].read_at - self.before[port.device].read_at


def _counts(
    readings: Mapping[str, DeviceReading], port: PortId, driver: str, *, sending: bool
) -> dict[int, int] | None:
    device = readings.get(port.device)
    if device is None or port not in device.ports:
        return None
    found: dict[int, int] = {}
    for name, entry in device.ports[port].counters.items():
        about = meaning(driver, name)
        if about is None or about.kind is not Kind.TRAFFIC or about.sending is not sending:
            continue
        if isinstance(entry, Known) and isinstance(entry.value, int) and about.queue is not None:
            # A bond's members count each for themselves.
            found[about.queue] = found.get(about.queue, 0) + entry.value
    return found


_BLAME = {
    Place.SENDS: "{0}'s NIC sends the probes in another class: its trust, its map from DSCP to priority, or a"
    " traffic class forced on it",
    Place.SWITCHED: "{0} queues the probes in another class: its map from DSCP, or a switch before remarked",
    Place.TAKES: "{0}'s NIC takes the probes for another class: its trust or map, or its switch remarked",
}


_NO_CLASS = "the traffic class is not proven: there is no lossless class of Ethernet, or nothing was sent"
_NO_CLASS_STEP = "set limits.class_proof to false, or give the policy a lossless class"


def is_wrong(proofs: Iterable[Proof], *, required: bool) -> bool:
    """Say whether a pair with a port of which this was seen cannot pass."""
    bad = {Outcome.FAIL, Outcome.UNKNOWN} if required else {Outcome.FAIL}
    return any(proof.outcome in bad for proof in proofs)


def class_findings(
    pair: PairId, proofs: Mapping[PortId, tuple[Proof, ...]], *, required: bool
) -> Iterator[Finding]:
    """Yield a finding on the class that a pair's probes rode; none if there is no class to ride.

    Parameters
    ----------
    required
        Whether a class that cannot be proven is unknown; otherwise it passes and says so.
    """
    places = {pair.source: (Place.SENDS,), pair.target: (Place.SWITCHED, Place.TAKES)}
    seen = [
        (port, proof) for port, of in places.items() for proof in proofs.get(port, ()) if proof.place in of
    ]
    if not seen:
        if required:
            yield Finding(CHECK, str(pair), Outcome.UNKNOWN, _NO_CLASS, next_step=_NO_CLASS_STEP)
        return
    wrong = [(port, proof) for port, proof in seen if proof.outcome is Outcome.FAIL]
    if wrong:
        # The first that is wrong on the way explains those behind it.
        _, proof = wrong[0]
        yield Finding(
            check=CHECK,
            subject=str(pair),
            outcome=Outcome.FAIL,
            what=f"{_BLAME[proof.place].format(proof.culprit)}; {proof.what}",
            measured="another class",
            limit="the lossless class",
            next_step='"fabricctl drift" shows trust and maps that differ, "fabricctl apply" sets them',
            culprit=proof.culprit,
        )
        return
    proven = [proof.what for _, proof in seen if proof.outcome is Outcome.PASS]
    open_ = [proof.what for _, proof in seen if proof.outcome is Outcome.UNKNOWN]
    if not open_:
        yield Finding(CHECK, str(pair), Outcome.PASS, f"rode the lossless class: {'; '.join(proven)}")
        return
    outcome = Outcome.UNKNOWN if required else Outcome.PASS
    asked = "" if required else "; the policy does not ask for it"
    step = "see which counters the driver has in docs/probes.md" if required else ""
    what = f"the traffic class is not proven: {'; '.join(open_)}{asked}"
    yield Finding(CHECK, str(pair), outcome, what, next_step=step)
