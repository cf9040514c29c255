"""The PFC watchdog: of the policy, and of switches that were read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fabricctl.drivers import wishes
from fabricctl.model import settings
from fabricctl.model.policy import Watchdog
from fabricctl.model.reading import Missing, Value
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder

SWITCH_PORTS = ("leaf1/Ethernet0", "leaf2/Ethernet1/1", "spine1/swp2", "pod1/Ethernet1/1")
PORT = SWITCH_PORTS[0]
every_switch = pytest.mark.parametrize("port", SWITCH_PORTS)


def test_as_intended_every_switch_port_passes(site: Any) -> None:
    found = site.judge("watchdog")
    assert [(f.outcome, f.what) for f in found] == [(Outcome.PASS, "on priorities 3, as read")] * 9


@every_switch
@pytest.mark.parametrize(
    ("setting", "value", "what"),
    [
        (settings.WATCHDOG, (), "priority 3 has PFC, but no watchdog ends its pause storms"),
        (settings.WATCHDOG, (3, 4), "the watchdog is on for priority 4, which has no PFC"),
        (settings.WATCHDOG_RESTORE, 200, "the watchdog's restoration time is 200 ms, not 400 ms"),
        (settings.WATCHDOG_DETECT, 200, "the watchdog's detection time is 200 ms, not 400 ms"),
        (settings.WATCHDOG_POLL, 100, "the watchdog's polling interval is 100 ms, not 200 ms"),
        (
            settings.WATCHDOG_POLL,
            300,
            "the watchdog polls every 300 ms, less than twice within its detection time of 400 ms",
        ),
        (
            settings.WATCHDOG_POLL,
            500,
            "the watchdog polls every 500 ms and is to detect after 400 ms: it sees storms late",
        ),
    ],
)
def test_every_way_to_break_it(site: Any, port: str, setting: str, value: Value, what: str) -> None:
    site.set(port, setting, value)
    assert (port, what) in site.fails("watchdog")
    assert {subject for subject, _ in site.fails("watchdog")} == {port}


def test_another_action(site: Any) -> None:
    site.set(PORT, settings.WATCHDOG_ACTION, "forward")
    assert site.fails("watchdog") == [(PORT, "the watchdog's action is forward, not drop")]


@every_switch
def test_a_value_that_was_not_read_is_unknown(site: Any, port: str) -> None:
    site.set(port, settings.WATCHDOG_POLL, Missing("not said"))
    assert site.bad("watchdog") == [(Outcome.UNKNOWN, port, "pfc_watchdog_poll_ms: not said")]


@every_switch
def test_a_watchdog_that_the_policy_has_off(site: Any, port: str) -> None:
    site.policy = replace(site.policy, watchdog=Watchdog(on=False))
    site.as_intended()
    assert {f.what for f in site.judge("watchdog")} == {"off, as read"}
    site.set(port, settings.WATCHDOG, (3,))
    assert site.fails("watchdog") == [(port, "the watchdog is on for priorities 3, the policy has it off")]


def test_a_watchdog_that_is_left_to_the_switch(site: Any) -> None:
    """The switches' own default, one poll in the time of detection, is worth a note; less than one fails."""
    site.policy = replace(site.policy, watchdog=None)
    site.as_intended()
    assert {f.what for f in site.judge("watchdog")} == {"the watchdog is left to the switch"}
    site.set(PORT, settings.WATCHDOG, (3,))
    site.set(PORT, settings.WATCHDOG_DETECT, 200)
    site.set(PORT, settings.WATCHDOG_POLL, 200)
    (found,) = [f for f in site.judge("watchdog") if f.subject == PORT]
    assert (found.outcome, found.next_step) == (Outcome.PASS, "poll at least every 100 ms")
    site.set(PORT, settings.WATCHDOG_POLL, 400)
    assert site.fails("watchdog") == [
        (PORT, "the watchdog polls every 400 ms and is to detect after 200 ms: it sees storms late")
    ]


def test_a_switch_whose_driver_has_none_is_unknown_where_one_is_meant(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    find: Any = finder.switch_driver
    monkeypatch.setattr(finder, "switch_driver", lambda name: replace(find(name), wanted=wishes.of_port))
    site.as_intended()
    assert {(outcome, what) for outcome, _, what in site.bad("watchdog")} == {
        (Outcome.UNKNOWN, "pfc_watchdog: the driver of this switch has none")
    }


def test_without_a_switch_that_was_read_it_is_unknown(site: Any) -> None:
    site.readings = {"node1": site.readings["node1"]}
    assert site.bad("watchdog") == [
        (Outcome.UNKNOWN, "fabric", "no switch port was read whose watchdog could be judged")
    ]


@pytest.mark.parametrize(
    ("dog", "outcome", "what"),
    [
        (None, Outcome.PASS, "the watchdog is left to the switches"),
        (Watchdog(on=False), Outcome.PASS, "the watchdog is off, or there is no PFC to watch"),
        (Watchdog(), Outcome.PASS, "it polls every 200 ms and detects after 400 ms, on priority 3"),
        (Watchdog(poll_ms=201), Outcome.FAIL, "it polls every 201 ms and detects after 400 ms: too rarely"),
    ],
)
def test_offline_it_is_the_policys(site: Any, dog: Watchdog | None, outcome: Outcome, what: str) -> None:
    site.readings = None
    site.policy = replace(site.policy, watchdog=dog)
    (found,) = site.judge("watchdog")
    assert (found.outcome, found.subject, found.what) == (outcome, "policy test", what)
