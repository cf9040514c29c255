"""A large run keeps little and says the same: what is left out, absent, set wrongly, or comes later."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.agent.simulated import ENGINE
from fabricctl.errors import BusyError, FabricctlError, StoreError, WireError
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import BandwidthLimit, LatencyLimit
from fabricctl.model.probe import Sample
from fabricctl.model.verdict import Outcome
from fabricctl.model.verdicts import Verdicts, outcomes
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import RunReport
from fabricctl.store import Store
from fabricctl.transport import connect
from fabricctl.verify import ledger
from fabricctl.verify.flow import Means, Request, verify
from fabricctl.verify.judge import Bench
from fabricctl.verify.ledger import Kept, Ledger
from fabricctl.verify.pairs import Pairs
from fabricctl.verify.simulation import simulated_launch

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


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "WHOLE_PAIRS", 0)


def run(folder: Path, nodes: int = 6, request: Request = REQUEST, **means: Any) -> RunReport:
    folder.mkdir(exist_ok=True)
    fabric = bench.make_fabric(nodes, str(folder / "inventory.yml"))
    policy = means.pop("policy", bench.POLICY)
    with Store.open(folder / "store.sqlite") as store, connect() as way:
        return verify(fabric, policy, request, Means(way, store, launch=simulated_launch(fabric), **means))


def test_what_there_was_no_time_for_is_unknown_and_says_so(tmp_path: Path) -> None:
    report = run(tmp_path, 8, replace(REQUEST, time_budget_s=1e-6))
    counts = outcomes(report.verdicts)
    assert counts.total() == 56
    assert counts[Outcome.UNKNOWN] >= 40
    assert counts[Outcome.PASS] + counts[Outcome.UNKNOWN] == 56
    assert isinstance(report.verdicts, Verdicts)
    left = [same for same in report.verdicts.alike if same.outcome is Outcome.UNKNOWN]
    assert [f.what for same in left for f in same.findings] == [
        "not measured: left out: --time-budget 1e-06 s was used up"
    ]
    # What was measured counts, and what there was no time for is as if nobody had asked for it.
    passed = {v.pair for v in report.verdicts if v.outcome is Outcome.PASS}
    assert {c.port for c in report.certificates} == {pair.source for pair in passed}
    assert {c.outcome for c in report.certificates} == {Outcome.PASS}
    assert {(str(c.port), peer) for c in report.certificates for peer in c.peers} == {
        (str(pair.source), str(pair.target)) for pair in passed
    }


@pytest.mark.parametrize("whole_pairs", [0, 20_000])
def test_a_pair_that_was_left_out_in_part_says_which_probes_are_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_pairs: int
) -> None:
    monkeypatch.setattr(ledger, "WHOLE_PAIRS", whole_pairs)
    fabric = bench.make_fabric(3, str(tmp_path / "inventory.yml"))
    first = PairId(PortId("node0001", "eth1"), PortId("node0002", "eth1"))
    probes = {name: finder.probe(name) for name in ("read_latency", "write_bandwidth")}
    nothing = Kept(lambda *_: None, lambda _: ())
    book = Ledger(fabric, bench.POLICY.limits, Pairs.of([first, first.reverse]), probes, nothing)
    for pair in (first, first.reverse):
        book.take([Sample(pair, "read_latency", "native 1", 0.0, 1.0)])
        book.leave_out(Sample(pair, "write_bandwidth", "", 0.0, 0.0, error="no time", error_kind="budget"))
    account = book.conclude(Bench(fabric, bench.POLICY.limits, probes, {}))
    lacking = [(s.pair, s.probe, s.error) for s in account.samples if s.error_kind == "budget"]
    assert lacking == [(pair, "write_bandwidth", "no time") for pair in (first, first.reverse)]
    said = [[f.what for f in v.findings if f.check == "write_bandwidth"] for v in account.verdicts]
    assert said == [["write_bandwidth not measured: no time"]] * 2


def test_ports_that_are_set_wrongly_fail_whatever_was_measured(tmp_path: Path) -> None:
    bad = PortId("node0002", "eth1")

    def deviations(readings: Mapping[str, Any]) -> Mapping[PortId, str]:
        del readings
        return {bad: "mtu 1500, not 9000"}

    report = run(tmp_path, deviations=deviations)
    failed = {v.pair for v in report.verdicts if v.outcome is Outcome.FAIL}
    assert failed == {v.pair for v in report.verdicts if bad in {v.pair.source, v.pair.target}}
    assert len(failed) == 10
    assert report.suspects == ()
    assert {c.port.device for c in report.certificates if c.outcome is not Outcome.PASS} == {"node0002"}


@pytest.mark.parametrize("missing", ["write_latency", "write_bandwidth"])
def test_what_the_policy_limits_and_nobody_probed_is_unknown(tmp_path: Path, missing: str) -> None:
    limits = bench.POLICY.limits
    if missing == "write_latency":
        limits = replace(limits, latency=(*limits.latency, LatencyLimit(missing, 50.0, 9_000)))
    else:
        limits = replace(limits, bandwidth=(BandwidthLimit(missing, min_gbps=1.0),))
    report = run(tmp_path, 3, policy=replace(bench.POLICY, limits=limits))
    assert outcomes(report.verdicts) == {Outcome.UNKNOWN: 6}


def test_rounds_of_both_kinds_are_judged_together(tmp_path: Path) -> None:
    report = run(tmp_path, 4, replace(REQUEST, probes=("read_latency", "loss", "write_bandwidth")))
    with Store.open(tmp_path / "store.sqlite") as store:
        kept = Counter(sample.probe for sample in store.probed(report.run.id))
    assert kept == {"read_latency": 12, "loss": 12, "write_bandwidth": 12}
    shown = [verdict for verdict in report.verdicts if len(verdict.findings) > 1]
    assert {f.check for f in shown[0].findings} >= {"read_latency", "loss", "write_bandwidth"}


def made(samples: list[Sample], nodes: int = 3) -> tuple[Ledger, Fabric]:
    fabric = bench.make_fabric(nodes, "/i.yml")
    ports = [port.id for port in fabric.node_ports()]
    pairs = Pairs.of([PairId(ports[0], ports[1]), PairId(ports[1], ports[0])])
    pairs = Pairs(tuple(ports), pairs.sources, pairs.targets)
    probes = {name: finder.probe(name) for name in ("read_latency", "loss")}

    def recall(wanted: Any) -> list[Sample]:
        return [s for s in samples if wanted is None or wanted(str(s.pair.source), str(s.pair.target))]

    kept = Kept(lambda batch, _: samples.extend(batch), recall)
    return Ledger(fabric, bench.POLICY.limits, pairs, probes, kept), fabric


def _good(fabric: Fabric) -> dict[PairId, list[Sample]]:
    """Return the samples by pair of a fabric that is well."""
    with Store.open() as store, connect() as way:
        report = verify(fabric, bench.POLICY, REQUEST, Means(way, store, launch=simulated_launch(fabric)))
        found: dict[PairId, list[Sample]] = {}
        for sample in store.probed(report.run.id):
            found.setdefault(sample.pair, []).append(sample)
    return found


class _Store:
    """Keeps samples, or raises what it is to raise."""

    def __init__(self) -> None:
        self.held: list[Sample] = []
        self.full: FabricctlError | None = None
        self.unreadable: FabricctlError | None = None

    def keep(self, batch: Sequence[Sample], couples: int) -> None:
        del couples
        if self.full:
            raise self.full
        self.held += batch

    def recall(self, wanted: Any) -> Iterator[Sample]:
        for sample in self.held:
            if wanted is None or wanted(str(sample.pair.source), str(sample.pair.target)):
                yield sample
        if self.unreadable:
            raise self.unreadable


def _book(nodes: int, folder: Path) -> tuple[Ledger, _Store, Bench, dict[PairId, list[Sample]]]:
    fabric = bench.make_fabric(nodes, str(folder / "i.yml"))
    ports = [port.id for port in fabric.node_ports()]
    pairs = Pairs.of([PairId(a, b) for a in ports for b in ports if a != b])
    probes = {name: finder.probe(name) for name in ("read_latency", "loss")}
    store = _Store()
    book = Ledger(fabric, bench.POLICY.limits, pairs, probes, Kept(store.keep, store.recall))
    return book, store, Bench(fabric, bench.POLICY.limits, probes, {}), _good(fabric)


def _spoilt(samples: list[Sample]) -> list[Sample]:
    """Return samples of a pair that loses packets."""
    return [
        replace(s, numbers={**s.numbers, "missing": s.numbers["sent"] // 2}) if s.probe == "loss" else s
        for s in samples
    ]


@pytest.mark.parametrize("failing", [0, 3, 11])
@pytest.mark.parametrize("error", [StoreError("no space is left"), None], ids=["full", "well"])
def test_what_failed_after_the_store_was_full_is_on_record(
    tmp_path: Path, failing: int, error: FabricctlError | None
) -> None:
    book, store, bench_, good = _book(4, tmp_path)
    for number, samples in enumerate(good.values()):
        if number == min(failing, 6):
            book.flush()
            store.full = error
        book.take(_spoilt(samples) if number == failing else samples)
    account = book.conclude(bench_)
    assert account.unkept == ("no space is left" if error else "")
    bad = list(good)[failing]
    assert {v.pair for v in account.verdicts if v.outcome is Outcome.FAIL} == {bad}
    assert outcomes(account.verdicts) == {Outcome.PASS: 11, Outcome.FAIL: 1}
    assert "not measured" not in str(list(account.verdicts))
    assert {s.probe for s in account.samples if s.pair == bad} == {"read_latency", "loss"}
    assert ("not all samples could be kept" in str(list(account.verdicts))) is bool(error)


def test_a_busy_store_loses_nothing_and_is_told_of_at_the_end(tmp_path: Path) -> None:
    book, store, bench_, good = _book(4, tmp_path)
    store.full = BusyError("another run is writing")
    for number, samples in enumerate(good.values()):
        book.take(_spoilt(samples) if number == 5 else samples)
        book.flush()
    busy = book.conclude(bench_)
    assert busy.unkept == "another run is writing"
    assert outcomes(busy.verdicts) == {Outcome.PASS: 11, Outcome.FAIL: 1}
    assert store.held == []
    store.full = None
    account = book.conclude(bench_)
    assert account.unkept == ""
    assert outcomes(account.verdicts) == {Outcome.PASS: 11, Outcome.FAIL: 1}
    assert store.held == [
        s for n, held in enumerate(good.values()) for s in (_spoilt(held) if n == 5 else held)
    ]


@pytest.mark.parametrize(
    "error", [StoreError("damaged"), BusyError("another run"), WireError("no samples")], ids=repr
)
def test_samples_that_cannot_be_read_again_are_no_end_of_the_run(
    tmp_path: Path, error: FabricctlError
) -> None:
    book, store, bench_, good = _book(4, tmp_path)
    for number, samples in enumerate(good.values()):
        book.take(_spoilt(samples) if number == 5 else samples)
    store.unreadable = error
    account = book.conclude(bench_)
    assert account.unkept == str(error)
    # What it was that failed is not known any more, but nothing that failed has passed.
    assert outcomes(account.verdicts) == {Outcome.PASS: 11, Outcome.UNKNOWN: 1}
    assert [v.pair for v in account.verdicts if v.outcome is Outcome.UNKNOWN] == [list(good)[5]]
    assert "could not be kept, or not be read again" in str(list(account.verdicts))
    store.unreadable = None
    again = book.conclude(bench_)
    assert (again.unkept, outcomes(again.verdicts)) == ("", {Outcome.PASS: 11, Outcome.FAIL: 1})


def _sample(pair: PairId, probe: str, error: str = "") -> Sample:
    return Sample(pair, probe, "simulated 1", 1.0, 0.1, error=error, error_kind="setup" if error else "")


def test_pairs_that_come_later_have_verdicts_too() -> None:
    kept: list[Sample] = []
    book, fabric = made(kept)
    ports = [port.id for port in fabric.node_ports()]
    one, later = PairId(ports[0], ports[1]), PairId(ports[2], ports[0])
    assert not book.has(one, ("loss",))
    book.take([_sample(one, "loss", "no device"), _sample(later, "loss", "no device")])
    assert book.has(one, ("loss",))
    assert not book.has(one, ("loss", "read_latency"))
    assert list(book.pairs) == [one, one.reverse, later]
    assert kept == []
    account = book.conclude(Bench(fabric, bench.POLICY.limits, {}, {}))
    assert len(kept) == 2
    assert [verdict.pair for verdict in account.verdicts] == [one, one.reverse, later]
    assert {verdict.outcome for verdict in account.verdicts} == {Outcome.UNKNOWN}
    assert book.conclude(Bench(fabric, bench.POLICY.limits, {}, {})).verdicts is account.verdicts


def test_what_was_measured_is_not_left_out_later() -> None:
    book, fabric = made([])
    one = PairId(*[port.id for port in fabric.node_ports()][:2])
    book.take([_sample(one, "loss", "no device")])
    book.leave_out(_sample(one, "loss", "left out"))
    book.leave_out(_sample(one.reverse, "loss", "left out"))
    account = book.conclude(Bench(fabric, bench.POLICY.limits, {}, {}))
    assert [v.findings[0].what for v in account.verdicts][1] == "not measured: left out"
    assert "left out" not in str(account.verdicts[0])


def test_a_ledger_that_recalls_has_what_was_kept() -> None:
    kept: list[Sample] = []
    book, fabric = made(kept)
    one = PairId(*[port.id for port in fabric.node_ports()][:2])
    book.take([_sample(p, name) for p in (one, one.reverse) for name in ("read_latency", "loss")])
    book.flush()
    other, _ = made(kept)
    other.recall()
    assert other.taken == book.taken == 4
    assert other.has(one, ("read_latency", "loss"))
    assert other.has(one.reverse, ("read_latency", "loss"))
    bare = Bench(fabric, bench.POLICY.limits, {}, {})
    assert list(other.conclude(bare).verdicts) == list(book.conclude(bare).verdicts)


class _Batches(_Store):
    """Gives back a pair's samples at a time, and notes which were still wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[bool] = []

    def recall(self, wanted: Any) -> Iterator[Sample]:
        self.asked.clear()
        for sample in self.held:
            self.asked.append(bool(wanted))
            if wanted and wanted(str(sample.pair.source), str(sample.pair.target)):
                yield sample


@pytest.mark.parametrize("failing", [(), (30,), (3, 55)])
@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
def test_the_store_is_read_as_far_as_it_has_what_is_judged_whole(
    tmp_path: Path,
    failing: tuple[int, ...],
    again: bool,  # noqa: FBT001
) -> None:
    book, _, bench_, good = _book(8, tmp_path)
    store = _Batches()
    book._kept = Kept(store.keep, store.recall)  # noqa: SLF001  a store that tells what it is asked
    book._pending._keep = store.keep  # noqa: SLF001
    for number, samples in enumerate(good.values()):
        book.take(_spoilt(samples) if number in failing else samples)
    if again:
        book.take(next(iter(good.values())))
    account = book.conclude(bench_)
    assert outcomes(account.verdicts) == Counter(
        {Outcome.PASS: 56 - len(failing)} | ({Outcome.FAIL: len(failing)} if failing else {})
    )
    whole = {v.pair for v in account.verdicts if any(f.check == "read_latency" for f in v.findings)}
    assert {list(good)[number] for number in failing} <= whole
    # Of each port one passing pair is shown: the first that passed.
    assert {port for pair in whole for port in pair} == {port for pair in good for port in pair}
    assert {sample.pair for sample in account.samples} == whole
    assert len(account.samples) == 2 * len(whole) + (2 if again else 0)
    last = max(place for place, sample in enumerate(store.held) if sample.pair in whole)
    assert store.asked == [again or place <= last for place in range(len(store.held))]


def test_an_example_that_fails_later_is_replaced(tmp_path: Path) -> None:
    book, _, bench_, good = _book(4, tmp_path)
    for samples in good.values():
        book.take([sample for sample in samples if sample.probe == "read_latency"])
    first = next(iter(good))
    for pair, samples in good.items():
        late = [sample for sample in samples if sample.probe == "loss"]
        book.take(_spoilt(late) if pair == first else late)
    account = book.conclude(bench_)
    assert {v.pair for v in account.verdicts if v.outcome is Outcome.FAIL} == {first}
    shown = [
        v.pair
        for v in account.verdicts
        if v.outcome is Outcome.PASS and any(f.check == "loss" for f in v.findings)
    ]
    assert {port for pair in shown for port in pair} == {port for pair in good for port in pair}
