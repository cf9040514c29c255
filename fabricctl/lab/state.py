"""Where a lab keeps its files, what it remembers between commands, and the lock around both."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabricctl.errors import BusyError, LabError, UsageError
from fabricctl.lab.fabric import Shape
from fabricctl.resources import state_home

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")


@dataclass(frozen=True)
class Record:
    """What is remembered of one guest.

    Parameters
    ----------
    pid, started
        Its QEMU process, and that process's start time in clock ticks since boot: together
        they name one process for ever. 0 before the first start.
    ssh_port
        Port on the loopback address that leads to its sshd.
    replaced
        How often it hung or died at the start and was replaced.
    restored
        Whether it runs from the saved guest (else it booted).
    """

    name: str
    pid: int = 0
    started: int = 0
    ssh_port: int = 0
    replaced: int = 0
    restored: bool = False


@dataclass(frozen=True)
class Fault:
    """One thing broken on purpose, and what is needed to undo it.

    Parameters
    ----------
    amount
        Percent for loss, milliseconds for delay, bytes for mtu; else 0.
    before
        The setting as it was, in the words that restore it.
    partner
        For swap the port at the other cable, as ``node2/eth1``.
    """

    kind: str
    guest: str
    port: str = ""
    amount: float = 0
    direction: str = "both"
    before: str = ""
    partner: str = ""


@dataclass(frozen=True)
class State:
    """All that is remembered of a lab between two commands."""

    name: str
    shape: Shape
    run_folder: str
    nics: int
    accelerator: str
    phase: str = "starting"
    image: str = ""
    saved: str = ""
    guests: tuple[Record, ...] = ()
    faults: tuple[Fault, ...] = ()

    def record(self, guest: str) -> Record:
        """Return what is remembered of one guest."""
        return next((r for r in self.guests if r.name == guest), Record(guest))

    def with_record(self, record: Record) -> State:
        """Return the state with one guest's record put in or replaced."""
        names = [r.name for r in self.guests]
        if record.name not in names:
            return replace(self, guests=(*self.guests, record))
        return replace(self, guests=tuple(record if r.name == record.name else r for r in self.guests))


@dataclass(frozen=True)
class Places:
    """The folders of one lab."""

    name: str
    state_home: Path
    cache: Path

    @property
    def folder(self) -> Path:
        """All files of the lab, but for its sockets."""
        return self.state_home / self.name

    @property
    def state_file(self) -> Path:
        """What is remembered."""
        return self.folder / "state.json"

    @property
    def lock_file(self) -> Path:
        """Held by a command that changes the lab."""
        return self.state_home / f".{self.name}.lock"

    @property
    def inventory(self) -> Path:
        """Inventory that every other command takes."""
        return self.folder / "inventory.yml"

    @property
    def policy(self) -> Path:
        """Policy that the inventory names."""
        return self.folder / "policy.yml"

    @property
    def user_key(self) -> Path:
        """Private key that logs in at the guests."""
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """Host keys of the guests."""
        return self.folder / "known_hosts"


def places(name: str) -> Places:
    """Return the folders of the lab called `name`.

    Raises
    ------
    UsageError
        The name would not do as a file and host name.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a lab",
            next_step="use up to 24 lower-case letters, digits and dashes",
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Places(name, state_home() / "lab", cache / "fabricctl" / "lab")


def load(where: Places) -> State | None:
    """Return what is remembered of a lab; None if there is no such lab.

    Raises
    ------
    LabError
        The file is damaged or from another version.
    """
    try:
        text = where.state_file.read_text()
    except FileNotFoundError:
        return None
    try:
        return parse(text)
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(
            f"the lab's state cannot be read: {error}",
            where=str(where.state_file),
            next_step=f"remove the lab: fabricctl lab down --name {where.name}",
        ) from error


def parse(text: str) -> State:
    """Return the state written as `text`."""
    raw: dict[str, Any] = json.loads(text)
    if raw.pop("version") != VERSION:
        message = "it was written by another version of fabricctl"
        raise ValueError(message)
    shape = Shape(**raw.pop("shape"))
    guests = tuple(Record(**one) for one in raw.pop("guests"))
    faults = tuple(Fault(**one) for one in raw.pop("faults"))
    return State(shape=shape, guests=guests, faults=faults, **raw)


def render(state: State) -> str:
    """Return `state` as text."""
    return json.dumps({"version": VERSION, **asdict(state)}, indent=1) + "\n"


def save(where: Places, state: State) -> None:
    """Write the state, so that a reader sees the old one or the new one."""
    where.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(where.state_file, render(state))


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file that only its owner can read, beside it first and then renamed."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w") as out:
        out.write(text)
    beside.rename(path)


@contextmanager
def locked(path: Path, *, wait: bool, remove: bool = False) -> Iterator[None]:
    """Hold the lock at `path`.

    Parameters
    ----------
    wait
        Wait for the holder; else raise at once.
    remove
        Remove the file at the end, so that nothing stays behind.

    Raises
    ------
    BusyError
        Another command holds it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = _open_locked(path, wait=wait)
    try:
        yield
    finally:
        if remove:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _open_locked(path: Path, *, wait: bool) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            os.close(descriptor)
            raise BusyError(
                "another command is working on this lab",
                where=str(path),
                next_step="wait for it, or end it, and try again",
            ) from error
        # The former holder may have removed the file that we waited for.
        try:
            same = os.fstat(descriptor).st_ino == path.stat().st_ino
        except FileNotFoundError:
            same = False
        if same:
            return descriptor
        os.close(descriptor)
        time.sleep(0.01)
