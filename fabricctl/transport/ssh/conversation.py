"""Talk to the command line of a device that has no shell, and know for certain where each answer ends.

A prompt proves nothing: an answer may hold ``#``, or a line that looks like the prompt. So after each line a
comment with a word that nobody can guess is sent, and the answer is what stands before the comment's own
echo, if nothing but the prompt follows it. A terminal that echoes what it gets while it is still at work
shows the comment in the middle of an answer: something follows there, so that is not the end.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import paramiko

from fabricctl.errors import DeadlineError, RefusedError, UnreachableError
from fabricctl.transport import shell
from fabricctl.transport.base import Reply
from fabricctl.transport.ssh import errors

_BLOCK_BYTES = 65536
_LIMIT_BYTES = 64 * 1024 * 1024
_TAIL_BYTES = 4096
_WIDTH = 511
_HEIGHT = 1000
# What is refused of these does no harm: then it is off already, or an answer that pages is refused below.
_CALM = ("terminal length 0", f"terminal width {_WIDTH}")

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07|[\x00\x07\x08]")
_LINE_END = re.compile(r"\r*\n")
_PROMPT_LIKE = re.compile(r"(?:^|\n)[^\n]*[^\s#>][^\n]*[>#] ?$")
# Enterprise SONiC's login leads to the Linux beneath its command line; its program is called from there.
_LINUX = re.compile(r"(?:^|\n)[\w.-]+@[\w.-]+:[^\n]*\$ ?$")
_FROM_LINUX = "sonic-cli"
_ASKS = re.compile(r"(?:^|\n)[^\n]*[Pp]assword: ?$")
_PAGES = re.compile(r"(?:^|\n) ?--More--[^\n]*$")
# A device that does not take comments answers with a caret and a refusal.
_SHRUG = r"(?:[ ]*\^?[ ]*\n|%[^\n]*\n)*"
_REFUSAL = re.compile(r"%|ERROR:", re.IGNORECASE)
_CARET = re.compile(r"\s*\^\s*")


def plain(raw: bytes) -> str:
    """Return what a terminal printed as text: without control sequences, lines ending in newlines."""
    return _LINE_END.sub("\n", _CONTROL.sub("", shell.text(raw))).replace("\r", "")


def refused(said: str) -> bool:
    """Say whether an answer is the device's word for "no": ``% Invalid input``, ``ERROR: ...``.

    Only the first and the last line count: a configuration may hold such words, in a banner.
    """
    lines = [line for line in said.splitlines() if line.strip() and not _CARET.fullmatch(line)]
    return bool(lines) and any(_REFUSAL.match(line) for line in (lines[0], lines[-1]))


@dataclass
class Conversation:
    """A session at a device's command line, over an open channel that it closes at the end.

    Parameters
    ----------
    until_s
        When the device must have answered everything, on the monotonic clock; `deadline_s` after the start.
    """

    device: str
    channel: paramiko.Channel
    until_s: float
    deadline_s: float
    _heard: bytearray = field(default_factory=bytearray)
    _prompt: str = ""

    def hold(self, lines: Sequence[str], *, enable: bool) -> tuple[Reply, ...]:
        """Return the answer to each line; :meth:`fabricctl.transport.base.Transport.converse` says more."""
        try:
            self.channel.settimeout(self._left())
            self.channel.get_pty(term="vt100", width=_WIDTH, height=_HEIGHT)
            self.channel.invoke_shell()
            self._wait(lambda tail: _PROMPT_LIKE.search(tail) or _LINUX.search(tail))
            if _LINUX.search(self._tail()):
                self._send(_FROM_LINUX)
                self._wait(_PROMPT_LIKE.search)
            self._learn()
            if enable:
                self._enable()
            for line in _CALM:
                self._ask(line)
            return tuple(self._ask(line) for line in lines)
        except TimeoutError as exc:
            raise self._late() from exc
        except errors.FOREIGN as exc:
            raise errors.ours(exc, self.device, "its command line", self.deadline_s) from exc
        finally:
            # Where the connection has gone, closing fails too: what matters has been said by then.
            with contextlib.suppress(*errors.FOREIGN):
                self.channel.close()

    def _ask(self, line: str) -> Reply:
        self._heard.clear()
        self._send(line)
        self._wait(lambda tail: tail.endswith(self._prompt))
        said = _without_echo(self._mark(re.escape(self._prompt)), line)
        return Reply(int(refused(said)), said, "")

    def _learn(self) -> None:
        """Learn the prompt: what stands before the comment's echo and again after it."""
        self._mark(r"[^\n]*[^\s\n][^\n]*")

    def _mark(self, prompt: str) -> str:
        """Send a comment and return what stands before its echo, once nothing but the prompt follows."""
        word = f"! fabricctl-{secrets.token_hex(8)}"
        ends = re.compile(rf"({prompt}){word} *\n{_SHRUG}\1$")
        self._send(word)
        self._wait(ends.search)
        heard = plain(bytes(self._heard))
        found = ends.search(heard)
        if found is None:  # pragma: no cover  the tail has it
            raise UnreachableError("its command line garbles what it prints", device=self.device)
        self._prompt = found[1]
        return heard[: found.start()].replace(word, "")

    def _enable(self) -> None:
        if not self._prompt.rstrip().endswith(">"):
            return
        self._heard.clear()
        self._send("enable")
        self._wait(lambda tail: _ASKS.search(tail) or _PROMPT_LIKE.search(tail))
        tail = self._tail()
        step = "let the user have all rights at login (privilege level 15), or enable without a password"
        if _ASKS.search(tail):
            raise RefusedError("enable wants a password", device=self.device, next_step=step)
        self._learn()
        if self._prompt.rstrip().endswith(">"):
            said = shell.one_line(_without_echo(tail.rpartition("\n")[0], "enable"))
            raise RefusedError(f"enable is refused: {said}", device=self.device, next_step=step)

    def _send(self, line: str) -> None:
        self.channel.settimeout(self._left())
        self.channel.sendall(f"{line}\r".encode())

    def _wait(self, done: Callable[[str], object]) -> None:
        while not done(tail := self._tail()):
            if _PAGES.search(tail):
                step = 'see that the user may run "terminal length 0"'
                raise RefusedError("it shows its answers page by page", device=self.device, next_step=step)
            self.channel.settimeout(self._left())
            block = self.channel.recv(_BLOCK_BYTES)
            if not block:
                raise UnreachableError(f"its command line ended{self._words()}", device=self.device)
            self._heard += block
            if len(self._heard) > _LIMIT_BYTES:
                raise RefusedError("the command printed more than 64 MiB", device=self.device)

    def _tail(self) -> str:
        return plain(bytes(self._heard[-_TAIL_BYTES:]))

    def _left(self) -> float:
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def _late(self) -> DeadlineError:
        what = "its command line did not answer" if self._prompt else "no prompt was seen that ends in > or #"
        return DeadlineError(
            f"{what} within {self.deadline_s:g} s{self._words()}",
            device=self.device,
            after_s=self.deadline_s,
        )

    def _words(self) -> str:
        said = shell.one_line(self._tail()[-200:])
        return f"; its last words: {said}" if said else ""


def _without_echo(said: str, line: str) -> str:
    first, newline, rest = said.partition("\n")
    return rest if newline and first.strip() == line.strip() else said
