"""The very scripts that are pushed, on the simulated switch: set, take back, confirm, and what may fail."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fabricctl.apply import compose
from fabricctl.drivers.switch.sonic.node import run as program
from fabricctl.model import settings
from fabricctl.model.reading import Known, Missing

Make = Callable[..., Any]
PORTS = ("Ethernet0", "Ethernet4")
OTHER = "Ethernet8"
ARISTA = "Arista-7060CX-32S-C32"
OK = "fabricctl-port Ethernet0 0\nfabricctl-port Ethernet4 0\n"


def others(config: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of the port that is nobody's business."""
    return {
        (table, key): row
        for table, rows in config.items()
        for key, row in rows.items()
        if key.partition("|")[0] == OTHER
    }


def test_marks_and_codes_are_those_of_other_devices() -> None:
    assert program.MARK == compose.PORT_MARK
    assert str(program.RUN) == compose.RUN_FOLDER
    assert (program.RC_BUSY, program.RC_UNARMED, program.RC_TOO_LATE) == (
        compose.RC_BUSY,
        compose.RC_UNARMED,
        compose.RC_TOO_LATE,
    )


@pytest.mark.parametrize(
    ("kind", "model", "sku"),
    [
        ("stock", "dynamic", "ACS-MSN2700"),
        ("stock", "traditional", "ACS-MSN2700"),
        ("stock", "traditional", ARISTA),
        ("bare", "dynamic", "ACS-MSN2700"),
        ("bare", "traditional", ARISTA),
    ],
)
def test_set_confirm_and_restore_by_values(make_world: Make, kind: str, model: str, sku: str) -> None:
    world = make_world(kind, model, sku)
    before, config = world.read(), world.switch.config()

    done = world.push()
    assert (done.returncode, done.stdout, done.stderr) == (0, OK, "")
    assert world.left() == {}
    assert others(world.switch.config()) == others(config)
    assert world.value(settings.BOOT) == settings.NOT_KEPT
    done = world.confirm(1)
    assert (done.returncode, done.stderr) == (0, "")
    assert world.value(settings.BOOT) == settings.SAVED
    assert (world.switch.timers(), world.switch.leftovers()) == ([], [])

    goals = world.restore(before)
    assert world.push(goals, apply_id="apply-2").returncode == 0
    assert world.confirm(1, apply_id="apply-2").returncode == 0
    after = world.read()
    for port in PORTS:
        lost = {
            name: after[port].settings[name]
            for name, entry in before[port].settings.items()
            if isinstance(entry, Known) and after[port].settings[name] != entry
        }
        assert lost == {}
    assert not re.search("fabricctl", json.dumps(world.switch.config()))
    assert others(world.switch.config()) == others(config)
    assert world.switch.syslog() == []


@pytest.mark.parametrize(("model", "sku"), [("dynamic", ARISTA), ("traditional", "ACS-MSN2700")])
def test_a_revert_brings_back_every_row(make_world: Make, model: str, sku: str) -> None:
    world = make_world("stock", model, sku)
    config = world.switch.config()
    world.push()
    done = world.revert()
    assert (done.returncode, done.stderr) == (0, "")
    assert world.switch.config() == config
    assert (world.switch.timers(), world.switch.leftovers(), world.switch.syslog()) == ([], [], [])


def test_the_timer_reverts_what_nobody_confirms_and_a_confirm_is_too_late(make_world: Make) -> None:
    world = make_world()
    config = world.switch.config()
    world.push()
    assert world.switch.timers() == ["fabricctl-revert-apply-1.0001.timer"]
    (fired,) = world.switch.fire()
    assert (fired.returncode, fired.stderr) == (0, "")
    assert world.switch.config() == config
    assert world.switch.leftovers() == []
    late = world.confirm(1)
    assert late.returncode == compose.RC_TOO_LATE
    assert late.stderr == "fabricctl: apply-1.0001 was reverted before it was confirmed\n"


def test_a_reboot_before_the_confirm_falls_back_to_what_was_saved(make_world: Make) -> None:
    world = make_world()
    config = world.switch.config()
    world.push()
    world.switch.reboot()
    assert world.switch.config() == config
    assert world.confirm(1).returncode == compose.RC_TOO_LATE
    # The next push clears the checkpoint away, which lies on disk.
    assert world.push(apply_id="apply-2").returncode == 0
    assert world.switch.leftovers() == ["apply-2.0001", "fabricctl-apply-2-0001.cp.json"]


def test_a_push_with_nothing_to_change_changes_nothing(make_world: Make) -> None:
    world = make_world()
    world.push()
    world.confirm(1)
    goals = [replace(goal, names=tuple(goal.wanted)) for goal in world.goals()]
    world.switch.log()
    assert world.push(goals, apply_id="apply-2").returncode == 0
    assert not [line for line in world.switch.log() if line.startswith("config apply-patch")]
    assert world.confirm(1, apply_id="apply-2").returncode == 0


def test_one_port_is_taken_back_alone_and_the_timer_runs_on_for_the_other(make_world: Make) -> None:
    world = make_world()
    config = world.switch.config()
    world.push()
    done = world.revert("Ethernet0")
    assert (done.returncode, done.stdout) == (0, "fabricctl-port Ethernet0 0\n")
    now = world.switch.config()
    for table in ("PORT", "PORT_QOS_MAP"):
        assert now[table]["Ethernet0"] == config[table]["Ethernet0"]
    rows = ("QUEUE", "BUFFER_PG", "BUFFER_QUEUE")
    mine = {(t, k): v for t in rows for k, v in now[t].items() if k.startswith("Ethernet0|")}
    assert mine == {(t, k): v for t in rows for k, v in config[t].items() if k.startswith("Ethernet0|")}
    assert "Ethernet4" not in world.left()
    assert world.switch.timers() == ["fabricctl-revert-apply-1.0001.timer"]
    assert world.confirm(1).returncode == 0
    assert "Ethernet4" not in world.left()
    assert (world.switch.leftovers(), world.switch.syslog()) == ([], [])


def test_two_pushes_of_one_apply_are_taken_back_together_by_either_timer(make_world: Make) -> None:
    world = make_world()
    config = world.switch.config()
    world.push(world.goals(ports=("Ethernet0",)))
    world.push(world.goals(ports=("Ethernet4",)), slot=2)
    assert len(world.switch.timers()) == 2
    world.switch.fire()
    assert world.switch.config() == config
    assert (world.switch.timers(), world.switch.leftovers()) == ([], [])


def test_two_pushes_are_confirmed_together_though_one_was_refused(make_world: Make) -> None:
    world = make_world()
    world.push(world.goals(ports=("Ethernet0",)))
    world.switch.fail(refuse_dry="no")
    assert world.push(world.goals(ports=("Ethernet4",)), slot=2).returncode == 1
    world.switch.fail()
    assert world.revert("Ethernet4").returncode == 0
    assert world.confirm(1, 2).returncode == 0
    assert set(world.left()) == {"Ethernet4"}
    assert (world.switch.timers(), world.switch.leftovers()) == ([], [])


def test_another_apply_that_waits_is_not_disturbed(make_world: Make) -> None:
    world = make_world()
    world.push(world.goals(ports=("Ethernet0",)))
    config = world.switch.config()
    busy = world.push(world.goals(ports=("Ethernet4",)), apply_id="apply-2")
    assert busy.returncode == compose.RC_BUSY
    step = "confirm it or let its timer revert it"
    assert busy.stderr == f"fabricctl: apply-1 waits to be confirmed here; {step}\n"
    assert world.confirm(apply_id="apply-2").returncode == compose.RC_BUSY
    assert world.switch.config() == config
    assert world.revert(apply_id="apply-2").returncode == 0
    assert world.switch.config() == config


def test_what_others_change_while_it_waits_survives_the_revert(make_world: Make) -> None:
    world = make_world()
    config = world.switch.config()
    world.push()
    world.switch.change("PORT", OTHER, description="a word")
    world.switch.change("PORT", "Ethernet0", description="another")
    assert world.revert().returncode == 0
    config["PORT"][OTHER]["description"] = "a word"
    config["PORT"]["Ethernet0"]["description"] = "another"
    assert world.switch.config() == config


def test_a_confirm_without_a_push_saves_what_runs(make_world: Make) -> None:
    world = make_world()
    world.switch.change("PORT", "Ethernet0", mtu="1500")
    assert world.value(settings.BOOT) == settings.NOT_KEPT
    assert world.confirm().returncode == 0
    assert world.value(settings.BOOT) == settings.SAVED


def test_having_nothing_to_take_back_is_success(make_world: Make) -> None:
    done = make_world().revert()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# what may go wrong


def test_a_refusal_of_the_rehearsal_is_told_in_sonics_words_and_nothing_is_changed(make_world: Make) -> None:
    world = make_world()
    world.switch.change("SCHEDULER", "broken", type="DWRR", weight="101")
    config = world.switch.config()
    done = world.push()
    assert done.returncode == 1
    assert "nothing was changed, the switch refuses: Error: Validate json patch:" in done.stderr
    assert done.stdout == ""
    assert (world.switch.config(), world.switch.timers()) == (config, [])
    assert world.revert(*PORTS).returncode == 0
    assert world.switch.leftovers() == []


def test_a_commit_that_is_refused_is_taken_back(make_world: Make) -> None:
    world = make_world()
    config = world.switch.config()
    world.switch.fail(refuse="the database is locked")
    done = world.push()
    assert done.returncode == 1
    assert done.stdout == "fabricctl-port Ethernet0 1\nfabricctl-port Ethernet4 1\n"
    assert "fabricctl: Ethernet0: Error: the database is locked\n" in done.stderr
    world.switch.fail()
    assert world.revert().returncode == 0
    assert world.switch.config() == config


@pytest.mark.parametrize("changes", [1, 4, 9])
def test_a_change_that_ends_in_the_middle_leaves_no_port_off_and_is_taken_back(
    make_world: Make, changes: int
) -> None:
    world = make_world()
    config = world.switch.config()
    world.switch.fail(break_after=changes)
    assert world.push().returncode == 1
    assert {row["admin_status"] for row in world.switch.config()["PORT"].values()} == {"up"}
    world.switch.fail()
    world.switch.fire()
    assert world.switch.config() == config
    assert (world.switch.timers(), world.switch.leftovers()) == ([], [])


def test_sonics_own_rollback_is_the_last_means(make_world: Make) -> None:
    world = make_world()
    config = world.switch.config()
    world.push()
    world.switch.fail(refuse_dry="not now")
    done = world.revert()
    assert (done.returncode, done.stderr) == (0, "")
    assert "config rollback fabricctl-apply-1-0001" in world.switch.log()
    assert world.switch.config() == config
    assert world.switch.leftovers() == []


def test_sonics_own_rollback_is_not_used_where_it_would_take_back_more_than_ours(make_world: Make) -> None:
    world = make_world()
    world.push()
    world.switch.change("PORT", OTHER, description="a word")
    world.switch.fail(refuse_dry="not now")
    done = world.revert()
    assert (done.returncode, done.stderr) == (1, "fabricctl: not reverted: Error: not now\n")
    assert world.switch.row("PORT", OTHER)["description"] == "a word"
    assert world.switch.timers() == ["fabricctl-revert-apply-1.0001.timer"]
    # It can be tried again.
    world.switch.fail()
    assert world.revert().returncode == 0
    assert world.switch.leftovers() == []


def test_without_a_timer_nothing_is_changed(make_world: Make) -> None:
    world = make_world()
    config = world.switch.config()
    world.switch.fail(no_timers=True)
    done = world.push()
    assert done.returncode == compose.RC_UNARMED
    assert "nothing was changed" in done.stderr
    assert (world.switch.config(), world.switch.leftovers()) == (config, [])


def test_what_cannot_be_saved_is_not_confirmed_and_reverts_by_itself(make_world: Make) -> None:
    world = make_world()
    config = world.switch.config()
    world.push()
    world.switch.fail(refuse_save="No space left on device")
    done = world.confirm(1)
    assert (done.returncode, done.stderr) == (1, "fabricctl: config save: Error: No space left on device\n")
    assert world.switch.timers() == ["fabricctl-revert-apply-1.0001.timer"]
    world.switch.fail()
    world.switch.fire()
    assert world.switch.config() == config


def test_a_link_that_does_not_come_up_again_fails_its_port(make_world: Make) -> None:
    world = make_world()
    goals = world.goals()
    script = world.driver.method.push("apply-1", 1, goals, 600)
    world.switch.fail(dead_links=["Ethernet0"])
    # The link is up until the port has been off.
    done = world.switch.run(script.replace("UP_S = 60", "UP_S = 0"))
    assert done.stdout == "fabricctl-port Ethernet0 1\nfabricctl-port Ethernet4 0\n"
    assert done.stderr == "fabricctl: Ethernet0: the link is not up again after 0 s\n"


def test_headroom_that_the_buffer_manager_does_not_make_fails_the_port(make_world: Make) -> None:
    world = make_world("bare", "traditional")
    script = world.driver.method.push("apply-1", 1, world.goals(ports=("Ethernet0",)), 600)
    world.switch.fail(no_headroom=True)
    done = world.switch.run(script.replace("UP_S = 60", "UP_S = 0"))
    assert done.stdout == "fabricctl-port Ethernet0 1\n"
    why = "lossless_buffers: the buffer manager made no headroom within 0 s"
    assert done.stderr == f"fabricctl: Ethernet0: {why}\n"


def test_a_value_that_the_switch_rounds_shows_in_the_read_back(make_world: Make) -> None:
    world = make_world()
    world.switch.fail(round=4096)
    assert world.push().returncode == 0
    assert world.value(settings.ECN_KMIN) == 147_456
    assert set(world.left()["Ethernet0"]) == {settings.ECN_KMIN, settings.ECN_KMAX}


def test_a_port_that_is_refused_does_not_hold_up_the_others(make_world: Make) -> None:
    world = make_world()
    goals = world.goals()
    goals[0].wanted["mtu_bytes"] = 9300
    done = world.push(goals)
    assert done.stdout == "fabricctl-port Ethernet0 1\nfabricctl-port Ethernet4 0\n"
    assert done.stderr == "fabricctl: Ethernet0: mtu_bytes: '9300' is not within 68..9216\n"
    assert "Ethernet4" not in world.left()


def test_several_asics_are_left_alone(make_world: Make) -> None:
    world = make_world()
    goals, config = world.goals(), world.switch.config()
    folder = "usr/share/sonic/device/x86_64-mlnx_msn2700-r0"
    world.switch.file(f"{folder}/asic.conf", "NUM_ASIC=3\n")
    readings, _ = world.driver.parse(world.ports, world.answers())
    assert isinstance(readings[world.ports[0].id].settings[settings.MTU], Missing)
    done = world.push(goals)
    why = "the switch has 3 ASICs, each with a configuration of its own: not supported"
    assert (done.returncode, done.stderr) == (1, f"fabricctl: {why}\n")
    assert (world.switch.config(), world.switch.leftovers()) == (config, [])


def test_a_release_without_the_updater_says_so(make_world: Make) -> None:
    world = make_world()
    goals = world.goals()
    (world.switch.folder / "bin/config").unlink()
    (world.switch.folder / "bin/config").write_text(
        "#!/bin/sh\necho 'Error: No such command \"apply-patch\".' >&2; exit 2\n"
    )
    (world.switch.folder / "bin/config").chmod(0o755)
    done = world.push(goals)
    assert done.returncode == 1
    assert 'the switch refuses: Error: No such command "apply-patch".' in done.stderr


def test_the_lock_of_another_change_is_respected(make_world: Make) -> None:
    world = make_world()
    script = world.driver.method.push("apply-1", 1, world.goals(), 600).replace("LOCK_S = 60", "LOCK_S = 0")
    held = world.switch.run(
        f"mkdir -p /run/fabricctl; exec 9>/run/fabricctl/lock; flock 9\n( {script}\n) 2>&1; echo rc=$?"
    )
    step = "try again when it is done"
    assert held.stdout == f"fabricctl: another change is at work on this device; {step}\nrc=75\n"
    assert world.switch.leftovers() == []


def test_drift_shows_and_is_mended(make_world: Make) -> None:
    world = make_world()
    world.push()
    world.confirm(1)
    world.switch.change("PORT_QOS_MAP", "Ethernet0", pfc_enable="3,4")
    world.switch.change("FLEX_COUNTER_TABLE", "PFCWD", FLEX_COUNTER_STATUS="disable")
    assert set(world.left()["Ethernet0"]) == {
        settings.PFC,
        settings.ECN,
        settings.WATCHDOG,
        "sonic.pfc_queue",
        "sonic.pfc_group",
    }
    assert world.left()["Ethernet4"] == (settings.WATCHDOG,)
    assert world.push(apply_id="apply-2").returncode == 0
    assert world.left() == {}


def test_a_missing_answer_is_a_reason_and_not_a_value(make_world: Make) -> None:
    world = make_world()
    (world.switch.folder / "bin/sonic-cfggen").unlink()
    readings, _ = world.driver.parse(world.ports, world.answers())
    found = readings[world.ports[0].id].settings
    assert isinstance(found[settings.PFC], Missing)
    assert "sonic-cfggen: the program is not installed" in found[settings.PFC].reason


def test_a_rollback_marks_again_where_pfc_was_changed_by_hand(make_world: Make) -> None:
    """With PFC on 4 added by hand, the port does not mark on all that PFC has: that is no wish."""
    world = make_world()
    first = world.read()
    assert world.push().returncode == 0
    assert world.confirm(1).returncode == 0
    world.switch.change("PORT_QOS_MAP", "Ethernet0", pfc_enable="3,4")
    assert world.value(settings.ECN) is False
    goals = [
        replace_goal(each, without=settings.ECN, wanted={**each.wanted, settings.ECN: False})
        for each in world.restore(first)
        if each.port.id.port == "Ethernet0"
    ]
    assert world.push(goals, apply_id="apply-2").returncode == 0
    found = world.read()["Ethernet0"].settings
    names = ("sonic.ecn_queues", settings.ECN, settings.ECN_KMIN, settings.ECN_KMAX, settings.PFC)
    assert {name: found[name] for name in names} == {
        name: first["Ethernet0"].settings[name] for name in names
    }


def replace_goal(goal: Any, without: str, wanted: dict[str, Any]) -> Any:
    """Return a goal that knows a value and does not ask for it."""
    return replace(goal, names=tuple(name for name in goal.names if name != without), wanted=wanted)
