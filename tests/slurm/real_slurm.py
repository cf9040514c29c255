"""A real Slurm of this machine: munge, a controller and nodes, all on loopback, ended by their ids."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

CONF = """\
ClusterName=fabricctl
SlurmctldHost=localhost
SlurmctldAddr=127.0.0.1
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmdTimeout=300
KillWait=1
MessageTimeout=2
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SchedulerParameters=sched_interval=1,sched_min_interval=100000
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SelectType=select/cons_tres
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


SOON_S = 30.0
"""What takes a second takes this at most on a machine that does other things too."""


def until(what: str, done: Callable[[], object], within_s: float = 60.0) -> None:
    """Wait for something; AssertionError if it is not so in time."""
    end = time.monotonic() + within_s
    while not done():
        if time.monotonic() > end:
            message = f"not within {within_s:g} s: {what}"
            raise AssertionError(message)
        time.sleep(0.05)


def gone(pid: int | str, within_s: float) -> None:
    """Wait until a process is no more."""

    def done() -> bool:
        asked = subprocess.run(
            ("ps", "-o", "stat=", "-p", str(pid)), capture_output=True, text=True, check=False
        )
        # a zombie is none: whoever started it has not looked yet
        return asked.stdout.strip()[:1] in {"", "Z"}

    until(f"process {pid} is gone", done, within_s)


def real(name: str) -> str:
    """Return where a program is; a user's PATH may lack /usr/sbin."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert found, f"{name} is not installed: . scripts/setup dev"
    return found


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class RealSlurm:
    """Slurm with these nodes. Use it as a context manager; `environment` leads its commands to it."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        # a socket's path may have 107 bytes, and munge wants folders above it that others cannot write to
        self.folder = Path(tempfile.mkdtemp(prefix="fabricctl-slurm-", dir="/run" if _is_root() else None))
        self.folder.chmod(0o755)
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._write()
            self._start_munge()
            self._start("slurmctld", "-D", "-i")
            for name in self.names:
                self.start_node(name)
            until(f"all nodes are idle\n{self.logs()}", lambda: set(self.states().values()) == {"idle"})
        except BaseException:
            print(self.logs())  # noqa: T201  pytest shows it
            self.close()
            raise
        return self

    def _write(self) -> None:
        (self.folder / "state").mkdir()
        (self.folder / "key").write_bytes(secrets.token_bytes(128))
        (self.folder / "key").chmod(0o600)
        ports = _free_ports(1 + len(self.names))
        nodes = [
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=1 RealMemory=100"
            for name, port in zip(self.names, ports[1:], strict=True)
        ]
        for name in self.names:
            (self.folder / f"spool-{name}").mkdir()
        text = CONF.format(user=getpass.getuser(), folder=self.folder, ports=ports, nodes="\n".join(nodes))
        (self.folder / "slurm.conf").write_text(text)

    def _start_munge(self) -> None:
        files = {"socket": "munge.socket", "key-file": "key", "pid-file": "munge.pid"}
        files |= {"log-file": "munge.log", "seed-file": "seed"}
        options = [f"--{option}={self.folder / name}" for option, name in files.items()]
        self._start("munged", "--foreground", "--force", "--num-threads=2", *options)
        until("munge listens", (self.folder / "munge.socket").exists)

    def _start(self, *argv: str, name: str = "") -> None:
        name = name or argv[0]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                (real(argv[0]), *argv[1:]),
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_node(self, node: str) -> None:
        """Start a node's slurmd."""
        self._start("slurmd", "-D", "-N", node, name=node)

    def kill_node(self, node: str) -> None:
        """Kill a node's slurmd: Slurm takes the node for idle until it asks it something."""
        self._running[node].kill()
        self._running.pop(node).wait()

    def ask(self, *argv: str) -> str:
        """Run one of Slurm's commands and return what it printed."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout

    def states(self) -> dict[str, str]:
        """Return the nodes' states as sinfo prints them."""
        rows = self.ask("sinfo", "--noheader", "--Node", "--format=%N %T").split("\n")
        return {row.split()[0]: row.split()[1] for row in rows if row.strip()}

    def jobs(self) -> str:
        """Return what squeue prints of all jobs."""
        return self.ask("squeue", "--noheader", "--format=%i %T")

    def mend_node(self, node: str) -> None:
        """Start a killed node's slurmd, and have Slurm forget what it owes the node."""
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=a test")
        self.start_node(node)
        self.ask("scontrol", "update", f"nodename={node}", "state=resume")

    def settle(self) -> None:
        """Wait until nothing runs and all nodes are idle."""
        until("no job is left", lambda: not self.jobs())
        until("all nodes are idle", lambda: set(self.states().values()) == {"idle"})

    def logs(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(
            f"{path.name}:\n{path.read_text(errors='replace')[-1500:]}"
            for path in sorted(self.folder.glob("*.log"))
        )

    def close(self) -> None:
        """End all that was started, in reverse order."""
        for process in reversed(self._running.values()):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _is_root() -> bool:
    return os.geteuid() == 0
