"""Slurm: ``scontrol`` for the nodes' states, ``squeue`` for the jobs on them.

Both are asked, because neither says it all: a suspended job leaves its node IDLE, and a site may hide the
jobs of others (``PrivateData``) while the node still shows as ALLOCATED. The formats are those of the manual
pages of Slurm 22.05; ``tests/cases/scheduler/slurm`` holds what a real one printed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from fabricctl.errors import FabricctlError, UsageError
from fabricctl.model.hostlist import expand
from fabricctl.model.usage import Job, NodeUse, Use

NODES = ("scontrol", "--all", "--oneliner", "show", "node")
JOBS = ("squeue", "--all", "--local", "--noheader", "--states=all", "--format=%i|%T|%u|%N")
"""All states; those that are over are left out here, a filter by name would miss those of other versions."""

_UPDATE_S = 60.0
_NAMES_AT_ONCE = 1000
_MOST_BYTES = 64 << 20
"""More than ten thousand nodes and as many jobs take; a program that never stops is not waited for."""
_MOST_SAID = 4096
_FILTERS = ("SQUEUE_", "SINFO_", "SCONTROL_")
"""Variables with which a user narrows what the commands show (``SQUEUE_USERS``): they are not passed on."""
_OTHERS = ("SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN")

_OVER = frozenset(
    [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    ]
)
"""States of jobs that hold no node any more."""
_BUSY = frozenset(
    ["ALLOCATED", "ALLOC", "MIXED", "MIX", "COMPLETING", "COMP", "DRAINING", "DRNG", "FAILING", "FAILG"]
)
_FREE = frozenset(["IDLE", "DOWN", "DRAINED", "FAIL", "MAINT", "MAINTENANCE", "RESERVED", "RESV", "PLANNED"])
_BESIDE = frozenset(
    [
        "DRAIN",
        "NOT_RESPONDING",
        "CLOUD",
        "DYNAMIC_NORM",
        "DYNAMIC_FUTURE",
        "EXTERNAL",
        "POWER_DOWN",
        "POWER_UP",
        "POWERED_DOWN",
        "POWERING_DOWN",
        "POWERING_UP",
        "POWER_DRAIN",
        "REBOOT",
        "REBOOT_REQUESTED",
        "REBOOT_ISSUED",
        "REBOOT_CANCEL",
        "CANCEL_REBOOT",
        "INVAL",
        "INVALID_REG",
        "PERFCTRS",
        "BLOCKED",
        "UNDRAIN",
        "RESUME",
    ]
)
"""Words beside a base state that say nothing about jobs."""
_DRAINED = frozenset(["DRAIN", "DRAINED", "DRAINING", "DRNG"])
_SUFFIXES = "*~#!%$@^-"
"""Marks that ``sinfo`` appends to a state: not responding, powered off, powering up, ..."""

_NAME = re.compile(r"NodeName=(\S+)")
_STATE = re.compile(r"\sState=(\S+)")
# Greedy: what looks like the end in the middle of a text belongs to the text, so it is never taken for ours.
_REASON = re.compile(r"\sReason=(.*) \[[^\[\]@\s]+@[^\[\]\s]+\](?=\s|$)")
_BARE_REASON = re.compile(r"\sReason=(.*)")


class Slurm:
    """Asks and tells the Slurm whose commands are on this machine."""

    name = "slurm"

    def present(self) -> bool:
        """Say whether ``squeue`` is on PATH."""
        return shutil.which("squeue") is not None

    def busy(self, nodes: Sequence[str], deadline_s: float) -> Mapping[str, NodeUse]:
        """Return the use of each node; unknown for all of them when Slurm does not answer in time."""
        end = time.monotonic() + deadline_s
        try:
            states = _said(NODES, end - time.monotonic())
            return uses(nodes, states, _said(JOBS, end - time.monotonic()))
        except FabricctlError as exc:
            return dict.fromkeys(nodes, NodeUse(Use.UNKNOWN, why=exc.what))

    def drain(self, nodes: Sequence[str], reason: str) -> None:
        """Keep new jobs off the nodes.

        Raises
        ------
        FabricctlError
            ``scontrol`` says no. It may have drained some of them: only reading back tells.
        """
        for part in _parts(nodes):
            _said(_update(part, "State=DRAIN", f"Reason={reason}"), _UPDATE_S)

    def undrain(self, nodes: Sequence[str], reason: str) -> None:
        """Let jobs come again to those of the nodes that are drained with exactly this reason.

        ``UNDRAIN`` leaves a node DOWN that is DOWN; ``RESUME`` would make it IDLE.

        Raises
        ------
        FabricctlError
            ``scontrol`` says no.
        """
        found = self.busy(nodes, _UPDATE_S)
        ours = [node for node in nodes if found[node].drained and found[node].reason == reason]
        for part in _parts(ours):
            _said(_update(part, "State=UNDRAIN"), _UPDATE_S)

    def by_hand(self, nodes: Sequence[str]) -> str:
        """Return the command that ends the drain."""
        return f"scontrol update NodeName={','.join(nodes)} State=UNDRAIN"


def uses(nodes: Sequence[str], states: str, jobs: str) -> dict[str, NodeUse]:
    """Return the use of each node from what the commands NODES and JOBS printed.

    Raises
    ------
    FabricctlError
        A line of `jobs` is not understood: it may be a job on any node.
    """
    known, held = _states(states), _jobs(jobs)
    return {node: _use(known.get(node), held.get(node, ())) for node in nodes}


def _update(nodes: Sequence[str], *changes: str) -> tuple[str, ...]:
    return ("scontrol", "update", f"NodeName={','.join(nodes)}", *changes)


def _parts(nodes: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(nodes), _NAMES_AT_ONCE):
        yield nodes[start : start + _NAMES_AT_ONCE]


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_FILTERS) and k not in _OTHERS}
    return {**kept, "LC_ALL": "C"}


def _said(argv: Sequence[str], deadline_s: float) -> str:
    """Return what a command printed; FabricctlError if it is not there, fails, is silent or never ends.

    When its time is up it is killed with all that it has started.
    """
    late = threading.Event()
    try:
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(),
                start_new_session=True,
            ) as running,
        ):
            timer = threading.Timer(max(deadline_s, 0.1), _end, (running.pid, late))
            timer.start()
            try:
                printed = running.stdout.read(_MOST_BYTES + 1) if running.stdout else b""
                if len(printed) <= _MOST_BYTES:
                    running.wait()
            finally:
                timer.cancel()
                _end(running.pid)
            errors.seek(0)
            complaint = " ".join(errors.read(_MOST_SAID).decode("utf-8", "replace").split())
    except OSError as exc:
        raise FabricctlError(f"{argv[0]} could not be run: {exc.strerror or exc}") from exc
    if late.is_set():
        raise FabricctlError(f"{argv[0]} did not answer in {deadline_s:.0f} s")
    if len(printed) > _MOST_BYTES:
        raise FabricctlError(f"{argv[0]} printed more than {_MOST_BYTES >> 20} MiB")
    if running.returncode != 0:
        raise FabricctlError(f"{argv[0]}: {complaint or f'exit status {running.returncode}'}")
    return printed.decode("utf-8", "replace")


def _end(group: int, late: threading.Event | None = None) -> None:
    if late is not None:
        late.set()
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)


def _states(text: str) -> dict[str, tuple[str, str]]:
    """Return by node its state and the reason beside it, from ``scontrol show node``, a line a node."""
    found = {}
    for line in text.splitlines():
        name, state = _NAME.match(line), _STATE.search(line)
        if name is not None:
            found[name[1]] = (state[1] if state else "", _reason(line))
    return found


def _reason(line: str) -> str:
    """Return the text of a drain without the ``[user@time]`` that Slurm appends."""
    found = _REASON.search(line) or _BARE_REASON.search(line)
    return found[1].strip() if found else ""


def _jobs(text: str) -> dict[str, tuple[Job, ...]]:
    """Return by node the jobs that hold it; FabricctlError if a line is not understood."""
    found: dict[str, tuple[Job, ...]] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        words = line.split("|")
        try:
            number, state, user, where = words
            nodes = () if state in _OVER else expand(where)
        except (ValueError, UsageError):
            raise FabricctlError(f"squeue printed what is not understood: {line!r}") from None
        for node in nodes:
            found[node] = (*found.get(node, ()), Job(number, user))
    return found


def _use(said: tuple[str, str] | None, jobs: tuple[Job, ...]) -> NodeUse:
    if said is None:
        return NodeUse(
            Use.BUSY if jobs else Use.UNKNOWN, jobs, why="it lists no such node (see fabric_scheduler_node)"
        )
    state, reason = said
    words = {word.strip(_SUFFIXES) for word in state.upper().split("+")} - {""}
    if jobs or words & _BUSY:
        use = Use.BUSY
    elif words & _FREE and words <= _FREE | _BESIDE:
        use = Use.FREE
    else:
        use = Use.UNKNOWN
    return NodeUse(use, jobs, bool(words & _DRAINED), reason, f"its state is {state or 'not shown'}")


PLUGIN = Slurm()
