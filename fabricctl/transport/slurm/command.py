"""Slurm's commands: what is asked of them, and what their lines say about which node.

Options and variables are those of the manual pages ``srun(1)`` and ``sinfo(1)`` of 22.05; the messages are
what such a Slurm printed when a node was down, a task was killed, or a job had to wait.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fabricctl.errors import UsageError
from fabricctl.model.hostlist import expand

IDLE_S = 600.0
"""After which a starter without programs, that hears nothing, ends by itself."""

_FIXED = (
    *("--ntasks-per-node=1", "--label", "--input=all", "--output=all", "--error=all"),
    # One node's end is not the others': each would otherwise end the step, by the site's settings or ours.
    *("--no-kill", "--kill-on-bad-exit=0", "--wait=0"),
    # As over SSH: the node's own limits, a plain environment, every CPU, and no MPI that waits for its ranks.
    *("--propagate=NONE", "--export=PATH=/usr/sbin:/usr/bin:/sbin:/bin", "--chdir=/"),
    *("--cpu-bind=none", "--mpi=none", "--job-name=fabricctl-verify"),
)
_PASSED_ON = frozenset(
    [
        *("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_JOB_ID", "SLURM_NODE_ALIASES"),
        *("SLURM_ACCOUNT", "SLURM_PARTITION", "SLURM_QOS", "SLURM_RESERVATION", "SLURM_CONSTRAINT"),
        *("SLURM_TIMELIMIT", "SLURM_WCKEY"),
    ]
)
"""How a user says which allocation, or what a new one is to be; the others change srun's output or layout."""
_OURS = ("SLURM_", "SRUN_", "SINFO_", "SALLOC_", "SBATCH_")

_NEVER = frozenset(["down", "unknown", "fail", "error", "inval", "future", "powered_down", "powering_down"])
_NO_NEW_JOB = frozenset(["drained", "draining", "drain", "failing", "reboot"])

_TASK = re.compile(r"srun: error: (\S+): tasks? [0-9,-]+: (.+)")
_UNLAUNCHED = re.compile(r"srun: error: Task launch for \S+ failed on node (\S+): (.+)")
_NODE_FAILED = re.compile(r"srun: error: Node failure on (\S+?)\.?")
_LABELLED = re.compile(r" *([0-9]+): (.*)")
_DAEMON = re.compile(r"slurmstepd-(\S+): (.+)")
_ASIDE = "srun: cluster configuration lacks support for cpu binding"
_JOB = re.compile(r"srun: job ([0-9]+) ")


@dataclass(frozen=True, slots=True)
class Allocation:
    """The job that the user is in."""

    job: str
    nodelist: str

    def __str__(self) -> str:
        """Return ``Slurm's job 17 (node[1-4])``."""
        return f"Slurm's job {self.job} ({self.nodelist})"


def allocation(environment: Mapping[str, str]) -> Allocation | None:
    """Return the allocation in which this process runs, None outside of any."""
    job = environment.get("SLURM_JOB_ID", "")
    return Allocation(job, environment.get("SLURM_JOB_NODELIST", "")) if job else None


def cleaned(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for Slurm's commands, without what would change their output or layout."""
    return {
        name: value for name, value in environment.items() if name in _PASSED_ON or not name.startswith(_OURS)
    }


def srun(nodes: Collection[str], held: Allocation | None, python: str) -> tuple[str, ...]:
    """Return the command that runs the starter once on each of these nodes.

    Outside of an allocation it makes one, of whole nodes: a job beside the probes would spoil their numbers.
    """
    source = (Path(__file__).parent / "starter.py").read_text(encoding="utf-8")
    where = (f"--nodelist={','.join(nodes)}", f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}")
    share = "--overlap" if held else "--exclusive"
    return ("srun", *where, share, *_FIXED, python, "-I", "-c", source, f"{IDLE_S:g}")


def sinfo(nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the command that prints the state of these nodes."""
    return ("sinfo", "--noheader", "--Node", "--all", f"--nodes={','.join(nodes)}", "--format=%N|%T|%E")


def scancel(job: str) -> tuple[str, ...]:
    """Return the command that ends a job."""
    return ("scancel", "--quiet", job)


def unusable(printed: str, nodes: Iterable[str], held: Allocation | None) -> dict[str, str]:
    """Return why some of these nodes cannot take a task, by what ``sinfo`` printed.

    Raises
    ------
    UsageError
        The node list of the allocation makes no sense.
    """
    rows = [line.split("|", 2) for line in printed.splitlines() if line.count("|") > 1]
    states = {name: (state, reason) for name, state, reason in rows}
    inside = set(expand(held.nodelist)) if held else set()
    found = {}
    for node in nodes:
        if node not in states:
            found[node] = f"Slurm knows no node {node}"
        elif held and node not in inside:
            found[node] = f"it is not in {held}"
        elif why := _state(*states[node], inside=held is not None):
            found[node] = why
    return found


def _state(state: str, reason: str, *, inside: bool) -> str:
    word = state.rstrip("*~#!%$@^-+").lower()
    because = "" if reason.strip() in {"", "none"} else f" ({' '.join(reason.split())})"
    if word in _NEVER or "*" in state:
        silent = " and does not answer it" if "*" in state else ""
        return f"to Slurm it is {word}{silent}{because}"
    if word in _NO_NEW_JOB and not inside:
        return f"to Slurm it is {word}{because}, so it takes no new job"
    return ""


@dataclass(frozen=True, slots=True)
class Said:
    """What a line on srun's standard error means.

    Parameters
    ----------
    nodes
        Whom it concerns, by name; empty if it names none.
    rank
        The task that it concerns, if it says only that.
    ends
        These nodes' tasks are over.
    unlaunched
        They never began, and with them none of the others does.
    job
        Number of the job that srun has made.
    """

    text: str
    nodes: tuple[str, ...] = ()
    rank: int | None = None
    ends: bool = False
    unlaunched: bool = False
    job: str = ""


def understand(line: str) -> Said:
    """Return what a line on srun's standard error means."""
    text = line.strip()
    if found := _TASK.fullmatch(text):
        return Said(found[2], _names(found[1]), ends=True)
    if found := _UNLAUNCHED.fullmatch(text):
        return Said(f"Slurm cannot start a task there: {found[2]}", _names(found[1]), unlaunched=True)
    if found := _NODE_FAILED.fullmatch(text):
        return Said("to Slurm the node failed", _names(found[1]), ends=True)
    rank = None
    if found := _LABELLED.fullmatch(text):
        rank, text = int(found[1]), found[2]
    if found := _DAEMON.fullmatch(text):
        return Said(found[2], (found[1],))
    job = _JOB.match(text)
    return Said("" if text == _ASIDE else text, rank=rank, job=job[1] if job else "")


def _names(written: str) -> tuple[str, ...]:
    try:
        return expand(written)
    except UsageError:
        return (written,)
