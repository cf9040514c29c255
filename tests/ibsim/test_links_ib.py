"""``fabricctl links`` on InfiniBand, as a user calls it: real opensm and infiniband-diags on ibsim."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ibsim_fabric import Ran, SimulatedFabric
from ibsim_layout import Shape

from fabricctl.plugin import finder

PASSED, FAILED, UNKNOWN = 0, 1, 4
EVERY = tuple(name for name in finder.names("link check") if name.startswith("ib_"))
LINKS = "ib_links"
ERRORS = "ib_errors"
CABLING = "ib_cabling"
MANAGERS = "ib_managers"
IDENTITY = "ib_identity"


def look(fabric: SimulatedFabric) -> Ran:
    """Run every check of InfiniBand over one second."""
    return fabric.links("--only", ",".join(EVERY))


def ends(*ports: str) -> frozenset[str]:
    return frozenset(ports)


def between(finding: dict[str, Any]) -> frozenset[str]:
    return ends(*finding["subject"].split(" - "))


def the(ran: Ran, check: str, *ports: str) -> dict[str, Any]:
    """Return the one finding of a check about a cable that did not pass."""
    found = [one for one in ran.odd if one["check"] == check and between(one) == ends(*ports)]
    assert len(found) == 1, f"{check} about {ports}:\n{ran}"
    return found[0]


def odd_about(ran: Ran) -> set[frozenset[str]]:
    """Return all that did not pass, by subject."""
    return {between(finding) for finding in ran.odd}


def test_every_link_of_a_good_fabric_passes(running: SimulatedFabric) -> None:
    ran = look(running)
    assert (ran.rc, ran.outcome) == (PASSED, "pass"), str(ran)
    for check in EVERY:
        assert ran.of(check), f"{check} says nothing"
    cables = {ends(f"{a[0]}/{_port(a)}", f"{b[0]}/{_port(b)}") for a, b in running.plan.cables}
    for check in (LINKS, ERRORS, CABLING):
        assert {between(finding) for finding in ran.of(check)} >= cables, f"{check} leaves out cables"
    assert all(0.9 < finding["interval_s"] < 5 for finding in ran.of(ERRORS))


def _port(end: tuple[str, int]) -> str:
    return "ib0" if end[0].startswith("node") else str(end[1])


def test_a_link_that_is_down(fabric: SimulatedFabric) -> None:
    fabric.unlink("leaf02", 6)
    ran = look(fabric)
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    found = the(ran, LINKS, "leaf02/6", "spine01/4")
    assert found["outcome"] == "fail"
    assert "Down" in found["what"]
    assert found["next_step"]
    assert odd_about(ran) == {ends("leaf02/6", "spine01/4")}, str(ran)


def test_a_link_that_initialises_again_while_the_subnet_manager_is_dead(fabric: SimulatedFabric) -> None:
    fabric.manager.stop()
    fabric.unlink("node0006")
    fabric.relink()
    ran = look(fabric)
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    found = the(ran, LINKS, "node0006/ib0", "leaf02/2")
    assert found["outcome"] == "fail"
    assert "Initialize" in found["what"]
    assert "subnet manager" in found["what"] + found["next_step"]
    assert {one["outcome"] for one in ran.of(MANAGERS)} == {"unknown"}, str(ran)


def test_a_link_of_one_lane(fabric: SimulatedFabric) -> None:
    fabric.degrade("leaf02", 3, "width", "1")
    ran = look(fabric)
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    found = the(ran, LINKS, "node0007/ib0", "leaf02/3")
    assert found["outcome"] == "fail"
    assert "1X" in found["what"]
    assert "4X" in found["what"] + found["limit"]
    assert odd_about(ran) == {ends("node0007/ib0", "leaf02/3")}, str(ran)


def test_a_link_of_lower_speed(fabric: SimulatedFabric) -> None:
    fabric.degrade("leaf03", 2, "espeed", "2")
    ran = look(fabric)
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    found = the(ran, LINKS, "node0010/ib0", "leaf03/2")
    assert found["outcome"] == "fail"
    assert "EDR" in found["what"]
    assert "200" in found["what"] + found["limit"]
    assert odd_about(ran) == {ends("node0010/ib0", "leaf03/2")}, str(ran)


def test_symbol_errors_that_rise(fabric: SimulatedFabric) -> None:
    fabric.console(*fabric.count("leaf02", 6, SymbolErrorCounter=100))
    fabric.after("ibqueryerrors", *fabric.count("leaf02", 6, SymbolErrorCounter=150))
    ran = look(fabric)
    assert fabric.played("ibqueryerrors")
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    found = the(ran, ERRORS, "leaf02/6", "spine01/4")
    assert found["outcome"] == "fail"
    assert "SymbolError" in found["what"]
    assert "50" in found["what"]
    assert "leaf02/6" in found["what"]  # which end counted
    assert 0.9 < found["interval_s"] < 10
    assert odd_about(ran) == {ends("leaf02/6", "spine01/4")}, str(ran)


def test_symbol_errors_of_long_ago_pass(fabric: SimulatedFabric) -> None:
    fabric.console(*fabric.count("leaf02", 6, SymbolErrorCounter=100, LinkDownedCounter=3))
    ran = look(fabric)
    assert (ran.rc, ran.outcome) == (PASSED, "pass"), str(ran)


def test_congestion_that_rises_fails_no_link(fabric: SimulatedFabric) -> None:
    fabric.after("ibqueryerrors", *fabric.count("leaf02", 6, PortXmitWait=1_000_000, PortXmitDiscards=9))
    ran = look(fabric)
    assert fabric.played("ibqueryerrors")
    assert (ran.rc, ran.outcome) == (PASSED, "pass"), str(ran)


def test_a_link_that_went_down_meanwhile(fabric: SimulatedFabric) -> None:
    fabric.console(*fabric.count("leaf01", 3, LinkDownedCounter=3))
    fabric.after("ibqueryerrors", *fabric.count("leaf01", 3, LinkDownedCounter=4))
    ran = look(fabric)
    assert fabric.played("ibqueryerrors")
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    found = the(ran, ERRORS, "node0003/ib0", "leaf01/3")
    assert found["outcome"] == "fail"
    assert "LinkDowned" in found["what"]
    assert odd_about(ran) == {ends("node0003/ib0", "leaf01/3")}, str(ran)


def test_a_saturated_counter_is_unknown(fabric: SimulatedFabric) -> None:
    fabric.console(*fabric.count("leaf01", 3, SymbolErrorCounter=65535))
    ran = look(fabric)
    assert (ran.rc, ran.outcome) == (UNKNOWN, "unknown"), str(ran)
    found = the(ran, ERRORS, "node0003/ib0", "leaf01/3")
    assert found["outcome"] == "unknown"
    assert "SymbolError" in found["what"]
    assert "65535" in found["what"]
    assert "clear" in found["next_step"]
    assert odd_about(ran) == {ends("node0003/ib0", "leaf01/3")}, str(ran)


def test_a_counter_that_is_filled_meanwhile_has_risen(fabric: SimulatedFabric) -> None:
    fabric.console(*fabric.count("leaf02", 6, SymbolErrorCounter=65000))
    fabric.after("ibqueryerrors", *fabric.count("leaf02", 6, SymbolErrorCounter=65535))
    ran = look(fabric)
    assert fabric.played("ibqueryerrors")
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    assert "rose by 535" in the(ran, ERRORS, "leaf02/6", "spine01/4")["what"]


def test_a_limited_run_is_about_the_switch_that_it_names(fabric: SimulatedFabric) -> None:
    fabric.unlink("leaf02", 6)
    ran = fabric.links("--only", LINKS, "--limit", "leaf02,node0001")
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    assert odd_about(ran) == {ends("leaf02/6", "spine01/4")}, str(ran)
    assert len(ran.of(LINKS)) == 9  # node0001's cable, and the leaf's eight


@contextlib.contextmanager
def swapped(fabric: SimulatedFabric) -> Iterator[None]:
    """Swap the cables of node0003 and node0004 at their leaf."""
    places = {"node0003": 3, "node0004": 4}
    for way in (dict(zip(places, (4, 3), strict=True)), places):
        fabric.console(*(f"Unlink {fabric.at(node)}" for node in way))
        fabric.console(*(f"Link {fabric.at(node)} {fabric.at('leaf01', port)}" for node, port in way.items()))
        fabric.bring_up()
        if way is not places:
            yield


def test_two_swapped_cables(fabric: SimulatedFabric) -> None:
    with swapped(fabric):
        ran = look(fabric)
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    assert {one["check"] for one in ran.odd} == {CABLING}, str(ran)
    assert {one["outcome"] for one in ran.odd} == {"fail"}
    assert odd_about(ran) == {ends("node0003/ib0", "leaf01/3"), ends("node0004/ib0", "leaf01/4")}
    said = " ".join(one["what"] for one in ran.odd)
    assert "node0003/ib0 should be on leaf01/3, is on leaf01/4" in said, str(ran)
    assert "the other way round" in said


def test_two_swapped_cables_against_a_saved_ibnetdiscover(fabric: SimulatedFabric, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.write_text(fabric.tool("ibnetdiscover"))
    good = fabric.links("--only", CABLING, "--topology", str(saved))
    assert (good.rc, good.outcome) == (PASSED, "pass"), str(good)
    assert len(good.of(CABLING)) > len(fabric.plan.cables)
    with swapped(fabric):
        ran = fabric.links("--only", CABLING, "--topology", str(saved))
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    said = " ".join(one["what"] for one in ran.odd)
    assert "node0003/ib0 should be on leaf01/3, is on leaf01/4" in said, str(ran)


def test_a_missing_node(fabric: SimulatedFabric) -> None:
    fabric.unlink("node0011")
    ran = look(fabric)
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    found = the(ran, LINKS, "node0011/ib0", "leaf03/3")
    assert found["outcome"] == "fail"
    assert "Down" in found["what"]
    gone = the(ran, CABLING, "node0011/ib0", "leaf03/3")
    assert gone["outcome"] == "fail"
    assert "node0011 is missing" in gone["what"]
    assert odd_about(ran) == {ends("node0011/ib0", "leaf03/3")}, str(ran)


def test_a_switch_that_nobody_expects(fabric: SimulatedFabric) -> None:
    fabric.console(f"Link {fabric.at('leaf99', 1)} {fabric.at('leaf02', 20)}")
    fabric.manager.sweep()
    try:
        ran = look(fabric)
    finally:
        fabric.console(f"Unlink {fabric.at('leaf99', 1)}")
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    extra = [one for one in ran.odd if one["check"] == CABLING]
    assert extra, str(ran)
    said = " ".join(f"{one['subject']} {one['what']}" for one in extra)
    assert "leaf99" in said
    assert "leaf02/20" in said
    assert {one["check"] for one in ran.odd} == {CABLING}, str(ran)


def test_two_nodes_of_one_guid(fabric: SimulatedFabric) -> None:
    own, other = fabric.plan.boxes["node0005"], fabric.plan.boxes["node0004"]
    fabric.console(f'Guid "{own.id}" 0x{other.guid:016x}')
    try:
        ran = look(fabric)
    finally:
        fabric.console(f'Guid "{own.id}" 0x{own.guid:016x}')
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    found = [one for one in ran.odd if one["check"] == IDENTITY]
    assert [one["outcome"] for one in found] == ["fail"], str(ran)
    assert f"{other.guid:016x}" in found[0]["what"] or f"{other.port_guid:016x}" in found[0]["what"]
    assert found[0]["next_step"]


def test_two_masters(fabric: SimulatedFabric) -> None:
    second = fabric.another_manager("node0009", priority=3).start()
    try:
        ran = look(fabric)
    finally:
        second.stop()
    assert (ran.rc, ran.outcome) == (FAILED, "fail"), str(ran)
    found = [one for one in ran.odd if one["check"] == MANAGERS]
    assert [one["outcome"] for one in found] == ["fail"], str(ran)
    for node in ("node0009", "node0016"):
        assert node in found[0]["what"], str(ran)
    assert "MASTER" in found[0]["what"].upper()
    assert {one["check"] for one in ran.odd} == {MANAGERS}, str(ran)


def test_no_subnet_manager_answers(fabric: SimulatedFabric) -> None:
    fabric.manager.stop()
    ran = look(fabric)
    assert (ran.rc, ran.outcome) == (UNKNOWN, "unknown"), str(ran)
    found = ran.of(MANAGERS)
    assert {one["outcome"] for one in found} == {"unknown"}, str(ran)
    assert found[0]["next_step"]
    # what needs no manager is judged all the same
    assert {one["outcome"] for one in ran.of(LINKS)} == {"pass"}, str(ran)
    assert {one["outcome"] for one in ran.of(ERRORS)} == {"pass"}, str(ran)


@pytest.mark.parametrize(
    "attribute",
    [
        pytest.param("", id="all"),
        pytest.param("16", id="NodeDescription"),
        pytest.param("17", id="NodeInfo"),
        pytest.param("18", id="PortCounters"),
        pytest.param("21", id="PortInfo"),
    ],
)
def test_a_node_that_does_not_answer(fabric: SimulatedFabric, attribute: str) -> None:
    with fabric.losing("node0005", 100, attribute):
        ran = look(fabric)
    assert (ran.rc, ran.outcome) == (UNKNOWN, "unknown"), str(ran)
    assert odd_about(ran) == {ends("node0005/ib0", "leaf02/1")}, str(ran)
    assert all(one["next_step"] for one in ran.odd)


def test_a_node_that_loses_every_second_mad(fabric: SimulatedFabric) -> None:
    with fabric.losing("node0005", 50):
        ran = look(fabric)
    # retries hide it, or the node is gone for a tool: but each lost MAD is an error that its port counts
    assert ran.rc in {FAILED, UNKNOWN}, str(ran)
    assert ends("node0005/ib0", "leaf02/1") in odd_about(ran), str(ran)
    # and of no other link is anything not known
    assert {one["subject"] for one in ran.odd if "leaf02/1" not in between(one)} == set(), str(ran)


def test_a_fabric_of_1024_nodes_passes_and_every_cable_was_seen(tmp_path: Path) -> None:
    # how fast: tests/bench/links_ibsim.py
    shape = Shape(leaves=32, nodes_per_leaf=32, spines=16, uplinks=2, radix=64, spares=())
    with SimulatedFabric(tmp_path, shape) as fabric:
        ran = look(fabric)
    assert ran.rc == PASSED, str(ran)
    cables = {frozenset(one["subject"].split(" - ")) for one in ran.of(LINKS)}
    assert len(cables) == 32 * 32 + 32 * 16 * 2
    assert ends("node1024/ib0", "leaf32/32") in cables
