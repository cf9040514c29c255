# ruff: noqa: ARG002  the names are those of a transport
"""Agents that answer at once within this process: for what the controller says, and in which order."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from fabricctl.agent import WIRE_VERSION
from fabricctl.errors import DeadlineError, FabricctlError, UnreachableError
from fabricctl.model.fabric import Device
from fabricctl.model.histogram import Histogram

HELLO = {
    "version": WIRE_VERSION,
    "python": "3.11.2",
    "engines": {"native": "1", "pyverbs": "44.0"},
    "why_not": {},
    "devices": ["rxe0"],
    "error": "",
}
LATENCIES = Histogram.of(range(1000, 1020)).encode()
COUNTED = "rx_dropped retries resets"

Answer = dict[str, Any] | list[str] | None
"""A reply (``ok`` or ``error``), lines to say as they are, or silence."""
Behaviour = Callable[[str, dict[str, Any]], Answer]
"""From a node's name and a request to its answer."""


def played(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what an end says of jobs that all went well."""
    results = []
    for number, job in enumerate(jobs):
        found: dict[str, Any] = {"at_s": float(number), "took_s": 0.5}
        if job["role"] == "source":
            found |= {"latencies": LATENCIES, "floor_ns": 700}
        results.append(found)
    rises = [{"retries": 3, "resets": None} for _ in jobs]
    return {"results": results, "counted": COUNTED, "counters": rises}


def obey(node: str, request: dict[str, Any]) -> Answer:
    """Do all that is asked."""
    match request["op"]:
        case "port":
            return {"ok": {"gid": f"1 RoCE v2 {node}"}}
        case "prepare":
            address = {"addresses": f"of {node}", "mtu_bytes": 4096, "gid": f"1 {node}", "gid_index": 1}
            return {"ok": address}
        case "connect":
            return {"ok": {"path_mtu_bytes": 1024}}
        case "run":
            return {"ok": played(request["jobs"])}
        case "ping":
            return ['{"pong":true}']
    return None


class WireProcess:
    """One agent.

    Attributes
    ----------
    holds
        Whether it answers nothing but pings.
    """

    def __init__(self, node: str, behaviour: Behaviour, heard: list[tuple[str, Any]], hello: Any) -> None:
        self.node = node
        self.closed = False
        self.holds = False
        self._behaviour, self._heard = behaviour, heard
        self._said = [json.dumps({"id": 0, "ok": hello})]
        self._waiting: list[dict[str, Any]] = []
        self._jobs: dict[str, list[dict[str, Any]]] = {}
        self._slots: dict[str, list[dict[str, Any]]] = {}
        self._take: Callable[[str | FabricctlError], None] = self._said.append  # type: ignore[assignment]

    def send(self, line: str) -> None:
        if self.closed:
            raise UnreachableError("its channel is gone", device=self.node)
        said = json.loads(line)
        self._heard.append((self.node, said))
        for request in said if isinstance(said, list) else [said]:
            if request["op"] in {"ping", "call_off"}:
                self._answer(request)
            else:
                self._waiting.append(request)
        if not self.holds:
            self.release()

    def release(self) -> None:
        """Answer all that waits, in order; behind a request without an answer all others wait."""
        self.holds = False
        while self._waiting and not self.holds:
            request = self._waiting.pop(0)
            self.holds = self._answer(request) is None

    def _answer(self, request: dict[str, Any]) -> Answer:
        if request["op"] == "prepare":
            self._jobs |= {request["jobs_name"]: request["jobs"]} if "jobs" in request else {}
            self._slots[request["slot"]] = self._jobs[request["jobs_name"]]
        whole = {**request, "jobs": self._slots[request["slot"]]} if request["op"] == "run" else request
        answer = self._behaviour(self.node, whole)
        if isinstance(answer, list):
            # From a thread, as a transport's: whoever takes may make it wait.
            threading.Thread(target=self.say, args=(answer,), daemon=True).start()
        elif answer is not None:
            self._take(json.dumps({"id": request["id"], **answer}))
        return answer

    def say(self, lines: list[str]) -> None:
        """Say lines as they are; if a late answer is among them, what waits behind it is answered too."""
        for line in lines:
            self._take(line)
        if self.holds and any('"id"' in line for line in lines):
            self.release()

    def die(self) -> None:
        """End as a process does that is killed."""
        self.closed = True
        self._take(UnreachableError("the program ended: signal 9", device=self.node))

    def receive(self, deadline_s: float) -> str:
        if not self._said:
            raise DeadlineError("no line", device=self.node, after_s=deadline_s)
        return self._said.pop(0)

    def watch(self, take: Callable[[str | FabricctlError], None]) -> None:
        self._take = take
        for line in self._said:
            take(line)

    def close(self) -> None:
        self.closed = True


class Wire:
    """A transport to agents that answer at once.

    Attributes
    ----------
    heard
        Node and message (or list of messages), in the order in which they were sent.
    """

    def __init__(self, behaviour: Behaviour = obey, hello: Any = None) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.processes: dict[str, WireProcess] = {}
        self._behaviour, self._hello = behaviour, HELLO if hello is None else hello

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> WireProcess:
        process = WireProcess(device.name, self._behaviour, self.heard, self._hello)
        self.processes[device.name] = process
        return process

    def asked(self, node: str) -> list[str]:
        """Return what a node was asked, a line each: ``run a + prepare b``."""
        lines = [said if isinstance(said, list) else [said] for name, said in self.heard if name == node]
        return [" + ".join(f"{one['op']} {one.get('slot', '')}".strip() for one in line) for line in lines]
