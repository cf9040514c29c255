"""The switch as whoever logs in sees it: a Linux shell, ``sonic-cli`` from there, and timers that go off."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from simulators.cli.server import Faults, Refused  # noqa: E402
from simulators.dell_sonic.cli import Cli, No  # noqa: E402
from simulators.dell_sonic.switch import factory, load, save  # noqa: E402

MOTD = "Linux leaf1 5.10.0-21-amd64\nYou are on\n   ___  _  _ _\nUnauthorized access is prohibited.\n\n"


@dataclass
class Switch:
    """A switch that lies in `folder`; every member that an SSH server wants is here.

    Parameters
    ----------
    login
        ``bash``, or ``cli`` where a login leads into ``sonic-cli`` and nowhere else.
    """

    folder: Path
    login: str = "bash"
    banner: str = MOTD
    privileged: bool = True
    enable_password: str = ""
    faults: Faults = field(default_factory=Faults)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not (self.folder / "switch.json").exists():
            save(self.folder, factory())

    def session(self) -> Session:
        return Session(self)

    def state(self) -> dict[str, Any]:
        return load(self.folder)

    def change(self, **values: Any) -> None:
        save(self.folder, {**self.state(), **values})

    def configure(self, text: str) -> None:
        """Give it lines by hand, from configuration mode on."""
        hand = Cli(self.folder)
        hand.answer("configure terminal")
        for line in text.splitlines():
            hand.answer(line)

    def environment(self) -> dict[str, str]:
        path = f"{HERE / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin"
        return {**os.environ, "PATH": path, "SWITCH": str(self.folder), "SIMULATOR": str(HERE)}

    def timers(self) -> dict[str, tuple[str, str]]:
        """Return by unit after how long it goes off, and what it runs."""
        found = {}
        for path in sorted((self.folder / "timers").glob("*")):
            after, command = path.read_text().splitlines()
            found[path.name] = (after, command)
        return found

    def time_passes(self) -> list[str]:
        """Have all timers go off; return what they printed."""
        said = []
        for unit, (_, command) in self.timers().items():
            (self.folder / "timers" / unit).unlink()
            environment = {**self.environment(), "SUDO_USER": "admin"}
            done = subprocess.run(
                command.split(), capture_output=True, text=True, env=environment, check=False, timeout=120
            )
            said.append(done.stdout + done.stderr)
        return said

    def left(self) -> list[str]:
        """Return what lies in fabricctl's folder besides its lock."""
        folder = self.folder / "run" / "fabricctl"
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != "lock")


@dataclass
class Session:
    """One login."""

    switch: Switch
    privileged: bool = True
    cli: Cli | None = None

    def __post_init__(self) -> None:
        if self.switch.login == "cli":
            self.cli = Cli(self.switch.folder)

    def prompt(self) -> str:
        return self.cli.prompt() if self.cli else "admin@leaf1:~$ "

    def answer(self, line: str) -> str:
        if self.cli is None:
            return self._shell(line)
        if line == "exit" and not self.cli.mode:
            if self.switch.login == "cli":
                raise EOFError
            self.cli = None
            return ""
        try:
            return self.cli.answer(line)
        except No as no:
            raise Refused(str(no)) from no

    def _shell(self, line: str) -> str:
        if line.strip() == "sonic-cli":
            self.cli = Cli(self.switch.folder)
            return ""
        done = subprocess.run(
            ["/bin/bash", "-c", line],
            capture_output=True,
            text=True,
            env=self.switch.environment(),
            check=False,
            timeout=120,
        )
        return done.stdout + done.stderr
