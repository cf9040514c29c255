"""Apply, drift, rollback and confirm on real guests: real ansible, SSH, systemd, dcb, tc and ip.

The tests run in order and go on from each other, and the last one takes all of it back: under emulation every
command takes its time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fabricctl import inventory, readback
from fabricctl.model import settings
from fabricctl.model.fabric import Fabric
from fabricctl.model.reading import Entry
from fabricctl.transport import connect
from fabricctl.transport.base import Transport

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

DEADLINE_S = 300


@dataclass(frozen=True)
class Lab:
    """The lab that is up, the store of this test, and another policy than the lab's."""

    inventory: Path
    fabric: Fabric
    way: Transport
    store: Path
    other: Path

    def call(self, *arguments: str, imports: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command of fabricctl; with `imports` its standard error names every module it loads."""
        name, *rest = arguments
        python = [sys.executable, *(["-X", "importtime"] if imports else [])]
        argv = [*python, "-m", "fabricctl", name, *rest, "-i", str(self.inventory)]
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, env=self.environment(), timeout=DEADLINE_S
        )

    def environment(self) -> dict[str, str]:
        return {**os.environ, "FABRICCTL_STORE": str(self.store)}

    def tell(self, device: str, script: str) -> None:
        """Run a script on a guest, by hand so to speak."""
        reply = self.way.run(self.fabric.device(device), script, deadline_s=60)
        assert reply.rc == 0, reply.stderr

    def read(self) -> dict[str, Entry]:
        """Return all settings of all ports."""
        readings = readback.read(self.fabric, self.fabric.devices, self.way, deadline_s=120)
        assert [r.error for r in readings.values() if r.error] == []
        return {
            f"{port} {name}": entry
            for reading in readings.values()
            for port, found in reading.ports.items()
            for name, entry in found.settings.items()
        }

    def leftovers(self) -> str:
        """Return what an apply has left on the guests: folders of unconfirmed changes, and timers."""
        script = "ls -d /run/fabricctl/*.* 2>/dev/null; systemctl list-timers --no-legend 'fabricctl-*'\n"
        with ThreadPoolExecutor(len(self.fabric.devices)) as pool:
            replies = pool.map(lambda d: self.way.run(d, script, deadline_s=60), self.fabric.devices)
            return "".join(reply.stdout for reply in replies)


@pytest.fixture(scope="module")
def lab(lab_session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("apply")
    fabric, _ = inventory.read(lab_session.inventory)
    rules = yaml.safe_load((lab_session.inventory.parent / "policy.yml").read_text())
    rules["mtu"] = {"nic_bytes": 2200, "switch_bytes": 3000, "rdma_bytes": 2048}
    rules["pfc_priorities"] = [3, 5]
    other = folder / "other.yml"
    other.write_text(yaml.safe_dump(rules))
    with connect() as way:
        yield Lab(lab_session.inventory, fabric, way, folder / "store.sqlite", other)


@pytest.fixture(scope="module")
def found_at_first(lab: Lab) -> dict[str, Entry]:
    """What was read before anything was changed."""
    return lab.read()


def _first_apply(lab: Lab) -> str:
    """Return the oldest apply that can be taken back, so that all later ones go with it."""
    from fabricctl.apply.record import State, load  # noqa: PLC0415
    from fabricctl.store import Store  # noqa: PLC0415

    with Store.open(lab.store) as store:
        history = load(store, lab.fabric.source)
    names = [
        a.run.id
        for a in history
        if a.run.kind == "apply" and a.record.before and a.record.state in {State.DONE, State.FAILED}
    ]
    return names[-1]


def apply(lab: Lab, *more: str) -> dict[str, Any]:
    done = lab.call("apply", "--yes", "--json", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


@pytest.mark.usefixtures("found_at_first")
def test_apply_twice_drift_and_repair(lab: Lab) -> None:
    first = apply(lab, "--policy", str(lab.other))
    wanted = first["read_back"]["settings"]
    assert first["read_back"] == {"as_intended": wanted, "settings": wanted}
    assert wanted > 50
    assert max(first["tasks"].values()) == 2
    assert lab.leftovers() == ""
    done = lab.call("apply", "--yes", "--json", "--policy", str(lab.other), imports=True)
    second = json.loads(done.stdout)
    assert (second["tasks"], second["plan"]["devices"], second["run"]) == ({}, [], None)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "fabricctl.apply.flow" in loaded
    assert "ansible_runner" not in loaded  # nothing to do opens no Ansible process
    assert lab.call("drift").returncode == 0

    lab.tell("node2", "dcb pfc set dev eth1 prio-pfc all:off\n")
    lab.tell("leaf1", "ip link set dev eth1 mtu 2900; tc qdisc del dev eth2 root\n")
    found = lab.call("drift")
    assert found.returncode == 3
    lines = found.stdout.splitlines()
    assert f"node2/eth1 pfc_priorities: should be 3,5, is none (since apply {first['run']})" in lines
    assert f"leaf1/eth1 mtu_bytes: should be 3000, is 2900 (since apply {first['run']})" in lines
    assert any(line.startswith("leaf1/eth2 ecn: should be on, is off") for line in lines)

    repaired = apply(lab, "--policy", str(lab.other))
    assert set(repaired["tasks"]) == {"node2", "leaf1"}
    assert lab.call("drift").returncode == 0


def test_rollback_restores_the_reading_before(lab: Lab) -> None:
    before = lab.read()
    assert apply(lab)["run"]
    assert lab.read() != before
    done = lab.call("rollback", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.read() == before
    drift = lab.call("drift")
    assert drift.returncode == 0, drift.stdout  # of the earlier intent


def test_unconfirmed_changes_revert_when_the_controller_is_killed(lab: Lab) -> None:
    before = lab.read()
    _killed_in_mid_apply(lab, "--confirm-within", "90s")
    assert lab.read() != before
    end = time.monotonic() + 240
    while lab.leftovers():
        assert time.monotonic() < end, "the timers have not reverted the guests"
        time.sleep(5)
    assert lab.read() == before


def test_the_next_apply_takes_over_from_a_killed_one(lab: Lab) -> None:
    _killed_in_mid_apply(lab)
    assert lab.leftovers() != ""
    taken = lab.call("apply", "--yes", "--policy", str(lab.other))
    assert taken.returncode == 0, taken.stdout + taken.stderr
    assert "was killed: reverting what it had not confirmed" in taken.stderr
    assert lab.leftovers() == ""
    assert lab.call("drift").returncode == 0


def _killed_in_mid_apply(lab: Lab, *more: str) -> None:
    argv = [sys.executable, "-m", "fabricctl", "apply", "-i", str(lab.inventory), "--yes", *more]
    with subprocess.Popen(
        argv,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=lab.environment(),
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("reading back"):
                break
        running.send_signal(signal.SIGKILL)


def test_confirm_keeps_what_waits(lab: Lab) -> None:
    waiting = apply(lab, "--confirm-within", "10m")
    assert waiting["state"] == "waiting for confirm"
    assert lab.call("apply", "--yes").returncode == 5
    done = lab.call("confirm", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(done.stdout)
    assert facts["read_back"]["as_intended"] == facts["read_back"]["settings"]
    assert lab.leftovers() == ""
    assert lab.call("drift").returncode == 0


def test_a_device_that_does_not_answer_stops_only_its_links(lab: Lab) -> None:
    gone = replace(lab.fabric.device("node2").endpoint, port=1)
    text = lab.inventory.read_text().replace(
        f"ansible_port: {lab.fabric.device('node2').endpoint.port}\n", f"ansible_port: {gone.port}\n"
    )
    # The same folder, as the inventory names its files from there.
    aside = lab.inventory.with_name("inventory-without-node2.yml")
    aside.write_text(text)
    argv = [
        sys.executable,
        "-m",
        "fabricctl",
        "apply",
        str(aside),
        "--policy",
        str(lab.other),
        "--yes",
        "--json",
    ]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, env=lab.environment(), timeout=DEADLINE_S
        )
        back = subprocess.run(
            [sys.executable, "-m", "fabricctl", "rollback", "-i", str(aside), "--yes"],
            capture_output=True,
            text=True,
            check=False,
            env=lab.environment(),
            timeout=DEADLINE_S,
        )
    finally:
        aside.unlink()
    assert done.returncode == 4, done.stdout + done.stderr
    facts = json.loads(done.stdout)
    assert list(facts["plan"]["unread"]) == ["node2"]
    assert len(facts["not_attempted"]) == 1
    assert "its link's other end node2/eth1 could not be read" in next(iter(facts["not_attempted"].values()))
    assert set(facts["tasks"]) == {d.name for d in lab.fabric.devices} - {"node2"}
    assert back.returncode == 0, back.stdout + back.stderr


def test_settings_survive_a_reboot(lab: Lab) -> None:
    apply(lab, "--policy", str(lab.other))
    wanted = {key: entry for key, entry in lab.read().items() if key.startswith("node1/")}
    argv = [sys.executable, "-m", "fabricctl", "lab", "reboot", "node1", "--name", lab.inventory.parent.name]
    subprocess.run(argv, check=True, capture_output=True, timeout=DEADLINE_S)
    deadline = time.monotonic() + 120
    while True:
        again = {key: entry for key, entry in lab.read().items() if key.startswith("node1/")}
        if again == wanted or time.monotonic() > deadline:
            break
        time.sleep(5)
    assert again == wanted
    assert f"node1/eth1 {settings.BOOT}" in again
    assert lab.call("drift").returncode == 0


def test_a_rollback_of_all_restores_the_first_reading(lab: Lab, found_at_first: dict[str, Entry]) -> None:
    done = lab.call("rollback", _first_apply(lab), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.read() == found_at_first
    assert lab.leftovers() == ""
