"""The inventory, the known_hosts file and the identity that a lab writes."""

from __future__ import annotations

from pathlib import Path

import yaml

from fabricctl.lab import fabric, identity, inventory
from fabricctl.lab.fabric import Shape
from fabricctl.lab.state import Places

PLACES = Places("lab", Path("/state"), Path("/cache"))


def written(shape: Shape) -> dict[str, dict[str, dict[str, object]]]:
    plan = fabric.plan(shape)
    ports = {guest.name: 40000 + guest.number for guest in plan.guests}
    tree = yaml.safe_load(inventory.text(plan, PLACES, ports))["all"]
    assert tree["vars"]["fabric_known_hosts"] == "/state/lab/known_hosts"
    return {name: group["hosts"] for name, group in tree["children"].items()}


def test_a_node_has_its_ports_and_what_they_are_plugged_into() -> None:
    node = written(Shape())["fabric_nodes"]["node2"]
    assert node["ansible_port"] == 40002
    assert node["fabric_ports"] == [
        {
            "name": "eth1",
            "rdma": "rxe0",
            "rail": 0,
            "address": "10.10.0.2/24",
            "speed_gbps": 1,
            "link": {"switch": "leaf1", "port": "eth2", "cable_length_m": 2},
        }
    ]


def test_uplinks_stand_on_the_leaf_only() -> None:
    switches = written(Shape(4, 2, 2))["fabric_switches"]
    assert switches["leaf2"]["fabric_uplinks"] == [
        {"port": "eth5", "switch": "spine1", "peer_port": "eth2", "cable_length_m": 5}
    ]
    assert "fabric_uplinks" not in switches["spine1"]
    assert switches["spine1"]["fabric_tier"] == "spine"
    assert "fabric_uplinks" not in written(Shape())["fabric_switches"]["leaf1"]


def test_known_hosts_names_the_port_and_drops_the_comment() -> None:
    assert (
        inventory.known_hosts({40001: "ssh-ed25519 AAAA node1\n"}) == "[127.0.0.1]:40001 ssh-ed25519 AAAA\n"
    )


def test_a_guest_is_told_its_ports_with_mac_and_address() -> None:
    plan = fabric.plan(Shape(2, 2))
    lines = identity.environment(plan, plan.guest("node2")).splitlines()
    assert "LAB_NAME=node2" in lines
    assert "LAB_PORTS='eth1=52:54:00:fa:02:01=10.10.0.2/24 eth2=52:54:00:fa:02:02=10.11.0.2/24'" in lines


def test_a_switch_has_no_addresses() -> None:
    plan = fabric.plan(Shape(2))
    assert "10.10" not in identity.environment(plan, plan.guest("leaf1"))
