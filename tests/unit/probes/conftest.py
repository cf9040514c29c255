from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def links() -> Any:
    """Return the module with two ends of a link in one process."""
    # Test folders are no packages: the module is loaded by its place.
    spec = importlib.util.spec_from_file_location(
        "fakes_link", Path(__file__).parents[2] / "fakes" / "link.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fakes_link"] = module
    spec.loader.exec_module(module)
    return module
