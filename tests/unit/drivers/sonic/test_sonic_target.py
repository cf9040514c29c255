"""What is made of goals and of CONFIG_DB as it is: pure, so without a switch."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from fabricctl.drivers.switch.sonic import parse, steps
from fabricctl.drivers.switch.sonic.node import patch
from fabricctl.drivers.switch.sonic.node.chain import Box
from fabricctl.drivers.switch.sonic.node.tables import Config
from fabricctl.drivers.switch.sonic.node.target import Goal, build
from fabricctl.model import settings
from fabricctl.model.policy import EcnProfile, Watchdog
from fabricctl.model.reading import Known

MELLANOX = Box("mellanox", {"100000": ("5m", "40m", "300m")})
BROADCOM = Box("broadcom", {"100000": ("5m", "40m", "300m")})
PORTS = ["Ethernet0", "Ethernet4", "Ethernet8"]
SKU = "Arista-7060CX-32S-C32"
Stock = Callable[..., Config]
Wish = Callable[..., Any]


def wanted_of(intent: Any) -> dict[str, Any]:
    return {k: v for k, v in steps.wanted(intent).items() if k not in steps.UNSUPPORTED}


def values(config: Config, box: Box, port: str = "Ethernet0") -> dict[str, Any]:
    found = parse._settings(config, port, box)  # noqa: SLF001  what a reading is made with
    return {name: entry.value for name, entry in found.items() if isinstance(entry, Known)}


def goal(wanted: Mapping[str, Any], *names: str, port: str = "Ethernet0") -> Goal:
    return Goal(port, names or tuple(sorted(wanted, key=settings.safe_rank)), wanted)


def built(config: Config, *goals: Goal, box: Box = MELLANOX) -> Config:
    """Return the target, which nothing may be refused of, and which the input must have survived."""
    before = copy.deepcopy(config)
    target, refused = build(config, goals, box)
    assert refused == {}
    assert config == before
    return target


@pytest.fixture
def roce(make_intent: Wish) -> dict[str, Any]:
    return wanted_of(make_intent())


@pytest.mark.parametrize(
    ("model", "sku", "box"), [("dynamic", "ACS-MSN2700", MELLANOX), ("dynamic", SKU, BROADCOM)]
)
def test_what_is_set_reads_back_as_wanted(
    stock: Stock, roce: dict[str, Any], model: str, sku: str, box: Box
) -> None:
    found = values(built(stock(PORTS, model, sku), goal(roce), box=box), box)
    assert {name: found.get(name) for name in roce} == roce


def test_setting_it_again_changes_nothing(stock: Stock, roce: dict[str, Any]) -> None:
    target = built(stock(PORTS), goal(roce))
    assert patch.diff(target, built(target, goal(roce))) == []


def test_only_rows_of_named_ports_and_new_objects_differ(stock: Stock, roce: dict[str, Any]) -> None:
    config = stock(PORTS)
    undo = patch.undo_of(config, built(config, goal(roce)))
    for table, rows in undo.items():
        for key, old in rows.items():
            shared = (table, key) in {
                ("PFC_WD", "GLOBAL"),
                ("FLEX_COUNTER_TABLE", "PFCWD"),
            } or key.startswith("fabricctl_")
            assert key.partition("|")[0] == "Ethernet0" or shared, (table, key)
            assert not shared or old is None


def test_names_of_objects_say_what_they_hold(stock: Stock, roce: dict[str, Any]) -> None:
    config = stock(PORTS)
    target = built(config, goal(roce))
    found = {table: sorted(set(rows) - set(config.get(table, {}))) for table, rows in target.items()}
    assert {table: names for table, names in found.items() if any("fabricctl" in name for name in names)} == {
        "DSCP_TO_TC_MAP": ["fabricctl_dscp_26to3_48to6"],
        "TC_TO_QUEUE_MAP": ["fabricctl_queue_00030060"],
        "TC_TO_PRIORITY_GROUP_MAP": ["fabricctl_group_00030000"],
        "SCHEDULER": ["fabricctl_dwrr_50", "fabricctl_strict"],
        "WRED_PROFILE": ["fabricctl_150000_1500000_100"],
    }
    # What the stock configuration has already is used.
    row = target["PORT_QOS_MAP"]["Ethernet0"]
    assert (row["pfc_to_queue_map"], row["pfc_to_pg_map"]) == ("AZURE", "AZURE")


def test_a_name_that_would_be_too_long_holds_a_digest(stock: Stock, roce: dict[str, Any]) -> None:
    shift = tuple({26: 3, 48: 6}.get(dscp, dscp >> 3) for dscp in range(64))
    target = built(stock(PORTS), goal({**roce, settings.DSCP_PRIORITY: shift}))
    name = target["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"]
    assert name.startswith("fabricctl_dscp_")
    assert len(name) <= 32
    assert values(target, MELLANOX)[settings.DSCP_PRIORITY] == shift


def test_an_object_with_the_same_content_is_used_whosever_it_is(stock: Stock, roce: dict[str, Any]) -> None:
    config = stock(PORTS)
    config["SCHEDULER"]["half"] = {"type": "DWRR", "weight": "50", "meter_type": "bytes"}
    config["SCHEDULER"]["cnp"] = {"type": "STRICT", "weight": "1"}
    target = built(config, goal(roce))
    assert target["QUEUE"]["Ethernet0|3"]["scheduler"] == "half"
    assert target["QUEUE"]["Ethernet0|6"]["scheduler"] == "cnp"


def test_a_scheduler_with_a_shaper_is_another_one(stock: Stock, roce: dict[str, Any]) -> None:
    config = stock(PORTS)
    config["SCHEDULER"]["half"] = {"type": "DWRR", "weight": "50", "meter_type": "bytes", "pir": "1000"}
    assert built(config, goal(roce))["QUEUE"]["Ethernet0|3"]["scheduler"] == "fabricctl_dwrr_50"


def test_two_policies_on_one_switch_never_fight(stock: Stock, make_intent: Wish) -> None:
    one = wanted_of(make_intent())
    other = wanted_of(make_intent(ecn=EcnProfile(400_000, 1_600_000, 20), pfc_priorities=(3, 4)))
    target = built(stock(PORTS), goal(one), goal(other, port="Ethernet4"))
    assert {n: values(target, MELLANOX).get(n) for n in one} == one
    assert {n: values(target, MELLANOX, "Ethernet4").get(n) for n in other} == other
    moved = built(target, goal(one, port="Ethernet4"))
    # What only the other policy used is gone again.
    assert "fabricctl_400000_1600000_20" in target["WRED_PROFILE"]
    assert "fabricctl_400000_1600000_20" not in moved["WRED_PROFILE"]
    assert {n: values(moved, MELLANOX).get(n) for n in one} == one


def test_one_of_our_objects_that_somebody_changed_stays_for_the_others(
    stock: Stock, roce: dict[str, Any]
) -> None:
    target = built(stock(PORTS), goal(roce), goal(roce, port="Ethernet4"))
    target["DSCP_TO_TC_MAP"]["fabricctl_dscp_26to3_48to6"]["26"] = "4"
    mended = built(target, goal(roce, "dscp_priority"))
    assert mended["DSCP_TO_TC_MAP"]["fabricctl_dscp_26to3_48to6"]["26"] == "4"
    assert mended["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"] == "fabricctl_dscp_26to3_48to6_2"
    assert mended["PORT_QOS_MAP"]["Ethernet4"] == target["PORT_QOS_MAP"]["Ethernet4"]


def test_objects_of_others_stay_though_nothing_uses_them(stock: Stock, roce: dict[str, Any]) -> None:
    config = stock(["Ethernet0"])
    target = built(config, goal(roce))
    for table in ("DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "WRED_PROFILE", "SCHEDULER"):
        for name, content in config[table].items():
            assert target[table][name] == content


# ranges


def test_a_range_is_taken_apart_only_where_it_must_be(stock: Stock, roce: dict[str, Any]) -> None:
    target = built(stock(PORTS), goal(roce))
    queues = {k: v["profile"] for k, v in target["BUFFER_QUEUE"].items() if k.startswith("Ethernet0|")}
    assert queues == {
        "Ethernet0|0-2": "egress_lossy_profile",
        "Ethernet0|3": "egress_lossless_profile",
        "Ethernet0|4": "egress_lossy_profile",
        "Ethernet0|5-7": "egress_lossy_profile",
    }
    groups = {k: v["profile"] for k, v in target["BUFFER_PG"].items() if k.startswith("Ethernet0|")}
    assert groups == {"Ethernet0|0": "ingress_lossy_profile", "Ethernet0|3": "NULL"}
    assert "Ethernet4|3-4" in target["BUFFER_PG"]


def test_a_range_that_is_right_stays(stock: Stock, make_intent: Wish) -> None:
    wanted = wanted_of(make_intent(pfc_priorities=(3, 4), priority_tc=(0, 0, 0, 3, 4, 0, 6, 0)))
    target = built(stock(PORTS), goal(wanted))
    assert target["BUFFER_PG"]["Ethernet0|3-4"] == {"profile": "NULL"}
    assert target["BUFFER_QUEUE"]["Ethernet0|3-4"] == {"profile": "egress_lossless_profile"}


def test_a_profile_with_headroom_of_an_operators_own_stays(stock: Stock, roce: dict[str, Any]) -> None:
    config = stock(PORTS)
    del config["BUFFER_PG"]["Ethernet0|3-4"]
    config["BUFFER_PROFILE"]["long_cable"] = {"pool": "ingress_lossless_pool", "xoff": "200000"}
    config["BUFFER_PG"]["Ethernet0|3"] = {"profile": "long_cable"}
    assert built(config, goal(roce))["BUFFER_PG"]["Ethernet0|3"] == {"profile": "long_cable"}


# the traditional buffer model


def test_the_traditional_model_gets_no_rows_of_ours_and_loses_those_too_many(
    stock: Stock, roce: dict[str, Any]
) -> None:
    config = stock(PORTS, "traditional", SKU)
    derived = {"profile": "pg_lossless_100000_5m_profile"}
    config["BUFFER_PG"]["Ethernet0|3-4"] = dict(derived)
    config["BUFFER_PG"]["Ethernet4|3-4"] = dict(derived)
    target = built(config, goal(roce), box=BROADCOM)
    assert [key for key in target["BUFFER_PG"] if key.startswith("Ethernet0")] == ["Ethernet0|0"]
    assert target["BUFFER_PG"]["Ethernet4|3-4"] == derived
    way = patch.way(config, target)
    assert (way.gone, way.held) == (("Ethernet0|3-4",), ("Ethernet0",))
    assert not [op for op in patch.diff(way.first, way.second) if "BUFFER_PG" in op["path"]]


def test_a_cable_length_without_a_line_is_refused_with_those_that_have_one(
    stock: Stock, roce: dict[str, Any]
) -> None:
    config = stock(PORTS, "traditional", SKU)
    _, refused = build(config, [goal({**roce, settings.CABLE_LENGTH: 3})], BROADCOM)
    missing = "pg_profile_lookup.ini has no line for 3m at 100000 Mb/s, so there would be no headroom"
    step = "it has 5m, 40m, 300m: write the next longer one as cable_length_m in the inventory"
    assert refused == {"Ethernet0": [f"cable_length_m: {missing}; {step}"]}
    assert (
        values(built(config, goal({**roce, settings.CABLE_LENGTH: 40}), box=BROADCOM), BROADCOM)[
            settings.CABLE_LENGTH
        ]
        == 40
    )


def test_the_dynamic_model_takes_any_cable_length(stock: Stock, roce: dict[str, Any]) -> None:
    target = built(stock(PORTS), goal({**roce, settings.CABLE_LENGTH: 3}))
    assert target["CABLE_LENGTH"]["AZURE"] == {"Ethernet0": "3m", "Ethernet4": "5m", "Ethernet8": "5m"}


def test_headroom_that_somebody_took_away_is_put_back(stock: Stock, roce: dict[str, Any]) -> None:
    config = stock(PORTS, "traditional", SKU)
    config["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] = "3"
    config["BUFFER_PROFILE"]["pg_lossless_100000_5m_profile"] = {"pool": "x", "xoff": "49152"}
    target = built(config, goal(roce, settings.LOSSLESS_BUFFERS), box=BROADCOM)
    assert target["BUFFER_PG"]["Ethernet0|3"] == {"profile": "pg_lossless_100000_5m_profile"}
    assert patch.way(config, target).made == {"Ethernet0|3": {"profile": "pg_lossless_100000_5m_profile"}}


def test_a_map_from_pauses_to_groups_is_bound_only_where_the_asic_has_one(
    stock: Stock, roce: dict[str, Any]
) -> None:
    assert (
        "pfc_to_pg_map"
        not in built(stock(PORTS, "dynamic", SKU), goal(roce), box=BROADCOM)["PORT_QOS_MAP"]["Ethernet0"]
    )
    config = stock(PORTS, "dynamic", SKU)
    config["PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"] = {"X": {"3": "4"}}
    config["PORT_QOS_MAP"]["Ethernet0"]["pfc_to_pg_map"] = "X"
    assert values(config, BROADCOM)["sonic.pfc_group"] == (4, -1)
    assert "pfc_to_pg_map" not in built(config, goal(roce), box=BROADCOM)["PORT_QOS_MAP"]["Ethernet0"]
    bare = stock(PORTS)
    del bare["PORT_QOS_MAP"]["Ethernet0"]["pfc_to_pg_map"]
    assert (
        built(bare, goal(roce))["PORT_QOS_MAP"]["Ethernet0"]["pfc_to_pg_map"]
        == "fabricctl_pfc_group_xxx3xxxx"
    )


# what cannot be had


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({settings.MTU: 9300}, "mtu_bytes: '9300' is not within 68..9216"),
        ({settings.ECN_KMIN: 1_500_000}, "ecn: Kmin 1500000 is not below Kmax 1500000"),
        ({settings.ECN_PMAX: 101}, "ecn: '101' is not within 0..100"),
        ({settings.PFC: (3, 8)}, "pfc_priorities: '8' is not within 0..7"),
        ({settings.WATCHDOG: (4,)}, "pfc_watchdog: priorities 4 are watched, PFC is on for 3"),
        ({settings.WATCHDOG_DETECT: 50}, "pfc_watchdog: '50' is not within 100..5000"),
        (
            {settings.WATCHDOG_POLL: 1000},
            "pfc_watchdog: the switch looks every 1000 ms, but detection_time of Ethernet0 is 400",
        ),
        ({settings.WATCHDOG_ACTION: "x; reboot"}, "pfc_watchdog: the action cannot be 'x; reboot'"),
        ({settings.TRUST: "pcp"}, "trust: trust 'pcp' cannot be set: its DOT1P map is not ours to make"),
        ({settings.TC_SCHEDULER: ("vendor",) * 8}, "tc_scheduler: a queue cannot be 'vendor'"),
        ({settings.DSCP_PRIORITY: (9,) * 64}, "trust: '9' is not within 0..7"),
    ],
)
def test_every_value_is_validated_before_anything_is_written(
    stock: Stock, roce: dict[str, Any], change: dict[str, Any], reason: str
) -> None:
    target, refused = build(stock(PORTS), [goal({**roce, **change})], MELLANOX)
    assert reason in refused["Ethernet0"]
    assert target == stock(PORTS)


def test_a_port_of_which_one_setting_is_refused_keeps_all_and_others_are_set(
    stock: Stock, roce: dict[str, Any]
) -> None:
    goals = [goal({**roce, settings.MTU: 9300}), goal(roce, port="Ethernet4")]
    target, refused = build(stock(PORTS), goals, MELLANOX)
    assert list(refused) == ["Ethernet0"]
    assert target["PORT_QOS_MAP"]["Ethernet0"] == stock(PORTS)["PORT_QOS_MAP"]["Ethernet0"]
    assert values(target, MELLANOX, "Ethernet4")[settings.PFC] == (3,)


def test_a_poll_too_slow_for_a_port_that_is_not_ours_is_refused(stock: Stock, roce: dict[str, Any]) -> None:
    config = stock(PORTS)
    config["PFC_WD"] = {"Ethernet8": {"action": "drop", "detection_time": "150", "restoration_time": "200"}}
    _, refused = build(config, [goal(roce)], MELLANOX)
    assert refused["Ethernet0"] == [
        "pfc_watchdog: the switch looks every 200 ms, but detection_time of Ethernet8 is 150"
    ]


def test_a_port_that_shares_its_row_is_refused(stock: Stock, roce: dict[str, Any]) -> None:
    config = stock(PORTS)
    config["QUEUE"]["Ethernet0,Ethernet4|7"] = {"scheduler": "scheduler.0"}
    _, refused = build(config, [goal(roce)], MELLANOX)
    assert refused["Ethernet0"] == [
        "mtu_bytes: QUEUE|Ethernet0,Ethernet4|7 is one row for several ports; give each port a row of its own"
    ]


def test_a_port_that_is_not_there_is_refused(stock: Stock, roce: dict[str, Any]) -> None:
    _, refused = build(stock(PORTS), [goal(roce, port="Ethernet400")], MELLANOX)
    assert refused == {"Ethernet400": ["mtu_bytes: the switch has no port Ethernet400"]}


def test_a_setting_that_is_not_known_is_refused(stock: Stock) -> None:
    _, refused = build(stock(PORTS), [goal({"sonic.x": 1})], MELLANOX)
    assert refused == {"Ethernet0": ["sonic.x: is not known here"]}


# back to what was


@pytest.mark.parametrize(
    ("model", "sku", "box"), [("dynamic", "ACS-MSN2700", MELLANOX), ("dynamic", SKU, BROADCOM)]
)
def test_old_values_bring_back_the_old_objects(
    stock: Stock, roce: dict[str, Any], model: str, sku: str, box: Box
) -> None:
    config = stock(PORTS, model, sku)
    before = values(config, box)
    target = built(config, goal(roce), box=box)
    back = built(target, goal(before), box=box)
    assert values(back, box) == before
    row = back["PORT_QOS_MAP"]["Ethernet0"]
    assert {row[f] for f in ("dscp_to_tc_map", "tc_to_queue_map", "tc_to_pg_map", "pfc_to_queue_map")} == {
        "AZURE"
    }
    assert back["QUEUE"]["Ethernet0|3"] == {"scheduler": "scheduler.1", "wred_profile": "AZURE_LOSSLESS"}
    assert not [name for rows in back.values() for name in rows if name.startswith("fabricctl")]


def test_no_maps_at_all_is_a_value_too(roce: dict[str, Any], stock: Stock) -> None:
    config = stock(PORTS)
    for table in ("PORT_QOS_MAP", "QUEUE"):
        del config[table]
    before = values(config, MELLANOX)
    assert (before[settings.TRUST], before["sonic.tc_group"]) == ("none", (-1,) * 8)
    back = built(built(config, goal(roce)), goal(before))
    assert values(back, MELLANOX) == before
    assert not [name for rows in back.values() for name in rows if name.startswith("fabricctl")]


# any subset, any policy

_PFC = st.lists(st.integers(1, 7), unique=True, max_size=3).map(lambda found: tuple(sorted(found)))


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    """Return what changes a policy that is valid."""
    pfc = draw(_PFC)
    cnp = draw(st.sampled_from([p for p in range(1, 8) if p not in pfc]))
    own = {*pfc, cnp}
    kmin = draw(st.integers(0, 2_000_000))
    shares = [100 // (len(pfc) + 1)] * len(pfc)
    bandwidth = dict(zip((0, *pfc), (100 - sum(shares), *shares), strict=True))
    fast = Watchdog(poll_ms=100, detect_ms=200, restore_ms=300, action="forward")
    watchdog = draw(st.sampled_from([None, Watchdog(on=False), Watchdog(), fast]))
    return {
        "mtu_bytes": draw(st.integers(1500, 9216)),
        "dscp_priority": tuple({26: min(pfc, default=0), 48: cnp}.get(dscp, 0) for dscp in range(64)),
        "priority_tc": tuple(p if p in own else 0 for p in range(8)),
        "tc_scheduler": tuple("strict" if p == cnp else "ets" for p in range(8)),
        "tc_bandwidth_percent": tuple(bandwidth.get(p, 0) for p in range(8)),
        "pfc_priorities": pfc,
        "ecn": draw(st.sampled_from([None, EcnProfile(kmin, kmin + 1000, draw(st.integers(0, 100)))])),
        "cable_length_m": float(draw(st.integers(1, 300))),
        "watchdog": watchdog if pfc else None,
    }


@profile(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=policies(), second=policies(), data=st.data())
def test_any_policy_after_any_other_reads_back_and_can_be_undone(
    make_intent: Wish, stock: Stock, first: dict[str, Any], second: dict[str, Any], data: st.DataObject
) -> None:
    config = stock(PORTS)
    one = built(config, goal(wanted_of(make_intent(**first))))
    wanted = wanted_of(make_intent(**second))
    names = data.draw(st.sets(st.sampled_from(sorted(wanted)), min_size=1))
    two = built(one, goal(wanted))
    found = values(two, MELLANOX)
    assert {name: found.get(name) for name in wanted} == wanted
    undo = patch.undo_of(one, two)
    assert patch.undone(two, undo) == one
    assert patch.undone(two, undo, ["Ethernet0"])["PORT_QOS_MAP"] == one["PORT_QOS_MAP"]
    _check_way(one, two)
    # Some of it alone leaves other ports alone, too.
    part, _ = build(one, [goal(wanted, *sorted(names))], MELLANOX)
    for table, port in itertools.product(("PORT_QOS_MAP", "PFC_WD", "PORT"), ("Ethernet4", "Ethernet8")):
        assert part.get(table, {}).get(port) == one.get(table, {}).get(port)


def _check_way(old: Config, new: Config) -> None:
    """Each stage is a configuration in which nothing overlaps, and no watchdog watches a port without PFC."""
    way = patch.way(old, new)
    assert way.last == new
    for stage in (way.first, way.second, way.last):
        for table in ("QUEUE", "BUFFER_PG", "BUFFER_QUEUE"):
            places = [place for key in stage.get(table, {}) for place in patch._places(key)]  # noqa: SLF001
            assert len(places) == len(set(places))
    for port in set(way.second.get("PFC_WD", {})) - {"GLOBAL"}:
        assert way.second["PORT_QOS_MAP"][port]["pfc_enable"]
