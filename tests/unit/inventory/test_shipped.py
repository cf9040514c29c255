"""Every inventory and policy that is shipped loads and is sound."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fabricctl import inventory, resources
from fabricctl.cli import check
from fabricctl.inventory.policy import read_policy
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.policy import DscpMap, EcnProfile, LatencyLimit, LossLimit, Stance, TrafficClass

SHIPPED = resources.folder("inventories")
INVENTORIES = [*sorted(SHIPPED.glob("*.yml")), SHIPPED / "starter" / "inventory.yml"]
POLICIES = [*sorted((SHIPPED / "policies").glob("*.yml")), SHIPPED / "starter" / "policy.yml"]


def test_there_are_as_many_as_the_manual_says() -> None:
    assert [path.name for path in INVENTORIES] == [
        "infiniband-pod.yml",
        "lab.yml",
        "mixed-pod.yml",
        "roce-pod.yml",
        "inventory.yml",
    ]
    assert [path.name for path in POLICIES] == [
        "infiniband.yml",
        "lab.yml",
        "lossless-roce.yml",
        "pfc-only.yml",
        "policy.yml",
    ]


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_check_passes_for_every_shipped_inventory(path: Path) -> None:
    result = CliRunner().invoke(check.command, [str(path)])

    assert result.output.splitlines()[-1] == "outcome: pass"
    assert result.exit_code == 0


def test_an_example_s_keys_need_not_be_here_but_those_of_a_copy_do(tmp_path: Path) -> None:
    copy = tmp_path / "inventory.yml"
    text = (SHIPPED / "lab.yml").read_text().replace("~/.local/state", "/none")
    copy.write_text(text.replace("policies/lab.yml", str(SHIPPED / "policies" / "lab.yml")))

    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(copy)

    missing = {line.partition("there is no file ")[2].partition(";")[0] for line in caught.value.lines}
    assert missing == {"/none/fabricctl/lab/dev/id_ed25519", str(tmp_path / "known_hosts")}


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_every_shipped_policy_reads(path: Path) -> None:
    policy = read_policy(path)

    assert policy.limits.loss is not None
    assert policy.limits.loss.max_rate == 0.0
    assert policy.limits.latency
    assert (policy.lossless is None) == (policy.link_layer is LinkLayer.INFINIBAND)


def test_the_lab_policy_says_what_the_lab_needs() -> None:
    policy = read_policy(SHIPPED / "policies" / "lab.yml")

    assert policy.lossless == TrafficClass(priority=3, dscp=26)
    assert policy.cnp == TrafficClass(priority=6, dscp=48)
    assert policy.pfc_priorities == (3,)
    assert policy.dscp_map is DscpMap.ZERO
    assert (policy.mtu.nic_bytes, policy.mtu.switch_bytes, policy.mtu.rdma_bytes) == (4200, 9000, 4096)
    assert policy.ecn == {0: EcnProfile(30_000, 90_000, 100)}
    assert policy.unsupported is Stance.WARN
    assert policy.gate.simulated is Stance.ALLOW
    assert policy.gate.unknown is Stance.REFUSE
    assert policy.gate.max_age_s == 7 * 24 * 3600
    assert policy.limits.loss == LossLimit(max_rate=0.0, bound_rate=0.005, confidence=0.95)
    assert policy.limits.latency_samples == 100
    assert policy.limits.latency[:2] == (
        LatencyLimit("read_latency", 50.0, 60_000_000),
        LatencyLimit("read_latency", 95.0, 400_000_000),
    )


def test_the_pod_has_eight_rails_on_four_nodes_and_two_leaves() -> None:
    fabric, policy = inventory.read(SHIPPED / "roce-pod.yml")

    assert [len(node.ports) for node in fabric.nodes()] == [8, 8, 8, 8]
    assert {port.rail for port in fabric.node_ports()} == set(range(8))
    assert len(fabric.links) == 4 * 8 + 4
    assert policy.name == "lossless-roce"


def test_the_mixed_pod_has_every_kind_of_device() -> None:
    fabric, _ = inventory.read(SHIPPED / "mixed-pod.yml")

    assert {node.driver for node in fabric.nodes()} == {"mlx5", "bnxt"}
    assert [switch.driver for switch in fabric.switches()] == ["sonic", "eos", "nxos", "cumulus"]
    assert len(fabric.links) == 8 + 3


@pytest.mark.parametrize("path", ["starter/policy.yml", "policies/lossless-roce.yml"])
def test_the_marking_profiles_are_those_that_the_manual_names(path: str) -> None:
    policy = read_policy(SHIPPED / path)

    assert {speed: policy.ecn_for(speed) for speed in (25, 50, 100)} == dict.fromkeys(
        (25, 50, 100), EcnProfile(150_000, 1_500_000, 100)
    )
    for speed in (200, 400, 800):
        assert policy.ecn_for(speed) == EcnProfile(4_000 * speed, 16_000 * speed, 20)
