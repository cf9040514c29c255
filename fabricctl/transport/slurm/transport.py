"""A transport that starts programs through Slurm, and does all else over another one."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from fabricctl.errors import DeadlineError, RefusedError, UnreachableError
from fabricctl.model.fabric import Device
from fabricctl.transport.base import Process, Reply, Transport
from fabricctl.transport.lines import LineProcess
from fabricctl.transport.slurm import command
from fabricctl.transport.slurm.step import Step, Wire, states

PYTHON = "/usr/bin/python3"
"""What runs the starter on a node."""
START_S = 60.0
_PIECE_BYTES = 45_000


class SlurmTransport:
    """Starts the programs of all nodes with one srun. Use it as a context manager.

    Inside an allocation (``SLURM_JOB_ID``) they are a step of it beside the others; else srun makes one of
    whole nodes, which ends with the programs. They run as the user's job: the inventory's ``become`` has no
    part in it.

    Parameters
    ----------
    over
        Runs scripts and holds conversations; it stays open.
    devices
        Every node on which something will be started. Slurm calls them by their ``fabric_scheduler_node``,
        else by their name.
    python
        What runs the starter on a node.
    start_s
        How long Slurm may take to start something on all nodes, its queue included.
    """

    def __init__(
        self,
        over: Transport,
        devices: Sequence[Device],
        *,
        python: str = PYTHON,
        start_s: float = START_S,
    ) -> None:
        self._over = over
        self._names = {device.name: device.scheduler_node or device.name for device in devices}
        self._python = python
        self._start_s = start_s
        self._step: Step | None = None
        self._why_not: dict[str, str] = {}
        self._kept: set[str] = set()
        self._keeping = threading.Lock()

    def __enter__(self) -> Self:
        """Ask Slurm for the nodes' states, and begin on those that can take a task.

        Here and not in :meth:`start` it is waited for Slurm, so that Ctrl-C ends a job that is still queued.

        Raises
        ------
        MissingToolError
            Slurm's commands are not on this machine.
        UnreachableError, DeadlineError
            Slurm does not answer.
        """
        held = command.allocation(os.environ)
        names = tuple(dict.fromkeys(self._names.values()))
        self._why_not = dict(states(names, held)) if names else {}
        if usable := tuple(name for name in names if name not in self._why_not):
            self._step = Step(usable, held, self._python, self._start_s)
            try:
                self._step.settle()
            except BaseException:
                self.close()
                raise
        return self

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        """Run a shell script on the device, over the other transport."""
        return self._over.run(device, script, deadline_s=deadline_s)

    def converse(self, device: Device, lines: Sequence[str], *, deadline_s: float) -> tuple[Reply, ...]:
        """Give a device without a shell lines for its command line, over the other transport."""
        return self._over.converse(device, lines, deadline_s=deadline_s)

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> Process:
        """Start a program on a node.

        Raises
        ------
        UnreachableError
            Slurm cannot start anything there, or what it started is over.
        DeadlineError
            Slurm has not started all nodes' tasks in time.
        """
        del deadline_s  # nothing is waited for any more
        step = self._ready(device)
        wire = step.open(self._names[device.name])
        _tell(step, wire, device, "start", json.dumps(argv).encode())
        return LineProcess(device.name, argv[0], wire)

    def put(self, device: Device, path: str, content: bytes, *, mode: int, deadline_s: float) -> None:
        """Write a file on a node; the same content goes out to all nodes once.

        Raises
        ------
        RefusedError
            The node cannot write it.
        UnreachableError, DeadlineError
        """
        until = time.monotonic() + deadline_s
        step = self._ready(device)
        digest = hashlib.sha256(content).hexdigest()
        with self._keeping:
            if digest not in self._kept:
                _keep(step, device, digest, content)
                self._kept.add(digest)
        wire = step.open(self._names[device.name])
        wish = {"path": path, "mode": mode, "digest": digest}
        _tell(step, wire, device, "put", json.dumps(wish).encode())
        done = wire.wait(until - time.monotonic())
        step.forget(wire)
        if not done:
            raise DeadlineError(f"{path} was not written in time", device=device.name, after_s=deadline_s)
        if wire.refused:
            raise RefusedError(f"cannot write {path}: {wire.why}", device=device.name)
        if wire.why:
            raise UnreachableError(wire.why, device=device.name)

    def _ready(self, device: Device) -> Step:
        name = self._names[device.name]
        if self._step is None or name in self._why_not:
            step = "use --launcher ssh for nodes that Slurm gives no jobs"
            raise UnreachableError(
                self._why_not.get(name, "srun has not been started"), device=device.name, next_step=step
            )
        self._step.ready(name, device.name)
        return self._step

    def close(self) -> None:
        """End srun and with it all programs; the other transport stays open."""
        if self._step is not None:
            self._step.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _keep(step: Step, device: Device, digest: str, content: bytes) -> None:
    try:
        for first in range(0, len(content), _PIECE_BYTES):
            piece = base64.b64encode(content[first : first + _PIECE_BYTES])
            step.write(b"* keep %s %s\n" % (digest.encode(), piece))
    except OSError as exc:
        raise UnreachableError(f"srun takes no input ({exc})", device=device.name) from exc


def _tell(step: Step, wire: Wire, device: Device, verb: str, rest: bytes) -> None:
    try:
        step.tell(wire, verb, rest)
    except OSError as exc:
        raise UnreachableError(wire.why or f"srun takes no input ({exc})", device=device.name) from exc
