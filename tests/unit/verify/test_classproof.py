"""Which class did the probes ride? Counters at both NICs and at the switch between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Limits, MtuPolicy, Policy, TrafficClass
from fabricctl.model.probe import Sample
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading
from fabricctl.model.verdict import Finding, Outcome, Verdict
from fabricctl.verify.classproof import CHECK, Carried, class_findings, is_wrong, prove

ONE, TWO = PortId("node1", "eth1"), PortId("node2", "eth1")
LEAF1, LEAF2 = PortId("leaf1", "p1"), PortId("leaf1", "p2")
PAIR = PairId(ONE, TWO)
SENT = 1000


def fabric(nic: str = "mlx5", switch: str = "sonic", peer_role: Role = Role.SWITCH) -> Fabric:
    at = Endpoint("10.0.0.1")

    def device(name: str, role: Role, driver: str, *ports: PortId) -> Device:
        made = (Port(port, "", 100, LinkLayer.ETHERNET) for port in ports)
        return Device(name, role, driver, at, tuple(made))

    return Fabric(
        (
            device("node1", Role.NODE, nic, ONE),
            device("node2", Role.NODE, nic, TWO),
            device("leaf1", peer_role, switch, LEAF1, LEAF2),
        ),
        (Link(LEAF1, ONE), Link(LEAF2, TWO)),
        "/inventory.yml",
    )


def policy(layer: LinkLayer = LinkLayer.ETHERNET, lossless: TrafficClass | None = None) -> Policy:
    return Policy(
        name="test",
        link_layer=layer,
        lossless=lossless,
        cnp=TrafficClass(priority=6, dscp=48),
        mtu=MtuPolicy(nic_bytes=9000, switch_bytes=9216, rdma_bytes=4096),
        pfc_priorities=(3,),
        ecn={},
        limits=Limits(latency=(), loss=None),
    )


LOSSLESS = policy(lossless=TrafficClass(priority=3, dscp=26))


def loss(pair: PairId = PAIR, missing: int = 0, error: str = "") -> Sample:
    numbers = {} if error else {"sent": SENT + missing, "missing": missing}
    return Sample(pair, "loss", "native 1", 0.0, 1.0, numbers=numbers, error=error)


Counts = Mapping[PortId, Mapping[str, int | Entry]]


def readings(counts: Counts, at: float) -> dict[str, DeviceReading]:
    found: dict[str, dict[PortId, PortReading]] = {}
    for port, counters in counts.items():
        entries = {name: Known(one) if isinstance(one, int) else one for name, one in counters.items()}
        found.setdefault(port.device, {})[port] = PortReading(port, {}, counters=entries)
    return {name: DeviceReading(name, at, ports) for name, ports in found.items()}


def rode(nic1: int, queue: int, nic2: int, packets: int = SENT) -> Counts:
    """Return by how much counters rise if the first NIC, the switch and the second NIC use these classes."""

    def spread(name: str, chosen: int) -> dict[str, int]:
        return {name.format(each): packets if each == chosen else 0 for each in range(8)}

    return {
        ONE: spread("tx_prio{}_packets", nic1),
        LEAF2: spread("queue{}.tx_packets", queue),
        TWO: spread("rx_prio{}_packets", nic2),
    }


def took(*samples: Sample) -> Carried:
    found = Carried()
    found.take(samples)
    return found


def verdict(counts: Counts, *, seconds: float = 60.0, required: bool = False, **kinds: Any) -> Verdict:
    start: Counts = {port: dict.fromkeys(of, 7) for port, of in counts.items()}
    end = {
        port: {k: v + 7 if isinstance(v, int) else v for k, v in of.items()} for port, of in counts.items()
    }
    before, after = readings(start, 100.0), readings(end, 100.0 + seconds)
    proofs = prove(fabric(**kinds), LOSSLESS, took(loss()), before, after)
    found = tuple(class_findings(PAIR, proofs, required=required))
    source, target = proofs[ONE][:1], proofs[TWO][1:]
    wrong = is_wrong((*source, *target), required=required)
    assert wrong == any(finding.outcome is not Outcome.PASS for finding in found)
    return Verdict(PAIR, "same_leaf", found)


def only(found: Verdict) -> Finding:
    (finding,) = [one for one in found.findings if one.check == CHECK]
    return finding


def test_a_class_that_all_three_places_counted_is_proven() -> None:
    found = verdict(rode(3, 3, 3))
    assert found.outcome is Outcome.PASS
    assert only(found).what == (
        "rode the lossless class: node1/eth1: 1000 packets of the probes at least, 1000 in priority 3;"
        " leaf1/p2: 1000 packets of the probes at least, 1000 in priority 3;"
        " node2/eth1: 1000 packets of the probes at least, 1000 in priority 3"
    )


@pytest.mark.parametrize(
    ("classes", "culprit", "says"),
    [
        ((0, 0, 0), "node1/eth1", "node1/eth1's NIC sends the probes in another class"),
        ((3, 1, 3), "leaf1/p2", "leaf1/p2 queues the probes in another class"),
        ((3, 3, 0), "node2/eth1", "node2/eth1's NIC takes the probes for another class"),
        ((3, 0, 0), "leaf1/p2", "leaf1/p2 queues the probes in another class"),
    ],
)
def test_the_first_that_is_wrong_on_the_way_is_named(
    classes: tuple[int, int, int], culprit: str, says: str
) -> None:
    found = verdict(rode(*classes))
    assert found.outcome is Outcome.FAIL
    assert only(found).culprit == culprit
    assert only(found).what.startswith(says)
    assert found.culprits == (culprit,)


def test_a_switch_that_may_count_late_blames_nobody() -> None:
    found = verdict(rode(3, 1, 3), seconds=29.0)
    assert found.outcome is Outcome.PASS
    assert "which it may count late; the policy does not ask for it" in only(found).what
    assert verdict(rode(3, 1, 3), seconds=30.0).outcome is Outcome.FAIL


@pytest.mark.parametrize(("nic", "switch"), [("rxe", "linux"), ("irdma", "linux")])
def test_where_no_class_is_counted_the_policy_says_whether_that_matters(nic: str, switch: str) -> None:
    found = verdict({ONE: {"x": 1}, LEAF2: {"x": 1}, TWO: {"x": 1}}, nic=nic, switch=switch)
    assert found.outcome is Outcome.PASS
    assert only(found).what == (
        "the traffic class is not proven: node1/eth1 does not count packets by priority;"
        " leaf1/p2 does not count packets by priority; node2/eth1 does not count packets by priority;"
        " the policy does not ask for it"
    )
    asked = verdict({ONE: {"x": 1}, LEAF2: {"x": 1}, TWO: {"x": 1}}, nic=nic, switch=switch, required=True)
    assert asked.outcome is Outcome.UNKNOWN
    assert only(asked).next_step


@pytest.mark.parametrize("packets", [SENT - 1, SENT // 2])
def test_too_few_in_the_right_class_prove_nothing_and_blame_nobody(packets: int) -> None:
    assert verdict(rode(3, 3, 3, packets), required=True).outcome is Outcome.UNKNOWN
    assert verdict(rode(3, 3, 3, packets)).outcome is Outcome.PASS


def test_other_traffic_in_other_classes_is_no_fault() -> None:
    counts = {port: dict(of) for port, of in rode(3, 3, 3).items()}
    counts[ONE]["tx_prio0_packets"] = 10 * SENT
    assert verdict(counts).outcome is Outcome.PASS
    # Less than half of the probes in the right class, and nothing to show where the rest went.
    few = {port: dict(of) for port, of in rode(3, 3, 3, SENT // 2 - 1).items()}
    assert verdict(few).outcome is Outcome.PASS
    few[ONE]["tx_prio0_packets"] = SENT // 2 - 1
    assert verdict(few).outcome is Outcome.PASS
    few[ONE]["tx_prio0_packets"] = SENT // 2
    assert verdict(few).outcome is Outcome.FAIL


def test_a_bond_s_members_are_added_up() -> None:
    counts = dict(rode(3, 3, 3))
    counts[ONE] = {"p0 tx_prio3_packets": SENT // 2, "p1 tx_prio3_packets": SENT // 2}
    assert "rode the lossless class" in only(verdict(counts)).what


def test_what_was_not_read_or_reset_is_said() -> None:
    before, after = readings(rode(3, 3, 3), 0.0), readings({ONE: {"tx_prio3_packets": 1}}, 60.0)
    proofs = prove(fabric(), LOSSLESS, took(loss()), before, after)
    (found,) = class_findings(PAIR, proofs, required=True)
    assert found.what == (
        "the traffic class is not proven: node1/eth1 has reset its counters meanwhile; leaf1/p2 was not read;"
        " node2/eth1 was not read"
    )


def test_a_priority_that_is_not_counted_proves_nothing() -> None:
    counts = dict(rode(3, 3, 3))
    counts[ONE] = {"tx_prio0_packets": SENT, "tx_prio3_packets": Missing("N/A")}
    assert "node1/eth1 counts no packets of priority 3" in only(verdict(counts)).what


def test_packets_are_counted_both_ways_at_the_least() -> None:
    read = Sample(PAIR, "read_latency", "native 1", 0.0, 1.0, latencies=Histogram.of([1000] * 20))
    wrote = Sample(
        PAIR,
        "write_bandwidth",
        "native 1",
        0.0,
        1.0,
        numbers={"bytes": 4096 * 50 + 1},
        parameters={"path_mtu_bytes": 4096},
    )
    pulled = Sample(
        PAIR,
        "read_bandwidth",
        "native 1",
        0.0,
        1.0,
        numbers={"bytes": 9999},
        parameters={"path_mtu_bytes": 1},
    )
    found = took(read, wrote, pulled, loss(missing=3), loss(error="no answer"))
    assert found.sent == {ONE: 20 + 50 + SENT, TWO: 20}
    assert found.received == {TWO: 20 + 50 + SENT, ONE: 20}


@pytest.mark.parametrize("rules", [policy(), policy(LinkLayer.INFINIBAND, TrafficClass(priority=3, dscp=26))])
def test_there_is_nothing_to_prove_without_a_lossless_class_or_on_infiniband(rules: Policy) -> None:
    assert prove(fabric(), rules, took(loss()), {}, {}) == {}
    assert list(class_findings(PAIR, {}, required=False)) == []
    (asked,) = class_findings(PAIR, {}, required=True)
    assert (asked.outcome, bool(asked.next_step)) == (Outcome.UNKNOWN, True)


def test_no_packets_prove_nothing() -> None:
    held = readings(rode(3, 3, 3, 0), 0.0)
    pulled = Sample(PAIR, "read_bandwidth", "native 1", 0.0, 1.0, numbers={"bytes": 9999})
    proofs = prove(fabric(), LOSSLESS, took(pulled), held, held)
    assert {proof.outcome for of in proofs.values() for proof in of} == {Outcome.UNKNOWN}
    assert proofs[ONE][0].what == "node1/eth1: no packet of the probes is known to have passed there"


def test_what_was_counted_over_an_interruption_proves_nothing_but_may_fail() -> None:
    start = readings({port: dict.fromkeys(of, 0) for port, of in rode(3, 3, 3).items()}, 0.0)
    good = prove(fabric(), LOSSLESS, took(loss()), start, readings(rode(3, 3, 3), 60.0), resumed=True)
    (found,) = class_findings(PAIR, good, required=True)
    assert found.outcome is Outcome.UNKNOWN
    assert "of which jobs may have been since it was interrupted" in found.what
    bad = prove(fabric(), LOSSLESS, took(loss()), start, readings(rode(0, 0, 0), 60.0), resumed=True)
    assert next(iter(class_findings(PAIR, bad, required=False))).outcome is Outcome.FAIL


def test_back_to_back_nodes_have_no_switch_between_them() -> None:
    counts = {ONE: rode(3, 3, 3)[ONE], TWO: rode(3, 3, 3)[TWO]}
    found = verdict(counts, peer_role=Role.NODE, switch="mlx5")
    assert only(found).what.count("in priority 3") == 2
