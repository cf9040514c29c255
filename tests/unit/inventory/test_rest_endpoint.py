"""Devices that are reached over HTTPS: ``ansible_connection: httpapi``."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricctl import inventory, resources
from fabricctl.errors import InventoryError
from fabricctl.model.fabric import REST, Endpoint

INVENTORY = """\
all:
  vars:
    fabric_policy: policy.yml
  hosts:
    node1:
      fabric_role: node
      fabric_driver: none
      fabric_ports:
        - {name: eth1, speed_gbps: 100, link: {switch: leaf1, port: swp1}}
    leaf1:
      fabric_role: switch
      fabric_driver: cumulus
      ansible_connection: CONNECTION
      ansible_host: 192.0.2.1
      ansible_user: cumulus
      fabric_password_file: keys/leaf1
"""


def _read(folder: Path, text: str) -> Endpoint:
    policy = resources.folder("inventories") / "policies" / "lossless-roce.yml"
    (folder / "policy.yml").write_text(policy.read_text())
    (folder / "inventory.yml").write_text(text)
    (folder / "keys").mkdir(exist_ok=True)
    (folder / "keys" / "leaf1").write_text("hidden\n")
    (folder / "keys" / "leaf1").chmod(0o600)
    (folder / "ca.pem").touch()
    fabric, _ = inventory.read(folder / "inventory.yml")
    assert "hidden" not in repr(fabric)
    return fabric.device("leaf1").endpoint


@pytest.mark.parametrize("connection", ["httpapi", "ansible.netcommon.httpapi"])
def test_its_files_are_beside_the_inventory_and_its_port_is_nvues(tmp_path: Path, connection: str) -> None:
    text = INVENTORY.replace("CONNECTION", connection) + "      fabric_ca_file: ca.pem\n"
    assert _read(tmp_path, text) == Endpoint(
        host="192.0.2.1",
        port=8765,
        user="cumulus",
        connection=REST,
        password_file=str(tmp_path / "keys" / "leaf1"),
        ca_file=str(tmp_path / "ca.pem"),
    )


@pytest.mark.parametrize(
    ("given", "port"),
    [("ansible_port: 8888", 8888), ("ansible_httpapi_port: 9999", 9999)],
)
def test_another_port_is_ansibles_variable(tmp_path: Path, given: str, port: int) -> None:
    text = INVENTORY.replace("CONNECTION", "httpapi") + f"      {given}\n"
    assert _read(tmp_path, text).port == port


def test_without_a_port_ssh_has_its_own(tmp_path: Path) -> None:
    text = INVENTORY.replace("CONNECTION", "ssh")
    assert _read(tmp_path, text).port == 22


@pytest.mark.parametrize(
    ("line", "missing"),
    [("ansible_user: cumulus", "ansible_user"), ("fabric_password_file: keys/leaf1", "fabric_password_file")],
)
def test_a_user_and_a_password_file_have_to_be_named(tmp_path: Path, line: str, missing: str) -> None:
    text = INVENTORY.replace("CONNECTION", "httpapi").replace(f"      {line}\n", "")
    with pytest.raises(InventoryError) as caught:
        _read(tmp_path, text)
    assert f"leaf1: {missing}: is missing: a REST interface wants a user and a password" in str(caught.value)
