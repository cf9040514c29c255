"""What srun runs on each node: starts programs there and passes their lines on.

It is sent to the node as text (``python3 -I -c``), so it imports nothing of fabricctl. Every line that comes
in goes to the starters of all nodes: ``TO VERB REST``, where TO is a node's name in Slurm or ``*``::

    * keep DIGEST BASE64         a piece of some content, of which several files can be made
    node1 put 7 {"path":...}     write kept content to a file, whole or not at all
    node1 start 8 ["/bin/sh"]    start a program as channel 8
    node1 line 8 TEXT            a line for its standard input
    node1 end 8                  close its standard input; what is left of it a second later is killed

What goes out is ``NUMBER KIND TEXT``: ``0 hello node1`` first, then for a channel ``line`` for a line that
the program printed, ``end`` when it or the file is done, ``no`` when that failed. Slurm breaks lines of tasks
after 1024 bytes (22.05, measured), so longer ones go as pieces of the kind ``+`` before the last.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from typing import IO

PIECE_BYTES = 900
BLOCK_BYTES = 65536
TAIL_BYTES = 2000
MOST_WAITING_BYTES = 64 << 20
"""What a program that takes no input may leave waiting before it is given up."""
GRACE_S = 1.0


def say(number: int, kind: str, content: bytes = b"") -> None:
    """Write a message, in as many lines as it takes."""
    content = content.replace(b"\n", b" ")
    while len(content) > PIECE_BYTES:
        os.write(1, b"%d + %s\n" % (number, content[:PIECE_BYTES]))
        content = content[PIECE_BYTES:]
    os.write(1, b"%d %s %s\n" % (number, kind.encode(), content))


class Program:
    """A program that runs here, as a channel."""

    def __init__(self, number: int, argv: list[str], selector: selectors.BaseSelector) -> None:
        self.number = number
        self.over = False
        self.until = 0.0
        self._selector = selector
        self._waiting = bytearray()
        self._rest = bytearray()
        self._tail = b""
        self._closing = False
        self._child = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        assert self._child.stdin and self._child.stdout and self._child.stderr  # noqa: S101, PT018
        self._in = self._child.stdin
        self._outs = {self._child.stdout: self._lines, self._child.stderr: self._errors}
        os.set_blocking(self._in.fileno(), False)
        for stream in self._outs:
            selector.register(stream, selectors.EVENT_READ, (self._read, stream))

    def give(self, line: bytes) -> None:
        """Pass a line on; never waits for the program."""
        if len(self._waiting) > MOST_WAITING_BYTES:
            self._child.kill()
        elif not self._closing and not self._in.closed:
            self._waiting += line + b"\n"
            self._write(None)

    def end(self) -> None:
        """Close its standard input once all that waits has gone in."""
        self._closing = True
        self.until = time.monotonic() + GRACE_S
        if not self._waiting:
            self._close_input()

    def kill(self) -> None:
        """End it at once."""
        self._child.kill()

    def _write(self, stream: object) -> None:
        del stream
        try:
            while self._waiting:
                del self._waiting[: os.write(self._in.fileno(), self._waiting[:BLOCK_BYTES])]
        except BlockingIOError:
            if self._in not in self._selector.get_map():
                self._selector.register(self._in, selectors.EVENT_WRITE, (self._write, None))
            return
        except OSError:
            self._closing = True
        if self._in in self._selector.get_map():
            self._selector.unregister(self._in)
        if self._closing:
            self._close_input()

    def _close_input(self) -> None:
        if not self._in.closed:
            if self._in in self._selector.get_map():
                self._selector.unregister(self._in)
            self._in.close()

    def _read(self, stream: IO[bytes]) -> None:
        block = os.read(stream.fileno(), BLOCK_BYTES)
        if block:
            self._outs[stream](block)
            return
        self._selector.unregister(stream)
        stream.close()
        del self._outs[stream]
        if not self._outs:
            self._finish()

    def _lines(self, block: bytes) -> None:
        self._rest += block
        if b"\n" in block:
            whole = bytes(self._rest).split(b"\n")
            self._rest = bytearray(whole.pop())
            for line in whole:
                say(self.number, "line", line)

    def _errors(self, block: bytes) -> None:
        self._tail = (self._tail + block)[-TAIL_BYTES:]

    def _finish(self) -> None:
        if self._rest:
            say(self.number, "line", bytes(self._rest))
        self._close_input()
        try:
            status = self._child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            status = self._child.wait()
        words = b" | ".join(line for line in self._tail.split(b"\n") if line.strip())
        said = b"; its last words: " + words if words else b""
        say(self.number, "end", b"exit status %d" % status + said)
        self.over = True


class Starter:
    """Does what the lines say.

    Parameters
    ----------
    name
        This node's name in Slurm.
    idle_s
        Seconds without any program and without any line for whichever node, after which it ends.
    """

    def __init__(self, name: str, idle_s: float) -> None:
        self._name = name.encode()
        self._idle_s = idle_s
        self._selector = selectors.DefaultSelector()
        self._programs: dict[int, Program] = {}
        self._kept: dict[str, bytes] = {}
        self._rest = b""
        self._open = True

    def run(self) -> None:
        """Work until standard input ends."""
        self._selector.register(0, selectors.EVENT_READ, (self._read, None))
        say(0, "hello", self._name)
        while self._open:
            events = self._selector.select(self._pause_s())
            if not events and not self._programs:
                say(0, "end", b"nothing was heard for %d s" % self._idle_s)
                return
            for key, _ in events:
                work, stream = key.data
                work(stream)
            self._sweep()
        self._leave()

    def _pause_s(self) -> float:
        return GRACE_S / 2 if any(p.until for p in self._programs.values()) else self._idle_s

    def _sweep(self) -> None:
        now = time.monotonic()
        for program in list(self._programs.values()):
            if program.until and now > program.until:
                program.kill()
            if program.over:
                del self._programs[program.number]

    def _leave(self) -> None:
        """End all programs: the controller is gone, or wants no more of them."""
        self._selector.unregister(0)
        for program in self._programs.values():
            program.end()
        until = time.monotonic() + 2 * GRACE_S
        while self._programs and time.monotonic() < until:
            for key, _ in self._selector.select(GRACE_S / 4):
                work, stream = key.data
                work(stream)
            self._sweep()
        for program in self._programs.values():
            program.kill()

    def _read(self, stream: object) -> None:
        del stream
        block = os.read(0, BLOCK_BYTES)
        self._open = bool(block)
        self._rest += block
        if b"\n" in block:
            lines = self._rest.split(b"\n")
            self._rest = lines.pop()
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        # Most lines are for others: those cost no more than this.
        to, _, rest = line.partition(b" ")
        if to not in (self._name, b"*"):
            return
        verb, _, rest = rest.partition(b" ")
        if verb == b"keep":
            digest, _, piece = rest.partition(b" ")
            self._kept[digest.decode()] = self._kept.get(digest.decode(), b"") + base64.b64decode(piece)
            return
        number, _, rest = rest.partition(b" ")
        if number.isdigit():
            self._do(verb, int(number), rest)

    def _do(self, verb: bytes, number: int, rest: bytes) -> None:
        program = self._programs.get(number)
        if verb == b"line" and program is not None:
            program.give(rest)
        elif verb == b"end" and program is not None:
            program.end()
        elif verb in (b"start", b"put"):
            try:
                if verb == b"put":
                    self._put(json.loads(rest.decode()))
                    say(number, "end")
                else:
                    self._programs[number] = Program(number, json.loads(rest.decode()), self._selector)
            except OSError as exc:
                say(number, "no", str(exc).encode())

    def _put(self, wish: dict[str, object]) -> None:
        path, digest = str(wish["path"]), str(wish["digest"])
        content = self._kept.get(digest, b"")
        if hashlib.sha256(content).hexdigest() != digest:
            message = f"only a part of the content arrived ({len(content)} bytes)"
            raise OSError(message)
        folder = os.path.dirname(path)  # noqa: PTH120  the starter does without pathlib
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        number, part = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=folder)  # noqa: PTH119
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
            os.chmod(part, int(str(wish["mode"])))  # noqa: PTH101
            os.replace(part, path)  # noqa: PTH105
        except BaseException:
            os.unlink(part)  # noqa: PTH108
            raise


if __name__ == "__main__":
    os.umask(0o077)
    Starter(os.environ["SLURMD_NODENAME"], float(sys.argv[1])).run()
