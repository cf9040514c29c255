"""The wheel carries what the tool needs: it is installed elsewhere and used."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*argv: str | Path, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=300, env=env)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (found,) = out.glob("fabricctl-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of an environment that has the wheel, and the dependencies of this one."""
    home = tmp_path_factory.mktemp("elsewhere")
    venv.create(home, with_pip=False)
    site = next((home / "lib").glob("python3*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    ours = Path(next(p for p in sys.path if p.endswith("site-packages")))
    (site / "dependencies.pth").write_text(f"{ours}\n", encoding="utf-8")
    (home / "bin" / "ansible-inventory").symlink_to(Path(sys.executable).parent / "ansible-inventory")
    return home / "bin"


def test_the_wheel_holds_playbooks_templates_and_inventories(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for kind in ("playbooks", "templates", "inventories"):
        shipped = {str(p.relative_to(ROOT)) for p in (ROOT / kind).rglob("*") if p.is_file()}
        assert shipped, kind
        assert {f"fabricctl/_shared/{name}" for name in shipped} <= names
    assert "fabricctl/lab/guest/dcbsim.c" in names


def test_the_wheel_holds_the_native_engine_and_is_for_every_machine(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        f"fabricctl/agent/native_loop/{n}" for n in ("loop.h", "setup.c", "post.c", "loops.c", "streams.c")
    }
    assert sources <= names
    assert f"fabricctl/agent/native_loop/loop-{platform.machine()}.so" in names


def test_the_source_archive_holds_what_builds_the_native_engine(tmp_path: Path) -> None:
    done = run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    listed = run("tar", "-tzf", next(tmp_path.glob("fabricctl-*.tar.gz")), cwd=tmp_path).stdout
    names = {name.partition("/")[2] for name in listed.splitlines()}
    assert {"hatch_build.py", "fabricctl/agent/native_loop/setup.c"} <= names
    assert not [name for name in names if name.endswith(".so")]


def test_the_installed_wheel_checks_the_shipped_example(installed: Path, tmp_path: Path) -> None:
    shared = next(installed.parent.glob("lib/python3*/site-packages/fabricctl/_shared/inventories"))
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = run(
        installed / "python", "-m", "fabricctl", "check", shared / "roce-pod.yml", cwd=tmp_path, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    where = run(installed / "python", "-c", "import fabricctl; print(fabricctl.__file__)", cwd=tmp_path)
    assert where.stdout.startswith(str(installed.parent))
