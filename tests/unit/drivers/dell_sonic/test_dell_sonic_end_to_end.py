"""From plan to rollback through real ansible: SSH to a simulated switch, network_cli, Dell's own plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fabricctl.apply.confirm import confirm
from fabricctl.apply.drift import drift
from fabricctl.apply.flow import Options, apply
from fabricctl.apply.record import load
from fabricctl.apply.rollback import rollback
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.policy import EcnProfile, Limits, MtuPolicy, Policy, TrafficClass, Watchdog
from fabricctl.model.verdict import Outcome
from fabricctl.store import Store

POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=TrafficClass(3, 26),
    cnp=TrafficClass(6, 48),
    mtu=MtuPolicy(9000, 9216, 4096),
    pfc_priorities=(3,),
    ecn={0: EcnProfile(150_000, 1_500_000, 100)},
    limits=Limits(latency=(), loss=None),
    watchdog=Watchdog(),
)


@pytest.fixture
def site(make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from simulators.cli.site import reached  # noqa: PLC0415  the simulators' folder is known by now

    with reached("dell_sonic", make(2), tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as made:
        yield made


def test_plan_apply_again_drift_and_rollback(site: Any, store: Store) -> None:
    site.bench.by_hand()
    site.bench.port_by_hand("mtu 9000", "no qos-map tc-pg", "queue 3 wred-policy ROCE")
    site.bench.switch.configure("interface Eth1/2\nno scheduler-policy\npriority-flow-control watchdog off")
    first = site.bench.running()
    done = apply(site.fabric, POLICY, Options(), site.tools(), store, lambda _: True)
    assert [outcome.message for outcome in site.outcomes] == ["", ""]
    assert (done.outcome, done.proven == done.total, done.failed) == (Outcome.PASS, True, {})
    assert {step.disruption.value for step in done.plan.steps} >= {"buffer re-carve", "mtu change"}
    assert (site.bench.switch.timers(), site.bench.switch.left()) == ({}, [])
    assert site.bench.known(settings.BOOT) == [settings.SAVED]
    again = apply(site.fabric, POLICY, Options(), site.tools(), store, lambda _: True)
    assert (again.plan.steps, len(site.outcomes)) == ((), 2)
    site.bench.port_by_hand("no priority-flow-control priority 3", number=2)
    found = drift(site.fabric, load(store, site.fabric.source), (), site.tools())
    assert {str(each.port) for each in found.differences} == {"leaf1/Eth1/2"}
    assert settings.PFC in {each.setting for each in found.differences}
    site.bench.port_by_hand("priority-flow-control priority 3", number=2)
    back = rollback(site.fabric, None, Options(), site.tools(), store, lambda _: True)
    assert back is not None
    assert (back.outcome, back.failed) == (Outcome.PASS, {})
    assert site.bench.known(settings.MTU, settings.WATCHDOG) == [9000, (3,)]
    assert site.bench.known(settings.WATCHDOG, number=2) == [()]
    assert first.count("interface ") == site.bench.running().count("interface ")


def test_a_refused_line_is_said_in_the_switchs_own_words(site: Any, store: Store) -> None:
    first = site.bench.running()
    refused = {
        "cable-length 5m|cable-length .*": "%Error: Unsupported on this platform",
        "ecn green": "%Error: Busy",
    }
    site.bench.switch.change(odd_refusals=refused)
    done = apply(site.fabric, POLICY, Options(), site.tools(), store, lambda _: True)
    assert done.outcome is Outcome.FAIL
    assert "ecn green: %Error: Busy" in next(iter(done.failed.values()))
    site.bench.switch.change(odd_refusals={})
    assert site.bench.running() == first


def test_a_confirm_that_never_comes_and_one_that_does(site: Any, store: Store) -> None:
    first = site.bench.running()
    options = Options(confirm_within_s=900)
    waits = apply(site.fabric, POLICY, options, site.tools(), store, lambda _: True)
    assert waits.deadline is not None
    assert site.bench.known(settings.MTU) == [9216]
    site.bench.switch.time_passes()
    assert site.bench.running() == first
    late = confirm(site.fabric, None, site.tools(), store)
    assert "reverted before it was confirmed" in next(iter(late.failed.values()))
