"""``fabricctl links`` on real guests: what is broken is named with both ends, and what is whole is no alarm.

Every run has a store of its own unless it is about earlier runs: faults of other tests are no news here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fabricctl.lab import flow, state
from fabricctl.lab.fabric import Shape
from fabricctl.resources import STORE_VARIABLE

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

INTERVAL_S = 2
ROUNDS = 20
SPEAKING = {
    *(
        "reach",
        "link_state",
        "mtu",
        "cabling",
        "flaps",
        "counters",
        "congestion",
        "gids",
        "neighbours",
        "foreign",
    ),
    *("memlock", "open_files", "pcie", "access_control", "numa", "gpu_direct", "uniform", "rails"),
    *("device_nodes", "clock"),
}
"""Checks that have something to say of the lab: it has neither InfiniBand nor bonds."""


def cable(number: int) -> set[str]:
    """Return the ends of a node's cable."""
    return {f"node{number}/eth1", f"leaf1/eth{number}"}


@dataclass(frozen=True)
class Report:
    """What one run said."""

    code: int
    body: Mapping[str, Any]

    def of(self, check: str, outcome: str = "") -> list[dict[str, Any]]:
        return [
            finding
            for finding in self.body["findings"]
            if finding["check"] == check and outcome in {"", finding["outcome"]}
        ]

    def alarms(self) -> list[str]:
        return [_line(finding) for finding in self.body["findings"] if finding["outcome"] != "pass"]

    def failed(self, check: str, *subjects: set[str]) -> list[dict[str, Any]]:
        """Return all that did not pass: a failure of one check for each subject, given as its ends."""
        found = [finding for finding in self.body["findings"] if finding["outcome"] != "pass"]
        said = [(one["check"], one["outcome"], set(one["subject"].split(" - "))) for one in found]
        assert said == [(check, "fail", subject) for subject in subjects], self.alarms()
        assert all(one["next_step"] for one in found)
        assert self.code == 1
        return found


def _line(finding: Mapping[str, Any]) -> str:
    keys = ("outcome", "check", "subject", "what", "next_step")
    return " | ".join(str(finding.get(key, "")) for key in keys)


class Links:
    """Runs ``fabricctl links`` with a store of its own."""

    def __init__(self, inventory: Path, store: Path) -> None:
        self._inventory = inventory
        self._environment = {**os.environ, STORE_VARIABLE: str(store)}

    def start(self, only: str = "", limit: str = "", *more: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "fabricctl", "links", str(self._inventory), "--json", *more]
        if "--interval" not in more:
            argv += ["--interval", str(INTERVAL_S)]
        for option, value in (("--only", only), ("--limit", limit)):
            argv += [option, value] if value else []
        return subprocess.Popen(
            argv, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __call__(self, only: str = "", limit: str = "") -> Report:
        return finish(self.start(only, limit))


def finish(process: subprocess.Popen[str]) -> Report:
    printed, said = process.communicate(timeout=300)
    assert process.returncode in {0, 1, 4}, said + printed
    return Report(process.returncode, json.loads(printed))


@pytest.fixture(scope="module")
def fitted(lab_session: Any) -> None:
    """Give all ports the MTU of the policy, and forget which links the tests before have taken down.

    An apply does more, and takes minutes.
    """
    scripts = {f"node{n}": "ip link set eth1 mtu 4200" for n in range(1, 5)}
    scripts["leaf1"] = "for port in eth1 eth2 eth3 eth4; do ip link set $port mtu 9000; done"
    with ThreadPoolExecutor(len(scripts)) as pool:
        jobs = [pool.submit(lab_session.ssh, node, f"{script}; dmesg -C") for node, script in scripts.items()]
        for job in jobs:
            job.result()


@pytest.fixture
def lab(fitted: None, lab_fabric: Any) -> Any:
    del fitted
    _settle(lab_fabric)
    return lab_fabric


@pytest.fixture
def links(lab: Any, tmp_path: Path) -> Links:
    return Links(lab.inventory, tmp_path / "store.sqlite")


def _settle(lab: Any) -> None:
    """Wait until the leaf has heard all its neighbours, which tell of themselves every 5 s."""
    end = time.monotonic() + 60
    heard = "lldpcli -f keyvalue show neighbors | grep -c chassis.name= || true"
    while (found := int(lab.ssh("leaf1", heard))) != 4:
        assert time.monotonic() < end, f"leaf1 hears {found} of 4 neighbours"
        time.sleep(1)


@contextmanager
def _made(lab: Any, node: str, script: str, undo: str) -> Iterator[None]:
    lab.ssh(node, script)
    try:
        yield
    finally:
        lab.ssh(node, undo)


# The order matters: what a link that was down leaves behind would be an alarm in the tests of what is whole.


def test_a_healthy_lab_passes_every_check(links: Links) -> None:
    report = links()
    assert report.alarms() == []
    assert (report.code, report.body["outcome"], report.body["unreachable"]) == (0, "pass", {})
    spoken = {finding["check"] for finding in report.body["findings"]}
    assert spoken >= SPEAKING, SPEAKING - spoken
    assert {finding["what"] for finding in report.of("reach")} == {"it answered"}


def test_a_healthy_lab_gives_no_false_alarm_in_20_rounds(links: Links) -> None:
    process = links.start("", "", "--watch")
    assert process.stdout is not None
    try:
        for number in range(1, ROUNDS + 1):
            report = Report(0, json.loads(process.stdout.readline()))
            assert report.alarms() == [], f"round {number} of {ROUNDS}"
            assert report.body["outcome"] == "pass"
            assert report.body.get("changed", []) == [], f"round {number} of {ROUNDS}"
    finally:
        # As Ctrl-C, but for who started the tests in the background: that may have SIGINT ignored.
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 130


def test_s40_a_port_that_is_not_of_the_fabric_is_no_alarm(lab: Any, links: Links) -> None:
    make = (
        "ip link add dummy7 type dummy && ip addr add 10.77.0.1/24 dev dummy7 && ip link set dummy7 up && "
        "rdma link add rxe7 type rxe netdev dummy7"
    )
    with _made(lab, "node4", make, "rdma link delete rxe7; ip link del dummy7"):
        report = links()
    assert report.alarms() == []
    assert report.code == 0
    notes = {one["subject"]: one for one in report.of("foreign", "pass")}
    assert "rxe7 on dummy7 is active and not of the fabric" in notes["node4"]["what"]
    assert "NCCL_IB_HCA==rxe0" in notes["node4"]["next_step"]
    assert notes["node3"]["next_step"] == ""


def test_an_unreachable_node_costs_its_own_findings_only(lab: Any, links: Links) -> None:
    lab.fault("freeze", "node4")
    began = time.monotonic()
    report = links()
    took_s = time.monotonic() - began
    assert report.code == 4
    assert list(report.body["unreachable"]) == ["node4"]
    whole = [one for one in report.body["findings"] if "node4" not in one["subject"]]
    spoken = {one["check"] for one in whole}
    assert spoken >= SPEAKING, SPEAKING - spoken
    assert {one["outcome"] for one in whole} == {"pass"}
    assert {one["subject"] for one in whole} >= {"node1", "node2", "node3", "leaf1"}
    (reach,) = [one for one in report.of("reach") if one["subject"] == "node4"]
    assert reach["outcome"] == "unknown"
    assert "ssh" in reach["next_step"]
    assert took_s < 120


def test_s51_a_launcher_with_little_memory_to_lock_is_found(lab: Any, links: Links) -> None:
    start = "cp /usr/bin/sleep /run/slurmd && ulimit -l 64 && (/run/slurmd 600 >/dev/null 2>&1 </dev/null &)"
    with _made(lab, "node3", start, "pkill -x slurmd; rm -f /run/slurmd"):
        report = links("memlock", "node3")
    (found,) = report.failed("memlock", {"node3"})
    assert "slurmd" in found["what"]
    assert found["measured"].replace(" ", "") in {"64kB", "64KiB", "65536bytes"}, found["measured"]
    assert "LimitMEMLOCK=infinity" in found["next_step"]
    assert found["culprit"] == "node3"


def test_a_duplicate_address_is_found_at_the_port_that_should_not_have_it(lab: Any, links: Links) -> None:
    with _made(lab, "node2", "ip addr add 10.10.0.3/24 dev eth1", "ip addr del 10.10.0.3/24 dev eth1"):
        report = links("gids", "node2,node3")
    (found,) = report.failed("gids", {"node2/eth1"})
    assert found["what"] == "node2/eth1 also has 10.10.0.3, which the inventory gives to node3/eth1"
    assert found["next_step"] == "on node2: ip addr del 10.10.0.3/24 dev eth1"
    assert found["culprit"] == "node2/eth1"


def test_an_mtu_hole_is_found_on_the_link(lab: Any, links: Links) -> None:
    lab.fault("mtu", "leaf1", "eth2", amount=1500)
    (found,) = links("mtu", "node2,leaf1").failed("mtu", cable(2))
    assert "leaf1/eth2 is 1500 bytes" in found["what"]
    assert "9000" in found["what"]
    assert "leaf1" in found["next_step"]


def test_s41_a_link_that_flapped_before_must_be_stable_for_a_while(lab: Any, links: Links) -> None:
    assert links("flaps", "node3,leaf1").alarms() == []
    lab.fault("link-down", "node3")
    time.sleep(2)
    lab.clear()
    _settle(lab)
    (found,) = links("flaps", "node3,leaf1").failed("flaps", cable(3))
    assert "not stable yet" in found["what"]
    assert "lost its carrier once" in found["what"]
    assert "600 s" in found["limit"]
    assert "it counts as stable in" in found["next_step"]


def test_s44_a_link_that_flaps_meanwhile_is_named(lab: Any, links: Links) -> None:
    process = links.start("flaps", "node3,leaf1", "--interval", "4")
    while process.poll() is None:
        lab.fault("link-down", "node3")
        time.sleep(1)
        lab.clear()
        time.sleep(1)
    (found,) = finish(process).failed("flaps", cable(3))
    assert "lost its carrier" in found["what"]
    assert found["interval_s"] >= 4


def test_a_pulled_cable_is_named_with_both_ends(lab: Any, links: Links) -> None:
    lab.fault("link-down", "node2")
    report = links("link_state", "node2,leaf1")
    (found,) = report.failed("link_state", cable(2))
    assert "node2/eth1 says down, leaf1/eth2 says down" in found["what"]
    assert "reseat" in found["next_step"]


def test_s37_swapped_cables_are_named_with_the_ports_where_they_are(lab: Any, links: Links) -> None:
    lab.fault("swap", "node1", partner="node2/eth1")
    _settle(lab)
    found = links("cabling", "node1,node2,leaf1").failed("cabling", cable(1), cable(2))
    assert "node1/eth1 should be on leaf1/eth1, is on leaf1/eth2" in found[0]["what"]
    assert "node2/eth1 the other way round" in found[0]["what"]
    assert "node2/eth1 should be on leaf1/eth2, is on leaf1/eth1" in found[1]["what"]
    assert "swap the cables in leaf1/eth1 and leaf1/eth2" in found[0]["next_step"]
    lab.clear()
    _settle(lab)
    assert links("cabling", "node1,node2,leaf1").alarms() == []


@dataclass(frozen=True)
class _TwoRails:
    """A lab of two nodes with two rails on one leaf; `flat` is its inventory with one subnet for both."""

    lab: Any
    flat: Path


@pytest.fixture(scope="module")
def two_rails(lab_session: Any) -> Iterator[_TwoRails]:
    where = state.places(f"test-{uuid.uuid4().hex[:8]}")
    try:
        flow.up(where, Shape(nodes=2, rails=2), mirror="", report=lambda _: None)
        tree = yaml.safe_load(where.inventory.read_text())
        for number, node in enumerate(tree["all"]["children"]["fabric_nodes"]["hosts"].values(), start=1):
            node["fabric_ports"][1]["address"] = f"10.10.0.1{number}/24"
        flat = where.folder / "flat.yml"
        flat.write_text(yaml.safe_dump(tree))
        yield _TwoRails(type(lab_session)(where), flat)
    finally:
        flow.down(where, report=lambda _: None)


def test_s33_arp_flux_of_two_rails_in_one_subnet_is_found(two_rails: _TwoRails, tmp_path: Path) -> None:
    lab, links = two_rails.lab, Links(two_rails.flat, tmp_path / "store.sqlite")
    for number in (1, 2):
        move = f"ip addr del 10.11.0.{number}/24 dev eth2; ip addr add 10.10.0.1{number}/24 dev eth2"
        lab.ssh(f"node{number}", move)
    lab.ssh("node1", "ping -c 1 10.10.0.2; ping -c 1 10.10.0.12; true")
    report = links("neighbours", "node*")
    assert report.code == 1, report.alarms()
    # Whose answer came last is a matter of luck, so there may be neighbours at the wrong port as well.
    found = {one["subject"]: one for one in report.of("neighbours", "fail") if "arp_ignore is" in one["what"]}
    assert sorted(found) == ["node1", "node2"], report.alarms()
    for node, one in found.items():
        assert "eth1 and eth2 are both in 10.10.0.0/24" in one["what"]
        assert "arp_ignore is 0 on eth1 and eth2, arp_announce is 0 on eth1 and eth2" in one["what"]
        remedy, _, rest = one["next_step"].partition(", and keep it")
        assert "ip neigh flush all" in rest
        lab.ssh(node, remedy.removeprefix(f"on {node}: "))
    for node in found:
        lab.ssh(node, "ip neigh flush all")
    lab.ssh("node1", "ping -c 1 -I eth1 10.10.0.2; ping -c 1 -I eth2 10.10.0.12; true")
    assert links("neighbours", "node*").alarms() == []
