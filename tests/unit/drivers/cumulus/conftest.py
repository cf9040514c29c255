"""A simulated switch with NVUE: queries and pushes run against a stand-in for ``nv``.

Most of it runs in this process, because a switch's ``nv`` is a program for each question; test_nvue_shell.py
shows that the scripts do the same under a shell.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fabricctl import readback
from fabricctl.drivers.switch.cumulus import channels, run
from fabricctl.model import settings
from fabricctl.model.fabric import LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Watchdog
from fabricctl.model.reading import Entry, Known, Missing, PortReading, Value
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer, PortGoal

SIMULATOR = Path(__file__).resolve().parents[3] / "simulators" / "nvue"
APPLY = "apply-20261130-1"


def _load(name: str, file: str = "") -> Any:
    """Return a module of the simulator, which is no package."""
    if name not in sys.modules:
        path = str(SIMULATOR / (file or f"{name}.py"))
        spec = importlib.util.spec_from_loader(name, importlib.machinery.SourceFileLoader(name, path))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@dataclass
class Done:
    """How a script ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


@dataclass
class Bench:
    """A switch, and what is done to it as readback and a push do it."""

    folder: Path
    sim: Any
    ports: tuple[Port, ...]
    driver: Any = field(default_factory=lambda: finder.switch_driver("cumulus"))

    def shell(self, text: str) -> Done:
        """Run a script as root of the switch would, under dash."""
        env = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin",
            "NVUE_SIM": str(self.folder),
            "NVUE_SIM_CODE": str(SIMULATOR),
            "FABRICCTL_RUN": str(self.folder / "run"),
            "TMPDIR": str(self.folder / "tmp"),
        }
        done = subprocess.run(
            ["dash", "-s"], input=text, capture_output=True, text=True, check=False, env=env, timeout=120
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def ordered(self, text: str) -> Done:
        """Do what a script orders, in this process."""
        order = json.loads(text.partition("/order.json <<'")[2].partition("\n")[2].partition("\nEND_")[0])
        path = self.folder / "order.json"
        path.write_text(json.dumps(order))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run.main(str(path))
        return Done(status, out.getvalue(), err.getvalue())

    def nv(self, *words: str) -> Answer:
        """Give the stand-in a command, in this process."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = _load("nvue_nv", "nv").main(list(words))
        return Answer(status, out.getvalue(), err.getvalue())

    def answers(self) -> dict[str, Answer]:
        """Return what the switch answers to the driver's questions, as far as ``nv`` does."""
        found = {}
        for query in self.driver.queries(self.ports):
            if query.argv[0] == "nv":
                found[query.key] = self.nv(*query.argv[1:])
            elif query.rest:
                said = []
                for path in query.rest:
                    _, _, _, port, *tree = path.split("/")
                    said.append(
                        f"== {path}\n{self.nv('show', 'interface', port, *tree, '-o', 'json').stdout}"
                    )
                found[query.key] = Answer(0, "\n".join(said), "")
        return found

    def answers_of_a_shell(self) -> dict[str, Answer]:
        """Return all answers, as the script that readback sends brings them."""
        queries = self.driver.queries(self.ports)
        done = self.shell(readback.script(queries, "fabricctl-mark"))
        return dict(readback.unframe(queries, "fabricctl-mark", done.stdout, done.stderr))

    def read(self) -> dict[str, PortReading]:
        ports, self.facts = self.driver.parse(self.ports, self.answers())
        return {port.port: reading for port, reading in ports.items()}

    def settings(self, port: str = "swp1") -> Mapping[str, Entry]:
        return self.read()[port].settings

    def known(self, *names: str, port: str = "swp1") -> dict[str, Value]:
        found = self.settings(port)
        return {name: entry.value for name in names if isinstance(entry := found[name], Known)}

    def intent(self, port: str = "swp1", **changes: Any) -> PortIntent:
        values: dict[str, Any] = {
            "port": PortId("leaf1", port),
            "role": Role.SWITCH,
            "link_layer": LinkLayer.ETHERNET,
            "speed_gbps": 100,
            "mtu_bytes": 9216,
            "rdma_mtu_bytes": 4096,
            "trust": "dscp",
            "dscp_priority": tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64)),
            "priority_tc": (0, 0, 0, 3, 0, 0, 6, 0),
            "tc_scheduler": ("ets",) * 6 + ("strict", "ets"),
            "tc_bandwidth_percent": (50, 0, 0, 50, 0, 0, 0, 0),
            "pfc_priorities": (3,),
            "ecn": EcnProfile(150_000, 1_500_000, 100),
            "roce_tos": 106,
            "cable_length_m": 5.0,
            "watchdog": Watchdog(poll_ms=200, detect_ms=400, restore_ms=200),
        }
        return PortIntent(**{**values, **changes})

    def wanted(self, port: str = "swp1", **changes: Any) -> dict[str, Value]:
        return dict(self.driver.wanted(self.intent(port, **changes)))

    def goals(self, wishes: Mapping[str, Mapping[str, Value]]) -> list[PortGoal]:
        """Return what a plan would have a push do: all that differs and can be had."""
        goals = []
        for name, reading in self.read().items():
            found = reading.settings
            able = {
                k: v
                for k, v in wishes.get(name, {}).items()
                if k not in self.driver.unsupported
                and not (isinstance(e := found[k], Missing) and e.impossible)
            }
            names = sorted((k for k, v in able.items() if found[k] != Known(v)), key=settings.safe_rank)
            before = {k: e.value for k, e in found.items() if isinstance(e, Known)}
            if names:
                goals.append(PortGoal(Port(PortId("leaf1", name)), tuple(names), able, before))
        return goals

    def push(
        self,
        wishes: Mapping[str, Mapping[str, Value]],
        slot: int = 1,
        within_s: int = 600,
        apply: str = APPLY,
    ) -> Done:
        return self.ordered(self.driver.method.push(apply, slot, self.goals(wishes), within_s))

    def confirm(self, *slots: int, apply: str = APPLY) -> Done:
        return self.ordered(self.driver.method.confirm(apply, slots))

    def revert(self, apply: str = APPLY) -> Done:
        return self.ordered(self.driver.method.revert(apply, ()))

    def state(self) -> Any:
        with self.sim.open():
            return self.sim.state

    def config(self) -> Any:
        return self.state()["applied"]

    def log(self) -> list[str]:
        """Return the ``nv`` commands since the last call."""
        path = self.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return lines

    def leftovers(self) -> list[str]:
        """Return what lies where a push works."""
        run = [path.name for path in (self.folder / "run").glob("*") if path.name != "lock"]
        return run + [path.name for path in (self.folder / "tmp").iterdir()]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    monkeypatch.setenv("NVUE_SIM", str(tmp_path))
    monkeypatch.setenv("FABRICCTL_RUN", str(tmp_path / "run"))
    monkeypatch.setattr(run, "_LOOK_S", 0.0)
    monkeypatch.setattr(run, "_LOCK_S", 0.2)
    monkeypatch.setattr(run, "_ANSWER_S", 0.1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    _load("engine")

    def spawn(argv: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        said = benches[-1].nv(*argv[1:])
        return subprocess.CompletedProcess(argv, said.rc, said.stdout.encode(), said.stderr.encode())

    benches: list[Bench] = []
    # Only the driver's own: the simulator and the shell tests start real programs.
    stand_in = SimpleNamespace(
        run=spawn, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired
    )
    monkeypatch.setattr(channels, "subprocess", stand_in)

    def made(version: str = "5.9.1", config: Any = None, ports: tuple[str, ...] = ("swp1", "swp2")) -> Bench:
        for name in ("bin", "tmp"):
            (tmp_path / name).mkdir(exist_ok=True)
        shutil.copy(SIMULATOR / "nv", tmp_path / "bin" / "nv")
        sim = _load("engine").Switch(tmp_path)
        sim.create(version, config)
        benches.append(Bench(tmp_path, sim, tuple(Port(PortId("leaf1", name)) for name in ports)))
        return benches[-1]

    return made


@pytest.fixture
def bench(make: Callable[..., Bench]) -> Bench:
    return make()


@pytest.fixture
def simulator() -> Callable[..., Any]:
    return _load
