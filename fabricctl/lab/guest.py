"""A guest as a process: QEMU's command line, starting it, and stopping exactly what was started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fabricctl.errors import LabError
from fabricctl.lab import programs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricctl.lab.image import Image

QEMU = "qemu-system-x86_64"
MEMORY_MB = 512
# Room for jumbo frames; a guest starts with 1500 and may raise it up to this.
HOST_MTU_BYTES = 9216
KERNEL_WORDS = (
    "console=ttyS0 quiet loglevel=4 net.ifnames=0 mitigations=off audit=0 apparmor=0 "
    "nowatchdog tsc=reliable random.trust_cpu=on systemd.show_status=0"
)
# The same in all guests: QEMU's user network remembers the one that the saved guest had.
MANAGEMENT_MAC = "52:54:00:fa:00:00"
_FIRST_NIC_SLOT = 4
_STOP_S = 5


@dataclass(frozen=True)
class Wiring:
    """What one fabric NIC is plugged into: two socket paths, or nothing."""

    nic: int
    mac: str
    own: Path | None = None
    peer: Path | None = None


@dataclass(frozen=True)
class Machine:
    """All that makes up one QEMU process.

    Parameters
    ----------
    run
        Folder of its sockets; short, since a UNIX socket's path has at most 107 characters.
    disk
        Its writable disk; `disk_format` is ``raw`` or ``qcow2``.
    wiring
        One entry for each fabric NIC. A saved guest can only be started with as many as it had.
    ssh_port
        Port on the loopback address that leads to its sshd; 0 for none.
    resume
        Saved guest to start from; None boots.
    """

    name: str
    image: Image
    accelerator: str
    run: Path
    disk: Path
    disk_format: str
    log: Path
    wiring: tuple[Wiring, ...]
    ssh_port: int = 0
    resume: Path | None = None

    @property
    def qmp(self) -> Path:
        """Socket of its QMP monitor."""
        return self.run / f"{self.name}.qmp"

    @property
    def console(self) -> Path:
        """Socket of the root shell inside it."""
        return self.run / f"{self.name}.con"


def command(machine: Machine) -> list[str]:
    """Return the command line of the guest's QEMU.

    Devices, their order and their slots are part of a saved guest: a change here makes saved
    guests unusable, which is why the command line counts for their content hash.
    """
    words = KERNEL_WORDS if machine.accelerator == "kvm" else f"{KERNEL_WORDS} no_timer_check"
    argv = [QEMU, "-name", f"guest={machine.name}", *machine_options(machine.accelerator)]
    argv += ["-m", str(MEMORY_MB), "-pidfile", str(machine.run / f"{machine.name}.pid")]
    argv += ["-kernel", str(machine.image.kernel), "-initrd", str(machine.image.initrd)]
    argv += ["-append", words]
    root = f"if=none,id=root,format=raw,readonly=on,file={_option(machine.image.root)}"
    disk = f"if=none,id=disk,format={machine.disk_format},file={_option(machine.disk)}"
    argv += ["-drive", root, "-device", "virtio-blk-pci,drive=root,addr=0x1"]
    argv += ["-drive", disk, "-device", "virtio-blk-pci,drive=disk,addr=0x2"]
    argv += ["-device", "virtio-serial-pci,id=ports,addr=0x3"]
    console = f"socket,id=console,path={_option(machine.console)},server=on,wait=off"
    argv += ["-chardev", console, "-device", "virtconsole,chardev=console"]
    argv += ["-object", "rng-random,id=random,filename=/dev/urandom"]
    argv += ["-device", "virtio-rng-pci,rng=random,addr=0x1e"]
    argv += ["-chardev", f"file,id=log,append=on,path={_option(machine.log)}"]
    argv += ["-serial", "chardev:log", "-qmp", f"unix:{_option(machine.qmp)},server=on,wait=off"]
    argv += network(machine)
    if machine.resume is not None:
        # QEMU hands this text to a shell; the path is quoted for it.
        argv += ["-incoming", f"exec:zstd -dcq {_shell(machine.resume)}"]
    return argv


def machine_options(accelerator: str) -> list[str]:
    """Return the options for the kind of machine, without devices."""
    options = ["-M", "q35,hpet=off", "-nodefaults", "-no-user-config", "-display", "none"]
    options += ["-smp", "1", "-rtc", "base=utc"]
    if accelerator == "kvm":
        return [*options, "-accel", "kvm", "-cpu", "host"]
    # One level of page tables less to walk in software.
    return [*options, "-accel", "tcg,thread=single,tb-size=128", "-cpu", "max,la57=off"]


def network(machine: Machine) -> list[str]:
    """Return the options for the management NIC and all fabric NICs."""
    user = "user,id=net0,ipv6=off,restrict=on"
    if machine.ssh_port:
        user += f",hostfwd=tcp:127.0.0.1:{machine.ssh_port}-:22"
    argv = ["-netdev", user, "-device", _nic(0, MANAGEMENT_MAC, "")]
    for wire in machine.wiring:
        if wire.own is None or wire.peer is None:
            backend = f"hubport,id=net{wire.nic},hubid={wire.nic}"
        else:
            backend = (
                f"dgram,id=net{wire.nic},local.type=unix,local.path={_option(wire.own)},"
                f"remote.type=unix,remote.path={_option(wire.peer)}"
            )
        argv += ["-netdev", backend]
        argv += ["-device", _nic(wire.nic, wire.mac, f",host_mtu={HOST_MTU_BYTES}")]
    return argv


def _nic(number: int, mac: str, more: str) -> str:
    slot = _FIRST_NIC_SLOT + number
    return f"virtio-net-pci,id=nic{number},netdev=net{number},mac={mac},addr={slot:#x}{more}"


def _option(path: Path) -> str:
    # A comma ends an option's value unless it is doubled.
    return str(path).replace(",", ",,")


def _shell(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def free_port() -> int:
    """Return a TCP port of the loopback address that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@dataclass(frozen=True)
class Process:
    """A process that is the same one for ever: its id, and when it started."""

    pid: int
    started: int


def start(argv: Sequence[str], log: Path) -> Process:
    """Start QEMU so that it outlives us.

    Raises
    ------
    LabError
        It ended at once.
    """
    with log.open("ab") as out:
        process = subprocess.Popen(
            [programs.find(argv[0]), *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd="/",
        )
    started = start_time(process.pid)
    if started is None or process.poll() is not None:
        raise LabError(f"QEMU ended at once: {said(log)}", where=str(log))
    # It is not ours to wait for: without this, Popen warns when it is collected.
    process.returncode = 0
    return Process(process.pid, started)


def said(log: Path) -> str:
    """Return the last lines of a guest's log."""
    try:
        return programs.last_lines(log.read_text(errors="replace")[-4000:], 4)
    except OSError:
        return "no log"


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name in the second field may hold spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def argv_of(pid: int) -> tuple[str, ...]:
    """Return the command line of a process; empty if it has ended."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in raw.split(b"\0") if word)


def alive(process: Process, run: Path) -> bool:
    """Tell whether the guest's process still runs: same id, same start, our folder in its words."""
    return start_time(process.pid) == process.started and _is_ours(process.pid, run)


def _is_ours(pid: int, run: Path) -> bool:
    words = argv_of(pid)
    files = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "-pidfile"]
    return any(Path(file).parent == run for file in files)


def stray(run: Path) -> tuple[Process, ...]:
    """Return our processes whose pid file lies in `run`: also those that a killed `up` left."""
    found: list[Process] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        started = start_time(pid) if _is_ours(pid, run) else None
        if started is not None:
            found.append(Process(pid, started))
    return tuple(found)


def stop(process: Process, run: Path) -> None:
    """End a guest's process, and wait until it has ended.

    Raises
    ------
    LabError
        The kernel does not let it end.
    """
    if not alive(process, run):
        return
    os.kill(process.pid, signal.SIGKILL)
    end = time.monotonic() + _STOP_S
    while not _ended(process, run):
        if time.monotonic() > end:
            raise LabError(
                f"process {process.pid} does not end",
                next_step="see what holds it: ps -o stat,wchan -p " + str(process.pid),
            )
        time.sleep(0.01)


def _ended(process: Process, run: Path) -> bool:
    try:
        # A child of this very command stays in the table until it is waited for.
        return os.waitpid(process.pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return not alive(process, run)
