from __future__ import annotations

import contextlib
import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from fabricctl import readback, resources
from fabricctl.apply import flow, render
from fabricctl.model.fabric import Role
from fabricctl.plugin import finder
from fabricctl.store import Store


def _load_world() -> ModuleType:
    # Test folders are no packages: the module beside this file is loaded by its place.
    spec = importlib.util.spec_from_file_location("apply_world", Path(__file__).with_name("world.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["apply_world"] = module
    spec.loader.exec_module(module)
    return module


fake_world = _load_world()


@pytest.fixture
def fakes() -> ModuleType:
    """What the fake world offers: fabrics, policies, the driver."""
    return fake_world


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Templates of the fake driver in place of those that are shipped."""
    folder = tmp_path / "templates"
    for role in ("nic", "switch"):
        (folder / role / "fake").mkdir(parents=True)
        (folder / role / "fake" / "port.sh.j2").write_text(fake_world.TEMPLATE)
    monkeypatch.setattr(resources, "folder", lambda _name: folder)
    render.environment.cache_clear()
    yield folder
    render.environment.cache_clear()


@pytest.fixture
def make_world(templates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], object]:
    """Return what makes a world with so many nodes."""
    del templates
    monkeypatch.setattr(readback, "driver_of", lambda device: fake_world.FakeDriver(device.role))
    monkeypatch.setattr(finder, "nic_driver", lambda _: fake_world.FakeDriver(Role.NODE))
    monkeypatch.setattr(finder, "switch_driver", lambda _: fake_world.FakeDriver(Role.SWITCH))
    monkeypatch.setattr(flow, "intents", fake_world.intents)

    def make(nodes: int = 2) -> object:
        root = tmp_path / "world"
        root.mkdir()
        return fake_world.World(root, fake_world.fabric(nodes))

    return make


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


@pytest.fixture
def world(make_world: Callable[..., Any], fakes: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a world that the commands meet in place of the inventory's."""
    made = make_world()
    made.fabric = replace(made.fabric, simulated="a test")

    @contextlib.contextmanager
    def connected(_fabric: object, report: Callable[[str], None]) -> Iterator[Any]:
        yield replace(made.tools(), report=report)

    for name in ("plan", "apply", "drift", "rollback", "confirm"):
        module = importlib.import_module(f"fabricctl.cli.{name}")
        monkeypatch.setattr(module, "load", lambda *_: (made.fabric, fakes.policy()))
    monkeypatch.setattr("fabricctl.apply.tools.connected", connected)
    monkeypatch.setenv("FABRICCTL_INVENTORY", "/dev/null")
    return made


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Have SIGINT come as an interrupt, also where the tests' own runner has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def call(world: Any) -> Callable[..., Result]:
    del world

    def run(name: str, *arguments: str) -> Result:
        command: click.Command = importlib.import_module(f"fabricctl.cli.{name}").command
        return CliRunner().invoke(command, arguments)

    return run
