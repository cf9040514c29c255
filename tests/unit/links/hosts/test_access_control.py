"""ACS of the bridges above NICs and GPUs."""

from __future__ import annotations

from typing import Any

from fabricctl.model.verdict import Outcome

ROOT = "pci0000:16/0000:16:02.0"
UP = f"{ROOT}/0000:17:00.0"
ON, VALIDATED_ONLY, OFF = 0x1D, 0x01, 0x00


def machine(hosts: Any, root: int | None, switch: int | None, *, gpu: bool = True, **more: Any) -> Any:
    """Return a node with a NIC and a GPU below one PCIe switch; the registers of its bridges."""
    node = hosts.node()
    node.pci(ROOT, "8086:352A", driver="pcieport", kind=4, acs=root, **more)
    node.pci(UP, "1000:C030", driver="pcieport", kind=5)
    for number in (0, 1):
        node.pci(f"{UP}/0000:18:0{number}.0", "1000:C030", driver="pcieport", kind=6, acs=switch)
    node.nic("eth1", node.pci(f"{UP}/0000:18:00.0/0000:19:00.0"), "mlx5_0", rail=0)
    if gpu:
        node.pci(f"{UP}/0000:18:01.0/0000:1a:00.0", "10DE:2330", driver="nvidia", pci_class="0x030200")
    return node


def test_off_everywhere(hosts: Any) -> None:
    machine(hosts, OFF, OFF)
    hosts.policy(acs="off")
    assert hosts.told("access_control") == ["ACS redirects at 0 of 4 bridges above NICs and GPUs, 3 have ACS"]


def test_s53_the_bios_says_off_and_a_switch_s_bridges_are_still_on(hosts: Any) -> None:
    machine(hosts, OFF, ON)
    hosts.policy(acs="off")
    (found,) = hosts.judge("access_control")
    assert found.outcome is Outcome.FAIL
    assert found.what == (
        "ACS redirects at 2 of 4 bridges above NICs and GPUs (0000:18:00.0, 0000:18:01.0), "
        "the policy says off"
    )
    assert found.next_step == (
        "turn ACS off in the BIOS; what stays on, at each boot: setpci -s 0000:18:00.0 ECAP_ACS+6.w=0000 "
        "and so on"
    )
    assert found.culprit == "node1"


def test_source_validation_alone_redirects_nothing(hosts: Any) -> None:
    machine(hosts, VALIDATED_ONLY, VALIDATED_ONLY)
    hosts.policy(acs="off")
    assert hosts.bad("access_control") == []


def test_s53_any_tells_it_where_there_is_a_gpu(hosts: Any) -> None:
    machine(hosts, ON, ON)
    (found,) = hosts.judge("access_control")
    assert (found.outcome, found.measured) == (Outcome.PASS, "3 redirect")
    assert found.what.endswith("; GPU-direct through a PCIe switch is slower for it")
    assert found.next_step.startswith("turn ACS off in the BIOS")


def test_any_without_a_gpu_says_no_more_than_what_it_is(hosts: Any) -> None:
    machine(hosts, ON, ON, gpu=False)
    (found,) = hosts.judge("access_control")
    assert found.what == "ACS redirects at 2 of 3 bridges above NICs and GPUs, 2 have ACS"
    assert found.next_step == ""


def test_on_is_asked_for_and_one_bridge_is_off(hosts: Any) -> None:
    machine(hosts, ON, OFF)
    hosts.policy(acs="on")
    assert [(o, w) for o, _, w in hosts.bad("access_control")] == [
        (
            Outcome.FAIL,
            (
                "ACS does not redirect at 2 of 4 bridges above NICs and GPUs (0000:18:00.0, 0000:18:01.0), "
                "the policy says on"
            ),
        )
    ]


def test_registers_that_only_root_can_read(hosts: Any) -> None:
    machine(hosts, ON, ON, space=64)
    hosts.policy(acs="off")
    assert hosts.bad("access_control") == [
        (Outcome.UNKNOWN, "node1", "the configuration space of 0000:16:02.0 can only be read by root")
    ]
    hosts.policy(acs="any")
    assert hosts.bad("access_control") == []


def test_a_kernel_that_shows_no_extended_space(hosts: Any) -> None:
    machine(hosts, ON, ON, space=256)
    hosts.policy(acs="off")
    assert [(o, w) for o, _, w in hosts.bad("access_control")] == [
        (Outcome.UNKNOWN, "only 256 bytes of the configuration space of 0000:16:02.0 can be read")
    ]


def test_a_loop_of_capabilities_ends(hosts: Any) -> None:
    node = machine(hosts, ON, ON)
    config = node.root / f"sys/devices/{ROOT}/config"
    space = bytearray(config.read_bytes())
    space[0x100:0x104] = (0x0001 | 2 << 16 | 0x100 << 20).to_bytes(4, "little")
    config.write_bytes(space)
    hosts.policy(acs="off")
    assert len(hosts.bad("access_control")) == 1
