"""What the controller says to its agents, in which order, and what it makes of what they say."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fabricctl.model.fabric import Fabric, LinkLayer
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Limits, LossLimit, MtuPolicy, Policy, TrafficClass
from fabricctl.model.probe import Round, Sample
from fabricctl.model.reading import Known, Missing
from fabricctl.verify import course
from fabricctl.verify.agents import Patience
from fabricctl.verify.course import Leg
from fabricctl.verify.exchange import Exchange
from fabricctl.verify.fleet import Fleet
from fabricctl.verify.schedule import expand, rounds


def _load(name: str) -> Any:
    path = Path(__file__).parents[2] / "fakes" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"fakes_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


wire, nodes = _load("wire"), _load("nodes")
PATIENCE = Patience(start=5, answer=0.4, idle=30)
POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=TrafficClass(3, 26),
    cnp=None,
    mtu=MtuPolicy(9000, 9216, 4096),
    pfc_priorities=(3,),
    ecn={},
    limits=Limits((), LossLimit(0.0, 0.01, 0.95)),
)
PROBES = {"read_latency": {"samples": 20, "deadline_s": 5.0}, "loss": {"packets": 9, "deadline_s": 7.0}}
LATENCY = {"read_latency": PROBES["read_latency"]}


def _port(number: int) -> PortId:
    return PortId(f"node{number}", "eth1")


def _both(a: int, b: int) -> tuple[PairId, PairId]:
    pair = PairId(_port(a), _port(b))
    return pair, pair.reverse


def _run(way: Any, fabric: Fabric, legs: list[Leg]) -> list[Sample]:
    found: list[Sample] = []
    with Fleet(fabric, [port.id for port in fabric.node_ports()], way, PATIENCE) as fleet:
        fleet.run(legs, POLICY, found.extend)
    return found


def _one(way: Any, *pairs: PairId, probes: Any = LATENCY) -> list[Sample]:
    return _run(way, nodes.make_fabric(2), [Leg(Round(1, pairs), probes)])


def test_one_session_serves_all_probes_in_both_directions() -> None:
    way = wire.Wire()
    there, back = _both(1, 2)
    samples = _one(way, there, back, probes=PROBES)
    assert way.asked("node1") == ["port", "prepare a", "connect a", "run a"]
    assert way.asked("node2") == ["port", "prepare a", "connect a", "run a"]
    assert [(s.pair, s.probe) for s in samples] == [
        (there, "read_latency"),
        (back, "read_latency"),
        (there, "loss"),
        (back, "loss"),
    ]
    prepared = {node: said for node, said in way.heard if said["op"] == "prepare"}
    for node, leads, roles in (
        ("node1", True, ["source", "target", "source", "target"]),
        ("node2", False, ["target", "source", "target", "source"]),
    ):
        assert prepared[node]["leads"] is leads
        assert prepared[node]["engine"] == "native"
        assert [job["role"] for job in prepared[node]["jobs"]] == roles
        assert prepared[node]["jobs"][2]["parameters"] == {
            "packets": 9,
            "deadline_s": 7.0,
            "path_mtu_bytes": 4096,
            "traffic_class": 104,
            "line_rate_gbps": 100,
        }
    assert [said["peers"] for _, said in way.heard if said["op"] == "connect"] == ["of node2", "of node1"]
    (first, *_) = samples
    assert first.engine == "native 1"
    assert (first.latencies.samples, first.latencies.minimum, first.duration_s) == (20, 1000, 0.5)
    assert first.counters["source/rx_dropped"] == Known(0)
    assert first.counters["target/retries"] == Known(3)
    assert first.counters["source/resets"] == Missing("went backwards: it was reset")
    assert first.parameters["path_mtu_bytes"] == 1024
    assert first.parameters["wanted_path_mtu_bytes"] == 4096
    assert first.parameters["target_gid"] == "1 node2"
    assert first.parameters["floor_ns"] == 700


def test_only_the_direction_that_is_asked_for_is_played() -> None:
    way = wire.Wire()
    back = _both(1, 2)[1]
    (sample,) = _one(way, back)
    assert sample.pair == back
    leads = {node: said["leads"] for node, said in way.heard if said["op"] == "prepare"}
    assert leads == {"node1": False, "node2": True}


def test_next_couple_is_prepared_right_behind_the_one_that_runs_in_the_other_slot() -> None:
    way, fabric = wire.Wire(), nodes.make_fabric(4)
    legs = [Leg(this, LATENCY) for this in rounds(expand(fabric, "all"))]
    assert len(_run(way, fabric, legs)) == 12
    for node in ("node1", "node2", "node3", "node4"):
        assert way.asked(node) == [
            "port",
            "prepare a",
            "connect a",
            "run a + prepare b",
            "connect b",
            "run b + prepare a",
            "connect a",
            "run a",
        ]
        said = [
            m
            for name, line in way.heard
            if name == node
            for m in (line if isinstance(line, list) else [line])
        ]
        assert [m["id"] for m in said] == list(range(1, len(said) + 1))
        # Both may lead, so there are two lists of jobs at most; each is told once.
        told = [m["jobs_name"] for m in said if "jobs" in m]
        assert len(told) == len(set(told))


def _order(way: Any) -> list[str]:
    return [
        f"{one['op']} {node}"
        for node, line in way.heard
        for one in (line if isinstance(line, list) else [line])
        if one["op"] in {"connect", "run"}
    ]


def test_couple_waits_for_its_own_ends_only() -> None:
    late: dict[str, str] = {}

    def answer(node: str, request: dict[str, Any]) -> Any:
        if request["op"] == "run" and node in {"node1", "node2"} and node not in late:
            late[node] = json.dumps({"id": request["id"], **wire.obey(node, request)})
            return None
        if request["op"] == "ping":  # by then node3 and node4 have done the second round
            return ['{"pong":true}', late[node]]
        return wire.obey(node, request)

    way, fabric = wire.Wire(answer), nodes.make_fabric(4)
    legs = [
        Leg(Round(1, (*_both(1, 2), *_both(3, 4))), LATENCY),
        Leg(Round(2, _both(3, 4)), LATENCY),
        Leg(Round(3, (*_both(1, 3), *_both(2, 4))), LATENCY),
    ]
    samples = _run(way, fabric, legs)
    assert [s.error for s in samples] == [""] * 10
    order = [str(s.pair) for s in samples]
    assert order.index("node1/eth1 -> node2/eth1") == 4  # after both directions of node3 and node4, twice


def test_rounds_that_fill_links_overlap_with_no_other() -> None:
    way, fabric = wire.Wire(), nodes.make_fabric(4)
    filling = {"write_bandwidth": {"deadline_s": 5.0}}
    legs = [
        Leg(Round(1, (*_both(1, 2), *_both(3, 4))), LATENCY),
        Leg(Round(2, _both(1, 3)), filling, alone=True),
        Leg(Round(3, _both(2, 4)), filling, alone=True),
        Leg(Round(4, _both(1, 4)), LATENCY),
    ]
    found: list[Sample] = []

    with Fleet(fabric, [port.id for port in fabric.node_ports()], way, PATIENCE) as fleet:
        fleet.run(legs, POLICY, found.extend)
        share = fleet.measuring_share
    order = [s.pair.source.device + s.pair.target.device for s in found]
    assert order[:4] in (["node1node2", "node2node1", "node3node4", "node4node3"], [*order[2:4], *order[:2]])
    assert order[4:] == ["node1node3", "node3node1", "node2node4", "node4node2", "node1node4", "node4node1"]
    starts = [line for line in _order(way) if line.startswith("connect")]
    # Prepared long before, the second of them is connected only when the first is over.
    assert starts[4:] == [f"connect node{n}" for n in (1, 3, 2, 4, 1, 4)]
    assert share > 0


def test_silent_agent_that_gives_a_sign_of_life_is_waited_for() -> None:
    late: dict[str, str] = {}
    pings = {"node1": 0, "node2": 0}

    def answer(node: str, request: dict[str, Any]) -> Any:
        if request["op"] == "run":
            late[node] = json.dumps({"id": request["id"], **wire.obey(node, request)})
            return None
        if request["op"] == "ping":
            pings[node] += 1
            return ['{"pong":true}', late[node]] if pings[node] == 3 else ['{"pong":true}']
        return wire.obey(node, request)

    (sample,) = _one(wire.Wire(answer), _both(1, 2)[0])
    assert sample.error == ""
    assert pings == {"node1": 3, "node2": 3}


def test_silent_agent_that_gives_none_is_given_up_long_before_its_probe_would_end() -> None:
    def answer(node: str, request: dict[str, Any]) -> Any:
        if node == "node2" and request["op"] in {"run", "ping"}:
            return None
        return wire.obey(node, request)

    way = wire.Wire(answer)
    began = time.monotonic()
    (sample,) = _one(way, _both(1, 2)[0], probes={"read_latency": {"deadline_s": 600.0}})
    assert time.monotonic() - began < 3
    assert (sample.error, sample.error_kind, sample.error_device) == (
        "node2 did not answer for 0 s",
        "gone",
        "node2",
    )
    assert way.processes["node2"].closed


def test_agent_that_lives_and_never_answers_is_given_up_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(course, "STEP_S", 0.5)

    def answer(node: str, request: dict[str, Any]) -> Any:
        return None if node == "node1" and request["op"] == "prepare" else wire.obey(node, request)

    (sample,) = _one(wire.Wire(answer), _both(1, 2)[0])
    assert (sample.error_kind, sample.error_device) == ("gone", "node1")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (["welcome to node2"], "node2 is gone: the agent's line is no message: 'welcome to node2'"),
        (["[1]"], "node2 is gone: the agent's line is no message: '[1]'"),
        (['{"id":2}'], """node2 is gone: the agent's line is no message: '{"id": 2}'"""),
        (
            ['{"id":2,"error":"no"}'],
            """node2 is gone: the agent's line is no message: '{"id": 2, "error": "no"}'""",
        ),
        (['{"id":99,"ok":{}}'] * 2000, "node2 is gone: the agent said 1000 things that nobody asked for"),
        (['{"pong":true}'] * 2000, "node2 is gone: the agent said 1000 things that nobody asked for"),
    ],
)
def test_agent_that_talks_nonsense_is_given_up(said: list[str], error: str) -> None:
    def answer(node: str, request: dict[str, Any]) -> Any:
        return said if node == "node2" and request["op"] == "prepare" else wire.obey(node, request)

    way = wire.Wire(answer)
    (sample,) = _one(way, _both(1, 2)[0])
    assert (sample.error, sample.error_kind, sample.error_device) == (error, "gone", "node2")


def test_things_said_beside_a_reply_are_passed_over() -> None:
    def answer(node: str, request: dict[str, Any]) -> Any:
        if request["op"] != "run":
            return wire.obey(node, request)
        right = json.dumps({"id": request["id"], **wire.obey(node, request)})
        return ['{"id":1,"error":{"kind":"peer","text":"no"}}', '{"of":"x","failed":[]}', '{"news":1}', right]

    (sample,) = _one(wire.Wire(answer), _both(1, 2)[0])
    assert (sample.error, sample.latencies.samples) == ("", 20)


def _lie(**changed: Any) -> Any:
    def answer(node: str, request: dict[str, Any]) -> Any:
        found = wire.obey(node, request)
        if node == "node2" and request["op"] == changed["op"]:
            found["ok"].update({k: v for k, v in changed.items() if k != "op"})
        return found

    return answer


FINE = {"at_s": 0.0, "took_s": 1.0}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (_lie(op="prepare", mtu_bytes="4096"), "its reply to prepare makes no sense: mtu_bytes"),
        (_lie(op="prepare", addresses=[]), "its reply to prepare makes no sense: addresses"),
        (_lie(op="connect", path_mtu_bytes=None), "its reply to connect makes no sense: path_mtu_bytes"),
        (_lie(op="run", results=[]), "its reply to run makes no sense: results"),
        (
            _lie(op="run", results=[{"at_s": 0.0, "took_s": float("inf")}] * 2),
            "its reply to run makes no sense: results",
        ),
        (
            _lie(op="run", results=[{"at_s": 0.0, "took_s": -1}] * 2),
            "its reply to run makes no sense: results",
        ),
        (_lie(op="run", results=[{**FINE, "error": "no"}] * 2), "its reply to run makes no sense: results"),
        (_lie(op="run", counters=[{"x": "1"}]), "its reply to run makes no sense: counters"),
        (_lie(op="run", counted=3), "its reply to run makes no sense: counted"),
        (_lie(op="run", results=[{**FINE, "numbers": {"sent": "1"}}] * 2), "its counts are no numbers"),
        (_lie(op="run", results=[{**FINE, "numbers": [1]}] * 2), "its counts are no numbers"),
        (_lie(op="run", results=[{**FINE, "numbers_by_path": 1}] * 2), "its counts by path are no list"),
    ],
)
def test_reply_that_makes_no_sense_is_that_device_s_error(answer: Any, error: str) -> None:
    samples = _one(wire.Wire(answer), *_both(1, 2))
    assert len(samples) == 2
    for sample in samples:
        assert (sample.error, sample.error_kind, sample.error_device) == (f"node2: {error}", "wire", "node2")


@pytest.mark.parametrize("latencies", ["", "1.5.3", 7, None, "1.20.5.1.20.BB.AAAA"])
def test_latencies_that_are_no_histogram_are_that_device_s_error(latencies: Any) -> None:
    odd = [{**FINE, "latencies": latencies}] * 2
    there, back = _one(wire.Wire(_lie(op="run", results=odd)), *_both(1, 2))
    assert (there.error, there.latencies.samples) == ("", 20)
    assert back.error.startswith("node2: read_latency: its latencies make no sense: ")
    assert (back.error_kind, back.error_device) == ("wire", "node2")


def _failing(node: str, number: int, kind: str, text: str) -> Any:
    def answer(name: str, request: dict[str, Any]) -> Any:
        found = wire.obey(name, request)
        if name == node and request["op"] == "run":
            found["ok"]["results"][number]["error"] = {"kind": kind, "text": text}
        return found

    return answer


@pytest.mark.parametrize(
    ("kind", "device"),
    [("peer", ""), ("deadline", ""), ("setup", "node2"), ("wire", "node2"), ("internal", "node2")],
)
def test_job_that_fails_has_its_error_and_the_others_their_results(kind: str, device: str) -> None:
    samples = _one(wire.Wire(_failing("node2", 1, kind, "no such thing")), *_both(1, 2), probes=PROBES)
    assert [s.error for s in samples] == ["", "node2: no such thing", "", ""]
    assert (samples[1].error_kind, samples[1].error_device) == (kind, device)
    assert samples[1].latencies.samples == 0
    assert samples[0].latencies.samples == 20


def test_job_that_failed_is_called_off_at_the_other_end_alone() -> None:
    replies: dict[str, str] = {}

    def answer(node: str, request: dict[str, Any]) -> Any:
        if request["op"] == "run":
            replies[node] = json.dumps({"id": request["id"], **wire.obey(node, request)})
            return [json.dumps({"of": request["id"], "failed": 1})] if node == "node1" else None
        if request["op"] == "call_off":
            way.processes["node1"]._take(replies["node1"])  # noqa: SLF001  both have met and gone on
            return [replies["node2"]]
        return wire.obey(node, request)

    way = wire.Wire(answer)
    assert [s.error for s in _one(way, *_both(1, 2), probes=PROBES)] == [""] * 4
    called_off = [(node, said) for node, said in way.heard if "op" in said and said["op"] == "call_off"]
    (run,) = (said["id"] for node, said in way.heard if node == "node2" and said["op"] == "run")
    assert called_off == [("node2", {"op": "call_off", "of": run, "job": 1})]


def test_end_whose_session_failed_explains_what_the_other_one_saw() -> None:
    def answer(node: str, request: dict[str, Any]) -> Any:
        if node == "node2" and request["op"] == "run":
            return {"error": {"kind": "internal", "text": "the agent failed at run"}}
        return _failing("node1", 0, "peer", "no answer from the peer")(node, request)

    way = wire.Wire(answer)
    there, back = _one(way, *_both(1, 2))
    assert (there.error, there.error_device) == ("node2: the agent failed at run", "node2")
    assert back.error == there.error


@pytest.mark.parametrize("end", ["is frozen", "dies"])
def test_peer_that_is_gone_by_now_explains_the_fabric_s_no(end: str) -> None:
    def answer(node: str, request: dict[str, Any]) -> Any:
        ran = any(said["op"] == "run" for name, said in way.heard if name == node)
        if node == "node2" and ran and request["op"] in {"port", "ping"}:
            if end == "dies":
                way.processes[node].die()
            return None
        return _failing("node1", 0, "peer", "no answer from the peer")(node, request)

    way = wire.Wire(answer)
    (sample,) = _one(way, _both(1, 2)[0])
    assert (sample.error_kind, sample.error_device) == ("gone", "node2")
    wanted = (
        "node2 did not answer for" if end == "is frozen" else "node2 is gone: the program ended: signal 9"
    )
    assert sample.error.startswith(wanted)


def test_fabric_s_no_stands_if_both_ends_live() -> None:
    way = wire.Wire(_failing("node1", 0, "peer", "no answer from the peer"))
    (sample,) = _one(way, _both(1, 2)[0])
    assert (sample.error, sample.error_kind) == ("node1: no answer from the peer", "peer")
    assert sample.error_device == ""
    assert [way.asked(node)[-1] for node in ("node1", "node2")] == ["port", "port"]


def test_node_that_dies_costs_its_own_couples_only() -> None:
    def answer(node: str, request: dict[str, Any]) -> Any:
        if node == "node3" and request["op"] == "connect":
            way.processes["node3"].die()
            return None
        return wire.obey(node, request)

    way, fabric = wire.Wire(answer), nodes.make_fabric(6)
    samples = _run(way, fabric, [Leg(this, PROBES) for this in rounds(expand(fabric, "all"))])
    assert len(samples) == 60
    for sample in samples:
        has_it = "node3" in {sample.pair.source.device, sample.pair.target.device}
        assert bool(sample.error) == has_it
        assert (sample.error_kind, sample.error_device) == (("gone", "node3") if has_it else ("", ""))


def test_agent_of_another_version_is_refused() -> None:
    fabric = nodes.make_fabric(2)
    way = wire.Wire(hello={**wire.HELLO, "version": 1})
    with Fleet(fabric, [port.id for port in fabric.node_ports()], way, PATIENCE) as fleet:
        assert fleet.reports["node1"].error == "the agent speaks version 1, not 2"


@pytest.mark.parametrize(
    ("engines", "wanted", "used"),
    [
        ({"native": "1", "pyverbs": "44.0"}, "auto", "native 1"),
        ({"pyverbs": "44.0"}, "auto", "pyverbs 44.0"),
        ({"native": "1", "pyverbs": "44.0"}, "pyverbs", "pyverbs 44.0"),
    ],
)
def test_engine_is_the_one_asked_for_or_the_best(engines: Any, wanted: str, used: str) -> None:
    fabric, way = nodes.make_fabric(2), wire.Wire(hello={**wire.HELLO, "engines": engines})
    ports = [port.id for port in fabric.node_ports()]
    with Fleet(fabric, ports, way, PATIENCE, engine=wanted) as fleet:
        (sample,) = fleet.run_round(Round(1, _both(1, 2)[:1]), LATENCY, POLICY)
    assert sample.engine == used
    assert {m["engine"] for _, m in way.heard if m["op"] in {"port", "prepare"}} == {
        used.split(" ", maxsplit=1)[0]
    }


def test_engine_that_does_not_load_says_why() -> None:
    hello = {**wire.HELLO, "engines": {"pyverbs": "44.0"}, "why_not": {"native": "no libibverbs.so.1"}}
    fabric, way = nodes.make_fabric(2), wire.Wire(hello=hello)
    ports = [port.id for port in fabric.node_ports()]
    with Fleet(fabric, ports, way, PATIENCE, engine="native") as fleet:
        assert fleet.reports["node2"].error == "no native engine: no libibverbs.so.1"


def test_both_engines_are_named_where_the_ends_differ() -> None:
    class Mixed(wire.Wire):  # type: ignore[misc,name-defined]  # loaded by its path
        def start(self, device: Any, argv: Any, *, deadline_s: float) -> Any:
            self._hello = {
                **wire.HELLO,
                "engines": {"pyverbs": "44.0"} if device.name == "node2" else {"native": "1"},
            }
            return super().start(device, argv, deadline_s=deadline_s)

    there, back = _one(Mixed(), *_both(1, 2))
    assert (there.engine, back.engine) == ("native 1, target pyverbs 44.0", "pyverbs 44.0, target native 1")


def test_agents_that_wait_for_their_turn_are_spoken_to() -> None:
    """An agent that hears nothing ends by itself, however long others are measured."""
    heard: list[tuple[str, Any]] = []

    def member(number: int) -> Any:
        process = wire.WireProcess(f"node{number}", wire.obey, heard, wire.HELLO)
        process.watch = lambda take: setattr(process, "_take", take)
        return SimpleNamespace(process=process, device=SimpleNamespace(name=process.node), close=process.die)

    exchange = Exchange([member(1), member(2)], Patience(answer=0.4, idle=0.6))
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        exchange.turn()
    for name in ("node1", "node2"):
        pings = [said for node, said in heard if node == name]
        assert pings == [{"op": "ping"}] * len(pings)
        assert 4 <= len(pings) <= 11
    assert [line.lost for line in exchange.lines] == ["", ""]
    exchange.close()
