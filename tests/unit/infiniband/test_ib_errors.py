from __future__ import annotations

import dataclasses
from typing import Any

from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder

CHECK = "ib_errors"
PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN


def test_a_quiet_fabric_passes_at_every_cable(pod: Any) -> None:
    found = pod.judge(CHECK, "good")
    assert len(found) == 12
    assert pod.odd(found) == {}
    one = found["node3/ib0 - leaf1/3"]
    assert one.what == "no fault counter rose by more than 0/s in 10.0 s"
    assert one.interval_s == 10.0


def test_counters_that_rise_fail_and_old_ones_are_told(pod: Any) -> None:
    found = pod.judge(CHECK, "rising")
    assert pod.odd(found) == {
        "node4/ib0 - leaf1/4": FAIL,
        "leaf2/5 - spine1/2": FAIL,
        "node2/ib0 - leaf1/2": FAIL,
        "node6/ib0 - leaf2/2": FAIL,
    }
    symbols = found["node4/ib0 - leaf1/4"]
    assert symbols.what == "node4/ib0: SymbolErrorCounter rose by 50 in 10.0 s (5/s); 0/s is allowed"
    assert (symbols.measured, symbols.limit, symbols.interval_s) == ("5/s", "0/s", 10.0)
    assert "LinkDownedCounter rose by 3" in found["leaf2/5 - spine1/2"].what
    assert found["node5/ib0 - leaf2/1"].what.endswith("; from before: leaf2/1 PortRcvErrors 7")


def test_errors_from_upstream_blame_the_other_end(pod: Any) -> None:
    one = pod.judge(CHECK, "rising")["node2/ib0 - leaf1/2"]
    assert "PortRcvRemotePhysicalErrors rose by 9" in one.what
    assert one.what.endswith("node2/ib0 passes on what it received damaged")
    assert one.next_step.startswith("look for the other ports of node2")


def test_a_counter_that_was_filled_meanwhile_has_risen(pod: Any) -> None:
    one = pod.judge(CHECK, "rising")["node6/ib0 - leaf2/2"]
    assert one.outcome is FAIL
    assert one.what.startswith("leaf2/2: SymbolErrorCounter rose by 65535 in 10.0 s")


def test_a_counter_that_was_full_before_is_unknown_and_not_zero(pod: Any) -> None:
    survey = pod.survey("rising")
    subnet = dataclasses.replace(survey.subnets[0], counters=survey.subnets[0].later)
    one = pod.of(CHECK, dataclasses.replace(survey, subnets=(subnet,)))["node6/ib0 - leaf2/2"]
    assert one.outcome is UNKNOWN
    assert one.what == "leaf2/2: SymbolErrorCounter (65535) is full: what came since is not counted"
    assert "perfquery -R" in one.next_step


def test_the_same_value_of_a_64_bit_counter_is_not_full(pod: Any) -> None:
    survey = pod.survey("rising")
    subnet = survey.subnets[0]
    subnet = dataclasses.replace(subnet, extended=frozenset(subnet.ports))
    found = pod.of(CHECK, dataclasses.replace(survey, subnets=(subnet,)))
    assert found["node6/ib0 - leaf2/2"].outcome is FAIL
    assert "rose by 65535" in found["node6/ib0 - leaf2/2"].what


def test_the_limit_is_the_policys(pod: Any) -> None:
    pod.rules = LinkPolicy(error_per_s=5.0)
    assert pod.odd(pod.judge(CHECK, "rising")) == {"node6/ib0 - leaf2/2": FAIL}


def test_a_counter_that_somebody_cleared_is_unknown(pod: Any) -> None:
    found = pod.judge(CHECK, "cleared")
    assert pod.odd(found) == {"node4/ib0 - leaf1/4": UNKNOWN}
    assert "went back from 100 to 0" in found["node4/ib0 - leaf1/4"].what


def test_a_node_that_was_not_read_voids_only_itself(pod: Any) -> None:
    for case in ("silent_node", "silent_later", "port_not_read"):
        found = pod.judge(CHECK, case)
        assert pod.odd(found) == {"node6/ib0 - leaf2/2": UNKNOWN}, case


def test_a_manager_that_is_dead_does_not_stop_the_counting(pod: Any) -> None:
    found = pod.judge(CHECK, "manager_dead")
    assert set(pod.odd(found)) <= {"node5/ib0 - leaf2/1"}


def test_a_missing_summary_is_unknown_and_no_pass(pod: Any) -> None:
    survey = pod.survey("good")
    subnet = dataclasses.replace(survey.subnets[0], missing={"counters": "ibqueryerrors: Query SA failed"})
    found = finder.link_check(CHECK).judge(dataclasses.replace(survey, subnets=(subnet,)))
    assert [one.outcome for one in found] == [UNKNOWN]


def test_one_look_counts_nothing(pod: Any) -> None:
    survey = pod.survey("good")
    subnet = dataclasses.replace(survey.subnets[0], interval_s=0.0)
    found = finder.link_check(CHECK).judge(dataclasses.replace(survey, subnets=(subnet,)))
    assert {one.outcome for one in found} == {UNKNOWN}


def test_a_cable_of_which_neither_end_was_seen_is_told_once(pod: Any) -> None:
    survey = pod.survey("good")
    gone = {
        key: port
        for key, port in survey.subnets[0].ports.items()
        if port.label not in {"node6/ib0", "leaf2/2"}
    }
    subnet = dataclasses.replace(survey.subnets[0], ports=gone)
    found = pod.of(CHECK, dataclasses.replace(survey, subnets=(subnet,)))
    one = found["node6/ib0 - leaf2/2"]
    assert one.outcome is UNKNOWN
    assert one.what == "node6/ib0 and leaf2/2 were not seen, and their counters not read"
    assert one.next_step == "see why ib_links did not see node6/ib0 - leaf2/2"
