"""The agent as a process: its bundle, its messages, its end."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fabricctl.verify import bundle

FAKES = Path(__file__).parents[2] / "fakes"


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"fakes_{name}", FAKES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


nodes = _load("nodes")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / bundle.build().name
    path.write_bytes(bundle.build().content)
    return path


def _start(archive: Path, tmp_path: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    (tmp_path / "sys").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, str(FAKES / "launcher.py"), str(archive), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "FAKE_SYS": str(tmp_path / "sys"), "FAKE_FABRIC": str(tmp_path), **environment},
    )


def _ask(agent: subprocess.Popen[str], line: str) -> dict[str, Any]:
    assert agent.stdin is not None
    assert agent.stdout is not None
    agent.stdin.write(line + "\n")
    agent.stdin.flush()
    reply: dict[str, Any] = json.loads(agent.stdout.readline())
    return reply


def test_bundle_is_the_same_every_time_and_holds_only_the_node_halves() -> None:
    first = bundle.build()
    bundle.build.cache_clear()
    assert bundle.build() == first
    assert first.name == f"agent-{first.digest[:16]}.pyz"
    names = zipfile.ZipFile(io.BytesIO(first.content)).namelist()
    assert "fabricctl/probes/loss/node.py" in names
    assert not [n for n in names if n.endswith("judge.py") or n.startswith("fabricctl/model")]


def test_self_test_without_pyverbs_is_one_line(archive: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(archive), "--self-test"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "apt-get install python3-pyverbs" in done.stderr
    assert "dnf install python3-pyverbs" in done.stderr


def test_hello_then_typed_errors(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        assert agent.stdout is not None
        hello = json.loads(agent.stdout.readline())
        assert hello["id"] == 0
        assert hello["ok"]["version"] == 1
        assert hello["ok"]["error"] == ""
        assert hello["ok"]["devices"] == []
        assert _ask(agent, '{"id":1,"op":"fly"}') == {
            "id": 1,
            "error": {
                "kind": "wire",
                "text": "no operation 'fly'; there is connect, finish, port, prepare, run",
            },
        }
        assert _ask(agent, "not json")["error"]["kind"] == "wire"
        assert _ask(agent, "[1]")["error"]["kind"] == "wire"
        assert _ask(agent, '{"id":2,"op":"run"}')["error"]["text"] == "no probe has been prepared"
        odd = _ask(agent, '{"id":3,"op":"prepare"}')
        assert odd["error"]["kind"] == "internal"
        port = '{"name":"eth1","rdma":"","address":""}'
        none = _ask(agent, f'{{"id":4,"op":"port","port":{port}}}')
        assert none["error"]["kind"] == "setup"
        assert none["error"]["text"].startswith("no RDMA device; load")
        agent.stdin.close()  # type: ignore[union-attr]
        assert agent.wait(5) == 0


def test_agent_ends_by_itself_when_it_hears_nothing(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path, "--idle-s", "1.5") as agent:
        assert agent.stdout is not None
        assert json.loads(agent.stdout.readline())["id"] == 0
        began = time.monotonic()
        assert agent.wait(10) == -14  # SIGALRM: the kernel's doing, whatever Python hangs in
        assert time.monotonic() - began < 5


def _busy(agent: subprocess.Popen[str], tmp_path: Path) -> None:
    """Bring an agent into a loop that waits for a write which never comes."""
    port = {"name": "eth1", "rdma": "rxe0", "address": "10.10.0.1/24"}
    gids = {0: ("0000:0000:0000:0000:0000:ffff:0a0a:0001", "RoCE v2", "eth1")}
    nodes.make_sysfs(tmp_path / "sys", "rxe0", "eth1", gids)
    parameters = {
        "samples": 10,
        "warmup": 1,
        "message_bytes": 8,
        "path_mtu_bytes": 4096,
        "traffic_class": 106,
    }
    prepare = {"id": 1, "op": "prepare", "probe": "write_pingpong", "role": "target", "port": port}
    assert agent.stdin is not None
    assert agent.stdout is not None
    agent.stdout.readline()
    own = _ask(agent, json.dumps({**prepare, "parameters": parameters}))["ok"]
    assert own["gid"] == "0 RoCE v2 10.10.0.1"
    assert own["gid_index"] == 0
    assert _ask(agent, json.dumps({"id": 2, "op": "connect", "peer": own["address"]}))["ok"] == {
        "path_mtu_bytes": 4096
    }
    agent.stdin.write('{"id":3,"op":"run","deadline_s":60}\n')
    agent.stdin.flush()
    time.sleep(0.2)


def test_agent_ends_when_its_input_closes_even_in_a_busy_loop(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        _busy(agent, tmp_path)
        agent.stdin.close()  # type: ignore[union-attr]
        assert agent.wait(5) == 0


def test_busy_loop_can_be_called_off_and_the_agent_goes_on(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        _busy(agent, tmp_path)
        reply = _ask(agent, '{"op":"call_off"}')
        assert (reply["id"], reply["error"]["kind"]) == (3, "deadline")
        assert reply["error"]["text"].startswith("called off by the controller while waiting for")
        assert _ask(agent, '{"id":4,"op":"run"}')["error"]["text"] == "no probe has been prepared"


def test_busy_agent_says_that_it_is_alive(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        _busy(agent, tmp_path)
        assert _ask(agent, '{"op":"ping"}') == {"pong": True}
        assert _ask(agent, '{"op":"call_off"}')["id"] == 3


def test_what_a_library_prints_does_not_reach_the_channel(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path, FAKE_PRINT="noise") as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        assert _ask(agent, '{"id":9,"op":"x"}')["id"] == 9
