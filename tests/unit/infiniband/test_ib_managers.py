from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fabricctl.links import planes
from fabricctl.model.policy import LinkPolicy
from fabricctl.model.subnet import Manager
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.protocols import Answer

CHECK = "ib_managers"
NODE8 = "0x0c42a10300000081"


def test_one_master_passes(pod: Any) -> None:
    (one,) = pod.judge(CHECK, "good").values()
    assert one.outcome is Outcome.PASS
    assert one.what == f"node8 ({NODE8}) is the only master (priority 0); no other"


def test_who_stands_by_is_told(pod: Any) -> None:
    (one,) = pod.judge(CHECK, "standby").values()
    assert one.outcome is Outcome.PASS
    assert one.measured == "1 master, 1 standing by"
    assert one.what == (
        f"node7 (0x0c42a10300000071) is the only master (priority 0); 1 other: node8 ({NODE8}) (standby)"
    )


def test_two_masters_fail_though_each_ones_list_has_only_itself(pod: Any) -> None:
    (one,) = pod.judge(CHECK, "two_masters").values()
    assert one.outcome is Outcome.FAIL
    assert one.what.startswith("2 subnet managers are master: ")
    assert "node7 (0x0c42a10300000071)" in one.what
    assert f"node8 ({NODE8})" in one.what


def test_a_manager_that_does_not_answer_is_unknown_and_no_pass(pod: Any) -> None:
    (one,) = pod.judge(CHECK, "manager_dead").values()
    assert one.outcome is Outcome.UNKNOWN
    assert "sminfo" in one.what


@pytest.mark.parametrize(
    ("allowed", "outcome"),
    [
        (("node8",), Outcome.PASS),
        ((NODE8,), Outcome.PASS),
        (("0x0c42a10300000080",), Outcome.PASS),  # its node GUID
        (("node7", "leaf1"), Outcome.FAIL),
    ],
)
def test_the_master_is_one_that_the_policy_allows(
    pod: Any, allowed: tuple[str, ...], outcome: Outcome
) -> None:
    pod.rules = LinkPolicy(subnet_managers=allowed)
    (one,) = pod.judge(CHECK, "good").values()
    assert one.outcome is outcome
    assert one.limit == " or ".join(allowed)


def test_only_managers_that_are_no_master_are_unknown(pod: Any) -> None:
    survey = pod.survey("good")
    standby = Manager(NODE8, 1, 0, "STANDBY")
    subnet = dataclasses.replace(survey.subnets[0], managers=(standby,))
    (one,) = pod.of(CHECK, dataclasses.replace(survey, subnets=(subnet,))).values()
    assert one.outcome is Outcome.UNKNOWN


def test_where_the_list_of_managers_was_not_read_one_master_is_unknown(pod: Any) -> None:
    survey = pod.survey("good")
    missing = {"offers": "saquery: the program is not installed"}
    subnet = dataclasses.replace(survey.subnets[0], missing=missing)
    (one,) = pod.of(CHECK, dataclasses.replace(survey, subnets=(subnet,))).values()
    assert one.outcome is Outcome.UNKNOWN
    assert "saquery: the program is not installed" in one.what


def test_a_second_manager_that_does_not_answer_may_be_master_too(pod: Any) -> None:
    survey = pod.survey("good")
    assert survey.subnets[0].unheard == ()
    subnet = dataclasses.replace(survey.subnets[0], unheard=(7,))
    (one,) = pod.of(CHECK, dataclasses.replace(survey, subnets=(subnet,))).values()
    assert one.outcome is Outcome.UNKNOWN
    assert "another is said to run at LID 7, and did not answer" in one.what


def _doubted(pod: Any, **changed: Any) -> Finding:
    survey = pod.survey("good")
    subnet = dataclasses.replace(survey.subnets[0], **changed)
    (one,) = pod.of(CHECK, dataclasses.replace(survey, subnets=(subnet,))).values()
    assert one.outcome is Outcome.UNKNOWN
    return one


def test_managers_that_were_not_asked_are_not_said_to_be_silent(pod: Any) -> None:
    one = _doubted(pod, unasked=(9,))
    assert "; another is said to run at LID 9, and was not asked: whether" in one.what
    assert "did not answer" not in one.what
    assert "opensm" in one.next_step


def test_managers_that_were_not_asked_and_others_that_did_not_answer(pod: Any) -> None:
    one = _doubted(pod, unheard=(7, 8), unasked=tuple(range(65, 85)))
    assert (
        "others are said to run at LID 7, LID 8, and did not answer; others are said to run at "
        "LID 65, LID 66, LID 67, LID 68 and 16 more, and were not asked: whether"
    ) in one.what


OFFERED = "\t\tEndPortLid..............{}\n"


def test_a_manager_of_the_list_that_no_one_asked_is_kept_apart(pod: Any) -> None:
    def part(name: str, out: str, rc: int = 0) -> str:
        return f"\n== {name}\n{out}\n== {name} rc {rc}\n"

    answers, later = pod.answers("good")
    ((key, answer),) = later.items()
    master = next(one for one in pod.subnet("good").managers)
    lids = (master.lid, 30, 31)
    extra = part("offers", "".join(OFFERED.format(lid) for lid in lids)) + part("manager 30", "", 124)
    marks = answer.stdout.partition("\n== offers\n")[0]
    observed = dataclasses.replace(
        pod.observed("good"), answers=answers, later={key: Answer(0, marks + extra, "")}
    )
    views = planes.views(pod.fabric, pod.fabric.devices, "")
    (subnet,) = planes.subnets(pod.fabric, views, {"node1": observed})
    # The master's own answer is in another part: it was heard.
    assert (subnet.unheard, subnet.unasked) == ((30,), (31,))
