from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fabricctl.links.history import History
from fabricctl.model import facts
from fabricctl.model.fabric import Device, Endpoint, Fabric, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import Limits, MtuPolicy, Policy
from fabricctl.model.reading import DeviceReading, Known, Missing, PortReading
from fabricctl.model.run import RunKind
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.surveying import Observation, PortPast, Survey
from fabricctl.store import Store

PORT = PortId("node1", "eth1")
POLICY = Policy("p", LinkLayer.ETHERNET, None, None, MtuPolicy(9000, 9216, 4096), (), {}, Limits((), None))
FABRIC = Fabric((Device("node1", Role.NODE, "rxe", Endpoint("node1"), (Port(PORT),)),), (), source="/inv.yml")
GOOD = (Finding("flaps", "node1/eth1", Outcome.PASS, "no flap"),)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def _survey(at: float, downs: int | None, boot: str = "b1") -> Survey:
    found = Missing("no such file") if downs is None else Known(downs)
    ports = {PORT: PortReading(PORT, {}, {facts.LINK_DOWNS: found})}
    reading = DeviceReading("node1", at, ports, {facts.BOOT_ID: Known(boot)})
    return Survey(FABRIC, POLICY, {}, {"node1": Observation("node1", reading, reading, 1.0)}, now=at)


def test_a_later_run_sees_earlier_ones_newest_first(store: Store) -> None:
    for at, downs in ((100.0, 1), (200.0, 3)):
        History(store, "/inv.yml").keep(_survey(at, downs), GOOD, at - 5)
    assert History(store, "/inv.yml").ports(0) == {PORT: (PortPast(200.0, "b1", 3), PortPast(100.0, "b1", 1))}
    assert History(store, "/other.yml").ports(0) == {}
    run = store.runs(1)[0]
    assert (run.kind, run.outcome, run.summary, run.started_at) == (
        RunKind.LINKS,
        Outcome.PASS,
        "1 pass",
        195.0,
    )
    assert run.id.startswith("l")


def test_of_runs_before_the_stable_time_only_the_newest_counts(store: Store) -> None:
    for at, downs in ((100.0, 1), (200.0, 2), (300.0, 3)):
        History(store, "/inv.yml").keep(_survey(at, downs), GOOD, at)
    past = History(store, "/inv.yml").ports(250.0)[PORT]
    assert [one.link_downs for one in past] == [3, 2]


def test_what_is_not_known_is_not_kept(store: Store) -> None:
    History(store, "/inv.yml").keep(_survey(100.0, None), GOOD, 100.0)
    assert History(store, "/inv.yml").ports(0) == {}


def test_a_watch_keeps_only_rounds_that_differ_and_remembers_the_last(store: Store) -> None:
    watch = History(store, "/inv.yml")
    first = watch.keep(_survey(100.0, 1), GOOD, 100.0)
    assert watch.keep(_survey(110.0, 1), GOOD, 110.0) == first
    assert watch.ports(0)[PORT] == (PortPast(110.0, "b1", 1), PortPast(100.0, "b1", 1))
    assert watch.keep(_survey(120.0, 2), GOOD, 120.0) != first
    bad = (Finding("flaps", "node1/eth1", Outcome.FAIL, "it flapped"),)
    watch.keep(_survey(130.0, 2), bad, 130.0)
    assert [run.outcome for run in store.runs()] == [Outcome.FAIL, Outcome.PASS, Outcome.PASS]


def test_a_run_that_judged_nothing_is_unknown(store: Store) -> None:
    History(store, "/inv.yml").keep(_survey(100.0, 1), (), 100.0)
    run = store.runs(1)[0]
    assert (run.outcome, run.summary) == (Outcome.UNKNOWN, "nothing was judged")
