"""The switch behind SSH on loopback: read by the product's own transport, written by ansible."""

from __future__ import annotations

import socket
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fabricctl import readback
from fabricctl.apply import compose, push
from fabricctl.cli.main import cli
from fabricctl.errors import UnreachableError
from fabricctl.model import settings
from fabricctl.model.fabric import Device, Endpoint, Role
from fabricctl.model.reading import Known
from fabricctl.transport.ssh import SshTransport

Make = Callable[..., Any]
_CONNECT = socket.socket.connect

POLICY = """\
name: test
lossless: {priority: 3, dscp: 26}
cnp: {priority: 6, dscp: 48}
mtu: {nic_bytes: 9000, switch_bytes: 9216, rdma_bytes: 4096}
pfc_priorities: [3]
pfc_watchdog: {poll_ms: 200, detect_ms: 400, restore_ms: 400, action: drop}
ecn:
  default: {kmin: 150KB, kmax: 1500KB, pmax: 100}
limits:
  loss: {max_rate: 0, bound_rate: 0.001, confidence: 0.95}
"""
INVENTORY = """\
all:
  vars:
    fabric_policy: policy.yml
    fabric_scheduler: none
    fabric_simulated: tests/simulators/sonic
  children:
    fabric_nodes:
      vars: {fabric_role: node, fabric_driver: none}
      hosts:
        node1:
          ansible_host: 192.0.2.1
          fabric_ports:
            - {name: eth1, speed_gbps: 100, link: {switch: leaf1, port: Ethernet0, cable_length_m: 3}}
        node2:
          ansible_host: 192.0.2.2
          fabric_ports:
            - {name: eth1, speed_gbps: 100, link: {switch: leaf1, port: Ethernet4, cable_length_m: 5}}
    fabric_switches:
      vars: {fabric_role: switch, fabric_driver: sonic, fabric_tier: leaf}
      hosts:
        leaf1:
          ansible_host: 127.0.0.1
          ansible_port: PORT
          ansible_user: root
          ansible_ssh_private_key_file: KEY
          fabric_known_hosts: HOSTS
"""


@dataclass
class Site:
    """A switch that can be reached, and an inventory that says how."""

    world: Any
    server: Any
    folder: Path

    @property
    def device(self) -> Device:
        end = Endpoint(
            "127.0.0.1", self.server.port, "root", str(self.server.key), str(self.server.known_hosts)
        )
        return Device("leaf1", Role.SWITCH, "sonic", end, self.world.ports)

    def call(self, *words: str) -> Result:
        """Run a command of fabricctl."""
        where = {"FABRICCTL_INVENTORY": str(self.folder / "inventory.yml")}
        return CliRunner(env=where).invoke(cli, words)


@pytest.fixture
def site(
    make_world: Make, load_server: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    world = make_world()
    server = load_server(world.switch)

    def connect(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address == ("127.0.0.1", server.port), address
        _CONNECT(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    text = INVENTORY.replace("PORT", str(server.port)).replace("KEY", str(server.key))
    (tmp_path / "inventory.yml").write_text(text.replace("HOSTS", str(server.known_hosts)))
    (tmp_path / "policy.yml").write_text(textwrap.dedent(POLICY))
    yield Site(world, server, tmp_path)
    server.close()


def test_the_transport_reads_the_switch_in_one_round_trip(site: Site) -> None:
    with SshTransport() as transport:
        reading = readback.read_device(site.device, transport, 60)
    assert reading.error == ""
    found = reading.ports[site.world.ports[0].id]
    assert found.settings[settings.PFC] == Known((3, 4))
    assert reading.facts["firmware"] == Known("SONiC.20241110.12")


def test_scripts_set_confirm_and_revert_over_the_transport(site: Site) -> None:
    method, goals = site.world.driver.method, site.world.goals()
    config = site.world.switch.config()
    with SshTransport() as transport:
        done = transport.run(site.device, method.push("apply-1", 1, goals, 600), deadline_s=60)
        assert (done.rc, done.stderr) == (0, "")
        assert site.world.left() == {}
        assert transport.run(site.device, method.revert("apply-1", ()), deadline_s=60).rc == 0
        assert site.world.switch.config() == config
        assert transport.run(site.device, method.push("apply-2", 1, goals, 600), deadline_s=60).rc == 0
        assert transport.run(site.device, method.confirm("apply-2", [1]), deadline_s=60).rc == 0
    assert site.world.value(settings.BOOT) == settings.SAVED


def test_a_session_that_drops_in_the_middle_does_not_end_the_change_halfway(site: Site) -> None:
    method, goals = site.world.driver.method, site.world.goals()
    config = site.world.switch.config()
    site.world.switch.fail(drop_session=True, slow_s=0.01)
    with SshTransport() as transport, pytest.raises(UnreachableError):
        transport.run(site.device, method.push("apply-1", 1, goals, 600), deadline_s=60)
    site.server.wait()
    site.world.switch.fail()
    assert site.world.left() == {}
    assert site.world.switch.timers() == ["fabricctl-revert-apply-1.0001.timer"]
    site.world.switch.fire()
    assert site.world.switch.config() == config


def test_what_ansible_says_of_a_refusal_names_each_port(site: Site) -> None:
    goals = site.world.goals()
    goals[0].wanted["mtu_bytes"] = 9300
    script = site.world.driver.method.push("apply-1", 1, goals, 600)
    (outcome,) = push.push([compose.Job(site.device, script)], deadline_s=60)
    assert not outcome.ok
    assert outcome.ports == {"Ethernet0": "mtu_bytes: '9300' is not within 68..9216"}


def test_apply_drift_and_rollback_with_ansible(site: Site) -> None:
    switch = site.world.switch
    before = site.world.read()

    planned = site.call("plan")
    assert planned.exit_code == 3, planned.output
    assert "link flap" in planned.output
    applied = site.call("apply", "--yes")
    assert applied.exit_code == 0, applied.output
    assert site.world.left(cable_length_m=3.0) == {"Ethernet4": ("cable_length_m",)}
    assert site.world.value(settings.BOOT) == settings.SAVED
    assert site.call("drift").exit_code == 0
    switch.change("PORT_QOS_MAP", "Ethernet0", pfc_enable="3,4")
    drifted = site.call("drift")
    assert drifted.exit_code == 3, drifted.output
    assert "pfc_priorities" in drifted.output
    switch.change("PORT_QOS_MAP", "Ethernet0", pfc_enable="3")

    rolled = site.call("rollback", "--yes")
    assert rolled.exit_code == 0, rolled.output
    after = site.world.read()
    for port, reading in before.items():
        known = {name: entry for name, entry in reading.settings.items() if isinstance(entry, Known)}
        assert {name: after[port].settings[name] for name in known} == known
    assert (switch.timers(), switch.leftovers(), switch.syslog()) == ([], [], [])
    assert "fabricctl" not in str(switch.config())
