"""What waits for a reset, what a port cannot have, who else sets the same: said, and never called done."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from fabricctl.apply.plan import deviations
from fabricctl.model import facts, settings
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known

Call = Callable[..., Result]
NODE1, NODE2 = PortId("node1", "eth1"), PortId("node2", "eth1")
STORED = f"{settings.PFC}: reset its firmware: mstfwreset -d 17:00.0 r"
LLDPAD = "lldpad.service"


@pytest.fixture
def stored(world: Any) -> Any:
    """A world in which node1 stores PFC priorities, but they hold only after a reset."""
    world.facts[NODE1] = {facts.PENDING: Known((STORED,))}
    return world


def test_what_is_stored_is_pending_in_plan_apply_and_drift_until_the_reset(call: Call, stored: Any) -> None:
    done = call("apply", "--yes")
    line = "node1/eth1 pfc_priorities: stored, does not hold yet: reset its firmware: mstfwreset -d 17:00.0 r"
    assert done.exit_code == 3
    assert line in done.stdout.splitlines()
    assert "read back: 11 of 12 settings as intended, 1 stored and pending until a reset" in done.stdout
    plan = call("plan")
    assert plan.exit_code == 3
    assert plan.stdout.splitlines() == [
        line,
        "nothing to do but to wait: 1 setting stored and pending until a reset",
    ]
    again = call("apply", "--yes")
    assert again.exit_code == 3
    assert "0 tasks on 0 devices; read back: 11 of 12 settings as intended, 1 stored" in again.stdout
    drift = call("drift")
    assert drift.exit_code == 3
    assert line in drift.stdout.splitlines()
    assert drift.stdout.splitlines()[-1].startswith("no drift; 1 setting stored and pending until a reset")
    stored.facts.clear()
    assert call("plan").exit_code == 0
    assert call("drift").exit_code == 0


def test_pending_is_in_the_json(call: Call, stored: Any) -> None:
    del stored
    said = json.loads(call("apply", "--yes", "--json").stdout)
    assert said["pending"] == [
        {
            "port": "node1/eth1",
            "setting": "pfc_priorities",
            "why": "reset its firmware: mstfwreset -d 17:00.0 r",
        }
    ]


def test_a_step_on_the_same_setting_is_no_second_line(call: Call, stored: Any) -> None:
    del stored
    lines = call("plan").stdout.splitlines()
    assert not [line for line in lines if "does not hold yet" in line]


def test_pending_settings_are_no_pass_for_a_certificate(call: Call, stored: Any, fakes: Any) -> None:
    call("apply", "--yes")
    fabric = stored.fabric
    drivers = {device.name: fakes.FakeDriver(device.role) for device in fabric.devices}
    found = deviations(fabric, fakes.intents(fabric, fakes.policy()), stored.read(fabric.devices), drivers)
    assert found == {NODE1: "pfc_priorities (stored: reset its firmware: mstfwreset -d 17:00.0 r)"}


def test_what_this_port_cannot_have_is_no_step_and_is_said(call: Call, world: Any) -> None:
    world.set(NODE1, settings.PFC, "impossible")
    plan = call("plan")
    assert "not supported on node1/eth1: pfc_priorities = 3: this firmware has none" in plan.stdout
    done = call("apply", "--yes")
    assert done.exit_code == 0
    assert "read back: 11 of 11 settings as intended" in done.stdout
    assert call("plan").exit_code == 0


@pytest.mark.parametrize("where", ["device", "port"])
def test_a_rival_is_named_in_plan_and_drift(call: Call, world: Any, where: str) -> None:
    call("apply", "--yes")
    world.set(NODE1, settings.PFC, "()")
    found = {facts.RIVALS: Known((LLDPAD,))}
    if where == "device":
        world.device_facts["node1"] = found
    else:
        world.facts[NODE1] = found
    assert f"left alone, another sets the same on node1/eth1: {LLDPAD}" in call("plan").stdout
    drift = call("drift")
    assert drift.exit_code == 3
    assert f"node1/eth1: another sets the same: {LLDPAD}" in drift.stdout.splitlines()


def test_a_port_with_a_rival_is_left_alone_with_its_link_and_the_others_go_on(call: Call, world: Any) -> None:
    world.device_facts["node1"] = {facts.RIVALS: Known((LLDPAD,))}
    done = call("apply", "--yes")
    assert done.exit_code == 3
    line = f"not attempted: on node1/eth1 another sets the same, stop it first: {LLDPAD}"
    assert f"node1/eth1, leaf1/eth1: {line}" in done.stdout.splitlines()
    assert (world.get("node1/eth1", settings.PFC), world.get("leaf1/eth1", settings.PFC)) == ("()", "()")
    assert (world.get("node2/eth1", settings.PFC), world.get("leaf1/eth2", settings.PFC)) == ("(3,)", "(3,)")
    world.device_facts.clear()
    assert call("apply", "--yes").exit_code == 0
    assert world.get("node1/eth1", settings.PFC) == "(3,)"


def test_rivals_everywhere_leave_everything_alone(call: Call, world: Any) -> None:
    world.device_facts.update({d.name: {facts.RIVALS: Known((LLDPAD,))} for d in world.fabric.devices})
    done = call("apply", "--yes", "--disrupt")
    assert done.exit_code == 3
    assert world.pushes == []
    assert call("runs").stdout.count("apply") == 0


def test_the_control_plane_of_each_port_is_named(call: Call, world: Any) -> None:
    world.facts[NODE1] = {facts.PLANE: Known("inbox driver (dcb, debugfs)")}
    world.facts[NODE2] = {facts.PLANE: Known("MLNX_OFED (mlnx_qos, sysfs)")}
    lines = call("plan").stdout.splitlines()
    assert "control plane of node1/eth1: inbox driver (dcb, debugfs)" in lines
    assert "control plane of node2/eth1: MLNX_OFED (mlnx_qos, sysfs)" in lines
