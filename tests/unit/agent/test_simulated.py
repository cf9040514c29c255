"""Simulated agents speak the wire as real ones do, and draw what the world says."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from fabricctl.agent import WIRE_VERSION
from fabricctl.agent.simulated.host import Host
from fabricctl.agent.simulated.world import World
from fabricctl.errors import DeadlineError, RefusedError, UnreachableError
from fabricctl.model.fabric import Device, Endpoint, Role
from fabricctl.model.histogram import Histogram
from fabricctl.transport.base import Process
from fabricctl.transport.simulated import SimulatedTransport

A, B = "node1/eth1", "node2/eth1"
LATENCY = {"samples": 200, "warmup": 5, "path_mtu_bytes": 1024}
LOSS = {"packets": 1000, "path_mtu_bytes": 1024}
STREAM = {
    "seconds": 2.0,
    "sizes": "64,65536",
    "queue_pairs": 2,
    "line_rate_gbps": 100,
    "path_mtu_bytes": 4096,
}


def said(host: Host, number: int, message: Any) -> list[dict[str, Any]]:
    text = message if isinstance(message, str) else json.dumps(message)
    lines = [line.partition(b" ") for line in host.take(f"{number} {text}".encode())]
    assert all(head == str(number).encode() for head, _, _ in lines)
    return [json.loads(rest) for _, _, rest in lines]


def played(world: World, probe: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the leading end and the other one say of a probe in both directions."""
    host = Host(world)
    addresses = []
    for number, node in ((1, "node1"), (2, "node2")):
        (hello,) = said(host, number, f"open {node}")
        assert hello["ok"]["version"] == WIRE_VERSION
        assert hello["ok"]["engines"] == {"simulated": "1"}
        roles = ("source", "target") if number == 1 else ("target", "source")
        jobs = [{"probe": probe, "role": role, "parameters": parameters} for role in roles]
        port = {"name": "eth1", "rdma": "", "address": f"10.0.0.{number}"}
        ask = {"id": 2, "op": "prepare", "slot": "a", "port": port, "jobs_name": "j", "jobs": jobs}
        (prepared,) = said(host, number, ask)
        assert prepared["ok"]["gid"] == f"1 RoCE v2 10.0.0.{number}"
        addresses.append(prepared["ok"]["addresses"])
    found = []
    for number in (1, 2):
        connect = {"id": 3, "op": "connect", "slot": "a", "peers": addresses[2 - number]}
        replies = said(host, number, [connect, {"id": 4, "op": "run", "slot": "a"}])
        assert [reply["id"] for reply in replies] == [3, 4]
        assert replies[0]["ok"]["path_mtu_bytes"] == parameters["path_mtu_bytes"]
        assert len(replies[1]["ok"]["counters"]) == 2
        found.append(replies[1]["ok"])
    return found


def test_latencies_are_those_of_the_class_the_fault_and_the_seed() -> None:
    places = {A: ["leaf1", "", 0], B: ["leaf2", "", 0]}
    world = World({"seed": 3, "places": places, "latency_ns": {"cross_leaf": 5000}})
    near, far = played(world, "read_latency", LATENCY)
    there = Histogram.decode(near["results"][0]["latencies"])
    assert there.samples == 200
    assert 4000 < there.value_at_rank(100) < 6000
    assert "latencies" not in near["results"][1]
    assert "latencies" in far["results"][1]
    again = played(
        World({"seed": 3, "places": places, "latency_ns": {"cross_leaf": 5000}}), "read_latency", LATENCY
    )
    assert [near, far] == again
    slow = World({"seed": 3, "places": places, "faults": {A: {"slow": 10.0, "way": "receives"}}})
    near, far = played(slow, "read_latency", LATENCY)
    usual, hurt = (
        Histogram.decode(r) for r in (near["results"][0]["latencies"], far["results"][1]["latencies"])
    )
    assert hurt.value_at_rank(100) > 8 * usual.value_at_rank(100)


@pytest.mark.parametrize(
    ("near", "far", "topology"),
    [
        (["l1", "", 0], ["l1", "", 0], "same_leaf"),
        (["l1", "", 0], ["l2", "", 0], "cross_leaf"),
        (["l1", "p1", 0], ["l2", "p2", 0], "cross_pod"),
        (["l1", "p1", 0], ["l2", "p2", 1], "cross_rail"),
        (["l1", "", None], ["l1", "p2", 1], "same_leaf"),
        (["", "", 0], ["l1", "", 0], "same_leaf"),
    ],
)
def test_the_class_is_told_by_the_places(near: list[Any], far: list[Any], topology: str) -> None:
    assert World({"places": {A: near, B: far}}).topology(A, B) == topology
    assert World({"places": {A: near}}).topology(A, B) == "any"


def test_both_ends_agree_on_what_was_lost() -> None:
    near, far = played(World({"faults": {B: {"loss": 0.1, "way": "receives"}}}), "loss", LOSS)
    assert near["results"][0] == {"at_s": 0.0, "took_s": 0.0}
    assert 60 < far["results"][0]["numbers"]["missing"] < 140
    assert near["results"][1]["numbers"] == {"sent": 1000, "missing": 0, "corrupt": 0, "events": 0}
    many = World({"faults": {A: {"loss": 0.01}, B: {"loss": 1.0}}})
    assert many.lost(A, B, 100_000) == 100_000
    assert World({}).lost(A, B, 100) == 0


def test_a_stream_carries_its_share_of_the_line_rate() -> None:
    near, far = played(World({"faults": {A: {"slow": 2.0, "way": "sends"}}}), "write_bandwidth", STREAM)
    assert near["results"][0]["numbers"]["bytes"] == round(100 * 0.94 / 2 * 1e9 / 8 * 2)
    assert far["results"][0]["numbers"]["reverse_bytes"] == round(100 * 0.94 * 1e9 / 8 * 2)
    assert near["results"][0]["numbers"]["largest_message_bytes"] == 65536
    assert World({}).carried(A, B, 0, 1.0) == round(100 * 0.94 * 1e9 / 8)


def test_what_makes_no_sense_is_refused() -> None:
    host = Host(World({}))
    assert said(host, 1, {"id": 1, "op": "port"}) == []  # nobody was opened
    said(host, 1, "open node1")
    assert said(host, 1, {"op": "ping"}) == [{"pong": True}]
    assert said(host, 1, {"op": "call_off", "of": 3}) == []
    (no,) = said(host, 1, {"id": 5, "op": "dance"})
    assert no == {"id": 5, "error": {"kind": "wire", "text": "no operation 'dance'"}}
    port = {"name": "eth1", "address": ""}
    (no,) = said(host, 1, {"id": 6, "op": "prepare", "slot": "a", "port": port, "jobs_name": "j9"})
    assert "no jobs are known" in no["error"]["text"]
    (no,) = said(host, 1, {"id": 7, "op": "run", "slot": "b"})
    assert "nothing has been prepared" in no["error"]["text"]
    (ok,) = said(host, 1, {"id": 8, "op": "port", "port": port})
    assert ok["ok"]["gid"] == "1 RoCE v2 eth1"
    assert said(host, 1, "close") == []
    near, _ = played(World({}), "telepathy", {"path_mtu_bytes": 1024})
    assert near["results"][0]["error"]["text"] == "the simulated engine knows no probe telepathy"


def test_one_process_plays_all_nodes_and_nothing_reaches_a_device() -> None:
    one, other = (Device(name, Role.NODE, "", Endpoint(name), ()) for name in ("node1", "node2"))
    with SimulatedTransport("{}") as transport:
        agents = [transport.start(device, ("sh",), deadline_s=1.0) for device in (one, other)]
        names = [json.loads(agent.receive(20))["ok"]["hostname"] for agent in agents]
        assert names == ["node1", "node2"]
        with pytest.raises(DeadlineError):
            agents[0].receive(0.01)
        heard: list[Any] = []
        agents[0].watch(heard.append)
        agents[0].send('{"op":"ping"}')
        agents[1].send('{"op":"ping"}')
        assert agents[1].receive(20) == '{"pong":true}'
        assert heard == ['{"pong":true}']
        agents[0].close()
        for refused in (
            lambda: transport.run(one, "true", deadline_s=1.0),
            lambda: transport.put(one, "/x", b"", mode=0o600, deadline_s=1.0),
            lambda: transport.converse(one, ("show",), deadline_s=1.0),
        ):
            with pytest.raises(RefusedError, match="a simulation reaches no device"):
                refused()
    with pytest.raises(UnreachableError, match="exit status 0"):
        agents[1].receive(20)
    with pytest.raises(UnreachableError, match="was ended"):
        agents[1].send("x")
    agents[1].close()


def _send_for(agent: Process, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        agent.send("x")
        time.sleep(0.01)


def test_what_is_sent_together_arrives_in_order_and_a_dead_child_is_told() -> None:
    device = Device("node1", Role.NODE, "", Endpoint("node1"), ())
    with SimulatedTransport("{}") as transport:
        agent = transport.start(device, ("sh",), deadline_s=1.0)
        agent.receive(20)
        for number in range(2, 502):
            agent.send(f'{{"id":{number},"op":"dance"}}')
        assert [json.loads(agent.receive(20))["id"] for _ in range(500)] == list(range(2, 502))
        child = transport._child  # noqa: SLF001  to end it from outside
        assert child is not None
        child.kill()
        with pytest.raises(UnreachableError, match="exit status -9"):
            agent.receive(20)
        with pytest.raises(UnreachableError, match="the simulation ended"):
            _send_for(agent, 20.0)
