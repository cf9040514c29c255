"""Every way to break the chain DSCP -> class -> group and queue -> PFC -> ECN shows in what is read."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fabricctl.model import facts, settings
from fabricctl.model.codec import decode
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Known, Missing, PortReading
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer

CASES = Path(__file__).resolve().parents[3] / "cases" / "switch" / "sonic"
DRIVER = finder.switch_driver("sonic")
PORT = Port(PortId("leaf1", "Ethernet0"))
Change = Callable[[dict[str, Any]], None]


def answers(case: str = "roce") -> dict[str, Answer]:
    return dict(decode(dict[str, Answer], json.loads((CASES / case / "answers.json").read_text())))


def read(change: Change, case: str = "roce") -> PortReading:
    """Return the reading of a switch of which CONFIG_DB, saved too, was changed."""
    said = answers(case)
    config = json.loads(said["sonic-cfggen"].stdout)
    change(config)
    text = json.dumps(config)
    said |= {"sonic-cfggen": Answer(0, text, ""), "cat config_db.json": Answer(0, text, "")}
    readings, _ = DRIVER.parse([PORT], said)
    return readings[PORT.id]


def differs(change: Change, case: str = "roce") -> dict[str, Entry]:
    """Return the settings that are no longer as they were."""
    before, after = read(lambda _: None, case).settings, read(change, case).settings
    return {name: entry for name, entry in after.items() if entry != before[name]}


def put(table: str, key: str, **fields: str | None) -> Change:
    """Return what sets fields of a row; None takes one away."""

    def change(config: dict[str, Any]) -> None:
        row = {**config.setdefault(table, {}).get(key, {}), **fields}
        config[table][key] = {name: value for name, value in row.items() if value is not None}

    return change


def drop(table: str, key: str) -> Change:
    return lambda config: config[table].pop(key)


def bound(field: str) -> str:
    """Return the object that the case binds to the port."""
    config = json.loads(answers()["sonic-cfggen"].stdout)
    return str(config["PORT_QOS_MAP"]["Ethernet0"][field])


DSCP_MAP, QUEUE_MAP, GROUP_MAP = (bound(f) for f in ("dscp_to_tc_map", "tc_to_queue_map", "tc_to_pg_map"))
PROFILE = json.loads(answers()["sonic-cfggen"].stdout)["QUEUE"]["Ethernet0|3"]["wred_profile"]
MAP = tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64))

BREAKS: dict[str, tuple[Change, dict[str, Entry]]] = {
    "the DSCP leads to another class": (
        put("DSCP_TO_TC_MAP", DSCP_MAP, **{"26": "4"}),
        {settings.DSCP_PRIORITY: Known(tuple(4 if dscp == 26 else p for dscp, p in enumerate(MAP)))},
    ),
    "a strange DSCP leads to the lossless class": (
        put("DSCP_TO_TC_MAP", DSCP_MAP, **{"24": "3"}),
        {settings.DSCP_PRIORITY: Known(tuple(3 if dscp == 24 else p for dscp, p in enumerate(MAP)))},
    ),
    "the map says nothing of a DSCP": (
        put("DSCP_TO_TC_MAP", DSCP_MAP, **{"5": None}),
        {settings.DSCP_PRIORITY: Missing(f"DSCP_TO_TC_MAP|{DSCP_MAP} says nothing of DSCP 5")},
    ),
    "the port trusts PCP": (
        lambda config: (
            put("PORT_QOS_MAP", "global")(config),
            put("PORT_QOS_MAP", "Ethernet0", dscp_to_tc_map=None, dot1p_to_tc_map="X")(config),
            config["PORT_QOS_MAP"]["global"].clear(),
        ),
        {settings.TRUST: Known("pcp"), settings.DSCP_PRIORITY: Known((0,) * 64)},
    ),
    "DSCP and PCP are both trusted": (
        put("PORT_QOS_MAP", "Ethernet0", dot1p_to_tc_map="X"),
        {
            settings.TRUST: Missing(
                "dscp_to_tc_map and dot1p_to_tc_map are both bound: which one counts is up to the ASIC"
            )
        },
    ),
    "the port has no DSCP map and takes the switch's": (
        put("PORT_QOS_MAP", "Ethernet0", dscp_to_tc_map=None),
        {settings.DSCP_PRIORITY: Known((1, 1, 1, 3, 4, 2, 1, 1, 0, *[1] * 37, 5, 1, 6, *[1] * 15))},
    ),
    "the class leads to another priority group": (
        put("TC_TO_PRIORITY_GROUP_MAP", GROUP_MAP, **{"3": "0"}),
        {"sonic.tc_group": Known((0,) * 8), settings.LOSSLESS_BUFFERS: Known(())},
    ),
    "another class rides the lossless group": (
        put("TC_TO_PRIORITY_GROUP_MAP", GROUP_MAP, **{"5": "3"}),
        {"sonic.tc_group": Known((0, 0, 0, 3, 0, 3, 0, 0)), settings.LOSSLESS_BUFFERS: Known((3, 5))},
    ),
    "no map leads to groups": (
        put("PORT_QOS_MAP", "Ethernet0", tc_to_pg_map=None),
        {"sonic.tc_group": Known((-1,) * 8), settings.LOSSLESS_BUFFERS: Known(())},
    ),
    "the class leads to another queue": (
        put("TC_TO_QUEUE_MAP", QUEUE_MAP, **{"3": "4"}),
        {settings.PRIORITY_TC: Known((0, 0, 0, 4, 0, 0, 6, 0)), settings.ECN: Known(value=False)},
    ),
    "pauses stop another queue": (
        put("MAP_PFC_PRIORITY_TO_QUEUE", "AZURE", **{"3": "2"}),
        {"sonic.pfc_queue": Known((2,))},
    ),
    "no map leads pauses to a queue": (
        put("PORT_QOS_MAP", "Ethernet0", pfc_to_queue_map=None),
        {"sonic.pfc_queue": Known((-1,))},
    ),
    "pauses are asked for by another group": (
        put("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "AZURE", **{"3": "4"}),
        {"sonic.pfc_group": Known((4,))},
    ),
    "PFC is off": (
        put("PORT_QOS_MAP", "Ethernet0", pfc_enable=""),
        {settings.PFC: Known(()), "sonic.pfc_queue": Known(()), "sonic.pfc_group": Known(())},
    ),
    "PFC is on for one more priority": (
        put("PORT_QOS_MAP", "Ethernet0", pfc_enable="3,4"),
        {
            settings.PFC: Known((3, 4)),
            "sonic.pfc_queue": Known((3, 4)),
            "sonic.pfc_group": Known((3, 4)),
            settings.ECN: Known(value=False),
        },
    ),
    "the port heeds every pause": (
        put("PORT", "Ethernet0", pfc_asym="on"),
        {"sonic.pfc_asymmetric": Known(value=True)},
    ),
    "the group has no headroom": (
        put("BUFFER_PG", "Ethernet0|3", profile="ingress_lossy_profile"),
        {settings.LOSSLESS_BUFFERS: Known(())},
    ),
    "the group has no buffer of its own": (
        drop("BUFFER_PG", "Ethernet0|3"),
        {settings.LOSSLESS_BUFFERS: Known(())},
    ),
    "the queue drops what it cannot hold": (
        put("BUFFER_QUEUE", "Ethernet0|3", profile="egress_lossy_profile"),
        {"sonic.lossless_queues": Known(())},
    ),
    "the profile is not attached to the lossless queue": (
        put("QUEUE", "Ethernet0|3", wred_profile=None),
        {
            settings.ECN: Known(value=False),
            "sonic.ecn_queues": Known(()),
            **dict.fromkeys(
                (settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX), Missing("no queue marks")
            ),
        },
    ),
    "another queue marks too": (
        put("QUEUE", "Ethernet0|0", wred_profile=PROFILE),
        {"sonic.ecn_queues": Known((0, 3))},
    ),
    "WRED is off for one colour": (
        put("WRED_PROFILE", PROFILE, wred_yellow_enable="false"),
        {
            settings.ECN: Known(value=False),
            "sonic.ecn_queues": Known(()),
            **dict.fromkeys(
                (settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX), Missing("no queue marks")
            ),
        },
    ),
    "only green packets are marked": (
        put("WRED_PROFILE", PROFILE, ecn="ecn_green"),
        {
            settings.ECN: Known(value=False),
            "sonic.ecn_queues": Known(()),
            **dict.fromkeys(
                (settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX), Missing("no queue marks")
            ),
        },
    ),
    "Kmin is another": (
        put("WRED_PROFILE", PROFILE, **{f"{c}_min_threshold": "1000" for c in ("green", "yellow", "red")}),
        {settings.ECN_KMIN: Known(1000)},
    ),
    "Kmax differs by colour": (
        put("WRED_PROFILE", PROFILE, red_max_threshold="2000000"),
        {settings.ECN_KMAX: Missing("colours or queues differ: 1500000, 2000000")},
    ),
    "marks have thresholds of their own": (
        put(
            "WRED_PROFILE",
            PROFILE,
            **{f"ecn_{c}_max_threshold": "900000" for c in ("green", "yellow", "red")},
        ),
        {settings.ECN_KMAX: Known(900_000)},
    ),
    "the probability is the models' default": (
        put("WRED_PROFILE", PROFILE, **{f"{c}_drop_probability": "7" for c in ("green", "yellow", "red")}),
        {settings.ECN_PMAX: Known(7)},
    ),
    "the CNP queue is not strict": (
        put("QUEUE", "Ethernet0|6", scheduler="scheduler.0"),
        {
            settings.TC_SCHEDULER: Known(("ets",) * 8),
            settings.TC_BANDWIDTH: Known((44, 0, 0, 44, 0, 0, 12, 0)),
        },
    ),
    "the lossless queue has another share": (
        put("QUEUE", "Ethernet0|3", scheduler="scheduler.0"),
        {settings.TC_BANDWIDTH: Known((78, 0, 0, 22, 0, 0, 0, 0))},
    ),
    "a scheduler is not there": (
        put("QUEUE", "Ethernet0|3", scheduler="nowhere"),
        dict.fromkeys(
            (settings.TC_SCHEDULER, settings.TC_BANDWIDTH),
            Missing("there is no SCHEDULER|nowhere, which is referred to"),
        ),
    ),
    "the watchdog watches another priority": (
        put("PORT_QOS_MAP", "Ethernet0", pfcwd_sw_enable="4"),
        {settings.WATCHDOG: Known((4,))},
    ),
    "the port is not watched": (
        drop("PFC_WD", "Ethernet0"),
        {
            settings.WATCHDOG: Known(()),
            **dict.fromkeys(
                (
                    settings.WATCHDOG_DETECT,
                    settings.WATCHDOG_RESTORE,
                    settings.WATCHDOG_POLL,
                    settings.WATCHDOG_ACTION,
                ),
                Missing("PFC_WD has no row for the port"),
            ),
        },
    ),
    "the watchdog's counters are not polled": (
        put("FLEX_COUNTER_TABLE", "PFCWD", FLEX_COUNTER_STATUS="disable"),
        {settings.WATCHDOG: Known(())},
    ),
    "the watchdog looks too seldom": (
        put("PFC_WD", "GLOBAL", POLL_INTERVAL="1000"),
        {settings.WATCHDOG_POLL: Known(1000)},
    ),
    "the watchdog only tells": (
        put("PFC_WD", "Ethernet0", action="alert"),
        {settings.WATCHDOG_ACTION: Known("alert")},
    ),
    "the MTU is too small": (put("PORT", "Ethernet0", mtu="1500"), {settings.MTU: Known(1500)}),
    "the cable is longer": (
        put("CABLE_LENGTH", "AZURE", Ethernet0="40m"),
        {settings.CABLE_LENGTH: Known(40)},
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_chain_shows(name: str) -> None:
    change, expected = BREAKS[name]
    assert differs(change) == expected


def test_the_unbroken_chain_is_what_was_wanted() -> None:
    wanted = json.loads((CASES / "roce" / "wanted.json").read_text())["leaf1/Ethernet0"]
    found = read(lambda _: None).settings
    left = {name for name in wanted if not isinstance(found.get(name), Known)} - set(DRIVER.unsupported)
    assert left == set()
    assert found[settings.BOOT] == Known(settings.SAVED)


# spellings that mean the same


def test_range_keys_are_expanded() -> None:
    def change(config: dict[str, Any]) -> None:
        for table in ("BUFFER_QUEUE", "QUEUE"):
            rows = config[table]
            for queue in (1, 2):
                rows.pop(f"Ethernet0|{queue}", None)
        config["BUFFER_QUEUE"].pop("Ethernet0|0-2", None)
        config["BUFFER_QUEUE"]["Ethernet0|0-2"] = {"profile": "egress_lossy_profile"}

    assert differs(change) == {}


def test_two_rows_for_one_queue_are_no_answer() -> None:
    entry = differs(put("QUEUE", "Ethernet0|3-4", scheduler="scheduler.0"))[settings.TC_SCHEDULER]
    assert entry == Missing("QUEUE has several rows for Ethernet0|3")


def test_rows_for_several_ports_and_references_in_brackets_are_understood() -> None:
    def change(config: dict[str, Any]) -> None:
        row = config["PORT_QOS_MAP"].pop("Ethernet0")
        for field, table in (("dscp_to_tc_map", "DSCP_TO_TC_MAP"), ("tc_to_queue_map", "TC_TO_QUEUE_MAP")):
            row[field] = f"[{table}|{row[field]}]"
        config["PORT_QOS_MAP"]["Ethernet0,Ethernet8"] = row
        config["BUFFER_PG"]["Ethernet0|3"] = {"profile": "[BUFFER_PROFILE|pg_lossless_100000_5m_profile]"}

    assert differs(change) == {}


def test_weights_are_compared_as_shares() -> None:
    def change(config: dict[str, Any]) -> None:
        config["SCHEDULER"]["one"] = {"type": "WRR", "weight": "1"}
        for queue in (0, 3):
            config["QUEUE"][f"Ethernet0|{queue}"]["scheduler"] = "one"

    assert differs(change) == {}


def test_rows_that_the_buffer_manager_derives_are_no_drift() -> None:
    def change(config: dict[str, Any]) -> None:
        profiles = config["BUFFER_PROFILE"]
        profiles["pg_lossless_100000_300m_profile"] = profiles.pop("pg_lossless_100000_5m_profile")
        for key in ("Ethernet0|3-4", "Ethernet4|3-4"):
            config["BUFFER_PG"][key] = {"profile": "pg_lossless_100000_300m_profile"}

    assert differs(change, "stock-traditional") == {}


def test_what_the_buffer_manager_makes_at_boot_need_not_be_saved() -> None:
    said = answers("stock-traditional")
    saved = json.loads(said["cat config_db.json"].stdout)
    for key in [key for key in saved["BUFFER_PG"] if key.endswith("3-4")]:
        del saved["BUFFER_PG"][key]
    said["cat config_db.json"] = Answer(0, json.dumps(saved), "")
    assert DRIVER.parse([PORT], said)[0][PORT.id].settings[settings.BOOT] == Known(settings.SAVED)


def test_headroom_is_not_lost_when_a_port_is_off_only_taken_back_by_the_buffer_manager() -> None:
    def off(config: dict[str, Any]) -> None:
        config["DEVICE_METADATA"]["localhost"] |= {"platform": "x86_64-mlnx_msn2700-r0"}
        config["PORT"]["Ethernet0"]["admin_status"] = "down"
        del config["BUFFER_PG"]["Ethernet0|3-4"]

    said = answers("stock-traditional")
    config = json.loads(said["sonic-cfggen"].stdout)
    off(config)
    said["sonic-cfggen"] = Answer(0, json.dumps(config), "")
    said["grep files"] = Answer(0, said["grep files"].stdout.replace("broadcom", "mellanox"), "")
    found = DRIVER.parse([PORT], said)[0][PORT.id].settings
    assert found[settings.LOSSLESS_BUFFERS] == Known((3, 4))
    config["PORT"]["Ethernet0"]["admin_status"] = "up"
    said["sonic-cfggen"] = Answer(0, json.dumps(config), "")
    assert DRIVER.parse([PORT], said)[0][PORT.id].settings[settings.LOSSLESS_BUFFERS] == Known(())


# saved


@pytest.mark.parametrize(
    ("change", "boot"),
    [
        (lambda _: None, settings.SAVED),
        (put("PORT", "Ethernet0", mtu="9100"), settings.NOT_KEPT),
        (put("PORT", "Ethernet4", mtu="9100"), settings.SAVED),
        (drop("PFC_WD", "Ethernet0"), settings.NOT_KEPT),
        (put("QUEUE", "Ethernet0|3", wred_profile=None), settings.NOT_KEPT),
        (put("PORT", "Ethernet0", description="a word"), settings.SAVED),
    ],
)
def test_what_is_saved_is_compared_setting_by_setting(change: Change, boot: str) -> None:
    said = answers()
    saved = json.loads(said["cat config_db.json"].stdout)
    change(saved)
    said["cat config_db.json"] = Answer(0, json.dumps(saved), "")
    assert DRIVER.parse([PORT], said)[0][PORT.id].settings[settings.BOOT] == Known(boot)


def test_a_saved_configuration_that_cannot_be_read_is_no_answer() -> None:
    said = {**answers(), "cat config_db.json": Answer(1, "", "cat: config_db.json: Permission denied")}
    entry = DRIVER.parse([PORT], said)[0][PORT.id].settings[settings.BOOT]
    assert entry == Missing("cat: cat: config_db.json: Permission denied")


# the switch


def test_several_asics_are_refused_with_the_reason_for_every_setting() -> None:
    found = DRIVER.parse([PORT], answers("multi-asic"))[0][PORT.id].settings
    why = "the switch has 3 ASICs, each with a configuration of its own: not supported"
    assert set(found.values()) == {Missing(why, impossible=True)}


def test_a_part_of_a_chassis_is_refused() -> None:
    found = read(put("DEVICE_METADATA", "localhost", switch_type="voq")).settings[settings.PFC]
    assert found == Missing(
        "the switch is part of a chassis (switch_type voq): not supported", impossible=True
    )


def test_a_port_that_is_not_there_says_so() -> None:
    other = Port(PortId("leaf1", "Ethernet400"))
    found = DRIVER.parse([other], answers())[0][other.id].settings
    assert found[settings.PFC] == Missing("the switch has no port Ethernet400")


def test_a_switch_without_buffer_pools_cannot_have_lossless_buffers() -> None:
    found = read(lambda config: config.pop("BUFFER_POOL")).settings
    why = Missing("the switch has no buffer pools (BUFFER_POOL is empty)", impossible=True)
    assert (found[settings.LOSSLESS_BUFFERS], found["sonic.lossless_queues"]) == (why, why)


def test_facts_name_release_model_and_headroom() -> None:
    found = read(lambda _: None)
    assert found.facts[facts.HEADROOM] == Known((0, 0, 0, 46056, 0, 0, 0, 0))
    assert found.facts[facts.PAUSE_POINT] == Known((0,) * 8)
    assert found.facts[facts.LINK_STATE] == Known("up")
    assert found.facts[facts.SPEED] == Known(100_000)
    assert found.facts[facts.FEC] == Known("rs")
    assert found.facts[facts.PARTNER] == Known("node0/eth1")
    assert found.facts[facts.LINK_DOWNS] == Known(2)
    assert found.facts[facts.FIRMWARE] == Known("SONiC.20241110.12")
    plane = "SONiC SONiC.20241110.12, ACS-MSN2700, dynamic buffer model"
    assert found.facts[facts.PLANE] == Known(plane)


def test_the_control_plane_names_the_cables_that_the_traditional_model_knows() -> None:
    found = read(lambda _: None, "stock-traditional").facts[facts.PLANE]
    assert isinstance(found, Known)
    assert str(found.value).endswith("traditional buffer model (cables of 5m, 40m, 300m)")


def test_counters_have_the_names_of_all_drivers() -> None:
    found = read(lambda _: None).counters
    assert found["pfc3.rx_frames"] == Known(300)
    assert found["pfc3.tx_frames"] == Known(300)
    assert found["queue3.ecn_marked_packets"] == Known(9)
    assert found["ecn.marked_packets"] == Known(72)
    assert found["queue3.dropped_packets"] == Known(5)
    assert found["queue3.tx_packets"] == Known(1234)
    assert found["queue3.watermark_bytes"] == Known(4096)
    assert found["group3.headroom_watermark_bytes"] == Known(208)
    assert found["tx_discards"] == Known(7)
    assert not [name for name in found if name.startswith("watchdog")]


# what changes do


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (settings.MTU, Disruption.MTU_CHANGE),
        (settings.PFC, Disruption.LINK_FLAP),
        (settings.DSCP_PRIORITY, Disruption.LINK_FLAP),
        (settings.ECN_KMIN, Disruption.LINK_FLAP),
        (settings.TC_BANDWIDTH, Disruption.LINK_FLAP),
        (settings.LOSSLESS_BUFFERS, Disruption.LINK_FLAP),
        ("sonic.lossless_queues", Disruption.LINK_FLAP),
        ("sonic.pfc_queue", Disruption.LINK_FLAP),
        ("sonic.pfc_asymmetric", Disruption.NONE),
        (settings.WATCHDOG, Disruption.LINK_FLAP),
        (settings.WATCHDOG_DETECT, Disruption.NONE),
        (settings.WATCHDOG_POLL, Disruption.SYSTEM_WIDE),
        (settings.CABLE_LENGTH, Disruption.BUFFERS),
        ("sonic.unheard_of", Disruption.LINK_FLAP),
    ],
)
def test_the_plan_says_what_the_updater_does_to_the_port(setting: str, expected: Disruption) -> None:
    assert DRIVER.disruption(setting, Known(0), 1) is expected


def test_a_reading_changes_no_answer() -> None:
    said = answers()
    kept = copy.deepcopy(said)
    DRIVER.parse([PORT], said)
    assert said == kept
