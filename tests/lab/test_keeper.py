"""The MTU in the host's own network manager: one node of the lab for each manager that Debian has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fabricctl import inventory, readback
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Fabric
from fabricctl.model.reading import Entry, Known, Missing, PortReading
from fabricctl.transport import connect
from fabricctl.transport.base import Transport

pytestmark = [pytest.mark.lab, pytest.mark.timeout(2400)]

_DEADLINE_S = 400
_BACK_S = 420
# The lab's own set-up of the port comes after the manager's, as a program that only adds to it.
_AFTER = """\
folder=/etc/systemd/system/fabriclab-identity.service.d
mkdir -p "$folder"
printf '[Unit]\\nWants={unit}\\nAfter={unit}\\n' >"$folder/manager.conf"
"""


@dataclass(frozen=True)
class Manager:
    """How a test hands eth1 of a node to a network manager, with an MTU of 1500, and takes it away again.

    Parameters
    ----------
    config
        Files and folders that hold the manager's configuration.
    hand, take
        Scripts; ``$address`` is the port's.
    reconnect
        Has the manager set the port up again.
    by_hand
        Has the manager keep 1400 from now on.
    """

    name: str
    config: str
    hand: str
    take: str
    reconnect: str
    by_hand: str


_BUS = "dbus.service dbus.socket"
_NM_UNITS = "NetworkManager.service NetworkManager-wait-online.service"
MANAGERS = {
    "node1": Manager(
        name="NetworkManager",
        config="/etc/NetworkManager/system-connections",
        hand=f"""\
(cd /etc/systemd/system && rm -f {_BUS} {_NM_UNITS})
cp -p /etc/NetworkManager/NetworkManager.conf /root
cat >/etc/NetworkManager/NetworkManager.conf <<'END'
[main]
plugins=keyfile
no-auto-default=*
[keyfile]
unmanaged-devices=*,except:interface-name:eth1
END
{_AFTER.format(unit="NetworkManager-wait-online.service")}
systemctl daemon-reload
systemctl start dbus.socket NetworkManager.service
nmcli connection add type ethernet ifname eth1 con-name fabric ipv4.method manual \\
    ipv4.addresses "$address" 802-3-ethernet.mtu 1500
nmcli connection up fabric
""",
        take=f"""\
nmcli connection delete fabric
systemctl stop NetworkManager.service dbus.socket dbus.service
rm -rf /run/NetworkManager
for unit in {_BUS} {_NM_UNITS}; do ln -sf /dev/null "/etc/systemd/system/$unit"; done
mv /root/NetworkManager.conf /etc/NetworkManager
""",
        reconnect="nmcli connection up fabric",
        by_hand="nmcli connection modify fabric 802-3-ethernet.mtu 1400",
    ),
    "node2": Manager(
        name="netplan",
        config="/etc/netplan",
        hand="""\
umask 077
cat >/etc/netplan/50-eth1.yaml <<END
network:
  version: 2
  renderer: networkd
  ethernets:
    eth1:
      # the fabric
      addresses: [$address]
      mtu: 1500
END
netplan generate
systemctl start systemd-networkd.service
""",
        take="""\
rm -f /etc/netplan/50-eth1.yaml /etc/netplan/zz-fabricctl-eth1.yaml
systemctl stop systemd-networkd.socket systemd-networkd.service
rm -rf /run/systemd/network/10-netplan-* /run/systemd/netif/links/*
""",
        reconnect="systemctl restart systemd-networkd.service",
        by_hand="sed -i 's/4200/1400/' /etc/netplan/zz-fabricctl-eth1.yaml",
    ),
    "node3": Manager(
        name="systemd-networkd",
        config="/etc/systemd/network",
        hand="""\
cat >/etc/systemd/network/50-eth1.network <<END
[Match]
Name=eth1

[Link]
# the fabric
MTUBytes=1500

[Network]
Address=$address
END
systemctl enable --now systemd-networkd.service
""",
        take="""\
rm -rf /etc/systemd/network/50-eth1.network /etc/systemd/network/50-eth1.network.d
systemctl disable --now systemd-networkd.socket systemd-networkd.service
rm -rf /run/systemd/netif/links/*
""",
        reconnect="systemctl restart systemd-networkd.service",
        by_hand="sed -i 's/4200/1400/' /etc/systemd/network/50-eth1.network.d/zz-fabricctl.conf",
    ),
    "node4": Manager(
        name="ifupdown",
        config="/etc/network",
        hand=f"""\
rm -f /etc/systemd/system/networking.service
cat >/etc/network/interfaces.d/eth1 <<END
# the fabric
auto eth1
iface eth1 inet static
\taddress $address
\tmtu  1500
END
{_AFTER.format(unit="networking.service")}
ip address flush dev eth1
systemctl daemon-reload
systemctl start networking.service
""",
        take="""\
rm -f /etc/network/interfaces.d/eth1 /run/network/ifstate*
systemctl stop networking.service
ln -sf /dev/null /etc/systemd/system/networking.service
""",
        reconnect="ifdown eth1; ifup eth1",
        by_hand="sed -i 's/4200/1400/' /etc/network/interfaces.d/eth1",
    ),
}
# NetworkManager notes in a profile when it was last up.
_SHOW = 'cd {folder} && find . -type f | sort | while read -r f; do echo "$f"; grep -v ^timestamp= "$f"; done'


@dataclass(frozen=True)
class Lab:
    """The lab whose nodes have network managers, and the store of this test."""

    inventory: Path
    fabric: Fabric
    way: Transport
    store: Path

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        name, *rest = arguments
        argv = [sys.executable, "-m", "fabricctl", name, *rest, "-i", str(self.inventory)]
        environment = {**os.environ, "FABRICCTL_STORE": str(self.store)}
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, env=environment, timeout=_DEADLINE_S
        )

    def apply(self) -> dict[str, Any]:
        done = self.call("apply", "--yes", "--json", "--limit", "node*")
        assert done.returncode == 0, done.stdout + done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def drift(self) -> subprocess.CompletedProcess[str]:
        """Compare the nodes; again if a guest that has just booted was too slow to say everything."""
        done = self.call("drift", "--limit", "node*")
        for _ in range(2):
            if "no answer in time" in done.stdout:
                done = self.call("drift", "--limit", "node*")
        return done

    def tell(self, node: str, script: str) -> str:
        device = self.fabric.device(node)
        address = device.ports[0].address
        reply = self.way.run(device, f"address={address}\n{script}", deadline_s=300)
        assert reply.rc == 0, f"{node}: {reply.stdout}{reply.stderr}"
        return reply.stdout

    def everywhere(self, script: Callable[[Manager], str]) -> dict[str, str]:
        """Run a script of each node's manager, all at the same time; return what they print."""
        with ThreadPoolExecutor(len(MANAGERS)) as pool:
            said = pool.map(lambda node: self.tell(node, script(MANAGERS[node])), MANAGERS)
            return dict(zip(MANAGERS, said, strict=True))

    def config(self) -> dict[str, str]:
        return self.everywhere(lambda manager: _SHOW.format(folder=manager.config))

    def ports(self) -> dict[str, PortReading]:
        nodes = [self.fabric.device(node) for node in MANAGERS]
        readings = readback.read(self.fabric, nodes, self.way, deadline_s=120)
        assert [reading.error for reading in readings.values() if reading.error] == []
        return {name: next(iter(reading.ports.values())) for name, reading in readings.items()}

    def kept(self) -> dict[str, Entry]:
        return {node: port.settings[settings.MTU_KEPT] for node, port in self.ports().items()}

    def mtus(self) -> set[Entry]:
        return {port.settings[settings.MTU] for port in self.ports().values()}

    def reboot(self) -> None:
        """Reboot all nodes at the same time, from their own disks."""
        later = "(sleep 1; systemctl --no-block reboot) >/dev/null 2>&1 </dev/null &"
        self.everywhere(lambda _: f"touch /run/before; sync\n{later}\n")
        end = time.monotonic() + _BACK_S
        for node in MANAGERS:
            while not self._is_back(node):
                assert time.monotonic() < end, f"{node} is not back"
                time.sleep(3)

    def _is_back(self, node: str) -> bool:
        # A connection that was open before the reboot is dead: each look takes a new one.
        script = (
            "[ ! -e /run/before ] && systemctl is-active --quiet fabriclab-identity.service && echo back\n"
        )
        try:
            with connect() as way:
                return way.run(self.fabric.device(node), script, deadline_s=15).stdout == "back\n"
        except OSError:
            return False


@pytest.fixture
def lab(lab_fabric: Any, tmp_path: Path) -> Iterator[Lab]:
    """Yield the lab with a network manager on each node, and take them away again."""
    fabric, _ = inventory.read(lab_fabric.inventory)
    with connect() as way:
        made = Lab(lab_fabric.inventory, fabric, way, tmp_path / "store.sqlite")
        before = made.ports()
        assert {port.facts[facts.NETWORK_MANAGER] for port in before.values()} == {Known("none")}
        try:
            made.everywhere(lambda manager: f"set -e\n{manager.hand}")
            yield made
        finally:
            made.everywhere(
                lambda manager: (
                    f"{manager.take}"
                    "rm -rf /etc/systemd/system/fabriclab-identity.service.d; systemctl daemon-reload\n"
                    "ip link set dev eth1 mtu 1500; /usr/lib/fabriclab/identity\n"
                )
            )


def test_each_network_manager_keeps_the_mtu(lab: Lab) -> None:
    names = {node: port.facts[facts.NETWORK_MANAGER] for node, port in lab.ports().items()}
    assert names == {node: Known(manager.name) for node, manager in MANAGERS.items()}
    assert lab.kept() == dict.fromkeys(MANAGERS, Known("1500"))
    first = lab.config()

    applied = lab.apply()
    assert lab.kept() == dict.fromkeys(MANAGERS, Known("4200"))
    assert lab.apply()["plan"]["devices"] == []

    lab.reboot()
    end = time.monotonic() + 120
    while lab.mtus() != {Known(4200)}:
        assert time.monotonic() < end, lab.mtus()
        time.sleep(5)
    drift = lab.drift()
    assert drift.returncode == 0, drift.stdout + drift.stderr

    # The boot script has its part in that; this is the managers' own doing.
    lab.everywhere(lambda manager: f"ip link set dev eth1 mtu 1500; {manager.reconnect}; sleep 5\n")
    assert lab.mtus() == {Known(4200)}

    lab.everywhere(lambda manager: manager.by_hand)
    drift = lab.drift()
    assert drift.returncode == 3, drift.stdout + drift.stderr
    for node, manager in MANAGERS.items():
        line = (
            f"{node}/eth1 mtu_kept: should be 4200, is 1400 "
            f"(a reboot or reconnect by {manager.name} would set 1400) (since apply {applied['run']})"
        )
        assert line in drift.stdout.splitlines()
    lab.apply()
    assert lab.kept() == dict.fromkeys(MANAGERS, Known("4200"))

    done = lab.call("rollback", applied["run"], "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.config() == first
    assert lab.kept() == dict.fromkeys(MANAGERS, Known("1500"))


def test_an_unconfirmed_change_leaves_the_manager_alone(lab: Lab) -> None:
    first = lab.config()
    waiting = lab.call("apply", "--yes", "--json", "--confirm-within", "10m", "--limit", "node*")
    assert waiting.returncode == 0, waiting.stdout + waiting.stderr
    assert lab.config() == first
    confirmed = lab.call("confirm")
    assert confirmed.returncode == 0, confirmed.stdout + confirmed.stderr
    assert lab.kept() == dict.fromkeys(MANAGERS, Known("4200"))
    done = lab.call("rollback", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.config() == first


def test_without_a_manager_nothing_is_lacking(lab_fabric: Any) -> None:
    fabric, _ = inventory.read(lab_fabric.inventory)
    node = fabric.nodes()[0]
    with connect() as way:
        reading = readback.read(fabric, [node], way, deadline_s=60)[node.name]
    port = next(iter(reading.ports.values()))
    assert port.facts[facts.NETWORK_MANAGER] == Known("none")
    kept = port.settings[settings.MTU_KEPT]
    assert isinstance(kept, Missing)
    assert kept.impossible
