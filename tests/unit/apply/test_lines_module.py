"""The Ansible module that sends lines to a device's command line."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from fabricctl import resources
from fabricctl.drivers import lines


def _load() -> ModuleType:
    path = resources.folder("playbooks") / "library" / "fabricctl_lines.py"
    spec = importlib.util.spec_from_file_location("fabricctl_lines_alone", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fabricctl_lines_alone"] = module
    spec.loader.exec_module(module)
    return module


MODULE = _load()


@dataclass
class Device:
    """Answers as it is told; an exception is raised."""

    answers: dict[str, str | Exception]
    sent: list[str] = field(default_factory=list)

    def get(self, command: str) -> str:
        self.sent.append(command)
        said = self.answers.get(command, "")
        if isinstance(said, Exception):
            raise said
        return said


def run(text: tuple[str, ...], **answers: str | Exception) -> tuple[int | None, str, list[str]]:
    device = Device({name.replace("_", " "): said for name, said in answers.items()})
    session = MODULE.Session(device)
    try:
        for line in MODULE.grouped(lines.text(text).splitlines()):
            session.send(line)
    except MODULE.Stop as stop:
        return stop.rc, stop.why, device.sent
    return 0, "", device.sent


def lost(said: str) -> Exception:
    error: Exception = MODULE.network.ConnectionError(said)
    return error


def test_lines_are_sent_in_order_and_rules_are_not() -> None:
    assert run(("a", lines.require("x", "why"), "b"), a="x") == (0, "", ["a", "b"])


@pytest.mark.parametrize(
    "said",
    [
        "% Invalid input (at token 1: 'x')",
        "% Unavailable command (not supported on this hardware platform)",
        "      ^\n% Invalid command at '^' marker.",
        "ERROR: the profile is in use",
        "some words\n% Cannot commit",
    ],
)
def test_it_ends_at_the_first_line_that_is_refused(said: str) -> None:
    rc, why, sent = run(("a", "b", "c"), b=said)
    assert (rc, sent) == (1, ["a", "b"])
    assert why == f"b: {said.splitlines()[-1]}"


def test_words_that_look_like_a_refusal_inside_an_answer_are_none() -> None:
    assert run(("a",), a="banner\n% of us\nEOF\n")[0] == 0


def test_what_network_cli_takes_for_a_refusal_is_one() -> None:
    said = lost("mtu 1\r\n% Invalid input\r\nleaf1(config)#")
    assert run(("a", "b"), a=said) == (1, "a: % Invalid input", ["a"])


def test_a_refusal_that_is_allowed_is_none() -> None:
    assert run(("a", lines.allow("does not exist"), "b"), a="% X does not exist")[0] == 0
    assert run(("a", lines.allow("does not exist"), "b"), a="% Invalid input")[0] == 1


@pytest.mark.parametrize("said", ["None", None])
def test_a_session_that_has_ended_is_no_answer(said: str) -> None:
    assert run(("a", "b"), b=said) == (1, "b: the session ended before the device answered", ["a", "b"])


def test_a_device_that_is_not_reached_has_no_status() -> None:
    assert run(("a", "b"), a=lost("Connection refused")) == (None, "Connection refused", ["a"])


def test_a_connection_that_breaks_later_has_one() -> None:
    assert run(("a", "b"), b=lost("socket\nis closed")) == (1, "b: socket is closed", ["a", "b"])


def test_rules_on_an_answer() -> None:
    busy = lines.refuse_if("pending", "it is busy", lines.RC_BUSY)
    assert run(("a", busy, "b"), a="x pending") == (75, "it is busy", ["a"])
    assert run(("a", busy, "b"), a="x")[2] == ["a", "b"]
    late = lines.require("pending", "too late", lines.RC_TOO_LATE)
    assert run(("a", late, "b"), a="x") == (78, "too late", ["a"])
    assert run(("a", late, "b"), a="pending")[2] == ["a", "b"]
    assert run(("a", lines.end_unless("s[0-9]"), "b"), a="none") == (0, "", ["a"])
    assert run(("a", lines.end_unless("s[0-9]"), "b"), a="s1")[2] == ["a", "b"]


def test_a_line_for_each_match_once() -> None:
    rule = lines.each(r'"(s[0-9])"', "abort {}")
    assert run(("a", rule, "b"), a='"s1" "s2" "s1"') == (0, "", ["a", "abort s1", "abort s2", "b"])
    assert run(("a", rule, "b"), a="nothing")[2] == ["a", "b"]
    rc, why, sent = run(("a", rule, "b"), a='"s1"', abort_s1="% No such session")
    assert (rc, why, sent) == (1, "abort s1: % No such session", ["a", "abort s1"])
