"""All simulated agents of a run over one channel: ``NUMBER TEXT`` a line, in and out.

The first line is the world. ``3 open node1`` begins agent 3, which says its hello; after that every line for
it is a request as ``agent/wire.py`` has it, and ``3 close`` ends it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabricctl.agent import WIRE_VERSION
from fabricctl.agent.simulated import ENGINE, ENGINE_VERSION
from fabricctl.agent.simulated.world import World
from fabricctl.agent.wire import WIRE, Refusal

BLOCK_BYTES = 1 << 20
MTU_BYTES = 4096
QPN = 17
COUNTED = (
    "implied_nak_seq_err local_ack_timeout_err out_of_sequence packet_seq_err req_transport_retries_exceeded"
    " rnr_nak_retry_err roce_adp_retrans roce_slow_restart"
)
"""Counters that each simulated NIC has; none of them ever moves."""


@dataclass
class _Slot:
    jobs: list[Any]
    own: str
    gid: str
    peer: str = ""


@dataclass
class Agent:
    """One simulated agent."""

    node: str
    world: World
    jobs: dict[str, list[Any]] = field(default_factory=dict)
    slots: dict[str, _Slot] = field(default_factory=dict)

    def hello(self) -> str:
        """Return what it says first."""
        said = {
            "version": WIRE_VERSION,
            "hostname": self.node,
            "python": sys.version.split()[0],
            "engines": {ENGINE: ENGINE_VERSION},
            "why_not": {},
            "devices": [],
            "memlock_bytes": None,
            "error": "",
        }
        return f'{{"id":0,"ok":{json.dumps(said)}}}'

    def answer(self, request: Mapping[str, Any]) -> str:
        """Return the reply to a request, as a line; empty where there is none."""
        operation = request.get("op")
        if operation == "ping":
            return '{"pong":true}'
        if operation == "call_off":
            return ""
        number = request.get("id", 0)
        try:
            known = _OPERATIONS.get(str(operation), Agent.refuse)
            return f'{{"id":{number},"ok":{known(self, request)}}}'
        except Refusal as refusal:
            error = {"kind": refusal.kind, "text": refusal.text}
            return json.dumps({"id": number, "error": error}, separators=(",", ":"))

    def refuse(self, request: Mapping[str, Any]) -> str:
        """Refuse what no agent can do."""
        raise Refusal(WIRE, f"no operation {request.get('op')!r}")

    def port(self, request: Mapping[str, Any]) -> str:
        """Describe a port."""
        return json.dumps({"gid": _gid(request)})

    def prepare(self, request: Mapping[str, Any]) -> str:
        """Take note of the jobs of a couple."""
        name = str(request.get("jobs_name", ""))
        if "jobs" in request:
            self.jobs[name] = request["jobs"]
        if name not in self.jobs:
            raise Refusal(WIRE, f"no jobs are known as {name!r}")
        own, gid = f"{self.node}/{request['port']['name']}", _gid(request)
        self.slots[str(request["slot"])] = _Slot(self.jobs[name], own, gid)
        # As long as a real one, for the controller has to carry it.
        address = {"port": own, "qpn": [QPN], "psn": [0], "gid": gid, "mtu_bytes": MTU_BYTES}
        ends = json.dumps([address] * (len(self.jobs[name]) + 1), separators=(",", ":"))
        said = {"addresses": ends, "mtu_bytes": MTU_BYTES, "gid": gid, "gid_index": 1}
        return json.dumps(said, separators=(",", ":"))

    def connect(self, request: Mapping[str, Any]) -> str:
        """Take note of who the peer is."""
        slot = self._slot(request)
        slot.peer = json.loads(request["peers"])[0]["port"]
        wanted = min(int(job["parameters"]["path_mtu_bytes"]) for job in slot.jobs)
        return f'{{"path_mtu_bytes":{min(MTU_BYTES, wanted)}}}'

    def run(self, request: Mapping[str, Any]) -> str:
        """Draw what all jobs measure."""
        slot = self._slot(request)
        del self.slots[str(request["slot"])]
        results = ",".join(self._played(slot, job) for job in slot.jobs)
        still = ",".join(["{}"] * len(slot.jobs))
        return f'{{"results":[{results}],"counted":"{COUNTED}","counters":[{still}]}}'

    def _slot(self, request: Mapping[str, Any]) -> _Slot:
        slot = self.slots.get(str(request.get("slot")))
        if slot is None:
            raise Refusal(WIRE, f"nothing has been prepared in slot {request.get('slot', '')!r}")
        return slot

    def _played(self, slot: _Slot, job: Mapping[str, Any]) -> str:
        probe, given = str(job["probe"]), job["parameters"]
        sends = job["role"] == "source"
        source, target = (slot.own, slot.peer) if sends else (slot.peer, slot.own)
        found = ""
        if "samples" in given and sends:
            drawn = self.world.latencies(source, target, probe, int(given["samples"]))
            found = f'"latencies":"{drawn}","warmup":{given["warmup"]},'
        elif "packets" in given and not sends:
            found = self._loss(source, target, int(given["packets"]))
        elif "seconds" in given:
            found = self._stream(source, target, given, sends=sends)
        elif not {"samples", "packets"} & given.keys():
            text = f"the simulated engine knows no probe {probe}"
            found = f'"error":{{"kind":"setup","text":"{text}"}},'
        return f'{{{found}"at_s":0.0,"took_s":0.0}}'

    def _loss(self, source: str, target: str, packets: int) -> str:
        lost = self.world.lost(source, target, packets)
        numbers = f'"sent":{packets},"missing":{lost},"corrupt":0,"events":{lost}'
        return f'"numbers":{{{numbers}}},'

    def _stream(self, source: str, target: str, given: Mapping[str, Any], *, sends: bool) -> str:
        seconds, rate = float(given["seconds"]), float(given.get("line_rate_gbps", 0))
        sizes = [int(size) for size in str(given["sizes"]).split(",")]
        if not sends:
            source, target = target, source  # what it sends itself, where both do
        carried = self.world.carried(source, target, rate, seconds)
        flow = {
            "bytes": carried,
            "messages": carried // max(sizes),
            "elapsed_ns": round(seconds * 1e9),
            "largest_message_bytes": max(sizes),
            "queue_pairs": int(given["queue_pairs"]),
            "warmup_messages": 0,
        }
        ahead = "" if sends else "reverse_"
        return f'"numbers":{json.dumps({ahead + name: value for name, value in flow.items()})},'


def _gid(request: Mapping[str, Any]) -> str:
    return f"1 RoCE v2 {request['port']['address'] or request['port']['name']}"


_OPERATIONS: Mapping[str, Callable[[Agent, Mapping[str, Any]], str]] = {
    "port": Agent.port,
    "prepare": Agent.prepare,
    "connect": Agent.connect,
    "run": Agent.run,
}


class Host:
    """All agents of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._agents: dict[bytes, Agent] = {}

    def take(self, line: bytes) -> list[bytes]:
        """Return what is said to a line, as lines."""
        number, _, text = line.partition(b" ")
        if text.startswith(b"open "):
            self._agents[number] = Agent(text[5:].decode(), self._world)
            return [b"%s %s\n" % (number, self._agents[number].hello().encode())]
        if text == b"close":
            self._agents.pop(number, None)
        agent = self._agents.get(number)
        if agent is None:
            return []
        said = json.loads(text)
        replies = (agent.answer(request) for request in (said if isinstance(said, list) else [said]))
        return [b"%s %s\n" % (number, reply.encode()) for reply in replies if reply]


def main() -> None:
    """Read the world, then serve until standard input ends."""
    world, _, rest = _first_line()
    host = Host(World.parse(world.decode()))
    while True:
        *lines, rest = rest.split(b"\n")
        replies = b"".join(reply for line in lines for reply in host.take(line))
        while replies:
            replies = replies[os.write(1, replies) :]
        block = os.read(0, BLOCK_BYTES)
        if not block:
            return
        rest += block


def _first_line() -> tuple[bytes, bytes, bytes]:
    held = b""
    while b"\n" not in held:
        block = os.read(0, BLOCK_BYTES)
        if not block:
            raise SystemExit(0)
        held += block
    return held.partition(b"\n")
