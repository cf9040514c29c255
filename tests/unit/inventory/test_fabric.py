"""What a sound inventory becomes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fabricctl import inventory
from fabricctl.inventory import sources
from fabricctl.model.fabric import Endpoint, Link, LinkLayer
from fabricctl.model.names import PortId

pytestmark = pytest.mark.usefixtures("quick_ansible")

HERE = Path(__file__).parent
INVENTORY = (HERE / "sound_inventory.yml").read_text()
POLICY = (HERE / "sound_policy.yml").read_text()
BOND = "{name: bond0, rdma: mlx5_bond_0, rail: 0, address: 10.0.0.2"
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
    home = path.parent / "home"
    monkeypatch.setenv("HOME", str(home))
    for file in (home / ".ssh" / "fabric", path.parent / "keys" / "known_hosts"):
        file.parent.mkdir(parents=True)
        file.touch()
    given = """ansible_host: 192.0.2.1
          ansible_port: 2222
          ansible_user: op
          ansible_ssh_private_key_file: ~/.ssh/fabric
          ansible_become: "yes"
          ansible_become_method: sudo
          ansible_become_user: root
          ansible_password: ""
          fabric_known_hosts: keys/known_hosts
"""
    path.write_text(INVENTORY.replace("ansible_host: 192.0.2.1\n", given))

    fabric, _ = inventory.read(path)

    assert fabric.device("node1").endpoint == Endpoint(
        host="192.0.2.1",
        port=2222,
        user="op",
        key_file=str(home / ".ssh" / "fabric"),
        known_hosts=str(path.parent / "keys" / "known_hosts"),
        become=True,
    )


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


@pytest.mark.parametrize(
    ("connection", "given"),
    [("network_cli", "ansible_ssh_common_args: -4"), ("local", "ansible_password: hidden")],
)
def test_passwords_and_options_of_ssh_are_nothing_where_it_is_not_used(
    path: Path, connection: str, given: str
) -> None:
    given = f"ansible_connection: {connection}, {given}"
    path.write_text(INVENTORY.replace("ansible_host: 192.0.2.11", given))

    fabric, _ = inventory.read(path)

    assert fabric.device("leaf1").endpoint.connection == connection
    assert "hidden" not in repr(fabric)


def test_a_command_line_s_own_way_to_enable_is_kept(path: Path) -> None:
    given = "ansible_connection: network_cli, ansible_become: true, ansible_become_method: enable"
    path.write_text(INVENTORY.replace("ansible_host: 192.0.2.11", given))

    assert inventory.read(path)[0].device("leaf1").endpoint.become


def test_how_to_become_somebody_counts_only_if_one_does(path: Path) -> None:
    given = "ansible_become: false, ansible_become_method: su, ansible_become_password: hidden"
    path.write_text(INVENTORY.replace("ansible_host: 192.0.2.11", given))

    assert not inventory.read(path)[0].device("leaf1").endpoint.become


@pytest.mark.parametrize(
    "host", ["leaf1.example.net", "192.0.2.11", "2001:db8::11", "fe80::11%eth0", "_leaf-1"]
)
def test_hosts_are_names_and_addresses(path: Path, host: str) -> None:
    path.write_text(INVENTORY.replace("192.0.2.11", f"'{host}'"))

    assert inventory.read(path)[0].device("leaf1").endpoint.host == host


@pytest.mark.parametrize(
    "address", ["10.0.0.2/31", "10.0.0.3/31", "10.0.0.2/32", "2001:db8::ff/120", "2001:db8::/127"]
)
def test_the_ends_of_narrow_and_of_ipv6_networks_are_addresses(path: Path, address: str) -> None:
    path.write_text(INVENTORY.replace("10.0.0.2/24", f"'{address}'"))

    assert inventory.read(path)[0].port(PortId("node2", "eth1")).address == address


def test_a_node_that_is_not_configured_may_call_its_ports_anything(path: Path) -> None:
    name = "Ethernet-Adapter-7/1"
    text = INVENTORY.replace("fabric_driver: rxe", "fabric_driver: none")
    path.write_text(
        text.replace(
            "{name: eth1, rdma: rxe0, rail: 0, address: 10.0.0.2",
            f"{{name: {name}, rail: 0, address: 10.0.0.2",
        )
    )

    assert inventory.read(path)[0].has_device("node2")


def test_a_bond_is_one_port_and_its_switch_ports_can_all_be_named(path: Path) -> None:
    text = INVENTORY.replace("{name: eth1, rdma: rxe0, rail: 0, address: 10.0.0.2", BOND)
    leaf = "leaf1: {fabric_ports: [{name: p2}, {name: p3}]}"
    path.write_text(text.replace("leaf1: {ansible_host: 192.0.2.11}", leaf))

    fabric, _ = inventory.read(path)

    assert fabric.port(PortId("node2", "bond0")).rdma == "mlx5_bond_0"
    assert {str(port.id) for port in fabric.device("leaf1").ports} == {"leaf1/p1", "leaf1/p2", "leaf1/p3"}
    assert fabric.peer(PortId("leaf1", "p3")) is None


def test_files_are_walked_once_and_not_for_each_host(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[object] = []
    real = sources._hosts  # noqa: SLF001  what is counted

    def count(node: yaml.Node) -> Iterator[tuple[str, int, yaml.Node]]:
        walked.append(node)
        return real(node)

    monkeypatch.setattr(sources, "_hosts", count)
    more = "".join(f"        extra{n}: {{fabric_tire: x}}\n" for n in range(300))
    path.write_text(INVENTORY.replace("        leaf1: {", f"{more}        leaf1: {{"))
    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(path)

    assert len(caught.value.others) == 299
    assert len(walked) == 1


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
