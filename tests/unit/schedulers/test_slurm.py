from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.errors import FabricctlError, UsageError
from fabricctl.model.usage import Job, NodeUse, Use
from fabricctl.plugin import finder
from fabricctl.schedulers import slurm
from fabricctl.schedulers.slurm import PLUGIN

Make = Callable[..., Any]
CASES = Path(__file__).parents[2] / "cases" / "scheduler" / "slurm"
NODE = (
    "NodeName={} Arch=x86_64 OS=Linux 6.1 #1 SMP  RealMemory=1 State={} ThreadsPerCore=1 Partitions=a,b {}\n"
)


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return what makes the two commands print these texts."""

    def say(nodes: str, jobs: str) -> None:
        texts = {slurm.NODES: nodes, slurm.JOBS: jobs}
        monkeypatch.setattr(slurm, "_said", lambda argv, _deadline_s: texts[argv])

    return say


def use_of(state: str, jobs: str = "", more: str = "") -> NodeUse:
    return slurm.uses(("n1",), NODE.format("n1", state, more), jobs)["n1"]


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda path: path.name)
def test_what_a_real_slurm_printed(case: Path, says: Callable[[str, str], None]) -> None:
    says((case / "nodes.txt").read_text(), (case / "squeue.txt").read_text())
    expected = json.loads((case / "expected.json").read_text())
    found = PLUGIN.busy(tuple(expected), 10)
    shown = {}
    for name, use in found.items():
        facts: dict[str, Any] = {"state": use.state.value}
        facts |= {"jobs": [[job.id, job.user] for job in use.jobs]} if use.jobs else {}
        facts |= {"drained": True} if use.drained else {}
        facts |= {"reason": use.reason} if use.reason else {}
        facts |= {"why": use.why} if "why" in expected[name] else {}
        shown[name] = facts
    assert shown == expected


@pytest.mark.parametrize(
    ("state", "expected", "drained"),
    [
        ("IDLE", Use.FREE, False),
        ("IDLE*", Use.FREE, False),
        ("IDLE~", Use.FREE, False),
        ("IDLE+CLOUD+POWERED_DOWN", Use.FREE, False),
        ("IDLE+PLANNED", Use.FREE, False),
        ("IDLE+MAINTENANCE+RESERVED+NOT_RESPONDING", Use.FREE, False),
        ("IDLE+DRAIN", Use.FREE, True),
        ("DOWN*+DRAIN", Use.FREE, True),
        ("DOWN+INVALID_REG", Use.FREE, False),
        ("drained*", Use.FREE, True),
        ("maint$", Use.FREE, False),
        ("planned-", Use.FREE, False),
        ("idle@", Use.FREE, False),
        ("idle^", Use.FREE, False),
        ("down%", Use.FREE, False),
        ("idle!", Use.FREE, False),
        ("ALLOCATED", Use.BUSY, False),
        ("ALLOCATED#", Use.BUSY, False),
        ("allocated+", Use.BUSY, False),
        ("MIXED+CLOUD", Use.BUSY, False),
        ("MIXED+DRAIN", Use.BUSY, True),
        ("draining@", Use.BUSY, True),
        ("IDLE+COMPLETING", Use.BUSY, False),
        ("IDLE+COMPLETING+DRAIN", Use.BUSY, True),
        ("failing", Use.BUSY, False),
        ("UNKNOWN", Use.UNKNOWN, False),
        ("UNKNOWN+DRAIN", Use.UNKNOWN, True),
        ("FUTURE", Use.UNKNOWN, False),
        ("ERROR", Use.UNKNOWN, False),
        ("IDLE+SOMETHING_NEW", Use.UNKNOWN, False),
        ("SOMETHING_NEW", Use.UNKNOWN, False),
        ("CLOUD", Use.UNKNOWN, False),
        ("ALLOCATED+SOMETHING_NEW", Use.BUSY, False),
    ],
)
def test_states(state: str, expected: Use, drained: bool) -> None:  # noqa: FBT001
    use = use_of(state)
    assert (use.state, use.drained) == (expected, drained)


@pytest.mark.parametrize(
    ("state", "held"),
    [
        ("RUNNING", True),
        ("SUSPENDED", True),
        ("COMPLETING", True),
        ("CONFIGURING", True),
        ("STAGE_OUT", True),
        ("SIGNALING", True),
        ("A_STATE_OF_TOMORROW", True),
        ("COMPLETED", False),
        ("CANCELLED", False),
        ("NODE_FAIL", False),
        ("OUT_OF_MEMORY", False),
        ("TIMEOUT", False),
    ],
)
def test_a_job_holds_its_node_until_it_is_over(state: str, held: bool) -> None:  # noqa: FBT001
    use = use_of("IDLE", f"12_3|{state}|alice|n[1-3]\n7|PENDING|bob|\n")
    assert use.state is (Use.BUSY if held else Use.FREE)
    assert use.jobs == ((Job("12_3", "alice"),) if held else ())


def test_a_node_without_a_state_is_unknown() -> None:
    use = slurm.uses(("n1",), "NodeName=n1 Arch=x86_64\nnoise\n", "")["n1"]
    assert use == NodeUse(Use.UNKNOWN, why="its state is not shown")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("Reason=fabricctl a1 [root@2026-11-30T00:02:33] ", "fabricctl a1"),
        ("Reason=fabricctl a1 [root@2026-11-30T00:02:33] Comment=x y", "fabricctl a1"),
        (
            "Reason=fabricctl a1 [x@2026-01-01] not ours [root@2026-11-30T00:02:33]",
            "fabricctl a1 [x@2026-01-01] not ours",
        ),
        ("Reason=no time", "no time"),
        ("", ""),
    ],
)
def test_reasons(more: str, reason: str) -> None:
    assert use_of("IDLE+DRAIN", more=more).reason == reason


def test_a_node_that_slurm_does_not_list_is_unknown(says: Callable[[str, str], None]) -> None:
    says(NODE.format("n1", "IDLE", ""), "5|RUNNING|alice|n3")
    found = PLUGIN.busy(("n1", "n2", "n3"), 10)
    assert [found[n].state for n in ("n1", "n2", "n3")] == [Use.FREE, Use.UNKNOWN, Use.BUSY]
    assert found["n2"].why == "it lists no such node (see fabric_scheduler_node)"


@pytest.mark.parametrize(
    "line", ["1|RUNNING|alice", "1|RUNNING|alice|n[1-", "slurm_load_jobs: warning", "1|2|3|4|5"]
)
def test_a_line_that_is_not_understood_makes_all_unknown(line: str, says: Callable[[str, str], None]) -> None:
    says(NODE.format("n1", "IDLE", ""), line)
    use = PLUGIN.busy(("n1",), 10)["n1"]
    assert use.state is Use.UNKNOWN
    assert use.why == f"squeue printed what is not understood: {line!r}"


@given(st.text(max_size=60), st.text(max_size=60))
def test_odd_text_never_makes_a_node_free(nodes: str, jobs: str) -> None:
    try:
        use = slurm.uses(("n1",), nodes, jobs)["n1"]
    except FabricctlError:
        return
    assert use.state is not Use.FREE or "IDLE" in nodes


def test_a_silent_controller_leaves_all_unknown(make_slurm: Make) -> None:
    make_slurm("n1").set(gone=True)
    use = PLUGIN.busy(("n1",), 10)["n1"]
    assert use.state is Use.UNKNOWN
    assert use.why == (
        "scontrol: slurm_load_node error: Unable to contact slurm controller (connect failure)"
    )


def test_a_controller_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scontrol").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    use = PLUGIN.busy(("n1",), 0.2)["n1"]
    assert use.state is Use.UNKNOWN
    assert use.why.startswith("scontrol did not answer in ")


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("(sleep 61) & sleep 62", "scontrol did not answer in "),
        ("(sleep 63) & exit 0", "scontrol did not answer in "),
        ("exec cat /dev/zero", "scontrol printed more than 1 MiB"),
    ],
    ids=["hangs with a child", "leaves a child behind", "never stops printing"],
)
def test_a_command_out_of_control_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    monkeypatch.setattr(slurm, "_MOST_BYTES", 1 << 20)
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\n{script}\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    use = PLUGIN.busy(("n1",), 2)["n1"]
    assert use.state is Use.UNKNOWN
    assert use.why.startswith(says)
    group = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 10
    while _lives(group):
        assert time.monotonic() < until, "it left a process behind"
        time.sleep(0.05)


def test_without_the_commands_all_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not PLUGIN.present()
    assert PLUGIN.busy(("n1",), 5)["n1"].why == "scontrol could not be run: No such file or directory"


def test_a_users_own_filters_do_not_narrow_the_answer(
    make_slurm: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_slurm("n1").job("7", "alice", "n1", state="SUSPENDED")
    monkeypatch.setenv("SQUEUE_USERS", "bob")
    assert PLUGIN.present()
    assert PLUGIN.busy(("n1",), 10)["n1"].jobs == (Job("7", "alice"),)


def test_hidden_jobs_hold_their_nodes(make_slurm: Make) -> None:
    world = make_slurm("n1", "n2")
    world.job("7", "alice", "n1")
    world.set(hides=True)
    found = PLUGIN.busy(("n1", "n2"), 10)
    assert found["n1"] == NodeUse(Use.BUSY, why="its state is ALLOCATED")
    assert found["n2"].state is Use.FREE


def test_drain_and_undrain(make_slurm: Make) -> None:
    world = make_slurm("n1", "n2", "n3")
    world.node("n3", drain=True, reason="bad DIMM")
    PLUGIN.drain(("n1", "n2"), "fabricctl a1")
    assert world.drained() == {"n1": "fabricctl a1", "n2": "fabricctl a1", "n3": "bad DIMM"}
    world.node("n2", reason="fabricctl a1, and look at fan 3")
    PLUGIN.undrain(("n1", "n2", "n3"), "fabricctl a1")
    assert world.drained() == {"n2": "fabricctl a1, and look at fan 3", "n3": "bad DIMM"}
    assert world.updates() == [
        ["NodeName=n1,n2", "State=DRAIN", "Reason=fabricctl a1"],
        ["NodeName=n1", "State=UNDRAIN"],
    ]
    assert PLUGIN.by_hand(("n1", "n2")) == "scontrol update NodeName=n1,n2 State=UNDRAIN"


def test_a_refusal_is_an_error_with_slurms_words(make_slurm: Make) -> None:
    make_slurm("n1").set(denies=True)
    with pytest.raises(FabricctlError, match="scontrol: slurm_update error: Invalid user id"):
        PLUGIN.drain(("n1",), "fabricctl a1")


def test_thousands_of_nodes_are_told_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(slurm, "_said", lambda argv, _s: told.append(argv[2].count(",") + 1) or "")
    PLUGIN.drain([f"n{number}" for number in range(2500)], "x")
    assert told == [1000, 1000, 500]


def test_it_is_found_by_name() -> None:
    assert finder.names("scheduler") == ("slurm",)
    assert finder.scheduler("slurm") is PLUGIN
    with pytest.raises(UsageError, match="did you mean slurm"):
        finder.scheduler("slrum")


@pytest.mark.parametrize(
    "argv",
    [
        ("squeue", "--me"),
        ("sinfo", "--json"),
        ("scontrol", "--sorted", "show", "node"),
        ("scontrol", "update", "NodeName=n1", "Weight=3"),
        ("scontrol", "update", "NodeName=n1", "State=DRAIN"),
        ("scontrol", "update", "NodeName=n9", "State=DRAIN", "Reason=x"),
    ],
)
def test_the_stand_in_refuses_what_slurm_refuses(make_slurm: Make, argv: tuple[str, ...]) -> None:
    make_slurm("n1")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr
