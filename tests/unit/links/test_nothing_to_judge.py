"""What a check says that finds nothing to judge: of a fabric that did not answer, and of a switch alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabricctl.model.fabric import Fabric
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.surveying import Survey

NODES = ("node1", "node2", "node3", "node4")
OF_NODES = (
    *("access_control", "clock", "device_nodes", "foreign", "gids", "gpu_direct", "memlock", "neighbours"),
    *("numa", "open_files", "pcie", "rails", "uniform"),
)
OF_LINKS = ("cabling", "counters", "flaps", "link_state", "mtu")
STEP = "see why they could not be asked (check reach), then run this again"


@pytest.mark.parametrize("check", OF_NODES)
def test_a_switch_alone_has_nothing_that_a_check_of_nodes_is_about(make_site: Any, check: str) -> None:
    site = make_site(only=["leaf1"])
    site.limited = True
    assert site.judge(check) == ()


@pytest.mark.parametrize("check", OF_LINKS)
def test_a_switch_alone_is_judged_by_the_checks_of_links(make_site: Any, check: str) -> None:
    site = make_site(only=["leaf1"])
    site.limited = True
    assert {finding.subject for finding in site.judge(check)} >= {"node1/eth1 - leaf1/swp1"}


@pytest.mark.parametrize("check", OF_LINKS)
def test_a_switch_alone_that_does_not_answer_is_unknown(make_site: Any, check: str) -> None:
    site = make_site(only=["leaf1"])
    site.limited = True
    site.unreachable("leaf1")
    (found,) = site.judge(check)
    assert (found.outcome, found.subject, found.next_step) == (Outcome.UNKNOWN, "fabric", STEP)
    assert found.what.endswith(": no port could be read; 1 of 1 devices did not answer")


@pytest.mark.parametrize("check", ["neighbours", "memlock", "numa"])
@pytest.mark.parametrize("limited", [False, True])
def test_nodes_that_do_not_answer_are_unknown(site: Any, check: str, *, limited: bool) -> None:
    site.limited = limited
    for node in NODES:
        site.unreachable(node)
    (found,) = site.judge(check)
    assert (found.outcome, found.subject, found.next_step) == (Outcome.UNKNOWN, "fabric", STEP)
    assert found.what == "none of 4 nodes answered: there is nothing to judge"


def test_gids_of_nodes_that_do_not_answer_are_unknown(site: Any) -> None:
    for node in NODES:
        site.unreachable(node)
    (found,) = site.judge("gids")
    assert (found.outcome, found.next_step) == (Outcome.UNKNOWN, STEP)
    assert found.what == "GIDs: no port could be read; 4 of 6 devices did not answer"


def bare(site: Any, device: str) -> None:
    """See nothing of a device's ports."""
    seen = site.seen[device]
    none = replace(seen.last, ports={})
    site.seen[device] = replace(seen, first=none, last=none)


def test_drivers_are_asked_for_only_where_the_inventory_names_none(site: Any) -> None:
    for device in site.seen:
        bare(site, device)
    site.fabric = Fabric(tuple(replace(one, driver="") for one in site.fabric.devices), site.fabric.links)
    step = "name the drivers of node1, node2, node3, node4 and 2 more in the inventory"
    survey = Survey(site.fabric, site.policy, {}, site.seen)
    assert [f.next_step for f in finder.link_check("mtu").judge(survey)] == [step]


def test_ports_that_the_driver_does_not_know(make_site: Any) -> None:
    site = make_site(only=["leaf1"])
    bare(site, "leaf1")
    (found,) = site.judge("mtu")
    assert found.what == "MTUs: no port could be read"
    assert found.next_step == "see that the ports that the inventory names are those that the devices have"
