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
    assert not [name for name in names if name.endswith("judge.py")]
    assert [n for n in names if n.startswith("fabricctl/model/")] == [
        "fabricctl/model/__init__.py",
        "fabricctl/model/histogram.py",
    ]


WITHOUT_LIBRARY = """
import sys
sys.path.insert(0, sys.argv[1])
from fabricctl.agent import command, native, wire
def refuse():
    raise wire.Refusal(wire.SETUP, "no libibverbs.so.1")
native.load = refuse
sys.exit(command.main(["--self-test"]))
"""


def test_self_test_without_any_engine_is_one_line(archive: Path) -> None:
    argv = [sys.executable, "-I", "-S", "-c", WITHOUT_LIBRARY, str(archive)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "native: no libibverbs.so.1; pyverbs: " in done.stderr
    assert "apt-get install python3-pyverbs" in done.stderr
    assert "dnf install python3-pyverbs" in done.stderr


def test_hello_then_typed_errors(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        assert agent.stdout is not None
        hello = json.loads(agent.stdout.readline())
        assert hello["id"] == 0
        assert hello["ok"]["version"] == 2
        assert hello["ok"]["error"] == ""
        assert hello["ok"]["devices"] == []
        assert _ask(agent, '{"id":1,"op":"fly"}') == {
            "id": 1,
            "error": {
                "kind": "wire",
                "text": "no operation 'fly'; there is connect, port, prepare, run",
            },
        }
        assert _ask(agent, "not json")["error"]["kind"] == "wire"
        assert _ask(agent, "[1]")["error"] == {"kind": "wire", "text": "not a message: '1'"}
        nothing = _ask(agent, '{"id":2,"op":"run","slot":"a"}')["error"]
        assert nothing == {"kind": "wire", "text": "nothing has been prepared in slot 'a'"}
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


def test_agent_that_waits_for_its_turn_lives_while_it_is_pinged(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path, "--idle-s", "2") as agent:
        _hear(agent)
        for _ in range(8):
            time.sleep(0.5)
            assert _ask(agent, '{"op":"ping"}') == {"pong": True}
        assert agent.wait(10) == -14


PORT = {"name": "eth1", "rdma": "rxe0", "address": "10.10.0.1/24"}
PARAMETERS = {
    "samples": 10,
    "warmup": 1,
    "message_bytes": 8,
    "path_mtu_bytes": 4096,
    "traffic_class": 106,
    "deadline_s": 60.0,
}


def _say(agent: subprocess.Popen[str], *requests: dict[str, Any]) -> None:
    assert agent.stdin is not None
    agent.stdin.write(json.dumps(list(requests) if len(requests) > 1 else requests[0]) + "\n")
    agent.stdin.flush()


def _hear(agent: subprocess.Popen[str]) -> dict[str, Any]:
    assert agent.stdout is not None
    heard: dict[str, Any] = json.loads(agent.stdout.readline())
    return heard


def _prepare(
    number: int, slot: str, *jobs: tuple[str, str], leads: bool = True, **also: Any
) -> dict[str, Any]:
    listed = [{"probe": probe, "role": role, "parameters": PARAMETERS} for probe, role in jobs]
    head = {"id": number, "op": "prepare", "slot": slot, "port": PORT, "engine": "pyverbs", "leads": leads}
    return {**head, "jobs_name": f"j{number}", "jobs": listed, **also}


def _sysfs(tmp_path: Path) -> None:
    gids = {0: ("0000:0000:0000:0000:0000:ffff:0a0a:0001", "RoCE v2", "eth1")}
    nodes.make_sysfs(tmp_path / "sys", "rxe0", "eth1", gids)


def _busy(agent: subprocess.Popen[str], tmp_path: Path, *behind: dict[str, Any]) -> None:
    """Bring an agent into a loop that waits for the other end, which never comes; say more behind it."""
    _sysfs(tmp_path)
    _hear(agent)
    _say(agent, _prepare(1, "a", ("write_pingpong", "target"), leads=False))
    own = _hear(agent)["ok"]
    assert own["gid"] == "0 RoCE v2 10.10.0.1"
    assert own["gid_index"] == 0
    assert own["mtu_bytes"] == 4096
    _say(agent, {"id": 2, "op": "connect", "slot": "a", "peers": own["addresses"]})
    assert _hear(agent)["ok"] == {"path_mtu_bytes": 4096}
    _say(agent, {"id": 3, "op": "run", "slot": "a", "deadline_s": 60}, *behind)
    time.sleep(0.3)


def test_agent_ends_when_its_input_closes_even_in_a_busy_loop(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        _busy(agent, tmp_path)
        agent.stdin.close()  # type: ignore[union-attr]
        assert agent.wait(5) == 0


def test_busy_loop_can_be_called_off_and_the_agent_goes_on(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        _busy(agent, tmp_path)
        began = time.monotonic()
        reply = _ask(agent, '{"op":"call_off","of":3}')
        assert time.monotonic() - began < 2
        assert reply["id"] == 3
        (result,) = reply["ok"]["results"]
        assert result["error"]["kind"] == "deadline"
        assert "called off by the controller while waiting for" in result["error"]["text"]
        gone = _ask(agent, '{"id":4,"op":"run","slot":"a"}')["error"]
        assert gone["text"] == "nothing has been prepared in slot 'a'"
        assert list(tmp_path.glob("qp-*")) == []


def test_calling_off_what_does_not_run_ends_nothing_else(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        _busy(agent, tmp_path)
        for other in ('"of":2', '"of":4', '"of":3,"job":1', '"of":"3"'):
            line = f'{{"op":"call_off",{other}}}'
            assert agent.stdin is not None
            agent.stdin.write(line + "\n")
        assert _ask(agent, '{"op":"ping"}') == {"pong": True}
        assert _ask(agent, '{"op":"call_off","of":3}')["id"] == 3
        # What was called off before it began ends as it begins; the odd one is no such request.
        assert (
            _hear(agent)["error"]["text"] == "no operation 'call_off'; there is connect, port, prepare, run"
        )


def test_busy_agent_says_that_it_is_alive(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        _busy(agent, tmp_path)
        assert _ask(agent, '{"op":"ping"}') == {"pong": True}
        assert _ask(agent, '{"op":"call_off","of":3}')["id"] == 3


def test_next_session_is_prepared_behind_the_one_that_runs(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        _busy(agent, tmp_path, _prepare(4, "b", ("read_latency", "source")))
        assert len(list(tmp_path.glob("qp-*"))) == 2  # not yet
        assert _ask(agent, '{"op":"call_off","of":3}')["id"] == 3
        prepared = _hear(agent)
        assert prepared["id"] == 4
        addresses = json.loads(prepared["ok"]["addresses"])
        mine = {number for address in addresses for number in address["queue_pairs"]}
        # The one that ran is closed by now; the other one is not touched.
        assert {int(path.name[3:]) for path in tmp_path.glob("qp-*")} == mine


def test_jobs_are_told_once_and_known_by_their_name(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        _sysfs(tmp_path)
        _hear(agent)
        first = _prepare(1, "a", ("read_latency", "source"), ("loss", "target"))
        for job in first["jobs"]:
            job["parameters"] = {**PARAMETERS, "queue_pairs": 2, "packets": 64}
        _say(agent, first)
        assert len(json.loads(_hear(agent)["ok"]["addresses"])) == 3
        again = {**first, "id": 2, "slot": "b"}
        del again["jobs"]
        _say(agent, again)
        assert len(json.loads(_hear(agent)["ok"]["addresses"])) == 3
        _say(agent, {**again, "id": 3, "jobs_name": "others"})
        assert _hear(agent)["error"] == {"kind": "wire", "text": "no jobs are known as 'others'"}


def test_job_that_cannot_be_prepared_leaves_the_others(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path) as agent:
        _sysfs(tmp_path)
        _hear(agent)
        odd = _prepare(1, "a", ("telepathy", "source"), ("read_latency", "target"), ("../loss", "source"))
        _say(agent, odd)
        control, strange, read, path = json.loads(_hear(agent)["ok"]["addresses"])
        assert (strange, path) == (None, None)
        assert len(read["queue_pairs"]) == len(control["queue_pairs"]) == 1
        bad = _prepare(2, "a", ("read_latency", "spectator"))
        _say(agent, bad)
        assert _hear(agent)["error"] == {"kind": "wire", "text": "no role of a probe: 'spectator'"}
        assert list(tmp_path.glob("qp-*")) == []


@pytest.mark.parametrize(
    ("engine", "kind", "text"),
    [
        ("native", "setup", "a stand-in for pyverbs is all there is here"),
        ("steam", "wire", "no engine 'steam'; there is native, pyverbs"),
        ("auto", "", ""),
        ("pyverbs", "", ""),
    ],
)
def test_engine_is_chosen_by_its_name(
    archive: Path, tmp_path: Path, engine: str, kind: str, text: str
) -> None:
    with _start(archive, tmp_path) as agent:
        _sysfs(tmp_path)
        hello = _hear(agent)["ok"]
        assert list(hello["engines"]) == ["pyverbs"]
        assert hello["why_not"] == {"native": "a stand-in for pyverbs is all there is here"}
        _say(agent, _prepare(1, "a", ("read_latency", "source"), engine=engine))
        reply = _hear(agent)
        assert reply.get("error", {}) == ({"kind": kind, "text": text} if kind else {})


def test_what_a_library_prints_does_not_reach_the_channel(archive: Path, tmp_path: Path) -> None:
    with _start(archive, tmp_path, FAKE_PRINT="noise") as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        assert _ask(agent, '{"id":9,"op":"x"}')["id"] == 9
