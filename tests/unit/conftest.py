from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _simulator() -> ModuleType:
    # Test folders are no packages: the module is loaded by its place.
    place = Path(__file__).parents[1] / "simulators" / "slurm" / "slurm.py"
    spec = importlib.util.spec_from_file_location("simulated_slurm", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulated_slurm"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _no_slurm_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the machine's own Slurm, which other tests start, from being asked about made-up nodes."""
    real = shutil.which

    def which(name: str, *args: Any, **options: Any) -> str | None:
        found = real(name, *args, **options)
        return None if name == "squeue" and found in {"/bin/squeue", "/usr/bin/squeue"} else found

    monkeypatch.setattr(shutil, "which", which)


@pytest.fixture
def make_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what puts a stand-in Slurm with these nodes on PATH."""

    def make(*names: str) -> Any:
        return _simulator().install(tmp_path / "slurm", names, monkeypatch)

    return make
