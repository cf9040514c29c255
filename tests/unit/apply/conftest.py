from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fabricctl import readback, resources
from fabricctl.apply import flow, render
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


world = _load_world()


@pytest.fixture
def fakes() -> ModuleType:
    """What the fake world offers: fabrics, policies, the driver."""
    return world


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Templates of the fake driver in place of those that are shipped."""
    folder = tmp_path / "templates"
    for role in ("nic", "switch"):
        (folder / role / "fake").mkdir(parents=True)
        (folder / role / "fake" / "port.sh.j2").write_text(world.TEMPLATE)
    monkeypatch.setattr(resources, "folder", lambda _name: folder)
    render.environment.cache_clear()
    yield folder
    render.environment.cache_clear()


@pytest.fixture
def make_world(templates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], object]:
    """Return what makes a world with so many nodes."""
    del templates
    monkeypatch.setattr(readback, "driver_of", lambda device: world.FakeDriver(device.role))
    monkeypatch.setattr(flow, "intents", world.intents)

    def make(nodes: int = 2) -> object:
        root = tmp_path / "world"
        root.mkdir()
        return world.World(root, world.fabric(nodes))

    return make


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened
