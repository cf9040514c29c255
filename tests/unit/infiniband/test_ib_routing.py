from __future__ import annotations

import dataclasses
from typing import Any

from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Outcome

CHECK = "ib_routing"
FAIL = Outcome.FAIL


def changed(survey: Any, device: str, change: Any) -> Any:
    """Return the survey with the table of one switch changed."""
    subnet = survey.subnets[0]
    guid = next(port.node_guid for port in subnet.ports.values() if port.device == device)
    routes = {**subnet.routes, guid: change(dict(subnet.routes[guid]))}
    return dataclasses.replace(survey, subnets=(dataclasses.replace(subnet, routes=routes),))


def lid(survey: Any, label: str) -> int:
    return next(port.lid for port in survey.subnets[0].ports.values() if port.label == label)


def test_every_hca_is_reached_and_uplinks_are_even(pod: Any) -> None:
    found = pod.judge(CHECK, "good")
    assert pod.odd(found) == {}
    assert found["InfiniBand"].what == "8 HCA ports are reached from each of 2 leaves"
    assert found["leaf1"].what == "4 HCAs of other leaves over 2 uplinks: 2 to 2 HCAs an uplink"


def test_a_switch_without_a_way(pod: Any) -> None:
    survey = pod.survey("good")
    five = lid(survey, "node5/ib0")
    survey = changed(survey, "leaf1", lambda table: {k: v for k, v in table.items() if k != five})
    found = pod.of(CHECK, survey)
    assert pod.odd(found) == {"node5/ib0": FAIL}
    assert found["node5/ib0"].what == f"LID {five} is not reached from leaf1: leaf1 has no way to it"
    assert "InfiniBand" not in found


def test_a_way_in_circles(pod: Any) -> None:
    survey = pod.survey("good")
    five = lid(survey, "node5/ib0")
    survey = changed(survey, "leaf1", lambda table: {**table, five: 5})
    survey = changed(survey, "spine1", lambda table: {**table, five: 1})
    found = pod.of(CHECK, survey)
    assert pod.odd(found) == {"node5/ib0": FAIL}
    assert "round in circles" in found["node5/ib0"].what


def test_a_way_to_another_hca(pod: Any) -> None:
    survey = pod.survey("good")
    survey = changed(survey, "leaf2", lambda table: {**table, lid(survey, "node5/ib0"): 2})
    found = pod.of(CHECK, survey)
    assert "sends it to another HCA at port 2" in found["node5/ib0"].what


def test_all_on_one_uplink(pod: Any) -> None:
    survey = pod.survey("good")
    survey = changed(survey, "leaf1", lambda table: {k: 5 if v == 6 else v for k, v in table.items()})
    found = pod.of(CHECK, survey)
    assert pod.odd(found) == {}
    pod.rules = LinkPolicy(uplink_ratio=1.5)
    survey = dataclasses.replace(survey, policy=dataclasses.replace(survey.policy, links=pod.rules))
    found = pod.of(CHECK, survey)
    assert pod.odd(found) == {"leaf1": FAIL}
    assert found["leaf1"].what == (
        "4 HCAs of other leaves over 2 uplinks: 0 to 4 HCAs an uplink; "
        "port 5 carries 4, 1.5 times 2 is allowed"
    )


def test_a_switch_of_which_no_table_was_read_is_unknown(pod: Any) -> None:
    survey = pod.survey("good")
    subnet = survey.subnets[0]
    guid = next(port.node_guid for port in subnet.ports.values() if port.device == "spine1")
    routes = {key: table for key, table in subnet.routes.items() if key != guid}
    survey = dataclasses.replace(survey, subnets=(dataclasses.replace(subnet, routes=routes),))
    assert pod.odd(pod.of(CHECK, survey)) == {"spine1": Outcome.UNKNOWN}


def test_a_link_down_leaves_routes_whole(pod: Any) -> None:
    assert pod.odd(pod.judge(CHECK, "link_down")) == {}
