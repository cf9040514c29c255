"""The lock: one holder, named, and gone with its process."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fabricctl.errors import BusyError, StoreError
from fabricctl.store.lock import hold


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "state" / "store.sqlite"))


def test_a_second_holder_is_refused_and_told_who_holds_it() -> None:
    name = "/etc/fabric/inventory.yml"
    with hold(name, "apply"), pytest.raises(BusyError) as caught, hold(name, "verify"):
        pytest.fail("two holders")
    line = str(caught.value)
    assert line.startswith(f"/etc/fabric/inventory.yml: apply (process {os.getpid()}, since 20")
    assert "try again" in line


def test_it_is_free_after_the_block_and_after_an_error() -> None:
    with pytest.raises(KeyError), hold("a", "apply"):
        raise KeyError
    with hold("a", "verify"):
        pass


def test_two_names_do_not_exclude_each_other() -> None:
    with hold("a/b", "apply"), hold("a-b", "apply"), hold("a_b", "apply"):
        pass


def test_the_file_is_private_and_says_who(tmp_path: Path) -> None:
    with hold("x", "apply"):
        (file,) = (tmp_path / "state" / "locks").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        held = json.loads(file.read_text())
        assert (held["pid"], held["purpose"]) == (os.getpid(), "apply")
    assert file.read_text() == ""


def test_a_holder_between_lock_and_name_is_another_run(tmp_path: Path) -> None:
    with hold("x", "apply"):
        (file,) = (tmp_path / "state" / "locks").iterdir()
        file.write_text("")
        with pytest.raises(BusyError, match="another run is at work on it"), hold("x", "verify"):
            pytest.fail("two holders")


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    program = (
        "from fabricctl.store.lock import hold\n"
        "import time\n"
        "with hold('x', 'apply'):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with pytest.raises(BusyError), hold("x", "verify"):
        pytest.fail("two holders")
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    child.stdout.close()
    with hold("x", "verify"):
        pass
    assert (tmp_path / "state" / "locks").is_dir()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "file" / "store.sqlite"))
    with pytest.raises(StoreError, match="FABRICCTL_STORE"), hold("x", "apply"):
        pytest.fail("held")


@pytest.mark.parametrize(
    ("call", "code", "says"),
    [
        ("open", errno.ENOSPC, "no space is left; make room on its disk, or set FABRICCTL_STORE"),
        ("open", errno.EROFS, "Read-only file system; make its folder writable"),
        ("pwrite", errno.ENOSPC, "no space is left"),
        ("pwrite", errno.EDQUOT, "no space is left"),
        ("ftruncate", errno.EIO, "Input/output error"),
        ("flock", errno.ENOLCK, "No locks available"),
    ],
)
def test_a_lock_that_cannot_be_written_is_a_store_error(
    monkeypatch: pytest.MonkeyPatch, call: str, code: int, says: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl if call == "flock" else os, call, refuse)
    with pytest.raises(StoreError, match=says), hold("x", "apply"):
        pytest.fail("held")
    monkeypatch.undo()
