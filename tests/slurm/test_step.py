"""Programs on the nodes of a real Slurm, through one srun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from real_slurm import SOON_S, RealSlurm, gone, until

from fabricctl.errors import DeadlineError, MissingToolError, RefusedError, UnreachableError
from fabricctl.model.fabric import Device, Endpoint, Role
from fabricctl.transport.base import Reply
from fabricctl.transport.local import LocalTransport
from fabricctl.transport.slurm import SlurmTransport

START_S = 60.0
ANSWER_S = 20.0
ECHO = (
    "/bin/sh",
    "-c",
    'echo "$SLURMD_NODENAME $$"; while read -r line; do echo "got $line"; done; echo over',
)


def device(name: str, slurm_name: str = "") -> Device:
    return Device(name, Role.NODE, "", Endpoint(name, connection="local"), (), scheduler_node=slurm_name)


NODES = tuple(device(f"node{number}") for number in (1, 2, 3))


@contextmanager
def opened(nodes: tuple[Device, ...] = NODES, *, start_s: float = START_S) -> Iterator[SlurmTransport]:
    with (
        LocalTransport() as over,
        SlurmTransport(over, nodes, python=sys.executable, start_s=start_s) as way,
    ):
        yield way


def _parent(pid: str) -> int:
    """Return the starter of a program."""
    found = subprocess.run(("ps", "-o", "ppid=", "-p", pid), capture_output=True, text=True, check=True)
    return int(found.stdout)


def test_programs_of_all_nodes_share_one_step(slurm: RealSlurm) -> None:
    with opened() as way:
        programs = [way.start(node, ECHO, deadline_s=START_S) for node in (*NODES, NODES[1])]
        hellos = [program.receive(ANSWER_S).split() for program in programs]
        assert [name for name, _ in hellos] == ["node1", "node2", "node3", "node2"]
        steps = slurm.ask("squeue", "--steps", "--noheader", "--format=%N").split()
        assert [line for line in steps if "extern" not in line] == ["node[1-3]"]
        for number, program in enumerate(programs):
            program.send(f"line {number} with 'quotes' and $words")
        said = [program.receive(ANSWER_S) for program in programs]
        assert said == [f"got line {number} with 'quotes' and $words" for number in range(4)]
    for _, pid in hellos:
        gone(pid, SOON_S)


def test_closing_one_program_leaves_the_other_of_the_node(slurm: RealSlurm) -> None:
    del slurm
    with opened(NODES[:1]) as way:
        first = way.start(NODES[0], ECHO, deadline_s=START_S)
        other = way.start(NODES[0], ECHO, deadline_s=START_S)
        pid = first.receive(ANSWER_S).split()[1]
        other.receive(ANSWER_S)
        first.close()
        gone(pid, SOON_S)
        other.send("still here")
        assert other.receive(ANSWER_S) == "got still here"


def test_a_program_that_does_not_end_with_its_input_is_killed(slurm: RealSlurm) -> None:
    del slurm
    with opened(NODES[:1]) as way:
        stubborn = way.start(NODES[0], ("/bin/sh", "-c", "echo $$; exec sleep 600"), deadline_s=START_S)
        pid = stubborn.receive(ANSWER_S)
        stubborn.close()
        gone(pid, SOON_S)


def test_long_lines_come_whole_both_ways(slurm: RealSlurm) -> None:
    del slurm
    with opened(NODES[:2]) as way:
        programs = [way.start(node, ("/bin/cat",), deadline_s=START_S) for node in NODES[:2]]
        for length in (899, 900, 901, 1023, 1024, 1025, 70_000, 1_000_000):
            letters = ["é" + "".join(chr(65 + n * step % 26) for n in range(length - 1)) for step in (3, 7)]
            for program, line in zip(programs, letters, strict=True):
                program.send(line)
            assert [program.receive(ANSWER_S) for program in programs] == letters


def test_a_program_that_ends_says_how(slurm: RealSlurm) -> None:
    del slurm
    with opened(NODES[:1]) as way:
        argv = ("/bin/sh", "-c", "echo whole; printf rest; echo 'no such device' >&2; exit 3")
        program = way.start(NODES[0], argv, deadline_s=START_S)
        assert [program.receive(ANSWER_S) for _ in range(2)] == ["whole", "rest"]
        with pytest.raises(UnreachableError) as caught:
            program.receive(ANSWER_S)
        assert str(caught.value) == "node1: /bin/sh ended: exit status 3; its last words: no such device"
        nothing = way.start(NODES[0], ("/no/such/program",), deadline_s=START_S)
        with pytest.raises(UnreachableError, match="No such file or directory"):
            nothing.receive(ANSWER_S)


def test_files_reach_every_node_and_a_refusal_is_told(slurm: RealSlurm, tmp_path: Path) -> None:
    del slurm
    content = os.urandom(300_000)
    with opened() as way:
        for node in NODES:
            path = tmp_path / node.name / "agent.pyz"
            way.put(node, str(path), content, mode=0o640, deadline_s=START_S)
            assert path.read_bytes() == content
            assert path.stat().st_mode & 0o777 == 0o640
            assert path.parent.stat().st_mode & 0o777 == 0o700
            assert [p.name for p in path.parent.iterdir()] == ["agent.pyz"]
        with pytest.raises(RefusedError, match="cannot write /dev/null/x"):
            way.put(NODES[0], "/dev/null/x", b"1", mode=0o600, deadline_s=START_S)


def test_the_rest_goes_over_the_other_transport(slurm: RealSlurm) -> None:
    del slurm
    with opened(NODES[:1]) as way:
        done = way.run(NODES[0], 'echo "${SLURM_JOB_ID-none}"', deadline_s=ANSWER_S)
        assert done == Reply(0, "none\n", "")


def test_a_killed_starter_costs_its_own_node_only(slurm: RealSlurm) -> None:
    del slurm
    with opened() as way:
        programs = [way.start(node, ECHO, deadline_s=START_S) for node in NODES]
        pids = [program.receive(ANSWER_S).split()[1] for program in programs]
        os.kill(_parent(pids[1]), signal.SIGKILL)
        with pytest.raises(UnreachableError) as caught:
            programs[1].receive(ANSWER_S)
        assert caught.value.what == "/bin/sh ended: its task in Slurm ended: Killed"
        gone(pids[1], SOON_S)
        with pytest.raises(UnreachableError, match="its task in Slurm ended: Killed"):
            way.start(NODES[1], ECHO, deadline_s=START_S)
        for program in (programs[0], programs[2]):
            program.send("on")
            assert program.receive(ANSWER_S) == "got on"


def test_a_node_that_is_down_or_drained_or_unknown_says_so(slurm: RealSlurm) -> None:
    slurm.ask("scontrol", "update", "nodename=node2", "state=down", "reason=the cable is pulled")
    slurm.ask("scontrol", "update", "nodename=node3", "state=drain", "reason=new | NIC")
    try:
        with opened((*NODES, device("node4"))) as way:
            said = {}
            for lame in (NODES[1], NODES[2], device("node4")):
                with pytest.raises(UnreachableError) as caught:
                    way.start(lame, ECHO, deadline_s=START_S)
                said[lame.name] = caught.value.what
            assert said["node2"] == "to Slurm it is down (the cable is pulled)"
            assert said["node3"] == "to Slurm it is drained (new | NIC), so it takes no new job"
            assert said["node4"] == "Slurm knows no node node4"
            assert way.start(NODES[0], ECHO, deadline_s=START_S).receive(ANSWER_S).startswith("node1 ")
    finally:
        for node in ("node2", "node3"):
            slurm.ask("scontrol", "update", f"nodename={node}", "state=resume")


def test_a_node_whose_daemon_is_dead_costs_itself_only(slurm: RealSlurm) -> None:
    slurm.kill_node("node3")
    try:
        with opened() as way:
            with pytest.raises(UnreachableError) as caught:
                way.start(NODES[2], ECHO, deadline_s=START_S)
            assert caught.value.what == ("Slurm cannot start a task there: Communication connection failure")
            for node in NODES[:2]:
                assert way.start(node, ECHO, deadline_s=START_S).receive(ANSWER_S).startswith(node.name)
    finally:
        slurm.mend_node("node3")


def test_busy_nodes_are_waited_for_until_the_deadline_and_the_job_is_cancelled(slurm: RealSlurm) -> None:
    with opened(NODES[:1]) as holder:
        holder.start(NODES[0], ECHO, deadline_s=START_S).receive(ANSWER_S)
        with opened(NODES[:2], start_s=2) as way:
            with pytest.raises(DeadlineError) as caught:
                way.start(NODES[1], ECHO, deadline_s=START_S)
            assert "has not started the agents within 2 s; its last words: srun: job " in caught.value.what
            assert "queued and waiting for resources" in caught.value.what
            assert caught.value.next_step.startswith("take the nodes first")
            assert "PENDING" in slurm.jobs()
        until("only the holder's job is left", lambda: len(slurm.jobs().splitlines()) == 1, SOON_S)
        assert "RUNNING" in slurm.jobs()


def test_inside_an_allocation_it_is_a_step_beside_others(
    slurm: RealSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(NODES[:2]) as holder:
        holder.start(NODES[0], ECHO, deadline_s=START_S).receive(ANSWER_S)
        job = slurm.jobs().split()[0]
        monkeypatch.setenv("SLURM_JOB_ID", job)
        monkeypatch.setenv("SLURM_JOB_NODELIST", "node[1-2]")
        monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "7")
        with opened() as way:
            assert way.start(NODES[1], ECHO, deadline_s=START_S).receive(ANSWER_S).startswith("node2 ")
            assert slurm.jobs().split() == [job, "RUNNING"]
            with pytest.raises(UnreachableError, match=rf"it is not in Slurm's job {job} \(node\[1-2\]\)"):
                way.start(NODES[2], ECHO, deadline_s=START_S)
        assert slurm.jobs().split() == [job, "RUNNING"], "the user's allocation is the user's"


def test_a_cancelled_job_ends_every_program_with_the_reason(slurm: RealSlurm) -> None:
    with opened() as way:
        programs = [way.start(node, ECHO, deadline_s=START_S) for node in NODES]
        pids = [program.receive(ANSWER_S).split()[1] for program in programs]
        slurm.ask("scancel", slurm.jobs().split()[0])
        for program in programs:
            with pytest.raises(UnreachableError) as caught:
                [program.receive(ANSWER_S) for _ in range(3)]  # what it printed at its end may come first
            assert "CANCELLED" in caught.value.what or "its task in Slurm ended" in caught.value.what
    for pid in pids:
        gone(pid, SOON_S)


def test_a_frozen_node_holds_up_nobody(slurm: RealSlurm) -> None:
    del slurm
    with opened() as way:
        programs = [way.start(node, ECHO, deadline_s=START_S) for node in NODES]
        pids = [program.receive(ANSWER_S).split()[1] for program in programs]
        frozen = _parent(pids[1])
        os.kill(frozen, signal.SIGSTOP)
        for number in range(200):
            programs[0].send(f"{number} {'x' * 1000}")
            assert programs[0].receive(ANSWER_S).startswith(f"got {number} ")
        with pytest.raises(DeadlineError):
            programs[1].receive(0.1)
        began = time.monotonic()
    assert time.monotonic() - began < 15
    gone(frozen, 15)


def test_a_node_is_called_as_slurm_calls_it(slurm: RealSlurm) -> None:
    del slurm
    node = device("rack1-a", "node2")
    with opened((node,)) as way:
        assert way.start(node, ECHO, deadline_s=START_S).receive(ANSWER_S).startswith("node2 ")


def test_closing_wakes_those_who_wait(slurm: RealSlurm) -> None:
    del slurm
    with opened(NODES[:1]) as way:
        program = way.start(NODES[0], ("/bin/cat",), deadline_s=START_S)
        caught: list[Exception] = []

        def wait() -> None:
            try:
                program.receive(ANSWER_S)
            except UnreachableError as exc:
                caught.append(exc)

        waiting = threading.Thread(target=wait)
        waiting.start()
        began = time.monotonic()
        way.close()
        waiting.join(ANSWER_S)
        assert caught
        assert time.monotonic() - began < 8


def test_where_slurm_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="sinfo is not on this machine"):
        SlurmTransport(LocalTransport(), NODES).__enter__()


def test_a_controller_that_is_not_there(
    slurm: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = (slurm.folder / "slurm.conf").read_text()
    wrong = "".join(
        "SlurmctldPort=1\n" if line.startswith("SlurmctldPort") else f"{line}\n" for line in conf.splitlines()
    )
    (tmp_path / "slurm.conf").write_text(wrong)
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(UnreachableError, match=r"Slurm: sinfo: .*Unable to contact slurm controller"):
        SlurmTransport(LocalTransport(), NODES).__enter__()
