"""Members of bonds, and verbs devices that are not of the fabric."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from fabricctl.model import facts
from fabricctl.model.fabric import Role
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder

BONDS = "bond members"
DEVICES = "verbs devices"


def bond(*members: tuple[str, str, str, int]) -> str:
    """Return /proc/net/bonding/NAME, documented in the kernel's networking/bonding.rst."""
    head = (
        "== eth1\nEthernet Channel Bonding Driver: v6.1.0\n\nBonding Mode: IEEE 802.3ad\nMII Status: up\n\n"
    )
    parts = (
        f"Slave Interface: {name}\nMII Status: {status}\nSpeed: {speed}\nDuplex: full\n"
        f"Link Failure Count: {failures}\nPermanent HW addr: 52:54:00:00:00:01\n"
        for name, status, speed, failures in members
    )
    return head + "\n".join(parts)


GOOD = (("ens1f0", "up", "200000 Mbps", 2), ("ens1f1", "up", "200000 Mbps", 0))


def test_a_fabric_without_bonds_has_nothing_to_judge(site: Any) -> None:
    for name in site.seen:
        site.answer(name, BONDS, "")
    assert site.judge("bonds") == ()


def test_members_that_are_up_and_alike_pass(site: Any) -> None:
    site.answer("node1", BONDS, bond(*GOOD), later=bond(*GOOD))
    (found,) = site.judge("bonds")
    assert (found.outcome, found.subject) == (Outcome.PASS, "node1/eth1")
    assert found.what == "ens1f0, ens1f1: all up, each 200000 Mbps"


def test_s50_a_member_that_is_down_fails(site: Any) -> None:
    site.answer("node1", BONDS, bond(GOOD[0], ("ens1f1", "down", "Unknown", 1)))
    assert site.bad("bonds") == [(Outcome.FAIL, "node1/eth1", "member ens1f1 of node1/eth1 is down")]


def test_s50_members_of_unlike_speed_fail(site: Any) -> None:
    site.answer("node1", BONDS, bond(GOOD[0], ("ens1f1", "up", "100000 Mbps", 0)))
    assert [what for _, _, what in site.bad("bonds")] == [
        "the members of node1/eth1 are not of one speed: ens1f0 200000 Mbps, ens1f1 100000 Mbps"
    ]


def test_a_member_that_fails_while_it_is_watched(site: Any) -> None:
    after = (("ens1f0", "up", "200000 Mbps", 5), GOOD[1])
    site.answer("node1", BONDS, bond(*GOOD), later=bond(*after))
    assert [what for _, _, what in site.bad("bonds")] == [
        "member ens1f0 of node1/eth1 lost its link 3 times in 10.0 s"
    ]


def test_a_bond_without_members_fails(site: Any) -> None:
    site.answer("node1", BONDS, bond())
    assert site.bad("bonds") == [(Outcome.FAIL, "node1/eth1", "node1/eth1 is a bond without members")]


def test_members_that_the_kernel_does_not_tell_are_unknown(site: Any) -> None:
    site.fact("node1/eth1", facts.FUNCTIONS, ("ens1f0", "ens1f1"))
    assert [outcome for outcome, _, _ in site.bad("bonds")] == [Outcome.UNKNOWN]


def test_s40_a_foreign_port_is_a_note_and_no_alarm(site: Any) -> None:
    for n in (1, 2, 3, 4):
        site.answer(f"node{n}", DEVICES, "rdma0|4: ACTIVE|eth1\nrdma1|4: ACTIVE|eth2\n")
    assert site.notes("foreign") == []
    site.answer("node1", DEVICES, "rdma0|4: ACTIVE|eth1\nrdma1|4: ACTIVE|eth2\nrdma7|4: ACTIVE|eth0\n")
    site.answer("node2", DEVICES, "rdma0|4: ACTIVE|eth1\nrdma1|4: ACTIVE|eth2\nrdma7|1: DOWN|eth0\n")
    assert site.bad("foreign") == []
    assert site.notes("foreign") == [
        (
            "node1",
            (
                "rdma7 on eth0 is active and not of the fabric: jobs must be kept off, as with "
                "NCCL_IB_HCA==rdma0,rdma1"
            ),
            "set NCCL_IB_HCA==rdma0,rdma1, or name the device in the inventory",
        )
    ]


def test_s40_a_foreign_port_is_in_no_other_check(site: Any) -> None:
    subjects = {f.subject for name in ("link_state", "mtu", "counters", "gids") for f in site.judge(name)}
    assert not [subject for subject in subjects if "eth0" in subject]


def test_s55_a_device_that_is_not_there_fails(site: Any) -> None:
    for n in (1, 2, 3, 4):
        site.answer(f"node{n}", DEVICES, "rdma0|4: ACTIVE|eth1\nrdma1|4: ACTIVE|eth2\n")
    site.answer("node1", DEVICES, "rdma0|4: ACTIVE|eth1\n")
    site.answer("node2", DEVICES, "")
    assert site.bad("foreign") == [
        (Outcome.FAIL, "node1", "there is no verbs device rdma1: it has rdma0"),
        (Outcome.FAIL, "node2", "there is no verbs device rdma0, rdma1: it has none at all"),
    ]


def test_devices_that_a_node_does_not_tell_are_unknown(site: Any) -> None:
    assert {(outcome, what) for outcome, _, what in site.bad("foreign")} == {
        (Outcome.UNKNOWN, "which verbs devices it has is not known: not asked")
    }


def test_the_scripts_run_in_a_plain_shell(site: Any, tmp_path: Path) -> None:
    device = site.fabric.device("node1")
    for name in ("flaps", "gids", "neighbours", "bonds", "foreign"):
        for query in finder.link_check(name).queries(device):
            ran = subprocess.run(
                query.argv,
                capture_output=True,
                check=False,
                cwd=tmp_path,
                env={"PATH": os.environ["PATH"]},
                text=True,
                timeout=20,
            )
            assert "yntax error" not in ran.stderr, (name, ran.stderr)
            assert "not found" not in ran.stderr.replace("ip: not found", ""), (name, ran.stderr)


def test_a_member_that_lacp_has_not_joined_fails(site: Any) -> None:
    # made by hand after networking/bonding.rst, "Aggregator ID" of each member in mode 802.3ad
    said = bond(*GOOD).replace("Permanent", "Aggregator ID: 1\nPermanent")
    site.answer("node1", BONDS, said)
    assert site.bad("bonds") == []
    site.answer("node1", BONDS, said[::-1].replace("1 :DI rotagerggA", "2 :DI rotagerggA", 1)[::-1])
    assert site.bad("bonds") == [
        (
            Outcome.FAIL,
            "node1/eth1",
            (
                "LACP has not joined the members of node1/eth1 to one: ens1f0 is in aggregator 1, "
                "ens1f1 is in aggregator 2"
            ),
        )
    ]


def test_a_bond_of_which_not_all_is_told_is_not_known(site: Any) -> None:
    site.answer("node1", BONDS, f"{bond(*GOOD).partition('ens1f1')[0]}ens1f1\n")
    assert [outcome for outcome, _, _ in site.bad("bonds")] == [Outcome.UNKNOWN]
    site.answer("node1", BONDS, "== eth1\n")
    assert [outcome for outcome, _, _ in site.bad("bonds")] == [Outcome.UNKNOWN]


def test_what_would_upset_a_terminal_is_no_device(site: Any) -> None:
    for n in (1, 2, 3, 4):
        site.answer(
            f"node{n}", DEVICES, "rdma0|4: ACTIVE|eth1\nrdma1|4: ACTIVE|eth2\n\x1b]0;x\x07|4: ACTIVE|\n"
        )
    assert {f.what for f in site.judge("foreign")} == {
        "it has rdma0, rdma1, and no other verbs device is active"
    }


def test_two_ports_of_one_device_are_that_device(site: Any) -> None:
    site.fabric = replace(
        site.fabric,
        devices=tuple(
            replace(d, ports=tuple(replace(p, rdma=f"mlx5_0/{(p.rail or 0) + 1}") for p in d.ports))
            if d.role is Role.NODE
            else d
            for d in site.fabric.devices
        ),
    )
    for n in (1, 2, 3, 4):
        site.answer(f"node{n}", DEVICES, "mlx5_0|4: ACTIVE|eth1\n")
    assert {(f.outcome, f.what) for f in site.judge("foreign")} == {
        (Outcome.PASS, "it has mlx5_0, and no other verbs device is active")
    }
