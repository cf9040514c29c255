"""The one srun of a run: what goes to the starters, and what comes back from them and from Slurm."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import IO

from fabricctl.errors import DeadlineError, MissingToolError, UnreachableError
from fabricctl.transport.lines import write_all
from fabricctl.transport.shell import one_line, text
from fabricctl.transport.slurm import command
from fabricctl.transport.slurm.command import Allocation, Said

_MESSAGE = re.compile(rb" *([0-9]+): ([0-9]+) (\+|line|end|no|hello) (.*)", re.DOTALL)
_WORDS = 5
_LEAVE_S = 5.0
"""For the starters to end their programs (they take two seconds at most) and for srun to notice."""
_TERM_S = 3.0
_SHORT_S = 1.0
_BY_SIGNAL = "exit status -"
_REASON_S = 3.0
"""Slurm ends a cancelled job's programs before its own words reach srun."""


class Wire:
    """The channel of one program, as ``LineProcess`` reads and writes it."""

    def __init__(self, step: Step, node: str, number: int) -> None:
        self.node = node
        self.number = number
        self.why = ""
        self.refused = False
        self._step = step
        self._blocks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._pieces: list[bytes] = []

    def take(self, kind: bytes, content: bytes) -> None:
        """Take a message of the starter's."""
        self._pieces.append(content)
        if kind == b"+":
            return
        whole, self._pieces = b"".join(self._pieces), []
        if kind == b"line":
            self._blocks.put(whole + b"\n")
        else:
            self.refused = kind == b"no"
            self.end(text(whole))

    def end(self, why: str) -> None:
        """Take no more: the program is over, for this reason."""
        self.why = self.why or why
        self._blocks.put(b"")

    def wait(self, deadline_s: float) -> bool:
        """Wait for the end of what prints nothing; False if it is not there in time."""
        try:
            return self._blocks.get(timeout=max(deadline_s, 0.0)) == b""
        except queue.Empty:
            return False

    def read_stdout(self) -> bytes:
        """Return the next line, empty at the end."""
        return self._blocks.get()

    def read_stderr(self) -> bytes:
        """Return nothing: the starter says the last words when it says the end."""
        return b""

    def write(self, content: bytes) -> None:
        """Send whole lines."""
        for line in content.splitlines():
            self._step.tell(self, "line", line)

    def close(self) -> None:
        """End the program's input."""
        with contextlib.suppress(UnreachableError, OSError):
            self._step.tell(self, "end")
        self._step.forget(self)
        self.end("closed")

    def status(self) -> str:
        """Say how it ended; of what a signal ended, Slurm's reason if it gives one soon."""
        if self.why.startswith(_BY_SIGNAL):
            return self._step.reason(self.node, _REASON_S) or self.why
        return self.why


class Step:
    """All starters of a run.

    Parameters
    ----------
    nodes
        Slurm's names of the nodes.
    start_s
        How long Slurm may take to start them all.
    """

    def __init__(self, nodes: tuple[str, ...], held: Allocation | None, python: str, start_s: float) -> None:
        self._held, self._python = held, python
        self._start_s, self._until = start_s, time.monotonic() + start_s
        self._nodes = nodes
        self._environment = command.cleaned(os.environ)
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._wires: dict[int, Wire] = {}
        self._ranks: dict[int, str] = {}
        self._gone: dict[str, str] = {}
        self._unlaunched: set[str] = set()
        self._words: dict[str, deque[str]] = {}
        self._job = ""
        self._closed = False
        self._srun = self._begin()

    def _begin(self) -> subprocess.Popen[bytes]:
        """Start srun for the nodes that are left."""
        argv = command.srun(
            [node for node in self._nodes if node not in self._gone], self._held, self._python
        )
        try:
            srun = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is ours: srun ends when its input does
            )
        except FileNotFoundError:
            raise missing("srun") from None
        assert srun.stdin  # noqa: S101
        os.set_blocking(srun.stdin.fileno(), False)
        threading.Thread(target=self._follow, args=(srun,), name="srun", daemon=True).start()
        return srun

    def open(self, node: str) -> Wire:
        """Return a channel to a node, on which nothing has been sent yet."""
        with self._changed:
            wire = Wire(self, node, next(self._numbers))
            self._wires[wire.number] = wire
            if node in self._gone:
                wire.end(self._gone[node])
        return wire

    def forget(self, wire: Wire) -> None:
        """Take no more messages for a channel."""
        with self._changed:
            self._wires.pop(wire.number, None)

    def reason(self, node: str, within_s: float) -> str:
        """Wait until a node's starter is gone and say why; empty if it is still there after that time."""
        with self._changed:
            self._changed.wait_for(lambda: node in self._gone, within_s)
            return self._gone.get(node, "")

    def settle(self) -> None:
        """Wait until every node's starter is there or gone, or the time for that is up.

        srun reads no input before every node has answered it, so all are waited for.
        """
        with self._changed:
            while not self._complete() and (left := self._until - time.monotonic()) > 0:
                self._changed.wait(left)

    def ready(self, node: str, device: str) -> None:
        """Make sure that a node's starter can be told something.

        Raises
        ------
        UnreachableError
            The node's starter is over, or never began.
        DeadlineError
            Slurm has not started all of them in time.
        """
        self.settle()
        with self._changed:
            if node in self._gone:
                raise UnreachableError(self._gone[node], device=device)
            if self._complete():
                return
            here = set(self._ranks.values())
            late = [name for name in self._nodes if name not in here and name not in self._gone]
            what = f"Slurm has not started the agents within {self._start_s:.0f} s"
            what += f": it is waiting for {late[0]}" if node not in late else self._last_words(node)
        step = "" if self._held else 'take the nodes first ("salloc --exclusive"), and run it in there'
        raise DeadlineError(what, device=device, after_s=self._start_s, next_step=step)

    def _complete(self) -> bool:
        """Say whether every node's starter is there or gone, and not about to be ended for one of them."""
        known = set(self._ranks.values()) | set(self._gone)
        return len(known) == len(self._nodes) and not self._unlaunched

    def tell(self, wire: Wire, verb: str, rest: bytes = b"") -> None:
        """Send a channel's starter a line; UnreachableError or OSError if it is gone."""
        self.write(b"%s %s %d %s\n" % (wire.node.encode(), verb.encode(), wire.number, rest))

    def write(self, content: bytes) -> None:
        """Send lines to all starters; OSError if srun is gone or takes nothing."""
        with self._writing:
            stdin = self._srun.stdin
            if self._closed or stdin is None or stdin.closed:
                message = "srun has ended"
                raise BrokenPipeError(message)
            write_all(stdin.fileno(), content)

    def _follow(self, srun: subprocess.Popen[bytes]) -> None:
        """Pass on what srun prints until it ends; then all nodes are gone."""
        assert srun.stdout  # noqa: S101
        assert srun.stderr  # noqa: S101
        said = threading.Thread(target=self._listen, args=(srun.stderr,), daemon=True)
        said.start()
        with srun.stdout:
            for line in srun.stdout:
                self._pass_on(line.rstrip(b"\n"))
        status = srun.wait()
        said.join(_SHORT_S)
        with self._changed:
            again = self._unlaunched and not self._closed and not self._all_gone()
            self._unlaunched = set()
            if again:
                self._ranks = {}
        if again:
            # One node that cannot be started ends the whole step: once more, without it.
            with self._writing, contextlib.suppress(OSError, MissingToolError):
                _close(srun)
                if not self._closed:
                    self._srun = self._begin()
                    return
        with self._changed:
            for node in self._nodes:
                if node not in self._gone:
                    self._lose(node, f"srun ended with exit status {status}{self._last_words(node)}")

    def _all_gone(self) -> bool:
        return all(node in self._gone for node in self._nodes)

    def _pass_on(self, line: bytes) -> None:
        found = _MESSAGE.fullmatch(line)
        with self._changed:
            if found is None:
                self._note("", one_line(text(line)))
                return
            rank, number, kind, content = int(found[1]), int(found[2]), found[3], found[4]
            if kind == b"hello":
                self._ranks[rank] = text(content).strip()
                self._changed.notify_all()
            elif not number:
                self._lose(self._ranks.get(rank, ""), f"its starter ended: {text(content)}")
            elif (wire := self._wires.get(number)) and wire.node == self._ranks.get(rank):
                wire.take(kind, content)

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                said = command.understand(one_line(text(line)))
                with self._changed:
                    self._hear(said)

    def _hear(self, said: Said) -> None:
        self._job = self._job or said.job
        nodes = said.nodes or (self._ranks.get(-1 if said.rank is None else said.rank, ""),)
        for node in nodes:
            if said.unlaunched and node in self._nodes:
                self._unlaunched.add(node)
                self._lose(node, said.text)
            elif said.ends:
                self._lose(node, f"its task in Slurm ended: {said.text}{self._own_words(node)}")
            elif said.text:
                self._note(node, said.text)

    def _note(self, node: str, words: str) -> None:
        self._words.setdefault(node, deque(maxlen=_WORDS)).append(words)

    def _own_words(self, node: str) -> str:
        words = self._words.get(node, ())
        return f" ({' | '.join(words)})" if words else ""

    def _last_words(self, node: str) -> str:
        words = (*self._words.get(node, ()), *self._words.get("", ()))
        return f"; its last words: {' | '.join(words)}" if words else ""

    def _lose(self, node: str, why: str) -> None:
        # A step that never began says of every task that it was killed: the first reason is the one.
        if (
            node not in self._nodes
            or node in self._gone
            or (self._unlaunched and node not in self._unlaunched)
        ):
            return
        self._gone[node] = why
        for wire in list(self._wires.values()):
            if wire.node == node:
                wire.end(why)
        self._changed.notify_all()

    def close(self) -> None:
        """End all programs and srun; what Slurm has not begun is cancelled. Never raises."""
        with self._writing:
            self._closed = True
            srun = self._srun
            _close(srun)
        with self._changed:
            began = bool(self._ranks)
        if not began or not _ended(srun, _LEAVE_S):
            _signal(srun, signal.SIGTERM)
            if not _ended(srun, _TERM_S):
                self._cancel()
                _signal(srun, signal.SIGKILL)
                _ended(srun, _SHORT_S)

    def _cancel(self) -> None:
        """Tell Slurm itself to end the job that srun made."""
        if self._job and self._held is None:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(
                    command.scancel(self._job),
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_LEAVE_S,
                    check=False,
                )


def missing(program: str) -> MissingToolError:
    """Return the error for a command of Slurm's that is not there."""
    step = "run verify where Slurm's commands are (a login node), or with --launcher ssh"
    return MissingToolError(f"{program} is not on this machine", next_step=step)


def states(nodes: tuple[str, ...], held: Allocation | None) -> Mapping[str, str]:
    """Return why some nodes cannot take a task, by what Slurm says of them.

    Raises
    ------
    MissingToolError
        Slurm's commands are not here.
    UnreachableError, DeadlineError
        Slurm does not answer.
    """
    within_s = 20.0
    try:
        done = subprocess.run(
            command.sinfo(nodes),
            env=command.cleaned(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=within_s,
            check=False,
        )
    except FileNotFoundError:
        raise missing("sinfo") from None
    except subprocess.TimeoutExpired:
        raise DeadlineError("sinfo does not answer", device="Slurm", after_s=within_s) from None
    if done.returncode:
        said = one_line(text(done.stderr)) or f"exit status {done.returncode}"
        raise UnreachableError(f"sinfo: {said}", device="Slurm", next_step="is slurmctld up?")
    return command.unusable(text(done.stdout), nodes, held)


def _close(srun: subprocess.Popen[bytes]) -> None:
    """Close srun's standard input, and with it that of all starters."""
    if srun.stdin is not None:
        with contextlib.suppress(OSError):
            srun.stdin.close()


def _ended(srun: subprocess.Popen[bytes], within_s: float) -> bool:
    until = time.monotonic() + within_s
    while srun.poll() is None:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _signal(srun: subprocess.Popen[bytes], number: int) -> None:
    if srun.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(srun.pid, number)
