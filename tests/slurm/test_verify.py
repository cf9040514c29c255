"""``fabricctl verify --launcher slurm``: the real agent, a stand-in for pyverbs, nodes of a real Slurm."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from real_slurm import SOON_S, RealSlurm, gone, until

from fabricctl import transport
from fabricctl.cli import common
from fabricctl.cli.verify import command
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.policy import Limits, LossLimit, MtuPolicy, Policy
from fabricctl.verify import agents

FAKES = Path(__file__).parents[1] / "fakes"
POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=None,
    cnp=None,
    mtu=MtuPolicy(9000, 9216, 1024),
    pfc_priorities=(),
    ecn={},
    limits=Limits((), LossLimit(0.0, 0.05, 0.95), 10, 2, 8, 1),
)
NODE_PYTHON = """\
#!/bin/sh
# What is Python on a node: the agent finds its own node's stand-ins.
export FAKE_FABRIC={folder}/wire FAKE_SYS={folder}/$SLURMD_NODENAME/sys
echo $$ >>{folder}/$SLURMD_NODENAME/pids
exec {python} {launcher} "$@"
"""


def _fakes() -> Any:
    spec = importlib.util.spec_from_file_location("fakes_nodes", FAKES / "nodes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def nodes(
    slurm: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Any]:
    """Three nodes, of one port or of as many as the test wants."""
    fakes = _fakes()
    fabric = replace(fakes.make_fabric(3, getattr(request, "param", 1)), source="/inventory.yml")
    with fakes.FakeNodes(tmp_path, fabric) as made:
        made.slurm = slurm
        made.fabric = fabric
        made.python.write_text(
            NODE_PYTHON.format(folder=tmp_path, python=sys.executable, launcher=FAKES / "launcher.py")
        )
        made.python.chmod(stat.S_IRWXU)
        monkeypatch.setattr(agents, "PYTHON", str(made.python))
        monkeypatch.setattr(agents, "FOLDERS", (str(tmp_path / "node1" / "run"),) * 2)
        monkeypatch.setattr(transport, "connect", lambda: made)
        monkeypatch.setattr(common, "load", lambda _path, _policy=None: (fabric, POLICY))
        yield made
        for node in fabric.nodes():
            for pid in _pids(made, node.name):
                gone(pid, 15)


def _pids(nodes: Any, node: str) -> list[int]:
    file = nodes.folder / node / "pids"
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["inventory.yml", "--launcher", "slurm", *arguments])


def _outcomes(done: Result) -> dict[str, str]:
    said = json.loads(done.stdout)
    return {f"{pair['source']}>{pair['target']}": pair["outcome"] for pair in said["pairs"]}


def test_a_clean_fabric_passes_and_nothing_went_over_ssh(nodes: Any) -> None:
    done = _run("--json", "--probes", "loss,read_latency")
    assert done.exit_code == 0, done.stderr
    assert set(_outcomes(done).values()) == {"pass"}
    assert len(_outcomes(done)) == 6
    assert nodes.started == {}
    assert nodes.puts == []
    assert {node.name: len(_pids(nodes, node.name)) for node in nodes.fabric.nodes()} == dict.fromkeys(
        ("node1", "node2", "node3"), 1
    )


@pytest.mark.parametrize("nodes", [2], indirect=True)
def test_two_ports_of_a_node_are_two_agents(nodes: Any) -> None:
    done = _run("--json", "--probes", "loss")
    assert done.exit_code == 0, done.stderr
    assert len(_outcomes(done)) == 12
    assert {node.name: len(_pids(nodes, node.name)) for node in nodes.fabric.nodes()} == dict.fromkeys(
        ("node1", "node2", "node3"), 2
    )


def test_a_node_that_is_down_costs_its_own_pairs(nodes: Any) -> None:
    nodes.slurm.ask("scontrol", "update", "nodename=node3", "state=down", "reason=no power")
    try:
        done = _run("--json", "--probes", "loss")
    finally:
        nodes.slurm.ask("scontrol", "update", "nodename=node3", "state=resume")
    assert done.exit_code == 4, done.stderr
    found = _outcomes(done)
    assert found.pop("node1/eth1>node2/eth1") == "pass"
    assert found.pop("node2/eth1>node1/eth1") == "pass"
    assert set(found.values()) <= {"unknown", "error"}
    assert json.loads(done.stdout)["agents"]["node3"]["error"] == (
        "to Slurm it is down (no power); use --launcher ssh for nodes that Slurm gives no jobs"
    )


def test_an_agent_killed_in_the_middle_costs_its_own_pairs(nodes: Any) -> None:
    killed: list[int] = []

    def kill() -> None:
        until("node2's agent runs", lambda: _pids(nodes, "node2"))
        until("it measures", lambda: any((nodes.folder / "wire").iterdir()))
        killed.extend(_pids(nodes, "node2"))
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    done = _run("--json", "--probes", "loss,read_latency")
    thread.join()
    found = _outcomes(done)
    assert killed
    assert done.exit_code in {1, 4}, done.stderr
    assert found["node1/eth1>node3/eth1"] == "pass"
    told = {
        finding["what"]
        for pair in json.loads(done.stdout)["pairs"]
        for finding in pair["findings"]
        if "node2" in pair["source"] + pair["target"]
    }
    assert any("node2" in what and "/bin/sh ended: exit status -9" in what for what in told), told


CONTROLLER = """
import sys
sys.path.insert(0, sys.argv[1])
from fabricctl.model.fabric import Device, Endpoint, Role
from fabricctl.transport.local import LocalTransport
from fabricctl.transport.slurm import SlurmTransport
nodes = [Device(f"node{n}", Role.NODE, "", Endpoint("h"), ()) for n in (1, 2, 3)]
print("begins", flush=True)
with LocalTransport() as over, SlurmTransport(over, nodes) as way:
    argv = ("/bin/sh", "-c", "echo $$; exec cat")
    print(*[way.start(n, argv, deadline_s=60).receive(20) for n in nodes], flush=True)
    time.sleep(600)
"""


@contextmanager
def _controller() -> Iterator[subprocess.Popen[str]]:
    """Run a controller in a process of its own, to end it."""
    root = str(Path(transport.__file__).parents[2])
    with subprocess.Popen(
        (sys.executable, "-c", CONTROLLER, root), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begins\n"
        yield child
        child.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_controller_that_ends_takes_srun_and_all_programs_along(slurm: RealSlurm, number: int) -> None:
    with _controller() as child:
        assert child.stdout is not None
        pids = [int(pid) for pid in child.stdout.readline().split()]
        assert len(pids) == 3
        child.send_signal(number)
        child.wait(SOON_S)
    for pid in pids:
        gone(pid, SOON_S)
    until("no job is left", lambda: not slurm.jobs(), SOON_S)


def test_ctrl_c_cancels_a_job_that_is_queued(slurm: RealSlurm) -> None:
    with subprocess.Popen(
        ("srun", "--exclusive", "--nodelist=node3", "cat"), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as other:
        until("the other job runs", lambda: "RUNNING" in slurm.jobs())
        with _controller() as child:
            until("ours is queued", lambda: "PENDING" in slurm.jobs())
            child.send_signal(signal.SIGINT)
            child.wait(SOON_S)
        until("only the other is left", lambda: len(slurm.jobs().splitlines()) == 1, SOON_S)
        assert "RUNNING" in slurm.jobs()
        other.communicate()
