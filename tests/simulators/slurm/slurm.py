"""The stand-in Slurm of a test: its state, and its commands on PATH."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

COMMANDS = Path(__file__).parent


class Slurm:
    """Idle nodes to begin with; see the program for what the state may hold."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._file = folder / "slurm.json"
        self.write({"nodes": {name: {} for name in names}, "jobs": []})

    def read(self) -> dict[str, Any]:
        """Return the state."""
        state: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Put `state` in place of what is there."""
        self._file.write_text(json.dumps(state), encoding="utf-8")

    def set(self, **changes: Any) -> None:
        """Change how the controller behaves, or all jobs."""
        self.write({**self.read(), **changes})

    def job(self, number: str, user: str, *nodes: str, state: str = "RUNNING") -> None:
        """Put a job on nodes."""
        jobs = self.read()["jobs"]
        self.set(jobs=[*jobs, {"id": number, "user": user, "state": state, "nodes": list(nodes)}])

    def node(self, name: str, **changes: Any) -> None:
        """Change one node."""
        nodes = self.read()["nodes"]
        self.set(nodes={**nodes, name: {**nodes.get(name, {}), **changes}})

    def drained(self) -> dict[str, str]:
        """Return the reasons of the nodes that are drained."""
        return {name: node["reason"] for name, node in self.read()["nodes"].items() if node.get("drain")}

    def updates(self) -> list[list[str]]:
        """Return what ``scontrol update`` was asked for."""
        return list(self.read().get("updates", []))


def install(folder: Path, names: Sequence[str], patch: pytest.MonkeyPatch) -> Slurm:
    """Put the commands on PATH, with their state in `folder`."""
    binaries = folder / "bin"
    binaries.mkdir(parents=True)
    for name in ("squeue", "sinfo", "scontrol"):
        # This very interpreter, without site packages: a launcher in between costs more than the program.
        text = (COMMANDS / name).read_text(encoding="utf-8").partition("\n")[2]
        (binaries / name).write_text(f"#!{sys.executable} -IS\n{text}", encoding="utf-8")
        (binaries / name).chmod(0o755)
    patch.setenv("FABRICCTL_SIM", str(folder))
    patch.setenv("PATH", f"{binaries}{os.pathsep}{os.environ['PATH']}")
    return Slurm(folder, names)
