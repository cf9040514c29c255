"""The script that starts an agent: where it is kept, and in whose folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fabricctl.verify.agents import START


def _run(tmp_path: Path, python: str = sys.executable, root: str = "run") -> dict[str, Any]:
    argv = (
        "/bin/sh",
        "-c",
        START,
        "agent",
        "agent-1.pyz",
        python,
        "60",
        "auto",
        str(tmp_path / root),
        str(tmp_path / root),
    )
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    reply: dict[str, Any] = json.loads(done.stdout)
    return reply


def _base(tmp_path: Path) -> Path:
    name = "fabricctl" if os.getuid() == 0 else f"fabricctl-{os.getuid()}"
    return tmp_path / "run" / name


@pytest.fixture(autouse=True)
def _root(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()


def test_missing_agent_is_asked_for_in_a_private_folder(tmp_path: Path) -> None:
    assert _run(tmp_path) == {"id": 0, "put": str(_base(tmp_path) / "agent-1.pyz")}
    assert _base(tmp_path).stat().st_mode & 0o777 == 0o700


def test_agent_that_is_there_is_started(tmp_path: Path) -> None:
    _run(tmp_path)
    (_base(tmp_path) / "agent-1.pyz").write_text(
        'import sys; print(\'{"arguments": "%s"}\' % sys.argv[1:])\n'
    )
    assert _run(tmp_path) == {"arguments": "['--idle-s', '60', '--engine', 'auto']"}


def test_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    _base(tmp_path).mkdir()
    _base(tmp_path).chmod(0o755)
    assert "is not a folder of this user alone" in _run(tmp_path)["error"]["text"]


def test_symbolic_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    _base(tmp_path).symlink_to(tmp_path / "elsewhere")
    assert "is not a folder of this user alone" in _run(tmp_path)["error"]["text"]


def test_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    assert "is not a folder of this user alone" in _run(tmp_path, root="none")["error"]["text"]


def test_node_without_python_says_what_to_install(tmp_path: Path) -> None:
    error = _run(tmp_path, python="/usr/bin/python9")["error"]
    assert error["kind"] == "setup"
    assert error["text"].startswith("no /usr/bin/python9: apt-get install python3-pyverbs")
