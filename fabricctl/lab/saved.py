"""The saved guest: booted once, stopped, and written to a file from which all guests start."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fabricctl.errors import LabError
from fabricctl.lab import guest, identity, programs
from fabricctl.lab.console import Console, pack
from fabricctl.lab.qmp import Qmp
from fabricctl.lab.state import locked

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricctl.lab.image import Image

    Report = Callable[[str], None]

BOOT_S = 420
_SAVE_S = 120
_WARM_S = 120
_PROBE_S = 20
_DISK = "2G"
_TRIES = 3
# Raise it when the code that prepares and saves a guest changes what comes out.
FORMAT = 1
NOBODY = guest.MANAGEMENT_MAC


@dataclass(frozen=True)
class Saved:
    """A saved guest in the cache."""

    folder: Path

    @property
    def memory(self) -> Path:
        """Its memory and devices, compressed."""
        return self.folder / "memory.zst"

    @property
    def disk(self) -> Path:
        """Its writable disk as it was at the save; nobody writes to it again."""
        return self.folder / "disk.raw"


def accelerator(image: Image, cache: Path) -> str:
    """Return ``kvm`` if a kernel truly boots with it here, else ``tcg``.

    `/dev/kvm` may exist and still not run an ordinary kernel, so the answer comes from a boot
    and is kept until the host itself boots again.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    note = cache / f"kvm-{image.name}.json"
    try:
        known = json.loads(note.read_text())
    except (OSError, ValueError):
        known = {}
    if known.get("boot") != boot:
        known = {"boot": boot, "works": _boots("kvm", image)}
        note.write_text(json.dumps(known))
    return "kvm" if known.get("works") is True else "tcg"


def _boots(kind: str, image: Image) -> bool:
    argv = [programs.find(guest.QEMU), *guest.machine_options(kind), "-m", "256", "-no-reboot"]
    argv += ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-serial", "stdio"]
    argv += ["-append", f"{guest.KERNEL_WORDS} lab.probe"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return b"lab: the kernel runs" in done.stdout


def key(image: Image, kind: str, nics: int) -> str:
    """Return the content hash of all that a saved guest depends on."""
    version = programs.run((guest.QEMU, "--version"), timeout_s=20).splitlines()[0]
    summary = hashlib.sha256("\0".join((image.name, kind, str(nics), version)).encode())
    # The devices are part of what is saved; the paths behind them are not.
    like = _machine(Path("/"), image, kind, nics, run=Path("/"))
    summary.update(repr((FORMAT, _DISK, guest.command(like))).encode())
    if kind == "kvm":
        # A guest saved on one processor does not run on another.
        model = re.search(r"^model name.*$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        summary.update((model[0] if model else "").encode())
    return summary.hexdigest()[:16]


def ensure(cache: Path, image: Image, kind: str, nics: int, report: Report) -> Saved:
    """Return the saved guest from the cache, booted and saved first if it is not there.

    Raises
    ------
    LabError
        The guest did not boot, or could not be saved.
    """
    folder = cache / f"saved-{nics}-{key(image, kind, nics)}"
    if not folder.is_dir():
        programs.need((guest.QEMU, "qemu-img", "mke2fs", "zstd"))
        with locked(cache / f"saved-{nics}.lock", wait=True):
            if not folder.is_dir():
                _save_with_retries(cache, folder, image, kind, report)
    return Saved(folder)


def _save_with_retries(cache: Path, folder: Path, image: Image, kind: str, report: Report) -> None:
    for stale in cache.glob(".saving-*"):
        shutil.rmtree(stale, ignore_errors=True)
    nics = int(folder.name.split("-")[1])
    for attempt in range(1, _TRIES + 1):
        report(f"booting and saving one guest ({kind}, once; a minute or so)")
        work = Path(tempfile.mkdtemp(prefix=".saving-", dir=cache))
        try:
            _save(work, image, kind, nics, report)
            work.rename(folder)
        except LabError as error:
            if attempt == _TRIES:
                raise
            report(f"that guest failed and is replaced: {error}")
        else:
            return
        finally:
            shutil.rmtree(work, ignore_errors=True)


def make_disk(path: Path) -> None:
    """Make an empty writable disk; sparse, so that it takes no room yet."""
    options = ("-q", "-t", "ext4", "-m", "0", "-E", "lazy_itable_init=0,root_owner=0:0")
    programs.run(("mke2fs", *options, "-O", "^metadata_csum_seed", str(path), _DISK), timeout_s=60)


def _save(work: Path, image: Image, kind: str, nics: int, report: Report) -> None:
    saved = Saved(work)
    make_disk(saved.disk)
    # Sockets need a short path, which the cache may not have.
    with tempfile.TemporaryDirectory(prefix="fabricctl-save-") as short:
        run = Path(short)
        machine = _machine(work, image, kind, nics, run=run)
        process = guest.start(guest.command(machine), machine.log)
        try:
            _boot_and_warm(machine, report)
            _write(machine, saved.memory)
        finally:
            guest.stop(process, run)


def _machine(work: Path, image: Image, kind: str, nics: int, *, run: Path) -> guest.Machine:
    return guest.Machine(
        name="saved",
        image=image,
        accelerator=kind,
        run=run,
        disk=Saved(work).disk,
        disk_format="raw",
        log=work / "log",
        wiring=tuple(guest.Wiring(nic, f"{NOBODY[:-2]}{nic:02x}") for nic in range(1, nics + 1)),
    )


def _boot_and_warm(machine: guest.Machine, report: Report) -> None:
    began = time.monotonic()
    with Console(machine.console, name=machine.name, timeout_s=20) as console:
        console.wait_booted(deadline_s=BOOT_S)
        # "degraded" (1) is a finished boot as well; what failed is told.
        state = console.run(
            "systemctl is-system-running --wait; systemctl --failed --plain --no-legend; true",
            deadline_s=BOOT_S,
        )
        report(f"booted in {time.monotonic() - began:.0f} s: {programs.last_lines(state)}")
        _give_key(console, machine.log.parent)
        console.run("/usr/lib/fabriclab/warm", deadline_s=_WARM_S)


def _give_key(console: Console, work: Path) -> None:
    # sshd does not start without a host key. This one serves nobody: every guest gets its own.
    key = work / "hostkey"
    identity.make_key(key, "saved guest")
    console.unpack(pack([("/etc/ssh/ssh_host_ed25519_key", key.read_bytes(), 0o600)]), deadline_s=_WARM_S)
    key.unlink()


def _write(machine: guest.Machine, target: Path) -> None:
    with Qmp(machine.qmp) as qmp:
        qmp.command("stop")
        # Without limits: the guest stands still and the file is local.
        qmp.command("migrate-set-parameters", max_bandwidth=10**10)
        quoted = "'" + str(target).replace("'", "'\\''") + "'"
        qmp.command("migrate", uri=f"exec:zstd -1qo {quoted}")
        qmp.wait_migrated(deadline_s=_SAVE_S)
        qmp.command("quit")
    if not target.is_file() or not target.stat().st_size:
        raise LabError("QEMU saved an empty guest", where=str(target))
