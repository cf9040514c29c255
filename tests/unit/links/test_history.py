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
OTHER = PortId("node2", "eth1")
FABRIC = Fabric(
    tuple(
        Device(port.device, Role.NODE, "rxe", Endpoint(port.device), (Port(port),)) for port in (PORT, OTHER)
    ),
    (),
    source="/inv.yml",
)
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


def _seen(at: float, *ports: tuple[PortId, int, int], boot: str = "b1") -> Survey:
    """Return a survey that saw a first and a last count of some ports."""
    found = {}
    for port, *counts in ports:
        first, last = (
            DeviceReading(
                port.device,
                at,
                {port: PortReading(port, {}, {facts.LINK_DOWNS: Known(count)})},
                {facts.BOOT_ID: Known(boot)},
            )
            for count in counts
        )
        found[port.device] = Observation(port.device, first, last, 1.0)
    return Survey(FABRIC, POLICY, {}, found, now=at)


def test_a_limited_watch_and_runs_without_readings_hide_no_other_port(store: Store) -> None:
    """As seen in a lab: the run before was no longer looked at, for its neighbour had newer records."""
    for at, downs in ((50.0, 3), (100.0, 4)):
        History(store, "/inv.yml").keep(_seen(at, (PORT, 2, 2), (OTHER, downs, downs)), GOOD, at - 5)
    watch = History(store, "/inv.yml")
    for at, downs in ((300.0, 2), (303.0, 3), (306.0, 3)):
        watch.keep(_seen(at, (PORT, downs, downs)), GOOD, at - 3)
    History(store, "/inv.yml").keep(_seen(310.0), GOOD, 309.0)
    History(store, "/inv.yml").keep(_seen(320.0, (PORT, 3, 3)), GOOD, 315.0)
    past = History(store, "/inv.yml").ports(305.0)
    assert [(one.at, one.link_downs) for one in past[PORT]] == [(320.0, 3), (303.0, 3)]
    assert [(one.at, one.link_downs) for one in past[OTHER]] == [(100.0, 4)]
    past = History(store, "/inv.yml").ports(90.0)
    assert [(one.at, one.link_downs) for one in past[OTHER]] == [(100.0, 4), (50.0, 3)]


def test_a_run_that_read_no_port_is_kept_without_a_record(store: Store) -> None:
    History(store, "/inv.yml").keep(_seen(100.0), GOOD, 99.0)
    assert [run.outcome for run in store.runs()] == [Outcome.PASS]
    assert store.records("links") == ()


def test_what_fell_within_the_first_run_is_known_to_the_next(store: Store) -> None:
    History(store, "/inv.yml").keep(_seen(100.0, (PORT, 2, 3)), GOOD, 89.0)
    assert History(store, "/inv.yml").ports(0)[PORT] == (PortPast(100.0, "b1", 3), PortPast(89.0, "b1", 2))


def test_a_watch_keeps_a_reboot_after_which_the_count_is_the_same(store: Store) -> None:
    watch = History(store, "/inv.yml")
    first = watch.keep(_seen(100.0, (PORT, 1, 1)), GOOD, 99.0)
    assert watch.keep(_seen(110.0, (PORT, 1, 1), boot="b2"), GOOD, 109.0) != first
    assert watch.keep(_seen(120.0), GOOD, 119.0) != first
    assert [one.boot_id for one in watch.ports(0)[PORT]] == ["b2", "b1"]


def test_a_record_of_an_earlier_version_is_read(store: Store) -> None:
    run = store.begin(RunKind.LINKS, "me", "/inv.yml", now=90.0)
    store.put_record(run.id, "links", {"at": 100.0, "ports": {"node1/eth1": ["b1", 2]}})
    assert History(store, "/inv.yml").ports(0) == {PORT: (PortPast(100.0, "b1", 2),)}
