"""Hosts made of stand-ins for vendor tools and a tree in the place of /sys, for real scripts and queries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fabricctl.apply.render import render_port
from fabricctl.model.fabric import Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, Value
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer

SIMULATORS = Path(__file__).resolve().parents[2] / "simulators"
# What is asked of these is no matter of the NIC.
_ELSEWHERE = ("systemctl", "sha256sum", "lldpcli", "ibv_devinfo", "grep managers", "nmcli", "netplan")


@dataclass
class SimulatedHost:
    """A host with one port of a NIC, whose state is in files of `folder` as the stand-ins keep it."""

    folder: Path
    driver: str
    port: Port

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text())

    def write(self, name: str, state: Any) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps(state))

    def change(self, name: str, key: str, **values: Any) -> None:
        state = self.read(name)
        state[key].update(values)
        self.write(name, state)

    def file(self, path: str, content: str) -> None:
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)

    def without(self, tool: str) -> None:
        (self.folder / "bin" / tool).unlink()

    def log(self) -> list[str]:
        """Return the changes since the last call."""
        path = self.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return lines

    def run(self, wanted: Mapping[str, Value], *only: str) -> subprocess.CompletedProcess[str]:
        """Run the port's script under dash."""
        script = render_port(Role.NODE, self.driver, self.port.id.port, self.port.rdma, wanted)
        return self._shell(["dash", "-s", *only], self._here(script))

    def syntax(self, shell: str, wanted: Mapping[str, Value]) -> subprocess.CompletedProcess[str]:
        """Have a shell read the port's script without running it."""
        return self._shell(
            [shell, "-n"], render_port(Role.NODE, self.driver, self.port.id.port, self.port.rdma, wanted)
        )

    def settings(self) -> Mapping[str, Entry]:
        """Return what the driver's queries and its parser make of the host."""
        return self.parsed().settings

    def parsed(self) -> Any:
        driver = finder.nic_driver(self.driver)
        answers: dict[str, Answer] = {}
        for query in driver.queries([self.port]):
            if not query.key.startswith(_ELSEWHERE):
                done = self._shell([self._here(word) for word in query.argv])
                answers[query.key] = Answer(
                    done.returncode,
                    done.stdout.replace(str(self.folder), ""),
                    done.stderr.replace(str(self.folder), ""),
                )
        readings, _ = driver.parse([self.port], answers)
        return readings[self.port.id]

    def known(self, *names: str) -> dict[str, Value]:
        found = self.settings()
        return {name: entry.value for name in names if isinstance(entry := found[name], Known)}

    def set_again_undo(self, wanted: Mapping[str, Value]) -> None:
        """Set: all is as wanted; again: nothing is done; undo: what was read at first is read again."""
        before = self.settings()
        self.log()
        done = self.run(wanted)
        assert (done.returncode, done.stderr) == (0, "")
        assert self.known(*wanted) == wanted
        self.log()
        again = self.run(wanted)
        assert (again.returncode, again.stderr, self.log()) == (0, "", [])
        undo = {
            name: old.value
            for name, old in before.items()
            if name in wanted and isinstance(old, Known) and old.value != wanted[name]
        }
        undone = self.run(undo)
        assert (undone.returncode, undone.stderr) == (0, "")
        assert self.settings() == before

    def _here(self, text: str) -> str:
        return text.replace("/sys/", f"{self.folder}/sys/").replace(
            "/etc/modprobe.d", f"{self.folder}/etc/modprobe.d"
        )

    def _shell(self, argv: list[str], script: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin"}
        return subprocess.run(
            argv,
            input=script,
            capture_output=True,
            text=True,
            check=False,
            env={**environment, "FABRICCTL_SIM": str(self.folder)},
            timeout=120,
        )


@pytest.fixture
def simulate(tmp_path: Path) -> Callable[..., SimulatedHost]:
    """Make a host: `tools` by the name they are called by, from the simulators of `driver`."""

    def make(driver: str, rdma: str, tools: Mapping[str, str]) -> SimulatedHost:
        (tmp_path / "bin").mkdir()
        for name, source in tools.items():
            shutil.copy(SIMULATORS / driver / source, tmp_path / "bin" / name)
        host = SimulatedHost(tmp_path, driver, Port(PortId("node1", "eth1"), rdma=rdma))
        net = "/sys/class/net/eth1"
        for name, content in {
            "mtu": "1500",
            "operstate": "up",
            "carrier": "1",
            "address": "00:0a:f7:00:00:01",
            "device/uevent": "DRIVER=nic\nPCI_SLOT_NAME=0000:17:00.0",
        }.items():
            host.file(f"{net}/{name}", f"{content}\n")
        host.file(f"/sys/class/infiniband/{rdma}/ports/1/state", "4: ACTIVE\n")
        return host

    return make
