"""What a real driver wants, read back just so, fails no check: an apply ends where plan is content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fabricctl import inventory, resources
from fabricctl.apply.intent import intents
from fabricctl.inventory.policy import read_policy
from fabricctl.model import facts
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Policy, TrafficClass, Watchdog
from fabricctl.model.reading import DeviceReading, Entry, Known, PortReading
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.holding import driver_of

POLICIES = sorted((resources.folder("inventories") / "policies").glob("*.yml"))
CHECKS = ("agreement", "chain", "headroom", "watchdog")


def as_wanted(fabric: Fabric, policy: Policy) -> dict[str, DeviceReading]:
    """Return readings that hold what each driver wants, and the facts that go with it."""
    meant = intents(fabric, policy)
    readings = {}
    for device in fabric.devices:
        driver = driver_of(device)
        ports = {}
        for port in device.ports:
            wanted = driver.wanted(meant[port.id]).items()
            held: dict[str, Entry] = {k: Known(v) for k, v in wanted if k not in driver.unsupported}
            known: dict[str, Entry] = {
                facts.SPEED: Known(1000 * (meant[port.id].speed_gbps or 100)),
                facts.LINK_STATE: Known("up"),
                facts.RDMA_MTU: Known(4096),
                facts.HEADROOM: Known((0, 0, 0, 300_000, 0, 0, 0, 0)),
            }
            ports[port.id] = PortReading(port.id, held, known)
        readings[device.name] = DeviceReading(device.name, 1.0, ports)
    return readings


def judged(fabric: Fabric, policy: Policy) -> tuple[Finding, ...]:
    readings, meant = as_wanted(fabric, policy), intents(fabric, policy)
    return tuple(f for name in CHECKS for f in finder.check(name).judge(fabric, policy, meant, readings))


def pair(nic: str, switch: str) -> Fabric:
    """Return a node on a leaf, and that leaf on a spine of its own kind."""
    ends = [PortId.parse(name) for name in ("leaf1/p1", "node1/eth1", "leaf1/p2", "spine1/p1")]
    ports = {end: Port(end, speed_gbps=100) for end in ends}
    at = Endpoint("192.0.2.1")
    devices = (
        Device("node1", Role.NODE, nic, at, (ports[ends[1]],)),
        Device("leaf1", Role.SWITCH, switch, at, (ports[ends[0]], ports[ends[2]])),
        Device("spine1", Role.SWITCH, switch, at, (ports[ends[3]],)),
    )
    return Fabric(devices, (Link(ends[0], ends[1], 3.0), Link(ends[2], ends[3], 30.0)))


@pytest.mark.parametrize("path", [p for p in POLICIES if p.stem != "infiniband"], ids=lambda path: path.stem)
@pytest.mark.parametrize("switch", finder.names("switch driver"))
@pytest.mark.parametrize("nic", finder.names("NIC driver"))
def test_no_shipped_policy_fails_on_any_pair_of_systems(nic: str, switch: str, path: Path) -> None:
    found = judged(pair(nic, switch), read_policy(path))

    assert [f for f in found if f.outcome is Outcome.FAIL] == []
    assert any(f.outcome is Outcome.PASS and f.check == "agreement" for f in found)


@pytest.mark.parametrize("switch", finder.names("switch driver"))
@pytest.mark.parametrize(
    ("lossless", "cnp", "pfc"),
    [
        (TrafficClass(4, 34), TrafficClass(7, 56), (4,)),
        (TrafficClass(5, 46), TrafficClass(2, 18), (5, 1)),
        (TrafficClass(3, 24), TrafficClass(6, 48), ()),
    ],
)
def test_nor_do_policies_with_other_classes(
    policy: Policy, switch: str, lossless: TrafficClass, cnp: TrafficClass, pfc: tuple[int, ...]
) -> None:
    """Priority 1 with PFC has no DSCP: the offline check says so; what was read is as it is meant."""
    changed = replace(
        policy,
        lossless=lossless,
        cnp=cnp,
        pfc_priorities=tuple(sorted(pfc)),
        watchdog=Watchdog(poll_ms=130, detect_ms=300, restore_ms=500),
        ecn={0: EcnProfile(100_000, 400_000, 20)},
    )
    found = [f for f in judged(pair("mlx5", switch), changed) if f.outcome is Outcome.FAIL]
    # The made-up headroom is on priority 3 alone.
    assert [f for f in found if f.check != "headroom"] == []


def test_the_mixed_pod_passes_when_it_is_read_as_wanted() -> None:
    fabric, policy = inventory.read(resources.folder("inventories") / "mixed-pod.yml")

    found = judged(fabric, policy)

    assert {device.driver for device in fabric.devices} == {"mlx5", "bnxt", "sonic", "eos", "nxos", "cumulus"}
    assert [f for f in found if f.outcome is Outcome.FAIL] == []
    links = [f for f in found if f.check == "agreement" and f.outcome is Outcome.PASS]
    assert len(links) >= 8


def test_infiniband_with_a_driver_is_left_to_its_subnet_manager(policy: Policy) -> None:
    fabric = pair("mlx5", "linux")
    ports = {
        d.name: tuple(replace(p, link_layer=LinkLayer.INFINIBAND) for p in d.ports) for d in fabric.devices
    }
    devices = tuple(replace(d, ports=ports[d.name]) for d in fabric.devices)
    found = judged(Fabric(devices, fabric.links), replace(policy, link_layer=LinkLayer.INFINIBAND))
    assert [f for f in found if f.outcome is Outcome.FAIL] == []
