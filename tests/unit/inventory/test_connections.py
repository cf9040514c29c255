"""Connections that could not work are refused before anything is contacted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fabricctl import inventory, resources
from fabricctl.model.fabric import Endpoint

pytestmark = pytest.mark.usefixtures("quick_ansible")

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
      ansible_user: cumulus
"""
CLI = "ansible_connection: network_cli"
REST = "ansible_connection: httpapi"
PASSWORD = "fabric_password_file: password"  # noqa: S105  the name of a file
KEY = "leave it out and use a key: ansible_ssh_private_key_file, or one in the SSH agent"
FILE = "write it into the first line of a file with mode 0600, and name that: fabric_password_file"
NO_API = "nothing is sent to a web interface over network_cli: leave it out"
CHECKED = "a REST interface is spoken to over HTTPS alone, and its certificate is checked: fabric_ca_file"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    policy = resources.folder("inventories") / "policies" / "lossless-roce.yml"
    (tmp_path / "policy.yml").write_text(policy.read_text())
    (tmp_path / "password").write_text("hidden\n")
    (tmp_path / "password").chmod(0o600)
    (tmp_path / "ca.pem").touch()
    return tmp_path


def _read(site: Path, *given: str) -> Endpoint:
    (site / "inventory.yml").write_text(INVENTORY + "".join(f"      {line}\n" for line in given))
    fabric, _ = inventory.read(Path("inventory.yml"))
    return fabric.device("leaf1").endpoint


def _says(site: Path, *given: str) -> list[str]:
    with pytest.raises(inventory.InventoryFileError) as caught:
        _read(site, *given)
    assert "hidden" not in str(caught.value)
    return list(caught.value.lines)


@pytest.mark.parametrize("name", ["ansible_password", "ansible_ssh_pass", "ansible_ssh_password"])
@pytest.mark.parametrize(("way", "advice"), [(CLI, KEY), (REST, FILE)])
def test_a_password_is_refused_over_every_network(site: Path, way: str, advice: str, name: str) -> None:
    assert _says(site, PASSWORD, way, f"{name}: hidden") == [
        f"inventory.yml:16: leaf1: {name}: cannot be used; {advice}"
    ]


@pytest.mark.parametrize("name", ["ansible_httpapi_pass", "ansible_httpapi_password"])
@pytest.mark.parametrize(("way", "advice"), [(CLI, NO_API), (REST, FILE)])
def test_so_is_that_of_a_web_interface(site: Path, way: str, advice: str, name: str) -> None:
    assert _says(site, PASSWORD, way, f"{name}: hidden") == [
        f"inventory.yml:16: leaf1: {name}: cannot be used; {advice}"
    ]


@pytest.mark.parametrize("value", ["false", '"no"', '"False"', "0"])
@pytest.mark.parametrize("name", ["ansible_httpapi_validate_certs", "ansible_httpapi_use_ssl"])
@pytest.mark.parametrize(("way", "advice"), [(CLI, NO_API), (REST, CHECKED)])
def test_no_connection_goes_unchecked_or_in_the_clear(
    site: Path, way: str, advice: str, name: str, value: str
) -> None:
    assert _says(site, PASSWORD, way, f"{name}: {value}") == [
        f"inventory.yml:16: leaf1: {name}: cannot be used; {advice}"
    ]


@pytest.mark.parametrize("value", ["true", '"yes"', "1", "", '""'])
@pytest.mark.parametrize("way", [CLI, REST])
def test_what_is_done_anyway_may_be_said(site: Path, way: str, value: str) -> None:
    given = [f"ansible_httpapi_{name}: {value}" for name in ("validate_certs", "use_ssl")]
    assert _read(site, PASSWORD, way, *given).user == "cumulus"


def test_to_ssh_and_to_this_machine_a_web_interface_is_nothing(site: Path) -> None:
    given = ("ansible_httpapi_pass: hidden", "ansible_httpapi_validate_certs: false")
    for way in ("ssh", "local"):
        assert "hidden" not in repr(_read(site, f"ansible_connection: {way}", *given))


@pytest.mark.parametrize("method", ["sudo", "su", "ansible.builtin.sudo"])
def test_a_command_line_knows_only_enable(site: Path, method: str) -> None:
    assert _says(site, CLI, "ansible_become: true", f"ansible_become_method: {method}") == [
        'inventory.yml:16: leaf1: ansible_become_method: cannot be used; over network_cli "enable" is sent'
    ]
    assert not _read(site, CLI, f"ansible_become_method: {method}").become


@pytest.mark.parametrize("method", ["enable", "ansible.netcommon.enable"])
def test_enable_may_be_said(site: Path, method: str) -> None:
    assert _read(site, CLI, "ansible_become: true", f"ansible_become_method: {method}").become


def test_a_password_file_that_is_not_there_is_refused(site: Path) -> None:
    (site / "password").unlink()
    advice = "write the password into its first line, with mode 0600"
    assert _says(site, PASSWORD, REST) == [
        f"inventory.yml:14: leaf1: fabric_password_file: there is no file {site}/password; {advice}"
    ]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_password_file_that_others_can_read_is_refused(site: Path, mode: int) -> None:
    (site / "password").chmod(mode)
    assert _says(site, PASSWORD, REST) == [
        (
            f"inventory.yml:14: leaf1: fabric_password_file: others can read {site}/password; "
            f"chmod 600 {site}/password"
        )
    ]


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_one_that_only_its_owner_can_read_is_used(site: Path, mode: int) -> None:
    (site / "password").chmod(mode)
    (site / "ca.pem").touch()
    endpoint = _read(site, PASSWORD, REST, "fabric_ca_file: ca.pem")
    assert endpoint.password_file == str(site / "password")


@pytest.mark.parametrize("content", ["", "\n", "\nhidden\n"])
def test_a_password_file_whose_first_line_is_empty_is_refused(site: Path, content: str) -> None:
    (site / "password").write_text(content)
    assert _says(site, PASSWORD, REST) == [
        (
            f"inventory.yml:14: leaf1: fabric_password_file: the first line of {site}/password is empty; "
            "write the password into its first line, with mode 0600"
        )
    ]


def test_a_password_file_that_is_no_text_is_refused_and_not_shown(site: Path) -> None:
    (site / "password").write_bytes(b"\xffhidden\n")
    assert _says(site, PASSWORD, REST) == [
        (
            f"inventory.yml:14: leaf1: fabric_password_file: {site}/password cannot be read as text; "
            "write the password into its first line, with mode 0600"
        )
    ]


def test_nobody_waits_for_a_pipe(site: Path) -> None:
    (site / "password").unlink()
    os.mkfifo(site / "password", 0o600)
    assert "fabric_password_file: there is no file" in _says(site, PASSWORD, REST)[0]


@pytest.mark.parametrize("name", ["none.pem", "."])
def test_a_ca_file_that_is_not_there_is_refused(site: Path, name: str) -> None:
    assert _says(site, PASSWORD, REST, f"fabric_ca_file: {name}") == [
        (
            f"inventory.yml:16: leaf1: fabric_ca_file: there is no file {(site / name).resolve()}; "
            "it holds the certificates (PEM) that the device's own is checked against; "
            "leave it out to use the system's"
        )
    ]


def test_they_are_nothing_to_a_device_without_a_rest_interface(site: Path) -> None:
    for way in (CLI, "ansible_connection: ssh"):
        assert _read(site, way, "fabric_password_file: none", "fabric_ca_file: none").user == "cumulus"


def test_all_is_said_at_once(site: Path) -> None:
    (site / "password").chmod(0o644)
    found = _says(site, PASSWORD, REST, "fabric_ca_file: none", "ansible_httpapi_use_ssl: false")
    assert [line.split(": ")[2] for line in found] == [
        "fabric_password_file",
        "fabric_ca_file",
        "ansible_httpapi_use_ssl",
    ]
