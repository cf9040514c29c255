"""An agent as the controller sees it: one process for one port of a node, requests and replies."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fabricctl.agent import WIRE_VERSION
from fabricctl.errors import DeadlineError, FabricctlError, RefusedError, WireError
from fabricctl.model.fabric import Device, Port
from fabricctl.transport.base import Process, Transport
from fabricctl.verify.bundle import Bundle

PYTHON = "/usr/bin/python3"
"""The distribution's Python, which has the distribution's pyverbs; another one first on PATH has not."""

FOLDERS = ("/run", "/var/tmp")  # noqa: S108  the script makes sure that the folder in it is nobody else's
"""Where the agent is kept: for root in the first, where nobody else can write, else in the second."""

START = r"""
umask 077
refuse() {
    printf '{"id":0,"error":{"kind":"setup","text":"%s"}}\n' "$1"
    exit 1
}
file=$1 python=$2 idle=$3 root=$4 other=$5
[ -x "$python" ] || refuse "no $python: apt-get install python3-pyverbs, or: dnf install python3-pyverbs"
if [ "$(id -u)" = 0 ]; then base=$root/fabricctl; else base=$other/fabricctl-$(id -u); fi
mkdir -m 0700 "$base" 2>/dev/null
strange=$(find "$base" -prune \( -perm /077 -o ! -user "$(id -u)" -o ! -type d \))
if [ ! -d "$base" ] || [ -n "$strange" ]; then
    refuse "$base is not a folder of this user alone: remove it, or give it mode 0700"
fi
[ -f "$base/$file" ] && exec "$python" "$base/$file" --idle-s "$idle"
printf '{"id":0,"put":"%s"}\n' "$base/$file"
"""
"""Starts the agent if it is there, else says where to put it. Nothing in it comes from an inventory."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds.

    Parameters
    ----------
    start
        For the hello of an agent, its copying included.
    answer
        For a reply, beyond what the request itself may take.
    idle
        After which an agent that hears nothing ends by itself.
    """

    start: float = 60.0
    answer: float = 20.0
    idle: float = 120.0


class NoAnswerError(RefusedError):
    """An agent said no, or says nothing any more.

    Parameters
    ----------
    kind
        As in ``agent/wire.py``; ``gone`` where the agent itself does not answer.
    """

    def __init__(self, what: str, *, device: str, kind: str) -> None:
        super().__init__(what, device=device)
        self.kind = kind


GONE = "gone"
"""Kind of error: the agent is not there any more, so nothing is known of its port."""


class Agent:
    """A running agent. Used by one thread at a time.

    Parameters
    ----------
    hello
        The first thing it said.
    """

    def __init__(
        self, device: Device, port: Port, process: Process, hello: Mapping[str, Any], patience: Patience
    ) -> None:
        self.device = device
        self.port = port
        self.hello = hello
        self.lost = ""
        self._process = process
        self._patience = patience
        self._number = 0

    @property
    def engine(self) -> str:
        """What runs the timed loops, with its version."""
        return f"pyverbs {self.hello['pyverbs']}"

    def ask(self, op: str, *, takes_s: float = 0.0, **fields: object) -> dict[str, Any]:
        """Send a request and return what came back.

        Raises
        ------
        NoAnswerError
            It said no, or nothing.
        """
        return self.receive(self.send(op, takes_s=takes_s, **fields), takes_s=takes_s)

    def send(self, op: str, *, takes_s: float = 0.0, **fields: object) -> int:
        """Send a request and return its number; NoAnswerError if the agent is gone."""
        if self.lost:
            raise NoAnswerError(self.lost, device=self.device.name, kind=GONE)
        self._number += 1
        message = {"id": self._number, "op": op, **fields}
        if takes_s:
            message["deadline_s"] = takes_s
        try:
            self._process.send(json.dumps(message, separators=(",", ":")))
        except FabricctlError as exc:
            raise self._lose(exc) from exc
        return self._number

    def call_off(self) -> None:
        """Make the request that runs end soon, with an error; NoAnswerError if the agent is gone."""
        try:
            self._process.send('{"op":"call_off"}')
        except FabricctlError as exc:
            raise self._lose(exc) from exc

    def receive(self, number: int, *, takes_s: float = 0.0) -> dict[str, Any]:
        """Return the reply to a request; replies to earlier ones are passed over.

        Raises
        ------
        NoAnswerError
            It said no, or nothing within `takes_s` and the patience for an answer.
        """
        if self.lost:
            raise NoAnswerError(self.lost, device=self.device.name, kind=GONE)
        until = time.monotonic() + takes_s + self._patience.answer
        while True:
            try:
                reply = _parse(self.device.name, self._line(until))
            except FabricctlError as exc:
                raise self._lose(exc) from exc
            if reply.get("id") == number:
                return self._result(reply)

    def describe(self, *, takes_s: float = 0.0) -> str:
        """Return what it would use on its port, ``1 RoCE v2 10.10.0.1``; so it also shows a sign of life.

        Raises
        ------
        NoAnswerError
            The port cannot be used, or nothing was said in time.
        """
        wanted = {"name": self.port.id.port, "rdma": self.port.rdma, "address": self.port.address}
        return str(self.ask("port", takes_s=takes_s, port=wanted)["gid"])

    def _line(self, until: float) -> str:
        """Return the next line; an agent that is silent for half of the patience is asked for a sign of life.

        So a frozen node is known as such long before the longest probe would have ended.
        """
        half = self._patience.answer / 2
        try:
            return self._process.receive(min(half, max(0.0, until - time.monotonic())))
        except DeadlineError:
            self._process.send('{"op":"ping"}')
        try:
            return self._process.receive(half)
        except DeadlineError as exc:
            exc.after_s = self._patience.answer
            raise

    def _result(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        if "error" in reply:
            error = reply["error"]
            raise NoAnswerError(error["text"], device=self.device.name, kind=error["kind"])
        result: dict[str, Any] = reply["ok"]
        return result

    def _lose(self, exc: FabricctlError) -> NoAnswerError:
        """Give the agent up: nothing that it says later can be trusted to be an answer."""
        at = time.strftime("%H:%M:%S")
        name = self.device.name
        if isinstance(exc, DeadlineError):
            now = f"{name} did not answer for {exc.after_s:.0f} s"
        else:
            now = f"{name} is gone: {exc.what}"
        self.lost = f"{name} stopped answering at {at}"
        self.close()
        return NoAnswerError(now, device=name, kind=GONE)

    def close(self) -> None:
        """End the agent by closing its channel."""
        self._process.close()


def start(
    transport: Transport, device: Device, port: Port, bundle: Bundle, patience: Patience
) -> tuple[Agent, str]:
    """Start the agent of a port, copying it first where it is not yet there.

    Returns
    -------
    tuple
        The agent, and what it would use on the port: ``1 RoCE v2 10.10.0.1``.

    Raises
    ------
    FabricctlError
        It cannot be reached or started, it lacks something, or the port cannot be used.
    """
    until = time.monotonic() + patience.start
    argv = ("/bin/sh", "-c", START, "agent", bundle.name, PYTHON, f"{patience.idle:g}", *FOLDERS)
    process, hello = _hello(transport, device, argv, until)
    if "put" in hello:
        process.close()
        left = max(1.0, until - time.monotonic())
        transport.put(device, hello["put"], bundle.content, mode=0o600, deadline_s=left)
        process, hello = _hello(transport, device, argv, until)
    try:
        said = _welcome(device, hello)
        agent = Agent(device, port, process, said, patience)
        gid = agent.describe(takes_s=max(1.0, until - time.monotonic()))
    except BaseException:
        process.close()
        raise
    return agent, gid


def _hello(
    transport: Transport, device: Device, argv: tuple[str, ...], until: float
) -> tuple[Process, dict[str, Any]]:
    process = transport.start(device, argv, deadline_s=max(1.0, until - time.monotonic()))
    try:
        return process, _parse(device.name, process.receive(max(1.0, until - time.monotonic())))
    except BaseException:
        process.close()
        raise


def _welcome(device: Device, hello: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the hello of an agent that can work; DeviceError with what to install or set if it cannot."""
    if "put" in hello:
        raise RefusedError("the agent was copied and is not there", device=device.name)
    if "error" in hello:
        raise RefusedError(str(hello["error"]["text"]), device=device.name)
    said: Mapping[str, Any] = hello["ok"]
    if said["version"] != WIRE_VERSION:
        raise WireError(f"the agent speaks version {said['version']}, not {WIRE_VERSION}", where=device.name)
    if said["error"]:
        raise RefusedError(str(said["error"]), device=device.name)
    return said


def _parse(device: str, line: str) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as exc:
        raise _odd(device, line) from exc
    if not isinstance(message, dict):
        raise _odd(device, line)
    return message


def _odd(device: str, line: str) -> WireError:
    step = "does a login script of that user print something?"
    return WireError(f"the agent's line is no message: {line[:60]!r}", where=device, next_step=step)
