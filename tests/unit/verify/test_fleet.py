"""The fleet with real agent processes and a stand-in for pyverbs."""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fabricctl.errors import DeadlineError
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
        assert len(sample.latencies_ns) == 20
        assert min(sample.latencies_ns) > 0
        assert sample.counters["source/completer_retry_err"] == Known(0)
        assert sample.counters["target/netdev_rx_dropped"] == Known(0)
        assert sample.parameters["traffic_class"] == 106
        assert sample.parameters["source_gid_index"] == 1
        assert sample.parameters["warmup"] == 5
        assert sample.engine.startswith("pyverbs ")
    assert loss.error == ""
    assert loss.numbers == {"sent": 320, "missing": 0, "corrupt": 0, "late": 0}
    assert loss.parameters["path_mtu_bytes"] == 4096
    assert nodes.all_ended()


def test_driver_without_extended_completion_queues_is_served_too(nodes: Any) -> None:
    nodes.environment["node1"] = nodes.environment["node2"] = {"FAKE_PLAIN_CQ": "1"}
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        read, loss = fleet.run_round(Round(1, (pair,)), _probes("read_latency", "loss"), POLICY)
    assert (read.error, len(read.latencies_ns)) == ("", 20)
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
    expected = sum(chance.random() < 0.1 for _ in range(160))
    assert [path["missing"] for path in lossy.numbers_by_path] == [expected, expected]
    assert lossy.numbers["missing"] == 2 * expected > 0
    assert lossy.numbers["sent"] == 320
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
    assert errors[0] == "node2 did not answer for 2 s" or "node2 did not answer for 2 s" in errors
    assert sum("node2 stopped answering at" in error for error in errors) == 5
    assert all(not s.error for pair, found in samples.items() for s in found if "node2" not in pair)


class _Line:
    """A channel with a script: lines, or None for silence."""

    def __init__(self, *script: str | None) -> None:
        self.script = list(script)
        self.sent: list[str] = []
        self.closed = False

    def send(self, line: str) -> None:
        self.sent.append(line)

    def receive(self, deadline_s: float) -> str:
        line = self.script.pop(0)
        if line is None:
            raise DeadlineError("silence", device="node1", after_s=deadline_s)
        return line

    def close(self) -> None:
        self.closed = True


def _agent(line: _Line) -> agents.Agent:
    fabric = fakes.make_fabric(1)
    return agents.Agent(
        fabric.device("node1"), fabric.device("node1").ports[0], line, {"pyverbs": "1"}, PATIENCE
    )


def test_silent_agent_that_gives_a_sign_of_life_is_waited_for() -> None:
    line = _Line(None, '{"pong":true}', None, '{"pong":true}', '{"id":1,"ok":{"done":1}}')
    assert _agent(line).ask("run", takes_s=60) == {"done": 1}
    assert line.sent == ['{"id":1,"op":"run","deadline_s":60}', '{"op":"ping"}', '{"op":"ping"}']


def test_silent_agent_that_gives_none_is_given_up_long_before_its_probe_would_end() -> None:
    line = _Line(None, None)
    agent = _agent(line)
    with pytest.raises(agents.NoAnswerError, match="node1 did not answer for 2 s") as caught:
        agent.ask("run", takes_s=600)
    assert caught.value.kind == "gone"
    assert line.closed
    with pytest.raises(agents.NoAnswerError, match="node1 stopped answering at"):
        agent.ask("run")


def test_late_reply_to_an_earlier_request_is_passed_over() -> None:
    line = _Line('{"id":1,"error":{"kind":"peer","text":"no"}}', '{"id":1,"ok":{}}', '{"id":2,"ok":{"a":2}}')
    agent = _agent(line)
    with pytest.raises(agents.NoAnswerError) as caught:
        agent.ask("run")
    assert caught.value.kind == "peer"
    assert agent.ask("finish") == {"a": 2}


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


def test_peer_without_queue_pair_is_a_peer_error_and_the_agents_go_on(nodes: Any) -> None:
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        node2 = fleet._agents[pair.target]  # noqa: SLF001  to cut the wire between two steps
        ask = node2.send

        def cut(op: str, **fields: Any) -> int:
            if op == "run":
                for path in (nodes.folder / "wire").glob("qp-*"):
                    path.unlink()
            return ask(op, **fields)

        node2.send = cut
        (failed,) = fleet.run_round(Round(1, (pair,)), _probes("write_pingpong"), POLICY)
        node2.send = ask
        (well,) = fleet.run_round(Round(2, (pair,)), _probes("write_pingpong"), POLICY)
    assert failed.error_kind == "peer"
    assert "no answer from the peer" in failed.error
    assert well.error == ""


@pytest.mark.parametrize("end", ["freeze", "kill"])
@pytest.mark.parametrize("probe", ["read_latency", "write_latency"])
def test_peer_error_is_no_failure_of_the_link_if_the_far_node_is_gone(
    nodes: Any, probe: str, end: str
) -> None:
    # The far end of a one-sided probe has answered long before: only the near end sees it go.
    pair = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
    with Fleet(nodes.fabric, _ports(nodes), nodes, PATIENCE) as fleet:
        node1, node2 = fleet._agents[pair.source], fleet._agents[pair.target]  # noqa: SLF001  to cut between two steps
        ask = node1.send

        def cut(op: str, **fields: Any) -> int:
            if op == "run":
                until = time.monotonic() + 5
                while node2._process._lines.empty() and time.monotonic() < until:  # noqa: SLF001
                    time.sleep(0.01)
                if end == "freeze":
                    nodes.freeze("node2")
                else:
                    nodes.agent("node2").kill()
                for path in (nodes.folder / "wire").glob("qp-*"):
                    path.unlink()
            return ask(op, **fields)

        node1.send = cut
        (failed,) = fleet.run_round(Round(1, (pair,)), _probes(probe), POLICY)
    assert (failed.error_kind, failed.error_device) == ("gone", "node2")
    assert failed.error.startswith("node2 did not answer for" if end == "freeze" else "node2 is gone")
