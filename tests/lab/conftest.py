"""A lab for the whole test run: `lab_fabric`. Reuses a running one if FABRICCTL_TEST_LAB names it."""

from __future__ import annotations

import os
import subprocess
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from fabricctl.cli.lab import ssh_command
from fabricctl.lab import faults, flow, state
from fabricctl.lab.fabric import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REUSE_VARIABLE = "FABRICCTL_TEST_LAB"


def _quiet(line: str) -> None:
    del line


@dataclass(frozen=True)
class RunningLab:
    """A lab that is up, as tests see it."""

    where: state.Places

    @property
    def inventory(self) -> Path:
        return self.where.inventory

    def ssh(self, node: str, command: str, *, timeout_s: float = 60) -> str:
        """Run a shell command in a guest and return its output; a failure raises."""
        argv = ssh_command(self.where, node, (command,))
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=timeout_s)
        assert done.returncode == 0, f"{node}: {command}: {done.returncode}: {done.stderr}{done.stdout}"
        return done.stdout

    def fault(self, kind: str, target: str, port: str = "eth1", **more: Any) -> state.Fault:
        """Break something; `amount=` and `direction=` as in state.Fault."""
        if kind in faults.GUEST_KINDS:
            port = ""
        return faults.make(self.where, state.Fault(kind, target, port, **more), report=_quiet)

    def clear(self) -> int:
        return faults.clear(self.where, report=_quiet)

    def reboot(self, node: str) -> float:
        return flow.reboot(self.where, node, report=_quiet)

    def status(self) -> flow.Status:
        return flow.status(self.where)


@pytest.fixture(scope="session")
def lab_session() -> Iterator[RunningLab]:
    reused = os.environ.get(REUSE_VARIABLE, "")
    where = state.places(reused or f"test-{uuid.uuid4().hex[:8]}")
    if reused:
        flow.existing(where)
        yield RunningLab(where)
        return
    try:
        flow.up(where, Shape(), mirror="", report=_quiet)
        yield RunningLab(where)
    finally:
        flow.down(where, report=_quiet)


@pytest.fixture
def lab_fabric(lab_session: RunningLab) -> Iterator[RunningLab]:
    """The lab without faults; faults that the test made are undone after it."""
    yield lab_session
    if lab_session.status().faults:
        lab_session.clear()
