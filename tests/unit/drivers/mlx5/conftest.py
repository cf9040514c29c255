"""A host with one two-port mlx5 card, made of stand-ins and of a folder in the place of /sys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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

SIMULATOR = Path(__file__).resolve().parents[3] / "simulators" / "mlx5"
_SOURCES = {
    **dict.fromkeys(("dcb", "mlnx_qos"), "tools.py"),
    **dict.fromkeys(("ethtool", "ip", "mlx5-kernel"), "link.py"),
    **dict.fromkeys(("mstconfig", "mlxconfig", "mstfwreset"), "mstconfig.py"),
}
_OURS = ("functions", "grep files", "dcb", "ethtool", "mlnx_qos", "cc_params", "mstconfig", "rdma_cm")


@dataclass
class Host:
    """The host; its fabric port is ``eth1`` unless a test says otherwise."""

    folder: Path
    port: Port

    @property
    def sys(self) -> Path:
        return self.folder / "sys"

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "state.json").read_text()))

    def change(self, name: str = "eth1", **values: Any) -> None:
        """Change what a port holds, or with the name ``host`` the state itself."""
        state = self.state
        (state if name == "host" else state["ports"][name]).update(values)
        (self.folder / "state.json").write_text(json.dumps(state))
        self.tool("mlx5-kernel")

    def without(self, *tools: str) -> None:
        for tool in tools:
            (self.folder / "bin" / tool).unlink()

    def write(self, path: str, text: object) -> None:
        (self.sys / path).write_text(f"{text}\n" if text != "" else "")

    def read(self, path: str) -> str:
        return (self.sys / path).read_text().strip()

    def log(self) -> list[str]:
        """Return the calls that were to change something since the last time."""
        state = self.state
        (self.folder / "state.json").write_text(json.dumps({**state, "log": []}))
        return [str(line) for line in state["log"]]

    def tool(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._shell(list(words))

    def run(self, wanted: Mapping[str, Value], *only: str) -> subprocess.CompletedProcess[str]:
        """Run the port's script under dash."""
        script = render_port(Role.NODE, "mlx5", self.port.id.port, self.port.rdma, wanted)
        done = self._shell(["dash", "-s", *only], self._here(script))
        if {"mlx5.traffic_class", "roce_tos"} & set(wanted):
            self.tool("mlx5-kernel")
        return done

    def parsed(self) -> Any:
        """Return what the driver's queries and its parser make of the host."""
        driver = finder.nic_driver("mlx5")
        answers: dict[str, Answer] = {}
        for query in driver.queries([self.port]):
            if query.key.startswith(_OURS):
                done = self._shell([self._here(word) for word in query.argv])
                out, err = (text.replace(str(self.folder), "") for text in (done.stdout, done.stderr))
                answers[query.key] = Answer(done.returncode, out, err)
        readings, _ = driver.parse([self.port], answers)
        return readings[self.port.id]

    def settings(self) -> Mapping[str, Entry]:
        found: Mapping[str, Entry] = self.parsed().settings
        return found

    def fact(self, name: str) -> Entry:
        found: Entry = self.parsed().facts[name]
        return found

    def written(self) -> dict[str, int]:
        """Return when each file was written last."""
        return {
            str(path): path.stat().st_mtime_ns
            for path in self.sys.rglob("*")
            if path.is_file() and not path.is_symlink()
        }

    def set_again_undo(self, wanted: Mapping[str, Value]) -> None:
        """Set: it is read back as wanted; again: nothing is touched; undo: it is read back as at first."""
        before = self.settings()
        done = self.run(wanted)
        assert (done.returncode, done.stderr) == (0, "")
        found = self.settings()
        assert {name: found[name] for name in wanted} == {n: Known(value) for n, value in wanted.items()}
        self.log()
        files = self.written()
        again = self.run(wanted)
        assert (again.returncode, again.stderr, self.log(), self.written()) == (0, "", [], files)
        undo = {
            name: old.value
            for name, old in before.items()
            if name in wanted and isinstance(old, Known) and old.value != wanted[name]
        }
        undone = self.run(undo)
        assert (undone.returncode, undone.stderr) == (0, "")
        assert self.settings() == before

    def _here(self, text: str) -> str:
        """Put the folder in the place of /sys, and leave the test machine's own tools out."""
        return text.replace("/sys/", f"{self.sys}/").replace(":/usr/local/sbin:/usr/sbin:/sbin", "")

    def _shell(self, argv: list[str], script: str = "") -> subprocess.CompletedProcess[str]:
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        return subprocess.run(
            argv,
            input=script,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path, "FABRICCTL_SIM": str(self.folder), "LC_ALL": "C"},
            timeout=120,
        )


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Host]:
    """Make a host by its plane: ``ofed``, ``ofed-old`` or ``inbox``."""

    def host(plane: str, port: str = "eth1", rdma: str = "mlx5_0") -> Host:
        subprocess.run([sys.executable, SIMULATOR / "lay.py", tmp_path, plane], check=True)
        (tmp_path / "bin").mkdir()
        for name, source in _SOURCES.items():
            if plane != "inbox" or name != "mlnx_qos":
                wrapper = tmp_path / "bin" / name
                wrapper.symlink_to(SIMULATOR / source)
        sleep = tmp_path / "bin" / "sleep"
        sleep.write_text("#!/bin/sh\n")
        sleep.chmod(0o755)
        made = Host(tmp_path, Port(PortId("node1", port), rdma=rdma))
        made.tool("mlx5-kernel")
        return made

    return host
