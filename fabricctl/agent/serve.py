"""Answer the controller's requests, one after the other, until it goes away."""

from __future__ import annotations

import os
import resource
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Optional, TextIO

from fabricctl.agent import WIRE_VERSION, sysfs, verbs
from fabricctl.agent.guard import Guard, Inbox
from fabricctl.agent.session import Place, Session
from fabricctl.agent.wire import INTERNAL, WIRE, Refusal, decode, encode, failure

REQUEST_S = 60.0
"""Seconds for a request that names no deadline of its own."""


def hello() -> dict[str, Any]:
    """Return what this node has; ``error`` says what must be installed, empty if nothing."""
    error = ""
    try:
        verbs.load()
    except Refusal as refusal:
        error = refusal.text
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return {
        "version": WIRE_VERSION,
        "hostname": os.uname().nodename,
        "python": sys.version.split()[0],
        "pyverbs": "" if error else verbs.version(),
        "devices": sysfs.devices(sysfs.ROOT),
        "memlock_bytes": None if soft == resource.RLIM_INFINITY else soft,
        "error": error,
    }


class Server:
    """Holds this node's places and the session that runs.

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
        self._session: Optional[Session] = None
        self._operations: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "port": self._port,
            "prepare": self._prepare,
            "connect": self._connect,
            "run": self._run,
            "finish": self._finish,
        }

    def say(self, message: Mapping[str, Any]) -> None:
        """Write one message."""
        with self._out_lock:
            self._out.write(encode(message) + "\n")
            self._out.flush()

    def pong(self) -> None:
        """Say that the agent is alive, whatever the main thread is doing."""
        self.say({"pong": True})

    def answer(self, line: str) -> None:
        """Do what one line asks and write the reply."""
        number = 0
        try:
            request = decode(line)
            number = request.get("id", 0)
            operation = self._operation(request.get("op"))
            self._guard.allow(float(request.get("deadline_s", REQUEST_S)))
            self.say({"id": number, "ok": operation(request)})
        except Refusal as refusal:
            self._release()
            self.say(failure(number, refusal))
        except Exception as exc:  # noqa: BLE001  one bad request must not take the node out of the run
            traceback.print_exc(file=sys.stderr)
            self._release()
            text = f"the agent failed at {request_name(line)}: {type(exc).__name__}: {exc}"
            self.say(failure(number, Refusal(INTERNAL, text)))

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
        return {"gid": self._place(request).describe()}

    def _prepare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._release()
        place = self._place(request)
        self._session = Session(place, request["probe"], request["role"], request["parameters"])
        return self._session.prepared()

    def _connect(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._running().connect(request["peer"])

    def _run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        del request
        return self._running().run(self._guard)

    def _finish(self, request: Mapping[str, Any]) -> dict[str, Any]:
        del request
        result = self._running().finish()
        self._release()
        return result

    def _running(self) -> Session:
        if self._session is None:
            raise Refusal(WIRE, "no probe has been prepared")
        return self._session

    def _release(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except Exception:  # noqa: BLE001  the kernel takes the rest back when this process ends
                traceback.print_exc(file=sys.stderr)


def request_name(line: str) -> str:
    """Return the operation that a line asks for, for an error's text."""
    try:
        return str(decode(line).get("op"))
    except Refusal:
        return "a message"


def serve(idle_s: float) -> None:
    """Say hello and answer until standard input closes; then the process ends.

    Parameters
    ----------
    idle_s
        Seconds without a request after which the process is ended.
    """
    # Only replies may reach the channel: what a library prints goes to standard error.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    guard = Guard(idle_s)
    guard.allow(REQUEST_S)
    server = Server(out, guard)
    inbox = Inbox(sys.stdin, guard, server.pong)
    server.say({"id": 0, "ok": hello()})
    while True:
        guard.rest()
        server.answer(inbox.next())
