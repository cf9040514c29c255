# ruff: noqa: ARG002  the names are those of a transport
"""Nodes made of processes on this machine: the real agent, a stand-in for pyverbs, a sysfs in a folder."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from fabricctl.errors import DeadlineError, FabricctlError, UnreachableError
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, Port, Role
from fabricctl.model.names import PortId
from fabricctl.transport.base import Reply

HERE = Path(__file__).parent
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"

Gids = dict[int, tuple[str, str, str]]
"""By index: GID, type, network device."""


def mapped(address: str) -> str:
    """Return the GID of an IPv4 address."""
    a, b, c, d = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def make_sysfs(root: Path, device: str, netdev: str, gids: Gids, layer: str = "Ethernet") -> Path:
    """Lay out what an agent reads of a verbs device with one port."""
    port = root / "class" / "infiniband" / device / "ports" / "1"
    for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs", "counters", "hw_counters"):
        (port / folder).mkdir(parents=True, exist_ok=True)
    (port / "link_layer").write_text(f"{layer}\n")
    (port / "state").write_text("4: ACTIVE\n")
    for index in range(max(gids, default=0) + 2):
        gid, kind, ndev = gids.get(index, (ZERO, "", ""))
        (port / "gids" / str(index)).write_text(f"{gid}\n")
        if kind:
            (port / "gid_attrs" / "types" / str(index)).write_text(f"{kind}\n")
            (port / "gid_attrs" / "ndevs" / str(index)).write_text(f"{ndev}\n")
    (port / "counters" / "port_rcv_errors").write_text("3\n")
    (port / "hw_counters" / "lifespan").write_text("10\n")
    (port / "hw_counters" / "completer_retry_err").write_text("5\n")
    statistics = root / "class" / "net" / netdev / "statistics"
    statistics.mkdir(parents=True, exist_ok=True)
    (statistics / "rx_dropped").write_text("0\n")
    return port


def make_fabric(nodes: int, rails: int = 1) -> Fabric:
    """Return a fabric of nodes on one leaf."""
    devices, links = [], []
    for node in range(1, nodes + 1):
        name = f"node{node}"
        ports = tuple(
            Port(PortId(name, f"eth{r + 1}"), f"rxe{r}", r, f"10.10.{r}.{node}/24", 100) for r in range(rails)
        )
        devices.append(Device(name, Role.NODE, "", Endpoint(name), ports))
        links += [Link(PortId("leaf1", f"n{node}r{p.rail}"), p.id, 2.0) for p in ports]
    ends = tuple(Port(link.a) for link in links)
    devices.append(Device("leaf1", Role.SWITCH, "", Endpoint("leaf1"), ends, tier="leaf"))
    return Fabric(tuple(devices), tuple(links))


class LocalProcess:
    """A process of this machine that stands for one on a node."""

    def __init__(self, device: Device, argv: tuple[str, ...], environment: dict[str, str]) -> None:
        self.device = device
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._take: Callable[[str | FabricctlError], None] | None = None
        self._handing_over = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._pass_on(line)
        self._pass_on(b"")

    def _pass_on(self, line: bytes) -> None:
        with self._handing_over:
            if self._take is None:
                self._lines.put(line)
            else:
                self._take(self._said(line))

    def _said(self, line: bytes) -> str | FabricctlError:
        if line:
            return line.decode().rstrip("\n")
        assert self.process.stderr is not None
        said = self.process.stderr.read().decode().strip().splitlines()[-1:]
        return UnreachableError(f"the program ended {said}", device=self.device.name)

    def watch(self, take: Callable[[str | FabricctlError], None]) -> None:
        with self._handing_over:
            while not self._lines.empty():
                take(self._said(self._lines.get()))
            self._take = take

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as exc:
            raise UnreachableError("its channel is gone", device=self.device.name) from exc

    def receive(self, deadline_s: float) -> str:
        try:
            line = self._lines.get(timeout=deadline_s)
        except queue.Empty:
            raise DeadlineError("no line", device=self.device.name, after_s=deadline_s) from None
        said = self._said(line)
        if isinstance(said, FabricctlError):
            raise said
        return said

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def end(self) -> None:
        """Kill it and close the near ends of its pipes."""
        self.close()
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


class FakeNodes:
    """A transport to nodes that are processes of this machine."""

    def __init__(self, folder: Path, fabric: Fabric) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.puts: list[str] = []
        self.started: dict[str, list[LocalProcess]] = {}
        self.environment: dict[str, dict[str, str]] = {}
        self.python = folder / "python3"
        self.python.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "launcher.py"} "$@"\n')
        self.python.chmod(stat.S_IRWXU)
        (folder / "wire").mkdir()
        for node in fabric.nodes():
            for port in node.ports:
                gids = {1: (mapped(port.address.partition("/")[0]), "RoCE v2", port.id.port)}
                make_sysfs(folder / node.name / "sys", port.rdma, port.id.port, gids)
            for name in ("run", "tmp"):
                (folder / node.name / name).mkdir()

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        raise NotImplementedError

    def put(self, device: Device, path: str, content: bytes, *, mode: int, deadline_s: float) -> None:
        self.puts.append(device.name)
        Path(path).write_bytes(content)
        Path(path).chmod(mode)

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> LocalProcess:
        if self.environment.get(device.name, {}).get("UNREACHABLE"):
            raise UnreachableError("no route to host", device=device.name, next_step="is it on?")
        home = self.folder / device.name
        environment = {
            **os.environ,
            "FAKE_FABRIC": str(self.folder / "wire"),
            "FAKE_SYS": str(home / "sys"),
            **self.environment.get(device.name, {}),
        }
        process = LocalProcess(device, (*argv[:-2], str(home / "run"), str(home / "tmp")), environment)
        self.started.setdefault(device.name, []).append(process)
        return process

    def agent(self, node: str) -> subprocess.Popen[bytes]:
        """Return the newest process on a node."""
        return self.started[node][-1].process

    def freeze(self, node: str) -> None:
        """Stop a node's agent without ending it."""
        self.agent(node).send_signal(signal.SIGSTOP)

    def all_ended(self, within_s: float = 5.0) -> bool:
        """Say whether all agents that were not frozen ended within some seconds."""
        until = time.monotonic() + within_s
        processes = [p.process for several in self.started.values() for p in several]
        while time.monotonic() < until:
            if all(process.poll() is not None for process in processes):
                return True
            time.sleep(0.05)
        return False

    def close(self) -> None:
        for several in self.started.values():
            for process in several:
                process.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
