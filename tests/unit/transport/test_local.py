from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fabricctl.errors import DeadlineError, RefusedError, UnreachableError, UsageError, WireError
from fabricctl.model.fabric import Device, Endpoint, Role
from fabricctl.transport import connect, shell
from fabricctl.transport.base import Reply
from fabricctl.transport.local import LocalTransport
from fabricctl.transport.replay import ReplayTransport


def _device(connection: str = "local") -> Device:
    return Device("here", Role.NODE, "rxe", Endpoint(host="localhost", connection=connection), ())


def _gone(pid: int, within_s: float = 3.0) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_script_runs_with_its_status_and_both_outputs() -> None:
    reply = LocalTransport().run(_device(), "echo out; echo err >&2; exit 3", deadline_s=10)
    assert reply == Reply(3, "out\n", "err\n")


def test_a_command_in_a_script_cannot_swallow_the_rest_of_it() -> None:
    assert LocalTransport().run(_device(), "cat\necho rest", deadline_s=10).stdout == "rest\n"


def test_a_script_that_was_cut_off_does_nothing() -> None:
    fed = shell.whole("echo one\necho two")
    cut = fed[: fed.index(b"two")]
    done = subprocess.run(["/bin/sh", "-s"], input=cut, capture_output=True, check=False)
    assert done.stdout == b""
    assert done.returncode != 0


def test_a_deadline_ends_the_whole_process_group(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    with pytest.raises(DeadlineError, match=r"within 0\.5 s"):
        LocalTransport().run(_device(), f"sleep 60 & echo $! >{noted}; wait", deadline_s=0.5)
    assert _gone(int(noted.read_text()))


def test_a_program_answers_line_by_line_and_ends_when_closed() -> None:
    process = LocalTransport().start(
        _device(), ("/bin/sh", "-c", "echo $$; while read l; do echo got $l; done"), deadline_s=5
    )
    pid = int(process.receive(5))
    process.send("x")
    assert process.receive(5) == "got x"
    started = time.monotonic()
    process.close()
    assert time.monotonic() - started < 1.5
    assert _gone(pid)


def test_a_program_that_ignores_its_end_is_killed_with_its_children() -> None:
    script = "trap '' TERM HUP; sleep 60 & echo $$ $!; while :; do sleep 1; done"
    process = LocalTransport().start(_device(), ("/bin/sh", "-c", script), deadline_s=5)
    pids = [int(word) for word in process.receive(5).split()]
    process.close()
    assert all(_gone(pid) for pid in pids)


def test_a_program_that_ended_is_unreachable_with_its_last_words() -> None:
    lines = "; ".join(f"echo line {n} >&2" for n in range(30))
    process = LocalTransport().start(_device(), ("/bin/sh", "-c", f"{lines}; exit 5"), deadline_s=5)
    with pytest.raises(UnreachableError) as caught:
        process.receive(5)
    assert "exit status 5" in str(caught.value)
    assert "line 29" in str(caught.value)
    assert "line 9 " not in str(caught.value)
    with pytest.raises(UnreachableError):
        process.receive(5)
    process.close()
    with pytest.raises(UnreachableError):
        process.send("too late")


def test_a_last_line_without_a_newline_is_still_a_line() -> None:
    process = LocalTransport().start(_device(), ("printf", "a\\nb"), deadline_s=5)
    assert [process.receive(5), process.receive(5)] == ["a", "b"]
    process.close()


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(UnreachableError, match="no-such-program"):
        LocalTransport().start(_device(), ("no-such-program",), deadline_s=5)


def test_a_put_that_was_cut_off_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    argv = shell.put_argv(str(path), 100, 0o600, become=False)
    done = subprocess.run(argv, input=b"only this", capture_output=True, check=False)
    assert done.returncode == 1
    assert b"only 9 of 100 bytes" in done.stderr
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_put_replaces_and_sets_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "file"
    LocalTransport().put(_device(), str(path), b"\0\n", mode=0o600, deadline_s=5)
    LocalTransport().put(_device(), str(path), b"\0\n\xff", mode=0o755, deadline_s=5)
    assert path.read_bytes() == b"\0\n\xff"
    assert path.stat().st_mode & 0o777 == 0o755
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_put_that_the_machine_refuses_says_so() -> None:
    with pytest.raises(RefusedError, match="cannot write /proc/none/x"):
        LocalTransport().put(_device(), "/proc/none/x", b"", mode=0o600, deadline_s=5)


def test_the_way_is_chosen_by_the_endpoint_and_paramiko_is_not_loaded_for_local() -> None:
    code = (
        "import sys\n"
        "from fabricctl.model.fabric import Device, Endpoint, Role\n"
        "from fabricctl.transport import connect\n"
        "device = Device('here', Role.NODE, 'rxe', Endpoint(host='x', connection='local'), ())\n"
        "with connect() as transport:\n"
        "    said = transport.run(device, 'echo hi', deadline_s=5).stdout.strip()\n"
        "print(said, 'paramiko' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout == "hi False\n"


def test_an_unknown_way_is_a_usage_error() -> None:
    with connect() as transport, pytest.raises(UsageError, match="'telnet'"):
        transport.run(_device("telnet"), "true", deadline_s=5)


def test_replay_answers_what_was_recorded_and_nothing_else(tmp_path: Path) -> None:
    recording = tmp_path / "r.json"
    recording.write_text(
        '[{"device": "here", "script": "uname", "rc": 0, "stdout": "Linux\\n", "stderr": ""}]'
    )
    transport = ReplayTransport.load(recording)
    assert transport.run(_device(), "uname", deadline_s=1) == Reply(0, "Linux\n", "")
    with pytest.raises(WireError, match="script is not in the recording"):
        transport.run(_device(), "uname -a", deadline_s=1)
    with pytest.raises(WireError, match="device is not in the recording"):
        ReplayTransport({}).run(_device(), "uname", deadline_s=1)
    with pytest.raises(WireError, match="no program is recorded"):
        transport.start(_device(), ("agent",), deadline_s=1)


def test_replay_plays_a_program() -> None:
    process = ReplayTransport({}, {"here": ["ready"]}).start(_device(), ("agent",), deadline_s=1)
    process.send("go")
    assert process.receive(1) == "ready"
    with pytest.raises(DeadlineError):
        process.receive(1)
