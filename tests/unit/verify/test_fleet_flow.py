"""The whole of verify over real agent processes and a stand-in for pyverbs."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl import readback
from fabricctl.errors import BusyError, StoreError, UsageError
from fabricctl.model.fabric import Fabric, LinkLayer
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Limits, LossLimit, MtuPolicy, Policy, TrafficClass
from fabricctl.model.reading import DeviceReading, Known, PortReading
from fabricctl.model.settings import PFC
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder
from fabricctl.store import Store
from fabricctl.store.lock import hold
from fabricctl.verify import agents, flow
from fabricctl.verify.agents import Patience
from fabricctl.verify.flow import Means, Request, verify

PATIENCE = Patience(start=20, answer=2, idle=30)
POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=TrafficClass(3, 26),
    cnp=None,
    mtu=MtuPolicy(9000, 9216, 4096),
    pfc_priorities=(),
    ecn={},
    limits=Limits(
        (), LossLimit(0.0, 0.01, 0.95), 20, 5, 8, 2, bandwidth_seconds=0.1, bandwidth_sizes=(8192,)
    ),
)


def _load(name: str) -> Any:
    path = Path(__file__).parents[2] / "fakes" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"fakes_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fakes = _load("nodes")


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    fabric = replace(fakes.make_fabric(3), source="/inventory.yml", simulated="processes")
    with fakes.FakeNodes(tmp_path, fabric) as made:
        made.fabric = fabric
        monkeypatch.setattr(agents, "PYTHON", str(made.python))
        yield made


def test_clean_fabric_passes_and_is_kept(nodes: Any) -> None:
    seen: list[tuple[int, int]] = []
    with Store.open() as store:
        means = Means(nodes, store, lambda done, total: seen.append((done, total)), PATIENCE)
        report = verify(nodes.fabric, POLICY, Request(), means)
        kept = store.verify(report.run.id)
        certificates = store.certificates()
    assert {v.outcome for v in report.verdicts} == {Outcome.PASS}
    assert len(report.verdicts) == 6
    assert report.run.outcome is Outcome.PASS
    assert report.run.summary == "6 pairs: 6 pass"
    assert kept is not None
    names = [n for n in finder.names("probe") if not finder.probe(n).on_request]
    assert {s.probe for s in kept.samples} == set(names)
    assert len(kept.samples) == 6 * len(names)
    assert [str(c.port) for c in certificates] == ["node1/eth1", "node2/eth1", "node3/eth1"]
    assert seen[0] == (0, 6)
    assert seen[-1] == (6, 6)
    shown = finder.report("text").render(report)
    assert "SIMULATED: processes; " in shown
    assert re.search(r"0 of [34]\d\d \(< 0\.00\d+ at 95 %\)", shown)
    assert "3 ports certified until " in shown


def test_lossy_node_fails_and_is_named(nodes: Any) -> None:
    nodes.environment["node2"] = {"FAKE_LOSS": "0.2"}
    with Store.open() as store:
        report = verify(
            nodes.fabric, POLICY, Request(probes=("loss",)), Means(nodes, store, patience=PATIENCE)
        )
    failed = {str(v.pair) for v in report.verdicts if v.outcome is Outcome.FAIL}
    assert failed == {"node2/eth1 -> node1/eth1", "node2/eth1 -> node3/eth1"}
    assert report.run.outcome is Outcome.FAIL
    shown = finder.report("text").render(report)
    assert "FAIL node2/eth1 -> node1/eth1\n" in shown
    assert "SUSPECT" in shown
    assert "node2" in report.suspects[0].element


def test_unreachable_node_makes_its_pairs_unknown(nodes: Any) -> None:
    nodes.environment["node3"] = {"UNREACHABLE": "1"}
    with Store.open() as store:
        report = verify(nodes.fabric, POLICY, Request(), Means(nodes, store, patience=PATIENCE))
    outcomes = {str(v.pair): v.outcome for v in report.verdicts}
    assert {o for pair, o in outcomes.items() if "node3" in pair} == {Outcome.UNKNOWN}
    assert {o for pair, o in outcomes.items() if "node3" not in pair} == {Outcome.PASS}
    assert "AGENT node3: no route to host; is it on?" in finder.report("text").render(report)


def test_time_budget_leaves_later_rounds_unknown(nodes: Any) -> None:
    with Store.open() as store:
        request = Request(time_budget_s=0.0)
        told: list[str] = []
        means = Means(nodes, store, patience=PATIENCE, tell=told.append)
        report = verify(nodes.fabric, POLICY, request, means)
    outcomes = [v.outcome for v in report.verdicts]
    assert outcomes.count(Outcome.PASS) == 2  # both directions of a couple
    assert outcomes.count(Outcome.UNKNOWN) == 4
    assert told[0].startswith("the time budget has ")
    assert " cover 2 of 6 pairs (2 never tested) and leave 4 (4 never tested)" in told[0]
    assert report.coverage["quiet"]["left_out"] == {"never": 4}
    left = [s for s in report.samples if s.error]
    assert len(left) == 4 * len({s.probe for s in report.samples})
    assert {(s.error_kind, s.error) for s in left} == {("budget", "left out: --time-budget 0 s was used up")}


def test_limit_keeps_pairs_with_both_ends_named(nodes: Any) -> None:
    with Store.open() as store:
        request = Request(limit=("node[12]",), probes=("read_latency",))
        report = verify(nodes.fabric, POLICY, request, Means(nodes, store, patience=PATIENCE))
    there = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    assert {v.pair for v in report.verdicts} == {there, there.reverse}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(limit=("node1",)), "leaves no pair"),
        (Request(limit=("nodee1",)), "did you mean node1"),
        (Request(probes=("los",)), "did you mean loss"),
    ],
)
def test_senseless_requests_are_refused_before_anything_is_contacted(
    nodes: Any, request_: Request, message: str
) -> None:
    with Store.open() as store, pytest.raises(UsageError) as caught:
        verify(nodes.fabric, POLICY, request_, Means(nodes, store, patience=PATIENCE))
    assert message in str(caught.value)
    assert nodes.started == {}


def test_second_verify_of_the_same_fabric_is_refused(nodes: Any) -> None:
    with Store.open() as store, hold("/inventory.yml", "apply"), pytest.raises(BusyError):
        verify(nodes.fabric, POLICY, Request(), Means(nodes, store, patience=PATIENCE))


def _readings(fabric: Fabric, *, pfc: tuple[int, ...]) -> dict[str, DeviceReading]:
    return {
        device.name: DeviceReading(
            device.name, 0.0, {port.id: PortReading(port.id, {PFC: Known(pfc)}) for port in device.ports}
        )
        for device in fabric.devices
    }


@pytest.mark.parametrize("judged", [True, False], ids=["against the policy", "not ours to judge"])
def test_a_setting_changed_during_a_run_certifies_nothing(
    nodes: Any, monkeypatch: pytest.MonkeyPatch, *, judged: bool
) -> None:
    fabric = replace(nodes.fabric, devices=tuple(replace(d, driver="rxe") for d in nodes.fabric.devices))
    broken = {**_readings(fabric, pfc=(3,)), "leaf1": _readings(fabric, pfc=())["leaf1"]}
    replies = [_readings(fabric, pfc=(3,)), broken]
    monkeypatch.setattr(readback, "read", lambda *_, **__: replies.pop(0))

    def differing(readings: Mapping[str, DeviceReading]) -> dict[PortId, str]:
        ports = (port for reading in readings.values() for port in reading.ports.values())
        return {p.port: "pfc_priorities" for p in ports if judged and p.settings[PFC] == Known(())}

    with Store.open() as store:
        means = Means(nodes, store, patience=PATIENCE, deviations=differing)
        report = verify(fabric, POLICY, Request(pairs="node1:node2", probes=("loss",)), means)
    wanted = Outcome.FAIL if judged else Outcome.UNKNOWN
    assert {v.outcome for v in report.verdicts} == {wanted}
    assert {c.outcome for c in report.certificates} == {wanted}
    assert report.suspects == ()
    assert (
        "leaf1/n1r0 is not set as the policy says: pfc_priorities"
        if judged
        else "leaf1/n1r0: changed while it was probed: pfc_priorities"
    ) in {f.what for f in report.verdicts[0].findings}


def test_results_that_cannot_be_kept_are_shown_all_the_same(
    nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    with Store.open() as store:
        monkeypatch.setattr(store, "put_certificates", full)
        report = verify(
            nodes.fabric, POLICY, Request(probes=("loss",)), Means(nodes, store, patience=PATIENCE)
        )
    assert {v.outcome for v in report.verdicts} == {Outcome.PASS}
    assert (report.unkept, report.certificates) == ("the disk is full", ())


def test_two_fabrics_with_the_same_names_are_not_mixed_in_one_store(nodes: Any) -> None:
    with Store.open() as store:
        means = Means(nodes, store, patience=PATIENCE)
        verify(nodes.fabric, POLICY, Request(probes=("loss",)), means)
        other = replace(nodes.fabric, source="/other.yml")
        with pytest.raises(UsageError, match="certified already, from another inventory") as caught:
            verify(other, POLICY, Request(probes=("loss",)), means)
        assert "FABRICCTL_STORE" in caught.value.next_step
        store.end_certificates("/inventory.yml", "a test", "moved", 0.0)
        assert verify(other, POLICY, Request(probes=("loss",)), means).run.outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (UsageError("no such thing", next_step="try another"), "ended early: no such thing; try another"),
        (RuntimeError("oops"), "ended by a bug: RuntimeError('oops')"),
    ],
)
def test_how_a_run_ended_early_is_kept(
    nodes: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, summary: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(readback, "read", broken)
    with Store.open() as store:
        with pytest.raises(type(error)):
            verify(nodes.fabric, POLICY, Request(), Means(nodes, store, patience=PATIENCE))
        (run,) = store.runs()
    assert (run.outcome, run.summary) == (Outcome.UNKNOWN, summary)


@pytest.mark.parametrize(
    "error", [StoreError("no space is left"), BusyError("another run is writing")], ids=repr
)
def test_why_a_run_ended_early_is_told_though_the_store_cannot_keep_it(
    nodes: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def raising(what: BaseException) -> Any:
        def broken(*_: object, **__: object) -> None:
            raise what

        return broken

    with Store.open() as store:
        monkeypatch.setattr(readback, "read", raising(RuntimeError("oops")))
        monkeypatch.setattr(store, "finish", raising(error))
        with pytest.raises(RuntimeError, match="oops"):
            verify(nodes.fabric, POLICY, Request(), Means(nodes, store, patience=PATIENCE))


def test_suspects_are_paired_with_good_partners_afterwards(
    nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = replace(fakes.make_fabric(4), source="/inventory.yml", simulated="processes")
    told: list[str] = []
    with fakes.FakeNodes(nodes.folder / "four", fabric) as four:
        monkeypatch.setattr(agents, "PYTHON", str(four.python))
        four.environment["node2"] = {"FAKE_LOSS": "0.5"}
        with Store.open() as store:
            means = Means(four, store, patience=PATIENCE, tell=told.append)
            request = Request(pairs="node1:node2,node3:node4", probes=("loss",))
            report = verify(fabric, POLICY, request, means)
    assert told[0].endswith("pairs more, to tell what is at fault")
    more = {str(v.pair): v.outcome for v in report.verdicts[4:]}
    # node1 and node2 each meet good ports; what node2 sends is lost there too, what node1 sends is not.
    assert {o for pair, o in more.items() if pair.startswith("node2/")} == {Outcome.FAIL}
    assert {o for pair, o in more.items() if pair.startswith("node1/")} == {Outcome.PASS}
    assert "node2" in report.suspects[0].element


def test_nothing_changed_leaves_nothing_to_do_and_says_so(
    nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open() as store:
        means = Means(nodes, store, patience=PATIENCE)
        monkeypatch.setattr(flow, "needed", lambda pairs, _past: pairs.at([]))
        report = verify(nodes.fabric, POLICY, Request(pairs="changed"), means)
    assert nodes.started == {}
    # What holds was proven before; nothing is certified anew.
    assert (report.run.outcome, report.verdicts, report.certificates) == (Outcome.PASS, (), ())
    assert report.run.summary == "0 pairs: nothing has changed since they were certified"
