"""NUMA nodes of NICs and the CPUs that serve their interrupts."""

from __future__ import annotations

from typing import Any

from fabricctl.model.verdict import Outcome

PCI = "pci0000:c0/0000:c0:01.0/0000:c1:00.0"
NODE_1 = "16-31"


def two_sockets(hosts: Any, served: dict[int, str], numa: int = 1) -> Any:
    """Return a node with two NUMA nodes and a NIC at one; its interrupts with the CPU that serves each."""
    node = hosts.node()
    node.write("/sys/devices/system/node/online", "0-1")
    path = node.pci(PCI, numa=numa, cpus=NODE_1 if numa == 1 else "0-31")
    for irq, cpu in served.items():
        node.write(f"{path}/msi_irqs/{irq}", "msix")
        node.write(f"/proc/irq/{irq}/mlx5_comp{irq}@pci:0000:c1:00.0/x", "")
        node.write(f"/proc/irq/{irq}/smp_affinity_list", "0-31")
        node.write(f"/proc/irq/{irq}/effective_affinity_list", cpu)
    node.nic("eth1", path, "mlx5_0", rail=0)
    return node


def test_all_at_home(hosts: Any) -> None:
    two_sockets(hosts, {80: "16", 81: "17", 82: "31"})
    hosts.policy(numa_affinity=True)
    assert hosts.told("numa") == ["all 3 interrupts are served by CPUs of NUMA node 1 (16-31)"]


def test_one_elsewhere_fails_if_the_policy_minds(hosts: Any) -> None:
    node = two_sockets(hosts, {80: "16", 81: "3", 82: "31"})
    node.process(500, "irqbalance")
    hosts.policy(numa_affinity=True)
    (found,) = hosts.judge("numa")
    assert found.outcome is Outcome.FAIL
    assert found.what == (
        "1 of 3 interrupts are not served by CPUs of NUMA node 1 (16-31) alone: interrupt 81 by CPU 3; "
        "irqbalance runs"
    )
    assert found.next_step == (
        "stop irqbalance (systemctl disable --now irqbalance), then echo 16-31 > "
        "/proc/irq/81/smp_affinity_list, and so on; or set_irq_affinity_bynode.sh 1 eth1"
    )
    assert (found.measured, found.limit, found.culprit) == ("1 of 3 elsewhere", "0 elsewhere", "node1/eth1")


def test_one_elsewhere_is_told_if_it_does_not(hosts: Any) -> None:
    two_sockets(hosts, {80: "3"})
    assert hosts.told("numa") == [
        "1 of 1 interrupts are not served by CPUs of NUMA node 1 (16-31) alone: interrupt 80 by CPU 3"
    ]


def test_an_interrupt_without_a_handler_does_not_count(hosts: Any) -> None:
    node = two_sockets(hosts, {80: "16"})
    node.write(f"/sys/devices/{PCI}/msi_irqs/81", "msix")
    node.write("/proc/irq/81/smp_affinity_list", "0-31")
    hosts.policy(numa_affinity=True)
    assert hosts.told("numa") == ["all 1 interrupts are served by CPUs of NUMA node 1 (16-31)"]


def test_without_an_effective_list_the_allowed_cpus_count(hosts: Any) -> None:
    node = two_sockets(hosts, {80: "16"})
    node.remove("/proc/irq/80/effective_affinity_list")
    hosts.policy(numa_affinity=True)
    assert [what for _, _, what in hosts.bad("numa")] == [
        "1 of 1 interrupts are not served by CPUs of NUMA node 1 (16-31) alone: interrupt 80 by CPU 0-31"
    ]


def test_firmware_that_does_not_say_the_node(hosts: Any) -> None:
    two_sockets(hosts, {80: "16"}, numa=-1)
    said = "the firmware does not say at which of 2 NUMA nodes 0000:c1:00.0 is"
    assert hosts.told("numa") == [said]
    hosts.policy(numa_affinity=True)
    assert [(o, w) for o, _, w in hosts.bad("numa")] == [(Outcome.UNKNOWN, said)]


def test_no_interrupts_are_no_proof(hosts: Any) -> None:
    two_sockets(hosts, {})
    assert len(hosts.told("numa")) == 1
    hosts.policy(numa_affinity=True)
    assert [(o, w) for o, _, w in hosts.bad("numa")] == [
        (Outcome.UNKNOWN, "at NUMA node 1; no interrupt of it that is in use was found")
    ]


def test_odd_lists(hosts: Any) -> None:
    two_sockets(hosts, {80: "0-999999999999"})
    assert [(o, w) for o, _, w in hosts.bad("numa")] == [
        (Outcome.UNKNOWN, "unparsable: '0-999999999999' is no list of CPUs")
    ]
