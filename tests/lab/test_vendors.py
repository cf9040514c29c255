"""Hosts with other vendors' NICs, simulated on the lab's guests: the product's own commands, SSH and
ansible.

``simulated/host.py`` says what is real of them and what is not. The tests run in order and go on from each
other: under emulation an apply of its own for each would take the better part of an hour.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fabricctl import inventory, readback
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, PortReading
from fabricctl.transport import connect
from fabricctl.transport.base import Transport

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

DEADLINE_S = 400
TESTS = Path(__file__).resolve().parent.parent
HOME = "/usr/local/lib/fabricctl-sim"


@dataclass(frozen=True)
class Kind:
    """What a node is made to look like."""

    name: str
    driver: str
    rdma: str
    plane: str
    more: str = ""


KINDS = {
    "node1": Kind(
        "mlx5-ofed", "mlx5", "mlx5_0", "MLNX_OFED (mlnx_qos, sysfs), firmware configuration (mstconfig)"
    ),
    "node2": Kind(
        "mlx5-inbox",
        "mlx5",
        "mlx5_0",
        "inbox driver (dcb, debugfs), firmware configuration (mstconfig)",
        more="eth2= eth3=",
    ),
    "node3": Kind("bnxt", "bnxt", "bnxt_re0", "dcb, congestion control: configfs"),
    "node4": Kind("ionic", "ionic", "ionic_0", "nicctl"),
}
IRDMA = Kind("irdma", "irdma", "irdma0", "dcb; the kernel's irdma")
PARAMETERS = {
    "mlx5": {"rp_ai_rate": 7, "np_min_time_between_cnps": 2},
    "bnxt": {"g": 9},
    "ionic": {"ai_rate": 200},
}


@dataclass(frozen=True)
class Site:
    """The simulated hosts, an inventory of them and a store of their own."""

    lab: Any
    inventory: Path
    store: Path
    way: Transport

    @property
    def fabric(self) -> Fabric:
        return inventory.read(self.inventory)[0]

    def call(self, name: str, *words: str, code: int | None = 0) -> Any:
        """Run a command; return its JSON. Its exit code must be `code`, unless that is None."""
        argv = [sys.executable, "-m", "fabricctl", name, *words, "-i", str(self.inventory), "--json"]
        env = {**os.environ, "FABRICCTL_STORE": str(self.store)}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env, timeout=DEADLINE_S)
        assert code is None or done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def say(self, name: str, *words: str) -> tuple[int, str]:
        """Run a command; return its exit code and its text."""
        argv = [sys.executable, "-m", "fabricctl", name, *words, "-i", str(self.inventory)]
        env = {**os.environ, "FABRICCTL_STORE": str(self.store)}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env, timeout=DEADLINE_S)
        return done.returncode, done.stdout + done.stderr

    def tell(self, device: str, script: str) -> str:
        """Run a script on a host, by hand so to speak."""
        reply = self.way.run(
            self.fabric.device(device), f"PATH=/usr/local/sbin:$PATH\n{script}", deadline_s=90
        )
        assert reply.rc == 0, f"{device}: {reply.stderr}{reply.stdout}"
        return reply.stdout

    def read(self, *names: str) -> Mapping[PortId, PortReading]:
        """Read hosts as the product does; all without names."""
        chosen = [device for device in self.fabric.devices if not names or device.name in names]
        found = readback.read(self.fabric, chosen, self.way, deadline_s=120)
        assert {name: reading.error for name, reading in found.items() if reading.error} == {}
        return {port: each for reading in found.values() for port, each in reading.ports.items()}

    def settings(self, *names: str) -> dict[str, Entry]:
        """Return all settings of all ports."""
        return _flat(self.read(*names))

    def port(self, node: str, name: str) -> PortReading:
        return self.read(node)[PortId(node, name)]


def _flat(readings: Mapping[PortId, PortReading]) -> dict[str, Entry]:
    return {
        f"{port} {name}": entry
        for port, reading in readings.items()
        for name, entry in reading.settings.items()
    }


def _simulators() -> bytes:
    """Return all that makes a guest a simulated host, as a tar archive."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        for folder, name in ((TESTS / "lab/simulated", "."), (TESTS / "simulators", "simulators")):
            archive.add(folder, name, filter=lambda entry: None if "__pycache__" in entry.name else entry)
    return body.getvalue()


def _become(site: Site, node: str, kind: Kind | None) -> None:
    words = f"{kind.name} eth1={kind.rdma} {kind.more}" if kind else "off"
    site.tell(node, f"python3 -IS {HOME}/host.py {words}\n")


def _inventory(lab: Any, kinds: Mapping[str, Kind], name: str) -> Path:
    """Write the lab's inventory with other NICs beside it, as it names its files from there."""
    tree = yaml.safe_load(lab.inventory.read_text())
    nodes = tree["all"]["children"]["fabric_nodes"]["hosts"]
    for node, kind in kinds.items():
        nodes[node]["fabric_driver"] = kind.driver
        nodes[node]["fabric_ports"] = [dict(nodes[node]["fabric_ports"][0], rdma=kind.rdma)]
    path: Path = lab.inventory.with_name(f"{name}.yml")
    rules = yaml.safe_load((lab.inventory.parent / "policy.yml").read_text())
    rules |= {"dcqcn": True, "nic_parameters": PARAMETERS}
    lab.inventory.with_name(f"{name}-policy.yml").write_text(yaml.safe_dump(rules))
    tree["all"]["vars"]["fabric_policy"] = f"{name}-policy.yml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def site(lab_session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    path = _inventory(lab_session, KINDS, "vendors")
    with connect() as way:
        made = Site(lab_session, path, tmp_path_factory.mktemp("vendors") / "store.sqlite", way)
        archive = _simulators()

        def prepare(node: str) -> None:
            device = made.fabric.device(node)
            way.put(device, "/run/fabricctl-sim.tgz", archive, mode=0o600, deadline_s=60)
            made.tell(node, f"rm -rf {HOME}; mkdir -p {HOME}; tar -xzf /run/fabricctl-sim.tgz -C {HOME}")
            _become(made, node, KINDS[node])

        try:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(prepare, KINDS))
            yield made
        finally:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda node: _become(made, node, None), KINDS))
            for file in (path, path.with_name("vendors-policy.yml")):
                file.unlink()


@pytest.fixture(scope="module")
def start(site: Site) -> Mapping[PortId, PortReading]:
    """What was read of all before anything was set."""
    return site.read()


@pytest.fixture(scope="module")
def first(start: Mapping[PortId, PortReading]) -> dict[str, Entry]:
    return _flat(start)


def test_each_host_is_known_by_its_plane(site: Site, start: Mapping[PortId, PortReading]) -> None:
    for node, kind in KINDS.items():
        found = start[PortId(node, "eth1")].facts
        assert found[facts.PLANE] == Known(kind.plane)
        assert found.get(facts.RIVALS, Known(())) == Known(())
        assert found[facts.PARTNER] == Known(str(site.fabric.peer(PortId(node, "eth1"))))
        assert found[facts.RDMA_STATE] == Known("ACTIVE")
        assert found[facts.RDMA_DEVICE] == Known(kind.rdma)


def test_check_and_plan(site: Site) -> None:
    site.call("check")
    code, said = site.say("plan")
    assert code == 3, said
    assert "pfc_priorities: none -> 3  (undo: none; disrupts: link flap)" in said
    assert "could not be read" not in said
    for node, kind in KINDS.items():
        assert f"control plane of {node}/eth1: {kind.plane}" in said.splitlines()


def test_apply_sets_all_and_proves_it(site: Site, start: Mapping[PortId, PortReading]) -> None:
    downs = {node: start[PortId(node, "eth1")].facts[facts.LINK_DOWNS] for node in KINDS}
    done = site.call("apply", "--yes", code=3)
    assert done["failed"] == {}
    assert done["not_attempted"] == {}
    pending = done["pending"]
    assert [(item["port"], item["setting"]) for item in pending] == [("node2/eth1", "mlx5.dcqcn_priority_3")]
    assert "mstfwreset -d 0000:17:00.0 -y r" in pending[0]["why"]
    assert done["read_back"]["as_intended"] == done["read_back"]["settings"] - 1
    assert max(done["tasks"].values()) == 2
    after = site.read(*KINDS)
    downs_after = {port.device: each.facts[facts.LINK_DOWNS] for port, each in after.items()}
    assert _rose(downs, downs_after) == {"node1": 1, "node2": 1, "node3": 0, "node4": 0}
    assert site.tell("node1", "cat /sys/class/net/eth1/ecn/roce_np/enable/3").strip() == "1"
    assert site.tell("node3", "dcb -j app show dev eth1 dgram-port-prio").startswith(
        '{"dgram_port_prio":[[4791,3'
    )


def _rose(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> dict[str, int]:
    found = {}
    for node, entry in after.items():
        old = before[node]
        assert isinstance(entry, Known)
        assert isinstance(old, Known)
        found[node] = int(entry.value) - int(old.value)  # type: ignore[arg-type]
    return found


def test_a_second_apply_touches_nothing(site: Site) -> None:
    done = site.call("apply", "--yes", code=3)
    assert (done["tasks"], done["plan"]["devices"]) == ({}, [])


def test_a_reset_of_the_firmware_ends_what_was_pending(site: Site) -> None:
    assert site.call("drift", code=3)["differences"] == []
    site.tell("node2", "mstfwreset -d 17:00.0 -y r")
    site.call("drift")


CHANGES = {
    "node1": "mlnx_qos -i eth1 -f 0,0,0,0,0,0,0,0; echo 9 >/sys/class/net/eth1/ecn/roce_rp/rpg_ai_rate",
    "node2": """dcb app replace dev eth1 dscp-prio 26:5 2>&1
        echo 9 >/sys/kernel/debug/mlx5/0000:17:00.0/cc_params/rp_ai_rate""",
    "node3": "dcb pfc set dev eth1 prio-pfc all:off",
    "node4": "nicctl update qos pfc --priority 3 --no-drop disable",
}


def test_drift_names_what_was_changed_by_hand(site: Site) -> None:
    for node, script in CHANGES.items():
        site.tell(node, f"{script}\ntrue")
    time.sleep(2)
    found = site.call("drift", code=3)["differences"]
    by_node = {node: sorted(d["setting"] for d in found if d["port"] == f"{node}/eth1") for node in KINDS}
    assert by_node == {
        "node1": ["mlx5.rp_ai_rate", "pfc_priorities"],
        "node2": ["dscp_priority", "mlx5.rp_ai_rate"],
        "node3": ["pfc_priorities"],
        "node4": ["pfc_priorities"],
    }


def test_a_host_that_refuses_fails_alone_and_is_reverted(site: Site) -> None:
    before = site.settings("node3")
    site.tell("node3", "echo eth1:pfc >/sys/module/dcbsim/parameters/refuse")
    try:
        done = site.call("apply", "--yes", code=1)
    finally:
        site.tell("node3", "echo eth1:none >/sys/module/dcbsim/parameters/refuse")
    assert set(done["failed"]) == {"node3/eth1"}
    assert "Input/output error" in done["failed"]["node3/eth1"]
    assert site.settings("node3") == before
    differences = site.call("drift", code=3)["differences"]
    assert {d["port"] for d in differences} == {"node3/eth1"}
    assert site.call("apply", "--yes")["failed"] == {}


def test_rivals_are_named_and_their_ports_left_alone(site: Site) -> None:
    site.tell("node1", "echo eth1:willing >/sys/module/dcbsim/parameters/dcbx")
    site.tell("node3", "echo eth1:firmware >/sys/module/dcbsim/parameters/dcbx")
    unit = "[Service]\\nExecStart=/bin/sleep 1000\\n"
    site.tell("node4", f"printf '{unit}' >/run/systemd/system/lldpad.service; systemctl start lldpad")
    for node in ("node1", "node2", "node3", "node4"):
        site.tell(node, "ip link set dev eth1 mtu 4300")
    try:
        code, said = site.say("plan")
        done = site.call("apply", "--yes", code=None)
        after = site.settings()
    finally:
        site.tell("node1", "echo eth1:host >/sys/module/dcbsim/parameters/dcbx")
        site.tell("node3", "echo eth1:host >/sys/module/dcbsim/parameters/dcbx")
        site.tell("node4", "systemctl stop lldpad; rm /run/systemd/system/lldpad.service")
    assert code == 3
    alone = "left alone, another sets the same on"
    assert f"{alone} node1/eth1: firmware DCBX: mlnx_qos -i eth1 -d os" in said
    assert f"{alone} node3/eth1: eth1: the NIC's firmware LLDP and DCBX agent" in said
    assert f"{alone} node4/eth1: lldpad.service" in said
    assert set(done["plan"]["rivals"]) == {"node1/eth1", "node3/eth1", "node4/eth1"}
    mtu = {node: after[f"{node}/eth1 {settings.MTU}"] for node in KINDS}
    assert mtu == {"node1": Known(4300), "node2": Known(4200), "node3": Known(4300), "node4": Known(4300)}
    assert site.call("apply", "--yes")["failed"] == {}


def test_rollback_brings_every_host_back(site: Site, first: Mapping[str, Entry]) -> None:
    from fabricctl.apply.record import load  # noqa: PLC0415
    from fabricctl.store import Store  # noqa: PLC0415

    with Store.open(site.store) as store:
        runs = [applied.run.id for applied in load(store, site.fabric.source) if applied.run.kind == "apply"]
    site.call("rollback", runs[-1], "--yes", code=None)
    site.tell("node2", "mstfwreset -d 17:00.0 -y r")
    after = site.settings()
    assert {name: (first[name], entry) for name, entry in after.items() if first[name] != entry} == {}


def _other(site: Site, name: str, kinds: Mapping[str, Kind], ports: Mapping[str, Any]) -> Site:
    """Return the site with another inventory: other NICs, and `ports` in the place of a node's."""
    path = _inventory(site.lab, {**KINDS, **kinds}, name)
    tree = yaml.safe_load(path.read_text())
    for node, several in ports.items():
        tree["all"]["children"]["fabric_nodes"]["hosts"][node]["fabric_ports"] = several
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return replace(site, inventory=path, store=site.store.with_name(f"{name}.sqlite"))


def _remove(site: Site) -> None:
    for file in (site.inventory, site.inventory.with_name(f"{site.inventory.stem}-policy.yml")):
        file.unlink()


def test_a_bond_is_set_on_both_members(site: Site) -> None:
    """The second port of one card and the first of another."""
    port = {"name": "bond0", "rdma": "mlx5_bond_0", "rail": 0, "address": "10.99.0.2/24", "speed_gbps": 1}
    bond = _other(site, "bond", {}, {"node2": [port]})
    members = "eth2 eth3"
    site.tell(
        "node2",
        f"""ip link add bond0 type bond mode active-backup miimon 100
        for name in {members}; do ip link set $name down; ip link set $name master bond0; done
        ip link set bond0 up; rdma link add mlx5_bond_0 type rxe netdev bond0""",
    )
    try:
        assert bond.port("node2", "bond0").facts[facts.FUNCTIONS] == Known(("eth2", "eth3"))
        bond.call("apply", "--limit", "node2", "--yes", code=3)
        for name in members.split():
            assert '"prio_pfc":[false,false,false,true' in site.tell("node2", f"dcb -j pfc show dev {name}")
            assert "[26,3" in site.tell("node2", f"dcb -j app show dev {name}")
        assert bond.call("apply", "--limit", "node2", "--yes", code=3)["tasks"] == {}
        site.tell("node2", "dcb pfc set dev eth3 prio-pfc all:off")
        (found,) = bond.call("drift", "--limit", "node2", code=3)["differences"]
        assert (found["port"], found["setting"]) == ("node2/bond0", "pfc_priorities")
    finally:
        site.tell("node2", "rdma link delete mlx5_bond_0; ip link del bond0")
        _remove(bond)


def test_irdma(site: Site) -> None:
    other = _other(site, "irdma", {"node4": IRDMA}, {})
    _become(site, "node4", IRDMA)
    try:
        before = other.read("node4")
        assert before[PortId("node4", "eth1")].facts[facts.PLANE] == Known(IRDMA.plane)
        done = other.call("apply", "--limit", "node4", "--yes")
        assert (done["failed"], done["not_attempted"]) == ({}, {})
        assert other.call("apply", "--limit", "node4", "--yes")["tasks"] == {}
        other.call("drift", "--limit", "node4")
        site.tell("node4", "dcb ets set dev eth1 tc-tsa all:ets tc-bw all:0 0:10 3:90")
        site.tell("node4", "ethtool --set-priv-flags eth1 fw-lldp-agent on")
        code, said = other.say("plan", "--limit", "node4")
        assert code == 3
        rival = "ethtool --set-priv-flags eth1 fw-lldp-agent off"
        assert f"left alone, another sets the same on node4/eth1: ice firmware LLDP agent: {rival}" in said
        site.tell("node4", rival)
        other.call("rollback", "--yes")
        after = _flat(other.read("node4"))
        assert {n: (e, after[n]) for n, e in _flat(before).items() if after[n] != e} == {}
    finally:
        _remove(other)
