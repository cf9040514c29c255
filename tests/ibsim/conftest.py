"""One simulated InfiniBand fabric for a module: `fabric` mends what a test has broken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test folders are no packages: the modules beside this one are found by their place.
sys.path.insert(0, str(Path(__file__).parent))

from ibsim_fabric import SimulatedFabric


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedFabric]:
    """A fat tree of 16 nodes on 4 leaves and 2 spines, all well."""
    with SimulatedFabric(tmp_path_factory.mktemp("ibsim")) as fabric:
        yield fabric
        if fabric.manager.crashes:
            print(f"opensm crashed {fabric.manager.crashes} times and was started again")  # noqa: T201


@pytest.fixture
def fabric(running: SimulatedFabric) -> Iterator[SimulatedFabric]:
    """The same, for a test that breaks something."""
    yield running
    running.settle()
