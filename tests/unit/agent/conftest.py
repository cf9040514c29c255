"""Both engines without a device: pyverbs and libibverbs are stand-ins, and both ends are in this process."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pytest

from fabricctl.agent import engines, native_library, verbs
from fabricctl.agent.gid import Gid
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import Setup
from fabricctl.agent.sysfs import VerbsPort

ROOT = Path(__file__).parents[3]
FAKES = ROOT / "tests" / "fakes"
GID = Gid(3, "0000:0000:0000:0000:0000:ffff:0a0a:0001", "RoCE v2", "eth1")


def _hook() -> Any:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def hook() -> Any:
    """Return the module that builds the native engine."""
    return _hook()


@pytest.fixture(scope="session")
def loop_library(hook: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the native engine's library, built from the sources as they are now."""
    folder = tmp_path_factory.mktemp("native") / "native_loop"
    shutil.copytree(ROOT / hook.FOLDER, folder, ignore=shutil.ignore_patterns("*.so"))
    assert hook.build(folder, hook.platform.machine()) == ""
    path: Path = folder / native_library.name()
    return path


@pytest.fixture(scope="session")
def fake_verbs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the stand-in for libibverbs."""
    path = tmp_path_factory.mktemp("libibverbs") / "libibverbs-fake.so"
    source = FAKES / "libibverbs" / "verbs.c"
    flags = ("-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
    subprocess.run(["gcc", *flags, "-o", str(path), str(source), "-lpthread"], check=True)
    return path


@pytest.fixture
def native_engine(loop_library: Path, fake_verbs: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the native engine run on the stand-in."""
    library = native_library.Library(str(loop_library), str(fake_verbs))
    monkeypatch.setattr(native_library, "_library", library)
    return engines.NATIVE


@pytest.fixture
def pyverbs_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Let the pyverbs engine run on the stand-in."""
    (tmp_path / "wire").mkdir()
    monkeypatch.setenv("FAKE_FABRIC", str(tmp_path / "wire"))
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setattr(verbs, "_pyverbs", None)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # two busy loops under one lock
    yield engines.PYVERBS
    sys.setswitchinterval(before)
    for name in [n for n in sys.modules if n == "pyverbs" or n.startswith("pyverbs.")]:
        del sys.modules[name]


@pytest.fixture(params=[engines.NATIVE, engines.PYVERBS])
def engine(request: pytest.FixtureRequest) -> str:
    """Return each engine in turn, on its stand-in."""
    name: str = request.getfixturevalue(f"{request.param}_engine")
    return name


@pytest.fixture
def port(tmp_path: Path) -> VerbsPort:
    """Return the stand-in's port."""
    return VerbsPort("fake0", 1, "eth1", tmp_path / "sys")


@pytest.fixture
def guard() -> Guard:
    """Return a guard that allows a minute, without setting this process's alarm."""
    made = Guard(60)
    made.until_ns = perf_counter_ns() + 60_000_000_000
    return made


class Couple:
    """Two connected ends, ``near`` and ``far``."""

    def __init__(self, nic: engines.Nic, setup: Setup) -> None:
        self.near, self.far = nic.endpoint(setup, GID), nic.endpoint(setup, GID)
        addresses = self.near.address(), self.far.address()
        self.near.connect(addresses[1], path_mtu_bytes=1024, traffic_class=106)
        self.far.connect(addresses[0], path_mtu_bytes=1024, traffic_class=106)

    def both(self, near: Callable[[Any], Any], far: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Run the two sides at the same time and return what they returned; raises what they raised."""
        results: dict[str, Any] = {}

        def other() -> None:
            try:
                results["far"] = far(self.far)
            except BaseException as exc:  # noqa: BLE001  raised again below
                results["raised"] = exc

        thread = threading.Thread(target=other)
        thread.start()
        try:
            results["near"] = near(self.near)
        finally:
            thread.join(70)
        if "raised" in results:
            raise results["raised"]
        return results["near"], results["far"]

    def close(self) -> None:
        """Close both ends."""
        self.near.close()
        self.far.close()


@pytest.fixture
def couple(engine: str, port: VerbsPort) -> Iterator[Callable[..., Couple]]:
    """Give a function that makes two connected ends of a Setup."""
    made: list[Couple] = []

    def make(*queue_pairs: str, buffer_bytes: int = 4096, **rest: int) -> Couple:
        setup = Setup(queue_pairs, buffer_bytes, **rest)
        made.append(Couple(engines.open_nic(engine, port), setup))
        return made[-1]

    yield make
    for one in made:
        one.close()
