"""The ionic driver against a stand-in of nicctl that keeps state: set, set again, undo, and refusals."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fabricctl.apply.render import render_port
from fabricctl.drivers.nic.ionic.steps import LABELS, PAUSE, STRICT_RATE
from fabricctl.model import facts, settings
from fabricctl.model.fabric import LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, Known, Missing, Value
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer

_STAND_IN = Path(__file__).resolve().parents[2] / "simulators" / "ionic" / "nicctl"
_DRIVER = finder.nic_driver("ionic")
_PORT = Port(PortId("node1", "lo"), rdma="ionic_1")
_MAP = tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64))
_WANTED: dict[str, Value] = {
    settings.PAUSE: False,
    PAUSE: "pfc rx tx",
    settings.TRUST: "dscp",
    settings.DSCP_PRIORITY: _MAP,
    settings.TC_SCHEDULER: ("ets",) * 6 + ("strict", "ets"),
    settings.TC_BANDWIDTH: (40, 0, 0, 60, 0, 0, 0, 0),
    STRICT_RATE: 20,
    settings.PFC: (3,),
    settings.DCQCN: True,
    settings.CNP_DSCP: 46,
    "ionic.ai_rate": 150,
    "ionic.rate_increase_threshold": 5,
}
_OTHER: dict[str, Value] = {
    settings.PAUSE: True,
    PAUSE: "link rx",
    settings.TRUST: "dscp",
    settings.DSCP_PRIORITY: tuple((dscp // 8 + 1) % 8 for dscp in range(64)),
    settings.TC_SCHEDULER: ("ets", "strict", "ets", "ets", "strict", "ets", "ets", "ets"),
    settings.TC_BANDWIDTH: (10, 0, 20, 20, 0, 20, 20, 10),
    STRICT_RATE: 7,
    settings.PFC: (1, 5),
    settings.DCQCN: True,
    settings.CNP_DSCP: 12,
    **dict.fromkeys(LABELS, 3),
}


def _stand_in() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("nicctl_stand_in", str(_STAND_IN))
    spec = importlib.util.spec_from_loader("nicctl_stand_in", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@dataclass
class Box:
    """A host with two cards; the interface ``lo`` belongs to the second."""

    folder: Path

    @property
    def cards(self) -> list[dict[str, Any]]:
        return list(json.loads((self.folder / "ionic.json").read_text()))

    def change(self, change: Callable[[dict[str, Any]], Any]) -> None:
        cards = self.cards
        change(cards[1])
        (self.folder / "ionic.json").write_text(json.dumps(cards))

    @property
    def changes(self) -> list[str]:
        log = self.folder / "ionic.log"
        said = log.read_text().splitlines() if log.exists() else []
        return [line for line in said if not line.startswith("show")]

    def run(self, wanted: Mapping[str, Value], *names: str, port: Port = _PORT) -> str:
        """Run the script; return what it complained about."""
        (self.folder / "ionic.log").write_text("")
        script = render_port(Role.NODE, "ionic", port.id.port, port.rdma, wanted)
        done = self._shell(["/bin/sh", "-s", *names], script)
        assert (done.returncode == 0) is (done.stderr == "")
        return done.stderr

    def answers(self) -> dict[str, Answer]:
        asked = [
            query
            for query in _DRIVER.queries([_PORT])
            if query.key.split()[0] in {"nicctl", "functions", "roce"}
        ]
        done = {query.key: self._shell(list(query.argv)) for query in asked}
        return {key: Answer(one.returncode, one.stdout, one.stderr) for key, one in done.items()}

    def entries(self) -> Mapping[str, Entry]:
        ports, _ = _DRIVER.parse([_PORT], self.answers())
        found = ports[_PORT.id].settings
        return {name: entry for name, entry in found.items() if name in _OTHER}

    def reading(self) -> dict[str, Value]:
        return {name: entry.value for name, entry in self.entries().items() if isinstance(entry, Known)}

    def reason(self, setting: str) -> str:
        found = self.entries()[setting]
        assert isinstance(found, Missing)
        return found.reason

    def _shell(self, argv: list[str], script: str = "") -> subprocess.CompletedProcess[str]:
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        return subprocess.run(
            argv,
            input=script,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path, "FABRICCTL_SIM": str(self.folder)},
            timeout=60,
        )


@pytest.fixture
def box(tmp_path: Path) -> Box:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nicctl").symlink_to(_STAND_IN)
    module = _stand_in()
    cards = [module.new_card(number, f"ionic_{number}") for number in range(2)]
    (tmp_path / "ionic.json").write_text(json.dumps(cards))
    return Box(tmp_path)


def test_out_of_a_reset_it_reads_as_best_effort(box: Box) -> None:
    found = box.reading()
    assert found == {
        settings.PAUSE: True,
        PAUSE: "link rx tx",
        settings.TRUST: "dscp",
        settings.DSCP_PRIORITY: (0,) * 64,
        settings.TC_SCHEDULER: ("ets",) * 8,
        settings.TC_BANDWIDTH: (100, 0, 0, 0, 0, 0, 0, 0),
        settings.PFC: (),
        settings.DCQCN: False,
    }
    assert box.reason("ionic.ai_rate") == "DCQCN is off: nicctl shows none of its values"
    assert box.reason(STRICT_RATE) == "no priority is strict"


@pytest.mark.parametrize("before", [{}, _OTHER], ids=["reset", "set before"])
def test_set_then_nothing_to_do_then_undo(box: Box, before: dict[str, Value]) -> None:
    assert box.run(before) == ""
    first = box.reading()
    assert {name: first[name] for name in before} == before
    other = box.cards[0]
    assert box.run(_WANTED) == ""
    found = box.reading()
    assert {name: found[name] for name in _WANTED} == _WANTED
    assert box.run(_WANTED) == ""
    assert box.changes == []
    undo = {name: old for name, old in first.items() if old != _WANTED.get(name)}
    assert box.run(undo) == ""
    assert box.reading() == first
    assert box.cards[0] == other


def test_each_setting_alone_is_set_and_undone(box: Box) -> None:
    assert box.run(_WANTED) == ""
    first = box.reading()
    alone: dict[str, Value] = {
        PAUSE: "none",
        settings.DSCP_PRIORITY: tuple({26: 3, 46: 6}.get(dscp, 0) for dscp in range(64)),
        settings.TC_BANDWIDTH: (30, 0, 0, 70, 0, 0, 0, 0),
        STRICT_RATE: 5,
        settings.PFC: (),
        settings.DCQCN: False,
        settings.CNP_DSCP: 63,
        "ionic.ai_rate": 1,
    }
    for name, value in alone.items():
        assert box.run({**_WANTED, name: value}, name) == ""
        assert box.reading()[name] == value
        assert box.run(first, name) == ""
        assert box.reading() == first
    assert box.run({settings.PAUSE: True}) == ""
    assert box.reading()[PAUSE] == "link rx tx"
    assert box.run({settings.PAUSE: False}) == ""
    assert box.reading()[PAUSE] == "none"


def test_the_map_keeps_pauses_and_queues_that_still_have_a_dscp(box: Box) -> None:
    assert box.run(_WANTED) == ""
    other = tuple({26: 3, 46: 6}.get(dscp, 0) for dscp in range(64))
    assert box.run({settings.DSCP_PRIORITY: other}) == ""
    assert {**box.reading(), settings.DSCP_PRIORITY: _MAP} == {
        **_WANTED,
        **box.reading(),
        settings.DSCP_PRIORITY: _MAP,
    }
    assert box.changes[:2] == [
        "update qos --classification-type pcp -b 0000:16:00.0",
        "update qos --classification-type dscp -b 0000:16:00.0",
    ]


def test_settings_that_the_script_does_not_name_are_left_alone(box: Box) -> None:
    assert box.run(_WANTED, settings.PFC) == ""
    uuid = box.cards[1]["ports"][0]["uuid"]
    assert box.changes == [f"update qos pfc -p {uuid} --priority 3 --no-drop enable"]


def test_what_nicctl_refuses_is_reported_in_its_words(box: Box) -> None:
    said = box.run({settings.DCQCN: True, "ionic.rate_increase_threshold": 40})
    shown = "nicctl shows profile 1 with status Disabled, without --rate-increase-threshold 40 still"
    assert said.splitlines() == [
        f"fabricctl: lo: {name}: {shown}; ERROR - Invalid input"
        for name in (settings.DCQCN, "ionic.rate_increase_threshold")
    ]
    said = box.run({settings.TC_BANDWIDTH: (30, 0, 0, 70, 0, 0, 0, 0)})
    assert said == "fabricctl: lo: tc_bandwidth_percent: no DSCP has priority 3, so it has no queue\n"


def test_a_strict_queue_needs_a_limit_and_a_value_does_not_switch_dcqcn_on(box: Box) -> None:
    assert box.run({settings.DSCP_PRIORITY: _MAP}) == ""
    schedulers = _WANTED[settings.TC_SCHEDULER]
    shares = _WANTED[settings.TC_BANDWIDTH]
    said = box.run({settings.TC_SCHEDULER: schedulers, settings.TC_BANDWIDTH: shares})
    assert "priority 6 cannot be strict without ionic.strict_rate_gbps" in said
    assert "DCQCN is off: a value of it would switch it on" in box.run({settings.CNP_DSCP: 46})
    assert box.changes == []


def test_a_port_that_classifies_by_pcp_has_no_map(box: Box) -> None:
    assert box.run({settings.TRUST: "pcp"}) == ""
    assert box.reading()[settings.TRUST] == "pcp"
    assert box.reason(settings.DSCP_PRIORITY) == "nicctl shows no DSCP map"
    assert "it has no DSCP map" in box.run({settings.DSCP_PRIORITY: _MAP})
    assert box.run({settings.TRUST: "dscp", settings.DSCP_PRIORITY: _MAP}) == ""
    assert box.reading()[settings.DSCP_PRIORITY] == _MAP


def test_a_card_that_is_not_there_is_said(box: Box) -> None:
    stranger = Port(_PORT.id, rdma="ionic_7")
    assert "nicctl shows no card with the RoCE device ionic_7" in box.run({settings.PFC: (3,)}, port=stranger)
    ports, _ = _DRIVER.parse([stranger], box.answers())
    assert ports[_PORT.id].settings[settings.PFC] == Missing(
        "nicctl shows no card with the RoCE device ionic_7"
    )
    (box.folder / "ionic.json").write_text("[]")
    assert "No AMD NICs found" in box.run({settings.PFC: (3,)})
    assert box.reason(settings.PFC) == "nicctl: No AMD NICs found"


def test_a_card_with_two_ports_is_not_guessed(box: Box) -> None:
    box.change(lambda card: card["ports"].append({**card["ports"][0], "uuid": "x", "name": "eth1/2"}))
    assert "several ports" in box.run({settings.PFC: (3,)})
    assert box.changes == []
    assert "has 2 ports" in box.reason(settings.PFC)


def test_several_profiles_are_set_alike_and_read_only_if_they_agree(box: Box) -> None:
    box.change(lambda card: card["profiles"].append({**card["profiles"][0], "id": 2, "on": True}))
    assert box.reason(settings.DCQCN) == "DCQCN profiles differ: Disabled, Enabled"
    assert box.run({settings.DCQCN: True, settings.CNP_DSCP: 46}) == ""
    assert (box.reading()[settings.DCQCN], box.reading()[settings.CNP_DSCP]) == (True, 46)


def test_without_nicctl_nothing_is_known() -> None:
    gone = Answer(127, "", "timeout: failed to run command 'nicctl': No such file or directory")
    answers = {f"nicctl {what}": gone for what in ("port", "qos", "dcqcn")}
    ports, _ = _DRIVER.parse([_PORT], {**answers, "roce devices": Answer(0, "lo\n", "")})
    found = ports[_PORT.id]
    for entry in (found.settings[settings.PFC], found.settings[settings.DCQCN], found.facts[facts.PLANE]):
        assert isinstance(entry, Missing)
        assert not entry.impossible  # it can be installed
        assert "nicctl: the program is not installed" in entry.reason


# What is shown and does not add up


def _parsed(box: Box, key: str, old: str, new: str) -> Mapping[str, Entry]:
    answers = box.answers()
    said = answers[key].stdout
    assert old in said
    answers[key] = Answer(0, said.replace(old, new), "")
    ports, _ = _DRIVER.parse([_PORT], answers)
    return ports[_PORT.id].settings


@pytest.mark.parametrize(
    ("key", "old", "new", "setting", "reason"),
    [
        ("nicctl port", ": LINK", ": WIRE", settings.PAUSE, "wire is no kind of pause"),
        ("nicctl port", "Spec:", "Other:", PAUSE, "without what is set of it"),
        ("nicctl qos", ": 0-63 ==>", ": 0-62 ==>", settings.DSCP_PRIORITY, "not every DSCP has one priority"),
        ("nicctl qos", "0xffff", "0xfffe", settings.DSCP_PRIORITY, "contradict"),
        ("nicctl qos", ": 0x0", ": 0x8", settings.PFC, "differ"),
        ("nicctl qos", "DWRR  ", "FIFO  ", settings.TC_SCHEDULER, "nicctl shows no scheduling"),
        ("nicctl qos", ": DSCP\n", ": MPLS\n", settings.TRUST, "MPLS"),
        ("nicctl dcqcn", "Disabled", "Initialization error", settings.DCQCN, "DCQCN: Initialization error"),
        ("nicctl dcqcn", "ionic_1", "-", settings.DCQCN, "no DCQCN profile of ionic_1"),
        ("nicctl dcqcn", "ionic_1", "-", settings.PFC, "no card with the RoCE device ionic_1"),
        ("nicctl dcqcn", "profile id", "set", settings.CNP_DSCP, "no DCQCN profile of ionic_1"),
        ("roce devices", "lo", "lo ionic_0 ionic_1", settings.PFC, "several verbs devices: ionic_0, ionic_1"),
    ],
)
def test_what_does_not_add_up_is_missing(
    box: Box, key: str, old: str, new: str, setting: str, reason: str
) -> None:
    entry = _parsed(box, key, old, new)[setting]
    assert isinstance(entry, Missing)
    assert reason in entry.reason
    assert not entry.impossible


def test_shares_that_are_all_zero_are_no_shares(box: Box) -> None:
    assert box.run({settings.DSCP_PRIORITY: _MAP}) == ""
    box.change(lambda card: card["ports"][0].update(rows={p: ["DWRR", 0, 0] for p in "036"}))
    assert "no share for any of the priorities 0, 3, 6" in box.reason(settings.TC_BANDWIDTH)


def test_the_device_of_a_function_is_the_one_that_sysfs_names(box: Box) -> None:
    assert box.run({settings.PFC: (3,)}) == ""
    found = _parsed(box, "roce devices", "lo", "lo ionic_0")
    assert found[settings.PFC] == Known(())


def _intent(**changes: Any) -> PortIntent:
    values: dict[str, Any] = {
        "port": _PORT.id,
        "role": Role.NODE,
        "link_layer": LinkLayer.ETHERNET,
        "speed_gbps": 400,
        "mtu_bytes": 9000,
        "rdma_mtu_bytes": 4096,
        "trust": "dscp",
        "dscp_priority": _MAP,
        "priority_tc": (0, 0, 0, 3, 0, 0, 6, 0),
        "tc_scheduler": _WANTED[settings.TC_SCHEDULER],
        "tc_bandwidth_percent": _WANTED[settings.TC_BANDWIDTH],
        "pfc_priorities": (3,),
        "ecn": None,
        "roce_tos": 106,
        "cable_length_m": 2.0,
        "pause": False,
        "cnp_dscp": 48,
        "cnp_priority": 6,
        "lossless_priority": 3,
        "dcqcn": True,
    }
    return PortIntent(**{**values, **changes})


def test_classes_that_are_shared_by_what_carries_nothing_are_as_meant() -> None:
    wanted = _DRIVER.wanted(_intent())
    assert settings.PRIORITY_TC not in wanted
    assert settings.CNP_PRIORITY not in wanted
    assert set(wanted) & set(_DRIVER.unsupported) == set()
    assert wanted[STRICT_RATE] == 10


def test_what_its_queues_cannot_do_is_wanted_and_declared() -> None:
    shift = tuple(dscp >> 3 for dscp in range(64))
    wanted = _DRIVER.wanted(_intent(dscp_priority=shift, cnp_priority=7, priority_buffer=(0,) * 8))
    assert set(wanted) & set(_DRIVER.unsupported) == {
        settings.PRIORITY_TC,
        settings.CNP_PRIORITY,
        settings.PRIORITY_BUFFER,
    }


def test_what_is_off_is_wanted_without_its_values() -> None:
    parameters = {"ionic": {"ai_rate": 5, "strict_rate_gbps": 40}}
    off = _DRIVER.wanted(_intent(dcqcn=False, parameters=parameters))
    assert off[settings.DCQCN] is False
    assert {settings.CNP_DSCP, "ionic.ai_rate"} & set(off) == set()
    assert off[STRICT_RATE] == 40
    on = _DRIVER.wanted(_intent(parameters=parameters))
    assert (on[settings.CNP_DSCP], on["ionic.ai_rate"]) == (48, 5)
    without = _DRIVER.wanted(_intent(dcqcn=None, pfc_priorities=(), pause=None))
    assert {settings.DCQCN, PAUSE, settings.PAUSE} & set(without) == set()


def test_disruption_assumes_the_worse() -> None:
    old = Missing("x")
    assert _DRIVER.disruption(PAUSE, old, "pfc rx tx") is Disruption.LINK_FLAP
    assert _DRIVER.disruption(settings.DSCP_PRIORITY, old, _MAP) is Disruption.QUEUE_RESET
    assert _DRIVER.disruption(settings.CNP_DSCP, old, 1) is Disruption.NONE
