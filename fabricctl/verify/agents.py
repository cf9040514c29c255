"""An agent as the controller sees it: one process for one port of a node, requests and replies."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fabricctl.agent import WIRE_VERSION
from fabricctl.errors import RefusedError, WireError
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
file=$1 python=$2 idle=$3 engine=$4 root=$5 other=$6
[ -x "$python" ] || refuse "no $python: apt-get install python3-pyverbs, or: dnf install python3-pyverbs"
if [ "$(id -u)" = 0 ]; then base=$root/fabricctl; else base=$other/fabricctl-$(id -u); fi
mkdir -m 0700 "$base" 2>/dev/null
strange=$(find "$base" -prune \( -perm /077 -o ! -user "$(id -u)" -o ! -type d \))
if [ ! -d "$base" ] || [ -n "$strange" ]; then
    refuse "$base is not a folder of this user alone: remove it, or give it mode 0700"
fi
[ -f "$base/$file" ] && exec "$python" "$base/$file" --idle-s "$idle" --engine "$engine"
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


AUTO = "auto"
ENGINES = ("native", "pyverbs")
"""What runs the timed loops, best first: the names of ``--engine``."""


class Agent:
    """A running agent.

    Parameters
    ----------
    hello
        The first thing it said.
    engine
        Name of the engine that it is to use.
    """

    def __init__(
        self, device: Device, port: Port, process: Process, hello: Mapping[str, Any], engine: str
    ) -> None:
        self.device = device
        self.port = port
        self.process = process
        self.hello = hello
        self._engine = engine
        wanted = {"name": port.id.port, "rdma": port.rdma, "address": port.address}
        self.use = f'"port":{json.dumps(wanted, separators=(",", ":"))},"engine":"{engine}"'

    @cached_property
    def engine(self) -> str:
        """What runs the timed loops, with its version."""
        return f"{self._engine} {self.hello['engines'][self._engine]}"

    def describe(self, *, within_s: float) -> str:
        """Return what it would use on its port, ``1 RoCE v2 10.10.0.1``, before anything else is asked.

        Raises
        ------
        NoAnswerError
            The port cannot be used.
        FabricctlError
            Nothing was said in time.
        """
        self.process.send(f'{{"id":1,"op":"port",{self.use},"deadline_s":{within_s:.3f}}}')
        reply = parse(self.device.name, self.process.receive(within_s))
        return str(result(self.device.name, reply)["gid"])

    def close(self) -> None:
        """End the agent by closing its channel."""
        self.process.close()


def result(device: str, reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a reply holds.

    Raises
    ------
    NoAnswerError
        It says no.
    WireError
        It is no reply.
    """
    error, found = reply.get("error"), reply.get("ok")
    if error is not None and isinstance(error, dict):
        kind, text = error.get("kind"), error.get("text")
        if isinstance(kind, str) and isinstance(text, str):
            raise NoAnswerError(text, device=device, kind=kind)
    if not isinstance(found, dict):
        raise odd(device, json.dumps(reply))
    return found


@dataclass(frozen=True, slots=True)
class Way:
    """How agents are started.

    Parameters
    ----------
    engine
        ``native``, ``pyverbs``, or ``auto``: the native one where it loads.
    """

    transport: Transport
    bundle: Bundle
    patience: Patience
    engine: str = AUTO


def start(way: Way, device: Device, port: Port) -> tuple[Agent, str]:
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
    transport, bundle = way.transport, way.bundle
    until = time.monotonic() + way.patience.start
    given = (f"{way.patience.idle:g}", way.engine, *FOLDERS)
    argv = ("/bin/sh", "-c", START, "agent", bundle.name, PYTHON, *given)
    process, hello = _hello(transport, device, argv, until)
    if "put" in hello:
        process.close()
        left = max(1.0, until - time.monotonic())
        transport.put(device, hello["put"], bundle.content, mode=0o600, deadline_s=left)
        process, hello = _hello(transport, device, argv, until)
    try:
        said = _welcome(device, hello)
        agent = Agent(device, port, process, said, _engine(device, said, way.engine))
        gid = agent.describe(within_s=max(1.0, until - time.monotonic()))
    except BaseException:
        process.close()
        raise
    return agent, gid


def _hello(
    transport: Transport, device: Device, argv: tuple[str, ...], until: float
) -> tuple[Process, dict[str, Any]]:
    process = transport.start(device, argv, deadline_s=max(1.0, until - time.monotonic()))
    try:
        return process, parse(device.name, process.receive(max(1.0, until - time.monotonic())))
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


def _engine(device: Device, said: Mapping[str, Any], wanted: str) -> str:
    """Return the engine to use; RefusedError with the reason if this node has not the one that is wanted."""
    loaded = said["engines"]
    name = next((e for e in ENGINES if e in loaded), ENGINES[-1]) if wanted == AUTO else wanted
    if name not in loaded:
        why = said["why_not"].get(name, "the agent does not know it")
        raise RefusedError(f"no {name} engine: {why}", device=device.name)
    return name


_decode = json.JSONDecoder().raw_decode
"""Half of what ``json.loads`` does on a short line is to look for white space around it."""


def parse(device: str, line: str) -> dict[str, Any]:
    """Return the message in a line; WireError if there is none."""
    try:
        message, end = _decode(line)
    except ValueError as exc:
        raise odd(device, line) from exc
    if not isinstance(message, dict) or line[end:].strip():
        raise odd(device, line)
    return message


def odd(device: str, line: str) -> WireError:
    """Return the error for a line that no agent says."""
    step = "does a login script of that user print something?"
    return WireError(f"the agent's line is no message: {line[:60]!r}", where=device, next_step=step)
