"""The scripts that set a port, in a real shell with stand-ins for the tools: set, set again, undo."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fabricctl.apply.render import render_port
from fabricctl.drivers import dcb
from fabricctl.model import settings
from fabricctl.model.fabric import Role
from fabricctl.model.reading import Known, Value
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer

_FAKE = Path(__file__).with_name("fake_tools.py")
_MAP = tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64))
_ETS: dict[str, Value] = {
    settings.PRIORITY_TC: (0, 0, 0, 3, 0, 0, 6, 0),
    settings.TC_SCHEDULER: ("ets", "ets", "ets", "ets", "ets", "ets", "strict", "ets"),
    settings.TC_BANDWIDTH: (50, 0, 0, 50, 0, 0, 0, 0),
}
_WANTED: dict[str, Value] = {
    settings.TRUST: "dscp",
    settings.DSCP_PRIORITY: _MAP,
    **_ETS,
    settings.PRIORITY_BUFFER: (0, 0, 0, 1, 0, 0, 0, 0),
    settings.BUFFER_SIZE: (130944, 130944, 0, 0, 0, 0, 0, 0),
    settings.PFC: (3,),
}
_RED: dict[str, Value] = {
    settings.ECN: True,
    settings.ECN_KMIN: 30000,
    settings.ECN_KMAX: 90000,
    settings.ECN_PMAX: 10,
}


@dataclass
class Box:
    """A shell with the stand-ins first on its PATH; its port is ``lo``, which every machine has."""

    folder: Path

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "state").read_text()))

    def change(self, **values: Any) -> None:
        (self.folder / "state").write_text(json.dumps({**self.state, **values}))

    def run(
        self, wanted: dict[str, Value], *arguments: str, role: Role = Role.SWITCH
    ) -> subprocess.CompletedProcess[str]:
        driver = "linux" if role is Role.SWITCH else "rxe"
        script = render_port(role, driver, "lo", "" if role is Role.SWITCH else "rxe9", wanted)
        self.change(log=[])
        return subprocess.run(
            ["/bin/sh", "-s", *arguments],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin"},
            timeout=60,
        )

    def reading(self) -> dict[str, Value]:
        state = self.state
        answers = {
            f"dcb {what} lo": Answer(0, json.dumps(state[what]), "") for what in ("pfc", "ets", "buffer")
        }
        answers["dcb app lo"] = Answer(0, json.dumps({"dscp_prio": state["app"]}), "")
        found = dcb.read_settings("lo", answers)
        return {name: entry.value for name, entry in found.items() if isinstance(entry, Known)}


@pytest.fixture
def box(tmp_path: Path) -> Box:
    (tmp_path / "bin").mkdir()
    for tool in ("dcb", "tc", "ip"):
        wrapper = tmp_path / "bin" / tool
        wrapper.write_text(
            f'#!/bin/sh\nexec {sys.executable} -I -S {_FAKE} {tmp_path / "state"} {tool} "$@"\n'
        )
        wrapper.chmod(0o755)
    state = {
        "log": [],
        "refuses": [],
        "replacing": False,
        "blanks": False,
        "app": [],
        "pfc": {"prio_pfc": [False] * 8},
        "ets": {"prio_tc": list(range(8)), "tc_tsa": ["vendor"] * 8, "tc_bw": [0] * 8},
        "buffer": {"prio_buffer": [0] * 8, "buffer_size": [262016] + [0] * 7},
        "qdiscs": [],
    }
    (tmp_path / "state").write_text(json.dumps(state))
    return Box(tmp_path)


@pytest.mark.parametrize(("replacing", "blanks"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(
    "app", [[], [[26, 4]], [[26, 3], [48, 6]], [[0, 0]], [[d, d // 8] for d in range(64)]], ids=str
)
def test_set_then_nothing_to_do_then_undo(
    box: Box, app: list[list[int]], *, replacing: bool, blanks: bool
) -> None:
    box.change(app=app, replacing=replacing, blanks=blanks)
    before = box.reading()
    done = box.run(_WANTED)
    assert (done.returncode, done.stderr) == (0, "")
    assert box.reading() == _WANTED
    again = box.run(_WANTED)
    assert (again.returncode, box.state["log"]) == (0, [])
    undo = {name: old for name, old in before.items() if old != _WANTED[name]}
    assert box.run(undo).returncode == 0
    assert box.reading() == before


def test_a_dscp_map_that_becomes_all_zero_keeps_its_trust(box: Box) -> None:
    box.change(app=[[26, 3]])
    assert box.run({settings.DSCP_PRIORITY: (0,) * 64}).returncode == 0
    assert (box.reading()[settings.TRUST], box.reading()[settings.DSCP_PRIORITY]) == ("dscp", (0,) * 64)


def test_new_dscp_entries_come_before_old_ones_go(box: Box) -> None:
    box.change(app=[[26, 4]])
    assert box.run({settings.DSCP_PRIORITY: _MAP}).returncode == 0
    assert box.state["log"] == ["dcb app add dscp-prio 26:3 48:6", "dcb app del dscp-prio 26:4"]


def test_only_the_settings_that_are_asked_for_are_set(box: Box) -> None:
    assert box.run(_WANTED, settings.PFC, settings.PRIORITY_TC).returncode == 0
    assert box.state["log"] == [
        "dcb ets set prio-tc 0:0 1:0 2:0 3:3 4:0 5:0 6:6 7:0",
        "dcb pfc set prio-pfc all:off 3:on",
    ]


def test_a_setting_that_the_script_does_not_hold_is_refused(box: Box) -> None:
    done = box.run(_WANTED, "mtu_bytes")
    assert done.returncode == 2
    assert done.stderr == "fabricctl: lo: mtu_bytes: this script does not hold it\n"
    assert box.state["log"] == []


def test_one_failure_is_named_and_the_rest_is_still_set(box: Box) -> None:
    box.change(refuses=["ets"])
    done = box.run(_WANTED)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"fabricctl: lo: {name}: Attribute read: Operation not supported" for name in _ETS
    ]
    assert box.reading()[settings.PFC] == (3,)


def test_a_pfc_state_that_cannot_be_read_is_not_written(box: Box) -> None:
    box.change(refuses=["pfc"])
    assert box.run({settings.PFC: ()}).returncode == 1
    assert box.state["log"] == []


def test_the_mtu_is_set_only_if_it_differs(box: Box) -> None:
    now = int(Path("/sys/class/net/lo/mtu").read_text())
    assert box.run({settings.MTU: now}).returncode == 0
    assert box.state["log"] == []
    assert box.run({settings.MTU: now - 1}).returncode == 0
    assert box.state["log"] == [f"ip link set dev lo mtu {now - 1}"]


def test_marking_is_one_qdisc_and_off_takes_it_away(box: Box) -> None:
    assert box.run(_RED).returncode == 0
    assert box.state["log"] == [
        (
            "tc qdisc replace dev lo root red limit 1360000 min 30000 max 90000 avpkt 1406 burst 36 "
            "bandwidth 1000mbit probability 0.1000 ecn"
        )
    ]
    assert box.run(_RED).returncode == 0
    assert box.state["log"] == []
    assert box.run({settings.ECN: False}).returncode == 0
    assert box.state["qdiscs"] == []
    assert box.run({settings.ECN: False}).returncode == 0
    assert box.state["log"] == []


def test_a_changed_threshold_alone_can_be_undone(box: Box) -> None:
    box.run(_RED)
    assert box.run({settings.ECN_KMIN: 15000, settings.ECN_PMAX: 100}).returncode == 0
    options = box.state["qdiscs"][0]["options"]
    assert (options["min"], options["max"], options["probability"], options["ecn"]) == (
        15000,
        90000,
        0.9999,
        True,
    )


def test_ecn_off_does_not_touch_another_root_qdisc(box: Box) -> None:
    box.change(qdiscs=[{"kind": "netem", "handle": "1:", "dev": "lo", "root": True, "options": {}}])
    assert box.run({settings.ECN: False}).returncode == 0
    assert box.state["log"] == []


def test_red_without_marking_is_put_back_as_it_was(box: Box) -> None:
    box.run(_RED)
    assert box.run({**_RED, settings.ECN: False}).returncode == 0
    options = box.state["qdiscs"][0]["options"]
    assert (options["ecn"], options["min"], options["max"]) == (False, 30000, 90000)


def test_a_threshold_without_a_qdisc_is_refused(box: Box) -> None:
    done = box.run({settings.ECN_KMIN: 15000})
    assert done.returncode == 1
    assert "can only be set together" in done.stderr


@pytest.mark.parametrize(
    ("kmin", "kmax"), [(0, 0), (500, 600), (5000, 5000), (150_000, 1_500_000), (10_000_000, 40_000_000)]
)
def test_red_gets_a_burst_that_tc_accepts(box: Box, kmin: int, kmax: int) -> None:
    box.run({**_RED, settings.ECN_KMIN: kmin, settings.ECN_KMAX: kmax})
    words = box.state["log"][0].split()
    avpkt, burst, limit = (int(words[words.index(name) + 1]) for name in ("avpkt", "burst", "limit"))
    assert burst + 1 - kmin // avpkt >= 1
    assert limit > kmax + burst * avpkt


def test_a_value_with_shell_in_it_stays_a_value(box: Box) -> None:
    trap = "$(touch pwned); `touch pwned`'\""
    for role in Role:
        done = box.run({settings.TRUST: trap, "x; touch pwned": 1}, role=role)
        assert f"no such trust: {trap}" in done.stderr
    assert not (Path.cwd() / "pwned").exists()
    script = render_port(Role.NODE, "rxe", "lo\ntouch pwned", "rxe0\ntouch pwned", {settings.ROCE_MODE: trap})
    assert "\ntouch pwned\n" not in script.replace("lo\ntouch pwned'\n", "").replace(
        "rxe0\ntouch pwned'\n", ""
    )


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize("role", list(Role))
def test_every_subset_is_good_shell(shell: str, role: Role) -> None:
    wanted = {**_WANTED, **_RED, settings.MTU: 4200, settings.ROCE_MODE: "RoCE v2", settings.ROCE_TOS: 106}
    driver = finder.switch_driver("linux") if role is Role.SWITCH else finder.nic_driver("rxe")
    subsets = [{}, wanted, *({name: value} for name, value in wanted.items())]
    for subset in subsets:
        script = render_port(role, driver.name, "eth1", "rxe0", subset)
        done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        for name in subset:
            assert bool(re.search(rf"^try(_together|_each)? .*\b{name}\b", script, re.MULTILINE)) is (
                name not in driver.unsupported
            )


def test_a_nic_without_its_verbs_device_says_so_after_a_minute_and_sets_the_rest(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    (box.folder / "bin" / "sleep").write_text("#!/bin/sh\n")
    (box.folder / "bin" / "sleep").chmod(0o755)
    monkeypatch.chdir(box.folder)
    done = box.run({settings.PFC: (3,), settings.ROCE_TOS: 106}, role=Role.NODE)
    assert done.returncode == 1
    assert "fabricctl: lo: rxe9: there is no such verbs device" in done.stderr
    assert box.reading()[settings.PFC] == (3,)
