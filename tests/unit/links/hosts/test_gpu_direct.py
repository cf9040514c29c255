"""Ways to the memory of GPUs.

The first lines of /proc/driver/nvidia/version are what NVIDIA's drivers print, as public reports quote them.
"""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl.model.verdict import Outcome

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.58.02  Release Build  (dvs-builder)"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023"
PEERS = "/sys/kernel/mm/memory_peers"


def gpus(hosts: Any, version: str = CLOSED, ids: str = "10DE:2330", pci_class: str = "0x030200") -> Any:
    """Return a server with one GPU."""
    node = hosts.server()
    node.pci("pci0000:60/0000:60:01.0/0000:61:00.0", ids, driver="nvidia", pci_class=pci_class)
    node.write("/sys/module/nvidia/refcnt", "1")
    node.write("/proc/driver/nvidia/version", f"{version}\nGCC version:  gcc version 12.3.0")
    return node


def registered(node: Any, client: str = "nv_mem") -> None:
    node.write("/sys/module/nvidia_peermem/refcnt", "0")
    node.write(f"{PEERS}/{client}/version", "1.3")


@pytest.mark.parametrize("client", ["nv_mem", "nv_mem_nc", "nvidia-peermem"])
def test_loaded_and_registered(hosts: Any, client: str) -> None:
    registered(gpus(hosts), client)
    hosts.policy(gpu_direct="peermem")
    assert hosts.told("gpu_direct") == [
        (
            f"1 GPU; peer memory is registered with ib_core as {client}; "
            "dma-buf: NVIDIA's module is not the open one; the policy asks for peermem"
        )
    ]


def test_s52_loaded_but_not_registered_with_ib_core(hosts: Any) -> None:
    node = gpus(hosts)
    node.write("/sys/module/nvidia_peermem/refcnt", "0")
    (node.root / PEERS.lstrip("/")).mkdir(parents=True)
    hosts.policy(gpu_direct="peermem")
    (found,) = hosts.judge("gpu_direct")
    assert found.outcome is Outcome.FAIL
    assert "nvidia_peermem is loaded, but not registered with ib_core" in found.what
    assert found.next_step.startswith(
        "modprobe -r nvidia_peermem, then modprobe nvidia_peermem after the RDMA"
    )


def test_s52_loaded_where_ib_core_keeps_no_list_is_not_known(hosts: Any) -> None:
    gpus(hosts).write("/sys/module/nvidia_peermem/refcnt", "0")
    hosts.policy(gpu_direct="peermem")
    assert [outcome for outcome, _, _ in hosts.bad("gpu_direct")] == [Outcome.UNKNOWN]


def test_s52_neither_module_is_loaded_and_dma_buf_is_there(hosts: Any) -> None:
    """Module present is not the same as active: with dma-buf none is needed."""
    gpus(hosts, OPEN)
    hosts.policy(gpu_direct="peermem")
    assert [outcome for outcome, _, _ in hosts.bad("gpu_direct")] == [Outcome.FAIL]
    for way in ("dmabuf", "either"):
        hosts.policy(gpu_direct=way)
        assert hosts.told("gpu_direct") == [
            (
                "1 GPU; neither nvidia_peermem nor nv_peer_mem is loaded; "
                f"dma-buf is possible: kernel 6.8.0-45-generic, NVIDIA's open module; "
                f"the policy asks for {way}"
            )
        ]


@pytest.mark.parametrize(
    ("kernel", "outcome"),
    [
        ("5.11.0-27-generic", Outcome.FAIL),
        ("4.18.0-477.el8.x86_64", Outcome.UNKNOWN),
        ("5.12.0", Outcome.PASS),
        ("10.0.1", Outcome.PASS),
        ("odd", Outcome.UNKNOWN),
    ],
)
def test_dma_buf_needs_a_kernel(hosts: Any, kernel: str, outcome: Outcome) -> None:
    gpus(hosts, OPEN).write("/proc/sys/kernel/osrelease", kernel)
    hosts.policy(gpu_direct="dmabuf")
    assert [finding.outcome for finding in hosts.judge("gpu_direct")] == [outcome]


def test_dma_buf_with_amd(hosts: Any) -> None:
    node = gpus(hosts, ids="1002:74A1", pci_class="0x120000")
    hosts.policy(gpu_direct="dmabuf")
    assert len(hosts.bad("gpu_direct")) == 1
    node.write("/sys/module/amdgpu/refcnt", "1")
    assert hosts.bad("gpu_direct") == []


def test_none_means_none(hosts: Any) -> None:
    node = gpus(hosts)
    hosts.policy(gpu_direct="none")
    assert hosts.bad("gpu_direct") == []
    registered(node)
    assert [outcome for outcome, _, _ in hosts.bad("gpu_direct")] == [Outcome.FAIL]


def test_any_only_tells(hosts: Any) -> None:
    gpus(hosts)
    assert hosts.told("gpu_direct") == [
        (
            "1 GPU; neither nvidia_peermem nor nv_peer_mem is loaded; "
            "dma-buf: NVIDIA's module is not the open one"
        )
    ]


@pytest.mark.parametrize(
    ("ids", "pci_class"), [("1A03:2000", "0x030000"), ("102B:0538", "0x030000"), ("8086:56A0", "0x030000")]
)
def test_the_display_of_a_server_s_management_is_no_gpu(hosts: Any, ids: str, pci_class: str) -> None:
    gpus(hosts, ids=ids, pci_class=pci_class)
    hosts.policy(gpu_direct="peermem")
    assert hosts.told("gpu_direct") == ["there is no GPU among its PCI devices"]
