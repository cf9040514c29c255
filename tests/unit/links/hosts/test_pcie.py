"""PCI Express links of NICs: rate, width, what both ends can, read requests and relaxed ordering."""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl.model.verdict import Outcome

PORT = "node1/eth1"
CABLE = "leaf1/Ethernet0"
ROOT = "pci0000:16/0000:16:02.0"
GEN4, GEN5 = "16.0 GT/s PCIe", "32.0 GT/s PCIe"


def one(hosts: Any, now: tuple[str, str], slot: tuple[str, str] = (GEN5, "16"), **more: Any) -> Any:
    """Return a node with one NIC in a slot."""
    node = hosts.node()
    node.pci(ROOT, "8086:352A", driver="pcieport", kind=4, now=now, most=slot)
    speed = more.pop("speed_gbps", 400)
    path = node.pci(f"{ROOT}/0000:17:00.0", now=now, **more)
    node.nic("eth1", path, "mlx5_0", rail=0, speed_gbps=speed)
    return node


def test_400_gb_s_need_x16_at_32_gt_s(hosts: Any) -> None:
    """The numbers: 32 GT/s x 16 x 128/130 = 504 Gb/s; the request is 128 << 5, relaxed ordering is bit 4."""
    one(hosts, (GEN5, "16"))
    (found,) = hosts.judge("pcie")
    assert found.what == (
        "0000:17:00.0 runs x16 at 32 GT/s, maximum read request 4096 bytes, relaxed ordering on: "
        "504 Gb/s for 400 Gb/s"
    )
    assert (found.measured, found.limit, found.subject) == ("504 Gb/s", ">= 400 Gb/s", f"{PORT} - {CABLE}")


def test_s47_narrower_than_both_ends_can(hosts: Any) -> None:
    one(hosts, (GEN5, "8"), speed_gbps=200)
    (found,) = hosts.judge("pcie")
    assert found.outcome is Outcome.FAIL
    assert found.what == "0000:17:00.0 runs x8 at 32 GT/s, it and 0000:16:02.0 can x16 at 32 GT/s"
    assert found.next_step.startswith("reseat the card, see lspci -vv -s 0000:17:00.0")
    assert (found.measured, found.limit, found.culprit) == ("x8 at 32 GT/s", "x16 at 32 GT/s", PORT)


def test_slower_than_both_ends_can(hosts: Any) -> None:
    one(hosts, ("8 GT/s", "16"), speed_gbps=100)
    assert [what for _, _, what in hosts.bad("pcie")] == [
        "0000:17:00.0 runs x16 at 8 GT/s, it and 0000:16:02.0 can x16 at 32 GT/s"
    ]


def test_a_slot_that_can_no_more_is_no_fault(hosts: Any) -> None:
    """A card for x16 at 32 GT/s in a slot of x16 at 16 GT/s: 252 Gb/s."""
    one(hosts, (GEN4, "16"), slot=(GEN4, "16"), speed_gbps=200)
    assert hosts.bad("pcie") == []


def test_a_slot_that_is_too_slow_for_the_port(hosts: Any) -> None:
    one(hosts, (GEN4, "16"), slot=(GEN4, "16"), speed_gbps=400)
    assert [(outcome, what) for outcome, _, what in hosts.bad("pcie")] == [
        (
            Outcome.FAIL,
            (
                "0000:17:00.0 runs x16 at 16 GT/s, maximum read request 4096 bytes, relaxed ordering on: "
                "252 Gb/s, less than the port's 400 Gb/s"
            ),
        )
    ]


def test_a_switch_s_uplink_counts_too(hosts: Any) -> None:
    """NIC, downstream port, upstream port, root port: the switch's link upwards has half the lanes."""
    node = hosts.node()
    up = f"{ROOT}/0000:17:00.0"
    node.pci(ROOT, "8086:352A", driver="pcieport", kind=4)
    node.pci(up, "1000:C030", driver="pcieport", kind=5, now=(GEN5, "8"))
    node.pci(f"{up}/0000:18:00.0", "1000:C030", driver="pcieport", kind=6)
    node.nic("eth1", node.pci(f"{up}/0000:18:00.0/0000:19:00.0"), "mlx5_0", rail=0, speed_gbps=200)
    (found,) = hosts.judge("pcie")
    assert found.what == "0000:17:00.0 runs x8 at 32 GT/s, it and 0000:16:02.0 can x16 at 32 GT/s"
    assert found.next_step.startswith("reseat the riser or switch board above the NIC")


def test_the_switch_within_a_card_is_not_judged(hosts: Any) -> None:
    """A BlueField's own bridges are of its vendor; the link to the slot is the upstream bridge's."""
    node = hosts.node()
    up = f"{ROOT}/0000:17:00.0"
    node.pci(ROOT, "8086:352A", driver="pcieport", kind=4)
    node.pci(up, "15B3:197B", driver="pcieport", kind=5)
    node.pci(f"{up}/0000:18:00.0", "15B3:197B", driver="pcieport", kind=6)
    inner = node.pci(f"{up}/0000:18:00.0/0000:19:00.0", "15B3:A2DC", now=(GEN4, "8"))
    node.nic("eth1", inner, "mlx5_0", rail=0)
    assert hosts.bad("pcie") == []


def test_s47_files_that_are_absent_are_read_from_configuration_space(hosts: Any) -> None:
    """Kernels before 4.13 have no current_link_speed; the registers are there: x8, code 3 = 8 GT/s."""
    one(hosts, (GEN5, "16"), status=3 | 8 << 4, speed_gbps=40)
    for name in ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width"):
        hosts.nodes[0].remove(f"/sys/devices/{ROOT}/0000:17:00.0/{name}")
    assert [what for _, _, what in hosts.bad("pcie")] == [
        "0000:17:00.0 runs x8 at 8 GT/s, it and 0000:16:02.0 can x16 at 32 GT/s"
    ]


def test_s47_nothing_to_be_read_is_unknown(hosts: Any) -> None:
    one(hosts, (GEN5, "16"), space=64)
    for name in ("current_link_speed", "current_link_width"):
        hosts.nodes[0].remove(f"/sys/devices/{ROOT}/0000:17:00.0/{name}")
    assert hosts.bad("pcie") == [
        (
            Outcome.UNKNOWN,
            f"{PORT} - {CABLE}",
            "the configuration space of 0000:17:00.0 can only be read by root",
        )
    ]


def test_a_device_that_fell_off_the_bus_is_unknown(hosts: Any) -> None:
    one(hosts, ("Unknown", "63"))
    assert [(o, w) for o, _, w in hosts.bad("pcie")] == [
        (Outcome.UNKNOWN, "0000:17:00.0 does not answer on the bus any more")
    ]


def test_odd_contents_are_unknown(hosts: Any) -> None:
    one(hosts, ("sixteen", "16"))
    assert [(o, w) for o, _, w in hosts.bad("pcie")] == [(Outcome.UNKNOWN, "unparsable: 'sixteen', '16'")]


def test_s48_a_virtual_function_has_the_link_of_its_physical_one(hosts: Any) -> None:
    node = one(hosts, (GEN5, "8"), speed_gbps=200)
    node.ports.clear()
    path = node.pci(f"{ROOT}/0000:17:00.2", "15B3:101E", now=("Unknown", "0"), express=False)
    node.link(f"{path}/physfn", f"/sys/devices/{ROOT}/0000:17:00.0")
    node.nic("eth1v0", path, "mlx5_2", rail=0, speed_gbps=200)
    assert [what for _, _, what in hosts.bad("pcie")] == [
        "0000:17:00.0 runs x8 at 32 GT/s, it and 0000:16:02.0 can x16 at 32 GT/s"
    ]


def test_a_virtual_function_in_a_guest_has_none(hosts: Any) -> None:
    node = hosts.node()
    node.nic("eth1", node.pci("pci0000:00/0000:00:05.0", "15B3:101E", now=("Unknown", "0")), "mlx5_0")
    assert hosts.told("pcie") == [
        "0000:00:05.0 shows no link of its own: a virtual function or a virtual device"
    ]


def test_a_card_given_to_a_guest_is_not_measured_by_a_slot_that_qemu_made_up(hosts: Any) -> None:
    """QEMU's root port (1b36:000c) says x32 at 16 GT/s whatever the slot is."""
    node = hosts.node()
    port = node.pci("pci0000:00/0000:00:02.0", "1B36:000C", kind=4, most=(GEN4, "32"))
    card = node.pci("pci0000:00/0000:00:02.0/0000:01:00.0", now=(GEN4, "8"))
    assert port
    node.nic("eth1", card, "mlx5_0", speed_gbps=100)
    assert hosts.bad("pcie") == []


def test_a_bond_s_members_in_two_slots_add_up(hosts: Any) -> None:
    node = hosts.node()
    for number in (0, 1):
        bridge = f"pci0000:{number}0/0000:{number}0:01.0"
        node.pci(bridge, "8086:352A", driver="pcieport", kind=4, most=(GEN4, "16"))
        path = node.pci(f"{bridge}/0000:{number}1:00.0", now=(GEN4, "16"))
        node.link(f"/sys/class/net/eth{number}/device", path)
    node.write("/sys/class/net/bond0/bonding/slaves", "eth0 eth1")
    node.port("bond0", "mlx5_bond_0", speed_gbps=400)
    (said,) = hosts.told("pcie")
    assert said.endswith(": 504 Gb/s for 400 Gb/s")


def test_a_port_that_is_not_there(hosts: Any) -> None:
    hosts.node().port("eth9", "mlx5_9")
    assert [(o, w) for o, _, w in hosts.bad("pcie")] == [
        (Outcome.UNKNOWN, "there is no network interface or verbs device eth9")
    ]


@pytest.mark.parametrize(
    ("rules", "control", "what", "step"),
    [
        (
            {"max_read_request_bytes": 4096},
            0x2936,
            "the maximum read request of 0000:17:00.0 is 512 bytes, not 4096",
            "setpci -s 0000:17:00.0 CAP_EXP+8.w=5000:7000 until the next boot; for good in the BIOS",
        ),
        (
            {"max_read_request_bytes": 512},
            0x5936,
            "the maximum read request of 0000:17:00.0 is 4096 bytes, not 512",
            "setpci -s 0000:17:00.0 CAP_EXP+8.w=2000:7000 until the next boot; for good in the BIOS",
        ),
        (
            {"relaxed_ordering": "on"},
            0x5926,
            "relaxed ordering of 0000:17:00.0 is off, not on",
            "setpci -s 0000:17:00.0 CAP_EXP+8.w=0010:0010 until the next boot; for good in the BIOS",
        ),
        (
            {"relaxed_ordering": "off"},
            0x5936,
            "relaxed ordering of 0000:17:00.0 is on, not off",
            "setpci -s 0000:17:00.0 CAP_EXP+8.w=0000:0010 until the next boot; for good in the BIOS",
        ),
    ],
)
def test_what_the_policy_asks_of_device_control(
    hosts: Any, rules: dict[str, Any], control: int, what: str, step: str
) -> None:
    one(hosts, (GEN5, "16"), control=control)
    assert hosts.bad("pcie") == []
    hosts.policy(**rules)
    (found,) = hosts.judge("pcie")
    assert (found.outcome, found.what, found.next_step) == (Outcome.FAIL, what, step)


def test_what_the_policy_asks_of_device_control_and_cannot_be_read(hosts: Any) -> None:
    one(hosts, (GEN5, "16"), space=64)
    assert hosts.told("pcie") == ["0000:17:00.0 runs x16 at 32 GT/s: 504 Gb/s for 400 Gb/s"]
    hosts.policy(relaxed_ordering="on")
    assert [(o, w) for o, _, w in hosts.bad("pcie")] == [
        (
            Outcome.UNKNOWN,
            "device control: the configuration space of 0000:17:00.0 can only be read by root",
        )
    ]


def test_each_fault_is_a_finding_of_its_own(hosts: Any) -> None:
    one(hosts, (GEN4, "8"), control=0x2936)
    hosts.policy(max_read_request_bytes=4096)
    narrow, request, slow = (what for _, _, what in hosts.bad("pcie"))
    assert narrow == "0000:17:00.0 runs x8 at 16 GT/s, it and 0000:16:02.0 can x16 at 32 GT/s"
    assert request == "the maximum read request of 0000:17:00.0 is 512 bytes, not 4096"
    assert slow.endswith(": 126 Gb/s, less than the port's 400 Gb/s")


def test_a_speed_that_the_kernel_has_no_name_for_is_read_from_configuration_space(hosts: Any) -> None:
    """A kernel from before 32 GT/s; the status register has code 5 and 8 lanes."""
    one(hosts, ("Unknown", "8"), status=5 | 8 << 4, speed_gbps=200)
    assert [what for _, _, what in hosts.bad("pcie")] == [
        "0000:17:00.0 runs x8 at 32 GT/s, it and 0000:16:02.0 can x16 at 32 GT/s"
    ]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"space": 64}, "the configuration space of 0000:17:00.0 can only be read by root"),
        ({"status": 15 | 8 << 4}, "the speed of the link of 0000:17:00.0 is 'Unknown' to the kernel"),
        ({"express": False}, "the speed of the link of 0000:17:00.0 is 'Unknown' to the kernel"),
    ],
)
def test_a_speed_that_nobody_knows_is_unknown(hosts: Any, more: dict[str, Any], why: str) -> None:
    one(hosts, ("Unknown", "16"), **more)
    assert [(o, w) for o, _, w in hosts.bad("pcie")] == [(Outcome.UNKNOWN, why)]
