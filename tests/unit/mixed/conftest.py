"""A mixed fabric on loopback: two nodes, leaves with SONiC, EOS and NX-OS, and a spine with Cumulus Linux.

Every device is a simulator that keeps its state, reached as a site reaches it: SSH with a shell, SSH with a
command line, REST over TLS. The product's commands and real ansible are on the other side.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fabricctl import inventory, readback, resources
from fabricctl.cli.main import cli
from fabricctl.model.reading import Entry
from fabricctl.transport import connect

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from simulators.cli.server import Clock, serving
from simulators.eos.switch import Interface
from simulators.eos.switch import Switch as Eos
from simulators.nxos.switch import Port as NxosPort
from simulators.nxos.switch import Switch as Nxos

TESTS = Path(__file__).resolve().parents[2]
PASSWORD = "s3cret!"  # noqa: S105  the simulator's
_CONNECT = socket.socket.connect

INVENTORY = """\
all:
  vars:
    fabric_policy: policy.yml
    fabric_scheduler: none
    fabric_simulated: tests/simulators
    ansible_host: 127.0.0.1
    ansible_user: root
    fabric_known_hosts: {folder}/known_hosts
  children:
    fabric_nodes:
      vars: {{fabric_role: node}}
      hosts:
        gpu1:
          ansible_port: {gpu1}
          ansible_ssh_private_key_file: {folder}/gpu1/id_ed25519
          fabric_driver: mlx5
          fabric_pod: pod1
          fabric_ports:
            - {{name: eth1, rdma: mlx5_0, rail: 0, address: 10.30.0.1/24, speed_gbps: 100,
               link: {{switch: leaf1, port: Ethernet0, cable_length_m: 3}}}}
            - {{name: eth2, rdma: mlx5_1, rail: 1, address: 10.30.1.1/24, speed_gbps: 100,
               link: {{switch: leaf2, port: Ethernet1/1, cable_length_m: 3}}}}
        gpu2:
          ansible_port: {gpu2}
          ansible_ssh_private_key_file: {folder}/gpu2/id_ed25519
          fabric_driver: bnxt
          fabric_pod: pod2
          fabric_ports:
            - {{name: eth1, rdma: bnxt_re0, rail: 0, address: 10.30.0.2/24, speed_gbps: 100,
               link: {{switch: leaf3, port: Ethernet1/1, cable_length_m: 3}}}}
    fabric_switches:
      vars: {{fabric_role: switch}}
      hosts:
        leaf1:
          ansible_port: {leaf1}
          ansible_ssh_private_key_file: {folder}/leaf1/id_ed25519
          fabric_driver: sonic
          fabric_pod: pod1
          fabric_tier: leaf
          fabric_uplinks:
            - {{port: Ethernet4, switch: spine1, peer_port: swp1, speed_gbps: 100, cable_length_m: 5}}
        leaf2:
          ansible_port: {leaf2}
          ansible_ssh_private_key_file: {folder}/key
          ansible_connection: ansible.netcommon.network_cli
          ansible_network_os: arista.eos.eos
          ansible_become: true
          ansible_become_method: enable
          fabric_driver: eos
          fabric_pod: pod1
          fabric_tier: leaf
          fabric_uplinks:
            - {{port: Ethernet32/1, switch: spine1, peer_port: swp2, speed_gbps: 100, cable_length_m: 5}}
        leaf3:
          ansible_port: {leaf3}
          ansible_ssh_private_key_file: {folder}/key
          ansible_connection: ansible.netcommon.network_cli
          ansible_network_os: cisco.nxos.nxos
          fabric_driver: nxos
          fabric_pod: pod2
          fabric_tier: leaf
        spine1:
          ansible_connection: ansible.netcommon.httpapi
          ansible_httpapi_port: {spine1}
          ansible_user: cumulus
          fabric_password_file: {folder}/password
          fabric_ca_file: {folder}/spine1/ca.pem
          fabric_driver: cumulus
          fabric_tier: spine
"""


def _module(name: str, file: str) -> Any:
    """Return a module of a simulator that is in no package."""
    path = str(TESTS / "simulators" / file)
    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@dataclass
class Pod:
    """The devices, and the commands on their inventory."""

    folder: Path
    gpu1: Any
    gpu2: Any
    leaf1: Any
    leaf2: Eos
    leaf3: Nxos
    spine1: Any
    clock: Clock

    def call(self, *words: str) -> Result:
        """Run a command of fabricctl in this process."""
        return CliRunner().invoke(cli, words)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Run a command of fabricctl in a process of its own, which can be killed."""
        argv = [sys.executable, "-m", "fabricctl", *words]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def plan(self) -> dict[str, Any]:
        """Return the plan, which has steps."""
        result = self.call("plan", "--json")
        assert result.exit_code in {0, 3}, result.output
        return dict(json.loads(result.stdout))

    def steps(self) -> dict[str, set[str]]:
        """Return what a plan would set, by device."""
        return {
            device["device"]: {step["setting"] for step in device["steps"]}
            for device in self.plan()["devices"]
        }

    def read(self) -> dict[str, Mapping[str, Entry]]:
        """Return what is read of every port, by its name."""
        fabric, _ = inventory.read(self.folder / "inventory.yml")
        with connect() as transport:
            readings = readback.read(fabric, fabric.devices, transport)
        assert {name: reading.error for name, reading in readings.items() if reading.error} == {}
        return {str(p): found.settings for reading in readings.values() for p, found in reading.ports.items()}

    def nvue(self) -> dict[str, Any]:
        """Return the state of the spine."""
        with self.spine1.open():
            return dict(self.spine1.state)

    def leftovers(self) -> dict[str, object]:
        """Return what of a change still lies on a device, by its name: what waits, sessions, files."""
        nvue = self.nvue()
        scheduled = [line for line in self.leaf3.running if line.startswith("scheduler ")]
        found: dict[str, Sequence[object]] = {
            "gpu1": [*self.gpu1.timers(), *self.gpu1.leftovers()],
            "gpu2": [*self.gpu2.timers(), *self.gpu2.leftovers()],
            "leaf1": [*self.leaf1.timers(), *self.leaf1.leftovers()],
            "leaf2": [name for name, session in self.leaf2.sessions.items() if "pending" in session.state],
            "leaf3": [*self.leaf3.checkpoints, *scheduled],
            "spine1": [each for each in (nvue["waits"], nvue["staged"]) if each],
            "here": [path.name for path in self.folder.glob("fabricctl-run/*.*")],
        }
        return {name: left for name, left in found.items() if left}

    def pass_by(self, seconds: float) -> None:
        """Let time pass on every device, so that timers run out."""
        self.clock.pass_by(seconds)
        self.leaf2.tick()
        self.leaf3.tick()
        self.spine1.pass_time(seconds)
        for device in (self.gpu1, self.gpu2, self.leaf1):
            device.fire()


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let these tests connect to this machine, and to nothing else."""

    def connect(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address[0] == "127.0.0.1", address
        _CONNECT(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setenv("FABRICCTL_INVENTORY", str(tmp_path / "inventory.yml"))
    monkeypatch.setenv("PYTHONPATH", str(TESTS.parent))
    # How long ansible waits after each line for what may come after the prompt: on loopback nothing does.
    monkeypatch.setenv("ANSIBLE_PERSISTENT_BUFFER_READ_TIMEOUT", "0.02")
    policy = resources.folder("inventories") / "policies" / "lossless-roce.yml"
    (tmp_path / "policy.yml").write_text(policy.read_text())
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "password").chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    with contextlib.ExitStack() as stack:
        found = _devices(tmp_path)
        stack.callback(found.leaf1.close)
        ports: dict[str, int] = {}
        known = ""
        server_of = _module("sonic_server", "sonic/server.py").Server
        for name in ("gpu1", "gpu2", "leaf1"):
            server = server_of(getattr(found, name))
            stack.callback(server.close)
            ports[name], known = server.port, known + server.known_hosts.read_text()
        for name in ("leaf2", "leaf3"):
            cli_server = stack.enter_context(serving(getattr(found, name), tmp_path / "key.pub"))
            cli_server.user = "root"
            ports[name], known = cli_server.port, known + cli_server.known_hosts()
        rest = _module("nvue_rest", "nvue/rest.py").Server(tmp_path / "spine1", password=PASSWORD)
        ports["spine1"] = stack.enter_context(rest).port
        (tmp_path / "known_hosts").write_text(known)
        (tmp_path / "inventory.yml").write_text(INVENTORY.format(folder=tmp_path, **ports))
        yield found


def _devices(folder: Path) -> Pod:
    node = _module("simulated_node", "node/node.py")
    gpu1 = node.mlx5(folder / "gpu1", {"eth1": "mlx5_0", "eth2": "mlx5_1"})
    gpu1.neighbours({"eth1": ("leaf1", "Ethernet0"), "eth2": ("leaf2", "Ethernet1/1")})
    gpu2 = node.bnxt(folder / "gpu2", {"eth1": "bnxt_re0"})
    gpu2.neighbours({"eth1": ("leaf3", "Ethernet1/1")})
    clock = Clock()
    interfaces = {
        "Ethernet1/1": Interface(partner=("gpu1", "eth2")),
        "Ethernet32/1": Interface(partner=("spine1", "swp2")),
    }
    sonic = _module("sonic_switch", "sonic/switch.py")
    stock = _module("sonic_configs", "sonic/configs.py").stock(["Ethernet0", "Ethernet4", "Ethernet8"])
    engine = sys.modules.get("engine") or _module("engine", "nvue/engine.py")
    (folder / "spine1").mkdir()
    spine1 = engine.Switch(folder / "spine1")
    spine1.create("5.9.1", {"interface": {"swp1": {"type": "swp", "link": {"mtu": 1500}}}})
    return Pod(
        folder=folder,
        gpu1=gpu1,
        gpu2=gpu2,
        leaf1=sonic.Switch(folder / "leaf1", stock),
        leaf2=Eos(interfaces, hostname="leaf2", now=clock),
        leaf3=Nxos({"Ethernet1/1": NxosPort(neighbour="gpu2/eth1")}, name="leaf3", clock=clock),
        spine1=spine1,
        clock=clock,
    )
