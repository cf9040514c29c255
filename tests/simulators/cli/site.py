"""A fabric of one switch with a command line, reached as a site reaches it: by SSH, and by real ansible."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko
import pytest
from simulators.cli.server import serving

from fabricctl import readback
from fabricctl.apply.compose import Job
from fabricctl.apply.push import push
from fabricctl.apply.rollout import Tools
from fabricctl.model.fabric import NETWORK_CLI, Device, Endpoint, Fabric, Role
from fabricctl.model.plan import PushOutcome
from fabricctl.model.reading import DeviceReading
from fabricctl.transport import connect


@dataclass
class Site:
    """The switch on its bench, the fabric, and what came of every push."""

    bench: Any
    fabric: Fabric
    outcomes: list[PushOutcome]

    def read(self, devices: Sequence[Device]) -> dict[str, DeviceReading]:
        with connect() as transport:
            return readback.read(self.fabric, devices, transport)

    def push(self, jobs: Sequence[Job]) -> Sequence[PushOutcome]:
        found = push(jobs, deadline_s=120)
        self.outcomes += found
        return found

    def tools(self) -> Tools:
        return Tools(read=self.read, push=self.push, report=lambda _: None)


@contextmanager
def reached(driver: str, bench: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Serve the switch of a bench, and yield the site."""
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
    real = paramiko.SSHClient.connect
    with serving(bench.switch, folder / "key.pub") as server:

        def over_a_pair(self: paramiko.SSHClient, host: str, port: int, user: str, **options: Any) -> None:
            # A unit test opens no connection; only ansible, a process of its own, does.
            options["sock"], theirs = socket.socketpair()
            server.serve(theirs)
            real(self, host, port, user, **options)

        monkeypatch.setattr(paramiko.SSHClient, "connect", over_a_pair)
        (folder / "known_hosts").write_text(server.known_hosts())
        end = Endpoint(
            "127.0.0.1",
            port=server.port,
            user="admin",
            key_file=str(folder / "key"),
            known_hosts=str(folder / "known_hosts"),
            connection=NETWORK_CLI,
        )
        device = Device("leaf1", Role.SWITCH, driver, end, bench.ports)
        yield Site(bench, Fabric((device,), (), "/site/inventory.yml"), [])
