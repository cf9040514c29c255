"""The product's own commands on a switch with NVUE, with real ansible: with ``nv``, and over REST."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fabricctl import resources

Make = Callable[..., Any]
_CONNECT = socket.socket.connect
_PASSWORD = "s3cret!"  # noqa: S105  the simulator's

INVENTORY = """\
all:
  vars:
    fabric_policy: policy.yml
    fabric_scheduler: none
  hosts:
    node1:
      fabric_role: node
      fabric_driver: none
      fabric_ports:
        - {name: eth1, speed_gbps: 100, link: {switch: leaf1, port: swp1, cable_length_m: 5}}
    node2:
      fabric_role: node
      fabric_driver: none
      fabric_ports:
        - {name: eth1, speed_gbps: 100, link: {switch: leaf1, port: swp2, cable_length_m: 5}}
    leaf1:
      fabric_role: switch
      fabric_driver: cumulus
"""
SHELL = "      ansible_connection: local\n"
REST = """\
      ansible_connection: ansible.netcommon.httpapi
      ansible_host: 127.0.0.1
      ansible_httpapi_port: {port}
      ansible_user: cumulus
      fabric_password_file: password
      fabric_ca_file: ca.pem
"""


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def loopback(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address[0] == "127.0.0.1", address
        _CONNECT(self, address)

    monkeypatch.setattr(socket.socket, "connect", loopback)


class Site:
    """A switch, and the commands on its inventory."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench

    def call(self, name: str, *arguments: str) -> Result:
        command = importlib.import_module(f"fabricctl.cli.{name}").command
        return CliRunner().invoke(command, arguments)

    def plan(self) -> dict[str, Any]:
        result = self.call("plan", "--json")
        assert result.exit_code in {0, 3}, result.output
        return dict(json.loads(result.stdout))


with_nv = pytest.mark.parametrize("site", ["nv"], indirect=True)
over_rest = pytest.mark.parametrize("site", ["REST"], indirect=True)


@pytest.fixture
def site(
    request: pytest.FixtureRequest,
    make: Make,
    simulator: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    bench = make("5.8.0", {"interface": {"swp1": {"type": "swp", "link": {"mtu": 1500}}}})
    policy = resources.folder("inventories") / "policies" / "lossless-roce.yml"
    (tmp_path / "policy.yml").write_text(policy.read_text())
    monkeypatch.setenv("FABRICCTL_INVENTORY", str(tmp_path / "inventory.yml"))
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "store.sqlite"))
    if request.param == "nv":
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        monkeypatch.setenv("NVUE_SIM_CODE", str(Path(sys.modules["engine"].__file__ or "").parent))
        (tmp_path / "inventory.yml").write_text(INVENTORY + SHELL)
        yield Site(bench)
        return
    # What outlives a program is beside the store.
    monkeypatch.delenv("FABRICCTL_RUN")
    shutil.rmtree(tmp_path / "bin")
    (tmp_path / "password").write_text(f"{_PASSWORD}\n")
    (tmp_path / "password").chmod(0o600)
    with simulator("nvue_rest", "rest.py").Server(tmp_path, password=_PASSWORD) as server:
        (tmp_path / "inventory.yml").write_text(INVENTORY + REST.format(port=server.port))
        yield Site(bench)


@with_nv
def test_plan_apply_drift_and_rollback(site: Site) -> None:
    before = site.bench.config()
    planned = site.plan()
    steps = {step["setting"] for device in planned["devices"] for step in device["steps"]}
    assert {
        "mtu_bytes",
        "trust",
        "dscp_priority",
        "priority_tc",
        "pfc_priorities",
        "lossless_buffers",
    } <= steps
    assert {step["disruption"] for device in planned["devices"] for step in device["steps"]} >= {
        "buffer re-carve",
        "system-wide",
        "mtu change",
    }
    assert site.bench.config() == before

    applied = site.call("apply", "--yes")
    assert applied.exit_code == 0, applied.output
    state = site.bench.state()
    assert state["startup"] == state["applied"]
    assert state["waits"] is None
    assert state["applied"]["interface"]["swp1"]["link"]["mtu"] == 9216
    assert state["applied"]["interface"]["swp2"]["qos"]["pfc"]["profile"].startswith("fabricctl-")

    assert site.plan()["devices"] == []
    (profile,) = state["applied"]["qos"]["pfc"]
    site.bench.sim.by_hand({"qos": {"pfc": {profile: {"tx": "disable"}}}})
    drifted = site.call("drift")
    assert drifted.exit_code == 3, drifted.output
    assert "pfc_priorities" in drifted.output
    site.bench.sim.by_hand({"qos": {"pfc": {profile: {"tx": "enable"}}}})

    undone = site.call("rollback", "--yes")
    assert undone.exit_code == 0, undone.output
    state = site.bench.state()
    assert "fabricctl-" not in json.dumps(state["applied"])
    assert state["applied"]["interface"]["swp1"]["link"]["mtu"] == 1500
    assert state["startup"] == state["applied"]


@over_rest
def test_over_rest_it_is_set_and_proven_and_no_password_is_kept_or_shown(site: Site, tmp_path: Path) -> None:
    applied = site.call("apply", "--yes")
    assert applied.exit_code == 0, applied.output
    state = site.bench.state()
    assert state["startup"] == state["applied"]
    assert state["applied"]["interface"]["swp1"]["link"]["mtu"] == 9216
    shown = site.call("plan", "--json")
    assert json.loads(shown.stdout)["devices"] == []
    assert _PASSWORD not in applied.output + shown.output
    assert _PASSWORD.encode() not in (tmp_path / "store.sqlite").read_bytes()


@over_rest
def test_what_the_switch_refuses_changes_nothing(site: Site) -> None:
    before = site.bench.config()
    site.bench.sim.fault(refuse_apply="switchd says no")
    failed = site.call("apply", "--yes")
    assert failed.exit_code == 1, failed.output
    assert "revision 2 is invalid" in failed.output
    state = site.bench.state()
    assert (state["applied"], state["waits"], state["staged"]) == (before, None, "")


@over_rest
def test_hardware_that_does_not_follow_is_not_proven(site: Site) -> None:
    """NVUE says applied and the ASIC works otherwise: that is no pass."""
    site.bench.sim.fault(deaf_hardware=True)
    result = site.call("apply", "--yes")
    assert result.exit_code != 0, result.output
    assert "the hardware works with ()" in result.output


@over_rest
def test_a_confirm_that_never_comes(site: Site) -> None:
    before = site.bench.config()
    waiting = site.call("apply", "--yes", "--confirm-within", "5m")
    assert waiting.exit_code in {0, 4}, waiting.output
    assert site.bench.state()["waits"] is not None
    site.bench.sim.pass_time(301)
    late = site.call("confirm")
    assert late.exit_code != 0, late.output
    assert site.bench.config() == before
