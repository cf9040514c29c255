"""What is not taken on NX-OS's word: that a configuration came whole, and that what would revert waits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from fabricctl.drivers.switch.nxos import PLUGIN, parse, terms
from fabricctl.errors import RefusedError
from fabricctl.model import settings
from fabricctl.model.reading import Known, Missing
from fabricctl.plugin.protocols import Answer, PortGoal

UNARMED = 77


# that a configuration came whole


def _read(bench: Any, answers: Any, number: int = 1) -> Any:
    return PLUGIN.parse(bench.ports, answers)[0][bench.id(number)].settings


def _cut(bench: Any, key: str, rows: int) -> dict[str, Answer]:
    """Return what the switch says, with a configuration that ends so many lines early."""
    answers = bench.answers()
    whole = answers[key].stdout.rstrip().splitlines()
    return {**answers, key: Answer(0, "\n".join(whole[:-rows]) + "\n", "")}


def test_a_configuration_that_ends_early_tells_nothing(bench: Any) -> None:
    bench.set(bench.wanted())
    bench.switch.configure("interface Ethernet1/2", "flowcontrol receive on")
    assert bench.known("nxos.flow_control", number=2) == ["receive"]
    read = _read(bench, _cut(bench, parse.RUNNING, 1), 2)
    for name in ("nxos.flow_control", settings.PFC, settings.BOOT, terms.OBJECTS, terms.TIMERS):
        assert isinstance(read[name], Missing), name
    assert re.fullmatch(
        r"show running-config did not come whole: \d+ of \d+ lines; try again",
        read["nxos.flow_control"].reason,
    )


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("key", [parse.RUNNING, parse.STARTUP])
def test_wherever_it_ends_nothing_is_saved_or_as_it_should_be(bench: Any, key: str, rows: int) -> None:
    bench.set(bench.wanted())
    read = _read(bench, _cut(bench, key, rows))
    assert isinstance(read[settings.BOOT], Missing)
    assert isinstance(read["nxos.flow_control"], Missing) is (key == parse.RUNNING)


@pytest.mark.parametrize("key", [parse.RUNNING, parse.STARTUP])
@pytest.mark.parametrize(
    "answer",
    [None, Answer(1, "% Invalid command at '^' marker.", ""), Answer(0, "", ""), Answer(0, "1 2\n", "")],
)
def test_without_the_number_of_its_lines_it_does_not_count(
    bench: Any, key: str, answer: Answer | None
) -> None:
    answers = bench.answers()
    del answers[parse.count_of(key)]
    if answer:
        answers[parse.count_of(key)] = answer
    assert isinstance(_read(bench, answers)[settings.BOOT], Missing)


def test_empty_lines_at_its_ends_say_nothing(bench: Any) -> None:
    bench.set(bench.wanted())
    answers = bench.answers()
    said = answers[parse.RUNNING].stdout
    for other in (said.strip(), f"\r\n\r\n{said}\n\n", said.replace("\n", "\r\n")):
        assert _read(bench, {**answers, parse.RUNNING: Answer(0, other, "")}) == bench.read()


# that what should revert is armed


class _Swallowing:
    """A command line that says yes to some lines and does nothing."""

    def __init__(self, session: Any, pattern: str) -> None:
        self.session, self.pattern = session, pattern

    def answer(self, line: str) -> str:
        return "" if re.match(self.pattern, line) else str(self.session.answer(line))


@pytest.mark.parametrize(
    "line", ["checkpoint fabricctl-", "time start ", "job name ", "rollback running-config"]
)
def test_a_switch_that_arms_nothing_is_not_changed(bench: Any, line: str) -> None:
    before = bench.switch.running["interface Ethernet1/1"].copy()
    text = bench.push_text(bench.goals(bench.wanted()))
    rc, why = bench.do(text, _Swallowing(bench.switch.session(), line))
    assert (rc, why) == (
        UNARMED,
        "the timer that would revert could not be started; nothing was changed",
    )
    assert bench.switch.running["interface Ethernet1/1"] == before
    assert [each for each in bench.lines() if each.startswith("policy-map")] == []
    # What a controller does with a push that failed.
    assert bench.revert() == (0, "")
    assert (bench.ours(), bench.switch.checkpoints) == ([], {})
    bench.set(bench.wanted())


def test_the_checkpoint_of_another_is_none(bench: Any, apply_id: str) -> None:
    text = bench.push_text(bench.goals(bench.wanted()))
    bench.switch.session().answer(f"checkpoint fabricctl-{apply_id}-2")
    bench.switch.session().answer("checkpoint nightly")
    rc, _ = bench.do(text, _Swallowing(bench.switch.session(), "(?:no )?checkpoint fabricctl-"))
    assert rc == UNARMED


# that what a change needs was read


def _goal(bench: Any, names: tuple[str, ...], lacking: str) -> PortGoal:
    goal = bench.goals(bench.wanted(mtu_bytes=9000))[0]
    read = bench.read()
    before = {n: e.value for n, e in read.items() if isinstance(e, Known) and n != lacking}
    made: PortGoal = replace(goal, names=names, before=before)
    return made


@pytest.mark.parametrize(
    ("names", "lacking"),
    [
        ((settings.MTU,), terms.TIMERS),
        ((settings.MTU,), terms.OBJECTS),
        ((settings.DSCP_PRIORITY,), settings.PRIORITY_TC),
        ((settings.PRIORITY_TC,), settings.TC_SCHEDULER),
        ((settings.TC_SCHEDULER,), settings.TC_BANDWIDTH),
        ((settings.TC_BANDWIDTH,), terms.ECN_CLASSES),
        ((terms.CLASS_MTU,), settings.LOSSLESS_BUFFERS),
        ((settings.PFC,), terms.CLASS_MTU),
        ((settings.PAUSE,), terms.FLOW_CONTROL),
        ((settings.WATCHDOG_DETECT,), settings.WATCHDOG),
        ((settings.WATCHDOG_DETECT,), settings.WATCHDOG_RESTORE),
    ],
)
def test_a_state_that_a_change_needs_and_was_not_read_refuses_it(
    bench: Any, names: tuple[str, ...], lacking: str
) -> None:
    bench.set(bench.wanted())
    assert bench.push_text([_goal(bench, names, "")])
    with pytest.raises(RefusedError, match=re.escape(lacking)) as caught:
        bench.push_text([_goal(bench, names, lacking)])
    assert (caught.value.device, caught.value.port) == ("leaf1", "Ethernet1/1")
    assert "\n" not in str(caught.value)


def test_marking_goes_on_at_thresholds_that_are_known_or_nothing_is_set(bench: Any) -> None:
    bench.set(bench.wanted())
    goal = _goal(bench, (settings.TC_BANDWIDTH,), settings.ECN_KMIN)
    assert bench.push_text([goal])
    wanted = {name: value for name, value in goal.wanted.items() if name != settings.ECN_KMIN}
    with pytest.raises(RefusedError, match=settings.ECN_KMIN):
        bench.push_text([replace(goal, wanted=wanted)])


def test_what_was_not_read_at_all_is_refused(bench: Any) -> None:
    goal = bench.goals(bench.wanted())[0]
    with pytest.raises(RefusedError, match="Ethernet1/1: its configuration was not read"):
        bench.push_text([replace(goal, before={settings.MTU: 1500})])


def test_what_is_set_itself_need_not_have_been_read(bench: Any) -> None:
    bench.set(bench.wanted())
    for name in (settings.MTU, settings.TC_BANDWIDTH, terms.CLASS_MTU, settings.WATCHDOG_POLL):
        assert bench.push_text([_goal(bench, (name,), name)])


def test_a_policy_map_that_is_named_is_bound_whatever_it_holds(bench: Any) -> None:
    bench.blueprint()
    bench.set(bench.wanted())
    goal = _goal(bench, (terms.QUEUING,), settings.TC_BANDWIDTH)
    text = bench.push_text([replace(goal, wanted={terms.QUEUING: "QOS_EGRESS_PORT"})])
    assert "no service-policy type queuing output fabricctl-out-" in text


# what is added to a time


def test_a_fixed_restore_is_reset(bench: Any) -> None:
    bench.set(bench.wanted())
    bench.switch.configure("priority-flow-control fixed-restore multiplier 7")
    assert settings.WATCHDOG_RESTORE in bench.differs(bench.wanted())["leaf1/Ethernet1/1"]
    bench.set(bench.wanted())
    assert bench.differs(bench.wanted()) == {}
    assert [line for line in bench.lines() if "fixed-restore" in line] == []


def test_a_release_without_a_fixed_restore_is_no_failure(bench: Any) -> None:
    class Without(_Swallowing):
        def answer(self, line: str) -> str:
            return "% Invalid command at '^' marker." if "fixed-restore" in line else super().answer(line)

    text = bench.push_text(bench.goals(bench.wanted()))
    assert bench.do(text, Without(bench.switch.session(), "!")) == (0, "")
    assert bench.differs(bench.wanted()) == {}
