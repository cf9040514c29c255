"""One Slurm for all tests here: `slurm` mends what a test has broken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test folders are no packages: the modules beside this one are found by their place.
sys.path.insert(0, str(Path(__file__).parent))

from real_slurm import RealSlurm

NODES = ("node1", "node2", "node3")


@pytest.fixture(scope="session")
def running() -> Iterator[RealSlurm]:
    """Slurm with three nodes on this machine."""
    with RealSlurm(NODES) as made:
        yield made


@pytest.fixture
def slurm(running: RealSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealSlurm]:
    """The same, with this process's environment leading to it; nothing runs before and after."""
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    yield running
    running.settle()
