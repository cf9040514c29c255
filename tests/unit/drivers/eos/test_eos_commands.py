"""The product's own commands on an EOS switch: real SSH and real ansible, to a simulator on loopback."""

from __future__ import annotations

import _socket
import importlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fabricctl import resources

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from simulators.cli.server import Clock, Server, serving
from simulators.eos.switch import Interface, Switch

INVENTORY = """\
all:
  vars: {{fabric_policy: policy.yml, fabric_known_hosts: known_hosts, fabric_simulated: a test}}
  children:
    fabric_nodes:
      vars: {{fabric_role: node, fabric_driver: none}}
      hosts:
        node1:
          fabric_ports:
            - {{name: eth1, speed_gbps: 400, link: {{switch: leaf1, port: Ethernet1/1, cable_length_m: 3}}}}
        node2:
          fabric_ports:
            - {{name: eth1, speed_gbps: 400, link: {{switch: leaf1, port: Ethernet2/1, cable_length_m: 3}}}}
    fabric_switches:
      vars: {{fabric_role: switch, fabric_driver: eos}}
      hosts:
        leaf1:
          ansible_host: 127.0.0.1
          ansible_port: {port}
          ansible_user: admin
          ansible_connection: ansible.netcommon.network_cli
          ansible_become: true
          ansible_ssh_private_key_file: {key}
"""


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let these tests connect to this machine, and to nothing else."""

    def connect(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address[0] == "127.0.0.1", address
        _socket.socket.connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)


@dataclass
class Site:
    """A switch that listens, and the commands on its inventory."""

    switch: Switch
    server: Server
    clock: Clock

    def call(self, name: str, *arguments: str) -> Result:
        command = importlib.import_module(f"fabricctl.cli.{name}").command
        return CliRunner().invoke(command, arguments)

    def plan(self) -> dict[str, Any]:
        result = self.call("plan", "--json")
        assert result.exit_code in {0, 3}, result.output
        return dict(json.loads(result.stdout))


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Site]]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "store.sqlite"))
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    policy = resources.folder("inventories") / "policies" / "lossless-roce.yml"
    (tmp_path / "policy.yml").write_text(policy.read_text())
    clock = Clock()
    switch = Switch({"Ethernet1/1": Interface(gbps=400), "Ethernet2/1": Interface(gbps=400)}, now=clock)
    with serving(switch, tmp_path / "key.pub") as server:
        inventory = tmp_path / "inventory.yml"
        inventory.write_text(INVENTORY.format(port=server.port, key=tmp_path / "key"))
        (tmp_path / "known_hosts").write_text(server.known_hosts())
        monkeypatch.setenv("FABRICCTL_INVENTORY", str(inventory))
        yield lambda: Site(switch, server, clock)


def test_plan_apply_drift_and_rollback(make: Callable[..., Site]) -> None:
    site = make()
    before = site.switch.text()
    steps = [step["setting"] for device in site.plan()["devices"] for step in device["steps"]]
    assert {"mtu_bytes", "dscp_priority", "pfc_priorities", "ecn", "pfc_watchdog"} <= set(steps)
    assert site.switch.text() == before

    applied = site.call("apply", "--yes")
    assert applied.exit_code == 0, applied.output
    text = site.switch.text()
    assert "priority-flow-control priority 3 no-drop" in text
    assert site.switch.startup == text
    assert site.switch.timer is None

    assert site.call("apply", "--yes").exit_code == 0
    assert site.plan()["devices"] == []
    assert site.call("drift").exit_code == 0

    (profile,) = (head for head in site.switch.running.root.sections if head.startswith("qos profile"))
    site.switch.operate(profile, "no priority-flow-control")
    drifted = site.call("drift")
    assert drifted.exit_code == 3, drifted.output
    assert "pfc_priorities" in drifted.output
    site.switch.operate(profile, "priority-flow-control on")

    undone = site.call("rollback", "--yes")
    assert undone.exit_code == 0, undone.output
    assert "fabricctl" not in site.switch.running.text()
    assert site.switch.startup == site.switch.text()
    assert "no-drop" not in site.switch.text()


def test_an_apply_that_the_switch_refuses_or_rounds_is_reverted(make: Callable[..., Site]) -> None:
    site = make()
    before = site.switch.text()
    site.switch.rounds["minimum-threshold [0-9]+ bytes"] = "minimum-threshold 159744 bytes"
    failed = site.call("apply", "--yes")
    assert failed.exit_code == 1, failed.output
    assert "ecn_kmin_bytes" in failed.output
    assert (site.switch.text(), site.switch.startup) == (before, before)
    assert (site.switch.timer, site.switch.sessions) == (None, {})
