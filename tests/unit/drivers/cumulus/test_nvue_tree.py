"""What NVUE's applied configuration means for a port: ranges, presets, releases, and every broken chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fabricctl.drivers.switch.cumulus import tree as nvue
from fabricctl.model import facts, settings
from fabricctl.model.reading import Known, Missing

Make = Callable[..., Any]


def test_the_names_of_settings_are_the_products() -> None:
    """tree.py runs where the rest of fabricctl is not, so it has the names written out."""
    known = {value for name, value in vars(settings).items() if name.isupper() and isinstance(value, str)}
    names = [name for every in nvue.NAMES.values() for name in every]
    assert len(names) == len(set(names))
    assert {name for name in names if not name.startswith("cumulus.")} <= known


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("swp1", ["swp1"]),
        ("swp1-4", ["swp1", "swp2", "swp3", "swp4"]),
        ("swp1-2,swp6", ["swp1", "swp2", "swp6"]),
        ("swp1-2,5-6", ["swp1", "swp2", "swp5", "swp6"]),
        ("swp61s0-1", ["swp61s0", "swp61s1"]),
        ("0-3,5", ["0", "1", "2", "3", "5"]),
        ("26", ["26"]),
        ("br_default", ["br_default"]),
        ("default-global", ["default-global"]),
        ("4-1", ["4-1"]),
        ("1-99999999", ["1-99999999"]),
    ],
)
def test_a_key_may_stand_for_several_names(key: str, names: list[str]) -> None:
    assert nvue.names_in(key) == names


def test_ranges_of_ports_and_of_classes_are_expanded_and_merged() -> None:
    shown: list[Any] = [
        {"header": {"version": "Cumulus Linux 5.7.0"}},
        {
            "set": {
                "interface": {"swp1-2": {"link": {"mtu": 9000}}, "swp2": {"qos": {"pfc": {"profile": "x"}}}},
                "qos": {"mapping": {"x": {"trust": "l3", "dscp": {"24-31": {"switch-priority": 3}}}}},
                "bridge": {"domain": {"10-20": {}}},
            }
        },
    ]
    tree = nvue.merged(shown)
    assert tree["interface"]["swp2"] == {"link": {"mtu": 9000}, "qos": {"pfc": {"profile": "x"}}}
    assert tree["qos"]["mapping"]["x"]["dscp"]["31"] == {"switch-priority": 3}
    assert tree["bridge"] == {"domain": {"10-20": {}}}
    assert nvue.merged(shown[1]["set"]) == tree


def test_a_factory_switch_trusts_pcp_marks_class_0_and_has_no_lossless_buffers(bench: Any) -> None:
    found = bench.known(*(name for every in nvue.NAMES.values() for name in every))
    assert (found["trust"], found["mtu_bytes"], found["global_pause"]) == ("pcp", 9216, False)
    assert found["dscp_priority"] == tuple(dscp >> 3 for dscp in range(64))
    assert found["priority_tc"] == tuple(range(8))
    assert found["tc_bandwidth_percent"] == (12, 13) * 4
    assert (found["pfc_priorities"], found["lossless_buffers"], found["pfc_watchdog"]) == ((), (), ())
    assert (found["ecn"], found["cumulus.ecn_classes"]) == (True, (0,))
    assert (found["ecn_kmin_bytes"], found["ecn_kmax_bytes"], found["ecn_pmax_percent"]) == (
        150_000,
        1_500_000,
        100,
    )


# Every link of DSCP -> priority -> class -> buffers -> PFC -> ECN -> watchdog can break by itself.

_BREAKS: dict[str, tuple[dict[str, Any], str]] = {
    "the DSCP leads elsewhere": (
        {"qos": {"mapping": {"OURS": {"dscp": {"26": {"switch-priority": 4}}}}}},
        "dscp_priority",
    ),
    "it trusts PCP": ({"qos": {"mapping": {"OURS": {"trust": "l2"}}}}, "trust"),
    "it trusts both": ({"qos": {"mapping": {"OURS": {"trust": "both"}}}}, "trust"),
    "the classification is not attached": ({"interface": {"swp1": {"qos": {"mapping": None}}}}, "trust"),
    "the priority leads to another class": (
        {
            "qos": {
                "egress-queue-mapping": {"default-global": {"switch-priority": {"3": {"traffic-class": 0}}}}
            }
        },
        "priority_tc",
    ),
    "CNPs are not strict": (
        {"qos": {"egress-scheduler": {"OURS": {"traffic-class": {"6": {"mode": "dwrr"}}}}}},
        "tc_scheduler",
    ),
    "the shares are others": (
        {"qos": {"egress-scheduler": {"OURS": {"traffic-class": {"3": {"bw-percent": 10}}}}}},
        "tc_bandwidth_percent",
    ),
    "the lossless pool is gone": ({"qos": {"traffic-pool": {"default-lossless": None}}}, "lossless_buffers"),
    "the pool holds another priority": (
        {"qos": {"traffic-pool": {"default-lossless": {"switch-priority": {"4": {}}}}}},
        "lossless_buffers",
    ),
    "PFC is on another priority": (
        {"qos": {"pfc": {"OURS": {"switch-priority": {"3": None, "4": {}}}}}},
        "pfc_priorities",
    ),
    "PFC is also on another priority": (
        {"qos": {"pfc": {"OURS": {"switch-priority": {"4": {}}}}}},
        "pfc_priorities",
    ),
    "PFC is not attached": ({"interface": {"swp1": {"qos": {"pfc": None}}}}, "pfc_priorities"),
    "pauses are not sent": ({"qos": {"pfc": {"OURS": {"tx": "disable"}}}}, "cumulus.pfc_tx"),
    "pauses are not heeded": ({"qos": {"pfc": {"OURS": {"rx": "disable"}}}}, "cumulus.pfc_rx"),
    "headroom is given by hand": (
        {"qos": {"pfc": {"OURS": {"port-buffer": 2000}}}},
        "cumulus.pfc_buffer_bytes",
    ),
    "the cable is longer": ({"qos": {"pfc": {"OURS": {"cable-length": 100}}}}, "cable_length_m"),
    "the whole link pauses": (
        {
            "qos": {"link-pause": {"x": {"rx": "enable"}}},
            "interface": {"swp1": {"qos": {"link-pause": {"profile": "x"}}}},
        },
        "global_pause",
    ),
    "it does not mark": (
        {"qos": {"congestion-control": {"OURS": {"traffic-class": {"3": {"ecn": "disable"}}}}}},
        "ecn",
    ),
    "another class marks": (
        {"qos": {"congestion-control": {"OURS": {"traffic-class": {"0": {"ecn": "enable"}}}}}},
        "cumulus.ecn_classes",
    ),
    "marking is not attached": ({"interface": {"swp1": {"qos": {"congestion-control": None}}}}, "ecn"),
    "it drops what it cannot mark": (
        {"qos": {"congestion-control": {"OURS": {"traffic-class": {"3": {"red": "enable"}}}}}},
        "cumulus.red",
    ),
    "Kmin is another": (
        {"qos": {"congestion-control": {"OURS": {"traffic-class": {"3": {"min-threshold": 1000}}}}}},
        "ecn_kmin_bytes",
    ),
    "Kmin is above Kmax, which NVUE lets through": (
        {"qos": {"congestion-control": {"OURS": {"traffic-class": {"3": {"min-threshold": 2_000_000}}}}}},
        "ecn_kmin_bytes",
    ),
    "Kmax is another": (
        {"qos": {"congestion-control": {"OURS": {"traffic-class": {"3": {"max-threshold": 9000}}}}}},
        "ecn_kmax_bytes",
    ),
    "it marks rarely": (
        {"qos": {"congestion-control": {"OURS": {"traffic-class": {"3": {"probability": 7}}}}}},
        "ecn_pmax_percent",
    ),
    "the watchdog is off": (
        {"interface": {"swp1": {"qos": {"pfc-watchdog": {"state": "disable"}}}}},
        "pfc_watchdog",
    ),
    "the watchdog looks rarely": (
        {"qos": {"pfc-watchdog": {"polling-interval": 5000}}},
        "pfc_watchdog_poll_ms",
    ),
    "the watchdog waits long": ({"qos": {"pfc-watchdog": {"robustness": 50}}}, "pfc_watchdog_detect_ms"),
    "the MTU is small": ({"interface": {"swp1": {"link": {"mtu": 1500}}}}, "mtu_bytes"),
}


@pytest.fixture
def whole(bench: Any) -> Any:
    """Return a switch that is as wanted."""
    assert bench.push({"swp1": bench.wanted()}).returncode == 0
    assert bench.confirm(1).returncode == 0
    assert bench.goals({"swp1": bench.wanted()}) == []
    return bench


def _with_ours(node: Any, config: Any, feature: str = "") -> Any:
    """Return a change in which OURS is the name of fabricctl's profile."""
    if not isinstance(node, dict):
        return node
    found = {}
    for key, value in node.items():
        name = next(n for n in config["qos"][feature] if n.startswith(nvue.OWN)) if key == "OURS" else key
        found[name] = _with_ours(value, config, key)
    return found


@pytest.mark.parametrize("name", _BREAKS)
def test_a_plan_sees_every_way_to_break_the_chain_and_a_push_mends_it(whole: Any, name: str) -> None:
    change, setting = _BREAKS[name]
    whole.sim.by_hand(_with_ours(change, whole.config()))
    (goal,) = whole.goals({"swp1": whole.wanted()})
    assert setting in goal.names
    done = whole.push({"swp1": whole.wanted()}, slot=2)
    assert (done.returncode, done.stderr) == (0, "")
    assert whole.goals({"swp1": whole.wanted()}) == []
    assert whole.confirm(2).returncode == 0


def test_a_dangling_profile_which_the_schema_lets_through_is_no_value(whole: Any) -> None:
    whole.sim.by_hand({"interface": {"swp1": {"qos": {"pfc": {"profile": "typo"}}}}})
    found = whole.settings()
    assert found["pfc_priorities"] == Missing("the port names the pfc profile typo, which does not exist")
    assert isinstance(found["ecn"], Missing)
    assert found["trust"] == Known("dscp")


def test_thresholds_relative_to_the_buffer_are_no_bytes(make: Make) -> None:
    marks = {"ecn": "enable", "mode": "relative"}
    bench = make(
        "5.18.0", {"qos": {"congestion-control": {"default-global": {"traffic-class": {"0": marks}}}}}
    )
    assert bench.settings()["ecn_kmin_bytes"] == Missing(
        "the thresholds are relative to the buffer, not bytes"
    )


def test_classes_with_different_thresholds_are_no_single_value(make: Make) -> None:
    classes = {"0": {"min-threshold": 1000}, "3": {"min-threshold": 2000}}
    bench = make("5.9.1", {"qos": {"congestion-control": {"default-global": {"traffic-class": classes}}}})
    found = bench.settings()
    assert found["ecn_kmin_bytes"] == Missing("classes differ in their min-threshold: 1000, 2000")
    assert found["ecn_kmax_bytes"] == Known(1_500_000)


# The all-ports preset


def test_the_preset_is_a_rival_and_read_as_what_it_does(make: Make) -> None:
    bench = make("5.14.0", {"qos": {"roce": {"enable": "on", "mode": "lossless"}}})
    found = bench.known("trust", "priority_tc", "pfc_priorities", "cable_length_m", "cumulus.ecn_classes")
    assert found == {
        "trust": "both",
        "priority_tc": (0, 0, 0, 3, 0, 0, 6, 0),
        "pfc_priorities": (3,),
        "cable_length_m": 100,
        "cumulus.ecn_classes": (0, 3),
    }
    assert bench.settings()["lossless_buffers"] == Known((3,))
    rival = "qos roce, the preset of all ports (mode lossless): nv unset qos roce"
    assert bench.facts[facts.RIVALS] == Known((rival,))


@pytest.mark.parametrize(
    ("version", "roce", "mode"),
    [
        ("5.9.1", {"enable": "on"}, "lossless"),
        ("5.14.0", {"enable": "off", "mode": "lossless"}, ""),
        ("5.15.0", {"state": "enabled", "mode": "lossy"}, "lossy"),
        ("5.15.0", {"state": "disabled"}, ""),
        ("5.9.1", {}, "lossless"),
        ("5.9.1", {"enable": True}, "lossless"),
        ("5.9.1", {"enable": False}, ""),
    ],
)
def test_the_preset_is_spelled_by_release(version: str, roce: dict[str, Any], mode: str) -> None:
    del version  # it is here to be read
    assert nvue.preset({"qos": {"roce": roce}}) == mode


def test_a_lossy_preset_has_no_pfc(make: Make) -> None:
    bench = make("5.15.0", {"qos": {"roce": {"state": "enabled", "mode": "lossy"}}})
    assert bench.known("pfc_priorities", "lossless_buffers") == {"pfc_priorities": (), "lossless_buffers": ()}


def test_a_preset_that_is_not_known_is_no_value(make: Make) -> None:
    bench = make("5.14.0", {"qos": {"roce": {"enable": "on", "mode": "lossy-multi-tc"}}})
    found = bench.settings()
    assert found["mtu_bytes"] == Known(9216)
    for name in ("trust", "priority_tc", "tc_scheduler", "pfc_priorities", "ecn"):
        assert isinstance(found[name], Missing), name
        assert "lossy-multi-tc" in found[name].reason


# Releases


def _impossible(bench: Any) -> set[str]:
    return {
        name for name, entry in bench.settings().items() if isinstance(entry, Missing) and entry.impossible
    }


def test_before_5_3_there_is_only_the_preset_so_named_ports_cannot_be_had(make: Make) -> None:
    bench = make("5.2.1", {"qos": {"roce": {"enable": "on"}}})
    every = {name for names in nvue.NAMES.values() for name in names}
    assert _impossible(bench) == every - {"mtu_bytes"}
    reason = bench.settings()["pfc_priorities"].reason
    assert reason == (
        "Cumulus Linux 5.2.1 has only the preset qos roce, which sets all ports at once: named ports can be "
        "set from 5.3 on"
    )
    # What is not ours to set there has no rival: the MTU can be set.
    assert not isinstance(bench.facts[facts.RIVALS], Known)


@pytest.mark.parametrize(
    ("version", "features"),
    [("5.3.0", ["link-pause", "pfc-watchdog"]), ("5.4.0", ["pfc-watchdog"]), ("5.5.1", ["pfc-watchdog"])],
)
def test_older_releases_lack_link_pause_and_the_watchdog(
    make: Make, version: str, features: list[str]
) -> None:
    assert _impossible(make(version)) == {name for each in features for name in nvue.NAMES[each]}


@pytest.mark.parametrize("version", ["5.6.0", "5.9.1", "5.16.0", "5.18.2"])
def test_later_releases_have_all(make: Make, version: str) -> None:
    assert _impossible(make(version)) == set()


def test_the_watchdog_works_on_ports_not_on_bonds(make: Make) -> None:
    bench = make(ports=("bond1",))
    entry = bench.settings("bond1")["pfc_watchdog"]
    assert entry == Missing(
        "the PFC watchdog works on physical ports: name the bond's members", impossible=True
    )


# Operational values


def test_rounded_thresholds_of_the_asic_are_no_drift(whole: Any) -> None:
    """150000 bytes are 159744 on Spectrum-4: the applied revision counts."""
    whole.sim.fault(round=True)
    shown = whole.nv("show", "interface", "swp1", "qos", "-o", "json").stdout
    assert '"min-threshold": "159744 B"' in shown
    reading = whole.read()["swp1"]
    assert reading.settings["ecn_kmin_bytes"] == Known(150_000)
    assert reading.facts[facts.PENDING] == Known(())


def test_hardware_that_does_otherwise_is_pending_not_done(bench: Any) -> None:
    bench.sim.fault(deaf_hardware=True)
    assert bench.push({"swp1": bench.wanted()}).returncode == 0
    (said,) = bench.read()["swp1"].facts[facts.PENDING].value
    assert said.startswith("pfc_priorities: the hardware works with (); apply the revision again")


def test_an_mtu_set_by_hand_beside_nvue_is_what_is_read(whole: Any) -> None:
    answers = whole.answers()
    answers["grep files"] = type(answers["nv config show"])(0, "/sys/class/net/swp1/mtu:1500\n", "")
    ports, _ = whole.driver.parse(whole.ports, answers)
    assert ports[whole.ports[0].id].settings["mtu_bytes"] == Known(1500)


def test_files_that_nvue_leaves_to_others_are_rivals(make: Make) -> None:
    path = "/etc/cumulus/datapath/qos/qos_features.conf"
    bench = make("5.9.1", {"system": {"config": {"apply": {"ignore": {path: {}, "/etc/ptp4l.conf": {}}}}}})
    bench.read()
    said = f"NVUE leaves {path} to others: nv unset system config apply ignore {path}"
    assert bench.facts[facts.RIVALS] == Known((said,))


def test_headroom_is_what_is_left_behind_the_pause_point(whole: Any) -> None:
    found = whole.read()["swp1"].facts
    assert found[facts.HEADROOM] == Known((0, 0, 0, 79872 - 19456, 0, 0, 0, 0))
    # The reserved buffer's threshold is no fill of the queue: the shared buffer comes first.
    assert found[facts.PAUSE_POINT] == Known((0,) * 8)
    # The port that has no PFC has none.
    assert whole.read()["swp2"].facts[facts.HEADROOM] == Known((0,) * 8)


def test_counters_have_the_names_that_checks_look_for(whole: Any) -> None:
    with whole.sim.open():
        storms = {"3": {"status": "DEADLOCK", "deadlock-count": 2}}
        whole.sim.state["counters"] = {"marked": 693777677344, "storms": storms}
    found = whole.read()["swp1"].counters
    assert found["pfc3.rx_frames"] == Known(3)
    assert found["pfc3.tx_frames"] == Known(0)
    assert found["ecn.marked_packets"] == Known(693777677344)
    assert found["queue3.dropped_packets"] == Known(0)
    assert (found["watchdog.queue3.storms_detected"], found["watchdog.queue3.storms_restored"]) == (
        Known(2),
        Known(1),
    )
    assert found["rx_dropped"] == Known(2)


def test_a_counter_that_nvue_rounds_is_no_value(whole: Any) -> None:
    with whole.sim.open():
        whole.sim.state["counters"] = {"marked": "13.47 MB"}
    assert whole.read()["swp1"].counters["ecn.marked_packets"] == Missing("NVUE rounds it: '13.47 MB'")


# Persistence


def test_what_is_not_saved_is_lost_at_a_reboot(make: Make) -> None:
    bench = make("5.8.0")
    assert bench.settings()["boot"] == Known("saved")
    bench.sim.by_hand({"interface": {"swp2": {"description": "x"}}}, save=False)
    assert bench.settings()["boot"] == Known("saved")
    bench.sim.by_hand({"interface": {"swp1": {"link": {"mtu": 9000}}}}, save=False)
    assert bench.settings()["boot"] == Known("none")
    assert bench.settings("swp2")["boot"] == Known("saved")


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"qos": {"traffic-pool": {"default-lossless": {"memory-percent": 40}}}}, False),
        ({"qos": {"pfc": {"default-global": {"cable-length": 7}}}}, False),
        ({"qos": {"pfc": {"of-another": {"cable-length": 7}}}}, True),
        ({"system": {"hostname": "leaf1"}}, True),
        ({"interface": {"swp1": {"description": "x"}}}, True),
    ],
)
def test_only_what_a_port_lives_on_counts_as_saved(make: Make, change: Any, kept: bool) -> None:  # noqa: FBT001
    bench = make("5.8.0")
    bench.sim.by_hand(change, save=False)
    assert bench.settings()["boot"] == Known("saved" if kept else "none")


def test_an_answer_that_is_cut_off_is_no_value(bench: Any) -> None:
    answers = bench.answers()
    shown = answers["nv config show"]
    answers["nv config show"] = type(shown)(0, shown.stdout[:20], "")
    ports, _ = bench.driver.parse(bench.ports, answers)
    found = ports[bench.ports[0].id].settings
    assert not [name for name, entry in found.items() if isinstance(entry, Known) and name != "boot"]
