"""A simulated Arista EOS switch: sessions, commit timer, running and startup configuration, what it shows.

Written from documents, not recorded: Arista's manual, and the JSON that the ANTA and NAPALM projects expect.
"""

from __future__ import annotations

import difflib
import re
import time
from dataclasses import dataclass, field

from simulators.cli.server import Faults, Now, Refused
from simulators.eos.config import Config
from simulators.eos.show import MOST_PENDING, Interface, Shown

_BANNER = "banner login\ninterface Ethernet99/1\n   mtu 9999\nqos profile X\n% Invalid input\nEOF\n!\n"


@dataclass
class Session:
    """A configuration session."""

    config: Config
    state: str = "pending"


@dataclass
class Timer:
    """A commit that is taken back at `due` unless it is confirmed."""

    session: str
    due: float
    before: Config


@dataclass
class Switch(Shown):
    """The switch; `rounds` says what a commit makes of a line, by regular expression."""

    interfaces: dict[str, Interface]
    hostname: str = "leaf1"
    model: str = "DCS-7060X5-64S-F"
    version: str = "4.31.2F"
    mode: str = "uc-tx-queue"
    now: Now = time.time
    banner: str = "\n### leaf1: authorised use only #\n\n"
    privileged: bool = False
    enable_password: str = ""
    faults: Faults = field(default_factory=Faults)
    rounds: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    running: Config = field(init=False)
    startup: str = ""
    sessions: dict[str, Session] = field(default_factory=dict)
    timer: Timer | None = None

    def __post_init__(self) -> None:
        self.running = Config(tuple(self.interfaces), self.mode)
        self.running.take((), f"hostname {self.hostname}")
        for name, interface in self.interfaces.items():
            path = self.running.enter((), f"interface {name}")
            assert path is not None
            if interface.routed:
                self.running.take(path, "no switchport")
        self.startup = self.text()

    def session(self) -> Cli:
        return Cli(self)

    def operate(self, *lines: str) -> None:
        """Configure the running configuration directly, as an operator at another terminal."""
        path: tuple[str, ...] = ()
        for line in lines:
            entered = self.running.enter(path, line.strip())
            if entered is not None:
                path = entered
            elif line.strip() == "exit":
                path = path[:-1]
            else:
                self.running.take(path, line.strip())

    def save(self) -> None:
        self.startup = self.text()

    def text(self) -> str:
        head = f"! device: {self.hostname} ({self.model.removesuffix('-F')}, EOS-{self.version})\n!\n"
        return f"{head}{_BANNER}{self.running.text()}end\n"

    def tick(self) -> None:
        """Take back what was not confirmed in time."""
        if self.timer is not None and self.now() >= self.timer.due:
            self.restore()

    def restore(self) -> None:
        assert self.timer is not None
        self.running = self.timer.before
        self.sessions.pop(self.timer.session, None)
        self.timer = None

    # configuration sessions

    def open(self, name: str) -> Session:
        session = self.sessions.get(name)
        if session is None:
            if sum(s.state == "pending" for s in self.sessions.values()) >= MOST_PENDING:
                raise Refused("% Maximum number of pending sessions has been reached")
            session = self.sessions[name] = Session(self.running.copy())
        elif session.state != "pending":
            raise Refused(f"% Cannot enter session {name} (already completed)")
        return session

    def commit(self, name: str, seconds: int | None) -> str:
        session = self.sessions.get(name)
        if session is None:
            raise Refused(f"% Session {name} does not exist")
        if self.timer is not None and self.timer.session == name and seconds is None:
            self.timer = None
            session.state = self._committed()
            return ""
        if self.timer is not None:
            raise Refused("% Another session is pending commit timer")
        if session.state != "pending":
            raise Refused(f"% Session {name} is already completed")
        before, self.running = self.running, session.config.copy()
        self.running.change(self._rounded)
        session.state = self._committed()
        if seconds is not None:
            self.timer = Timer(name, self.now() + seconds, before)
            session.state = session.state if self.timed_by_name else "pendingCommitTimer"
        for other in [
            n for n, s in self.sessions.items() if s.state in {"completed", "committed"} and n != name
        ]:
            self.sessions.pop(other)  # only the last is remembered
        return ""

    def abort(self, name: str) -> str:
        session = self.sessions.get(name)
        if session is None:
            raise Refused(f"% Session {name} does not exist")
        if self.timer is not None and self.timer.session == name:
            self.restore()
        elif session.state == "pending":
            self.sessions.pop(name)
        return ""

    def _committed(self) -> str:
        return "committed" if self.timed_by_name else "completed"

    def _rounded(self, line: str) -> str:
        for rule, instead in self.rounds.items():
            line = re.sub(rule, instead, line)
        return line


@dataclass
class Cli:
    """One terminal."""

    switch: Switch
    privileged: bool = False
    name: str = ""
    path: tuple[str, ...] = ()

    def prompt(self) -> str:
        host = self.switch.hostname
        if not self.name:
            return f"{host}#" if self.privileged else f"{host}>"
        inside = "".join(f"-{_short(head)}" for head in self.path)
        return f"{host}(config-s-{self.name[:6]}{inside})#"

    def answer(self, line: str) -> str:
        self.switch.tick()
        if line.startswith("!"):
            return ""
        if self.name:
            return self._configure(line)
        return self._execute(line)

    def _execute(self, line: str) -> str:
        switch = self.switch
        if match := re.fullmatch(r"show (.+)", line):
            if not self.privileged and match[1] in {"running-config", "startup-config"}:
                raise Refused("% Invalid input (privileged mode required)")
            return switch.show(match[1])
        if not self.privileged:
            raise Refused("% Invalid input")
        if match := re.fullmatch(r"configure session (\S+)", line):
            switch.open(match[1])
            self.name, self.path = match[1], ()
            return ""
        if match := re.fullmatch(r"configure session (\S+) commit(?: timer (\d\d):(\d\d):(\d\d))?", line):
            return switch.commit(match[1], _seconds(match.groups()[1:]))
        if match := re.fullmatch(r"configure session (\S+) abort", line):
            return switch.abort(match[1])
        if line in {"write memory", "copy running-config startup-config"}:
            switch.save()
            return "Copy completed successfully.\n"
        if line == "end":
            return ""
        raise Refused(f"% Invalid input (at token 0: '{line.split(maxsplit=1)[0]}')")

    def _configure(self, line: str) -> str:
        session = self.switch.sessions.get(self.name)
        if session is None:
            self.name = ""
            raise Refused("% The session does not exist any more")
        if line == "show session-config diffs":
            return _diff(self.switch.running.text(), session.config.text(), self.name)
        if line == "end":
            self.name, self.path = "", ()
        elif line == "exit":
            self.name, self.path = (self.name, self.path[:-1]) if self.path else ("", ())
        elif line == "abort":
            name, self.name, self.path = self.name, "", ()
            return self.switch.abort(name)
        elif match := re.fullmatch(r"commit(?: timer (\d\d):(\d\d):(\d\d))?", line):
            name, self.name, self.path = self.name, "", ()
            return self.switch.commit(name, _seconds(match.groups()))
        else:
            entered = session.config.enter(self.path, line)
            if entered is not None:
                self.path = entered
            else:
                session.config.take(self.path, line)
        return ""


def _seconds(groups: tuple[str | None, ...]) -> int | None:
    if groups[0] is None:
        return None
    hours, minutes, seconds = (int(str(group)) for group in groups)
    return hours * 3600 + minutes * 60 + seconds


def _diff(before: str, after: str, name: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(),
        after.splitlines(),
        "system:/running-config",
        f"session:/{name}-session-config",
        lineterm="",
    )
    return "".join(f"{line}\n" for line in lines)


def _short(head: str) -> str:
    words = head.split()
    return {
        "interface": f"if-{words[-1].replace('Ethernet', 'Et')}",
        "qos": f"qos-profile-{words[-1]}",
        "uc-tx-queue": f"uc-txq-{words[-1]}",
        "mc-tx-queue": f"mc-txq-{words[-1]}",
        "tx-queue": f"txq-{words[-1]}",
    }[words[0]]
