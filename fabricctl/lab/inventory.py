"""The files that a lab writes for all other commands: inventory, policy, host keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from fabricctl import resources
from fabricctl.lab.fabric import Role, address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fabricctl.lab.fabric import Fabric, Guest
    from fabricctl.lab.state import Places

SIMULATED = "lab: QEMU guests with soft-RoCE"
# What a soft-RoCE link in an emulated guest is good for; nothing is limited to it.
SPEED_GBPS = 1


def text(fabric: Fabric, where: Places, ports: Mapping[str, int]) -> str:
    """Return the lab's inventory.

    Parameters
    ----------
    ports
        For each guest the TCP port of the loopback address that leads to its sshd.
    """
    nodes = {g.name: _node(fabric, g, ports[g.name]) for g in fabric.of_role(Role.NODE)}
    switches = {g.name: _switch(fabric, g, ports[g.name]) for g in fabric.of_role(Role.SWITCH)}
    tree = {
        "all": {
            "vars": {
                "fabric_policy": where.policy.name,
                "fabric_simulated": SIMULATED,
                "fabric_scheduler": "none",
                "fabric_known_hosts": str(where.known_hosts),
                "ansible_user": "root",
                "ansible_ssh_private_key_file": str(where.user_key),
                "ansible_python_interpreter": "/usr/bin/python3",
            },
            "children": {
                "fabric_nodes": {
                    "vars": {"fabric_role": "node", "fabric_driver": "rxe"},
                    "hosts": nodes,
                },
                "fabric_switches": {
                    "vars": {"fabric_role": "switch", "fabric_driver": "linux"},
                    "hosts": switches,
                },
            },
        }
    }
    body = yaml.safe_dump(tree, sort_keys=False, width=200)
    return f"# Written by `fabricctl lab up`; it is gone after `fabricctl lab down`.\n{body}"


def _reach(port: int) -> dict[str, Any]:
    return {"ansible_host": "127.0.0.1", "ansible_port": port}


def _node(fabric: Fabric, guest: Guest, ssh_port: int) -> dict[str, Any]:
    ports: list[dict[str, Any]] = []
    for rail, end in enumerate(fabric.ends(guest.name)):
        entry: dict[str, Any] = {
            "name": end.port,
            "rdma": f"rxe{rail}",
            "rail": rail,
            "address": address(guest.number, rail),
            "speed_gbps": SPEED_GBPS,
        }
        peer = fabric.peer(end)
        if peer is not None:
            entry["link"] = {
                "switch": peer.guest,
                "port": peer.port,
                "cable_length_m": _length(fabric, guest.name, peer.guest),
            }
        ports.append(entry)
    return {**_reach(ssh_port), "fabric_ports": ports}


def _switch(fabric: Fabric, guest: Guest, ssh_port: int) -> dict[str, Any]:
    entry: dict[str, Any] = {**_reach(ssh_port), "fabric_tier": guest.tier}
    uplinks = [
        {
            "port": end.port,
            "switch": peer.guest,
            "peer_port": peer.port,
            "cable_length_m": _length(fabric, guest.name, peer.guest),
        }
        for end in fabric.ends(guest.name)
        if guest.tier == "leaf"
        and (peer := fabric.peer(end)) is not None
        and fabric.guest(peer.guest).role is Role.SWITCH
    ]
    return {**entry, "fabric_uplinks": uplinks} if uplinks else entry


def _length(fabric: Fabric, one: str, other: str) -> int:
    return next(c.length_m for c in fabric.cables if {c.a.guest, c.b.guest} == {one, other})


def policy() -> str:
    """Return the policy that the installation ships for the lab."""
    return (resources.folder("inventories") / "policies" / "lab.yml").read_text(encoding="utf-8")


def known_hosts(keys: Mapping[int, str]) -> str:
    """Return the known_hosts file for the public host keys by TCP port."""
    return "".join(f"[127.0.0.1]:{port} {' '.join(key.split()[:2])}\n" for port, key in keys.items())
