"""Answer the controller's requests, one after the other, until it goes away."""

from __future__ import annotations

import os
import resource
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from fabricctl.agent import WIRE_VERSION, engines, sysfs
from fabricctl.agent.guard import Guard, Inbox
from fabricctl.agent.place import Place
from fabricctl.agent.session import Session
from fabricctl.agent.wire import INTERNAL, SETUP, WIRE, Refusal, decode, encode, failure

REQUEST_S = 60.0
"""Seconds for a request that names no deadline of its own."""


def hello(engine: str) -> dict[str, Any]:
    """Return what this node has; ``error`` says what must be installed for `engine`, empty if nothing."""
    loaded, why_not = engines.found(engine)
    error = "" if loaded else "; ".join(f"{name}: {why}" for name, why in why_not.items())
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return {
        "version": WIRE_VERSION,
        "hostname": os.uname().nodename,
        "python": sys.version.split()[0],
        "engines": loaded,
        "why_not": why_not,
        "devices": sysfs.devices(sysfs.ROOT),
        "memlock_bytes": None if soft == resource.RLIM_INFINITY else soft,
        "error": error,
    }


class Server:
    """Holds this node's places and its sessions: one that runs, and one that is prepared for afterwards.

    Parameters
    ----------
    out
        Where the replies go.
    guard
        Started anew for each request.
    """

    def __init__(self, out: TextIO, guard: Guard) -> None:
        self._out = out
        self._out_lock = threading.Lock()
        self._guard = guard
        self._places: dict[tuple[str, str, str], Place] = {}
        self._sessions: dict[str, Session] = {}
        self._jobs: dict[str, Any] = {}
        self._operations: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "port": self._port,
            "prepare": self._prepare,
            "connect": self._connect,
            "run": self._run,
        }

    def say(self, message: Mapping[str, Any]) -> None:
        """Write one message."""
        with self._out_lock:
            self._out.write(encode(message) + "\n")
            self._out.flush()

    def pong(self) -> None:
        """Say that the agent is alive, whatever the main thread is doing."""
        self.say({"pong": True})

    def answer(self, said: Any) -> None:
        """Do what one request asks and write the reply; one that fails ends its session."""
        number, slot = 0, ""
        try:
            request = decode(said)
            number, slot = int(request.get("id", 0)), str(request.get("slot", ""))
            operation = self._operation(request.get("op"))
            self._guard.begin(number, float(request.get("deadline_s", REQUEST_S)))
            self.say({"id": number, "ok": operation(request)})
        except Refusal as refusal:
            self.say(failure(number, refusal))
        except Exception as exc:  # noqa: BLE001  one bad request must not take the node out of the run
            traceback.print_exc(file=sys.stderr)
            text = f"the agent failed at {request_name(said)}: {type(exc).__name__}: {exc}"
            self.say(failure(number, Refusal(INTERNAL, text)))
        else:
            if request["op"] != "run":
                return
        # After the reply, so that the controller need not wait for it.
        self._release(slot)

    def _operation(self, name: object) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        for known, operation in self._operations.items():
            if name == known:
                return operation
        raise Refusal(WIRE, f"no operation {name!r}; there is {', '.join(sorted(self._operations))}")

    def _place(self, request: Mapping[str, Any]) -> Place:
        port = request["port"]
        key = (port["name"], port["rdma"], port["address"])
        if key not in self._places:
            self._places[key] = Place(*key)
        return self._places[key]

    def _port(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"gid": self._place(request).describe(_engine(request))}

    def _prepare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        slot, name = str(request["slot"]), str(request.get("jobs_name", ""))
        self._release(slot)
        if "jobs" in request:
            self._jobs[name] = request["jobs"]  # by their name, since all couples of a run have the same
        if name not in self._jobs:
            raise Refusal(WIRE, f"no jobs are known as {name!r}")
        place, leads = self._place(request), bool(request["leads"])
        session = Session(place, _engine(request), self._jobs[name], leads=leads)
        self._sessions[slot] = session
        session.find_floors(self._guard)
        return session.prepared()

    def _connect(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._session(request).connect(request["peers"])

    def _run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        number = request["id"]
        return self._session(request).run(self._guard, lambda job: self.say({"of": number, "failed": job}))

    def _session(self, request: Mapping[str, Any]) -> Session:
        session = self._sessions.get(str(request.get("slot", "")))
        if session is None:
            raise Refusal(WIRE, f"nothing has been prepared in slot {request.get('slot', '')!r}")
        return session

    def _release(self, slot: str) -> None:
        session = self._sessions.pop(slot, None)
        if session is not None:
            try:
                session.close()
            except Exception:  # noqa: BLE001  the kernel takes the rest back when this process ends
                traceback.print_exc(file=sys.stderr)


def _engine(request: Mapping[str, Any]) -> str:
    """Return the engine that a request asks for; Refusal (kind ``setup``) if it does not load."""
    loaded, why_not = engines.found(str(request.get("engine", engines.AUTO)))
    if not loaded:
        raise Refusal(SETUP, "; ".join(why_not.values()))
    return next(iter(loaded))


def request_name(said: Any) -> str:
    """Return the operation that a request asks for, for an error's text."""
    try:
        return str(decode(said).get("op"))
    except Refusal:
        return "a message"


def serve(idle_s: float, engine: str) -> None:
    """Say hello and answer until standard input closes; then the process ends.

    Parameters
    ----------
    idle_s
        Seconds without a request or a ping after which the process is ended.
    engine
        The one that hello tells of: does it load, and which version; ``auto`` for the best that does.
    """
    # Only replies may reach the channel: what a library prints goes to standard error.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    guard = Guard(idle_s)
    guard.allow(REQUEST_S)
    server = Server(out, guard)
    inbox = Inbox(sys.stdin, guard, server.pong)
    server.say({"id": 0, "ok": hello(engine)})
    while True:
        guard.rest()
        server.answer(inbox.next())
