"""The difference between clocks lies between two bounds."""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl.model.verdict import Outcome
from fabricctl.plugin.surveying import Clock


@pytest.mark.parametrize(
    ("low", "high", "outcome", "said"),
    [
        (-0.2, 0.3, Outcome.PASS, "its clock is at most 0.200 s behind and 0.300 s ahead of this machine's"),
        (0.5, 1.0, Outcome.PASS, "its clock is 0.500 to 1.000 s ahead of this machine's"),
        (1.001, 1.5, Outcome.FAIL, "its clock is 1.001 to 1.500 s ahead of this machine's"),
        (-90.5, -90.0, Outcome.FAIL, "its clock is 90.000 to 90.500 s behind this machine's"),
        (
            -0.5,
            1.5,
            Outcome.UNKNOWN,
            "its clock is at most 0.500 s behind and 1.500 s ahead of this machine's",
        ),
        (
            -3.0,
            0.1,
            Outcome.UNKNOWN,
            "its clock is at most 3.000 s behind and 0.100 s ahead of this machine's",
        ),
    ],
)
def test_bounds(hosts: Any, low: float, high: float, outcome: Outcome, said: str) -> None:
    hosts.guest().clock = Clock(low, high)
    (found,) = hosts.judge("clock")
    assert found.outcome is outcome
    assert found.what.startswith(f"{said}, the policy allows 1 s; nothing was seen that keeps it in step")
    assert (found.measured, found.limit) == (f"{low:+.3f} .. {high:+.3f} s", "<= 1 s")
    assert bool(found.next_step) is (outcome is not Outcome.PASS)
    assert found.culprit == ("node1" if outcome is Outcome.FAIL else "")


def test_the_limit_is_the_policy_s(hosts: Any) -> None:
    hosts.guest().clock = Clock(20.0, 25.0)
    hosts.policy(clock_skew_s=30.0)
    assert hosts.bad("clock") == []


def test_no_time_is_unknown(hosts: Any) -> None:
    hosts.guest().clock = None
    assert hosts.bad("clock") == [(Outcome.UNKNOWN, "node1", "it did not say its time")]


@pytest.mark.parametrize(
    ("name", "said"),
    [("chronyd", "chronyd runs"), ("systemd-timesyn", "systemd-timesyncd runs and has the time")],
)
def test_what_keeps_it_in_step_is_told(hosts: Any, name: str, said: str) -> None:
    node = hosts.guest()
    node.process(300, name)
    if "has the time" in said:
        node.write("/run/systemd/timesync/synchronized", "")
    assert hosts.told("clock")[0].endswith(f"the policy allows 1 s; {said}")
