"""The store: what goes in comes out, and whatever is wrong with the file is one clear line."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import stat
import tempfile
import threading
import zlib
from array import array
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from fabricctl.errors import BusyError, FabricctlError, StoreError, UsageError, WireError
from fabricctl.model.certificate import Certificate
from fabricctl.model.codec import encode
from fabricctl.model.evidence import Evidence
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import GatePolicy, Limits, MtuPolicy, Policy, Stance
from fabricctl.model.probe import AgentReport, Sample
from fabricctl.model.reading import DeviceReading, Known, Missing, PortReading
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Finding, Outcome, Suspect, Verdict
from fabricctl.model.verdicts import Alike, Verdicts, outcomes
from fabricctl.resources import state_folder, store_path
from fabricctl.store import Store, batches, database
from fabricctl.store.process import is_gone, own_mark

A, B = PortId("node1", "eth1"), PortId("node2", "eth1")
NOW = 1_796_000_000.0
PIECES = ("fabric", "policy", "agents", "verdicts", "suspects", "samples", "readings")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "store.sqlite"


def certificate(run: Run, port: PortId = A, number: int = 1, outcome: Outcome = Outcome.PASS) -> Certificate:
    return Certificate(
        id=f"{run.id}.{port}.{number}",
        port=port,
        run_id=run.id,
        outcome=outcome,
        peers={str(B): outcome},
        findings=(Finding("loss", f"{A} -> {B}", outcome, "0 of 6000 lost", samples=6000),),
        fingerprint={"driver": "rdma_rxe"},
        engine="pyverbs 44",
        policy="lab",
        policy_digest="ab",
        issued_at=NOW + number,
        expires_at=NOW + number + 100,
        rail=0,
        node_ports=(port,),
        suspects=("link x - y",),
        gate=GatePolicy(simulated=Stance.ALLOW),
    )


def test_the_default_place_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "s"))
    assert store_path() == tmp_path / "s"
    assert state_folder() == tmp_path
    monkeypatch.delenv("FABRICCTL_STORE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert store_path() == tmp_path / "fabricctl" / "store.sqlite"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store_path() == tmp_path / ".local" / "state" / "fabricctl" / "store.sqlite"


def test_files_are_private(path: Path) -> None:
    with Store.open(path) as store:
        store.begin(RunKind.APPLY, "ops", "/i.yml")
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert modes["store.sqlite"] == 0o600
    assert all(mode & 0o077 == 0 for mode in modes.values())


def test_a_store_that_others_could_read_is_made_private(path: Path) -> None:
    Store.open(path).close()
    path.chmod(0o644)
    Store.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_run_begins_and_ends(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml", now=NOW)
        assert re.fullmatch(r"v20261130-\d{6}-[0-9a-f]{4}", run.id)
        assert store.run(run.id) == run
        assert run.outcome is None
        ended = store.finish(run, Outcome.FAIL, "1 of 6 pairs failed", now=NOW + 5)
        assert store.run(run.id) == ended
        assert (ended.ended_at, ended.outcome, ended.interrupted) == (NOW + 5, Outcome.FAIL, False)


def test_runs_come_newest_first_by_kind_and_limit(path: Path) -> None:
    with Store.open(path) as store:
        made = [
            store.begin(kind, "ops", "/i.yml", now=NOW + i)
            for i, kind in enumerate((RunKind.APPLY, RunKind.VERIFY, RunKind.ROLLBACK))
        ]
        assert [r.id for r in store.runs()] == [r.id for r in reversed(made)]
        assert [r.id[0] for r in store.runs()] == ["b", "v", "a"]
        assert [r.id for r in store.runs(limit=1)] == [made[2].id]
        assert [r.id for r in store.runs(kind=RunKind.VERIFY)] == [made[1].id]
        with pytest.raises(UsageError, match="fabricctl runs"):
            store.run("v1")


def test_a_run_whose_process_is_gone_is_interrupted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(path) as store:
        mine = store.begin(RunKind.APPLY, "ops", "/i.yml")
        host = own_mark().split(":")[0]
        monkeypatch.setattr("fabricctl.store.runs.own_mark", lambda: f"{host}:4194305:1")
        dead = store.begin(RunKind.APPLY, "ops", "/i.yml")
        assert not store.run(mine.id).interrupted
        assert store.run(dead.id).interrupted


def test_a_process_is_known_by_host_id_and_start() -> None:
    host, pid, started = own_mark().rsplit(":", 2)
    assert not is_gone(own_mark())
    assert is_gone(f"{host}:{pid}:{int(started) + 1}")
    assert not is_gone(f"elsewhere:{pid}:1")


def test_records_are_one_a_run_and_kind(path: Path) -> None:
    with Store.open(path) as store:
        first = store.begin(RunKind.APPLY, "ops", "/i.yml", now=NOW)
        second = store.begin(RunKind.APPLY, "ops", "/other.yml", now=NOW + 1)
        store.put_record(first.id, "plan", {"a": 1})
        store.put_record(second.id, "plan", {"ü": [None, True, 1.5]})
        assert store.records("plan") == ((second, {"ü": [None, True, 1.5]}), (first, {"a": 1}))
        assert store.records("plan", "/i.yml") == ((first, {"a": 1}),)
        store.update_record(first.id, "plan", {"a": 2})
        assert store.records("plan", "/i.yml")[0][1] == {"a": 2}
        with pytest.raises(StoreError, match="UNIQUE"):
            store.put_record(first.id, "plan", {})
        with pytest.raises(StoreError, match="no record 'undo'"):
            store.update_record(first.id, "undo", {})
        with pytest.raises(StoreError, match="FOREIGN KEY"):
            store.put_record("v1", "plan", {})


def _evidence() -> Evidence:
    node = Device("node1", Role.NODE, "rxe", Endpoint("127.0.0.1", 40001), (Port(A, rail=0),))
    other = Device("node2", Role.NODE, "rxe", Endpoint("127.0.0.1", 40002), (Port(B),))
    pair = PairId(A, B)
    policy = Policy(
        "lab", LinkLayer.ETHERNET, None, None, MtuPolicy(1500, 1500, 1024), (), {}, Limits((), None)
    )
    return Evidence(
        fabric=Fabric((node, other), (Link(A, B, 2.0),), "/i.yml", "lab"),
        policy=policy,
        agents={
            "node1": AgentReport("node1", ports={A: "gid 1"}),
            "node2": AgentReport("node2", "no pyverbs"),
        },
        verdicts=(Verdict(pair, "same_leaf", (Finding("loss", str(pair), Outcome.FAIL, "lost"),)),),
        suspects=(Suspect("node node2", (pair,), "because", ports=(B,)),),
        samples=(
            Sample(
                pair,
                "loss",
                "pyverbs",
                NOW,
                1.0,
                latencies=Histogram.of(range(5000)),
                numbers={"sent": 6000, "missing": 1},
                numbers_by_path=({"sent": 6000},),
                counters={"source/x": Known(0), "target/x": Missing("no such file")},
                parameters={"bytes": 8, "gid": "::1"},
            ),
        ),
        readings={
            "node1": DeviceReading("node1", NOW, {A: PortReading(A, {"mtu_bytes": Known(1500)})}),
            "node2": DeviceReading("node2", NOW, {}, error="unreachable"),
        },
    )


def test_what_verify_saw_comes_back_equal(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        assert store.verify(run.id) is None
        store.put_verify(run.id, _evidence())
    with Store.open(path, readonly=True) as store:
        assert store.verify(run.id) == _evidence()


@pytest.mark.parametrize("readonly", [True, False])
def test_latencies_of_schema_1_become_histograms(path: Path, readonly: bool) -> None:  # noqa: FBT001
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        store.put_verify(run.id, _evidence())
    with sqlite3.connect(path) as raw:
        ((blob,),) = raw.execute("SELECT samples FROM evidence").fetchall()
        (held,) = json.loads(zlib.decompress(blob))
        assert held.pop("latencies").startswith("1.5000.0.4999.")
        old = [{**held, "latencies_ns": list(range(5000))}, {**held, "latencies_ns": []}]
        raw.execute("UPDATE evidence SET samples = ?", (zlib.compress(json.dumps(old).encode()),))
        for table in ("probed", "alike"):
            raw.execute(f"DROP TABLE {table}")
        raw.execute("PRAGMA user_version = 1")
    raw.close()
    with Store.open(path, readonly=readonly) as store:
        seen = store.verify(run.id)
    assert seen is not None
    (sample,) = _evidence().samples
    assert seen.samples == (sample, replace(sample, latencies=Histogram()))


@pytest.mark.parametrize(
    "changed",
    [
        {"latencies": "1.2.5.4.1.BB."},
        {"latencies": 7},
        {"latencies_ns": [-1]},
        {"latencies_ns": 7},
        {"latencies_ns": [[]]},
    ],
)
def test_latencies_that_are_none_are_an_error_of_ours(path: Path, changed: dict[str, object]) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        store.put_verify(run.id, _evidence())
    with sqlite3.connect(path) as raw:
        ((blob,),) = raw.execute("SELECT samples FROM evidence").fetchall()
        (held,) = json.loads(zlib.decompress(blob))
        raw.execute(
            "UPDATE evidence SET samples = ?", (zlib.compress(json.dumps([{**held, **changed}]).encode()),)
        )
    raw.close()
    with Store.open(path) as store, pytest.raises(WireError, match="do not fit Evidence"):
        store.verify(run.id)


def test_a_damaged_record_is_a_store_error(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        store.put_verify(run.id, _evidence())
        store.put_record(run.id, "plan", {})
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE evidence SET samples = ?", (b"nonsense",))
        raw.execute("UPDATE records SET payload = '{'")
    raw.close()
    with Store.open(path) as store:
        with pytest.raises(StoreError, match="damaged"):
            store.verify(run.id)
        with pytest.raises(StoreError, match="no JSON"):
            store.records("plan")


def test_the_newest_certificate_of_a_port_counts(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        old, new = certificate(run), certificate(run, number=2, outcome=Outcome.FAIL)
        other = certificate(run, port=B)
        store.put_certificates([old, other])
        assert store.certificates() == (old, other)
        store.put_certificates([new])
        assert store.certificates() == (new, other)
        assert store.certificates(newest=False) == (new, old, other)
        assert store.certificates(["node2"]) == (other,)
        assert store.certificates(["node2/eth1", "node1"]) == (other, new)
        assert store.certificates([old.id]) == (old,)
        assert store.certificates([]) == ()
        assert store.certificates(run_id="v0") == ()
        assert store.certificates(["node1"], run_id=run.id) == (new,)
        # The older pass does not shine through the newer failure.
        assert store.certificates(valid_at=NOW + 10) == (other,)
        assert store.certificates(valid_at=NOW + 1000) == ()


def test_the_gate_gets_the_newest_and_what_has_not_expired(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        first, second, third = (certificate(run, number=n) for n in (1, 2, 3))
        store.put_certificates([first, second, third, certificate(run, port=B)])
        assert store.standing(["node1"], NOW) == (third, second, first)
        assert store.standing(["node1"], first.expires_at) == (third, second)
        assert store.standing(["node1"], NOW + 1000) == (third,)
        assert store.standing(["node9"], NOW) == ()


def test_a_certificate_of_a_clock_that_was_ahead_is_replaced(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        ahead, now = certificate(run, number=9999), certificate(run)
        store.put_certificates([ahead])
        store.put_certificates([now])
        assert store.certificates(newest=False) == (now,)


def test_certificates_are_kept_all_or_none(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        with pytest.raises(StoreError, match="UNIQUE"):
            store.put_certificates([certificate(run), certificate(run)])
        assert store.certificates() == ()


def test_revoking_a_node_revokes_all_its_certificates_once(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        old, new = certificate(run), certificate(run, number=2)
        store.put_certificates([old, new])
        revoked = store.revoke("node1", "kim", "cable swapped", NOW)
        assert {c.id for c in revoked} == {old.id, new.id}
        (held,) = store.certificates()
        assert held == replace(new, revoked=revoked[0].revoked)
        assert re.fullmatch(r"by kim at 20\d\d-\d\d-\d\d \d\d:\d\d: cable swapped", held.revoked)
        assert store.certificates(valid_at=NOW + 10) == ()
        assert store.revoke("node1", "kim", "again", NOW) == ()


@pytest.mark.parametrize("body", ["{}", "[]", '{"peers": {"a/b": "fine"}}', '{"peers": []}'])
def test_a_certificate_that_cannot_be_understood_is_a_store_error(path: Path, body: str) -> None:
    with Store.open(path) as store:
        store.put_certificates([certificate(store.begin(RunKind.VERIFY, "ops", "/i.yml"))])
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE certificates SET body = ?", (body,))
    raw.close()
    with Store.open(path) as store, pytest.raises(StoreError, match="cannot be understood"):
        store.standing(["node1"], NOW)


def test_reading_a_store_that_is_not_there_says_what_to_do(path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no store; run .fabricctl verify. or set FABRICCTL_STORE"):
        Store.open(path, readonly=True)
    assert not path.exists()


@pytest.mark.parametrize("readonly", [True, False])
def test_a_file_that_is_no_database_is_a_store_error(path: Path, readonly: bool) -> None:  # noqa: FBT001
    path.parent.mkdir()
    path.write_bytes(b"this is no database, " * 100)
    with pytest.raises(StoreError, match="move the file away"):
        Store.open(path, readonly=readonly)


@pytest.mark.parametrize("readonly", [True, False])
def test_a_newer_schema_is_refused(path: Path, readonly: bool) -> None:  # noqa: FBT001
    Store.open(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(StoreError, match=r"schema 99.*upgrade fabricctl"):
        Store.open(path, readonly=readonly)


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("version", range(1, len(database.MIGRATIONS) + 1))
def test_a_store_of_each_released_schema_is_read_and_brought_up_to_date(
    path: Path,
    version: int,
    readonly: bool,  # noqa: FBT001
) -> None:
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as raw:
        for statements in database.MIGRATIONS[:version]:
            for statement in statements:
                raw.execute(statement)
        raw.execute(f"PRAGMA user_version = {version}")
        raw.execute(
            "INSERT INTO runs (id, kind, started_at, started_by, inventory, process)"
            " VALUES ('v1', 'verify', 1.0, 'ops', '/i.yml', 'gone:1:1')"
        )
        pieces = (zlib.compress(json.dumps(encode(getattr(_evidence(), n))).encode()) for n in PIECES)
        raw.execute("INSERT INTO evidence VALUES ('v1', ?, ?, ?, ?, ?, ?, ?)", tuple(pieces))
        raw.execute("INSERT INTO records VALUES ('v1', 'plan', '{\"a\":1}')")
    raw.close()
    with Store.open(path, readonly=readonly) as store:
        assert [run.id for run in store.runs()] == ["v1"]
        assert store.verify("v1") == _evidence()
        assert store.record("v1", "plan") == {"a": 1}
        assert store.record("v1", "other") is None
        assert list(store.probed("v1")) == []
        if not readonly:
            store.put_probed("v1", _evidence().samples, 1)
            assert len(list(store.probed("v1"))) == 1
    with sqlite3.connect(path) as raw:
        (found,) = raw.execute("PRAGMA user_version").fetchone()
    raw.close()
    assert found == (version if readonly else len(database.MIGRATIONS))


def _large() -> Verdicts:
    pairs = [(0, 1), (1, 0), (0, 2), (2, 0)]
    fine = Alike("same_leaf", (Finding("verify", "", Outcome.PASS, "passed loss"),))
    left = Alike("same_leaf", (Finding("verify", "", Outcome.UNKNOWN, "not measured", next_step="again"),))
    failed = Verdict(PairId(B, A), "same_leaf", (Finding("loss", f"{B} -> {A}", Outcome.FAIL, "lost"),))
    return Verdicts(
        (A, B, PortId("node3", "eth1")),
        array("H", [a for a, _ in pairs]),
        array("H", [b for _, b in pairs]),
        array("H", [1, 0, 1, 2]),
        (fine, left),
        {1: failed},
    )


def test_verdicts_of_a_large_run_come_back_equal(path: Path) -> None:
    verdicts = _large()
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        store.put_probed(run.id, _evidence().samples, 1)
        store.put_verify(run.id, replace(_evidence(), verdicts=verdicts))
        seen = store.verify(run.id)
        assert len(list(store.probed(run.id))) == 1
    assert seen == replace(_evidence(), verdicts=verdicts)
    assert list(seen.verdicts) == [verdicts[place] for place in range(4)] == list(verdicts[0:4])
    assert outcomes(seen.verdicts) == {Outcome.PASS: 2, Outcome.FAIL: 1, Outcome.UNKNOWN: 1}
    assert outcomes(list(seen.verdicts)) == outcomes(verdicts)
    assert encode(verdicts) == encode(list(verdicts))
    assert [str(v.pair) for v in verdicts][1:3] == ["node2/eth1 -> node1/eth1", "node1/eth1 -> node3/eth1"]
    assert hash(verdicts) == hash(seen.verdicts)


@pytest.mark.parametrize("large", [False, True], ids=["whole", "alike"])
@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), StoreError("no space is left")], ids=repr)
@pytest.mark.parametrize("step", ["_put_pieces", "put_certificates", "finish"])
def test_a_run_concludes_as_a_whole_or_not_at_all(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException | None, *, large: bool
) -> None:
    evidence = replace(_evidence(), verdicts=_large()) if large else _evidence()
    right = getattr(Store, step)

    def ending(*args: object, **given: object) -> object:
        found = right(*args, **given)
        if error:
            raise error
        return found

    with Store.open(path) as store:
        before = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        old = certificate(before)
        store.put_certificates([old])
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        store.put_probed(run.id, evidence.samples, 1)
        new = certificate(run, number=2, outcome=Outcome.FAIL)
        with monkeypatch.context() as patched:
            patched.setattr(Store, step, ending)
            with pytest.raises(type(error)) if error else nullcontext():
                store.conclude(run, Outcome.FAIL, "1 fail", evidence, [new], NOW + 5)
    with Store.open(path) as store:
        held = store.run(run.id)
        ended = (held.ended_at, held.outcome, held.summary)
        assert store.is_concluded(run.id) is (error is None)
        assert store.verify(run.id) == (None if error else evidence)
        assert store.certificates() == ((old,) if error else (new,))
        assert ended == ((None, None, "") if error else (NOW + 5, Outcome.FAIL, "1 fail"))
        assert len(list(store.probed(run.id))) == (1 if error or large else 0)


def test_a_refused_certificate_leaves_a_run_that_can_go_on(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        twice = [certificate(run), certificate(run)]
        with pytest.raises(StoreError, match="UNIQUE"):
            store.conclude(run, Outcome.PASS, "1 pass", _evidence(), twice, NOW)
        assert not store.is_concluded(run.id)
        ended = store.conclude(run, Outcome.PASS, "1 pass", _evidence(), twice[:1], NOW)
        assert ended == store.run(run.id)
        assert store.certificates() == (twice[0],)


@pytest.mark.parametrize("verdicts", [{}, {"ports": ["x"]}, []])
def test_verdicts_that_are_none_are_an_error_of_ours(path: Path, verdicts: object) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        store.put_verify(run.id, replace(_evidence(), verdicts=_large()))
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alike SET verdicts = ?", (zlib.compress(json.dumps(verdicts).encode()),))
    raw.close()
    with Store.open(path) as store, pytest.raises(WireError, match="stored verdicts cannot be understood"):
        store.verify(run.id)


@pytest.mark.parametrize(
    "blob",
    [b"x", zlib.compress(b"{"), zlib.compress(b"{}"), zlib.compress(b'{"format":9}'), zlib.compress(b"[]")],
)
def test_samples_that_are_none_are_an_error_of_ours(path: Path, blob: bytes) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        store.put_probed(run.id, _evidence().samples, 1)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE probed SET samples = ?", (blob,))
    raw.close()
    with Store.open(path) as store, pytest.raises(WireError, match="stored samples cannot be understood"):
        list(store.probed(run.id))


def test_a_batch_keeps_every_field(path: Path) -> None:
    (one,) = _evidence().samples
    other = replace(
        one,
        error="no answer",
        error_kind="peer",
        error_device="node1",
        numbers_by_path=({"sent": 3, "missing": 1}, {"sent": 4}),
        counters={"source/a": Known(0), "target/b": Missing("went", impossible=True), "target/c": Known("x")},
    )
    still = replace(one, counters={"source/a": Known(0), "source/b": Known(0)}, latencies=Histogram())
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        store.put_probed(run.id, [one, other, still], 2)
        assert list(store.probed(run.id)) == [one, other, still]


def test_an_older_schema_is_read_as_a_copy_and_the_file_left_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.APPLY, "ops", "/i.yml")
    before = path.read_bytes()
    steps = (*database.MIGRATIONS, ("ALTER TABLE runs ADD COLUMN more TEXT NOT NULL DEFAULT 'x'",))
    monkeypatch.setattr(database, "MIGRATIONS", steps)
    with Store.open(path, readonly=True) as store:
        assert [r.id for r in store.runs()] == [run.id]
        assert store._rows("SELECT more FROM runs", ())[0]["more"] == "x"  # noqa: SLF001  the newest schema
        with pytest.raises(StoreError, match="readonly"):
            store.begin(RunKind.APPLY, "ops", "/i.yml")
    assert path.read_bytes() == before
    Store.open(path).close()
    assert path.read_bytes() != before


def _database(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE runs (id TEXT)")
    raw.close()


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.touch(), "the file is empty: it is no store; delete the file"),
    "text": (
        lambda path: path.write_text("my notes\n" * 200),
        "it is no store of fabricctl, or a damaged one",
    ),
    "short text": (lambda path: path.write_text("x"), "it is no store of fabricctl;"),
    "database": (_database, "it is no store of fabricctl;"),
    "pipe": (os.mkfifo, "it is no file but a device"),
    "folder": (Path.mkdir, "it is no file but a folder"),
    "dead link": (lambda path: path.symlink_to("nowhere"), "cannot be opened: No such file"),
}


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(
    path: Path,
    kind: str,
    readonly: bool,  # noqa: FBT001
) -> None:
    make, says = FOREIGN[kind]
    path.parent.mkdir()
    make(path)
    if not path.is_symlink():
        path.chmod(0o644)
    before = path.lstat(), path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=says) as caught:
        Store.open(path, readonly=readonly)
    assert "FABRICCTL_STORE to" in caught.value.next_step
    after = path.lstat(), path.read_bytes() if path.is_file() else b""
    assert (after[0].st_mode, after[0].st_mtime_ns, after[1]) == (
        before[0].st_mode,
        before[0].st_mtime_ns,
        before[1],
    )
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null"])
def test_a_device_keeps_its_mode(device: str) -> None:
    before = Path(device).stat().st_mode
    for readonly in (True, False):
        with pytest.raises(StoreError, match="a device"):
            Store.open(Path(device), readonly=readonly)
    assert Path(device).stat().st_mode == before


def test_a_full_disk_is_called_so_and_the_store_stays_usable(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.VERIFY, "ops", "/i.yml")
        pages = store._rows("PRAGMA page_count", ())[0][0]  # noqa: SLF001  SQLite's own way to a full disk
        store._rows(f"PRAGMA max_page_count = {pages + 1}", ())  # noqa: SLF001
        with pytest.raises(StoreError, match="no space is left for the store; make room on its disk"):
            store.put_record(run.id, "plan", {"much": "x" * 100_000})
        with pytest.raises(StoreError, match="no space is left"):
            store.put_certificates(certificate(run, number=n) for n in range(200))
        assert [r.id for r in store.runs()] == [run.id]
        assert store.certificates() == ()
        store._rows("PRAGMA max_page_count = 100000", ())  # noqa: SLF001
        store.put_record(run.id, "plan", {})


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_WRITE])
def test_an_input_output_error_on_a_full_disk_is_called_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    for free, says in ((0, "no space is left"), (9, "disk I/O error")):
        full = os.statvfs_result((4096, 4096, 9, free, free, 9, 9, 9, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _path, full=full: full)
        with pytest.raises(StoreError, match=says), database.mapped(path):
            raise error


@pytest.mark.parametrize(
    ("code", "says"),
    [(errno.ENOSPC, "no space is left; make room"), (errno.EROFS, "Read-only file system; use the account")],
)
def test_a_disk_on_which_no_store_can_be_made_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int, says: str
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(StoreError, match=says):
        Store.open(path)


def test_two_processes_that_begin_a_store_at_once_share_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def late(source: str, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        with Store.open(path) as other:
            other.begin(RunKind.APPLY, "other", "/i.yml")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with Store.open(path) as store:
        assert [run.by for run in store.runs()] == ["other"]
    assert [entry.name for entry in path.parent.iterdir() if entry.suffix == ".new"] == []


def test_a_store_that_is_not_there_is_absent(path: Path) -> None:
    assert Store.is_absent(path)
    assert Store.is_absent(path / "below")
    Store.open(path).close()
    assert not Store.is_absent(path)
    assert Store.is_absent(path / "below")


def test_a_migration_that_fails_leaves_the_old_schema(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.open(path).close()
    steps = (*database.MIGRATIONS, ("CREATE TABLE extra (a TEXT) STRICT", "nonsense"))
    monkeypatch.setattr(database, "MIGRATIONS", steps)
    with pytest.raises(StoreError, match="nonsense"):
        Store.open(path)
    monkeypatch.undo()
    with Store.open(path) as store:
        assert store.runs() == ()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Store.open(tmp_path / "file" / "store.sqlite")


def test_readers_do_not_wait_for_a_writer_and_a_second_writer_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    with Store.open(path) as writer, Store.open(path, readonly=True) as reader, Store.open(path) as second:
        run = writer.begin(RunKind.APPLY, "ops", "/i.yml")
        with writer._transaction():  # noqa: SLF001  a writer in the middle of its work
            writer.put_record(run.id, "plan", {})
            assert [r.id for r in reader.runs()] == [run.id]
            assert reader.records("plan") == ()
            with pytest.raises(BusyError, match="another run is writing"):
                second.begin(RunKind.APPLY, "ops", "/i.yml")
        assert len(reader.records("plan")) == 1


def test_a_store_opened_to_read_cannot_be_written(path: Path) -> None:
    Store.open(path).close()
    with Store.open(path, readonly=True) as store, pytest.raises(StoreError, match="readonly"):
        store.begin(RunKind.APPLY, "ops", "/i.yml")


def test_another_thread_is_refused_with_our_error(path: Path) -> None:
    caught: list[BaseException] = []
    with Store.open(path) as store:

        def use() -> None:
            try:
                store.runs()
            except FabricctlError as exc:
                caught.append(exc)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join(10)
    assert isinstance(caught[0], StoreError)


def test_every_exception_of_sqlite_leaves_as_ours(path: Path) -> None:
    kinds = [
        kind for kind in vars(sqlite3).values() if isinstance(kind, type) and issubclass(kind, sqlite3.Error)
    ]
    assert len(kinds) >= 8
    for kind in kinds:
        with pytest.raises(StoreError), database.mapped(path):
            raise kind("x")


def test_the_store_survives_a_killed_writer(path: Path) -> None:
    with Store.open(path) as store:
        run = store.begin(RunKind.APPLY, "ops", "/i.yml")
    child = os.fork()
    if child == 0:
        half = Store.open(path)
        half._connection.execute("BEGIN IMMEDIATE")  # noqa: SLF001  dies in the middle of its work
        half._connection.execute("DELETE FROM runs")  # noqa: SLF001
        os._exit(9)
    os.waitpid(child, 0)
    with Store.open(path) as store:
        assert [r.id for r in store.runs()] == [run.id]


def test_certificates_of_an_inventory_end_together(path: Path) -> None:
    with Store.open(path) as store:
        lab, other = (store.begin(RunKind.VERIFY, "ops", name) for name in ("/lab.yml", "/other.yml"))
        store.put_certificates([certificate(lab)])
        assert store.end_certificates(other.inventory, "kim", "lab down", NOW) == 0
        assert store.end_certificates(lab.inventory, "kim", "lab down", NOW) == 1
        assert store.certificates(valid_at=NOW + 1) == ()


def test_an_apply_that_waits_says_until_when(path: Path) -> None:
    with Store.open(path) as store:
        assert store.unsettled_until("/i.yml") is None
        run = store.begin(RunKind.APPLY, "ops", "/i.yml")
        store.put_record(run.id, "apply", {"state": "waiting for confirm", "deadline": NOW + 60})
        assert store.unsettled_until("/i.yml") == NOW + 60
        assert store.unsettled_until("/other.yml") is None
        store.update_record(run.id, "apply", {"state": "done", "deadline": NOW + 60})
        assert store.unsettled_until("/i.yml") is None


def test_a_batch_of_which_nothing_is_wanted_is_only_looked_at_for_damage() -> None:
    class Nothing:
        def __call__(self, source: str, target: str) -> bool:
            raise AssertionError(source + target)

        def __bool__(self) -> bool:
            return False

    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    blob = batches.pack([Sample(pair, "loss", "native 1", 1.0, 2.0)])
    assert list(batches.unpack(blob, Nothing())) == []
    for damaged in (blob[:-1], blob[:-4] + b"abcd", b"junk"):
        with pytest.raises(WireError, match="stored samples cannot be understood"):
            list(batches.unpack(damaged, Nothing()))


def test_samples_that_share_what_they_hold_come_back_each_by_itself() -> None:
    pairs = [PairId(PortId("node1", "eth1"), PortId(f"node{n}", "eth1")) for n in (2, 3)]
    still, moved = {"source/a": Known(0), "target/b": Known(0)}, {"source/a": Known(7)}
    gone = {"source/a": Missing("reset", impossible=True)}
    samples = [
        Sample(pair, probe, "native 1", 1.5, 0.25, counters=counters, parameters={"size": size})
        for pair in pairs
        for probe in ("loss", "read_latency")
        for counters in (still, moved, dict(still), gone, {})
        for size in (8, 9)
    ]
    assert list(batches.unpack(batches.pack(samples))) == samples
