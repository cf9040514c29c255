"""Odd answers of an mlx5 host: each costs what it is about, and none makes the parser raise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.drivers.nic.mlx5 import PLUGIN
from fabricctl.model import facts, settings
from fabricctl.model.codec import decode
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known, Missing, PortReading
from fabricctl.plugin.protocols import Answer

_CASES = Path(__file__).resolve().parents[3] / "cases/nic/mlx5"
_NAME = "enp23s0f0np0"
_PORT = Port(PortId("node1", _NAME), rdma="mlx5_0")
_DCQCN = "mlx5.dcqcn_priority_3"


def _answers(case: str) -> dict[str, Answer]:
    return decode(dict[str, Answer], json.loads((_CASES / case / "answers.json").read_text()))


def _read(answers: dict[str, Answer], key: str, *changes: tuple[str, str]) -> PortReading:
    """Return the reading with some words of one answer replaced."""
    printed = answers[key].stdout
    for old, new in changes:
        assert old in printed
        printed = printed.replace(old, new)
    ports, _ = PLUGIN.parse([_PORT], {**answers, key: Answer(answers[key].rc, printed, "")})
    return ports[_PORT.id]


def _qos(*changes: tuple[str, str]) -> PortReading:
    return _read(_answers("ofed-firmware-dcbx"), "mlnx_qos", *changes)


def _reason(entry: object) -> str:
    assert isinstance(entry, Missing)
    return entry.reason


def test_a_warning_of_mlnx_qos_does_no_harm() -> None:
    warning = "****** WARNING: lldpad service is running and may overwrite your settings ******\n\nDCBX mode"
    assert _qos(("DCBX mode", warning)).settings == _qos().settings


def test_a_traceback_is_a_reason() -> None:
    answers = _answers("ofed-firmware-dcbx")
    said = f"tools mlnx_qos\nfunction {_NAME}\nTraceback (most recent call last):\nOSError: [Errno 95] no\n"
    ports, _ = PLUGIN.parse([_PORT], {**answers, "mlnx_qos": Answer(0, said, "")})
    found = ports[_PORT.id]
    assert _reason(found.settings[settings.PFC]) == "mlnx_qos: OSError: [Errno 95] no"
    assert _reason(found.facts[facts.RIVALS]) == "mlnx_qos: OSError: [Errno 95] no"
    assert found.settings[settings.CNP_DSCP] == Known(48)


def test_a_class_that_is_not_shown_costs_the_schedulers_only() -> None:
    found = _qos(("tc: 7 ratelimit: unlimited, tsa: vendor", "tc: 7 ratelimit: unlimited, tsa: unknown"))
    assert _reason(found.settings[settings.TC_SCHEDULER]) == "mlnx_qos shows 7 of 8 traffic classes"
    assert found.settings[settings.PFC] == Known(())


def test_a_nic_without_trust_cannot_have_it() -> None:
    found = _qos(("Priority trust state: pcp", "Priority trust state: none"))
    entry = found.settings[settings.TRUST]
    assert isinstance(entry, Missing)
    assert entry.impossible


def _nv(*changes: tuple[str, str]) -> PortReading:
    return _read(_answers("inbox-fresh"), f"mstconfig {_NAME}", *changes)


def test_a_tool_that_does_not_show_current_values_is_not_believed() -> None:
    found = _nv(("Default              Current              Next Boot", "Next Boot"))
    assert "shows no current values beside the next boot's" in _reason(found.settings[_DCQCN])
    assert "shows no current values" in _reason(found.facts[facts.PENDING])


def test_an_error_of_the_tool_is_a_reason() -> None:
    answers = _answers("inbox-fresh")
    said = f"tool mstconfig\nfunction {_NAME}\n-E- Failed to open the device: 17:00.0\n"
    key = f"mstconfig {_NAME}"
    ports, _ = PLUGIN.parse([_PORT], {**answers, key: Answer(0, said, "")})
    assert "Failed to open the device" in _reason(ports[_PORT.id].settings[_DCQCN])


def test_a_value_that_is_no_number_is_left_out() -> None:
    found = _nv(
        ("255                  255                  255", "Array[0..7]          255                  255")
    )
    assert _reason(found.settings[_DCQCN]) == "the firmware has no ROCE_CC_PRIO_MASK_P1"


def test_another_driver_is_named() -> None:
    found = _read(_answers("inbox-fresh"), "grep files", ("DRIVER=mlx5_core", "DRIVER=bnxt_en"))
    assert _reason(found.facts[facts.PLANE]) == f"{_NAME} is no mlx5 port: its driver is bnxt_en"


def test_a_notification_priority_that_is_not_used_is_no_priority() -> None:
    found = _read(_answers("inbox-fresh"), "cc_params", ("np_cnp_prio_mode:0", "np_cnp_prio_mode:1"))
    assert "np_cnp_prio_mode is 1" in _reason(found.settings[settings.CNP_PRIORITY])
    assert found.settings[settings.CNP_DSCP] == Known(48)


def test_a_parameter_that_an_older_kernel_lacks_is_impossible() -> None:
    found = _read(_answers("inbox-fresh"), "cc_params", ("/rp_max_rate:", "/rp_other:"))
    entry = found.settings["mlx5.rp_max_rate"]
    assert isinstance(entry, Missing)
    assert entry.impossible
    assert isinstance(found.settings["mlx5.rp_ai_rate"], Known)


def test_every_parameter_says_its_meaning_and_has_a_range() -> None:
    for parameter in PLUGIN.parameters.values():
        assert parameter.meaning
        assert parameter.lowest < parameter.highest


_LINES = st.lists(
    st.sampled_from(
        [
            line
            for case in ("ofed-firmware-dcbx", "inbox-fresh")
            for answer in _answers(case).values()
            for line in answer.stdout.splitlines()
        ]
    ),
    max_size=40,
).map("\n".join)


@pytest.mark.parametrize("case", ["ofed-firmware-dcbx", "inbox-fresh"])
@given(data=st.data())
def test_no_answer_makes_the_parser_raise(case: str, data: Any) -> None:
    answers = _answers(case)
    for key in data.draw(st.sets(st.sampled_from(sorted(answers)), max_size=4)):
        odd = st.builds(Answer, st.sampled_from([0, 1, 42, 124, 127]), _LINES | st.text(), st.text())
        answers[key] = data.draw(odd)
    ports, _ = PLUGIN.parse([_PORT], answers)
    reading = ports[_PORT.id]
    for entry in (*reading.settings.values(), *reading.facts.values()):
        assert isinstance(entry, Known) or entry.reason
