"""A switch's command line over SSH on loopback: login by key, banner, echo, pages, enable, drops.

What the switch knows is a :class:`Device` of a simulator (EOS, NX-OS); it keeps its state over sessions. A
session's terminal behaves as a real one: what is typed while a command is at work is echoed at once and again
when the command line reads it.
"""

from __future__ import annotations

import contextlib
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import paramiko
from paramiko import common

_GONE = (OSError, EOFError, paramiko.SSHException)
_END = ""
INVALID = "% Invalid input"


class Refused(Exception):  # noqa: N818  what a switch answers, not an error of the program
    """The switch says no to a line; the message is what it prints."""


class _Dropped(Exception):  # noqa: N818  as above
    """The session breaks."""


@dataclass
class Faults:
    """What goes wrong, by regular expressions that a whole line must match.

    Parameters
    ----------
    refuse
        By expression: what the switch answers instead of doing it.
    drop_before, drop_after
        The session breaks instead of, or just after, doing such a line; once for each time it is set.
    slow_s
        Seconds that every line takes.
    """

    refuse: dict[str, str] = field(default_factory=dict)
    drop_before: str = ""
    drop_after: str = ""
    slow_s: float = 0.0


class Mode(Protocol):
    """One session's place on the switch's command line."""

    privileged: bool

    def prompt(self) -> str:
        """Return the prompt."""
        ...

    def answer(self, line: str) -> str:
        """Do what a line says and return what it prints; Refused if the switch says no."""
        ...


class Device(Protocol):
    """A switch that outlives its sessions."""

    banner: str
    privileged: bool
    """Whether a login is privileged at once."""
    enable_password: str
    faults: Faults
    log: list[str]
    """Every line that was sent, by all sessions."""

    def session(self) -> Mode:
        """Return a new session."""
        ...


class _Keys(paramiko.ServerInterface):
    def __init__(self, user: str, key: str) -> None:
        self._user, self._key = user, key

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002  paramiko's signature
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = username == self._user and key.get_base64() == self._key
        return common.AUTH_SUCCESSFUL if good else common.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        del chanid
        return common.OPEN_SUCCEEDED if kind == "session" else common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_pty_request(self, *_: object) -> bool:
        return True

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:  # noqa: ARG002  as above
        return True


@dataclass
class Server:
    """Serves one switch; :meth:`start` before use, :meth:`stop` after it.

    Parameters
    ----------
    public_key
        The one key that may log in, a file as ``ssh-keygen`` writes it.
    """

    device: Device
    public_key: Path
    user: str = "admin"
    host_key: paramiko.PKey = field(default_factory=paramiko.ECDSAKey.generate)
    sessions: int = 0
    """How often a shell was opened."""
    _listener: socket.socket | None = None
    _open: list[paramiko.Transport] = field(default_factory=list)

    @property
    def port(self) -> int:
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    def known_hosts(self, host: str = "127.0.0.1") -> str:
        """Return the line that makes the server known."""
        return f"[{host}]:{self.port} {self.host_key.get_name()} {self.host_key.get_base64()}\n"

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for transport in self._open:
            transport.close()

    def serve(self, sock: socket.socket) -> None:
        """Serve one connection over `sock`, in threads of its own."""
        threading.Thread(target=self._connection, args=(sock,), daemon=True).start()

    def _listen(self) -> None:
        assert self._listener is not None
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            # Every key is echoed by itself: without this, each waits for the other side's delayed answer.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.serve(sock)

    def _connection(self, sock: socket.socket) -> None:
        with contextlib.suppress(*_GONE):
            transport = paramiko.Transport(sock)
            self._open.append(transport)
            transport.add_server_key(self.host_key)
            key = self.public_key.read_text().split()[1]
            transport.start_server(threading.Event(), _Keys(self.user, key))
            while transport.is_active():
                channel = transport.accept(1)
                if channel is not None:
                    self.sessions += 1
                    threading.Thread(target=self._session, args=(channel,), daemon=True).start()

    def _session(self, channel: paramiko.Channel) -> None:
        try:
            Terminal(channel, self.device).run()
        except (_Dropped, *_GONE):
            pass
        finally:
            with contextlib.suppress(*_GONE):
                channel.close()


@dataclass
class Terminal:
    """One session: keys in, text out."""

    channel: paramiko.Channel
    device: Device
    length: int = 24
    busy: bool = False
    keys: queue.Queue[str] = field(default_factory=queue.Queue)

    def run(self) -> None:
        mode = self.device.session()
        mode.privileged = self.device.privileged
        threading.Thread(target=self._read, daemon=True).start()
        self._print(self.device.banner)
        while True:
            # Before the prompt: who has seen it is echoed by the command line alone.
            self.busy = False
            self._put(mode.prompt())
            line = self._line()
            self.busy = True
            self._put("\r\n")
            self.device.log.append(line)
            if line.strip() in {"exit", "logout"} and mode.prompt().endswith(">"):
                return
            self._do(mode, line.strip())

    def _do(self, mode: Mode, line: str) -> None:
        faults = self.device.faults
        time.sleep(faults.slow_s)
        if faults.drop_before and re.fullmatch(faults.drop_before, line):
            faults.drop_before = ""
            raise _Dropped
        said = next((text for rule, text in faults.refuse.items() if re.fullmatch(rule, line)), None)
        if said is None:
            said = self._answer(mode, line)
        self._page(said)
        if faults.drop_after and re.fullmatch(faults.drop_after, line):
            faults.drop_after = ""
            raise _Dropped

    def _answer(self, mode: Mode, line: str) -> str:
        words = line.split()
        if not words or line.startswith("!"):
            return ""
        if words == ["enable"]:
            return self._enable(mode)
        if words == ["disable"]:
            mode.privileged = False
            return ""
        if words[:2] == ["terminal", "length"] and len(words) == 3:
            self.length = int(words[2])
            return ""
        if words[:2] == ["terminal", "width"] and len(words) == 3:
            return "" if 10 <= int(words[2]) <= 32767 else INVALID
        try:
            return mode.answer(line)
        except Refused as no:
            return str(no)

    def _enable(self, mode: Mode) -> str:
        if self.device.enable_password and not mode.privileged:
            self._put("Password: ")
            if self._line(echo=False) != self.device.enable_password:
                return "% Bad secret"
        mode.privileged = True
        return ""

    def _page(self, said: str) -> None:
        lines = said.split("\n") if said else []
        if lines and not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines, 1):
            self._put(f"{line}\r\n")
            if self.length and number % self.length == 0 and number < len(lines):
                self._put(" --More-- ")
                if self.keys.get() in {"q", _END}:
                    self._put("\r\n")
                    return

    def _print(self, text: str) -> None:
        self._put(text.replace("\n", "\r\n"))

    def _put(self, text: str) -> None:
        self.channel.sendall(text.encode())

    def _read(self) -> None:
        with contextlib.suppress(*_GONE):
            while block := self.channel.recv(1024):
                text = block.decode(errors="replace")
                if self.busy:
                    self._put(text.replace("\r", "\r\n"))  # as a terminal does when nobody reads from it
                for key in text:
                    self.keys.put(key)
        self.keys.put(_END)

    def _line(self, *, echo: bool = True) -> str:
        typed = ""
        while (key := self.keys.get()) not in "\r\n":
            typed += key
            if echo:
                self._put(key)
        if key == _END:
            raise _Dropped
        return typed


@contextlib.contextmanager
def serving(device: Device, public_key: Path) -> Iterator[Server]:
    """Serve a switch for as long as the block runs."""
    server = Server(device, public_key)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@dataclass
class Clock:
    """Time that passes only when it is told to."""

    seconds: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        self.seconds += seconds


Now = Callable[[], float]
