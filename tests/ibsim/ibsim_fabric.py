"""A simulated InfiniBand fabric: ibsim, with the real opensm and the real infiniband-diags on it.

Every fabric has a folder and a socket name of its own, so that several run side by side. The programs of
infiniband-diags are found in `bin`, in wrappers that attach them to the simulator as if on `VANTAGE`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ibsim_layout import End, Shape, inventory, netfile, plan
from ibsim_opensm import Manager
from ibsim_programs import real, until, wrap

VANTAGE = "node0001"
POLICY = """\
name: ibsim
link_layer: infiniband
mtu: {rdma_bytes: 2048}
limits: {loss: {max_rate: 0, bound_rate: 0.00001, confidence: 0.95}}
"""

_END = re.compile(
    r'(0x[0-9a-f]{16}) ".*?" +\d+ +(\d+)\[.*?\] ==\( *4X +([\d.]+) Gbps Active/ *LinkUp\)==> +'
    r"(0x[0-9a-f]{16}) +\d+ +(\d+)\["
)
"""A port in ``iblinkinfo -l``, if its link is well."""

_CLIENT = re.compile(r"Client (\d+): pid (\d+) connected")


@dataclass(frozen=True)
class Ran:
    """One run of ``fabricctl links --json``: its exit code and what it printed."""

    rc: int
    said: Mapping[str, Any]
    stderr: str

    @property
    def outcome(self) -> str:
        return str(self.said["outcome"])

    @property
    def findings(self) -> list[dict[str, Any]]:
        return list(self.said["findings"])

    @property
    def odd(self) -> list[dict[str, Any]]:
        """What did not pass."""
        return [finding for finding in self.findings if finding["outcome"] != "pass"]

    def of(self, check: str, subject: str = "") -> list[dict[str, Any]]:
        """Return what a check says, of all or of one subject."""
        found = [finding for finding in self.findings if finding["check"] == check]
        return [finding for finding in found if subject in {"", finding["subject"]}]

    def __str__(self) -> str:
        keys = ("check", "outcome", "subject", "what", "next_step")
        lines = [" | ".join(str(finding.get(key, "")) for key in keys) for finding in self.odd]
        return "\n".join([f"exit {self.rc}, {self.outcome}", *lines, self.stderr])


class SimulatedFabric:
    """ibsim with an inventory, wrappers and a subnet manager; `close` stops all of it.

    Parameters
    ----------
    folder
        An empty folder for everything.
    """

    def __init__(self, folder: Path, shape: Shape | None = None) -> None:
        self.folder, self.plan = folder, plan(shape or Shape())
        self.socket = f"fabricctl-{uuid.uuid4().hex[:12]}"
        nodes = [box.name for box in self.plan.boxes.values() if not box.switch]
        self.manager = self.another_manager(nodes[-1])
        self._sim: subprocess.Popen[bytes] | None = None
        self._cut: list[End] = []
        self._degraded: list[End] = []
        for name in ("work", "bin", "hooks"):
            (folder / name).mkdir()
        (folder / "policy.yml").write_text(POLICY)
        self.inventory = folder / "inventory.yml"
        self.inventory.write_text(inventory(self.plan))
        wrap(folder, self.socket, self.plan.boxes[VANTAGE].id)

    def start(self) -> Self:
        """Start the simulator and the subnet manager, and wait until every link is active."""
        (self.folder / "net").write_text(netfile(self.plan))
        (self.folder / "console").unlink(missing_ok=True)
        os.mkfifo(self.folder / "console")
        # Open for both, so that it is never at its end.
        console = os.open(self.folder / "console", os.O_RDWR)
        with (self.folder / "ibsim.log").open("wb") as log:
            self._sim = subprocess.Popen(
                [real("ibsim"), "-s", "net"],
                stdin=console,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, "IBSIM_SOCKNAME": self.socket},
            )
        os.close(console)
        listening = f"@{self.socket}:ctl@"
        until("ibsim listens", lambda: listening in Path("/proc/net/unix").read_text().replace("\n", "@"))
        self.manager.start()
        until("every link active", lambda: not self.wrong(), 30.0)
        return self

    def close(self) -> None:
        """Stop the subnet manager first: it hangs once the simulator is gone."""
        self.manager.stop()
        if self._sim is not None:
            self._sim.kill()
            self._sim.wait()
            self._sim = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def attach(self, node: str) -> dict[str, str]:
        """Return the environment that attaches a program to the simulator on a node."""
        return {"IBSIM_SOCKNAME": self.socket, "SIM_HOST": self.plan.boxes[node].id}

    def another_manager(self, node: str, priority: int = 1) -> Manager:
        """Return a subnet manager on a node; it is not started."""
        return Manager(self.folder / f"opensm-{node}", self.attach(node), priority)

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which the tools, and fabricctl, look at this fabric."""
        store = {"FABRICCTL_STORE": str(self.folder / "store.sqlite")}
        return {**os.environ, **store, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def tool(self, *argv: str) -> str:
        """Run a program of infiniband-diags on the vantage node and return what it prints."""
        done = subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout

    def console(self, *lines: str) -> str:
        """Say something to the simulator, wait until it has done it, and return what it answers."""
        log, mark = self.folder / "ibsim.log", f"#{uuid.uuid4().hex}"
        before = log.stat().st_size
        with (self.folder / "console").open("w") as console:
            console.write("".join(f"{line}\n" for line in (*lines, mark)))

        def said() -> str:
            return log.read_bytes()[before:].decode(errors="replace")

        until(f"ibsim has done {lines}", lambda: mark in said())
        refused = [line for line in said().splitlines() if line.removeprefix("sim> ").startswith("# ")]
        assert not refused, f"ibsim: {refused}"
        return said()

    def unlink(self, name: str, port: int = 1) -> None:
        """Pull a cable, until `relink` or `settle`."""
        self.console(f"Unlink {self.at(name, port)}")
        self._cut.append((name, port))

    def relink(self) -> None:
        """Plug in again what was pulled."""
        while self._cut:
            self.console(f"ReLink {self.at(*self._cut.pop())}")

    @contextlib.contextmanager
    def losing(self, name: str, percent: int, attribute: str = "") -> Iterator[None]:
        """Have a node lose MADs that it receives: all kinds, or those of an attribute's number."""
        self.console(f"Error {self.at(name)} {percent} {attribute}".strip())
        try:
            yield
        finally:
            self.console(f"Error {self.at(name)} 0")

    def after(self, program: str, *lines: str) -> None:
        """Have these lines said to the simulator right after the next run of a program, before it returns."""
        hook = self.folder / "hooks" / program
        (hook.parent / f"{program}.played").unlink(missing_ok=True)
        hook.write_text("".join(f"{line}\n" for line in (*lines, f"#hook-{program}-{uuid.uuid4().hex}")))

    def played(self, program: str) -> bool:
        """Say whether what `after` left was done."""
        return (self.folder / "hooks" / f"{program}.played").exists()

    def at(self, name: str, port: int = 1) -> str:
        """Return a port as the console spells it."""
        return f'"{self.plan.boxes[name].id}"[{port}]'

    def count(self, name: str, port: int, **counters: int) -> list[str]:
        """Return the console lines that set counters of a port."""
        return [
            f"PerformanceSet {self.at(name, port)} PortCounters.{key}={value}"
            for key, value in counters.items()
        ]

    def degrade(self, name: str, port: int, *words: str) -> None:
        """Set a link's width or speed, as ``ibportstate`` does it; `settle` gives it back.

        The switch tells the subnet manager of a setting that is new to it, who sets it back at once: it is
        made again, and then it is not new.
        """
        self._degraded.append((name, port))
        for _ in range(4):
            before = self.manager.told
            self._set_port(name, port, *words)
            self.tool("saquery", "-s")  # it has heard all that was said before it answers
            if self.manager.told == before:
                assert self.wrong(), f"{name}/{port} did not take {words}"
                return
            self.manager.sweep()
        message = f"the subnet manager sets {name}/{port} back each time"
        raise AssertionError(message)

    def _set_port(self, name: str, port: int, *words: str) -> None:
        self.tool("ibportstate", "-G", f"0x{self.plan.boxes[name].guid:016x}", str(port), *words)

    def wrong(self) -> set[tuple[str, ...]]:
        """Return the ends of cables that are not as planned: in place, active, 4X and of their speed."""
        seen = {
            match.groups()
            for line in self.tool("iblinkinfo", "-l").splitlines()
            if (match := _END.match(line))
        }
        ends = {
            (self._guid(a), str(a[1]), self.plan.gbps, self._guid(b), str(b[1]))
            for cable in self.plan.cables
            for a, b in (cable, cable[::-1])
        }
        return ends ^ seen

    def bring_up(self) -> None:
        """Have the subnet manager sweep until every cable's two ends are active, wherever they lead.

        On a busy machine a sweep may be over before the simulator has told it of a port that came up.
        """
        ends = 2 * len(self.plan.cables)
        for _ in range(4):
            self.manager.sweep()
            if sum(bool(_END.match(line)) for line in self.tool("iblinkinfo", "-l").splitlines()) == ends:
                return
        message = "the subnet manager does not bring all ports up"
        raise AssertionError(message)

    def settle(self) -> None:
        """Mend what a test has left, and clear all counters; if that fails, start all anew, and fail."""
        for hook in (self.folder / "hooks").iterdir():
            hook.unlink()
        try:
            self.relink()
            self._forget_dead()
            self.manager.sweep()
            while self._degraded:
                self._set_port(*self._degraded.pop(), "width", "2")
            self.manager.sweep()
            until("every link as planned", lambda: not self.wrong())
            self.tool("ibqueryerrors", "--skip-sl", "--clear-errors", "--clear-counts")
        except BaseException:
            self.close()
            self._cut.clear()
            self._degraded.clear()
            self.start()
            raise

    def _forget_dead(self) -> None:
        """Detach programs that were killed: the simulator finds out later, and then causes a sweep."""
        for number, pid in _CLIENT.findall(self.console("Attached")):
            if not Path("/proc", pid).exists():
                self.console(f"X {number}")

    def links(self, *options: str, interval: float = 1.0) -> Ran:
        """Run ``fabricctl links``."""
        argv = [sys.executable, "-m", "fabricctl", "links", "-i", str(self.inventory), "--json"]
        argv += ["--interval", f"{interval:g}", *options]
        done = subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        try:
            said = json.loads(done.stdout)
        except ValueError:
            message = f"fabricctl links: exit {done.returncode}: {done.stdout[:500]}{done.stderr[-3000:]}"
            raise AssertionError(message) from None
        return Ran(done.returncode, said, done.stderr)

    def _guid(self, end: End) -> str:
        return f"0x{self.plan.boxes[end[0]].port_guid:016x}"
