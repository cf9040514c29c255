"""What every switch driver that sets devices by a method of its own does with intents, answers and goals."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from fabricctl import resources
from fabricctl.errors import FabricctlError, RefusedError
from fabricctl.model import facts, settings
from fabricctl.model.codec import decode, encode
from fabricctl.model.fabric import LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.policy import EcnProfile, Watchdog
from fabricctl.model.reading import Known, Missing, PortReading, Value
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer, Driver, Method, PortGoal

_CASES = Path(__file__).resolve().parents[3] / "cases" / "switch"
_NAMES = tuple(
    name for name in finder.names("switch driver") if finder.switch_driver(name).method is not None
)
_MAP = tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64))
_NAMED = frozenset(
    value for name, value in vars(settings).items() if name.isupper() and isinstance(value, str)
)
_VALUES = (
    Known(0),
    Known("x"),
    Known((3,)),
    Known(()),
    Known(value=True),
    Missing("x"),
    Missing("y", impossible=True),
)
_DETAILS = {
    settings.WATCHDOG_DETECT,
    settings.WATCHDOG_RESTORE,
    settings.WATCHDOG_POLL,
    settings.WATCHDOG_ACTION,
}
_APPLY = "apply-20261130-1"

every_driver = pytest.mark.parametrize("driver", [finder.switch_driver(name) for name in _NAMES], ids=_NAMES)


def test_there_are_such_drivers() -> None:
    assert _NAMES


# what the cases hold


def _folders(driver: Driver) -> list[Path]:
    return [path.parent for path in sorted(_CASES.glob(f"{driver.name}/*/answers.json"))]


def _load(case: Path, name: str) -> Any:
    return json.loads((case / name).read_text())


def _ports(driver: Driver) -> tuple[Port, ...]:
    """Return ports with names that this system has: those of its first case."""
    return decode(tuple[Port, ...], _load(_folders(driver)[0], "ports.json"))


def _port(driver: Driver) -> Port:
    return _ports(driver)[0]


# intents


def _intent(driver: Driver, **changes: Any) -> PortIntent:
    """Return an intent that asks for all that an intent can ask a switch port for."""
    values: dict[str, Any] = {
        "port": _port(driver).id,
        "role": Role.SWITCH,
        "link_layer": LinkLayer.ETHERNET,
        "speed_gbps": 100,
        "mtu_bytes": 9216,
        "rdma_mtu_bytes": 4096,
        "trust": "dscp",
        "dscp_priority": _MAP,
        "priority_tc": (0, 0, 0, 3, 0, 0, 6, 0),
        "tc_scheduler": ("ets",) * 6 + ("strict", "ets"),
        "tc_bandwidth_percent": (50, 0, 0, 50, 0, 0, 0, 0),
        "pfc_priorities": (3,),
        "ecn": EcnProfile(150_000, 1_500_000, 100),
        "roce_tos": 106,
        "cable_length_m": 5.0,
        "watchdog": Watchdog(),
    }
    return PortIntent(**{**values, **changes})


def _intents(driver: Driver) -> dict[str, PortIntent]:
    """Return the policies that the product says are all valid."""
    ets: dict[str, Any] = {"tc_scheduler": ("ets",) * 8}
    return {
        "full RoCE": _intent(driver),
        "PFC only": _intent(
            driver,
            ecn=None,
            dscp_priority=tuple(3 if dscp == 26 else 0 for dscp in range(64)),
            priority_tc=(0, 0, 0, 3, 0, 0, 0, 0),
            roce_tos=104,
            **ets,
        ),
        "ECN off": _intent(driver, ecn=None, roce_tos=104),
        "PFC off": _intent(driver, pfc_priorities=(), watchdog=None),
        "best effort": _intent(
            driver,
            dscp_priority=(0,) * 64,
            priority_tc=(0,) * 8,
            tc_bandwidth_percent=(100,) + (0,) * 7,
            pfc_priorities=(),
            ecn=None,
            roce_tos=0,
            watchdog=None,
            **ets,
        ),
        "no watchdog": _intent(driver, watchdog=None),
        "watchdog off": _intent(driver, watchdog=Watchdog(on=False)),
        "cable not known": _intent(driver, cable_length_m=0.0),
        "other priorities by DSCP": _intent(
            driver, dscp_priority=tuple({26: 3, 48: 6}.get(dscp, dscp >> 3) for dscp in range(64))
        ),
    }


def _infiniband(driver: Driver) -> PortIntent:
    empty: dict[str, Any] = dict.fromkeys(
        ("dscp_priority", "priority_tc", "tc_scheduler", "tc_bandwidth_percent", "pfc_priorities"), ()
    )
    return _intent(
        driver, link_layer=LinkLayer.INFINIBAND, trust="", ecn=None, roce_tos=None, watchdog=None, **empty
    )


def _wishes(driver: Driver) -> Iterator[Mapping[str, Value]]:
    yield from (driver.wanted(intent) for intent in _intents(driver).values())


@every_driver
def test_what_is_wanted_has_a_name_that_is_known_or_the_drivers_own(driver: Driver) -> None:
    for wish in _wishes(driver):
        assert {name for name in wish if name.partition(".")[0] != driver.name} <= _NAMED
        assert settings.BOOT not in wish
        assert settings.MTU_KEPT not in wish


@every_driver
def test_values_are_those_that_a_reading_can_hold(driver: Driver) -> None:
    for wish in _wishes(driver):
        for name, value in wish.items():
            assert isinstance(value, bool | int | str | tuple), name
            assert not isinstance(value, tuple) or all(isinstance(one, int | str) for one in value), name


@every_driver
def test_nothing_is_wanted_of_an_infiniband_port(driver: Driver) -> None:
    assert driver.wanted(_infiniband(driver)) == {}


@every_driver
def test_every_intent_asks_for_mtu_classification_and_its_priorities(driver: Driver) -> None:
    for name, intent in _intents(driver).items():
        wanted = driver.wanted(intent)
        assert settings.MTU in wanted, name
        assert wanted[settings.PFC] == intent.pfc_priorities, name
        assert wanted[settings.TRUST] == intent.trust, name
        assert wanted[settings.DSCP_PRIORITY] == intent.dscp_priority, name


@every_driver
def test_marking_is_wanted_as_the_policy_says_and_thresholds_only_with_it(driver: Driver) -> None:
    for name, intent in _intents(driver).items():
        wanted = driver.wanted(intent)
        if intent.ecn is None:
            assert wanted[settings.ECN] is False, name
            assert not {settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX} & set(wanted), name
        else:
            assert wanted[settings.ECN] is True, name
            # An OS may count in kilobytes; it is not further off than that.
            assert wanted[settings.ECN_KMIN] == pytest.approx(intent.ecn.kmin_bytes, rel=0.05), name
            assert wanted[settings.ECN_KMAX] == pytest.approx(intent.ecn.kmax_bytes, rel=0.05), name
            assert wanted[settings.ECN_PMAX] == intent.ecn.pmax_percent, name


@every_driver
def test_the_watchdog_is_wanted_only_where_the_policy_speaks_of_it(driver: Driver) -> None:
    every = _intents(driver)
    assert not {settings.WATCHDOG, *_DETAILS} & set(driver.wanted(every["no watchdog"]))
    off = driver.wanted(every["watchdog off"])
    assert off[settings.WATCHDOG] == ()
    assert not _DETAILS & set(off)
    on = driver.wanted(every["full RoCE"])
    assert on[settings.WATCHDOG] == (3,)
    assert set(on) & _DETAILS or set(driver.unsupported) & _DETAILS


@every_driver
def test_a_cable_length_is_wanted_only_if_the_inventory_knows_it(driver: Driver) -> None:
    assert settings.CABLE_LENGTH not in driver.wanted(_intents(driver)["cable not known"])


@every_driver
def test_an_intent_is_wanted_the_same_every_time(driver: Driver) -> None:
    for intent in _intents(driver).values():
        assert driver.wanted(intent) == driver.wanted(intent)


# what is read


@every_driver
def test_what_is_wanted_is_read_in_some_case_or_declared_impossible(driver: Driver) -> None:
    found = _read_somewhere(driver.name) | set(driver.unsupported)
    for wish in _wishes(driver):
        assert set(wish) - found == set()


@functools.cache
def _read_somewhere(name: str) -> frozenset[str]:
    """Return the settings that some case of the driver shows with a value, or as impossible."""
    found: set[str] = set()
    for file in _CASES.glob(f"{name}/*/reading.json"):
        for port in json.loads(file.read_text())["ports"].values():
            entries = port["settings"].items()
            found |= {key for key, entry in entries if "known" in entry or entry.get("impossible")}
    return frozenset(found)


@every_driver
def test_every_port_has_the_same_settings_whatever_is_answered(driver: Driver) -> None:
    port = _port(driver)
    readings, _ = driver.parse([port], {})
    found = set(readings[port.id].settings)
    for wish in _wishes(driver):
        assert set(wish) <= found | set(driver.unsupported)
    assert settings.BOOT in found
    assert not [name for name, entry in readings[port.id].settings.items() if isinstance(entry, Known)]
    for case in _folders(driver):
        for entries in _load(case, "reading.json")["ports"].values():
            assert found <= set(entries["settings"]) | set(driver.unsupported), case.name


@every_driver
def test_some_case_is_a_port_that_is_as_wanted(driver: Driver) -> None:
    """Otherwise nothing shows that what is set compares equal with what is meant."""
    assert any(_as_wanted(driver, case) for case in _folders(driver))


def _as_wanted(driver: Driver, case: Path) -> bool:
    reading = decode(dict[str, PortReading], _load(case, "reading.json")["ports"])
    wanted = decode(dict[str, dict[str, Value]], _load(case, "wanted.json"))
    for port, wishes in wanted.items():
        entries = reading[port].settings
        for name, value in wishes.items():
            entry = entries.get(name)
            lacking = name in driver.unsupported or (isinstance(entry, Missing) and entry.impossible)
            if not lacking and entry != Known(value):
                return False
    return bool(wanted)


@every_driver
def test_a_case_comes_back_from_its_files_as_it_was(driver: Driver) -> None:
    for case in _folders(driver):
        for name, kind in (
            ("ports.json", tuple[Port, ...]),
            ("answers.json", dict[str, Answer]),
            ("intent.json", dict[str, PortIntent]),
        ):
            stored = _load(case, name)
            assert encode(decode(kind, stored)) == stored, (case.name, name)
        for stored in _load(case, "reading.json")["ports"].values():
            assert encode(decode(PortReading, stored)) == stored, case.name


@functools.cache
def _shapes(name: str) -> tuple[str, ...]:
    """Return lines that devices of this kind really said, as material for lies."""
    lines: set[str] = set()
    for file in _CASES.glob(f"{name}/*/answers.json"):
        for answer in decode(dict[str, Answer], json.loads(file.read_text())).values():
            lines |= set(answer.stdout.splitlines()[:400])
    return tuple(sorted(lines)) or ("x: y",)


@functools.cache
def _documents(name: str) -> tuple[str, ...]:
    """Return whole answers that are JSON: what is inside them is what is worth lying about."""
    found: set[str] = set()
    for file in _CASES.glob(f"{name}/*/answers.json"):
        for answer in decode(dict[str, Answer], json.loads(file.read_text())).values():
            if answer.stdout.lstrip()[:1] in {"{", "["}:
                found.add(answer.stdout)
    return tuple(sorted(found)) or ("{}",)


_ODD = st.sampled_from(
    [None, "", "x", "-1", "99999999999999999999", "3,x", 0, -1, 1.5, True, [], {}, [[]], {"a": {}}]
)


@st.composite
def _bent(draw: st.DrawFn, name: str) -> str:
    """Return a real JSON answer in which a few values are something else."""
    try:
        document = json.loads(draw(st.sampled_from(_documents(name))))
    except ValueError:
        return "{"
    for _ in range(draw(st.integers(1, 4))):
        document = _bend(draw, document)
    return json.dumps(document)


def _bend(draw: st.DrawFn, document: Any) -> Any:
    if isinstance(document, dict) and document and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(document, key=str)))
        if draw(st.integers(0, 9)) == 0:
            return {name: value for name, value in document.items() if name != key}
        return {**document, key: _bend(draw, document[key])}
    if isinstance(document, list) and document and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(document) - 1))
        return [*document[:at], _bend(draw, document[at]), *document[at + 1 :]]
    return draw(_ODD)


def _lies(name: str) -> st.SearchStrategy[str]:
    lines = st.lists(st.sampled_from(_shapes(name)), max_size=12).map("\n".join)
    broken = st.tuples(lines, st.text(max_size=5), st.integers(0, 200)).map(
        lambda parts: parts[0][: parts[2]] + parts[1] + parts[0][parts[2] + 1 :]
    )
    return (
        st.text(max_size=40)
        | lines
        | broken
        | _bent(name)
        | st.sampled_from(["[" * 10_000, "{}", "[]", "null", "0", "\x00"])
    )


@every_driver
@given(data=st.data())
@profile(max_examples=60, suppress_health_check=list(HealthCheck))
def test_no_answer_makes_it_raise_and_every_port_has_a_reading(driver: Driver, data: st.DataObject) -> None:
    ports = _ports(driver)[:2]
    said = st.builds(Answer, st.sampled_from([0, 0, 1, 124, 127]), _lies(driver.name), st.text(max_size=20))
    keys = [query.key for query in driver.queries(ports)]
    answers = {key: data.draw(said) for key in keys if data.draw(st.integers(0, 9))}
    _check_reading(driver, ports, answers)


@every_driver
@given(data=st.data())
@profile(max_examples=60, suppress_health_check=list(HealthCheck))
def test_one_lie_among_true_answers_makes_it_raise_no_more(driver: Driver, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(_folders(driver)))
    answers = decode(dict[str, Answer], _load(case, "answers.json"))
    ports = decode(tuple[Port, ...], _load(case, "ports.json"))
    key = data.draw(st.sampled_from(sorted(answers)))
    _check_reading(driver, ports, {**answers, key: Answer(0, data.draw(_lies(driver.name)), "")})


@every_driver
def test_a_damaged_recording_makes_it_raise_no_more(driver: Driver) -> None:
    for case in _folders(driver):
        answers = decode(dict[str, Answer], _load(case, "answers.json"))
        ports = decode(tuple[Port, ...], _load(case, "ports.json"))
        for key, answer in answers.items():
            for stdout in ("", answer.stdout[: len(answer.stdout) // 2], answer.stdout.replace(":", " ")):
                _check_reading(driver, ports, {**answers, key: Answer(answer.rc, stdout, "")})
            _check_reading(driver, ports, {k: one for k, one in answers.items() if k != key})


def _check_reading(driver: Driver, ports: Sequence[Port], answers: Mapping[str, Answer]) -> None:
    readings, of_device = driver.parse(ports, answers)
    assert set(readings) == {port.id for port in ports}
    assert facts.BOOT_ID in of_device
    for port, reading in readings.items():
        assert reading.port == port
        assert settings.BOOT in reading.settings
        every = (*reading.settings.values(), *reading.facts.values(), *reading.counters.values())
        for entry in (*every, *of_device.values()):
            assert isinstance(entry, Known) or entry.reason
        _check_kinds(reading)


_EIGHT = (settings.PRIORITY_TC, settings.TC_SCHEDULER, settings.TC_BANDWIDTH)
_ASCENDING = (settings.PFC, settings.WATCHDOG, settings.LOSSLESS_BUFFERS)


def _check_kinds(reading: PortReading) -> None:
    """Whoever compares or indexes a value relies on what ``model/settings.py`` says it is."""
    known = {name: entry.value for name, entry in reading.settings.items() if isinstance(entry, Known)}
    sizes = {settings.DSCP_PRIORITY: 64, **dict.fromkeys(_EIGHT, 8)}
    for name, size in sizes.items():
        value = known.get(name)
        assert value is None or (isinstance(value, tuple) and len(value) == size), name
    for name in (settings.DSCP_PRIORITY, settings.PRIORITY_TC, *_ASCENDING):
        value = known.get(name, ())
        assert isinstance(value, tuple)
        assert all(type(one) is int and 0 <= one <= 7 for one in value), name
    for name in _ASCENDING:
        value = known.get(name, ())
        assert isinstance(value, tuple)
        assert list(value) == sorted(set(value)), name
    for name in (
        settings.MTU,
        settings.CABLE_LENGTH,
        settings.ECN_KMIN,
        settings.ECN_KMAX,
        settings.ECN_PMAX,
    ):
        assert name not in known or type(known[name]) is int, name
    for name in (settings.ECN, settings.PAUSE):
        assert name not in known or type(known[name]) is bool, name
    assert known.get(settings.BOOT, settings.SAVED) in {settings.SAVED, settings.NOT_KEPT}
    headroom = reading.facts.get(facts.HEADROOM)
    if isinstance(headroom, Known):
        assert isinstance(headroom.value, tuple)
        assert len(headroom.value) == 8


# questions


_TRAPS = (
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "x\ntouch pwned\n",
    "x y; touch pwned",
    "-rf",
    "",
    "../../etc/passwd",
)


@every_driver
def test_questions_are_words_and_each_has_a_name_of_its_own(driver: Driver) -> None:
    queries = driver.queries(_ports(driver))
    assert len({query.key for query in queries}) == len(queries)
    for query in queries:
        assert query.argv
        assert all(isinstance(word, str) for word in query.argv)
        assert query.argv[0]
        if query.argv[:2] == ("sh", "-c"):
            assert _shell(query.argv[2], "-n").returncode == 0, query.key


@every_driver
@pytest.mark.parametrize("trap", _TRAPS)
def test_a_port_name_that_is_none_is_refused_before_anything_is_asked(driver: Driver, trap: str) -> None:
    with pytest.raises(RefusedError) as caught:
        driver.queries([Port(PortId("leaf1", trap))])
    assert caught.value.device == "leaf1"
    assert caught.value.next_step


# what changes do


@every_driver
def test_a_change_of_anything_disrupts_in_a_way_that_is_named(driver: Driver) -> None:
    names = {name for wish in _wishes(driver) for name in wish}
    for name in {*names, *driver.unsupported, f"{driver.name}.unheard_of", settings.BOOT}:
        for old in _VALUES:
            for new in (1, "x", (3,), True):
                assert isinstance(driver.disruption(name, old, new), Disruption)
    assert driver.disruption(settings.PFC, Known(()), (3,)) is not None


@every_driver
def test_unsupported_settings_have_a_reason_and_a_known_name(driver: Driver) -> None:
    for name, why in driver.unsupported.items():
        assert why
        assert name in _NAMED or name.startswith(f"{driver.name}.")


# what is pushed


def _method(driver: Driver) -> Method:
    assert driver.method is not None
    return driver.method


def _goals(driver: Driver, ports: Sequence[Port], **changes: Any) -> tuple[PortGoal, ...]:
    """Return goals that set everything, from a port that was read, with PFC off and a small MTU."""
    wanted = {
        name: value
        for name, value in driver.wanted(_intent(driver)).items()
        if name not in driver.unsupported
    }
    names = tuple(sorted(wanted, key=lambda name: (settings.safe_rank(name), name)))
    read = decode(dict[PortId, PortReading], _load(_folders(driver)[0], "reading.json")["ports"])
    held = next(iter(read.values())).settings
    known = {name: entry.value for name, entry in held.items() if isinstance(entry, Known)}
    plain = {settings.MTU: 1500, settings.PFC: (), settings.ECN: False}
    before: dict[str, Value] = {name: v for name, v in known.items() if name not in settings.KEPT} | plain
    return tuple(replace(PortGoal(port, names, wanted, before), **changes) for port in ports)


def _texts(driver: Driver, goals: Sequence[PortGoal]) -> tuple[str, ...]:
    method = _method(driver)
    port = goals[0].port.id.port
    return (
        method.push(_APPLY, 1, goals, 600),
        method.revert(_APPLY, ()),
        method.revert(_APPLY, (port,)),
        method.confirm(_APPLY, (1, 2)),
        method.confirm(_APPLY, ()),
    )


def _is_shell(driver: Driver) -> bool:
    book = resources.folder("playbooks") / "switch" / f"{driver.name}.yml"
    text = book.read_text()
    return "fabricctl_command" in text or "shared/run.yml" in text


def _shell(script: str, *flags: str, **run: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/dash", *flags], input=script, text=True, capture_output=True, check=False, timeout=60, **run
    )


@every_driver
def test_it_says_whether_only_the_whole_device_can_be_taken_back(driver: Driver) -> None:
    assert isinstance(_method(driver).whole, bool)


@every_driver
def test_a_playbook_pushes_it(driver: Driver) -> None:
    text = (resources.folder("playbooks") / "switch" / f"{driver.name}.yml").read_text()
    assert f"hosts: switch_{driver.name}\n" in text


@every_driver
def test_what_is_pushed_is_the_same_every_time(driver: Driver) -> None:
    goals = _goals(driver, _ports(driver)[:2])
    assert _texts(driver, goals) == _texts(driver, goals)
    turned = tuple(
        replace(goal, wanted=dict(reversed(goal.wanted.items())), before=dict(reversed(goal.before.items())))
        for goal in goals
    )
    assert _texts(driver, goals) == _texts(driver, turned)


@every_driver
def test_every_single_setting_can_be_pushed_by_itself(driver: Driver) -> None:
    (goal,) = _goals(driver, [_port(driver)])
    for name in goal.names:
        text = _method(driver).push(_APPLY, 1, [replace(goal, names=(name,))], 600)
        # Details (how it is to mark, where PFC leads) say nothing where that is not to be at all.
        assert (
            name not in {settings.MTU, settings.PFC, settings.DSCP_PRIORITY} or goal.port.id.port in text
        ), name
        if _is_shell(driver):
            done = _shell(text, "-n")
            assert (done.returncode, done.stderr) == (0, ""), name


_OTHERS_WORDS = {
    "sonic": ("net add", "nv set", "priority-flow-control", "configure terminal"),
    "cumulus": ("net add", "net commit", "priority-flow-control", "configure terminal"),
    "eos": ("watch-dog-interval", "network-qos", "net add", "nv set", "config qos"),
    "nxos": ("pause watchdog", "tx-queue", "net add", "nv set", "config qos"),
    "dell_sonic": ("watch-dog-interval", "network-qos", "pause watchdog", "net add", "nv set", "config qos"),
}
"""Words for the same in other systems, and of command lines that are gone."""


@every_driver
def test_trap_15_no_line_is_another_systems_or_only_a_comment(driver: Driver) -> None:
    text = _method(driver).push(_APPLY, 1, _goals(driver, _ports(driver)[:1]), 600)
    assert [word for word in _OTHERS_WORDS[driver.name] if word in text] == []
    if not _is_shell(driver):
        comments = [line for line in text.splitlines() if line.lstrip().startswith(("!", "#"))]
        assert [line for line in comments if not re.match(r"! ?fabricctl ", line)] == []


@every_driver
def test_only_named_ports_are_spoken_of(driver: Driver) -> None:
    ports = _ports(driver)
    if len(ports) > 1:
        text = _method(driver).push(_APPLY, 1, _goals(driver, ports[:1]), 600)
        assert re.search(rf"(?<![\w/]){re.escape(ports[0].id.port)}(?![\w/])", text)
        assert not re.search(rf"(?<![\w/]){re.escape(ports[1].id.port)}(?![\w/])", text)


@every_driver
def test_what_is_pushed_names_the_apply_so_that_others_see_whose_it_is(driver: Driver) -> None:
    for text in _texts(driver, _goals(driver, _ports(driver)[:1])):
        assert _APPLY in text


@every_driver
def test_the_time_after_which_it_reverts_is_in_what_is_pushed(driver: Driver) -> None:
    method, goals = _method(driver), _goals(driver, _ports(driver)[:1])
    assert method.push(_APPLY, 1, goals, 600) != method.push(_APPLY, 1, goals, 660)


@every_driver
def test_what_is_pushed_to_a_shell_is_good_shell(driver: Driver) -> None:
    if _is_shell(driver):
        for text in _texts(driver, _goals(driver, _ports(driver)[:2])):
            done = _shell(text, "-n")
            assert (done.returncode, done.stderr) == (0, "")


def _hostile(value: Value, trap: str) -> Value:
    """Return a value of the same kind with the trap in it; numbers cannot hold one."""
    if isinstance(value, str):
        return trap
    if isinstance(value, tuple) and value:
        return (trap,) * len(value) if isinstance(value[0], str) else value
    return value


def _attacks(driver: Driver, trap: str) -> Iterator[tuple[str, ...]]:
    """Walk what comes of goals with the trap in every place; what is refused is no danger."""
    (goal,) = _goals(driver, [_port(driver)])
    bad = {name: _hostile(value, trap) for name, value in goal.wanted.items()}
    goals = (
        replace(goal, wanted=bad),
        replace(goal, before={name: _hostile(value, trap) for name, value in bad.items()}),
        replace(goal, port=Port(PortId("leaf1", trap))),
    )
    for each in goals:
        try:
            # How a push is taken back and confirmed does not hang on values.
            changed = each.port.id.port == trap
            yield _texts(driver, [each]) if changed else (_method(driver).push(_APPLY, 1, [each], 600),)
        except FabricctlError:
            continue


@every_driver
@pytest.mark.parametrize("trap", [trap for trap in _TRAPS if "pwned" in trap])
def test_nothing_that_an_inventory_says_is_run(driver: Driver, trap: str, tmp_path: Path) -> None:
    for texts in _attacks(driver, trap):
        for text in texts:
            if _is_shell(driver):
                _run_harmless(text, tmp_path)
            else:
                # One line of a CLI would be one command.
                assert not [line for line in text.splitlines() if line.strip() == "touch pwned"]
    assert not list(tmp_path.rglob("pwned"))


def _run_harmless(text: str, folder: Path) -> None:
    """Run a script where no tool of a switch is, and where its files are out of reach."""
    for tool in ("sleep", "systemctl", "systemd-run"):
        (folder / tool).write_text("#!/bin/sh\nexit 1\n")
        (folder / tool).chmod(0o755)
    inside = re.sub(r"/(sys|etc|run|var)/", rf"{folder}/\1/", text)
    assert _shell(inside, "-n").returncode == 0
    env = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin"}
    _shell(inside, cwd=folder, env=env)
