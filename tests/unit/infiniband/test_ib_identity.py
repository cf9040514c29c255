from __future__ import annotations

import dataclasses
from typing import Any

from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder

CHECK = "ib_identity"


def test_nothing_occurs_twice(pod: Any) -> None:
    (one,) = pod.judge(CHECK, "good").values()
    assert one.outcome is Outcome.PASS
    assert one.measured == "12 nodes"


def test_two_nodes_of_one_guid(pod: Any) -> None:
    (one,) = pod.judge(CHECK, "duplicate_guid").values()
    assert one.outcome is Outcome.FAIL
    assert one.what == (
        "two ports have the GUID 0x0c42a10300000051: one is node5/ib0, the other is hidden by it; "
        "leaf2/1 up and leading to nobody"
    )


def test_two_ports_of_one_lid(pod: Any) -> None:
    survey = pod.survey("good")
    lid = pod.port(survey.subnets[0], "node2/ib0").lid
    (one,) = pod.of(CHECK, pod.with_port(survey, "node3/ib0", lid=lid)).values()
    assert one.outcome is Outcome.FAIL
    assert "node2/ib0" in one.what
    assert "node3/ib0" in one.what


def test_two_nodes_that_say_that_they_are_the_same_port(pod: Any) -> None:
    survey = pod.survey("good")
    two = pod.port(survey.subnets[0], "node2/ib0")
    survey = pod.with_port(survey, "node3/ib0", node=two.node, id=two.id, device=two.device)
    (one,) = pod.of(CHECK, survey).values()
    assert one.outcome is Outcome.FAIL
    assert one.what.startswith("2 nodes have the description 'node2 mlx5_0': ")


def test_stock_descriptions_of_unknown_nodes_pass_with_a_note(pod: Any) -> None:
    survey = pod.survey("good")
    for label in ("node2/ib0", "node3/ib0"):
        survey = pod.with_port(survey, label, node="MT4123 ConnectX6", id=None, device="")
    found = _all(survey)
    assert [one.outcome for one in found] == [Outcome.PASS, Outcome.PASS]
    assert "ib-node-name-map" in found[0].next_step


def _all(survey: Any) -> tuple[Any, ...]:
    return finder.link_check(CHECK).judge(survey)


def test_words_of_a_tool_that_name_no_guid_are_unknown(pod: Any) -> None:
    survey = pod.survey("good")
    subnet = dataclasses.replace(survey.subnets[0], duplicates=("Duplicate Node",))
    found = _all(dataclasses.replace(survey, subnets=(subnet,)))
    assert Outcome.UNKNOWN in {one.outcome for one in found}
    assert Outcome.PASS not in {one.outcome for one in found}
