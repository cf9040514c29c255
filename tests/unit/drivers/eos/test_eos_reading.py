"""Reading an EOS switch: every way to break the chain from DSCP to the marked, paused, watched queue."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from simulators.eos.switch import Interface

from fabricctl.drivers.switch.eos import PLUGIN
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known, Missing
from fabricctl.plugin.protocols import Answer

PORT, OTHER = "Ethernet1/1", "Ethernet2/1"
MARKS = "random-detect ecn minimum-threshold {} kbytes maximum-threshold {} kbytes max-mark-probability {}"
TIMER = "priority-flow-control pause watchdog port timer"


def _profile(world: Any) -> str:
    (name,) = (
        head for head in world.switch.running.root.sections if head.startswith("qos profile fabricctl")
    )
    return str(name)


def test_a_switch_that_is_as_wanted(ready: Any, want: Any) -> None:
    assert ready.left(want()) == {}


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        # DSCP -> traffic class
        (["qos map dscp 26 to traffic-class 0"], {settings.DSCP_PRIORITY}),
        (["qos map dscp 0 to traffic-class 3"], {settings.DSCP_PRIORITY}),
        (["qos map dscp 48 to traffic-class 3"], {settings.DSCP_PRIORITY}),
        # traffic class -> queue; the queue that lost its class is none of ours any more
        (["qos map traffic-class 1 to uc-tx-queue 1"], {settings.PRIORITY_TC}),
        (
            ["qos map traffic-class 3 to uc-tx-queue 0"],
            {
                settings.PRIORITY_TC,
                settings.TC_BANDWIDTH,
                settings.WATCHDOG,
            },
        ),
        (["PROFILE", "qos trust cos"], {settings.TRUST}),
        (["PROFILE", "no qos trust"], {settings.TRUST}),
        (["interface Ethernet1/1", "qos trust cos"], {settings.TRUST}),
        # scheduling
        (["PROFILE", "uc-tx-queue 6", "no priority"], {settings.TC_SCHEDULER}),
        (["PROFILE", "uc-tx-queue 3", "bandwidth percent 5"], {settings.TC_BANDWIDTH}),
        # PFC and its buffers
        (["PROFILE", "no priority-flow-control"], {settings.PFC}),
        (
            ["PROFILE", "no priority-flow-control priority 3"],
            {settings.PFC, settings.LOSSLESS_BUFFERS, settings.WATCHDOG},
        ),
        (
            ["PROFILE", "priority-flow-control priority 3 drop"],
            {settings.PFC, settings.LOSSLESS_BUFFERS, settings.WATCHDOG},
        ),
        (
            ["PROFILE", "priority-flow-control priority 0 no-drop"],
            {settings.PFC, settings.LOSSLESS_BUFFERS},
        ),
        (["priority-flow-control all off"], {settings.PFC}),
        (["interface Ethernet1/1", "no service-profile"], None),
        # ECN
        (
            ["PROFILE", "uc-tx-queue 3", "no random-detect ecn"],
            {settings.ECN, settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX, "eos.ecn_queues"},
        ),
        (["PROFILE", "uc-tx-queue 3", "no random-detect ecn count"], {"eos.ecn_counted"}),
        (
            [
                "PROFILE",
                "uc-tx-queue 6",
                MARKS.format(150, 1500, 100),
            ],
            {"eos.ecn_queues", "eos.ecn_counted"},
        ),
        (
            [
                "PROFILE",
                "uc-tx-queue 3",
                MARKS.format(1600, 1500, 7),
            ],
            {settings.ECN_KMIN, settings.ECN_PMAX},
        ),
        # watchdog
        (
            ["PROFILE", "no priority-flow-control pause watchdog"],
            {
                settings.WATCHDOG,
                settings.WATCHDOG_DETECT,
                settings.WATCHDOG_RESTORE,
                settings.WATCHDOG_POLL,
                settings.WATCHDOG_ACTION,
            },
        ),
        (["PROFILE", "uc-tx-queue 3", "no bandwidth guaranteed"], {settings.WATCHDOG}),
        (
            ["PROFILE", "priority-flow-control pause watchdog port action notify-only"],
            {settings.WATCHDOG_ACTION},
        ),
        (
            [
                "PROFILE",
                f"{TIMER} timeout 0.2 polling-interval 0.3 recovery-time 0.4",
            ],
            {settings.WATCHDOG_DETECT, settings.WATCHDOG_POLL},
        ),
        # the link
        (["interface Ethernet1/1", "mtu 1500"], {settings.MTU}),
        (["interface Ethernet1/1", "flowcontrol receive on"], {settings.PAUSE}),
    ],
)
def test_each_way_to_break_the_chain_is_seen(
    ready: Any, want: Any, lines: list[str], broken: set[str] | None
) -> None:
    profile = _profile(ready)
    ready.switch.operate(*(line.replace("PROFILE", profile) for line in lines))
    left = set(ready.left(want()))
    if broken is None:
        assert left >= {settings.PFC, settings.ECN, settings.WATCHDOG, settings.TC_SCHEDULER}
    else:
        assert left == broken
    assert ready.value(settings.BOOT) == "none"
    if "priority-flow-control all off" not in lines:
        ready.set(want())
        assert ready.left(want()) == {}


# traps of the switch


def test_the_watchdog_watches_only_queues_with_guaranteed_bandwidth(world: Any) -> None:
    world.switch.operate(
        "interface Ethernet1/1",
        "priority-flow-control on",
        "priority-flow-control priority 3 no-drop",
        "priority-flow-control priority 4 no-drop",
        "priority-flow-control pause watchdog",
        "uc-tx-queue 4",
        "bandwidth guaranteed 100",
    )
    assert world.value(settings.PFC) == (3, 4)
    assert world.value(settings.WATCHDOG) == (4,)


def test_a_queue_that_takes_turns_makes_all_lower_ones_take_turns(world: Any) -> None:
    world.switch.operate("interface Ethernet1/1", "uc-tx-queue 3", "no priority")
    assert world.value(settings.TC_SCHEDULER) == ("ets",) * 4 + ("strict",) * 4


def test_a_queue_that_no_class_leads_to_does_not_count(world: Any) -> None:
    world.switch.operate(
        "qos map traffic-class 5 to uc-tx-queue 0",
        "interface Ethernet1/1",
        "uc-tx-queue 5",
        "bandwidth percent 30",
    )
    assert world.value(settings.TC_SCHEDULER)[5] == "ets"
    assert world.value(settings.TC_BANDWIDTH)[5] == 0


def test_routed_ports_trust_dscp_and_switched_ports_cos_unless_they_say_otherwise(world: Any) -> None:
    assert world.value(settings.TRUST) == "dscp"
    assert world.value(settings.TRUST, OTHER) == "pcp"
    world.switch.operate("interface Ethernet2/1", "qos trust dscp")
    assert world.value(settings.TRUST, OTHER) == "dscp"


def test_the_mtu_of_a_port_without_one_is_the_one_that_is_shown(world: Any) -> None:
    assert world.value(settings.MTU) == 1500
    assert world.value(settings.MTU, OTHER) == 9214


def test_text_of_a_banner_is_no_configuration(world: Any) -> None:
    assert "interface Ethernet99/1" in world.switch.text()
    readings, _ = PLUGIN.parse([Port(PortId("leaf1", "Ethernet99/1"))], world.answers())
    (reading,) = readings.values()
    assert reading.settings[settings.PFC] == Missing("there is no interface Ethernet99/1")
    assert world.value("eos.profiles") == ()


def test_a_watchdog_counter_that_is_not_there_is_0_for_a_watched_queue_only(ready: Any) -> None:
    counters = ready.read().counters
    assert counters["watchdog.queue3.storms_detected"] == Known(0)
    assert counters["watchdog.queue3.storms_restored"] == Known(0)
    assert "watchdog.queue6.storms_detected" not in counters
    ready.switch.interfaces[PORT].storms[3] = (7, 5)
    counters = ready.read().counters
    assert counters["watchdog.queue3.storms_detected"] == Known(7)
    assert counters["watchdog.queue3.storms_restored"] == Known(5)


def test_without_an_answer_on_the_watchdog_its_counters_are_not_0(ready: Any) -> None:
    answers = {**ready.answers(), "watchdog_counters": Answer(1, "% Invalid input\n", "")}
    readings, _ = PLUGIN.parse(ready.ports, answers)
    assert not [name for name in readings[PortId("leaf1", PORT)].counters if "watchdog" in name]


def test_counters_by_their_names(ready: Any) -> None:
    interface = ready.switch.interfaces[PORT]
    interface.pfc, interface.marks, interface.drops = (12, 34), {3: 56}, {0: 78}
    counters = {name: e.value for name, e in ready.read().counters.items() if isinstance(e, Known)}
    assert counters["pfc.rx_frames"] == 12
    assert counters["pfc.tx_frames"] == 34
    assert counters["queue3.ecn_marked_packets"] == 56
    assert counters["ecn.marked_packets"] == 56
    assert "queue6.ecn_marked_packets" not in counters
    assert counters["queue0.dropped_packets"] == 78
    assert counters["queue0.tx_packets"] == 0
    assert counters["tx_discards"] == 78
    assert counters["rx_errors"] == 0


def test_facts(make: Callable[..., Any]) -> None:
    interfaces = {
        PORT: Interface(gbps=400, partner=("node1", "eth2"), changes=7),
        OTHER: Interface(up=False, changes=4),
    }
    world = make(interfaces)
    readings, device = PLUGIN.parse(world.ports, world.answers())
    up, down = (readings[PortId("leaf1", name)].facts for name in (PORT, OTHER))
    assert up[facts.LINK_STATE] == Known("up")
    assert up[facts.SPEED] == Known(400_000)
    assert up[facts.PARTNER] == Known("node1/eth2")
    assert up[facts.LINK_DOWNS] == Known(3)
    assert up[facts.FIRMWARE] == Known("4.31.2F")
    assert up[facts.PLANE] == Known("EOS 4.31.2F, uc-tx-queue")
    assert up[facts.HEADROOM] == Missing("EOS shows no headroom")
    assert down[facts.LINK_STATE] == Known("down")
    assert down[facts.SPEED] == Missing("the link is down")
    assert down[facts.LINK_DOWNS] == Known(2)
    assert down[facts.PARTNER] == Missing("no LLDP neighbour is heard on the port")
    assert device[facts.BOOT_ID] == Known("1790000000")
    assert device[facts.RIVALS] == Known(())


def test_a_neighbour_that_names_its_port_by_address_is_known_by_its_description(world: Any) -> None:
    world.switch.interfaces[PORT].partner = ("node1", "x")
    answers = world.answers()
    said = json.loads(answers["lldp"].stdout)
    info = said["lldpNeighbors"][PORT]["lldpNeighborInfo"][0]["neighborInterfaceInfo"]
    info |= {
        "interfaceIdType": "macAddress",
        "interfaceId_v2": "0c42.a1b2.c3d4",
        "interfaceDescription": "ens1np0",
    }
    readings, _ = PLUGIN.parse(world.ports, {**answers, "lldp": Answer(0, json.dumps(said), "")})
    assert readings[PortId("leaf1", PORT)].facts[facts.PARTNER] == Known("node1/ens1np0")


def test_pfc_that_is_off_for_the_whole_switch_is_a_rival(ready: Any) -> None:
    ready.switch.operate("priority-flow-control all off")
    _, device = PLUGIN.parse(ready.ports, ready.answers())
    assert device[facts.RIVALS] == Known(("priority-flow-control all off",))
    assert ready.value(settings.PFC) == ()


def test_thresholds_in_segments_are_no_bytes_and_so_not_known(ready: Any, want: Any) -> None:
    line = MARKS.format(2000, 10_000, 20).replace("kbytes", "segments")
    ready.switch.operate(_profile(ready), "uc-tx-queue 3", line)
    assert ready.value(settings.ECN) is True
    assert ready.why(settings.ECN_KMIN) == "its thresholds are in segments, which are no bytes"
    ready.set(want())
    assert ready.left(want()) == {}


def test_queues_that_mark_at_different_thresholds_have_no_single_one(ready: Any) -> None:
    line = "random-detect ecn minimum-threshold 1 mbytes maximum-threshold 2 mbytes max-mark-probability 5"
    ready.switch.operate(_profile(ready), "uc-tx-queue 4", line)
    assert ready.why(settings.ECN_KMIN) == "the queues 3, 4 mark at different thresholds"
    assert ready.value("eos.ecn_queues") == (3, 4)


def test_times_of_the_watchdog_are_those_of_the_switch_where_the_port_has_none(world: Any) -> None:
    assert "EOS's default" in world.why(settings.WATCHDOG_DETECT)
    world.switch.operate(
        "priority-flow-control pause watchdog default timeout 0.2",
        "priority-flow-control pause watchdog default recovery-time 0.5",
        "priority-flow-control pause watchdog default polling-interval 0.1",
        "priority-flow-control pause watchdog action drop",
    )
    assert world.value(settings.WATCHDOG_DETECT) == 200
    assert world.value(settings.WATCHDOG_RESTORE) == 500
    assert world.value(settings.WATCHDOG_POLL) == 100
    assert world.value(settings.WATCHDOG_ACTION) == "drop"


def test_a_polling_interval_of_its_own_choice_is_half_of_the_shorter_time(world: Any) -> None:
    world.switch.operate(
        "interface Ethernet1/1",
        "priority-flow-control pause watchdog",
        "priority-flow-control pause watchdog port timer timeout 0.3 polling-interval auto recovery-time 0.2",
    )
    assert world.value(settings.WATCHDOG_POLL) == 100


def test_an_action_that_is_overridden_does_not_count(ready: Any) -> None:
    ready.switch.operate(
        "priority-flow-control pause watchdog override action drop",
        _profile(ready),
        "priority-flow-control pause watchdog port action notify-only",
    )
    assert ready.value(settings.WATCHDOG_ACTION) == "drop"


# what is not there


def test_a_configuration_that_is_cut_off_is_not_read(ready: Any) -> None:
    answers = ready.answers()
    half = answers["running"].stdout[: len(answers["running"].stdout) // 2]
    readings, _ = PLUGIN.parse(ready.ports, {**answers, "running": Answer(0, half, "")})
    found = readings[PortId("leaf1", PORT)].settings
    why = Missing("running: the configuration does not come to its end")
    assert found[settings.PFC] == why
    assert found[settings.ECN] == why
    assert found[settings.BOOT] == why


def test_a_user_without_rights_reads_no_configuration_and_nothing_is_off_because_of_it(ready: Any) -> None:
    said = "% Invalid input (privileged mode required)"
    answers = {**ready.answers(), "running": Answer(1, said, "")}
    readings, _ = PLUGIN.parse(ready.ports, answers)
    assert readings[PortId("leaf1", PORT)].settings[settings.PFC] == Missing(f"running: {said}")


@pytest.mark.parametrize("key", ["qos_maps", "interfaces", "version", "startup"])
def test_an_answer_that_is_missing_costs_what_hangs_on_it_and_no_more(
    ready: Any, want: Any, key: str
) -> None:
    answers = {k: a for k, a in ready.answers().items() if k != key}
    readings, _ = PLUGIN.parse(ready.ports, answers)
    found = readings[PortId("leaf1", PORT)].settings
    lost = {name for name in (*want(), settings.BOOT) if not isinstance(found[name], Known)}
    expected = {
        "qos_maps": {
            settings.DSCP_PRIORITY,
            settings.PRIORITY_TC,
            settings.TC_SCHEDULER,
            settings.TC_BANDWIDTH,
            settings.WATCHDOG,
        },
        "interfaces": set(),
        "version": set(want()) - {settings.MTU, settings.PAUSE, settings.DSCP_PRIORITY, settings.PRIORITY_TC},
        "startup": {settings.BOOT},
    }
    assert lost == expected[key]


@pytest.mark.parametrize(
    ("model", "used", "mode"),
    [
        ("DCS-7060X5-64S-F", "", "uc-tx-queue"),
        ("DCS-7050SX3-48YC8-F", "", "uc-tx-queue"),
        ("DCS-7280CR3-32P4-F", "", "tx-queue"),
        ("DCS-7800R3-36P-LC", "", "tx-queue"),
        ("7388X5", "", "uc-tx-queue"),
        ("vEOS-lab", "tx-queue", "tx-queue"),
        ("vEOS-lab", "", None),
    ],
)
def test_what_queues_are_called_follows_from_the_model_or_the_configuration(
    make: Callable[..., Any], model: str, used: str, mode: str | None
) -> None:
    world = make(model=model, mode=mode or "uc-tx-queue")
    if used:
        world.switch.operate("interface Ethernet1/1", f"{used} 3", "bandwidth percent 10")
    if mode is None:
        assert "'vEOS-lab' is not known" in world.why("eos.queue_mode")
        assert "'vEOS-lab' is not known" in world.why(settings.PFC)
    else:
        assert world.value("eos.queue_mode") == mode
