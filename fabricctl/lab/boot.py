"""Bring one guest up: from the saved one, else by booting; noticed, replaced and counted if it hangs."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fabricctl.errors import LabError
from fabricctl.lab import guest, identity, programs, saved
from fabricctl.lab.console import Console
from fabricctl.lab.qmp import Qmp
from fabricctl.lab.state import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricctl.lab.fabric import End, Fabric, Guest
    from fabricctl.lab.image import Image
    from fabricctl.lab.state import Places

    Report = Callable[[str], None]

# Starts before a guest is given up; the last one boots, in case the saved guest is at fault.
TRIES = 3
_RESUME_S = 20
_CONSOLE_S = 45
_SSH_S = 60
_POLL_S = 0.1


class CancelledStartError(LabError):
    """The lab is being taken away while a guest of it starts."""


@dataclass(frozen=True)
class Lab:
    """What all guests of a lab share."""

    where: Places
    fabric: Fabric
    run: Path
    image: Image
    accelerator: str
    nics: int
    saved: saved.Saved | None
    user_public: str

    def host_key(self, name: str) -> Path:
        """Return the path of a guest's private host key."""
        return self.where.folder / f"{name}.hostkey"

    def disk(self, name: str) -> Path:
        """Return the path of a guest's writable disk."""
        return self.where.folder / f"{name}.qcow2"

    def log(self, name: str) -> Path:
        """Return the path of a guest's log."""
        return self.where.folder / f"{name}.log"


def socket_path(run: Path, end: End) -> Path:
    """Return the path of the datagram socket at one end of a cable."""
    return run / f"{end.guest}.{end.nic}"


def machine(lab: Lab, one: Guest, *, ssh_port: int, resume: bool) -> guest.Machine:
    """Return all that makes up the QEMU process of one guest."""
    cabled = {end.nic: end for end in lab.fabric.ends(one.name)}
    wiring: list[guest.Wiring] = []
    for nic in range(1, lab.nics + 1):
        end = cabled.get(nic)
        peer = lab.fabric.peer(end) if end else None
        wiring.append(
            guest.Wiring(
                nic,
                one.mac(nic),
                own=socket_path(lab.run, end) if end else None,
                peer=socket_path(lab.run, peer) if peer else None,
            )
        )
    return guest.Machine(
        name=one.name,
        image=lab.image,
        accelerator=lab.accelerator,
        run=lab.run,
        disk=lab.disk(one.name),
        disk_format="qcow2",
        log=lab.log(one.name),
        wiring=tuple(wiring),
        ssh_port=ssh_port,
        resume=lab.saved.memory if lab.saved and resume else None,
    )


def make_disk(lab: Lab, name: str) -> None:
    """Make a guest's writable disk afresh, over the disk as it was at the save."""
    disk = lab.disk(name)
    disk.unlink(missing_ok=True)
    if lab.saved is None:
        empty = lab.where.folder / f"{name}.base.raw"
        empty.unlink(missing_ok=True)
        saved.make_disk(empty)
        base = empty
    else:
        base = lab.saved.disk
    programs.run(
        ("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), str(disk)),
        timeout_s=20,
    )


def start(
    lab: Lab, one: Guest, note: Callable[[Record], None], report: Report, *, booted: bool = False
) -> Record:
    """Start a guest, and start it again if it hangs or dies.

    Parameters
    ----------
    note
        Told of every process before it is waited for, so that nothing started is forgotten. It raises
        `CancelledStartError` when nothing is to be started any more.
    booted
        Boot it from the disk it has: it was killed. Else it starts afresh.

    Raises
    ------
    LabError
        It did not come up in `TRIES` starts.
    """
    replaced = 0
    while True:
        # The last try does without the saved guest, which may be what is wrong.
        resume = not booted and lab.saved is not None and replaced < TRIES - 1
        if not booted:
            make_disk(lab, one.name)
        # A fresh port each time: another program may have taken the one before.
        record = Record(one.name, ssh_port=guest.free_port(), replaced=replaced, restored=resume)
        note(record)
        try:
            return _start_once(lab, one, record, note)
        except CancelledStartError:
            raise
        except LabError as error:
            replaced += 1
            if replaced >= TRIES:
                raise LabError(
                    f"it did not come up in {TRIES} starts; last: {error}",
                    where=one.name,
                    next_step=f"read its log {lab.log(one.name)}",
                ) from error
            report(f"{one.name} did not come up and is replaced ({replaced}): {error}")


def _start_once(lab: Lab, one: Guest, record: Record, note: Callable[[Record], None]) -> Record:
    # QEMU does not bind a socket whose file a killed process left.
    for end in lab.fabric.ends(one.name):
        socket_path(lab.run, end).unlink(missing_ok=True)
    this = machine(lab, one, ssh_port=record.ssh_port, resume=record.restored)
    process = guest.start(guest.command(this), this.log)
    record = replace(record, pid=process.pid, started=process.started)
    try:
        note(record)
        if record.restored:
            _resume(this)
        entries = identity.files(lab.fabric, one, lab.host_key(one.name), lab.user_public)
        with Console(this.console, name=one.name, timeout_s=_RESUME_S) as console:
            if not record.restored:
                console.wait_booted(deadline_s=saved.BOOT_S)
            console.wait(deadline_s=_CONSOLE_S)
            identity.give(console, entries, resumed=record.restored)
        wait_sshd(record.ssh_port, one.name, deadline_s=_SSH_S)
    except CancelledStartError:
        guest.stop(process, lab.run)
        raise
    except LabError as error:
        guest.stop(process, lab.run)
        raise LabError(f"{error.what} (log: {guest.said(this.log)})", where=one.name) from error
    return record


def _resume(this: guest.Machine) -> None:
    with Qmp(this.qmp, timeout_s=_RESUME_S) as qmp:
        end = time.monotonic() + _RESUME_S
        # "inmigrate" lasts until the whole memory has been read.
        while qmp.command("query-status")["status"] == "inmigrate":
            if time.monotonic() > end:
                raise LabError(f"the saved guest was not read within {_RESUME_S} s")
            time.sleep(_POLL_S)
        qmp.command("cont")


def wait_sshd(port: int, name: str, *, deadline_s: float) -> None:
    """Wait until a guest's sshd shows its banner.

    Raises
    ------
    LabError
        It does not within `deadline_s` seconds.
    """
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        # QEMU accepts at once whether or not somebody listens inside, so only a banner counts.
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
                if sock.recv(4) == b"SSH-":
                    return
        except OSError:
            pass
        time.sleep(_POLL_S)
    raise LabError(
        f"sshd did not answer within {deadline_s:.0f} s",
        where=name,
        next_step="see: fabricctl lab status",
    )
