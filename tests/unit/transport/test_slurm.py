"""What is asked of Slurm, what its lines mean, and the starter as a process of this machine."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from fabricctl import transport
from fabricctl.errors import UnreachableError, UsageError
from fabricctl.model.fabric import Device, Endpoint, Role
from fabricctl.transport.local import LocalTransport
from fabricctl.transport.slurm import SlurmTransport, command, starter
from fabricctl.transport.slurm.command import Allocation, Said

HELD = Allocation("17", "node[1-2]")


def test_srun_outside_of_an_allocation_takes_whole_nodes() -> None:
    argv = command.srun(("n1", "n2"), None, "/usr/bin/python3")
    assert argv[:5] == ("srun", "--nodelist=n1,n2", "--nodes=2", "--ntasks=2", "--exclusive")
    assert "--overlap" not in argv
    assert argv[-5:-2] == ("/usr/bin/python3", "-I", "-c")
    assert argv[-2] == Path(starter.__file__).read_text()
    assert argv[-1] == "600"
    for needed in ("--label", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--ntasks-per-node=1"):
        assert needed in argv


def test_the_launchers_by_name() -> None:
    over = LocalTransport()
    with transport.launcher("ssh")(over, ()) as way:
        assert way is over
    assert isinstance(transport.launcher("slurm")(over, ()), SlurmTransport)
    assert transport.LAUNCHERS == ("ssh", "slurm")


def test_srun_inside_an_allocation_shares_it() -> None:
    argv = command.srun(("n1",), HELD, "/usr/bin/python3")
    assert "--overlap" in argv
    assert "--exclusive" not in argv


def test_the_allocation_is_the_environments() -> None:
    assert command.allocation({}) is None
    assert command.allocation({"SLURM_JOB_ID": ""}) is None
    assert command.allocation({"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "node[1-2]"}) == HELD
    assert str(HELD) == "Slurm's job 17 (node[1-2])"


def test_only_what_says_which_job_is_passed_on() -> None:
    given = {
        "PATH": "/bin",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JOB_ID": "17",
        "SLURM_PARTITION": "hpc",
        "SLURM_NTASKS_PER_NODE": "8",
        "SLURM_UNBUFFEREDIO": "1",
        "SRUN_CONTAINER": "x",
        "SINFO_FORMAT": "%N",
    }
    assert set(command.cleaned(given)) == {"PATH", "SLURM_CONF", "SLURM_JOB_ID", "SLURM_PARTITION"}


@pytest.mark.parametrize(
    "state", ["idle", "allocated", "mixed", "completing", "planned", "idle~", "reserved"]
)
def test_states_that_take_a_task(state: str) -> None:
    assert command.unusable(f"n1|{state}|none\n", ["n1"], None) == {}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("n1|down|cable | pulled", "to Slurm it is down (cable | pulled)"),
        ("n1|down*|Not responding", "to Slurm it is down and does not answer it (Not responding)"),
        ("n1|idle*|none", "to Slurm it is idle and does not answer it"),
        ("n1|unknown|", "to Slurm it is unknown"),
        ("n1|draining|new NIC", "to Slurm it is draining (new NIC), so it takes no new job"),
        ("n1|drained|new NIC", "to Slurm it is drained (new NIC), so it takes no new job"),
        ("n2|idle|none", "Slurm knows no node n1"),
        ("", "Slurm knows no node n1"),
        ("garbage", "Slurm knows no node n1"),
    ],
)
def test_states_that_take_none(row: str, why: str) -> None:
    assert command.unusable(f"{row}\n", ["n1"], None) == {"n1": why}


def test_inside_an_allocation_its_nodes_count() -> None:
    printed = "node1|draining|x\nnode2|down|y\nnode3|idle|none\n"
    assert command.unusable(printed, ["node1", "node2", "node3"], HELD) == {
        "node2": "to Slurm it is down (y)",
        "node3": "it is not in Slurm's job 17 (node[1-2])",
    }
    with pytest.raises(UsageError):
        command.unusable(printed, ["node1"], Allocation("17", "node[1-"))


# printed by Slurm 22.05.8
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("srun: error: node2: task 1: Killed", Said("Killed", ("node2",), ends=True)),
        (
            "srun: error: node[1-3]: tasks 0-2: Exited with exit code 2",
            Said("Exited with exit code 2", ("node1", "node2", "node3"), ends=True),
        ),
        (
            "srun: error: Task launch for StepId=4.0 failed on node node2: Communication connection failure",
            Said(
                "Slurm cannot start a task there: Communication connection failure",
                ("node2",),
                unlaunched=True,
            ),
        ),
        ("srun: error: Node failure on node3", Said("to Slurm the node failed", ("node3",), ends=True)),
        (
            "0: slurmstepd-node1: error: *** STEP 4.0 ON node1 CANCELLED AT 2026-11-30T16:45:52 ***",
            Said("error: *** STEP 4.0 ON node1 CANCELLED AT 2026-11-30T16:45:52 ***", ("node1",)),
        ),
        (
            "slurmstepd-node1: error: execve(): /no/such: No such file or directory",
            Said("error: execve(): /no/such: No such file or directory", ("node1",)),
        ),
        ("2: Traceback (most recent call last):", Said("Traceback (most recent call last):", rank=2)),
        (
            "srun: job 12 queued and waiting for resources",
            Said("srun: job 12 queued and waiting for resources", job="12"),
        ),
        (
            "srun: error: Unable to allocate resources: Invalid partition name specified",
            Said("srun: error: Unable to allocate resources: Invalid partition name specified"),
        ),
        ("srun: cluster configuration lacks support for cpu binding", Said("")),
        ("srun: error: node[1-: task 0: Killed", Said("Killed", ("node[1-",), ends=True)),
    ],
)
def test_what_srun_says(line: str, said: Said) -> None:
    assert command.understand(f"{line}\n") == said


def test_the_starter_needs_only_the_standard_library() -> None:
    tree = ast.parse(Path(starter.__file__).read_text(), feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names - {"__future__"} <= sys.stdlib_module_names


@pytest.fixture
def started() -> Iterator[subprocess.Popen[bytes]]:
    """A starter that calls itself n1."""
    argv = (sys.executable, "-I", starter.__file__, "30")
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"SLURMD_NODENAME": "n1"}
    ) as process:
        assert _next(process) == "0 hello n1"
        yield process
        process.kill()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _next(process: subprocess.Popen[bytes]) -> str:
    return _pipe(process.stdout).readline().decode().rstrip("\n")


def _tell(process: subprocess.Popen[bytes], *lines: str) -> None:
    _pipe(process.stdin).write("".join(f"{line}\n" for line in lines).encode())
    _pipe(process.stdin).flush()


def test_lines_for_others_are_passed_over(started: subprocess.Popen[bytes]) -> None:
    _tell(
        started, 'n2 start 1 ["/bin/echo","theirs"]', 'n11 start 2 ["/bin/echo","theirs"]', "", "n1", "x y z"
    )
    _tell(started, 'n1 start 3 ["/bin/echo","ours"]')
    assert [_next(started) for _ in range(2)] == ["3 line ours", "3 end exit status 0"]


def test_no_line_is_longer_than_slurm_keeps_whole(started: subprocess.Popen[bytes]) -> None:
    _tell(started, 'n1 start 1 ["/bin/cat"]', f"n1 line 1 {'x' * 5000}")
    pieces: list[str] = []
    while not pieces or " + " in pieces[-1]:
        pieces.append(_next(started))
    assert max(len(piece) for piece in pieces) < 1000
    assert "".join(piece.split(" ", 2)[2] for piece in pieces) == "x" * 5000
    assert [piece.split(" ")[1] for piece in pieces] == ["+"] * 5 + ["line"]


def test_content_that_came_in_part_makes_no_file(started: subprocess.Popen[bytes], tmp_path: Path) -> None:
    content = b"0123456789" * 1000
    digest = hashlib.sha256(content).hexdigest()
    wish = json.dumps({"path": str(tmp_path / "file"), "mode": 0o600, "digest": digest})
    first, second = (base64.b64encode(part).decode() for part in (content[:7000], content[7000:]))
    _tell(started, f"* keep {digest} {first}", f"n1 put 1 {wish}")
    assert _next(started) == "1 no only a part of the content arrived (7000 bytes)"
    assert list(tmp_path.iterdir()) == []
    _tell(started, f"* keep {digest} {second}", f"n1 put 2 {wish}")
    assert _next(started) == "2 end "
    assert (tmp_path / "file").read_bytes() == content


def test_a_program_that_takes_no_input_does_not_hold_up_the_others(started: subprocess.Popen[bytes]) -> None:
    _tell(started, 'n1 start 1 ["/bin/sleep","60"]', *[f"n1 line 1 {'x' * 60000}"] * 20)
    _tell(started, 'n1 start 2 ["/bin/echo","still here"]')
    assert _next(started) == "2 line still here"


def test_it_ends_by_itself_when_nothing_is_heard() -> None:
    done = subprocess.Popen(
        (sys.executable, "-I", starter.__file__, "0.2"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"SLURMD_NODENAME": "n1"},
    )
    with done:
        said = _pipe(done.stdout).read().decode().splitlines()
        assert said == ["0 hello n1", "0 end nothing was heard for 0 s"]
        assert done.wait(10) == 0


def test_its_programs_end_when_its_input_does(started: subprocess.Popen[bytes]) -> None:
    _tell(started, 'n1 start 1 ["/bin/sh","-c","cat; echo over"]', 'n1 start 2 ["/bin/sleep","60"]')
    _pipe(started.stdin).close()
    assert sorted(_pipe(started.stdout).read().decode().splitlines()) == [
        "1 end exit status 0",
        "1 line over",
        "2 end exit status -9",
    ]
    assert started.wait(10) == 0


CANCELLED = """#!/bin/sh
echo '0: 0 hello n1'
read -r line
echo '0: 1 end exit status -15'
sleep 0.5
echo 'srun: error: n1: task 0: Terminated' >&2
exec sleep 60
"""
KILLED = CANCELLED.replace("-15", "-9").replace("echo 'srun: error", ": '").replace("sleep 60", "cat")


@pytest.mark.parametrize(
    ("script", "why"),
    [(CANCELLED, "its task in Slurm ended: Terminated"), (KILLED, "exit status -9")],
)
def test_slurms_reason_for_a_program_that_it_ended_is_waited_for(
    script: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "srun").write_text(script)
    (tmp_path / "srun").chmod(0o700)
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'n1|idle|none'\n")
    (tmp_path / "sinfo").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    node = Device("n1", Role.NODE, "linux", Endpoint(host="192.0.2.1"), ())
    with SlurmTransport(LocalTransport(), [node]) as way:
        program = way.start(node, ("/bin/sh",), deadline_s=10)
        with pytest.raises(UnreachableError) as caught:
            program.receive(20)
    assert caught.value.what == f"/bin/sh ended: {why}"
