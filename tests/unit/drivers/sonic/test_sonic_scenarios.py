"""Mistakes that users and maintainers of SONiC reported, by name: each shows, or cannot be made by fabricctl.

The numbers are those of the project's lists of such reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fabricctl.drivers.switch.sonic import steps
from fabricctl.drivers.switch.sonic.node import run as program
from fabricctl.model import facts, settings
from fabricctl.model.policy import Watchdog
from fabricctl.model.reading import Known, Missing

Make = Callable[..., Any]
PORT = "Ethernet0"
SOURCES = Path(program.__file__).parents[1]


def entry(world: Any, setting: str, port: str = PORT) -> Any:
    return world.read()[port].settings[setting]


def test_trap_1_an_ecn_profile_without_wred_enabled_never_marks(make_world: Make) -> None:
    """sonic-buildimage 4545: ecnconfig sets ecn and leaves wred_*_enable alone."""
    world = make_world()
    world.push()
    profile = world.switch.row("QUEUE", f"{PORT}|3")["wred_profile"]
    for colour in ("green", "yellow", "red"):
        assert world.switch.row("WRED_PROFILE", profile)[f"wred_{colour}_enable"] == "true"
    world.switch.change("WRED_PROFILE", profile, wred_green_enable="false")
    assert entry(world, settings.ECN) == Known(value=False)


def test_trap_2_ecn_needs_no_profile_that_was_there_before(make_world: Make) -> None:
    """SONiC 788, sonic-buildimage 21891: config ecn only changes profiles that exist."""
    world = make_world("bare")
    assert "WRED_PROFILE" not in world.switch.config()
    assert world.push().returncode == 0
    assert world.value(settings.ECN) is True
    assert (world.value(settings.ECN_KMIN), world.value(settings.ECN_KMAX)) == (150_000, 1_500_000)


def test_trap_3_the_watchdog_on_hardware_that_the_updater_does_not_list_goes_the_second_way(
    make_world: Make,
) -> None:
    """sonic-utilities 4870: Modification of PFC_WD table is illegal."""
    world = make_world("stock", "dynamic", "ACS-MSN9999")
    config = world.switch.config()
    world.switch.log()
    done = world.push()
    assert (done.returncode, done.stderr) == (0, "")
    assert world.left() == {}
    expected = {"action": "drop", "detection_time": "400", "restoration_time": "400"}
    assert world.switch.row("PFC_WD", PORT) == expected
    written = [line for line in world.switch.log() if line.startswith("sonic-db-cli CONFIG_DB hset")]
    assert written == [
        "sonic-db-cli CONFIG_DB hset PFC_WD|Ethernet0 action drop detection_time 400 restoration_time 400",
        "sonic-db-cli CONFIG_DB hset PFC_WD|Ethernet4 action drop detection_time 400 restoration_time 400",
        "sonic-db-cli CONFIG_DB hset PFC_WD|GLOBAL POLL_INTERVAL 200",
    ]
    assert world.revert().returncode == 0
    assert world.switch.config() == config
    assert world.switch.syslog() == []


def test_trap_3_new_times_of_a_watchdog_are_a_new_row_on_the_second_way(make_world: Make) -> None:
    world = make_world("stock", "dynamic", "ACS-MSN9999")
    world.push()
    world.confirm(1)
    world.switch.log()
    changed = {"watchdog": Watchdog(poll_ms=100, detect_ms=300, restore_ms=500, action="forward")}
    goals = world.goals(ports=(PORT,), **changed)
    assert world.push(goals, apply_id="apply-2").returncode == 0
    details = (settings.WATCHDOG_DETECT, settings.WATCHDOG_RESTORE, settings.WATCHDOG_ACTION)
    assert world.left(**changed) == {"Ethernet4": details}
    lines = [line for line in world.switch.log() if "CONFIG_DB del PFC_WD|Ethernet0" in line]
    assert lines == ["sonic-db-cli CONFIG_DB del PFC_WD|Ethernet0"]
    expected = {"action": "forward", "detection_time": "300", "restoration_time": "500"}
    assert world.switch.row("PFC_WD", PORT) == expected


def test_trap_4_and_5_a_watchdog_comes_after_pfc_and_goes_before_it(make_world: Make) -> None:
    """sonic-buildimage 24577, sonic-utilities PR 1848: orchagent cannot start one on a port without PFC."""
    world = make_world("bare")
    world.push()
    world.confirm(1)
    assert world.value(settings.WATCHDOG) == (3,)
    changed = {"pfc_priorities": (), "watchdog": None}
    assert world.push(apply_id="apply-2", **changed).returncode == 0
    assert world.left(**changed) == {}
    assert world.switch.row("PFC_WD", PORT) is None
    assert world.switch.syslog() == []


def test_trap_5_without_pfc_a_watchdog_that_is_left_over_is_wanted_away(
    make_intent: Callable[..., Any],
) -> None:
    assert steps.wanted(make_intent(pfc_priorities=(), watchdog=None))[settings.WATCHDOG] == ()
    assert settings.WATCHDOG not in steps.wanted(make_intent(watchdog=None))


def test_trap_6_a_poll_slower_than_the_detection_is_refused_though_old_models_take_it(
    make_world: Make,
) -> None:
    """sonic-buildimage 9490."""
    world = make_world()
    goals = world.goals(ports=(PORT,), watchdog=Watchdog(poll_ms=500, detect_ms=400))
    config = world.switch.config()
    done = world.push(goals)
    why = "the switch looks every 500 ms, but detection_time of Ethernet0 is 400"
    assert done.stderr == f"fabricctl: Ethernet0: pfc_watchdog: {why}\n"
    assert world.switch.config() == config


def test_trap_7_pfc_is_switched_off_by_an_empty_list_and_its_headroom_goes(make_world: Make) -> None:
    """sonic-swss PR 1055: priorities that are taken out of pfc_enable left no-drop behind."""
    world = make_world("stock", "traditional")
    changed = {"pfc_priorities": (), "watchdog": None}
    assert world.push(**changed).returncode == 0
    assert world.switch.row("PORT_QOS_MAP", PORT)["pfc_enable"] == ""
    assert [key for key in world.switch.config()["BUFFER_PG"] if key.startswith(PORT)] == [f"{PORT}|0"]
    assert world.left(**changed) == {}
    assert world.switch.syslog() == []


def test_trap_8_and_9_no_command_is_used_that_writes_all_ports() -> None:
    """sonic-utilities PR 3479, sonic-buildimage 9088, 29487: config qos reload, config qos clear."""
    for source in SOURCES.rglob("*.py"):
        text = source.read_text()
        commands = re.findall(r'(?:run|must)\(\s*"([a-z-]+)",\s*"([a-z-]+)"', text)
        assert not {"qos", "ecn", "replace", "reload", "load"} & {verb for _, verb in commands}, source
        assert not {"ecnconfig", "pfcwd"} & {name for name, _ in commands}, source


def test_trap_10_a_pfc_port_without_headroom_shows(make_world: Make) -> None:
    """SONiC 480, sonic-buildimage PR 25606: a cable length without a line in the table gives no headroom."""
    world = make_world("stock", "traditional")
    world.switch.change("BUFFER_PG", f"{PORT}|3-4")
    world.switch.change("CABLE_LENGTH", "AZURE", **{PORT: "3m"})
    assert entry(world, settings.PFC) == Known((3, 4))
    assert entry(world, settings.LOSSLESS_BUFFERS) == Known(())
    assert "No PG profile configured for speed 100000 and cable length 3m" in world.switch.syslog()[0]
    readings, _ = world.driver.parse(world.ports, world.answers())
    found = readings[world.ports[0].id].facts[facts.HEADROOM]
    assert found == Known((0,) * 8)


@pytest.mark.parametrize("length", ["0m", "3m"])
def test_trap_10_such_a_length_is_not_set(make_world: Make, length: str) -> None:
    world = make_world("stock", "traditional")
    done = world.push(world.goals(ports=(PORT,), cable_length_m=float(length[:-1]) or 0.4))
    known = world.switch.row("CABLE_LENGTH", "AZURE")[PORT]
    assert (done.returncode, known) == (1, "5m")
    assert "pg_profile_lookup.ini has no line for" in done.stderr


def test_trap_11_lossy_priorities_are_neither_paused_nor_in_a_lossless_group(make_world: Make) -> None:
    """sonic-buildimage 23441, 20590."""
    world = make_world()
    world.push()
    groups = world.value("sonic.tc_group")
    assert [each for each in range(8) if groups[each] == 3] == [3]
    assert world.value(settings.LOSSLESS_BUFFERS) == (3,)
    world.switch.change(
        "TC_TO_PRIORITY_GROUP_MAP",
        "leaky",
        **{str(each): "3" if each in {3, 5} else "0" for each in range(8)},
    )
    world.switch.change("PORT_QOS_MAP", PORT, tc_to_pg_map="leaky")
    assert set(world.left()[PORT]) == {"sonic.tc_group", settings.LOSSLESS_BUFFERS}
    world.switch.change("BUFFER_PG", f"{PORT}|0", profile="NULL")
    assert entry(world, settings.LOSSLESS_BUFFERS) == Known(tuple(range(8)))


def test_trap_12_detection_is_at_least_two_polls_in_what_is_set(make_world: Make) -> None:
    """SONiC 1535: false positives."""
    world = make_world()
    world.push()
    assert 2 * world.value(settings.WATCHDOG_POLL) <= world.value(settings.WATCHDOG_DETECT)


def test_trap_13_no_queue_of_packets_without_ecn_gets_the_profile(make_world: Make) -> None:
    """sonic-swss 4718: where others are marked, packets that cannot be are dropped, such as CNPs."""
    world = make_world()
    world.push()
    assert world.value("sonic.ecn_queues") == (3,)
    assert "wred_profile" not in world.switch.row("QUEUE", f"{PORT}|6")
    assert world.switch.row("SCHEDULER", world.switch.row("QUEUE", f"{PORT}|6")["scheduler"]) == {
        "type": "STRICT"
    }
    profile = world.switch.row("QUEUE", f"{PORT}|3")["wred_profile"]
    world.switch.change("QUEUE", f"{PORT}|6", wred_profile=profile)
    assert world.left()[PORT] == ("sonic.ecn_queues",)


def test_trap_13_an_asic_without_a_counter_of_marks_has_no_zero(make_world: Make) -> None:
    """sonic-buildimage 21249."""
    world = make_world()
    answers = world.answers()
    text = answers["sonic-db-cli COUNTERS_DB"].stdout.replace("WRED_ECN_MARKED", "NOT_THERE")
    changed = type(answers["sonic-cfggen"])(0, text, "")
    readings, _ = world.driver.parse(world.ports, {**answers, "sonic-db-cli COUNTERS_DB": changed})
    found = readings[world.ports[0].id].counters
    assert not [name for name in found if "ecn" in name]
    assert found["queue3.dropped_packets"] == Known(5)


def test_trap_14_the_mtu_that_nobody_set_is_9100(make_world: Make) -> None:
    """sonic-buildimage 972."""
    world = make_world()
    world.switch.change("PORT", PORT, mtu=None)
    assert entry(world, settings.MTU) == Known(9100)
    assert settings.MTU in world.left()[PORT]


# scenarios of the field


def test_s19_config_qos_reload_shows_as_drift_and_is_mended(make_world: Make) -> None:
    """SONiC 888: it enabled PFC on 3 and 4 and left RDMA in the wrong class."""
    world = make_world()
    stock = world.switch.config()
    world.push()
    world.confirm(1)
    world.switch.restart(stock)
    left = set(world.left()[PORT])
    assert {settings.PFC, settings.DSCP_PRIORITY, settings.WATCHDOG, settings.TC_SCHEDULER} <= left
    assert entry(world, settings.BOOT) == Known(settings.NOT_KEPT)
    dscp = world.value(settings.DSCP_PRIORITY)
    assert isinstance(dscp, tuple)
    assert (dscp[26], world.value(settings.PFC)) == (1, (3, 4))
    assert world.push(apply_id="apply-2").returncode == 0
    assert world.left() == {}


def test_s20_a_queue_that_the_watchdog_holds_for_stormed_shows_with_its_counts(make_world: Make) -> None:
    """sonic-swss 4581, sonic-buildimage 8483: stuck "stormed", flapping, counters that do not move."""
    world = make_world()
    world.switch.count(
        PFC_WD_STATUS="stormed",
        PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED="17",
        PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED="16",
    )
    readings, _ = world.driver.parse(world.ports, world.answers())
    found = readings[world.ports[0].id].counters
    assert found["watchdog.queue3.stormed"] == Known(1)
    assert found["watchdog.queue3.storms_detected"] == Known(17)
    assert found["watchdog.queue3.storms_restored"] == Known(16)
    world.switch.count(PFC_WD_STATUS="operational", PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED="no number")
    readings, _ = world.driver.parse(world.ports, world.answers())
    found = readings[world.ports[0].id].counters
    assert found["watchdog.queue3.stormed"] == Known(0)
    assert isinstance(found["watchdog.queue3.storms_detected"], Missing)


def test_s21_a_port_with_macsec_says_that_some_releases_send_no_pfc_there(make_world: Make) -> None:
    """sonic-buildimage 25675."""
    world = make_world()
    world.switch.change("PORT", PORT, macsec="GCM-AES-XPN-256")
    plane = world.read()[PORT].facts[facts.PLANE]
    assert isinstance(plane, Known)
    assert "MACsec profile GCM-AES-XPN-256 (some releases send no PFC on such ports)" in str(plane.value)
    assert "MACsec" not in str(world.read()["Ethernet4"].facts[facts.PLANE])
