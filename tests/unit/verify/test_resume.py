"""A verify that was killed goes on: no couple is lost, none is measured twice. All over simulated agents."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.agent.simulated import ENGINE
from fabricctl.errors import BusyError, FabricctlError, StoreError, UsageError
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.probe import Sample
from fabricctl.model.run import RunKind
from fabricctl.model.verdict import Outcome
from fabricctl.model.verdicts import Verdicts, outcomes
from fabricctl.plugin.protocols import RunReport
from fabricctl.store import Store
from fabricctl.transport import connect
from fabricctl.verify import ledger, pending
from fabricctl.verify.flow import Means, Request, resume, verify
from fabricctl.verify.simulation import refuse_beside_real, simulated_launch

BENCH = Path(__file__).parents[2] / "bench" / "thousand.py"


def _bench() -> Any:
    spec = importlib.util.spec_from_file_location("bench_thousand", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bench = _bench()
REQUEST = Request(pairs="all", probes=("read_latency", "loss"), engine=ENGINE)


class Run:
    """A fabric of simulated nodes with a store."""

    def __init__(self, folder: Path, nodes: int, world: dict[str, Any] | None = None) -> None:
        self.fabric: Fabric = bench.make_fabric(nodes, str(folder / "inventory.yml"))
        self.path = folder / "store.sqlite"
        self.world = world
        self.policy = bench.POLICY

    def verify(self, request: Request = REQUEST, progress: Any = None) -> RunReport:
        with Store.open(self.path) as store, connect() as way:
            return verify(self.fabric, self.policy, request, self.means(store, way, progress))

    def resume(self, run_id: str = "") -> RunReport:
        with Store.open(self.path) as store, connect() as way:
            return resume(self.fabric, self.policy, run_id, self.means(store, way))

    def means(self, store: Store, way: Any, progress: Any = None) -> Means:
        shown = {"progress": progress} if progress else {}
        return Means(way, store, launch=simulated_launch(self.fabric, self.world), **shown)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "BATCH_COUPLES", 4)


@pytest.fixture(params=[20_000, 0], ids=["whole", "alike"])
def size(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    monkeypatch.setattr(ledger, "WHOLE_PAIRS", request.param)
    return int(request.param)


def _all_pairs(fabric: Fabric) -> set[PairId]:
    ports = [port.id for port in fabric.node_ports()]
    return {PairId(a, b) for a in ports for b in ports if a != b}


def _measured(run: Run, run_id: str) -> Counter[tuple[PairId, str]]:
    with Store.open(run.path) as store:
        return Counter((sample.pair, sample.probe) for sample in store.probed(run_id))


def test_a_simulated_run_passes_and_says_what_it_is(tmp_path: Path, size: int) -> None:
    run = Run(tmp_path, 5)
    report = run.verify()
    assert outcomes(report.verdicts) == {Outcome.PASS: 20}
    assert {verdict.pair for verdict in report.verdicts} == _all_pairs(run.fabric)
    assert {sample.engine for sample in report.samples} == {"simulated 1"}
    assert all("model" in certificate.simulated for certificate in report.certificates)
    assert [certificate.outcome for certificate in report.certificates] == [Outcome.PASS] * 5
    assert all(len(certificate.peers) == 4 for certificate in report.certificates)
    assert {finding.check for finding in report.certificates[0].findings} >= {"read_latency", "loss"}
    assert (len(report.samples) == 40) is (size > 0)
    with Store.open(run.path) as store:
        seen = store.verify(report.run.id)
    assert seen is not None
    assert list(seen.verdicts) == list(report.verdicts)
    assert isinstance(seen.verdicts, Verdicts) is (size == 0)
    assert len(_measured(run, report.run.id)) == (0 if size else 40)


def test_a_large_run_has_the_same_outcomes_suspects_and_certificates_as_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = {"faults": {"node0003/eth1": {"loss": 0.9, "way": "receives"}, "node0005/eth1": {"slow": 90.0}}}
    found = []
    for number in (0, 20_000):
        monkeypatch.setattr(ledger, "WHOLE_PAIRS", number)
        (tmp_path / str(number)).mkdir()
        found.append(Run(tmp_path / str(number), 9, world).verify())
    alike, whole = found
    assert isinstance(alike.verdicts, Verdicts)
    assert outcomes(alike.verdicts) == outcomes(whole.verdicts)
    assert outcomes(whole.verdicts)[Outcome.FAIL] == 8 + 16 - 1
    assert [v.outcome for v in alike.verdicts] == [v.outcome for v in whole.verdicts]
    assert [v.findings for v in alike.verdicts if v.outcome is Outcome.FAIL] == [
        v.findings for v in whole.verdicts if v.outcome is Outcome.FAIL
    ]
    assert [(s.element, s.explains) for s in alike.suspects] == [
        (s.element, s.explains) for s in whole.suspects
    ]
    assert {s.ports[0].device for s in whole.suspects if s.ports} >= {"node0003", "node0005"}
    assert [(c.port, c.outcome, c.peers) for c in alike.certificates] == [
        (c.port, c.outcome, c.peers) for c in whole.certificates
    ]


class Stop(BaseException):
    """Ends a run as nothing would that somebody handles."""


@pytest.mark.usefixtures("small_batches", "size")
@pytest.mark.parametrize("boundary", range(8))
def test_a_run_that_ends_at_a_batch_boundary_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boundary: int
) -> None:
    run = Run(tmp_path, 8)  # 28 couples: 7 batches of 4
    put, batches = Store.put_probed, []

    def stopping(store: Store, run_id: str, batch: Sequence[Sample], couples: int) -> None:
        if len(batches) == boundary:
            raise Stop
        put(store, run_id, batch, couples)
        batches.append(couples)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "put_probed", stopping)
        if boundary < 7:
            with pytest.raises(Stop):
                run.verify()
            assert sum(batches) == 4 * boundary
        else:
            run.verify()
    with Store.open(run.path) as store:
        (held,) = store.runs(kind=RunKind.VERIFY)
    before = _measured(run, held.id)
    if boundary == 7:
        with pytest.raises(UsageError, match="has concluded: nothing is left to do"):
            run.resume()
        return
    measured: list[Sample] = []

    def counting(store: Store, run_id: str, batch: Sequence[Sample], couples: int) -> None:
        measured.extend(batch)
        put(store, run_id, batch, couples)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "put_probed", counting)
        report = run.resume()
    again = Counter((sample.pair, sample.probe) for sample in measured)
    assert not before.keys() & again.keys()
    assert (before + again) == Counter(
        {(pair, probe): 1 for pair in _all_pairs(run.fabric) for probe in ("read_latency", "loss")}
    )
    assert report.run.id == held.id
    assert outcomes(report.verdicts) == {Outcome.PASS: 56}
    assert report.run.outcome is Outcome.PASS
    assert [certificate.outcome for certificate in report.certificates] == [Outcome.PASS] * 8


def test_a_killed_process_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "WHOLE_PAIRS", 0)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    argv = [sys.executable, str(BENCH), "--nodes", "64", "--folder", str(tmp_path)]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL) as child:
        until = time.monotonic() + 60
        while not _has_batches(tmp_path / "store.sqlite", 2):
            assert child.poll() is None, "it was over too soon"
            assert time.monotonic() < until
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
    run = Run(tmp_path, 64)
    with Store.open(run.path) as store:
        (held,) = store.runs(kind=RunKind.VERIFY)
    assert held.interrupted
    before = _measured(run, held.id)
    assert 0 < len(before) < 64 * 63 * 2
    report = run.resume(held.id)
    after = _measured(run, held.id)
    assert set(after.values()) == {1}
    assert {pair for pair, _ in after} == _all_pairs(run.fabric)
    assert before.keys() <= after.keys()
    assert outcomes(report.verdicts) == {Outcome.PASS: 64 * 63}


def _has_batches(path: Path, number: int) -> bool:
    try:
        with Store.open(path, readonly=True) as store:
            return store._rows("SELECT count(*) AS n FROM probed", ())[0]["n"] >= number  # noqa: SLF001
    except StoreError:
        return False


@pytest.mark.parametrize("changed", ["inventory", "policy"])
def test_what_has_changed_is_not_gone_on_with(tmp_path: Path, changed: str) -> None:
    run = Run(tmp_path, 4)
    _interrupt(run)
    if changed == "inventory":
        other = bench.make_fabric(5, run.fabric.source)
        run.fabric = other
    else:
        run.policy = replace(run.policy, limits=replace(run.policy.limits, latency_samples=200))
    with pytest.raises(UsageError, match=f"the {changed} has changed since run v") as caught:
        run.resume()
    assert "begin a new one" in str(caught.value)


def _interrupt(run: Run) -> None:
    def stop(done: int, total: int) -> None:
        del total
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.verify(progress=stop)


def test_certificates_are_as_old_as_the_run_that_went_on(tmp_path: Path) -> None:
    run = Run(tmp_path, 3)
    _interrupt(run)
    lives_s = run.policy.gate.max_age_s
    with Store.open(run.path) as store:
        (held,) = store.runs()
        began = held.started_at - lives_s / 2
        store._execute("UPDATE runs SET started_at = ?", (began,))  # noqa: SLF001  half a life ago
    report = run.resume()
    assert {certificate.expires_at for certificate in report.certificates} == {began + lives_s}
    late = Run(tmp_path / "late", 3)
    late.path.parent.mkdir()
    _interrupt(late)
    with Store.open(late.path) as store:
        store._execute("UPDATE runs SET started_at = started_at - ?", (lives_s,))  # noqa: SLF001
    with pytest.raises(UsageError, match="began longer ago than its certificates would live"):
        late.resume()


def test_only_what_did_not_conclude_can_go_on(tmp_path: Path) -> None:
    run = Run(tmp_path, 3)
    with pytest.raises(UsageError, match="there is no verify of this inventory to go on with"):
        run.resume()
    report = run.verify()
    with pytest.raises(UsageError, match=f"run {report.run.id} has concluded"):
        run.resume(report.run.id)
    with Store.open(run.path) as store:
        links = store.begin(RunKind.LINKS, "ops", run.fabric.source)
        early = store.begin(RunKind.VERIFY, "ops", run.fabric.source)
        other = store.begin(RunKind.VERIFY, "ops", "/other.yml")
    with pytest.raises(UsageError, match="is no verify"):
        run.resume(links.id)
    with pytest.raises(UsageError, match="was ended before it began to measure"):
        run.resume(early.id)
    with pytest.raises(UsageError, match="is of another inventory"):
        run.resume(other.id)


def test_an_interrupted_run_has_kept_all_that_was_done(tmp_path: Path) -> None:
    run = Run(tmp_path, 4)
    _interrupt(run)
    with Store.open(run.path) as store:
        (held,) = store.runs(kind=RunKind.VERIFY)
    assert held.summary == "interrupted"
    assert len(_measured(run, held.id)) >= 4
    assert run.resume().run.id == held.id


def test_samples_come_back_from_a_batch_as_they_were(tmp_path: Path) -> None:
    run = Run(tmp_path, 3)
    report = run.verify()
    with Store.open(run.path) as store:
        kept = store.begin(RunKind.VERIFY, "ops", run.fabric.source)
        store.put_probed(kept.id, report.samples, 3)
        store.put_probed(kept.id, report.samples[:2], 1)
        found = list(store.probed(kept.id))
        some = list(store.probed(kept.id, lambda source, _: source == "node0001/eth1"))
    rounded = [
        replace(s, started_at=round(s.started_at, 3), duration_s=round(s.duration_s, 6))
        for s in report.samples
    ]
    assert found == [*rounded, *rounded[:2]]
    assert some == [sample for sample in found if sample.pair.source == PortId("node0001", "eth1")]


def test_a_store_that_is_full_costs_the_certificates_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("no space is left for the store")

    monkeypatch.setattr(Store, "put_probed", full)
    report = Run(tmp_path, 4).verify()
    assert report.unkept == "no space is left for the store"
    assert report.certificates == ()
    assert outcomes(report.verdicts) == {Outcome.PASS: 12}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"outcome": Outcome.FAIL},
        {"outcome": Outcome.UNKNOWN},
        {"outcome": Outcome.ERROR},
        {"revoked": "by ops"},
        {"expires_at": 0.0},
    ],
)
def test_simulated_certificates_do_not_take_the_place_of_real_ones(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    run = Run(tmp_path, 3)
    report = run.verify()
    with Store.open(run.path) as store:
        refuse_beside_real(store, run.fabric)
        real = replace(report.certificates[0], id="real", simulated="", issued_at=time.time(), **changes)
        store.put_certificates([real])
        with pytest.raises(UsageError, match="holds a real certificate") as caught:
            refuse_beside_real(store, run.fabric)
    assert "FABRICCTL_STORE" in caught.value.next_step


def test_the_bench_prints_what_it_measured(tmp_path: Path) -> None:
    argv = [sys.executable, str(BENCH), "--nodes", "8", "--folder", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    printed = subprocess.run(argv, env=environment, check=True, capture_output=True, text=True, timeout=60)
    told = json.loads(printed.stdout)
    assert told["couples"] == 28
    assert told["outcomes"] == {"pass": 56}


@pytest.mark.parametrize("step", ["_put_pieces", "put_certificates", "finish"])
def test_a_run_that_ends_while_it_concludes_goes_on_and_ends_what_it_found_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, step: str
) -> None:
    del size
    run = Run(tmp_path, 5)
    assert [c.outcome for c in run.verify().certificates] == [Outcome.PASS] * 5
    run.world = {"faults": {"node0003/eth1": {"loss": 0.9}}}
    right = getattr(Store, step)

    def ending(store: Store, *args: Any, **given: Any) -> Any:
        if step == "finish" and args[1] is Outcome.UNKNOWN:
            raise StoreError("no space is left")  # must not hide why the run ended
        right(store, *args, **given)
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(Store, step, ending)
        with pytest.raises(Stop):
            run.verify()
    with Store.open(run.path) as store:
        held = store.runs(kind=RunKind.VERIFY)[0]
        assert {c.outcome for c in store.certificates()} == {Outcome.PASS}
    assert len(_measured(run, held.id)) == 40
    report = run.resume(held.id)
    assert report.run.outcome is Outcome.FAIL
    with Store.open(run.path) as store:
        now = {c.port.device: c.outcome for c in store.certificates()}
    assert now["node0003"] is Outcome.FAIL


@pytest.mark.parametrize(
    "error", [StoreError("no space is left"), BusyError("another run is writing")], ids=repr
)
def test_a_store_that_fails_at_the_end_is_told_of_and_the_run_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, error: FabricctlError
) -> None:
    del size
    run = Run(tmp_path, 4)

    def failing(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Store, "conclude", failing)
        report = run.verify()
    assert (report.unkept, report.certificates) == (str(error), ())
    assert outcomes(report.verdicts) == {Outcome.PASS: 12}
    report = run.resume(report.run.id)
    assert [c.outcome for c in report.certificates] == [Outcome.PASS] * 4


def test_a_store_that_is_busy_for_a_while_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    del size
    run, put, tries = Run(tmp_path, 4), Store.put_probed, []

    def busy(*args: Any) -> None:
        tries.append(len(args[2]))
        if len(tries) < 2:
            raise BusyError("another run is writing")
        put(*args)

    monkeypatch.setattr(pending, "BATCH_COUPLES", 2)
    monkeypatch.setattr(Store, "put_probed", busy)
    report = run.verify()
    assert report.unkept == ""
    assert tries[0] == 8
    assert sum(tries[1:]) == 24
    assert [c.outcome for c in report.certificates] == [Outcome.PASS] * 4


@pytest.mark.parametrize(("budget_s", "more"), [(None, True), (600.0, True), (1e-6, False)])
def test_pairs_that_nobody_asked_for_are_within_the_time_budget(
    tmp_path: Path, budget_s: float | None, *, more: bool
) -> None:
    run, told = Run(tmp_path, 6, {"faults": {"node0001/eth1": {"loss": 0.9}}}), list[str]()
    spec = "node0000:node0001,node0002:node0003,node0004:node0005"
    with Store.open(run.path) as store, connect() as way:
        means = replace(run.means(store, way), tell=told.append)
        report = verify(run.fabric, run.policy, replace(REQUEST, pairs=spec, time_budget_s=budget_s), means)
    assert any(line.endswith("more, to tell what is at fault") for line in told) is more
    assert (len(report.verdicts) > 6) is more
    assert report.verdicts[0].outcome is Outcome.FAIL
