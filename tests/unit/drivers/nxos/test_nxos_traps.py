"""NX-OS's traps, and what users really did wrong with it, each by name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.apply.plan import make_plan
from fabricctl.checks.capability import PLUGIN as CAPABILITY
from fabricctl.drivers.switch.nxos import PLUGIN, policies, shown, terms, tree
from fabricctl.errors import RefusedError
from fabricctl.model import facts, settings
from fabricctl.model.fabric import NETWORK_CLI, Device, Endpoint, Fabric, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Limits, MtuPolicy, Policy, Stance, TrafficClass, Watchdog
from fabricctl.model.reading import DeviceReading, Known, Missing
from fabricctl.model.verdict import Outcome
from fabricctl.plugin.protocols import Answer

CASES = Path(__file__).resolve().parents[3] / "cases/switch/nxos"


def _mark(bench: Any, **changes: Any) -> str:
    lines = bench.set(bench.wanted(**changes))
    return next(line for line in lines if line.startswith("random-detect"))


def test_s24_auto_off_is_pfc_off(bench: Any) -> None:
    bench.blueprint()
    bench.switch.configure("interface Ethernet1/1", "priority-flow-control mode auto")
    read = bench.read()
    # Its class is lossless and DCBX has agreed on nothing: the port neither sends nor heeds a pause.
    assert read[settings.LOSSLESS_BUFFERS] == Known((3,))
    assert (read[settings.PFC], read["nxos.pfc_mode"]) == (Known(()), Known("auto"))
    bench.set(bench.wanted())
    assert bench.known(settings.PFC, "nxos.pfc_mode") == [(3,), "on"]
    assert "  priority-flow-control mode on" in bench.lines()


def test_auto_with_a_peer_that_agrees_is_on_and_still_not_left_to_it(bench: Any) -> None:
    bench.blueprint()
    bench.switch.configure("interface Ethernet1/1", "priority-flow-control mode auto")
    bench.switch.ports["Ethernet1/1"].agreed = True
    assert bench.known(settings.PFC) == [(3,)]
    assert "nxos.pfc_mode" in bench.differs(bench.wanted())["leaf1/Ethernet1/1"]


def test_the_strict_queue_is_q7_though_notifications_are_priority_6(bench: Any) -> None:
    lines = bench.set(bench.wanted())
    at = lines.index("class type queuing c-out-8q-q7")
    assert lines[at + 1] == "priority level 1"
    at = next(n for n, line in enumerate(lines) if line.startswith("class fabricctl-p6"))
    assert lines[at + 1] == "set qos-group 7"
    read = bench.read()
    assert read[settings.DSCP_PRIORITY].value[48] == 6
    assert read[settings.PRIORITY_TC].value[6] == 6
    assert read[settings.TC_SCHEDULER].value == ("ets",) * 6 + ("strict", "ets")


@pytest.mark.parametrize("priority", [1, 2, 4, 5, 7])
def test_notifications_of_any_priority_ride_q7_and_read_back_as_the_policys(
    bench: Any, priority: int
) -> None:
    changes = {
        "dscp_priority": tuple({26: 3, 48: priority}.get(dscp, 0) for dscp in range(64)),
        "priority_tc": tuple(p if p in {3, priority} else 0 for p in range(8)),
        "tc_scheduler": tuple("strict" if tc == priority else "ets" for tc in range(8)),
    }
    lines = bench.set(bench.wanted(**changes))
    at = next(n for n, line in enumerate(lines) if line.startswith(f"class fabricctl-p{priority}"))
    assert lines[at + 1] == "set qos-group 7"
    assert bench.differs(bench.wanted(**changes)) == {}


def test_a_class_7_of_the_policy_rides_the_queue_that_is_left(bench: Any) -> None:
    changes: dict[str, Any] = {
        "dscp_priority": tuple({26: 3, 48: 6, 56: 7}.get(dscp, 0) for dscp in range(64)),
        "priority_tc": (0, 0, 0, 3, 0, 0, 6, 7),
        "tc_bandwidth_percent": (40, 0, 0, 50, 0, 0, 0, 10),
        "pfc_priorities": (3, 7),
    }
    lines = bench.set(bench.wanted(**changes))
    at = lines.index("class type network-qos c-8q-nq6")
    assert lines[at + 1 : at + 3] == ["mtu 9216", "pause pfc-cos 7"]
    assert bench.differs(bench.wanted(**changes)) == {}


def test_other_priorities_that_share_a_class_keep_their_own(bench: Any) -> None:
    shift = tuple({26: 3, 48: 6}.get(dscp, dscp >> 3) for dscp in range(64))
    changes = {"dscp_priority": tuple(p if p != 3 or d == 26 else 2 for d, p in enumerate(shift))}
    changes["dscp_priority"] = tuple(
        p if p != 6 or d == 48 else 5 for d, p in enumerate(changes["dscp_priority"])
    )
    bench.set(bench.wanted(**changes))
    assert bench.differs(bench.wanted(**changes)) == {}


def test_the_watchdog_takes_on_and_no_number(bench: Any) -> None:
    lines = bench.set(bench.wanted())
    switching = [line for line in lines if "watch-dog-interval" in line]
    assert set(switching) == {"priority-flow-control watch-dog-interval on"}
    # Once for the ports and once for the device: it is no use with one of them alone.
    assert len(switching) == 2
    with pytest.raises(Exception, match="Invalid command"):
        bench.switch.configure("priority-flow-control watch-dog-interval 100")


def test_the_watchdogs_line_for_the_device_does_not_go_to_a_port(bench: Any) -> None:
    bench.set(bench.wanted())
    assert "priority-flow-control watch-dog-interval on" in bench.switch.running


def test_watchdog_times_are_whole_intervals(bench: Any) -> None:
    watchdog = Watchdog(poll_ms=200, detect_ms=500, restore_ms=1500)
    wanted = bench.wanted(watchdog=watchdog)[bench.id()]
    assert (wanted[settings.WATCHDOG_DETECT], wanted[settings.WATCHDOG_RESTORE]) == (600, 1600)
    lines = bench.set(bench.wanted(watchdog=watchdog))
    assert lines[-4:] == [
        "priority-flow-control watch-dog interval 200",
        "priority-flow-control watch-dog shutdown-multiplier 3",
        "priority-flow-control auto-restore multiplier 8",
        "priority-flow-control fixed-restore multiplier 0",
    ]
    assert bench.differs(bench.wanted(watchdog=watchdog)) == {}


def test_the_watchdog_drops_so_only_forward_is_lacking(bench: Any) -> None:
    assert settings.WATCHDOG_ACTION not in bench.wanted()[bench.id()]
    forward = bench.wanted(watchdog=Watchdog(action="forward"))[bench.id()]
    assert forward[settings.WATCHDOG_ACTION] == "forward"
    assert "cannot forward" in PLUGIN.unsupported[settings.WATCHDOG_ACTION]
    assert bench.known(settings.WATCHDOG_ACTION) == ["drop"]


@pytest.mark.parametrize(("action", "outcome"), [("drop", Outcome.PASS), ("forward", Outcome.FAIL)])
def test_check_and_plan_miss_nothing_but_forward(
    bench: Any, intent_of: Any, action: str, outcome: Outcome
) -> None:
    bench.set(bench.wanted())
    device = Device("leaf1", Role.SWITCH, "nxos", Endpoint("192.0.2.1", connection=NETWORK_CLI), bench.ports)
    fabric = Fabric((device,), (), "/site/inventory.yml")
    intents = {port.id: intent_of(port.id, watchdog=Watchdog(action=action)) for port in bench.ports}
    refusing = Policy(
        name="test",
        link_layer=LinkLayer.ETHERNET,
        lossless=TrafficClass(3, 26),
        cnp=TrafficClass(6, 48),
        mtu=MtuPolicy(9000, 9216, 4096),
        pfc_priorities=(3,),
        ecn={},
        limits=Limits(latency=(), loss=None),
        unsupported=Stance.REFUSE,
    )
    assert [finding.outcome for finding in CAPABILITY.judge(fabric, refusing, intents, None)] == [outcome]
    readings = {"leaf1": DeviceReading("leaf1", bench.switch.clock(), bench.readings())}
    plan = make_plan(fabric, intents, readings, {"leaf1": PLUGIN})
    assert plan.steps == ()
    lacking = {item.setting for item in plan.unsupported}
    assert lacking == ({settings.WATCHDOG_ACTION} if action == "forward" else set())


def test_an_action_that_only_notes_storms_is_none(bench: Any) -> None:
    bench.switch.configure(
        "interface Ethernet1/1", "priority-flow-control watch-dog-interval on disable-action"
    )
    reason = "the watchdog of the port only notes storms (disable-action)"
    assert bench.read()[settings.WATCHDOG_ACTION] == Missing(reason)


def test_a_multiplier_of_the_port_counts_before_the_devices(bench: Any) -> None:
    bench.switch.configure(
        "interface Ethernet1/1", "priority-flow-control watch-dog-interval on interface-multiplier 7"
    )
    assert bench.known(settings.WATCHDOG_DETECT) == [700]


def test_network_qos_is_system_wide(bench: Any) -> None:
    only = {bench.id(1): bench.wanted()[bench.id(1)]}
    bench.set(only)
    # Both ports have it, though one was named; the plan says so before.
    assert bench.known(settings.LOSSLESS_BUFFERS, number=2) == [(3,)]
    for name in (settings.PFC, settings.LOSSLESS_BUFFERS, "nxos.class_mtu_bytes", "nxos.network_qos"):
        assert PLUGIN.disruption(name, Known(()), (3,)) == "system-wide"


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("nxos.watchdog_global", True),
        (settings.WATCHDOG_POLL, 200),
        (settings.WATCHDOG_DETECT, 400),
        (settings.WATCHDOG_RESTORE, 400),
    ],
)
def test_the_watchdogs_lines_for_the_device_are_system_wide(name: str, new: Any) -> None:
    assert PLUGIN.disruption(name, Known(0), new) == "system-wide"


def test_what_is_bound_to_a_port_is_not_system_wide_and_leaves_other_ports_alone(make: Any) -> None:
    bench = make(2)
    before = bench.read(2)
    names = (settings.TC_BANDWIDTH, settings.ECN, settings.DSCP_PRIORITY, "nxos.queuing", "nxos.classifier")
    for name in names:
        assert PLUGIN.disruption(name, Known(()), ()) == "queue reset"
    lines = bench.set({bench.id(1): bench.wanted()[bench.id(1)]})
    at = next(n for n, line in enumerate(lines) if line.startswith("service-policy type queuing output"))
    assert "interface Ethernet1/1" in lines[:at]
    assert {name: bench.read(2)[name] for name in names} == {name: before[name] for name in names}


def test_every_line_of_the_device_is_announced_as_system_wide(bench: Any) -> None:
    """Set one setting after the other: where a line of the device changes, the plan has said so."""
    found = {}
    for goal in bench.goals(bench.wanted())[:1]:
        for name in goal.names:
            text = bench.push_text([replace(goal, names=(name,))])
            lines = text.partition("\nconfigure terminal\n")[2].partition("\nconfigure terminal\n")[2]
            shared = re.search(r"^system qos$|^exit$", lines, re.MULTILINE) is not None
            if shared:
                found[name] = str(PLUGIN.disruption(name, Missing(""), goal.wanted[name]))
    assert set(found.values()) == {"system-wide"}
    assert set(found) >= {settings.LOSSLESS_BUFFERS, settings.WATCHDOG_POLL, "nxos.watchdog_global"}


def test_only_named_ports_are_set(make: Any) -> None:
    bench = make(3)
    bench.set({bench.id(2): bench.wanted()[bench.id(2)]})
    at = bench.lines()
    assert at[at.index("interface Ethernet1/1") + 1] == "interface Ethernet1/2"
    assert at[-1] == "interface Ethernet1/3"


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (("1/1",), ["Ethernet1/1"]),
        (("1/1", "1/2", "1/3", "1/7"), ["Ethernet1/1-3,Ethernet1/7"]),
        (("1/1/1", "1/1/2", "1/2/1", "1/2"), ["Ethernet1/1/1-2,Ethernet1/2/1,Ethernet1/2"]),
        (("1/2", "1/1"), ["Ethernet1/2,Ethernet1/1"]),
    ],
)
def test_ports_with_the_same_lines_are_told_them_together(
    numbers: tuple[str, ...], expected: list[str]
) -> None:
    assert terms.port_ranges([f"Ethernet{number}" for number in numbers]) == expected


def test_a_range_is_no_longer_than_a_line() -> None:
    found = terms.port_ranges([f"Ethernet1/{number}" for number in range(1, 129, 2)])
    assert max(map(len, found)) <= 210
    assert sum(len(each.split(",")) for each in found) == 64


def test_a_large_leaf_takes_no_more_lines_than_a_small_one(make: Any) -> None:
    small, large = make(2), make(64)
    assert len(large.set(large.wanted())) == len(small.set(small.wanted()))
    assert large.differs(large.wanted()) == {}


def test_ports_of_two_speeds_mark_at_their_own_thresholds(bench: Any) -> None:
    wanted = {
        bench.id(1): bench.wanted()[bench.id(1)],
        bench.id(2): bench.wanted(ecn=EcnProfile(950_000, 3_000_000, 7))[bench.id(2)],
    }
    bench.set(wanted)
    assert bench.differs(wanted) == {}
    assert bench.known(settings.ECN_KMIN, number=1) == [150_000]
    assert bench.known(settings.ECN_KMIN, number=2) == [950_000]
    later = {**wanted, bench.id(2): bench.wanted(ecn=EcnProfile(900_000, 3_000_000, 7))[bench.id(2)]}
    bench.set(later)
    assert bench.differs(later) == {}


def test_thresholds_are_exact_bytes(bench: Any) -> None:
    line = _mark(bench, ecn=EcnProfile(153_600, 1_572_864, 100))
    assert "minimum-threshold 153600 bytes maximum-threshold 1572864 bytes drop-probability 100" in line


@pytest.mark.parametrize(
    ("line", "bytes_"),
    [
        ("minimum-threshold 150 kbytes maximum-threshold 3 mbytes", (150_000, 3_000_000)),
        ("minimum-threshold 150000 bytes maximum-threshold 3000 kbytes", (150_000, 3_000_000)),
    ],
)
def test_thresholds_are_read_in_every_unit(line: str, bytes_: tuple[int, int]) -> None:
    mark = f"random-detect {line} drop-probability 7 weight 0 ecn"
    made = policies.queuing(
        tree.read(f"policy-map type queuing X\n  class type queuing c-out-8q-q3\n    {mark}\n")[0]
    )
    assert made.marks[3] == policies.Mark(*bytes_, 7)
    assert made.beyond == ""


def test_a_switch_that_rounds_thresholds_is_not_proven(bench: Any) -> None:
    bench.switch.rounds = lambda line: line.replace("150000 bytes", "149760 bytes")
    bench.set(bench.wanted(), confirm=False)
    assert bench.differs(bench.wanted())["leaf1/Ethernet1/1"] == (settings.ECN_KMIN,)
    assert bench.known(settings.ECN_KMIN) == [149_760]


def test_queues_of_four_have_other_names_and_are_not_taken_for_eight(bench: Any) -> None:
    bench.switch.running["policy-map type queuing OLD"] = {
        "class type queuing c-out-q3": {"priority level 1": {}}
    }
    bench.switch.configure("system qos", "service-policy type queuing output OLD")
    entry = bench.read()[settings.TC_SCHEDULER]
    assert isinstance(entry, Missing)
    assert "c-out-q3" in entry.reason
    assert bench.set(bench.wanted())
    assert bench.differs(bench.wanted()) == {}


def test_a_class_by_802_1p_is_not_taken_for_a_dscp_map(bench: Any) -> None:
    bench.switch.configure(
        "class-map type qos match-all RDMA",
        "match cos 3",
        "policy-map type qos AZ",
        "class RDMA",
        "set qos-group 3",
        "interface Ethernet1/1",
        "service-policy type qos input AZ",
    )
    read = bench.read()
    assert (read[settings.TRUST], read["nxos.classifier"]) == (Known("pcp"), Known("AZ"))
    assert read[settings.DSCP_PRIORITY] == Missing("the port classifies by 802.1p priority")


def test_an_access_list_is_not_taken_for_a_dscp_map(bench: Any) -> None:
    bench.switch.configure(
        "class-map type qos match-any ACL",
        "match access-group name IB",
        "policy-map type qos BY-ACL",
        "class ACL",
        "set qos-group 3",
        "interface Ethernet1/1",
        "service-policy type qos input BY-ACL no-stats",
    )
    assert bench.known("nxos.classifier") == ["BY-ACL"]


@pytest.mark.parametrize(
    ("written", "numbers"),
    [("26", [26]), ("24-26,48", [24, 25, 26, 48]), ("af31", [26]), ("cs6,ef", [48, 46]), ("default", [0])],
)
def test_dscps_may_be_ranges_and_names(written: str, numbers: list[int]) -> None:
    assert policies.numbers(written) == numbers


@pytest.mark.parametrize("written", ["64", "3-1", "x", ""])
def test_what_is_no_dscp_is_an_error(written: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  its text is int's own, or ours
        policies.numbers(written)


def test_a_precedence_is_eight_dscps() -> None:
    text = "class-map type qos match-any P\n  match precedence 3\n"
    made = policies.classifier(
        tree.read("policy-map type qos X\n  class P\n    set qos-group 3\n")[0], {"P": tree.read(text)[0]}
    )
    assert [dscp for dscp, queue in enumerate(made.queues) if queue == 3] == list(range(24, 32))


# what is shown


def test_one_row_is_a_dict_and_several_are_a_list() -> None:
    row = {"a": 1}
    assert shown.rows({"TABLE_x": {"ROW_x": row}}, "x") == [row]
    assert shown.rows({"TABLE_x": {"ROW_x": [row, row]}}, "x") == [row, row]
    assert shown.rows({"TABLE_x": [{"ROW_x": row}, {"ROW_x": [row]}]}, "x") == [row, row]
    assert shown.rows({}, "x") == []


def test_a_single_port_reads_as_several_do(make: Any) -> None:
    one, two = make(1), make(2)
    for bench in (one, two):
        bench.set(bench.wanted())
    first, second = one.readings()[one.id()], two.readings()[two.id()]
    assert first.counters == second.counters
    assert {n: e for n, e in first.settings.items() if n != "nxos.objects"} == {
        n: e for n, e in second.settings.items() if n != "nxos.objects"
    }


def test_counters_are_named_by_the_policys_class(bench: Any) -> None:
    bench.set(bench.wanted())
    bench.switch.ports["Ethernet1/1"].counters |= {
        "rx-pause 3": 8,
        "tx-pause 3": 7,
        "WRED/AFD & Tail Drop 7": 5,
        "ECN Marked 3": 41,
        "Shutdown 3": 2,
        "Restored 3": 1,
        "Aggregate pkts dropped 3": 6,
        "eth_indiscard": 9,
    }
    counters = bench.readings()[bench.id()].counters
    expected = {
        "pfc3.rx_frames": 8,
        "pfc3.tx_frames": 7,
        "pfc4.rx_frames": 0,
        "queue6.dropped_packets": 5,
        "queue7.dropped_packets": 0,
        "queue3.tx_packets": 0,
        "queue3.ecn_marked_packets": 41,
        "ecn.marked_packets": 41,
        "watchdog.queue3.storms_detected": 2,
        "watchdog.queue3.storms_restored": 1,
        "watchdog.queue3.dropped_packets": 6,
        "rx_dropped": 9,
    }
    assert {name: counters[name] for name in expected} == {n: Known(v) for n, v in expected.items()}


def test_a_collectors_sample_of_the_watchdog_is_understood() -> None:
    said = (CASES.parents[2] / "unit/drivers/nxos/watchdog.txt").read_text()
    counters = shown.read_counters("Ethernet1/23", shown.Said({shown.WATCHDOG: Answer(0, said, "")}), 6)
    assert counters == {
        "watchdog.queue3.storms_detected": Known(1),
        "watchdog.queue3.storms_restored": Known(2),
        "watchdog.queue3.dropped_packets": Known(6),
    }
    assert shown.read_counters("Ethernet1/2", shown.Said({shown.WATCHDOG: Answer(0, said, "")}), 6) == {}


def test_fixed_buffers_show_their_headroom(bench: Any) -> None:
    answers = bench.answers()
    said = json.loads(answers[shown.QUEUES].stdout)
    for row in shown.rows(shown.rows(said, "module")[0], "queuing_interface"):
        if row["dir"] == "Ingress":
            row["TABLE_qosgrp_cfg"] = {
                "ROW_qosgrp_cfg": {"qosgrp": "3", "buffer-size": "27456", "pause-threshold": "12480"}
            }
    answers[shown.QUEUES] = Answer(0, json.dumps(said), "")
    found = PLUGIN.parse(bench.ports, answers)[0][bench.id()].facts[facts.HEADROOM]
    assert found == Known((0, 0, 0, 14976, 0, 0, 0, 0))


def test_a_host_that_names_itself_by_address_is_known_by_its_ports_name() -> None:
    row = {"l_port_id": "Eth1/1", "sys_name": "node1", "port_id": "0c42.a1d2.0001", "port_desc": "eth1"}
    said = json.dumps({"TABLE_nbor_detail": {"ROW_nbor_detail": row}})
    found = shown.read_facts("Ethernet1/1", shown.Said({shown.NEIGHBOURS: Answer(0, said, "")}))[
        facts.PARTNER
    ]
    assert found == Known("node1/eth1")


def test_members_of_a_port_channel_and_heirs_of_a_profile_are_set_elsewhere(bench: Any) -> None:
    bench.switch.configure("interface Ethernet1/1", "channel-group 10 mode active")
    bench.switch.configure("interface Ethernet1/2", "inherit port-profile GPU")
    found = [bench.readings()[bench.id(number)].facts[facts.RIVALS] for number in (1, 2)]
    assert found == [
        Known(("port-channel10, which the port is a member of",)),
        Known(("port-profile GPU, which the port inherits",)),
    ]


def test_a_port_that_is_down_has_no_speed(bench: Any) -> None:
    bench.switch.ports["Ethernet1/1"].up = False
    read = bench.readings()[bench.id()].facts
    assert read[facts.LINK_STATE] == Known("down")
    assert read[facts.SPEED] == Missing("the port has no speed now: auto-speed")


def test_the_boot_mark_is_when_the_system_started(bench: Any) -> None:
    before = PLUGIN.parse(bench.ports, bench.answers())[1][facts.BOOT_ID]
    bench.switch.clock.pass_by(86_400)
    assert PLUGIN.parse(bench.ports, bench.answers())[1][facts.BOOT_ID] == before
    bench.switch.reboot()
    assert PLUGIN.parse(bench.ports, bench.answers())[1][facts.BOOT_ID] != before


@pytest.mark.parametrize(
    "name", ["Eth1/1", "ethernet1/1", "Ethernet1", "Ethernet1/1 ; reload", "port-channel1"]
)
def test_a_port_is_named_as_the_configuration_does(name: str) -> None:
    with pytest.raises(RefusedError, match="no port of NX-OS"):
        PLUGIN.queries([Port(PortId("leaf1", name))])


def test_breakout_ports_have_names_too() -> None:
    assert PLUGIN.queries([Port(PortId("leaf1", "Ethernet1/1/2"))])


def test_without_a_saved_configuration_nothing_is_kept(bench: Any) -> None:
    bench.switch.startup = None
    assert bench.known(settings.BOOT) == [settings.NOT_KEPT]


def test_what_is_saved_of_another_port_does_not_count(bench: Any) -> None:
    bench.set(bench.wanted())
    bench.switch.configure("interface Ethernet1/2", "mtu 9000")
    assert bench.known(settings.BOOT, number=1) == [settings.SAVED]
    assert bench.known(settings.BOOT, number=2) == [settings.NOT_KEPT]


def test_a_policy_that_was_changed_and_not_saved_is_not_kept(bench: Any) -> None:
    bench.blueprint()
    assert bench.known(settings.BOOT) == [settings.SAVED]
    bench.switch.configure("class-map type qos match-any CNP", "match dscp 50")
    assert bench.known(settings.BOOT) == [settings.NOT_KEPT]


def test_infiniband_is_not_for_it(intent_of: Any) -> None:
    assert PLUGIN.wanted(intent_of(PortId("leaf1", "Ethernet1/1"), link_layer=LinkLayer.INFINIBAND)) == {}
