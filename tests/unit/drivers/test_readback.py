from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl import readback
from fabricctl.errors import UnreachableError, UsageError, WireError
from fabricctl.model.fabric import Device, Endpoint, Fabric, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.reading import DeviceReading
from fabricctl.plugin.protocols import Answer, Query
from fabricctl.transport import shell
from fabricctl.transport.base import Process, Reply

_MARK = "fabricctl-0123456789abcdef"


def _ask(*queries: tuple[str, ...]) -> dict[str, Answer]:
    """Run the frame in a real shell, as a device would."""
    asked = [Query(f"q{number}", argv) for number, argv in enumerate(queries)]
    script = readback.script(asked, _MARK)
    done = subprocess.run(["/bin/sh", "-s"], input=shell.whole(script), capture_output=True, check=False)
    return dict(readback.unframe(asked, _MARK, shell.text(done.stdout), shell.text(done.stderr)))


def test_answers_are_kept_apart_with_their_status() -> None:
    assert _ask(("echo", "a"), ("sh", "-c", "printf b; printf c >&2; exit 3"), ("true",)) == {
        "q0": Answer(0, "a\n", ""),
        "q1": Answer(3, "b", "c"),
        "q2": Answer(0, "", ""),
    }


def test_words_of_a_query_stay_words() -> None:
    argv = ("printf", "%s|", "a b", "$HOME", "`id`", "it's", "*", "\n", "", "; exit 1")
    assert _ask(argv)["q0"].stdout == "a b|$HOME|`id`|it's|*|\n||; exit 1|"


def test_a_query_cannot_read_the_questions_that_follow() -> None:
    assert _ask(("cat",), ("echo", "b"))["q1"].stdout == "b\n"


def test_junk_and_look_alikes_do_no_harm() -> None:
    answers = _ask(
        ("printf", "\\n%s", "fabricctl-0000 1 rc=0"), ("head", "-c", "200000", "/dev/urandom"), ("echo", "z")
    )
    assert answers["q0"].stdout == "\nfabricctl-0000 1 rc=0"
    assert len(answers["q1"].stdout) > 100_000
    assert answers["q2"] == Answer(0, "z\n", "")


def test_a_large_answer_arrives_whole() -> None:
    assert len(_ask(("sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x"))["q0"].stdout) == 5_000_000


def test_a_program_that_is_not_there_is_an_answer() -> None:
    answer = _ask(("no-such-program",))["q0"]
    assert answer.rc == 127
    assert "no-such-program" in answer.stderr


def test_a_hanging_query_costs_its_own_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "QUERY_S", 1)
    started = time.monotonic()
    answers = _ask(("sleep", "60"), ("echo", "on"))
    assert answers["q0"].rc == 124
    assert answers["q1"].stdout == "on\n"
    assert time.monotonic() - started < 10


def test_the_frame_works_without_the_timeout_program(tmp_path: Path) -> None:
    for name in ("mktemp", "cat", "rm", "echo"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    query = [Query("q", ("echo", "here"))]
    script = re.sub(r"^PATH=.*$", f"PATH={tmp_path}", readback.script(query, _MARK), flags=re.MULTILINE)
    done = subprocess.run(["/bin/sh", "-s"], input=shell.whole(script), capture_output=True, check=False)
    assert readback.unframe(query, _MARK, done.stdout.decode())["q"] == Answer(0, "here\n", "")


@given(st.text(), st.text())
def test_unframing_never_raises_anything_but_ours(stdout: str, stderr: str) -> None:
    with pytest.raises(WireError):
        readback.unframe([Query("q", ("true",))], _MARK, stdout, stderr)


def test_a_reply_that_breaks_off_is_no_reading() -> None:
    query = [Query("q", ("true",))]
    with pytest.raises(WireError, match="did not answer all questions"):
        readback.unframe(query, _MARK, f"\n{_MARK} 0 out\nhalf")


class _Fake:
    """Answers every device by its name."""

    def __init__(self) -> None:
        self.together = threading.Barrier(2, timeout=10)

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        assert deadline_s == 7
        if device.name == "dead":
            raise UnreachableError("no connection", device="dead")
        if device.name == "broken":
            message = "a bug"
            raise RuntimeError(message)
        self.together.wait()
        done = subprocess.run(
            ["/bin/sh", "-s"], input=shell.whole(script), capture_output=True, text=False, check=False
        )
        return Reply(done.returncode, shell.text(done.stdout), shell.text(done.stderr))

    def put(self, device: Device, path: str, content: bytes, *, mode: int, deadline_s: float) -> None:
        raise NotImplementedError

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> Process:
        raise NotImplementedError

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def _device(name: str, *, driver: str = "rxe", port: str = "lo") -> Device:
    ports = (Port(PortId(name, port), rdma="rxe0"),)
    return Device(name, Role.NODE, driver, Endpoint(host=name), ports)


def test_devices_are_read_at_the_same_time_and_a_bad_one_hides_none() -> None:
    names = ("dead", "one", "broken", "two", "odd", "alien")
    devices = [_device(name) for name in names[:4]]
    devices += [_device("odd", port="-x/../y"), _device("alien", driver="none")]
    seen: list[DeviceReading] = []
    readings = readback.read(Fabric(tuple(devices), ()), devices, _Fake(), deadline_s=7, report=seen.append)
    assert tuple(readings) == names
    assert {reading.device for reading in seen} == set(names)
    assert readings["dead"].error == "dead: no connection"
    assert readings["dead"].ports == {}
    assert "a bug" in readings["broken"].error
    assert "Traceback" in readings["broken"].evidence
    assert "not the name of a network interface" in readings["odd"].error
    assert "no NIC driver called 'none'" in readings["alien"].error
    for name in ("one", "two"):
        assert readings[name].error == ""
        assert list(readings[name].ports) == [PortId(name, "lo")]
        assert readings[name].evidence


def test_an_interrupt_drops_what_has_not_begun() -> None:
    devices = [_device(f"n{number}") for number in range(500)]
    begun: list[str] = []
    go = threading.Event()

    class Slow(_Fake):
        def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
            del script
            begun.append(device.name)
            if device.name != "n0":
                assert go.wait(20)
            return super().run(devices[0], "exit 1", deadline_s=deadline_s)

    def interrupted(_reading: DeviceReading) -> None:
        raise KeyboardInterrupt

    slow = Slow()
    slow.together = threading.Barrier(1)
    with pytest.raises(KeyboardInterrupt):
        readback.read(Fabric(tuple(devices), ()), devices, slow, deadline_s=7, report=interrupted)
    go.set()
    assert len(begun) <= 66  # the threads, and what the first of them may have taken up since


def test_no_devices_is_no_reading() -> None:
    assert readback.read(Fabric((), ()), [], _Fake()) == {}


def test_a_driver_is_found_by_role_and_name() -> None:
    assert readback.driver_of(_device("one")).name == "rxe"
    switch = Device("leaf1", Role.SWITCH, "linux", Endpoint(host="x"), ())
    assert readback.driver_of(switch).name == "linux"
    with pytest.raises(UsageError, match="did you mean linux"):
        readback.driver_of(Device("leaf1", Role.SWITCH, "linus", Endpoint(host="x"), ()))


def test_a_query_may_have_a_limit_of_its_own() -> None:
    asked = [Query("slow", ("sleep", "60"), limit_s=1), Query("usual", ("echo", "on"))]
    done = subprocess.run(
        ["/bin/sh", "-s"], input=shell.whole(readback.script(asked, _MARK)), capture_output=True, check=False
    )
    answers = readback.unframe(asked, _MARK, shell.text(done.stdout), shell.text(done.stderr))
    assert answers["slow"].rc == 124
    assert answers["usual"] == Answer(0, "on\n", "")
