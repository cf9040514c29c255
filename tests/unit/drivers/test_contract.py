"""What every NIC driver does with intents, answers and scripts; test_cases.py holds what its cases show."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from fabricctl import inventory
from fabricctl.apply.render import render_port
from fabricctl.errors import InventoryError
from fabricctl.model import facts, settings
from fabricctl.model.codec import decode
from fabricctl.model.fabric import LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.policy import Policy
from fabricctl.model.reading import Known, Missing, Value
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer, Driver

_ROOT = Path(__file__).resolve().parents[3]
_CASES = _ROOT / "tests" / "cases" / "nic"
_NAMES = finder.names("NIC driver")
_PORT = Port(PortId("node1", "eth1"), rdma="dev0")
_MAP = tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64))
_NAMED = frozenset(
    value for name, value in vars(settings).items() if name.isupper() and isinstance(value, str)
)
_VALUES = (Known(0), Known("x"), Known((3,)), Known(value=True), Missing("x"), Missing("x", impossible=True))

every_driver = pytest.mark.parametrize("driver", [finder.nic_driver(name) for name in _NAMES], ids=_NAMES)


def _parameters(driver: Driver) -> dict[str, dict[str, int]]:
    return {driver.name: {name: known.lowest for name, known in driver.parameters.items()}}


def _intent(driver: Driver, **changes: Any) -> PortIntent:
    """Return an intent that asks for all that an intent can ask a NIC for."""
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
        "tc_scheduler": ("ets",) * 6 + ("strict", "ets"),
        "tc_bandwidth_percent": (50, 0, 0, 50, 0, 0, 0, 0),
        "pfc_priorities": (3,),
        "ecn": None,
        "roce_tos": 106,
        "cable_length_m": 5.0,
        "pause": False,
        "cnp_dscp": 48,
        "cnp_priority": 6,
        "lossless_priority": 3,
        "dcqcn": True,
        "parameters": _parameters(driver),
        "priority_buffer": (0, 0, 0, 1, 0, 0, 0, 0),
        "buffer_size_bytes": (130944, 130944, 0, 0, 0, 0, 0, 0),
    }
    return PortIntent(**{**values, **changes})


def _intents(driver: Driver) -> dict[str, PortIntent]:
    """Return the policies that the product says are all valid."""
    none: dict[str, Any] = {"dcqcn": False, "cnp_dscp": None, "cnp_priority": None, "parameters": {}}
    ets: dict[str, Any] = {"tc_scheduler": ("ets",) * 8, "tc_bandwidth_percent": (100,) + (0,) * 7}
    return {
        "full RoCE": _intent(driver),
        "PFC only": _intent(driver, **none, **{**ets, "tc_bandwidth_percent": (50, 0, 0, 50, 0, 0, 0, 0)}),
        "ECN off": _intent(driver, dcqcn=None, cnp_dscp=None, cnp_priority=None, roce_tos=104),
        "PFC off": _intent(driver, pfc_priorities=(), pause=None, priority_buffer=(), buffer_size_bytes=()),
        "best effort": _intent(
            driver,
            **none,
            **ets,
            dscp_priority=(0,) * 64,
            priority_tc=(0,) * 8,
            pfc_priorities=(),
            pause=None,
            lossless_priority=None,
            roce_tos=0,
        ),
        "PCP": _intent(driver, trust="pcp", priority_tc=tuple(range(8))),
    }


def _infiniband(driver: Driver) -> PortIntent:
    empty: dict[str, Any] = dict.fromkeys(
        ("dscp_priority", "priority_tc", "tc_scheduler", "tc_bandwidth_percent", "pfc_priorities"), ()
    )
    nothing = dict.fromkeys(("roce_tos", "pause", "cnp_dscp", "cnp_priority", "lossless_priority", "dcqcn"))
    buffers: dict[str, Any] = {"priority_buffer": (), "buffer_size_bytes": ()}
    return _intent(driver, link_layer=LinkLayer.INFINIBAND, trust="", **empty, **nothing, **buffers)


def _wishes(driver: Driver) -> Iterator[Mapping[str, Value]]:
    yield from (driver.wanted(intent) for intent in _intents(driver).values())


def _settable(driver: Driver) -> dict[str, Value]:
    """Return every setting that some intent asks for and that the driver does not declare away."""
    wanted: dict[str, Value] = {}
    for wish in _wishes(driver):
        wanted = {**wish, **wanted}
    return {name: value for name, value in wanted.items() if name not in driver.unsupported}


@functools.cache
def _read_somewhere(name: str) -> frozenset[str]:
    """Return the settings that some case of the driver shows with a value."""
    found: set[str] = set()
    for file in _CASES.glob(f"{name}/*/reading.json"):
        for port in json.loads(file.read_text())["ports"].values():
            found |= {key for key, entry in port["settings"].items() if "known" in entry}
    return frozenset(found)


def _script(driver: Driver, wanted: Mapping[str, Value], port: Port = _PORT) -> str:
    return render_port(Role.NODE, driver.name, port.id.port, port.rdma, wanted)


# intents


@every_driver
def test_what_is_wanted_has_a_name_that_is_known_or_the_drivers_own(driver: Driver) -> None:
    for wish in _wishes(driver):
        assert {name for name in wish if name.partition(".")[0] != driver.name} <= _NAMED
        assert settings.BOOT not in wish


@every_driver
def test_what_is_wanted_is_read_in_some_case_or_declared_impossible(driver: Driver) -> None:
    found = _read_somewhere(driver.name) | set(driver.unsupported) | {settings.MTU_KEPT}
    impossible = {
        key
        for file in _CASES.glob(f"{driver.name}/*/reading.json")
        for port in json.loads(file.read_text())["ports"].values()
        for key, entry in port["settings"].items()
        if entry.get("impossible")
    }
    for wish in _wishes(driver):
        assert set(wish) - found - impossible == set()


@every_driver
def test_infiniband_has_no_ethernet_classes(driver: Driver) -> None:
    wanted = driver.wanted(_infiniband(driver))
    assert set(wanted) <= {settings.MTU, settings.MTU_KEPT}


@every_driver
def test_every_intent_asks_for_its_mtu_and_its_priorities(driver: Driver) -> None:
    for name, intent in _intents(driver).items():
        wanted = driver.wanted(intent)
        assert wanted[settings.MTU] == intent.mtu_bytes, name
        assert wanted[settings.PFC] == intent.pfc_priorities, name
        assert wanted[settings.TRUST] == intent.trust, name


@every_driver
def test_dcqcn_that_is_not_ours_to_set_is_not_wanted(driver: Driver) -> None:
    assert settings.DCQCN not in driver.wanted(_intents(driver)["ECN off"])


@every_driver
def test_values_are_those_that_a_reading_can_hold(driver: Driver) -> None:
    for wish in _wishes(driver):
        for name, value in wish.items():
            assert isinstance(value, bool | int | str | tuple), name
            assert not isinstance(value, tuple) or all(isinstance(one, int | str) for one in value), name


@every_driver
def test_a_change_of_anything_disrupts_in_a_way_that_is_named(driver: Driver) -> None:
    for name in {*_settable(driver), *driver.unsupported, f"{driver.name}.unheard_of"}:
        for old in _VALUES:
            assert isinstance(driver.disruption(name, old, 1), Disruption)
    assert driver.disruption(settings.MTU, Known(1500), 9000) is Disruption.MTU_CHANGE


# parameters


@every_driver
def test_a_parameter_is_explained_and_becomes_a_setting_of_its_name(driver: Driver) -> None:
    bare = driver.wanted(_intent(driver, parameters={}))
    for name, known in driver.parameters.items():
        assert known.meaning
        assert known.lowest <= known.highest
        given = driver.wanted(_intent(driver, parameters={driver.name: {name: known.highest}}))
        changed = {key for key in given if given[key] != bare.get(key)}
        assert changed == {f"{driver.name}.{name}"}
        assert given[f"{driver.name}.{name}"] == known.highest


@every_driver
def test_parameters_of_other_drivers_are_not_taken(driver: Driver) -> None:
    others = {name: {"x": 1} for name in _NAMES if name != driver.name}
    bare = driver.wanted(_intent(driver, parameters={}))
    assert driver.wanted(_intent(driver, parameters=others)) == bare


def _policy(folder: Path, parameters: Mapping[str, Mapping[str, int]]) -> Policy:
    """Read a policy that gives these parameters, as a user would write it."""
    policy = (_ROOT / "inventories" / "policies" / "lossless-roce.yml").read_text()
    (folder / "policy.yml").write_text(f"{policy}\nnic_parameters: {json.dumps(parameters)}\n")
    starter = (_ROOT / "inventories" / "starter" / "inventory.yml").read_text()
    (folder / "inventory.yml").write_text(starter)
    return inventory.read(folder / "inventory.yml")[1]


@every_driver
def test_unknown_parameters_and_values_out_of_range_are_refused_at_the_door(
    driver: Driver, tmp_path: Path
) -> None:
    lowest = _parameters(driver)[driver.name]
    if lowest:
        assert _policy(tmp_path, {driver.name: lowest}).nic_parameters == {driver.name: lowest}
    bad = [("unheard_of", 1)]
    for name, known in list(driver.parameters.items())[:1]:
        bad += [(name, known.lowest - 1), (name, known.highest + 1), (name.upper() + "_", known.lowest)]
    for name, value in bad:
        with pytest.raises(InventoryError, match=re.escape(name)):
            _policy(tmp_path, {driver.name: {name: value}})


# scripts


def _shell(script: str, *flags: str, **run: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/dash", *flags], input=script, text=True, capture_output=True, check=False, timeout=60, **run
    )


@every_driver
def test_every_subset_of_one_and_the_whole_is_good_shell(driver: Driver) -> None:
    whole = _settable(driver)
    for subset in ({}, whole, *({name: value} for name, value in whole.items())):
        script = _script(driver, subset)
        done = _shell(script, "-n")
        assert (done.returncode, done.stderr) == (0, ""), subset
        for name in subset:
            assert re.search(rf"\btry(_\w+)? .*(?<![\w.]){re.escape(name)}(?![\w.])", script), name


@every_driver
def test_a_script_is_the_same_every_time(driver: Driver) -> None:
    whole = _settable(driver)
    assert _script(driver, whole) == _script(driver, dict(reversed(whole.items())))


def _hostile(value: Value, trap: str) -> Value:
    """Return a value of the same kind with the trap in it; numbers cannot hold one."""
    if isinstance(value, str):
        return trap
    if isinstance(value, tuple) and value:
        return (trap,) * len(value) if isinstance(value[0], str) else value
    return value


_TRAPS = (
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "x\ntouch pwned\n",
    "x y; touch pwned",
)
_TOOLS = (
    "dcb",
    "devlink",
    "ethtool",
    "ip",
    "lldptool",
    "mlnx_qos",
    "modprobe",
    "mstconfig",
    "niccli",
    "nicctl",
)


@every_driver
def test_nothing_that_an_inventory_says_is_run(driver: Driver, tmp_path: Path) -> None:
    for tool in (*_TOOLS, "sleep"):
        (tmp_path / tool).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "sys/class/net/lo").mkdir(parents=True)
    (tmp_path / "sys/class/net/lo/mtu").write_text("1500\n")
    env = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "FABRICCTL_SIM": str(tmp_path)}
    for trap in _TRAPS:
        wanted = {name: _hostile(value, trap) for name, value in _settable(driver).items()}
        for port in (Port(PortId("node1", trap), rdma=trap), Port(PortId("node1", "lo"), rdma=trap)):
            script = _script(driver, wanted, port)
            # The machine that runs the tests is none of the devices: its files are out of reach.
            inside = re.sub(r"/(sys|etc|run|var)/", rf"{tmp_path}/\1/", script)
            assert _shell(inside, "-n").returncode == 0
            _shell(inside, cwd=tmp_path, env=env)
            assert not (tmp_path / "pwned").exists(), trap


# answers


@every_driver
def test_questions_change_nothing_that_a_reader_could_see(driver: Driver) -> None:
    """The words of all questions: nothing that sets or writes outside rdma_cm's and a driver's own folder."""
    for query in driver.queries([_PORT]):
        assert query.argv
        assert all(isinstance(word, str) and word for word in query.argv)
        if query.argv[:2] == ("sh", "-c"):
            assert _shell(query.argv[2], "-n").returncode == 0, query.key


@functools.cache
def _shapes(name: str) -> tuple[str, ...]:
    """Return lines that devices of this kind really said, as material for lies."""
    lines: set[str] = set()
    for file in _CASES.glob(f"{name}/*/answers.json"):
        for answer in decode(dict[str, Answer], json.loads(file.read_text())).values():
            lines |= set(answer.stdout.splitlines()[:400])
    return tuple(sorted(lines)) or ("x: y",)


def _lies(name: str) -> st.SearchStrategy[str]:
    lines = st.lists(st.sampled_from(_shapes(name)), max_size=12).map("\n".join)
    broken = st.tuples(lines, st.text(max_size=5), st.integers(0, 200)).map(
        lambda parts: parts[0][: parts[2]] + parts[1] + parts[0][parts[2] + 1 :]
    )
    return (
        st.text(max_size=40)
        | lines
        | broken
        | st.sampled_from(["[" * 10_000, "{}", "[]", "null", "0", "\x00"])
    )


@every_driver
@given(data=st.data())
@profile(max_examples=60, suppress_health_check=list(HealthCheck))
def test_no_answer_makes_it_raise_and_every_port_has_a_reading(driver: Driver, data: st.DataObject) -> None:
    ports = [_PORT, Port(PortId("node1", "eth2"))]
    said = st.builds(Answer, st.sampled_from([0, 1, 124, 127]), _lies(driver.name), st.text(max_size=20))
    keys = [query.key for query in driver.queries(ports)]
    answers = {key: data.draw(said) for key in keys if data.draw(st.booleans())}
    _check_reading(driver, ports, answers)


@every_driver
def test_a_damaged_recording_makes_it_raise_no_more(driver: Driver) -> None:
    for file in _CASES.glob(f"{driver.name}/*/answers.json"):
        answers = decode(dict[str, Answer], json.loads(file.read_text()))
        ports = decode(tuple[Port, ...], json.loads(file.with_name("ports.json").read_text()))
        for key, answer in answers.items():
            for stdout in ("", answer.stdout[: len(answer.stdout) // 2], answer.stdout.replace(":", " ")):
                _check_reading(driver, list(ports), {**answers, key: Answer(answer.rc, stdout, "")})
            _check_reading(driver, list(ports), {k: one for k, one in answers.items() if k != key})


def _check_reading(driver: Driver, ports: list[Port], answers: Mapping[str, Answer]) -> None:
    readings, of_device = driver.parse(ports, answers)
    assert set(readings) == {port.id for port in ports}
    assert {facts.BOOT_ID, facts.KERNEL, facts.RIVALS} <= set(of_device)
    for port, reading in readings.items():
        assert reading.port == port
        assert settings.BOOT in reading.settings
        for entry in (*reading.settings.values(), *reading.facts.values(), *of_device.values()):
            assert isinstance(entry, Known) or entry.reason


@every_driver
def test_every_port_has_the_same_settings_whatever_is_answered(driver: Driver) -> None:
    readings, _ = driver.parse([_PORT], {})
    found = set(readings[_PORT.id].settings)
    for wish in _wishes(driver):
        assert set(wish) <= found | set(driver.unsupported)
    assert not [name for name, entry in readings[_PORT.id].settings.items() if isinstance(entry, Known)]
