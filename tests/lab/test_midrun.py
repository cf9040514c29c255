"""What happens when something dies in the middle of a verify: a node, its switch-off, or the controller."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fabricctl.store import Store

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

AGENTS = "pgrep -fc '^/usr/bin/python3 .*agent-.*pyz' || true"


@pytest.fixture
def applied(lab_fabric: Any) -> Any:
    """A lab that is as its policy says."""
    done = _fabricctl(lab_fabric, Path(os.devnull), "apply", "--yes", store=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return lab_fabric


def _argv(lab: Any, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "fabricctl", *arguments, "-i", str(lab.inventory)]


def _environment(store: Path) -> dict[str, str]:
    return {**os.environ, "FABRICCTL_STORE": str(store)}


def _fabricctl(lab: Any, path: Path, *arguments: str, store: bool = True) -> subprocess.CompletedProcess[str]:
    environment = _environment(path) if store else dict(os.environ)
    return subprocess.run(
        _argv(lab, *arguments), capture_output=True, text=True, check=False, env=environment, timeout=300
    )


def _start_verify(lab: Any, store: Path) -> subprocess.Popen[str]:
    """Start a verify of all pairs and return once agents run on every node."""
    running = subprocess.Popen(
        _argv(lab, "verify", "--pairs", "all", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(store),
    )
    deadline = time.monotonic() + 60
    while not all(int(lab.ssh(f"node{n}", AGENTS)) for n in (1, 2, 3, 4)):
        assert time.monotonic() < deadline, "the agents did not start"
    return running


@pytest.mark.parametrize("fault", ["freeze", "kill"])
def test_a_node_that_dies_costs_its_own_pairs_only(applied: Any, tmp_path: Path, fault: str) -> None:
    began = time.monotonic()
    running = _start_verify(applied, tmp_path / "store.sqlite")
    applied.fault(fault, "node3")
    printed, complaint = running.communicate(timeout=200)
    assert time.monotonic() - began < 200
    pairs = json.loads(printed)["pairs"]
    assert len(pairs) == 12, complaint
    of_node3 = [p for p in pairs if "node3/eth1" in (p["source"], p["target"])]
    others = [p for p in pairs if p not in of_node3]
    assert [p for p in others if p["outcome"] != "pass"] == []
    cut_off = [p for p in of_node3 if p["outcome"] != "pass"]
    assert cut_off
    for pair in cut_off:
        assert (pair["outcome"], "node3" in json.dumps(pair["findings"])) == ("unknown", True), pair
    assert running.returncode == 4, complaint


def test_a_killed_controller_leaves_no_agent_and_a_sound_store(applied: Any, tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    running = _start_verify(applied, store)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=30)
    deadline = time.monotonic() + 30
    while any(int(applied.ssh(f"node{n}", AGENTS)) for n in (1, 2, 3, 4)):
        assert time.monotonic() < deadline, "an agent outlives its channel"
    with Store.open(store) as opened:
        (run,) = opened.runs(10)
        assert run.interrupted
    again = _fabricctl(applied, store, "verify", "--pairs", "node1:node2")
    assert again.returncode == 0, again.stdout + again.stderr
