"""The fleet with real agent processes and a stand-in for pyverbs."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fabricctl.model.fabric import LinkLayer
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import EcnProfile, Limits, LossLimit, MtuPolicy, Policy, TrafficClass
from fabricctl.model.probe import Round, Sample
from fabricctl.model.reading import Known
from fabricctl.plugin import finder
from fabricctl.verify import agents, schedule
from fabricctl.verify.agents import Patience
from fabricctl.verify.fleet import Fleet


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
PATIENCE = Patience(start=20, answer=2, idle=30)
POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=TrafficClass(3, 26),
    cnp=TrafficClass(6, 48),
    mtu=MtuPolicy(9000, 9216, 4096),
    pfc_priorities=(3,),
    ecn={0: EcnProfile(1, 2, 3)},
    limits=Limits((), LossLimit(0.0, 0.01, 0.95), 20, 5, 8, 2),
)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Any]:
    count, rails = getattr(request, "param", (2, 1))
    fabric = fakes.make_fabric(count, rails)
    with fakes.FakeNodes(tmp_path, fabric) as made:
        made.fabric = fabric
        monkeypatch.setattr(agents, "PYTHON", str(made.python))
        yield made


def _ports(nodes: Any) -> list[PortId]:
    return [port.id for port in nodes.fabric.node_ports()]


def _probes(*names: str) -> dict[str, Any]:
    return {name: finder.probe(name).parameters(POLICY) for name in names}


def _by_pair(samples: tuple[Sample, ...]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(str(sample.pair), []).append(sample)
    return found


def test_all_probes_measure_a_pair(nodes: Any) -> None:
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        reports = fleet.reports
        read, write, pingpong, loss = fleet.run_round(
            Round(1, (pair,)), _probes("read_latency", "write_latency", "write_pingpong", "loss"), POLICY
        )
    assert [reports[n].ports[PortId(n, "eth1")] for n in ("node1", "node2")] == [
        "1 RoCE v2 10.10.0.1",
        "1 RoCE v2 10.10.0.2",
    ]
    assert reports["node1"].error == ""
    for sample in (read, write, pingpong):
        assert sample.error == ""
        assert sample.latencies.samples == 20
        assert (sample.latencies.minimum or 0) > 0
        assert sample.counters["source/completer_retry_err"] == Known(0)
        assert sample.counters["target/netdev_rx_dropped"] == Known(0)
        assert sample.parameters["traffic_class"] == 106
        assert sample.parameters["source_gid_index"] == 1
        assert sample.parameters["warmup"] == 5
        assert sample.engine.startswith("pyverbs ")
    assert loss.error == ""
    assert loss.numbers["sent"] >= 320
    assert {name: loss.numbers[name] for name in ("missing", "corrupt", "late")} == dict.fromkeys(
        ("missing", "corrupt", "late"), 0
    )
    assert loss.parameters["path_mtu_bytes"] == 4096
    assert nodes.all_ended()


def test_driver_without_extended_completion_queues_is_served_too(nodes: Any) -> None:
    nodes.environment["node1"] = nodes.environment["node2"] = {"FAKE_PLAIN_CQ": "1"}
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        read, loss = fleet.run_round(Round(1, (pair,)), _probes("read_latency", "loss"), POLICY)
    assert (read.error, read.latencies.samples) == ("", 20)
    assert loss.numbers["missing"] == 0


def test_bundle_is_put_once_and_agents_do_not_outlive_their_channel(nodes: Any) -> None:
    for _ in range(2):
        with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE):
            pass
    assert sorted(nodes.puts) == ["node1", "node2"]
    assert nodes.all_ended()
    kept = nodes.folder / "node1" / "run" / "fabricctl"
    other = nodes.folder / "node1" / "tmp" / "fabricctl-0"
    folder = kept if kept.exists() else other
    assert oct(folder.stat().st_mode & 0o777) == "0o700"


def test_loss_is_counted_exactly_per_path(nodes: Any) -> None:
    nodes.environment["node1"] = {"FAKE_LOSS": "0.1"}
    there = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        (lossy,) = fleet.run_round(Round(1, (there,)), _probes("loss"), POLICY)
        (clean,) = fleet.run_round(Round(2, (there.reverse,)), _probes("loss"), POLICY)
    # Both unreliable queue pairs of the stand-in draw the same sequence, from the same seed.
    chance = random.Random("13")  # noqa: S311  what the stand-in draws
    sent = lossy.numbers_by_path[0]["sent"]
    expected = sum(chance.random() < 0.1 for _ in range(sent))
    assert [path["missing"] for path in lossy.numbers_by_path] == [expected, expected]
    assert lossy.numbers["missing"] == 2 * expected > 0
    assert lossy.numbers["sent"] == 2 * sent >= 320
    assert lossy.numbers["corrupt"] == 0
    assert clean.numbers["missing"] == 0


@pytest.mark.parametrize("nodes", [(4, 1)], indirect=True)
def test_killed_node_fails_its_own_pairs_only(nodes: Any) -> None:
    rounds = schedule.rounds(schedule.expand(nodes.fabric, "all"))
    began = time.monotonic()
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        nodes.agent("node3").kill()
        samples = _by_pair(
            tuple(s for r in rounds for s in fleet.run_round(r, _probes("read_latency", "loss"), POLICY))
        )
    assert time.monotonic() - began < 20
    assert len(samples) == 12
    for pair, found in samples.items():
        for sample in found:
            if "node3" in pair:
                assert "node3 is gone" in sample.error or "node3 stopped answering at" in sample.error
                assert sample.error_kind == "gone"
            else:
                assert sample.error == ""


@pytest.mark.parametrize("nodes", [(4, 1)], indirect=True)
def test_frozen_node_costs_one_wait(nodes: Any) -> None:
    rounds = schedule.rounds(schedule.expand(nodes.fabric, "all"))
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        nodes.freeze("node2")
        began = time.monotonic()
        samples = _by_pair(
            tuple(s for r in rounds for s in fleet.run_round(r, _probes("read_latency"), POLICY))
        )
        took = time.monotonic() - began
    assert took < 10
    errors = [s.error for pair, found in samples.items() for s in found if "node2" in pair]
    assert len(errors) == 6
    # Both directions of the couple that was under way; the others are not even begun.
    assert errors.count("node2 did not answer for 2 s") == 2
    assert sum("node2 stopped answering at" in error for error in errors) == 4
    assert all(not s.error for pair, found in samples.items() for s in found if "node2" not in pair)


def test_unreachable_node_is_reported_and_has_no_samples(nodes: Any) -> None:
    nodes.environment["node2"] = {"UNREACHABLE": "1"}
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        assert fleet.reports["node2"].error == "no route to host; is it on?"
        assert fleet.reports["node1"].error == ""
        assert fleet.run_round(Round(1, (pair,)), _probes("read_latency"), POLICY) == ()


def test_s51_small_memlock_names_the_limit_and_the_remedy(nodes: Any) -> None:
    nodes.environment["node1"] = {"FAKE_MEMLOCK": "65536"}
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        error = fleet.reports["node1"].error
    assert "cannot be registered" in error
    assert "LimitMEMLOCK=infinity" in error
    assert "\n" not in error


@pytest.mark.parametrize("nodes", [(2, 2)], indirect=True)
def test_bad_port_leaves_the_other_rail(nodes: Any) -> None:
    gids = nodes.folder / "node1/sys/class/infiniband/rxe1/ports/1/gids/1"
    gids.write_text("fe80:0000:0000:0000:0000:0000:0000:0001\n")
    pairs = tuple(PairId(PortId("node1", f"eth{n}"), PortId("node2", f"eth{n}")) for n in (1, 2))
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        report = fleet.reports["node1"]
        good, bad = fleet.run_round(Round(1, pairs), _probes("read_latency"), POLICY)
    assert report.error == ""
    assert "no RoCE v2 GID of eth2 in 10.10.1.0/24" in report.ports[PortId("node1", "eth2")]
    assert good.error == ""
    assert "no RoCE v2 GID of eth2" in bad.error
    assert bad.error_kind == "setup"


class _Cut:
    """Does something just before an agent is told to run."""

    def __init__(self, fleet: Fleet, port: PortId, deed: Callable[[], None]) -> None:
        self._process = fleet._agents[port].process  # noqa: SLF001  to cut the wire between two steps
        self._send, self._deed = self._process.send, deed
        self._process.send = self.send  # type: ignore[method-assign]

    def send(self, line: str) -> None:
        if '"op":"run"' in line:
            self._deed()
            self._process.send = self._send  # type: ignore[method-assign]
        self._send(line)


def _addresses(fleet: Fleet, port: PortId, kept: list[list[Any]]) -> None:
    """Keep the addresses of the endpoints that an agent has prepared."""
    exchange = fleet.course.exchange
    (line,) = (one for one in exchange.lines if one.agent.port.id == port)
    ask = exchange._answer  # noqa: SLF001  to see what the two agents tell each other

    def answer(this: Any, message: dict[str, Any], now: float) -> None:
        if this is line and "addresses" in message.get("ok", {}):
            kept.append(json.loads(message["ok"]["addresses"]))
        ask(this, message, now)

    exchange._answer = answer  # type: ignore[method-assign]  # noqa: SLF001


def _unplug(nodes: Any, addresses: list[list[Any]], *places: int) -> None:
    for place in places:
        for number in addresses[-1][place]["queue_pairs"]:
            (nodes.folder / "wire" / f"qp-{number}").unlink()


def test_pair_whose_peer_has_no_queue_pairs_fails_in_both_directions_and_the_agents_go_on(
    nodes: Any,
) -> None:
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    probes = _probes("read_latency", "write_pingpong")
    began = time.monotonic()
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:

        def cut() -> None:
            for path in (nodes.folder / "wire").glob("qp-*"):
                path.unlink()

        _Cut(fleet, pair.target, cut)
        found = fleet.run_round(Round(1, (pair, pair.reverse)), probes, POLICY)
        well = fleet.run_round(Round(2, (pair,)), probes, POLICY)
    assert time.monotonic() - began < 10
    assert [(s.probe, s.error_kind) for s in found] == [
        ("read_latency", "peer"),
        ("write_pingpong", "deadline"),
        ("read_latency", "peer"),
        ("write_pingpong", "deadline"),
    ]
    assert all(s.error_device == "" for s in found)
    assert all("no answer from the peer" in s.error for s in found if s.error_kind == "peer")
    assert all("not measured: both ends had lost each other" in s.error for s in found[1::2])
    assert [s.error for s in well] == ["", ""]


@pytest.mark.parametrize("probe", ["write_pingpong", "read_latency"])
def test_job_without_its_queue_pair_fails_at_once_and_the_others_go_on(nodes: Any, probe: str) -> None:
    # The far end of a ping-pong waits for a message that never comes; its deadline is a minute away.
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    probes = {**_probes("write_latency", probe, "loss")}
    kept: list[list[Any]] = []
    began = time.monotonic()
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        _addresses(fleet, pair.target, kept)
        _Cut(fleet, pair.target, lambda: _unplug(nodes, kept, 2))
        before, failed, after = fleet.run_round(Round(1, (pair,)), probes, POLICY)
    assert time.monotonic() - began < 8
    assert (failed.error_kind, failed.error_device) == ("peer", "")
    assert "no answer from the peer" in failed.error
    assert (before.error, before.latencies.samples) == ("", 20)
    assert (after.error, after.numbers["missing"]) == ("", 0)


def test_ends_that_lose_each_other_keep_what_they_have(nodes: Any) -> None:
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    probes = _probes("write_latency", "write_pingpong", "read_latency")
    kept: list[list[Any]] = []
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        _addresses(fleet, pair.target, kept)
        _Cut(fleet, pair.target, lambda: _unplug(nodes, kept, 0))
        found = fleet.run_round(Round(1, (pair, pair.reverse)), probes, POLICY)
    kinds = {str(s.pair.source.device): [] for s in found}
    for sample in found:
        kinds[sample.pair.source.device].append(sample.error_kind)
    # What the connection between the jobs is refused, each direction is refused once; the rest is unknown.
    assert kinds == {"node1": ["peer", "deadline", "deadline"], "node2": ["peer", "deadline", "deadline"]}


def test_probe_that_an_agent_does_not_have_leaves_the_others(nodes: Any) -> None:
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    probes = {"telepathy": {"deadline_s": 5.0}, **_probes("read_latency")}
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        strange, read = fleet.run_round(Round(1, (pair,)), probes, POLICY)
    assert (strange.error_kind, strange.error_device) == ("wire", "node1")
    assert strange.error.startswith("node1: this agent has no probe 'telepathy'")
    assert (read.error, read.latencies.samples) == ("", 20)


def test_both_directions_come_from_one_session(nodes: Any) -> None:
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    kept: list[list[Any]] = []
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        _addresses(fleet, pair.target, kept)
        found = fleet.run_round(Round(1, (pair, pair.reverse)), _probes("read_latency", "loss"), POLICY)
        until = time.monotonic() + 10  # sessions are closed after their reply
        while list((nodes.folder / "wire").glob("qp-*")) and time.monotonic() < until:
            time.sleep(0.05)
        assert list((nodes.folder / "wire").glob("qp-*")) == []
    assert [len(addresses) for addresses in kept] == [
        5
    ]  # both probes, both ways, and what keeps them in step
    assert [(s.pair, s.probe, s.error) for s in found] == [
        (way, probe, "") for way in (pair, pair.reverse) for probe in ("read_latency", "loss")
    ]


@pytest.mark.parametrize("end", ["freeze", "kill"])
@pytest.mark.parametrize("probe", ["read_latency", "write_latency"])
def test_peer_error_is_no_failure_of_the_link_if_the_far_node_is_gone(
    nodes: Any, probe: str, end: str
) -> None:
    # Whatever the near end sees first: a node that is gone explains it.
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:

        def cut() -> None:
            if end == "freeze":
                nodes.freeze("node2")
            else:
                nodes.agent("node2").kill()
            for path in (nodes.folder / "wire").glob("qp-*"):
                path.unlink()

        _Cut(fleet, pair.source, cut)
        (failed,) = fleet.run_round(Round(1, (pair,)), _probes(probe), POLICY)
    assert (failed.error_kind, failed.error_device) == ("gone", "node2")
    assert failed.error.startswith("node2 did not answer for" if end == "freeze" else "node2 is gone")
