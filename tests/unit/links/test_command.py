from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fabricctl.cli import links
from fabricctl.cli.main import run as run_main
from fabricctl.errors import UsageError
from fabricctl.links import flow
from fabricctl.model.fabric import Device
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import LinkCheck, Need, Survey

INVENTORY = """\
all:
  vars: {fabric_policy: policy.yml, fabric_simulated: a test, fabric_scheduler: none}
  hosts:
    node1: &node {ansible_connection: local, fabric_role: node, fabric_driver: none,
                  fabric_ports: [{name: eth1, rdma: rxe0}]}
    node2: *node
    gone: {ansible_host: 127.0.0.1, ansible_port: 1, fabric_role: node, fabric_driver: none,
           fabric_ports: [{name: eth1, rdma: rxe0}]}
    leaf1: {fabric_role: switch, fabric_driver: none}
"""
POLICY = """\
name: test
mtu: {nic_bytes: 9000, switch_bytes: 9216, rdma_bytes: 4096}
limits: {loss: {bound_rate: 0.01}}
links: {interval: 2s}
"""


class Counting:
    """A check whose outcome of node1 the test sets, round by round."""

    name = "counting"
    needs = Need.ANSWERS

    def __init__(self) -> None:
        self.rounds: Iterator[Outcome | None] = iter(())

    def queries(self, device: Device) -> tuple[Query, ...]:
        return (Query("name", ("echo", device.name), counts=True),)

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        outcome = next(self.rounds, Outcome.PASS)
        if outcome is None:
            raise KeyboardInterrupt
        return tuple(
            Finding(
                self.name,
                name,
                outcome if name == "node1" else Outcome.PASS,
                f"said {seen.later['name'].stdout.strip()}",
                next_step="" if outcome is Outcome.PASS else "reseat it",
                interval_s=seen.interval_s,
            )
            for name, seen in survey.devices.items()
            if not seen.error
        )


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()

    def of(names: tuple[str, ...]) -> tuple[LinkCheck, ...]:
        if names and names != ("counting",):
            raise UsageError(f"there is no link check called {names[0]!r}")
        return (made,)

    monkeypatch.setattr(flow, "checks_of", of)
    return made


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    (tmp_path / "inventory.yml").write_text(INVENTORY)
    (tmp_path / "policy.yml").write_text(POLICY)
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "store.db"))

    def do(*words: str) -> Result:
        return CliRunner().invoke(links.command, [str(tmp_path / "inventory.yml"), *words])

    return do


def test_a_pass_has_every_finding_and_says_what_it_rests_on(
    call: Callable[..., Result], check: Counting
) -> None:
    result = call("--limit", "node*", "--interval", "0.2", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["outcome"] == "pass"
    assert said["simulated"] == "a test"
    assert said["run"].startswith("l")
    by = {(f["check"], f["subject"]): f for f in said["findings"]}
    assert by[("counting", "node2")]["what"] == "said node2"
    assert by[("counting", "node2")]["interval_s"] >= 0.18
    assert by[("reach", "node1")]["outcome"] == "pass"
    assert check.name == "counting"


def test_the_policy_says_how_long_to_watch(call: Callable[..., Result], check: Counting) -> None:
    result = call("--limit", "node1")
    assert result.exit_code == 0
    first = result.stdout.splitlines()[0]
    assert first.startswith("1 of 1 device answered; counters watched for 2.")
    assert first.endswith("s at most; policy test")
    assert "simulated: a test" in result.stdout
    assert result.stdout.splitlines()[-1] == "outcome: pass"
    del check


def test_a_failure_is_one_line_with_the_next_step(call: Callable[..., Result], check: Counting) -> None:
    check.rounds = iter([Outcome.FAIL])
    result = call("--limit", "node*", "--interval", "0.1")
    assert result.exit_code == 1
    assert "fail: node1: said node1; reseat it [counting]" in result.stdout.splitlines()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paramiko's socket
def test_an_unreachable_node_is_unknown_and_hides_none(call: Callable[..., Result], check: Counting) -> None:
    result = call("--interval", "0.1", "--only", "counting")
    assert result.exit_code == 4
    assert "2 of 3 devices answered" in result.stdout
    assert "unknown: gone: could not be asked: gone: " in result.stdout
    assert "counting     pass     2 pass" in result.stdout
    del check


def test_a_watch_shows_the_first_round_whole_and_then_what_changed(
    call: Callable[..., Result], check: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    check.rounds = iter([Outcome.PASS, Outcome.FAIL, Outcome.FAIL, Outcome.PASS, None])
    monkeypatch.setattr(links.time, "strftime", lambda *_: "12:00:00")
    result = call("--limit", "node*", "--interval", "0.1", "--watch")
    assert result.stdout.splitlines()[-4:] == [
        "outcome: pass",
        "12:00:00 fail (was pass): node1: said node1; reseat it [counting]",
        "12:00:00 no change",
        "12:00:00 pass (was fail): node1: said node1 [counting]",
    ]


def test_a_watch_as_json_is_a_line_a_round(call: Callable[..., Result], check: Counting) -> None:
    check.rounds = iter([Outcome.PASS, Outcome.FAIL, None])
    result = call("--limit", "node1", "--interval", "0.1", "--watch", "--json")
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert "changed" not in first
    (change,) = second["changed"]
    assert (change["before"]["outcome"], change["now"]["outcome"]) == ("pass", "fail")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--interval", "0"), "--interval 0: not above 0"),
        (("--interval", "nan"), "--interval nan: not above 0"),
        (("--interval", "4000"), "at most 3600 seconds"),
        (("--interval", "ten"), "--interval ten: must be a number of seconds"),
        (("--interval", "2h"), "at most 3600 seconds"),
        (("--only", "counting", "--from", "node1"), "--from is for checks of InfiniBand"),
        (("--only", "nothing"), "there is no link check called 'nothing'"),
        (("--only", ""), "--only is empty"),
        (("--limit", "nobody"), "no device of the inventory is called 'nobody'"),
        (("--limit", "leaf1"), "there is no device to ask"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_asked(
    call: Callable[..., Result], check: Counting, words: tuple[str, ...], says: str
) -> None:
    result = call(*words)
    assert isinstance(result.exception, UsageError)
    assert says in str(result.exception)
    del check


def test_every_check_is_listed_with_what_it_does(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_main(["links", "--list"]) == 0
    out = capfd.readouterr().out
    for name in finder.names("link check"):
        assert f"\n{name}\n  " in f"\n{out}"
        about: Any = finder.about("link check", name)
        assert "unknown" in about.lower(), f"{name}: its docstring does not say what is unknown"


def test_a_check_that_breaks_costs_its_own_findings_only(
    call: Callable[..., Result], check: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(survey: Survey) -> tuple[Finding, ...]:
        raise ZeroDivisionError(survey.limited)

    monkeypatch.setattr(check, "judge", broken)
    result = call("--limit", "node1", "--interval", "0.1", "--json")
    assert result.exit_code == 4
    findings = {one["check"]: one for one in json.loads(result.stdout)["findings"]}
    assert findings["reach"]["outcome"] == "pass"
    assert findings["counting"]["outcome"] == "error"
    assert findings["counting"]["what"].startswith("it broke: ZeroDivisionError(True) in broken, line ")


def test_a_check_that_was_asked_for_and_has_nothing_to_judge_is_no_pass(
    call: Callable[..., Result], check: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "judge", lambda _: ())
    assert call("--limit", "node1", "--interval", "0.1").exit_code == 0
    result = call("--limit", "node1", "--interval", "0.1", "--only", "counting")
    assert result.exit_code == 4
    assert "unknown: fabric: among the devices that were asked there is nothing" in result.stdout


def test_the_list_holds_what_was_asked_for_and_may_be_json(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_main(["links", "--list", "--only", "clock", "--json"]) == 0
    assert list(json.loads(capfd.readouterr().out)) == ["clock"]
    assert run_main(["links", "--list", "--only", "clok"]) == 2
    assert "did you mean clock?" in capfd.readouterr().err


def test_reach_is_no_check_to_choose(call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(UsageError, match="part of every run"):
        flow.checks_of(("reach",))
    del call


def test_what_would_upset_a_terminal_is_not_passed_on(
    call: Callable[..., Result], check: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Finding("counting", "node1", Outcome.FAIL, "said \x1b[2J\ud800", next_step="pull \u202e it")
    monkeypatch.setattr(check, "judge", lambda _: (bad,))
    result = call("--limit", "node1", "--interval", "0.1")
    assert "fail: node1: said ?[2J?; pull ? it [counting]" in result.stdout.splitlines()
