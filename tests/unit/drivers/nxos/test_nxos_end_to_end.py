"""From plan to rollback through real ansible: SSH to a simulated switch, network_cli, cisco.nxos' plugins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fabricctl.apply.compose import Job
from fabricctl.apply.drift import drift
from fabricctl.apply.flow import Options, apply
from fabricctl.apply.record import load
from fabricctl.apply.rollback import rollback
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.policy import EcnProfile, Limits, MtuPolicy, Policy, TrafficClass, Watchdog
from fabricctl.model.verdict import Outcome
from fabricctl.store import Store


def policy(kmin_bytes: int = 150_000) -> Policy:
    return Policy(
        name="test",
        link_layer=LinkLayer.ETHERNET,
        lossless=TrafficClass(3, 26),
        cnp=TrafficClass(6, 48),
        mtu=MtuPolicy(9000, 9216, 4096),
        pfc_priorities=(3,),
        ecn={0: EcnProfile(kmin_bytes, 1_500_000, 7)},
        limits=Limits(latency=(), loss=None),
        watchdog=Watchdog(),
    )


@pytest.fixture
def site(make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from simulators.cli.site import reached  # noqa: PLC0415  the simulators' folder is known by now

    with reached("nxos", make(2), tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def test_plan_apply_again_drift_and_rollback(site: Any, store: Store) -> None:
    first = sorted(site.bench.lines())
    done = apply(site.fabric, policy(), Options(), site.tools(), store, lambda _: True)
    assert [outcome.message for outcome in site.outcomes] == ["", ""]
    assert (dict(done.failed), done.plan.unread, done.held) == ({}, {}, {})
    assert done.outcome is Outcome.PASS
    assert done.proven == done.total
    assert {step.disruption.value for step in done.plan.steps} >= {"system-wide", "queue reset", "mtu change"}
    assert site.bench.switch.checkpoints == {}
    assert site.bench.known(settings.BOOT) == [settings.SAVED]
    again = apply(site.fabric, policy(), Options(), site.tools(), store, lambda _: True)
    assert (again.plan.steps, len(site.outcomes)) == ((), 2)
    site.bench.switch.configure("interface Ethernet1/2", "priority-flow-control mode off")
    found = drift(site.fabric, load(store, site.fabric.source), (), site.tools())
    assert {(str(each.port), each.setting) for each in found.differences} == {
        ("leaf1/Ethernet1/2", settings.PFC),
        ("leaf1/Ethernet1/2", "nxos.pfc_mode"),
        ("leaf1/Ethernet1/2", settings.BOOT),
    }
    site.bench.switch.configure("interface Ethernet1/2", "priority-flow-control mode on")
    back = rollback(site.fabric, None, Options(), site.tools(), store, lambda _: True)
    assert back is not None
    assert (dict(back.failed), back.plan.unread, back.held) == ({}, {}, {})
    assert back.outcome is Outcome.PASS
    assert sorted(line for line in site.bench.lines() if line != "feature scheduler") == first


def test_a_session_that_drops_in_the_middle_is_reverted(site: Any, store: Store) -> None:
    first = sorted(site.bench.lines())
    site.bench.switch.faults.drop_before = "system qos"
    done = apply(site.fabric, policy(), Options(), site.tools(), store, lambda _: True)
    assert done.outcome is Outcome.FAIL
    assert {text.rpartition(" (")[2] for text in done.failed.values()} == {"reverted, and read back so)"}
    assert sorted(line for line in site.bench.lines() if line != "feature scheduler") == first
    assert site.bench.switch.checkpoints == {}


def test_while_another_controllers_apply_waits_nothing_is_changed_or_saved(site: Any, store: Store) -> None:
    bench, other = site.bench, "a20270115-070000-ffff"
    text = bench.push_text(bench.goals(bench.wanted()), 10, apply_id=other)
    shown = bench.switch.now() + dt.timedelta(seconds=10)
    assert [outcome.message for outcome in site.push([Job(site.fabric.devices[0], text)])] == [""]
    # The time is the playbook's: it is the minute after the one that is shown.
    (start,) = [line.split()[-1] for line in bench.lines() if "time start" in line]
    assert shown.strftime("%Y:%m:%d:%H:%M") < start
    lines, saved = bench.lines(), bench.switch.startup
    for kmin_bytes, why in ((200_000, f"apply {other} waits"), (150_000, "another apply waits")):
        # The second has nothing to set and would only save.
        done = apply(site.fabric, policy(kmin_bytes), Options(), site.tools(), store, lambda _: True)
        assert done is not None
        assert done.outcome is Outcome.FAIL
        assert all(f"{why} to be confirmed here" in text for text in done.failed.values())
        assert bench.lines() == lines
        assert bench.switch.startup is saved
