"""The lab's life: up, status, reboot, down."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fabricctl.errors import LabError, UsageError
from fabricctl.lab import boot, fabric, guest, identity, image, inventory, programs, saved, state
from fabricctl.lab.console import Console
from fabricctl.lab.qmp import Qmp

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricctl.lab.state import Places, Record, State

    Report = Callable[[str], None]

REBOOT_S = 420
_LONGEST_SOCKET = 107
_LONGEST_NAME = "/node99.24.qmp"


@dataclass(frozen=True)
class GuestStatus:
    """How one guest is now.

    Parameters
    ----------
    condition
        ``running``, ``frozen``, ``dead``, or ``silent`` when QEMU does not answer.
    """

    name: str
    role: str
    condition: str
    pid: int
    ssh_port: int
    replaced: int
    restored: bool


@dataclass(frozen=True)
class Status:
    """How a lab is now."""

    name: str
    phase: str
    accelerator: str
    inventory: str
    guests: tuple[GuestStatus, ...]
    faults: tuple[state.Fault, ...]

    @property
    def replaced(self) -> int:
        """How often a guest hung or died at its start and was replaced."""
        return sum(one.replaced for one in self.guests)


class Ledger:
    """The state file as the guests' starting threads write it."""

    def __init__(self, where: Places, first: State) -> None:
        self._where = where
        self._lock = threading.Lock()
        self._closed = False
        self.state = first
        state.save(where, first)

    def close(self) -> None:
        """Refuse all further notes: the lab is being removed."""
        with self._lock:
            self._closed = True

    def note(self, record: Record) -> None:
        """Remember a guest, at once.

        Raises
        ------
        CancelledStartError
            The lab is being removed.
        """
        with self._lock:
            if self._closed:
                raise boot.CancelledStartError("the lab is being removed", where=record.name)
            self.state = self.state.with_record(record)
            state.save(self._where, self.state)

    def set(self, new: State) -> None:
        """Remember a new state, at once."""
        with self._lock:
            self.state = new
            state.save(self._where, new)


def existing(where: Places) -> State:
    """Return the state of a lab that is up.

    Raises
    ------
    UsageError
        There is no such lab.
    LabError
        Its `up` did not finish.
    """
    found = _known(where)
    if found.phase != "up":
        raise LabError(
            f"the lab {where.name!r} did not come up fully",
            next_step=f"bring it up again: fabricctl lab up --name {where.name}",
        )
    return found


def _known(where: Places) -> State:
    found = state.load(where)
    if found is None:
        raise UsageError(
            f"there is no lab {where.name!r}",
            next_step=f"bring it up: fabricctl lab up --name {where.name}",
        )
    return found


def up(where: Places, shape: fabric.Shape, *, mirror: str, report: Report) -> State:
    """Bring a lab up; what a killed `up` of the same name left is removed first.

    Raises
    ------
    LabError
        It is up already, cannot be built here, or a guest did not come up.
    BusyError
        Another command is working on it.
    """
    layout = fabric.plan(shape)
    programs.need((guest.QEMU, "qemu-img", "mke2fs", "zstd", "ssh-keygen"))
    with state.locked(where.lock_file, wait=False):
        found = state.load(where)
        if found is not None and found.phase == "up" and _any_alive(found):
            raise LabError(
                f"the lab {where.name!r} is up",
                next_step=f"use it ({where.inventory}), or: fabricctl lab down --name {where.name}",
            )
        _remove(where, found)
        pictured = image.ensure(where.cache, mirror=mirror, report=report)
        kind = saved.accelerator(pictured, where.cache)
        kept = _saved_or_none(where, pictured, kind, layout.nics, report)
        first = state.State(
            name=where.name,
            shape=shape,
            run_folder=str(_run_folder()),
            nics=layout.nics,
            accelerator=kind,
            image=str(pictured.folder),
            saved=str(kept.folder) if kept else "",
        )
        return _bring_up(where, first, report)


def _bring_up(where: Places, first: State, report: Report) -> State:
    ledger = Ledger(where, first)
    try:
        Path(first.run_folder).mkdir(mode=0o700)
        _start_all(_lab(where, first), ledger, report)
    except BaseException:
        # Also at a second Ctrl-C, when the threads that start guests are still at work.
        ledger.close()
        _remove(where, ledger.state)
        raise
    return ledger.state


def _saved_or_none(
    where: Places, pictured: image.Image, kind: str, nics: int, report: Report
) -> saved.Saved | None:
    try:
        return saved.ensure(where.cache, pictured, kind, nics, report)
    except LabError as error:
        report(f"no guest could be saved, so every guest boots, which takes minutes: {error}")
        return None


def _run_folder() -> Path:
    # UNIX sockets have short paths, and XDG_RUNTIME_DIR may be long or missing.
    random = f"fabricctl-{secrets.token_hex(4)}"
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):  # noqa: S108
        path = Path(base) / random
        fits = len(str(path)) + len(_LONGEST_NAME) <= _LONGEST_SOCKET
        if base and fits and os.access(base, os.W_OK | os.X_OK):
            return path
    raise LabError("no folder with a short name can be written", next_step="set TMPDIR=/tmp")


def _lab(where: Places, now: State) -> boot.Lab:
    return boot.Lab(
        where=where,
        fabric=fabric.plan(now.shape),
        run=Path(now.run_folder),
        image=image.Image(Path(now.image)),
        accelerator=now.accelerator,
        nics=now.nics,
        saved=saved.Saved(Path(now.saved)) if now.saved else None,
        user_public=identity.make_key(where.user_key, f"fabricctl lab {where.name}"),
    )


def _start_all(lab: boot.Lab, ledger: Ledger, report: Report) -> None:
    guests = lab.fabric.guests
    for one in guests:
        identity.make_key(lab.host_key(one.name), one.name)
    began = time.monotonic()
    report(f"starting {len(guests)} guests")
    with ThreadPoolExecutor(len(guests)) as pool:
        futures = [pool.submit(boot.start, lab, one, ledger.note, report) for one in guests]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
        for future in futures:
            ledger.note(future.result())
    write_files(lab, ledger.state)
    ledger.set(replace(ledger.state, phase="up"))
    report(f"all guests are up after {time.monotonic() - began:.1f} s")


def write_files(lab: boot.Lab, now: State) -> None:
    """Write inventory, policy and known_hosts."""
    where = lab.where
    ports = {record.name: record.ssh_port for record in now.guests}
    keys = {ports[one.name]: identity.make_key(lab.host_key(one.name), one.name) for one in lab.fabric.guests}
    state.write_private(where.known_hosts, inventory.known_hosts(keys))
    if not where.policy.exists():
        state.write_private(where.policy, inventory.policy())
    state.write_private(where.inventory, inventory.text(lab.fabric, where, ports))


def process_of(record: Record) -> guest.Process:
    """Return the process that runs a guest."""
    return guest.Process(record.pid, record.started)


def _any_alive(now: State) -> bool:
    run = Path(now.run_folder)
    return any(guest.alive(process_of(record), run) for record in now.guests)


def status(where: Places) -> Status:
    """Return how a lab is now, by asking every guest's QEMU.

    Raises
    ------
    UsageError
        There is no such lab.
    """
    now = _known(where)
    layout = fabric.plan(now.shape)
    guests = tuple(
        GuestStatus(
            name=one.name,
            role=one.role.value,
            condition=condition(now, one.name),
            pid=now.record(one.name).pid,
            ssh_port=now.record(one.name).ssh_port,
            replaced=now.record(one.name).replaced,
            restored=now.record(one.name).restored,
        )
        for one in layout.guests
    )
    return Status(now.name, now.phase, now.accelerator, str(where.inventory), guests, now.faults)


def condition(now: State, name: str) -> str:
    """Return how one guest is: ``running``, ``frozen``, ``silent`` or ``dead``."""
    run = Path(now.run_folder)
    if not guest.alive(process_of(now.record(name)), run):
        return "dead"
    try:
        with Qmp(run / f"{name}.qmp", timeout_s=3) as qmp:
            return "running" if qmp.command("query-status")["running"] else "frozen"
    except LabError:
        return "silent"


def reboot(where: Places, name: str, *, report: Report) -> float:
    """Reboot a guest in place, from its own disk, and return after how many seconds it was back.

    Raises
    ------
    LabError
        It is not running, or is not back in time.
    """
    with state.locked(where.lock_file, wait=False):
        now = existing(where)
        lab = _lab(where, now)
        lab.fabric.guest(name)
        if condition(now, name) != "running":
            raise LabError("it is not running", where=name, next_step="undo its fault: fabricctl lab clear")
        began = time.monotonic()
        run = Path(now.run_folder)
        report(f"rebooting {name}: about half a minute under emulation")
        with Console(run / f"{name}.con", name=name) as console:
            token = secrets.token_hex(8)
            # Gone with /run: its absence shows that the answer comes from the new boot.
            # Later and in the background, so that the shell lives long enough to answer.
            later = "(sleep 1; systemctl --no-block reboot) >/dev/null 2>&1 &"
            console.run(f"touch /run/{token}; sync\n{later}", deadline_s=30)
            console.wait_booted(deadline_s=REBOOT_S)
            if console.run(f"test -e /run/{token} || echo new", deadline_s=60).strip() != "new":
                raise LabError("it did not reboot", where=name, next_step=f"read its log {lab.log(name)}")
        boot.wait_sshd(now.record(name).ssh_port, name, deadline_s=60)
        return time.monotonic() - began


def restart_dead(lab: boot.Lab, ledger: Ledger, names: list[str], report: Report) -> None:
    """Boot guests whose process has ended, each from the disk it has."""
    before = {name: ledger.state.record(name) for name in names}
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        futures = [
            pool.submit(boot.start, lab, lab.fabric.guest(n), ledger.note, report, booted=True) for n in names
        ]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
        for future in futures:
            record = future.result()
            earlier = before[record.name].replaced
            ledger.note(replace(record, replaced=record.replaced + earlier))
    write_files(lab, ledger.state)


def open_lab(where: Places) -> tuple[boot.Lab, Ledger]:
    """Return a lab that is up, and its state to change. The caller holds its lock."""
    now = existing(where)
    return _lab(where, now), Ledger(where, now)


def down(where: Places, *, report: Report) -> bool:
    """End a lab and remove all it left; return whether there was anything to remove.

    Raises
    ------
    BusyError
        Another command is working on it.
    """
    with state.locked(where.lock_file, wait=False, remove=True):
        try:
            found = state.load(where)
        except LabError as error:
            report(f"{error}; removing what the folder still names")
            found = None
        return _remove(where, found)


def _remove(where: Places, found: State | None) -> bool:
    if found is not None:
        run = Path(found.run_folder)
        for record in found.guests:
            guest.stop(process_of(record), run)
        for process in guest.stray(run):
            guest.stop(process, run)
        shutil.rmtree(run, ignore_errors=True)
    there = where.folder.exists()
    shutil.rmtree(where.folder, ignore_errors=True)
    return there
