"""The change of NVUE's configuration: named ports, profiles by content, shared objects, the schema."""

from __future__ import annotations

import ast
import copy
import functools
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pydantic
import pytest

from fabricctl.drivers.switch.cumulus import channels, goal, run, steps
from fabricctl.drivers.switch.cumulus import tree as nvue
from fabricctl.model import settings
from fabricctl.model.plan import Disruption
from fabricctl.model.policy import EcnProfile, Watchdog
from fabricctl.model.reading import Known, Value

Make = Callable[..., Any]

RELEASES = [f"5.{minor}" for minor in range(3, 19)]


def _plain(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return values as they come out of the order: lists, no tuples."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    return found


def _able(wanted: Mapping[str, Value], release: str) -> dict[str, Any]:
    """Return what a release can have of what is wanted."""
    minor = int(release.partition(".")[2])
    lacking = {
        name
        for feature, first in (("link-pause", 4), ("pfc-watchdog", 6))
        if minor < first
        for name in nvue.NAMES[feature]
    }
    return _plain({k: v for k, v in wanted.items() if k not in lacking | set(steps.UNSUPPORTED)})


def _applied(tree: Any, removed: Any, added: Any, simulator: Any) -> Any:
    """Return the configuration after a change, as NVUE makes it."""
    after = copy.deepcopy(tree)
    for part in (removed, added):
        simulator("engine")._patch(after, part)  # noqa: SLF001  NVUE's own way to patch
    return after


# What is written


def test_the_whole_of_a_port_is_what_nvidias_guide_has(bench: Any) -> None:
    removed, added = goal.change({}, {"swp1": _plain(bench.wanted())})
    assert removed == {}
    names = {
        feature: next(iter(added["qos"][feature])) for feature in goal.PROFILED if feature in added["qos"]
    }
    assert set(names) == {"mapping", "egress-scheduler", "pfc", "congestion-control"}
    assert all(name.startswith("fabricctl-") for name in names.values())
    assert added["interface"] == {
        "swp1": {
            "qos": {
                **{feature: {"profile": name} for feature, name in names.items()},
                "pfc-watchdog": {"state": "enable"},
            }
        }
    }
    qos = added["qos"]
    assert qos["pfc"][names["pfc"]] == {
        "switch-priority": {"3": {}},
        "rx": "enable",
        "tx": "enable",
        "cable-length": 5,
    }
    assert qos["congestion-control"][names["congestion-control"]] == {
        "traffic-class": {
            "3": {
                "ecn": "enable",
                "red": "disable",
                "min-threshold": 150_000,
                "max-threshold": 1_500_000,
                "probability": 100,
            }
        }
    }
    assert qos["egress-scheduler"][names["egress-scheduler"]] == {
        "traffic-class": {
            "0": {"mode": "dwrr", "bw-percent": 50},
            "3": {"mode": "dwrr", "bw-percent": 50},
            "6": {"mode": "strict"},
        }
    }
    mapping = qos["mapping"][names["mapping"]]
    assert mapping["trust"] == "l3"
    # All 64 are named: what NVUE does with those that are not is nowhere written.
    assert [mapping["dscp"][str(d)]["switch-priority"] for d in (0, 25, 26, 48, 63)] == [0, 0, 3, 6, 0]
    assert len(mapping["dscp"]) == 64
    assert qos["traffic-pool"] == {
        "default-lossless": {"memory-percent": 50},
        "default-lossy": {"memory-percent": 50},
    }
    assert qos["pfc-watchdog"] == {"polling-interval": 200, "robustness": 2}
    moved = qos["egress-queue-mapping"]["default-global"]["switch-priority"]
    assert moved == {p: {"traffic-class": 0} for p in ("1", "2", "4", "5", "7")}


@pytest.mark.parametrize("release", RELEASES)
def test_nothing_is_written_that_a_release_does_not_know(bench: Any, release: str) -> None:
    """nvueschema has NVUE's models by release; unknown keys are forbidden."""
    wishes = {
        "swp1": _able(bench.wanted(), release),
        "swp2": _able(bench.wanted(ecn=None, pfc_priorities=(), watchdog=None), release),
        "swp3": _able(bench.wanted(trust="pcp", watchdog=Watchdog(on=False)), release),
        "swp4": _able({"global_pause": True}, release),
    }
    removed, added = goal.change({"interface": {"swp1": {"link": {"mtu": 1500}}}}, wishes)
    assert removed == {}
    assert added["interface"]["swp1"]["link"] == {"mtu": 9216}
    _validate(added, release)


@pytest.mark.parametrize(
    ("bad", "release"),
    [
        ({"qos": {"pfc": {"x": {"switch-prority": {}}}}}, "5.9"),
        ({"interface": {"swp1": {"link": {"mtu": 9300}}}}, "5.9"),
        ({"interface": {"swp1": {"qos": {"pfc-watchdog": {"state": "enable"}}}}}, "5.5"),
        ({"qos": {"link-pause": {"x": {"rx": "enable"}}}}, "5.3"),
    ],
)
def test_the_schema_would_have_told(bad: Any, release: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        _validate(bad, release)


_PARTS = ("NvueConfigQos", "NvueConfigInterfaceEntryQos", "NvueConfigInterfaceEntryLink")


@functools.cache
def _models(release: str) -> Any:
    """Return a release's models of what is written, each with unknown keys forbidden.

    A release has up to a thousand models, and making them is what takes time: only these are made.
    """
    name = f"v{release.replace('.', '_')}"
    found = importlib.util.find_spec("nvueschema")
    assert found is not None
    assert found.origin is not None
    head, *classes = (Path(found.origin).parent / "models" / f"{name}.py").read_text().split("\n\n\nclass ")
    mine = [
        text.replace("(BaseModel)", "(BaseModel, extra='forbid')", 1)
        for text in classes
        if text.startswith(_PARTS)
    ]
    assert len(mine) > 15
    module = sys.modules[f"nvueschema_{name}"] = ModuleType(f"nvueschema_{name}")
    exec("\n\n\nclass ".join([head, *mine]), vars(module))  # noqa: S102  an installed package's own text
    return module


def _validate(config: Any, release: str) -> None:
    """Hold a configuration against the release's models; pydantic.ValidationError."""
    models = _models(release)
    assert set(config) <= {"interface", "qos"}
    models.NvueConfigQos.model_validate(config.get("qos", {}))
    for node in config.get("interface", {}).values():
        assert set(node) <= {"link", "qos"}
        models.NvueConfigInterfaceEntryLink.model_validate(node.get("link", {}))
        models.NvueConfigInterfaceEntryQos.model_validate(node.get("qos", {}))


@pytest.mark.parametrize("release", ["5.3.0", "5.6.0", "5.9.1", "5.14.0", "5.15.0", "5.18.0"])
def test_every_release_can_be_set_and_read_back(make: Make, release: str) -> None:
    bench = make(release)
    done = bench.push({"swp1": bench.wanted(), "swp2": bench.wanted()})
    assert (done.returncode, done.stderr) == (0, "")
    assert bench.goals({"swp1": bench.wanted(), "swp2": bench.wanted()}) == []


# Ports and objects of others


def _busy_switch() -> dict[str, Any]:
    return {
        "interface": {
            "swp1": {"type": "swp", "qos": {"mapping": {"profile": "theirs"}}},
            "swp2": {
                "type": "swp",
                "link": {"mtu": 1500},
                "qos": {"mapping": {"profile": "theirs"}, "pfc": {"profile": "theirs"}},
            },
        },
        "qos": {
            "mapping": {
                "theirs": {"trust": "l3", "port-default-sp": 4, "dscp": {"46": {"switch-priority": 5}}}
            },
            "pfc": {"theirs": {"switch-priority": {"5": {}}, "cable-length": 40}},
            "traffic-pool": {
                "default-lossless": {"memory-percent": 30},
                "default-lossy": {"memory-percent": 60},
            },
        },
        "system": {"hostname": "leaf1"},
    }


def test_ports_and_profiles_of_others_stay_as_they_are(bench: Any, simulator: Any) -> None:
    before = _busy_switch()
    removed, added = goal.change(before, {"swp1": _plain(bench.wanted())})
    after = _applied(before, removed, added, simulator)
    assert after["interface"]["swp2"] == before["interface"]["swp2"]
    assert after["qos"]["mapping"]["theirs"] == before["qos"]["mapping"]["theirs"]
    assert after["qos"]["pfc"]["theirs"] == before["qos"]["pfc"]["theirs"]
    # Whoever has given lossless traffic its memory has had a reason.
    assert after["qos"]["traffic-pool"] == before["qos"]["traffic-pool"]
    assert removed == {}


def test_two_policies_on_one_switch_have_profiles_of_their_own(bench: Any, simulator: Any) -> None:
    one = _plain(bench.wanted())
    other = _plain(bench.wanted(ecn=EcnProfile(1000, 2000, 50), cable_length_m=40.0))
    tree = _applied({}, *goal.change({}, {"swp1": one, "swp2": other}), simulator)
    assert len(tree["qos"]["congestion-control"]) == len(tree["qos"]["pfc"]) == 2
    assert len(tree["qos"]["mapping"]) == 1
    assert goal.change(tree, {"swp1": one, "swp2": other}) == ({}, {})


def test_a_profile_of_ours_that_nobody_names_any_more_is_removed(bench: Any, simulator: Any) -> None:
    one = _plain(bench.wanted())
    tree = _applied({}, *goal.change({}, {"swp1": one, "swp2": one}), simulator)
    other = _plain(bench.wanted(cable_length_m=40.0))
    tree = _applied(tree, *goal.change(tree, {"swp1": other}), simulator)
    assert len(tree["qos"]["pfc"]) == 2
    tree = _applied(tree, *goal.change(tree, {"swp2": other}), simulator)
    assert [content["cable-length"] for content in tree["qos"]["pfc"].values()] == [40]


def test_a_profile_of_others_that_does_the_same_is_taken(simulator: Any) -> None:
    """A rollback leads back to it, and so to what is not modelled: here a default priority of 4."""
    before = _busy_switch()
    changed = _applied(before, *goal.change(before, {"swp1": {"trust": "pcp"}}), simulator)
    # What all ports have by default does that too.
    assert "mapping" not in changed["interface"]["swp1"].get("qos", {})
    old = nvue.known(before, "swp1")
    back = goal.change(changed, {"swp1": _plain({k: old[k] for k in ("trust", "dscp_priority")})})
    assert _applied(changed, *back, simulator) == before


def test_values_restore_a_factory_switch(bench: Any, simulator: Any) -> None:
    before: dict[str, Any] = {"interface": {"swp1": {"type": "swp"}, "swp2": {"type": "swp"}}}
    old = {port: _plain(nvue.known(before, port)) for port in ("swp1", "swp2")}
    wish = _plain(bench.wanted())
    tree = _applied(before, *goal.change(before, {"swp1": wish, "swp2": wish}), simulator)
    after = _applied(tree, *goal.change(tree, old), simulator)
    assert {port: nvue.known(after, port) for port in old} == {p: nvue.known(before, p) for p in old}
    assert [name for feature in goal.PROFILED for name in nvue.at(after, "qos", feature)] == []
    # The buffers that nobody uses any more are given back.
    assert nvue.at(after, "qos", "traffic-pool") in ({}, {"default-lossless": {}, "default-lossy": {}})
    assert goal.change(after, old) == ({}, {})


def test_buffers_stay_as_long_as_another_port_needs_them(bench: Any, simulator: Any) -> None:
    wish = _plain(bench.wanted())
    tree = _applied({}, *goal.change({}, {"swp1": wish, "swp2": wish}), simulator)
    off: dict[str, Any] = {"pfc_priorities": [], "lossless_buffers": [], "pfc_watchdog": []}
    after = _applied(tree, *goal.change(tree, {"swp1": off}), simulator)
    assert after["qos"]["traffic-pool"] == tree["qos"]["traffic-pool"]


def test_pfc_off_is_off_also_where_all_ports_have_it_by_default(simulator: Any) -> None:
    tree = {
        "interface": {"swp1": {"type": "swp"}},
        "qos": {
            "pfc": {"default-global": {"switch-priority": {"3": {}}}},
            "traffic-pool": {
                "default-lossless": {"memory-percent": 50},
                "default-lossy": {"memory-percent": 50},
            },
        },
    }
    after = _applied(tree, *goal.change(tree, {"swp1": {"pfc_priorities": []}}), simulator)
    assert nvue.known(after, "swp1")["pfc_priorities"] == ()
    assert after["qos"]["pfc"]["default-global"] == {"switch-priority": {"3": {}}}
    assert nvue.known(after, "swp2")["pfc_priorities"] == (3,)


def test_link_pause_goes_where_pfc_comes(bench: Any, simulator: Any) -> None:
    tree = {
        "interface": {"swp1": {"qos": {"link-pause": {"profile": "p"}}}},
        "qos": {
            "link-pause": {"p": {"rx": "enable", "tx": "disable"}},
            "traffic-pool": {
                "default-lossless": {"memory-percent": 50},
                "default-lossy": {"memory-percent": 50},
            },
        },
    }
    removed, added = goal.change(tree, {"swp1": _plain(bench.wanted())})
    assert removed == {"interface": {"swp1": {"qos": {"link-pause": {"profile": None}}}}}
    after = _applied(tree, removed, added, simulator)
    assert simulator("engine")._invalid(after) == ""  # noqa: SLF001  what NVUE refuses


# Buffers


def test_without_a_lossless_pool_pfc_gets_one(simulator: Any) -> None:
    """NVUE refuses PFC before; the default is 100 % lossy."""
    after = _applied(
        {}, *goal.change({}, {"swp1": {"pfc_priorities": [3], "lossless_buffers": [3]}}), simulator
    )
    assert nvue.known(after, "swp1")["lossless_buffers"] == (3,)


def test_other_pools_keep_their_memory(simulator: Any) -> None:
    tree = {
        "qos": {"traffic-pool": {"default-lossy": {"memory-percent": 60}, "mc-lossy": {"memory-percent": 10}}}
    }
    after = _applied(tree, *goal.change(tree, {"swp1": {"pfc_priorities": [3]}}), simulator)
    assert {n: p["memory-percent"] for n, p in after["qos"]["traffic-pool"].items()} == {
        "default-lossy": 60,
        "mc-lossy": 10,
        "default-lossless": 30,
    }


def test_full_pools_of_others_are_not_cut() -> None:
    tree = {
        "qos": {"traffic-pool": {"default-lossy": {"memory-percent": 70}, "mc-lossy": {"memory-percent": 30}}}
    }
    with pytest.raises(goal.Refusal) as caught:
        goal.change(tree, {"swp1": {"pfc_priorities": [3]}})
    assert str(caught.value).startswith(
        "lossless_buffers: the traffic pools (default-lossy 70 %, mc-lossy 30 %)"
    )


# What all ports share


def test_ports_that_want_different_queues_are_refused() -> None:
    goals = {"swp1": {"priority_tc": [0] * 8}, "swp2": {"priority_tc": list(range(8))}}
    with pytest.raises(goal.Refusal, match="priority_tc: all ports of the switch share it"):
        goal.change({}, goals)


def test_only_priorities_that_differ_are_mapped_anew() -> None:
    _, added = goal.change({}, {"swp1": {"priority_tc": [0, 1, 2, 3, 4, 5, 6, 0]}})
    mapped = added["qos"]["egress-queue-mapping"]["default-global"]["switch-priority"]
    assert mapped == {"7": {"traffic-class": 0}}


def test_a_scheduler_that_cannot_be_had_is_refused() -> None:
    with pytest.raises(goal.Refusal, match="tc_scheduler: vendor"):
        goal.change({}, {"swp1": {"tc_scheduler": ["vendor"] * 8}})


def test_every_single_setting_is_set_by_itself(bench: Any, simulator: Any) -> None:
    wish = bench.wanted()
    for name, value in wish.items():
        if name in steps.UNSUPPORTED:
            continue
        tree = _applied({}, *goal.change({}, {"swp1": _plain({name: value})}), simulator)
        found = nvue.known(tree, "swp1")
        # Buffers, the watchdog and the cable are matters of PFC.
        if name not in {"pfc_watchdog", "lossless_buffers", "cable_length_m"}:
            assert found[name] == value, name
        assert goal.change(tree, {"swp1": _plain({name: value})}) == ({}, {}), name


# The wish


def test_the_clock_of_the_watchdog_ticks_from_100_to_5000_ms(bench: Any) -> None:
    for watchdog, expected in (
        (Watchdog(poll_ms=10, detect_ms=30, restore_ms=100), (100, 100)),
        (Watchdog(poll_ms=200, detect_ms=500, restore_ms=200), (200, 600)),
        (Watchdog(poll_ms=9000, detect_ms=20_000, restore_ms=5000), (5000, 20_000)),
    ):
        wish = bench.wanted(watchdog=watchdog)
        assert (wish[settings.WATCHDOG_POLL], wish[settings.WATCHDOG_DETECT]) == expected
        assert settings.WATCHDOG_RESTORE not in wish
        assert settings.WATCHDOG_ACTION not in wish


def test_what_the_watchdog_cannot_do_is_wanted_and_declared(bench: Any) -> None:
    wish = bench.wanted(watchdog=Watchdog(poll_ms=100, detect_ms=300, restore_ms=900, action="forward"))
    assert wish[settings.WATCHDOG_RESTORE] == 900
    assert wish[settings.WATCHDOG_ACTION] == "forward"
    assert set(steps.UNSUPPORTED) == {settings.WATCHDOG_RESTORE, settings.WATCHDOG_ACTION}


@pytest.mark.parametrize(
    ("changes", "classes"),
    [
        ({}, (3,)),
        ({"pfc_priorities": ()}, (3,)),
        ({"pfc_priorities": (3, 4), "priority_tc": (0, 0, 0, 3, 4, 0, 6, 0)}, (3, 4)),
        ({"pfc_priorities": (), "priority_tc": (0,) * 6 + (6, 0)}, (0,)),
    ],
)
def test_the_lossless_classes_mark(bench: Any, changes: dict[str, Any], classes: tuple[int, ...]) -> None:
    assert steps.marking_classes(bench.intent(**changes)) == classes


def test_without_pfc_no_cable_length_is_wanted(bench: Any) -> None:
    wish = bench.wanted(pfc_priorities=(), watchdog=None)
    assert settings.CABLE_LENGTH not in wish
    assert steps.PFC_RX not in wish


def test_carving_buffers_anew_concerns_all_ports() -> None:
    for name in (settings.PFC, settings.CABLE_LENGTH, settings.LOSSLESS_BUFFERS, settings.PAUSE):
        assert steps.disruption(name, Known(0), 1) is Disruption.BUFFERS
    assert steps.disruption(settings.PRIORITY_TC, Known(0), 1) is Disruption.SYSTEM_WIDE
    assert steps.disruption(settings.MTU, Known(0), 1) is Disruption.MTU_CHANGE
    assert steps.disruption(settings.ECN_KMIN, Known(0), 1) is Disruption.NONE


# What runs on the switch


@pytest.mark.parametrize("module", [nvue, goal, channels, run])
def test_what_runs_on_a_switch_is_python_3_7_and_the_standard_library(module: Any) -> None:
    source = Path(module.__file__).read_text()
    parsed = ast.parse(source, feature_version=(3, 7))
    own = "fabricctl.drivers.switch.cumulus"
    named = set()
    for node in ast.walk(parsed):
        if isinstance(node, ast.Import):
            named |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not str(node.module).startswith(own):
            named.add(str(node.module).partition(".")[0])
    allowed = "__future__ base64 collections contextlib fcntl hashlib http json os pathlib re shutil ssl"
    assert named <= {*allowed.split(), "subprocess", "sys", "tempfile", "time", "typing", "urllib"}
    # Newer methods of str and dict would parse.
    assert not [word for word in ("removeprefix", "removesuffix", " | {", "|= {") if word in source]


# NVUE's own difference


@pytest.mark.parametrize(
    ("diff", "stray"),
    [
        ([{"set": {"qos": {"pfc": {"x": {"cable-length": 5}}}}}], ""),
        ([{"set": {"interface": {"swp1": {"type": "swp"}}}}], ""),
        ([{"unset": {"qos": {"mapping": None}}}], ""),
        ([{"unset": {"interface": None}}], "interface"),
        ([{"unset": {"interface": {"swp1": None}}}], "interface.swp1"),
        ([{"set": {"system": {"hostname": "x"}}}], "system.hostname"),
        ([{"set": {"interface": {"swp2": {"link": {"mtu": 9}}}}}], "interface.swp2.link.mtu"),
    ],
)
def test_a_difference_that_is_not_ours_is_seen(diff: Any, stray: str) -> None:
    added = {
        "qos": {"pfc": {"x": {"cable-length": 5}}},
        "interface": {"swp1": {"qos": {"pfc": {"profile": "x"}}}},
    }
    assert goal.beyond(diff, {"qos": {"mapping": {"fabricctl-1": None}}}, added) == stray


# What somebody changed by hand before a rollback


def test_pfc_that_was_broken_by_hand_is_taken_away_whole(make: Make) -> None:
    """PFC that works one way only reads as none, so that a rollback to none does not name it."""
    bench = make("5.8.0", {"interface": {"swp1": {"type": "swp"}}}, ports=("swp1",))
    first = bench.known(*bench.wanted())
    assert bench.push({"swp1": bench.wanted()}).returncode == 0
    assert bench.confirm(1).returncode == 0
    (profile,) = bench.config()["qos"]["pfc"]
    bench.sim.by_hand({"qos": {"pfc": {profile: {"tx": "disable"}}}})
    assert bench.known(settings.PFC, settings.WATCHDOG) == {settings.PFC: (), settings.WATCHDOG: ()}

    back = {name: value for name, value in first.items() if not name.startswith("cumulus.pfc")}
    pushed = bench.push({"swp1": back}, apply="apply-20261130-2")
    assert (pushed.returncode, pushed.stderr) == (0, "")
    assert bench.known(*first) == first
    config = bench.config()
    assert config["interface"]["swp1"]["qos"].get("pfc", {}) == {}
    assert config["interface"]["swp1"]["qos"]["pfc-watchdog"] == {"state": "disable"}
    assert profile not in config["qos"].get("pfc", {})
