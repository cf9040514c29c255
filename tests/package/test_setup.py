"""``scripts/setup``, sourced by people and by the other scripts: what fails is said and tried again."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

NATIVE = Path("fabricctl") / "agent" / "native_loop"
LIBRARY = f"loop-{platform.machine()}.so"
PIP = """#!/bin/sh
echo "pip $*" >>"$FAKE_LOG"
case "$*" in *"$FAKE_FAILS"*) [ -z "$FAKE_FAILS" ] || { echo "ERROR: no such package" >&2; exit 1; };; esac
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the script reads, in a folder with a blank, and an environment whose pip is a fake."""
    root = tmp_path / "a clone"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup", root / "scripts" / "setup")
    shutil.copy(ROOT / "pyproject.toml", root / "pyproject.toml")
    shutil.copytree(ROOT / "requirements", root / "requirements")
    shutil.copy(ROOT / "hatch_build.py", root / "hatch_build.py")
    shutil.copytree(ROOT / NATIVE, root / NATIVE, ignore=shutil.ignore_patterns("*.so"))
    (root / NATIVE / LIBRARY).write_bytes(b"built")
    program(root / ".venv" / "bin" / "pip", PIP)
    # Nothing of the system is installed, whatever is missing on this machine.
    program(tmp_path / "fakes" / "apt-get", "#!/bin/sh\nexit 1\n")
    program(tmp_path / "fakes" / "ssh-keygen", "#!/bin/sh\n")
    program(tmp_path / "fakes" / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    return root


def source(
    checkout: Path, words: str = "run", *, fails: str = "", before: str = ""
) -> subprocess.CompletedProcess[str]:
    """Source the script from another folder in a shell without ``set -e``, and say what it returned."""
    fakes = checkout.parent / "fakes"
    shell = f'{before}. "{checkout}/scripts/setup" {words}; echo "returned $?"; echo "path $PATH"'
    env = {name: value for name, value in os.environ.items() if name not in {"FABRICCTL_VENV", "BASH_ENV"}}
    env |= {"PATH": f"{fakes}:{env['PATH']}", "FAKE_FAILS": fails, "FAKE_LOG": str(fakes / "log")}
    return subprocess.run(
        ["bash", "-c", shell],
        cwd=fakes,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=env,
    )


def test_it_installs_from_its_own_folder_wherever_it_is_called(checkout: Path) -> None:
    done = source(checkout)
    log = (checkout.parent / "fakes" / "log").read_text().splitlines()
    assert "returned 0" in done.stdout.splitlines()
    assert f"path {checkout}/.venv/bin:" in done.stdout
    assert log[0].endswith(f"--require-hashes -r {checkout}/requirements/runtime.txt")
    assert log[1].endswith(f"-e {checkout}")
    assert (checkout / ".venv" / ".fabricctl-run").is_file()
    source(checkout)
    assert (checkout.parent / "fakes" / "log").read_text().splitlines() == log  # nothing left to do


def test_the_native_engine_is_built_again_when_it_is_gone_or_its_source_changed(checkout: Path) -> None:
    source(checkout)
    log = checkout.parent / "fakes" / "log"
    before = log.read_text().splitlines()
    (checkout / NATIVE / "loops.c").write_text("/* changed */")
    assert "returned 0" in source(checkout).stdout
    assert log.read_text().splitlines() == before * 2
    (checkout / NATIVE / LIBRARY).unlink()
    assert "returned 0" in source(checkout).stdout
    assert log.read_text().splitlines() == before * 3


@pytest.mark.parametrize("before", ["", "set -e; ", "set -euo pipefail; "])
@pytest.mark.parametrize(
    ("fails", "says"),
    [("--require-hashes", "the packages of"), ("-e ", "fabricctl itself")],
)
def test_an_installation_that_failed_is_not_stamped_as_done(
    checkout: Path, fails: str, says: str, before: str
) -> None:
    done = source(checkout, fails=fails, before=before)
    assert "returned 0" not in done.stdout
    assert ("returned 2" in done.stdout) is (not before)
    assert done.stderr.splitlines()[-1].startswith(f"setup: pip could not install {says}")
    assert not (checkout / ".venv" / ".fabricctl-run").exists()
    assert "returned 0" in source(checkout).stdout
    assert (checkout / ".venv" / ".fabricctl-run").is_file()


def test_an_environment_that_cannot_be_made_is_said(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    (checkout / ".venv").write_text("")
    done = source(checkout)
    assert "returned 2" in done.stdout
    assert done.stderr.splitlines()[-1] == f"setup: python3 -m venv could not make {checkout}/.venv"


def test_a_file_that_is_missing_is_said(checkout: Path) -> None:
    (checkout / "requirements" / "runtime.txt").unlink()
    done = source(checkout)
    assert "returned 2" in done.stdout
    assert done.stderr.splitlines()[-1].endswith("cannot be read")


@pytest.mark.parametrize("words", ["", "rnu"])
def test_an_unknown_purpose_is_said(checkout: Path, words: str) -> None:
    done = source(checkout, words)
    assert "returned 2" in done.stdout
    assert done.stderr.startswith("setup: say what for: . scripts/setup run")
    assert stat.S_ISDIR((checkout / ".venv").stat().st_mode)
