"""What devices really said, and what drivers must make of it: a driver without a case fails."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from fabricctl.model.codec import decode, encode
from fabricctl.model.fabric import Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.settings import BOOT
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer, Driver

CASES = Path(__file__).resolve().parents[2] / "cases"
_FOLDERS = {"nic": "NIC driver", "switch": "switch driver"}
_DRIVERS = [(folder, name) for folder, kind in _FOLDERS.items() for name in finder.names(kind)]
_CASES = [path.parent for path in sorted(CASES.glob("*/*/*/answers.json"))]
_FILES = {
    "answers.json",
    "intent.json",
    "origin.yml",
    "ports.json",
    "reading.json",
    "script.sh",
    "wanted.json",
}


def _load_record() -> ModuleType:
    # Test folders are no packages: the module is loaded by its place.
    spec = importlib.util.spec_from_file_location("case_record", CASES / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_record = _load_record()


def _driver(folder: str, name: str) -> Driver:
    return finder.nic_driver(name) if folder == "nic" else finder.switch_driver(name)


def _of(case: Path) -> Driver:
    return _driver(case.parent.parent.name, case.parent.name)


def _load(case: Path, name: str) -> Any:
    return json.loads((case / name).read_text())


def _ports(case: Path) -> tuple[Port, ...]:
    return decode(tuple[Port, ...], _load(case, "ports.json"))


@pytest.mark.parametrize(("folder", "name"), _DRIVERS)
def test_a_driver_has_a_case(folder: str, name: str) -> None:
    assert [case for case in _CASES if case.parent == CASES / folder / name]


@pytest.mark.parametrize(("folder", "name"), _DRIVERS)
def test_a_driver_is_what_its_place_says(folder: str, name: str) -> None:
    driver = _driver(folder, name)
    assert driver.name == name
    assert driver.role is (Role.NODE if folder == "nic" else Role.SWITCH)
    assert all(reason for reason in driver.unsupported.values())


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_a_case_is_complete_and_says_where_it_comes_from(case: Path) -> None:
    assert {path.name for path in case.iterdir()} == _FILES
    origin = yaml.safe_load((case / "origin.yml").read_text())
    assert set(origin) == {"what", "kind", "versions", "date", "licence"}
    assert all(origin.values())


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_the_questions_are_those_that_were_answered(case: Path) -> None:
    keys = [query.key for query in _of(case).queries(_ports(case))]
    assert len(set(keys)) == len(keys)
    assert set(keys) == set(_load(case, "answers.json"))


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_answers_become_the_expected_reading(case: Path) -> None:
    answers = decode(dict[str, Answer], _load(case, "answers.json"))
    ports, facts = _of(case).parse(_ports(case), answers)
    assert encode({"ports": ports, "facts": facts}) == _load(case, "reading.json")


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_an_intent_becomes_the_expected_settings_and_script(case: Path) -> None:
    driver = _of(case)
    intents = decode(dict[str, PortIntent], _load(case, "intent.json"))
    wanted = {port: driver.wanted(intent) for port, intent in intents.items()}
    assert encode(wanted) == _load(case, "wanted.json")
    answers = decode(dict[str, Answer], _load(case, "answers.json"))
    ports = _ports(case)
    readings, _ = driver.parse(ports, answers)
    by_port = {port.id: wanted[str(port.id)] for port in ports}
    assert _record.script_of(driver, ports, readings, by_port) == (case / "script.sh").read_text()


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_what_is_wanted_can_be_read_back_or_is_declared_unsupported(case: Path) -> None:
    driver = _of(case)
    reading = _load(case, "reading.json")["ports"]
    for port, wanted in _load(case, "wanted.json").items():
        assert BOOT not in wanted
        assert BOOT in reading[port]["settings"]
        assert set(wanted) <= set(reading[port]["settings"]) | set(driver.unsupported)
