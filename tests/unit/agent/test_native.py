"""What only the native engine has: its library, where that comes from, the NIC's clock, nothing left open."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pytest

from fabricctl.agent import engines, native, native_library
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, READ, UC, WRITE, Setup
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.wire import Refusal
from fabricctl.verify import bundle

Make = Callable[..., Any]


@pytest.fixture
def engine(native_engine: str) -> str:
    """Return the native engine alone."""
    return native_engine


def _open_things(fake_verbs: Path) -> int:
    return ctypes.c_int.in_dll(ctypes.CDLL(str(fake_verbs)), "fake_open").value


def test_library_asks_the_linker_for_nothing(loop_library: Path) -> None:
    said = subprocess.run(["readelf", "-d", loop_library], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in said
    said = subprocess.run(["nm", "-D", "-u", loop_library], capture_output=True, text=True, check=True).stdout
    assert said == ""


def test_nothing_stays_open(native_engine: str, fake_verbs: Path, port: VerbsPort, monkeypatch: Any) -> None:
    nic = engines.open_nic(native_engine, port)
    before = _open_things(fake_verbs)
    nic.try_memory(4096)
    nic.endpoint(Setup((RC, UC, RC), 4096, depth=4, receives=2), None).close()
    monkeypatch.setenv("FAKE_MEMLOCK", "100")
    for setup in (Setup((RC,), 4096), Setup(("UD",), 8)):
        with pytest.raises(Refusal):
            nic.endpoint(setup, None)
    monkeypatch.delenv("FAKE_MEMLOCK")
    monkeypatch.setenv("FAKE_INLINE", "-1")  # no queue pair at all
    with pytest.raises(Refusal, match="queue pairs cannot be made: Invalid argument") as caught:
        nic.endpoint(Setup((RC,), 4096), None)
    assert caught.value.kind == "setup"
    assert _open_things(fake_verbs) == before


def test_device_that_cannot_be_opened_leaves_nothing_open(
    native_engine: str, fake_verbs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _open_things(fake_verbs)
    for device, why in (("broken0", "Input/output error"), ("none0", "No such device")):
        with pytest.raises(Refusal, match=f"{device} cannot be opened: {why}"):
            engines.open_nic(native_engine, VerbsPort(device, 1, "eth1", tmp_path))
    monkeypatch.setenv("FAKE_NO_KERNEL", "1")
    with pytest.raises(Refusal, match="fake0 cannot be opened: Function not implemented"):
        engines.open_nic(native_engine, VerbsPort("fake0", 1, "eth1", tmp_path))
    assert _open_things(fake_verbs) == before


def test_device_of_an_old_library_is_queried_all_the_same(
    native_engine: str, port: VerbsPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OLD", "1")
    assert engines.open_nic(native_engine, port).state() == {"lid": 7, "mtu_bytes": 4096}


def test_port_that_does_not_exist_is_refused(native_engine: str, tmp_path: Path) -> None:
    nic = engines.open_nic(native_engine, VerbsPort("fake0", 2, "eth1", tmp_path))
    with pytest.raises(Refusal, match="port 2 of fake0 cannot be queried: Invalid argument"):
        nic.state()


def test_completion_stamps_are_kept_where_the_nic_has_a_clock(
    couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CLOCK", "1000000")  # kHz: ticks are nanoseconds
    near = couple(RC, UC).near
    assert near.hardware_clock
    began = perf_counter_ns()
    assert len(near.round_trips(READ, 8, 50, guard)) == 50
    took = perf_counter_ns() - began
    assert near.hardware_ns is not None
    assert len(near.hardware_ns) == 49
    assert min(near.hardware_ns) > 0
    assert sum(near.hardware_ns) < took
    assert near.stream(WRITE, (8,), guard, count=30).messages == 30
    monkeypatch.setenv("FAKE_CLOCK", "500000")  # each tick is two nanoseconds
    near = couple(RC).near
    near.round_trips(READ, 8, 50, guard)
    assert all(step % 2 == 0 for step in near.hardware_ns or ())


def test_no_clock_is_no_times(couple: Make, guard: Guard) -> None:
    near = couple(RC).near
    near.round_trips(READ, 8, 5, guard)
    assert not near.hardware_clock
    assert near.hardware_ns is None


def test_failed_request_fails_with_stamps_too(
    couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CLOCK", "1000000")
    monkeypatch.setenv("FAKE_STATUS", "12@2")
    with pytest.raises(Refusal, match="status 12"):
        couple(RC).near.round_trips(READ, 8, 5, guard)


def test_other_threads_run_during_a_loop(couple: Make, guard: Guard) -> None:
    near = couple(RC).near
    guard.until_ns = perf_counter_ns() + 400_000_000
    turns = 0

    def wait() -> None:
        with pytest.raises(Refusal):
            near.word_in(1, guard)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while waiting.is_alive():
        turns += 1
        time.sleep(0.01)
    assert turns > 10


def test_request_that_the_nic_does_not_take_is_said(couple: Make, guard: Guard) -> None:
    ends = couple(RC)
    other = engines.open_nic("native", ends.near._nic.port).endpoint(Setup((RC,), 64), None)  # noqa: SLF001
    with pytest.raises(Refusal, match="the NIC refused a request: Invalid argument") as caught:
        other.round_trips(READ, 8, 1, guard)  # it was never connected
    assert caught.value.kind == "peer"
    other.close()


# Where the library comes from


def test_without_libibverbs_it_says_what_to_install(loop_library: Path) -> None:
    with pytest.raises(Refusal, match="apt-get install libibverbs1 ibverbs-providers") as caught:
        native_library.Library(str(loop_library), "libno-such-verbs.so.1")
    assert caught.value.kind == "setup"


def test_library_that_is_no_libibverbs_is_refused(loop_library: Path) -> None:
    with pytest.raises(Refusal, match=r"libm\.so\.6 lacks what the native engine calls"):
        native_library.Library(str(loop_library), "libm.so.6")


def test_library_of_another_version_is_refused(
    loop_library: Path, fake_verbs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_library, "VERSION", 2)
    with pytest.raises(Refusal, match="is of another version of fabricctl"):
        native_library.Library(str(loop_library), str(fake_verbs))


def test_structure_of_another_size_is_refused(
    loop_library: Path, fake_verbs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_library, "STRUCTURES", native_library.STRUCTURES[::-1])
    with pytest.raises(Refusal, match="is of another version of fabricctl"):
        native_library.Library(str(loop_library), str(fake_verbs))


def test_library_that_was_not_built_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_library, "_library", None)
    monkeypatch.setattr(native_library.platform, "machine", lambda: "pdp11")
    assert native_library.name() == "loop-pdp11.so"
    loaded, why_not = engines.found("native")
    said = why_not["native"]
    assert said.startswith("the native engine is not built for pdp11; install a C compiler")
    assert "apt-get install gcc libc6-dev libibverbs-dev" in said
    assert loaded == {}


PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[1])
from fabricctl.agent import native_library
if sys.argv[3] == "not run from memory":
    native_library._is_loadable = lambda path: False
if sys.argv[3] == "no memory":
    del os.memfd_create
native_library.VERBS = sys.argv[2]
assert sys.argv[1] in native_library.__file__
print(native_library.load().table.open_device is not None, len(os.listdir(os.path.dirname(sys.argv[1]))))
"""


def _archive(folder: Path, loop_library: Path) -> Path:
    """Return the agent's archive with the library that was built for this test."""
    path = folder / "agent.pyz"
    path.write_bytes(bundle.build().content)
    inside = f"fabricctl/agent/native_loop/{native_library.name()}"
    with zipfile.ZipFile(path) as old:
        content = {name: old.read(name) for name in old.namelist() if name != inside}
    with zipfile.ZipFile(path, "w") as new:
        for name, data in content.items():
            new.writestr(name, data)
        new.write(loop_library, inside)
    return path


@pytest.mark.parametrize("how", ["memory", "not run from memory", "no memory"])
def test_archive_loads_its_library_and_leaves_nothing_behind(
    tmp_path: Path, loop_library: Path, fake_verbs: Path, how: str
) -> None:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    path = _archive(folder, loop_library)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, path, fake_verbs, how],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("True 1\n", "")


def test_library_is_not_loaded_from_where_others_can_write(
    tmp_path: Path, loop_library: Path, fake_verbs: Path
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    path = _archive(folder, loop_library)
    folder.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, path, fake_verbs, "no memory"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"the native engine is not loaded from {folder}: others can write there" in done.stderr
    assert [p.name for p in folder.iterdir()] == ["agent.pyz"]


def test_archive_without_the_library_says_so(tmp_path: Path, fake_verbs: Path, loop_library: Path) -> None:
    path = _archive(tmp_path, loop_library)
    with zipfile.ZipFile(path) as old:
        content = {n: old.read(n) for n in old.namelist() if not n.endswith(".so")}
    with zipfile.ZipFile(path, "w") as new:
        for name, data in content.items():
            new.writestr(name, data)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, path, fake_verbs, "memory"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "the native engine is not built for" in done.stderr


def test_version_is_the_librarys() -> None:
    assert native.version() == "1"


# How it is built


def test_bundle_holds_every_library_that_was_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = bundle.PACKAGE
    for part in ("agent", "model", "probes"):
        (tmp_path / part).symlink_to(real / part)
    (tmp_path / "agent").unlink()
    (tmp_path / "agent" / "native_loop").mkdir(parents=True)
    for machine in ("x86_64", "aarch64"):
        (tmp_path / "agent" / "native_loop" / f"loop-{machine}.so").write_bytes(machine.encode())
    (tmp_path / "agent" / "native_loop" / "setup.c").write_text("int main;")
    monkeypatch.setattr(bundle, "PACKAGE", tmp_path)
    names = [name for name, _ in bundle._entries()]  # noqa: SLF001  what goes in is the point
    assert sorted(n for n in names if "native_loop" in n) == [
        "fabricctl/agent/native_loop/loop-aarch64.so",
        "fabricctl/agent/native_loop/loop-x86_64.so",
    ]


def test_build_without_a_compiler_says_what_to_install(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    said = hook.build(tmp_path, hook.platform.machine())
    assert said == "no C compiler (apt-get install gcc libc6-dev libibverbs-dev)"
    assert list(tmp_path.iterdir()) == []


def test_build_that_fails_says_what_the_compiler_said_and_keeps_the_old_library(
    hook: Any, tmp_path: Path
) -> None:
    (tmp_path / "odd.c").write_text("#include <infiniband/no_such_header.h>\n")
    old = tmp_path / f"loop-{hook.platform.machine()}.so"
    old.write_bytes(b"old")
    assert "no_such_header.h" in hook.build(tmp_path, hook.platform.machine())
    assert old.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == [old.name, "odd.c"]


def test_build_uses_the_compiler_that_is_asked_for(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "env FABRICCTL_ODD=1 gcc")
    assert hook.compiler(hook.platform.machine()) == ["env", "FABRICCTL_ODD=1", "gcc"]
    (tmp_path / "one.c").write_text("int one(void);\nint one(void)\n{\n    return 1;\n}\n")
    assert hook.build(tmp_path, hook.platform.machine()) == ""
    assert (tmp_path / f"loop-{hook.platform.machine()}.so").is_file()


def test_build_is_the_same_every_time(hook: Any, loop_library: Path) -> None:
    first = loop_library.read_bytes()
    assert hook.build(loop_library.parent, hook.platform.machine()) == ""
    assert loop_library.read_bytes() == first


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EINVAL, errno.EIO, errno.EPERM])
def test_a_request_that_the_nic_does_not_take_is_no_matter_of_locked_memory(
    guard: Guard, number: int
) -> None:
    with pytest.raises(Refusal) as caught:
        native_library.ended(native_library.SYSTEM - number, guard, "a word")
    assert (caught.value.kind, caught.value.text) == (
        "peer",
        f"the NIC refused a request: {os.strerror(number)}",
    )
    native_library.ended(0, guard, "a word")
