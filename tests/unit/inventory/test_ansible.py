"""The real ansible-inventory: YAML, INI, folders, programs, vaulted values, templates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fabricctl import inventory
from fabricctl.errors import InventoryError
from fabricctl.inventory import ansible
from fabricctl.model.fabric import Endpoint, Link, LinkLayer, Port, Role
from fabricctl.model.names import PortId

HERE = Path(__file__).parent
POLICY = (HERE / "sound_policy.yml").read_text()
VAULT = Path(sys.executable).parent / "ansible-vault"

INI = """\
[fabric_nodes]
node1 fabric_ports='[{"name": "eth1", "rdma": "rxe0", "link": {"switch": "leaf1", "port": "p1"}}]'
node2 ansible_port=2222 fabric_ports='[{"name": "eth1", "link": {"switch": "leaf1", "port": "p2"}}]'

[fabric_switches]
leaf1

[fabric_nodes:vars]
fabric_role=node
fabric_driver=rxe

[fabric_switches:vars]
fabric_role=switch
fabric_driver=linux

[all:vars]
fabric_policy=policy.yml
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.yml").write_text(POLICY)
    return tmp_path


def _encrypted(folder: Path, text: str) -> str:
    (folder / "password").write_text("a test's password\n")
    argv = [str(VAULT), "encrypt_string", "--vault-password-file", str(folder / "password")]
    return subprocess.run([*argv, text], check=True, capture_output=True, text=True, timeout=60).stdout


def _listing(path: Path) -> ansible.Listing:
    with ansible.resolving(path) as started:
        return started.listing()


def test_a_yaml_inventory_becomes_devices_ports_and_links(
    site: Path, yaml_lister: Callable[[Path], str]
) -> None:
    path = site / "inventory.yml"
    path.write_text((HERE / "sound_inventory.yml").read_text())

    fabric, policy = inventory.read(path)

    assert [device.name for device in fabric.devices] == [
        "node1",
        "node2",
        "leaf1",
    ]  # login1 is no part of it
    assert fabric.device("node1").role is Role.NODE
    assert fabric.device("node1").driver == "rxe"
    assert fabric.device("node1").endpoint == Endpoint(host="192.0.2.1")
    assert fabric.device("node2").endpoint.host == "node2"
    assert fabric.port(PortId("node2", "eth1")) == Port(
        PortId("node2", "eth1"), "rxe0", 0, "10.0.0.2/24", 100, LinkLayer.ETHERNET
    )
    assert fabric.port(PortId("leaf1", "p2")).speed_gbps == 100
    assert fabric.links == (
        Link(PortId("leaf1", "p1"), PortId("node1", "eth1")),
        Link(PortId("leaf1", "p2"), PortId("node2", "eth1")),
    )
    assert fabric.source == str(path)
    assert policy.source == str(site / "policy.yml")
    real = _listing(path)
    stand_in = json.loads(yaml_lister(path))["_meta"]["hostvars"]
    assert {host: dict(real.hosts[host]) for host in real.hosts} == stand_in


def test_an_ini_inventory_works_and_its_mistakes_have_a_line(site: Path) -> None:
    path = site / "hosts"
    path.write_text(INI)

    fabric, _ = inventory.read(path)

    assert fabric.peer(PortId("node2", "eth1")) == PortId("leaf1", "p2")
    assert fabric.device("node2").endpoint.port == 2222

    path.write_text(INI.replace("fabric_driver=linux", "fabric_driver=linx").replace('"rdma"', '"rmda"'))
    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(Path("hosts"))
    driver = "hosts:14: fabric_switches: fabric_driver: there is no switch driver called linx"
    assert caught.value.lines == (
        "hosts:2: node1: fabric_ports[0].rmda: unknown key; did you mean rdma?",
        f"{driver}; did you mean linux?",
    )


def test_a_folder_with_group_vars_and_host_vars_works_and_its_mistakes_have_a_line(site: Path) -> None:
    folder = site / "production"
    for name in ("group_vars", "host_vars/node1"):
        (folder / name).mkdir(parents=True)
    (folder / "nodes.yml").write_text("fabric_nodes:\n  hosts:\n    node[1:2]:\n")
    (folder / "switches.yml").write_text("fabric_switches:\n  hosts:\n    leaf1:\n")
    (folder / "policy.txt").write_text(POLICY)
    (folder / "group_vars/all.yml").write_text("fabric_policy: policy.txt\n")
    group_vars = "fabric_role: node\nfabric_driver: rxe\n"
    (folder / "group_vars/fabric_nodes.yml").write_text(group_vars)
    (folder / "group_vars/fabric_switches.yml").write_text("fabric_role: switch\nfabric_driver: linux\n")
    port = "fabric_ports:\n  - name: eth1\n    link: {switch: leaf1, port: %s}\n"
    (folder / "host_vars/node1/fabric.yml").write_text(port % "p1")
    (folder / "host_vars/node2.yml").write_text(port % "p2")

    fabric, _ = inventory.read(folder)

    assert [device.name for device in fabric.nodes()] == ["node1", "node2"]
    assert fabric.source == str(folder)

    (folder / "group_vars/fabric_nodes.yml").write_text(
        "fabric_role: node\nfabric_driver: rxe\nfabric_pods: a\n"
    )
    (folder / "host_vars/node1/fabric.yml").write_text((port % "p1") + "    speed_gpbs: 100\n")
    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(Path("production"))
    group, host = "production/group_vars/fabric_nodes.yml:3", "production/host_vars/node1/fabric.yml:4"
    assert caught.value.lines == (
        f"{group}: fabric_nodes: fabric_pods: unknown key; did you mean fabric_pod?",
        f"{host}: node1: fabric_ports[0].speed_gpbs: unknown key; did you mean speed_gbps?",
    )


def test_a_fabric_variable_that_stands_twice_in_group_vars_is_refused(site: Path) -> None:
    (site / "inventory.yml").write_text((HERE / "sound_inventory.yml").read_text())
    (site / "group_vars").mkdir()
    text = "ntp: a\nntp: b\nfabric_pod: a\nfabric_tier: x\nfabric_pod: b\n"
    (site / "group_vars" / "nodes.yml").write_text(text)

    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(Path("inventory.yml"))

    where = "group_vars/nodes.yml:5"
    assert caught.value.lines == (f"{where}: fabric_pod: stands here for the second time; first: line 3",)


def test_a_program_is_run_and_its_mistakes_name_the_host(site: Path) -> None:
    port = {"name": "eth1", "link": {"switch": "leaf1", "port": "p1"}}
    common = {"fabric_policy": "policy.yml"}
    answer = {
        "nodes": {"hosts": ["node1"]},
        "switches": {"hosts": ["leaf1"]},
        "_meta": {
            "hostvars": {
                "node1": {**common, "fabric_role": "node", "fabric_driver": "rxe", "fabric_ports": [port]},
                "leaf1": {**common, "fabric_role": "switch", "fabric_driver": "linux"},
            }
        },
    }
    program = site / "source.sh"
    program.touch(mode=0o700)
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")

    fabric, _ = inventory.read(program)
    assert fabric.peer(PortId("node1", "eth1")) == PortId("leaf1", "p1")

    program.write_text(program.read_text().replace('"switch": "leaf1"', '"switch": "leaf2"'))
    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(Path("source.sh"))
    where = "source.sh (a dynamic source, no line known): node1: fabric_ports[0].link.switch"
    assert caught.value.lines == (f"{where}: there is no switch called leaf2; did you mean leaf1?",)


def test_vaulted_values_and_templates_are_resolved(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = _encrypted(site, "192.0.2.77")
    text = (HERE / "sound_inventory.yml").read_text()
    text = text.replace("ansible_host: 192.0.2.1\n", 'ansible_host: "{{ inventory_hostname }}.{{ site }}"\n')
    text = text.replace("        leaf1: {ansible_host: 192.0.2.11}", "        leaf1:")
    indented = "\n            ".join(f"ansible_host: {secret.strip()}".splitlines())
    text = text.replace("        leaf1:\n", f"        leaf1:\n          {indented}\n")
    text = text.replace("  vars:\n    fabric_policy", "  vars:\n    site: example.net\n    fabric_policy", 1)
    path = site / "inventory.yml"
    path.write_text(text)

    with pytest.raises(InventoryError, match="vault password: ANSIBLE_VAULT_PASSWORD_FILE"):
        inventory.read(path)

    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(site / "password"))
    fabric, _ = inventory.read(path)
    assert fabric.device("node1").endpoint.host == "node1.example.net"
    assert fabric.device("leaf1").endpoint.host == "192.0.2.77"


def test_a_vaulted_group_vars_file_is_read_and_its_values_stay_secret(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = site / "inventory.yml"
    path.write_text((HERE / "sound_inventory.yml").read_text())
    (site / "group_vars").mkdir()
    plain = site / "group_vars" / "nodes.yml"
    plain.write_text("ansible_user: hidden-user\nansible_port: 99999\n")
    _encrypted(site, "x")
    argv = [str(VAULT), "encrypt", "--vault-password-file", str(site / "password"), str(plain)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)

    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(site / "password"))
    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(path)

    assert "ansible_port: must be at most 65535" in str(caught.value)
    assert "99999" not in str(caught.value)
    assert "hidden-user" not in repr(caught.value)


def test_a_source_that_ansible_cannot_parse_is_refused_not_taken_as_empty(site: Path) -> None:
    (site / "good.yml").write_text((HERE / "sound_inventory.yml").read_text())
    program = site / "broken.sh"
    program.touch(mode=0o700)
    program.write_text("#!/bin/sh\nexit 3\n")

    with pytest.raises(InventoryError, match="Ansible cannot read it: ") as caught:
        inventory.read(program)

    assert caught.value.where == str(program)


def test_a_source_that_hangs_is_ended_with_all_that_it_started(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = site / "slow.sh"
    program.touch(mode=0o700)
    program.write_text(f"#!/bin/sh\necho $$ > {site}/pid\nsleep 300\n")
    monkeypatch.setattr(ansible, "DEADLINE_S", 5.0)

    began = time.monotonic()
    with pytest.raises(InventoryError, match="ansible-inventory did not finish within 5 s"):
        inventory.read(program)

    assert time.monotonic() - began < 30
    if (site / "pid").exists():
        # It was killed: on a busy machine it takes a moment until it is gone.
        pid, until = int((site / "pid").read_text()), time.monotonic() + 10
        while _lives(pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_braces_that_a_plugin_marked_as_text_are_no_template() -> None:
    plain = ansible._plain({"a": {"__ansible_unsafe": "{{ x }}"}, "b": ["{{ y }}"]})  # noqa: SLF001  its own unit

    assert plain == {"a": "{{ x }}", "b": ["{{ y }}"]}
    assert not ansible._unresolved(plain["a"])  # noqa: SLF001  as above
    assert ansible._unresolved(plain["b"])  # noqa: SLF001  as above


def test_a_mistake_in_a_file_does_not_wait_for_ansible(site: Path) -> None:
    folder = site / "both"
    folder.mkdir()
    program = folder / "slow.sh"
    program.touch(mode=0o700)
    program.write_text("#!/bin/sh\nsleep 300\n")
    (folder / "z.yml").write_text("all:\n  vars:\n    fabric_policy: a\n    fabric_policy: b\n")
    began = time.monotonic()
    with pytest.raises(InventoryError, match="fabric_policy"):
        inventory.read(folder)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("kind", ["ini", "yaml"])
def test_a_range_that_is_none_has_a_line(site: Path, kind: str) -> None:
    path = site / ("hosts" if kind == "ini" else "more.yml")
    path.write_text("[n]\nn1\nn[1-4]\n" if kind == "ini" else "all:\n  hosts:\n    n[1-4]:\n")
    with pytest.raises(InventoryError, match=r":3: 'n\[1-4\]': Ansible's host range must be begin:end"):
        inventory.read(path)


def test_a_larger_inventory_may_take_longer(
    site: Path, in_place_of_ansible: Any, yaml_lister: Callable[[Path], str]
) -> None:
    path = site / "inventory.yml"
    path.write_text((HERE / "sound_inventory.yml").read_text())
    for folder in ("group_vars", "host_vars/node1"):
        (site / folder).mkdir(parents=True)
        (site / folder / "all.yml").write_text("# " + "x" * 1_000_000)
    given: list[float] = []

    def run(program: str, arguments: tuple[str, ...], path: Path, end: ansible.Deadline) -> str:
        assert (program, arguments[-1]) == ("ansible-inventory", "--list")
        given.append(end.within_s)
        return yaml_lister(path)

    in_place_of_ansible(run)
    inventory.read(path)

    assert given[0] == pytest.approx(ansible.DEADLINE_S + 2 * ansible.DEADLINE_S_PER_MB, abs=1)


def test_an_ansible_of_another_python_is_run_as_it_is(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = site / "bin"
    other.mkdir()
    program = other / "ansible-inventory"
    program.touch(mode=0o700)
    program.write_text('#!/bin/sh\necho "{}"\n')
    monkeypatch.setattr(sys, "executable", str(site / "python"))
    monkeypatch.setenv("PATH", f"{other}:{os.environ['PATH']}")
    (site / "inventory.yml").write_text("all: {}\n")

    assert _listing(site / "inventory.yml").hosts == {}


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_any_locale_will_do(site: Path, monkeypatch: pytest.MonkeyPatch, locale: str) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    path = site / "inventory.yml"
    path.write_text((HERE / "sound_inventory.yml").read_text().replace("  vars:\n", "  vars:\n    x: ü\n", 1))

    assert inventory.read(path)[0].has_device("node1")


def test_a_vaulted_key_file_that_is_not_there_stays_secret(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "\n            ".join(_encrypted(site, "/hidden/key").strip().splitlines())
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(site / "password"))
    node = "        node2:\n"
    text = (HERE / "sound_inventory.yml").read_text()
    path = site / "inventory.yml"
    path.write_text(text.replace(node, f"{node}          ansible_private_key_file: {secret}\n"))

    with pytest.raises(
        InventoryError, match="ansible_private_key_file: there is no file as it says"
    ) as caught:
        inventory.read(path)
    assert "hidden" not in str(caught.value)


def test_a_password_is_refused_and_not_kept(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "\n            ".join(_encrypted(site, "hidden").strip().splitlines())
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(site / "password"))
    text = (HERE / "sound_inventory.yml").read_text()
    path = site / "inventory.yml"
    path.write_text(
        text.replace("        node2:\n", f"        node2:\n          ansible_password: {secret}\n")
    )

    with pytest.raises(InventoryError, match="node2: ansible_password: cannot be used"):
        inventory.read(path)
    assert _listing(path).hosts["node2"]["ansible_password"] is True
