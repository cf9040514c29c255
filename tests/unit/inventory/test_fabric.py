"""What a sound inventory becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricctl import inventory
from fabricctl.model.fabric import Endpoint, Link, LinkLayer
from fabricctl.model.names import PortId

pytestmark = pytest.mark.usefixtures("quick_ansible")

HERE = Path(__file__).parent
INVENTORY = (HERE / "sound_inventory.yml").read_text()
POLICY = (HERE / "sound_policy.yml").read_text()
INFINIBAND = """\
name: ib
link_layer: infiniband
mtu: {rdma_bytes: 4096}
limits: {loss: {bound_rate: 1e-3}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "inventory.yml").write_text(INVENTORY)
    (tmp_path / "policy.yml").write_text(POLICY)
    return tmp_path / "inventory.yml"


def test_another_policy_can_be_named(path: Path) -> None:
    other = path.with_name("other.yml")
    other.write_text(POLICY.replace("name: site", "name: other"))
    path.with_name("policy.yml").unlink()

    _, policy = inventory.read(path, policy=other)

    assert (policy.name, policy.source) == ("other", str(other))


def test_the_scheduler_and_what_it_calls_a_node(path: Path) -> None:
    fabric, _ = inventory.read(path)
    assert (fabric.scheduler, fabric.device("node2").scheduler_node) == ("", "")
    text = INVENTORY.replace("    fabric_policy:", "    fabric_scheduler: slurm\n    fabric_policy:")
    path.write_text(
        text.replace("        node2:\n", "        node2:\n          fabric_scheduler_node: gpu-2\n")
    )
    fabric, _ = inventory.read(path)
    assert (fabric.scheduler, fabric.device("node2").scheduler_node) == ("slurm", "gpu-2")
    path.write_text(INVENTORY.replace("    fabric_policy:", "    fabric_scheduler: none\n    fabric_policy:"))
    assert inventory.read(path)[0].scheduler == "none"


def test_uplinks_become_links_and_ports(path: Path) -> None:
    up = "{port: u1, switch: spine1, peer_port: s1, speed_gbps: 400, cable_length_m: 20}"
    leaf = "leaf1: {ansible_host: 192.0.2.11}"
    path.write_text(
        INVENTORY.replace(leaf, f"leaf1: {{fabric_uplinks: [{up}]}}\n        spine1: {{fabric_tier: spine}}")
    )

    fabric, _ = inventory.read(path)

    assert Link(PortId("leaf1", "u1"), PortId("spine1", "s1"), 20.0) in fabric.links
    assert fabric.port(PortId("spine1", "s1")).speed_gbps == 400
    assert fabric.device("spine1").tier == "spine"
    assert [str(port.id) for port in fabric.device("leaf1").ports] == ["leaf1/p1", "leaf1/p2", "leaf1/u1"]


def test_the_endpoint_comes_from_ansibles_own_variables(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/op")
    given = """ansible_host: 192.0.2.1
          ansible_port: 2222
          ansible_user: op
          ansible_ssh_private_key_file: ~/.ssh/fabric
          ansible_become: "yes"
          ansible_password: hidden
          fabric_known_hosts: keys/known_hosts
"""
    path.write_text(INVENTORY.replace("ansible_host: 192.0.2.1\n", given))

    fabric, _ = inventory.read(path)

    assert fabric.device("node1").endpoint == Endpoint(
        host="192.0.2.1",
        port=2222,
        user="op",
        key_file="/home/op/.ssh/fabric",
        known_hosts=str(path.parent / "keys" / "known_hosts"),
        become=True,
    )
    assert "hidden" not in repr(fabric)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local"),
        ("ansible.builtin.ssh", "ssh"),
        ("network_cli", "network_cli"),
        ("ansible.netcommon.network_cli", "network_cli"),
    ],
)
def test_connections(path: Path, given: str, used: str) -> None:
    path.write_text(INVENTORY.replace("ansible_host: 192.0.2.11", f"ansible_connection: {given}"))

    assert inventory.read(path)[0].device("leaf1").endpoint.connection == used


def test_a_driver_called_none_is_no_driver(path: Path) -> None:
    path.write_text(INVENTORY.replace("fabric_driver: linux", "fabric_driver: none"))

    assert inventory.read(path)[0].device("leaf1").driver == ""


def test_infiniband_needs_no_driver(path: Path) -> None:
    text = INVENTORY.replace(", fabric_driver: rxe", "").replace(", fabric_driver: linux", "")
    path.write_text(text.replace("  vars:\n", "  vars:\n    fabric_link_layer: infiniband\n", 1))
    path.with_name("policy.yml").write_text(INFINIBAND)

    fabric, policy = inventory.read(path)

    assert {device.driver for device in fabric.devices} == {""}
    assert {port.link_layer for device in fabric.devices for port in device.ports} == {LinkLayer.INFINIBAND}
    assert policy.limits.loss is not None
    assert policy.limits.loss.bound_rate == 0.001
    assert policy.mtu.rdma_bytes == 4096


def test_a_simulated_part_makes_the_whole_fabric_simulated(path: Path) -> None:
    path.write_text(INVENTORY.replace("leaf1: {", "leaf1: {fabric_simulated: a bridge, "))

    assert inventory.read(path)[0].simulated == "a bridge"


def test_mistakes_below_anchors_and_merges_have_the_line_where_they_stand(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    text = INVENTORY.replace(
        "leaf1: {ansible_host: 192.0.2.11}", "leaf1:\n          <<: &x\n            fabric_tire: a"
    )
    path.write_text(text)

    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(Path("inventory.yml"))

    assert caught.value.lines == (
        "inventory.yml:20: leaf1: fabric_tire: unknown key; did you mean fabric_tier?",
    )
    assert caught.value.where == "inventory.yml:20"
    assert caught.value.others == ()
