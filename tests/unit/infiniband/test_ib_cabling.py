from __future__ import annotations

import dataclasses
from typing import Any

from fabricctl.infiniband.asking import parts
from fabricctl.infiniband.seen import wiring
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder

CHECK = "ib_cabling"
PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN


def test_every_cable_is_where_it_is_meant_to_be(pod: Any) -> None:
    found = pod.judge(CHECK, "good")
    assert pod.odd(found) == {}
    assert len(found) == 13
    assert found["InfiniBand"].what == "12 of 12 devices were seen from node1/ib0, 12 nodes in all"


def test_two_swapped_cables_in_plain_words(pod: Any) -> None:
    found = pod.judge(CHECK, "swapped")
    assert pod.odd(found) == {"node3/ib0 - leaf1/3": FAIL, "node4/ib0 - leaf1/4": FAIL}
    one = found["node3/ib0 - leaf1/3"]
    assert one.what == "node3/ib0 should be on leaf1/3, is on leaf1/4; node4/ib0 the other way round"
    assert one.next_step == (
        "swap the cables at leaf1/3 and leaf1/4, or correct the inventory; "
        "if they are right, the hosts have each other's node description (ibstat there)"
    )


def test_a_limited_run_names_the_other_cable_of_a_swap_too(pod: Any) -> None:
    found = pod.judge(CHECK, "swapped", only=("node3",))
    assert set(found) == {"InfiniBand", "node3/ib0 - leaf1/3"}
    assert "node4/ib0 the other way round" in found["node3/ib0 - leaf1/3"].what


def test_a_missing_node_and_a_missing_uplink(pod: Any) -> None:
    found = pod.judge(CHECK, "link_down")
    assert pod.odd(found) == {"node5/ib0 - leaf2/1": FAIL, "leaf1/5 - spine1/1": FAIL}
    missing = found["node5/ib0 - leaf2/1"]
    assert missing.what == "node5 is missing: nothing is plugged in at leaf2/1 (Down), or it is off"
    assert found["leaf1/5 - spine1/1"].what == ("there is no link: leaf1/5 and spine1/1 are Down (Polling)")
    assert found["InfiniBand"].measured == "11 of 12 devices"


def test_a_switch_that_nobody_knows(pod: Any) -> None:
    found = pod.judge(CHECK, "stranger")
    assert pod.odd(found) == {"Quantum Mellanox Technologies": FAIL}
    assert found["Quantum Mellanox Technologies"].what == (
        "a switch that is not in what is meant: 'Quantum Mellanox Technologies' (0xb8cef60300000f00), "
        "plugged in at leaf2/8"
    )


def test_an_hca_that_nobody_knows_is_a_note(pod: Any) -> None:
    pod.fabric = _without(pod.fabric, "node4")
    found = pod.judge(CHECK, "good")
    assert pod.odd(found) == {}
    assert found["node4 mlx5_0"].next_step
    assert "plugged in at leaf1/4" in found["node4 mlx5_0"].what


def test_a_cable_between_known_devices_that_is_not_meant(pod: Any) -> None:
    pod.fabric = type(pod.fabric)(
        pod.fabric.devices, tuple(link for link in pod.fabric.links if str(link.a) != "leaf2/6")
    )
    found = pod.judge(CHECK, "good")
    assert pod.odd(found) == {"leaf2/6 - spine2/2": FAIL}
    assert "pull it" in found["leaf2/6 - spine2/2"].next_step


def test_a_node_that_is_plugged_in_and_silent_is_unknown(pod: Any) -> None:
    found = pod.judge(CHECK, "silent_node")
    assert pod.odd(found) == {"node6/ib0 - leaf2/2": UNKNOWN}
    assert found["node6/ib0 - leaf2/2"].what == "node6 is plugged in at leaf2/2, but does not answer"
    assert "1 query had no answer" in found["InfiniBand"].what
    assert "bad status 110" in found["InfiniBand"].what


def test_a_node_that_does_not_say_its_name_may_be_the_right_one(pod: Any) -> None:
    found = pod.judge(CHECK, "nameless_node")
    assert pod.odd(found) == {"node6/ib0 - leaf2/2": UNKNOWN}
    one = found["node6/ib0 - leaf2/2"]
    assert one.what == ("leaf2/2 should be on node6/ib0, is on 0x0c42a10300000060/1: it may be the same")
    assert "rdma-ndd" in one.next_step


def test_a_switch_without_a_name_may_be_the_one_that_is_missing(pod: Any) -> None:
    survey = pod.survey("good")
    for number in range(1, 9):
        stock = {"id": None, "device": "", "node": "Quantum Mellanox Technologies"}
        survey = pod.with_port(survey, f"spine1/{number}", **stock)
    found = pod.of(CHECK, survey)
    assert set(pod.odd(found).values()) == {UNKNOWN}
    assert "spine1" in found
    assert "Quantum Mellanox Technologies" in found
    assert found["leaf1/5 - spine1/1"].what == (
        "leaf1/5 should be on spine1/1, is on Quantum Mellanox Technologies/1: it may be the same"
    )


def test_where_a_guid_occurs_twice_nothing_is_surely_wrong(pod: Any) -> None:
    found = pod.judge(CHECK, "duplicate_guid")
    assert set(pod.odd(found).values()) == {UNKNOWN}
    assert {name for name in pod.odd(found) if "leaf2" in name} == {
        "node5/ib0 - leaf2/1",
        "node6/ib0 - leaf2/2",
    }


def test_a_saved_topology_stands_for_the_inventory(pod: Any) -> None:
    answers, _ = pod.answers("good")
    text = parts(next(iter(answers.values())))["topology"].stdout
    saved = wiring(pod.fabric, "good.topo", text)
    assert saved is not None
    assert len(saved.cables) == 12
    assert pod.odd(pod.judge(CHECK, "good", wiring=saved)) == {}
    found = pod.odd(pod.judge(CHECK, "swapped", wiring=saved))
    assert found == {"node3/ib0 - leaf1/3": FAIL, "node4/ib0 - leaf1/4": FAIL}


def test_a_saved_topology_with_the_stranger_expects_it(pod: Any) -> None:
    answers, _ = pod.answers("stranger")
    saved = wiring(pod.fabric, "x", parts(next(iter(answers.values())))["topology"].stdout)
    assert pod.odd(pod.judge(CHECK, "stranger", wiring=saved)) == {}
    gone = pod.judge(CHECK, "good", wiring=saved)
    assert pod.odd(gone) == {"Quantum Mellanox Technologies/1 - leaf2/8": FAIL}


def test_a_file_without_cables_is_no_topology(pod: Any) -> None:
    assert wiring(pod.fabric, "x", "nothing of the kind\n") is None


def _without(fabric: Any, name: str) -> Any:
    devices = tuple(device for device in fabric.devices if device.name != name)
    links = tuple(link for link in fabric.links if name not in {link.a.device, link.b.device})
    return type(fabric)(devices, links)


def test_the_recorded_look_is_what_the_scripts_parts_name(pod: Any) -> None:
    answers, _ = pod.answers("good")
    names = list(parts(next(iter(answers.values()))))
    assert names[:5] == ["topology", "errors", "links", "master", "offers"]


def test_nodes_of_one_description_may_be_those_that_are_meant(pod: Any) -> None:
    survey = pod.survey("good")
    stock = {"id": None, "device": "", "node": "MT4129 ConnectX7 Mellanox Technologies"}
    for name in ("node3", "node4"):
        survey = pod.with_port(survey, f"{name}/ib0", **stock)
    found = pod.of(CHECK, survey)
    assert pod.odd(found) == {"node3/ib0 - leaf1/3": UNKNOWN, "node4/ib0 - leaf1/4": UNKNOWN}
    assert all("it may be the same" in found[subject].what for subject in pod.odd(found))
    assert stock["node"] not in found  # told once is enough


def test_strangers_of_one_description_are_each_where_they_are(pod: Any) -> None:
    pod.fabric = _without(_without(pod.fabric, "node3"), "node4")
    survey = pod.survey("good")
    for name in ("node3", "node4"):
        survey = pod.with_port(survey, f"{name} mlx5_0/1", node="MT4129 ConnectX7")
    found = finder.link_check(CHECK).judge(survey)
    where = [one.what.partition(", ")[2] for one in found if one.measured == "unexpected"]
    assert sorted(where) == ["plugged in at leaf1/3", "plugged in at leaf1/4"]


def test_a_node_that_has_the_name_of_another_makes_neither_cable_fail(pod: Any) -> None:
    survey = pod.survey("good")
    node4 = pod.port(survey.subnets[0], "node4/ib0")
    survey = pod.with_port(survey, "node3/ib0", id=node4.id, device="node4", node=node4.node)
    found = pod.of(CHECK, survey)
    assert set(pod.odd(found).values()) == {UNKNOWN}
    assert "several nodes call themselves node4" in found["node3/ib0 - leaf1/3"].what


def test_a_description_with_a_slash_is_no_device(pod: Any) -> None:
    survey = pod.survey("good")
    for number in range(1, 9):
        survey = pod.with_port(survey, f"spine1/{number}", id=None, device="", node="spine1/lab: new")
    found = pod.of(CHECK, survey)
    assert set(pod.odd(found).values()) == {UNKNOWN}
    assert found["leaf1/5 - spine1/1"].what == (
        "leaf1/5 should be on spine1/1, is on spine1/lab: new/1: it may be the same"
    )


def test_a_leaf_that_is_cut_off_says_which_ends_are_down(pod: Any) -> None:
    survey = pod.survey("good")
    behind = {"leaf2", "node5", "node6", "node7", "node8"}
    ports = {
        key: dataclasses.replace(port, peer=None, state="Down", physical="Polling")
        if port.label in {"spine1/2", "spine2/2"}
        else port
        for key, port in survey.subnets[0].ports.items()
        if port.device not in behind
    }
    subnet = dataclasses.replace(survey.subnets[0], ports=ports)
    found = pod.of(CHECK, dataclasses.replace(survey, subnets=(subnet,)))
    assert found["leaf2"].what == (
        "leaf2 was not seen: spine1/2 and spine2/2 are Down, and what its other cables lead to was not seen"
    )
    assert found["leaf2/5 - spine1/2"].outcome is FAIL
    assert found["leaf2/5 - spine1/2"].next_step.startswith("see that leaf2 is on, then reseat")


def test_a_limited_run_is_about_switches_that_nobody_asks_too(pod: Any) -> None:
    survey = dataclasses.replace(pod.survey("good", only=("node1",)), named=frozenset({"node1", "leaf2"}))
    assert "node5/ib0 - leaf2/1" in pod.of(CHECK, survey)
    assert "node5/ib0 - leaf2/1" in pod.of("ib_links", survey)
    assert "node2/ib0 - leaf1/2" not in pod.of("ib_links", survey)


def test_an_inventory_without_uplinks_makes_no_uplink_a_fault(pod: Any) -> None:
    fabric = pod.fabric
    nodes = {device.name for device in fabric.nodes()}
    links = tuple(link for link in fabric.links if {link.a.device, link.b.device} & nodes)
    assert len(links) < len(fabric.links)
    pod.fabric = dataclasses.replace(fabric, links=links)
    survey = pod.survey("good")
    # by the inventory the leaf is a plane of its own, and only that was looked at
    found = [one for one in finder.link_check(CHECK).judge(survey) if one.subject == "plane 1"]
    uplinks = len(fabric.links) - len(links)
    told = found[-1]
    assert told.outcome is UNKNOWN
    assert told.what == f"the inventory names no cable between switches: {uplinks} were seen and not compared"
    assert "fabric_uplinks" in told.next_step
    assert [one.outcome for one in found[:-1]] == [PASS]
