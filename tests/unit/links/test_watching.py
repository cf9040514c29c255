from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fabricctl import readback
from fabricctl.errors import UnreachableError
from fabricctl.links import watching
from fabricctl.links.watching import Questions, observe
from fabricctl.model.fabric import NETWORK_CLI, Device, Endpoint, Port, Role
from fabricctl.model.names import PortId
from fabricctl.plugin.protocols import Query
from fabricctl.transport.base import Reply
from fabricctl.transport.local import LocalTransport

ID = Query("id", ("id",))


def _local(name: str = "here") -> Device:
    return Device(name, Role.NODE, "", Endpoint("localhost", connection="local"), ())


class _Fake(LocalTransport):
    """Passes scripts on to this machine, and refuses those for "gone"; answers lines of a command line."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, ...]] = []
        self.scripts: list[str] = []

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        if device.name == "gone":
            raise UnreachableError("no route to host", device=device.name)
        self.scripts.append(script)
        return super().run(device, script, deadline_s=deadline_s)

    def converse(self, device: Device, lines: Sequence[str], *, deadline_s: float) -> tuple[Reply, ...]:
        del device, deadline_s
        self.lines.append(tuple(lines))
        return tuple(Reply(0, "{}", "") for _ in lines)


def test_what_counts_is_asked_twice_in_one_round_trip(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("5\n")
    way = _Fake()
    asks = (
        Query("bump", ("sh", "-c", 'echo 7 >"$1"', "sh", str(counter))),
        Query("count", ("cat", str(counter)), counts=True),
    )
    seen = observe([_local()], way, Questions(lambda _: asks), 0.3)["here"]
    assert seen.error == ""
    assert seen.answers["count"].stdout == "5\n"
    assert seen.later["count"].stdout == "7\n"
    assert set(seen.later) == {"count"}
    assert set(seen.answers) == {"bump", "count"}
    assert 0.28 <= seen.interval_s < 3
    assert len(way.scripts) == 1


def test_time_that_questions_take_counts_towards_the_interval() -> None:
    asks = (Query("slow", ("sleep", "0.6")), Query("count", ("echo", "1"), counts=True))
    seen = observe([_local()], _Fake(), Questions(lambda _: asks), 0.7)["here"]
    assert 0.68 <= seen.interval_s < 1.2


def test_without_an_interval_it_is_one_look() -> None:
    seen = observe(
        [_local()], _Fake(), Questions(lambda _: (Query("count", ("echo", "1"), counts=True),)), 0
    )["here"]
    assert seen.interval_s == 0
    assert not seen.later
    assert seen.answers["count"].stdout == "1\n"


def test_a_query_that_two_checks_share_is_asked_once() -> None:
    way = _Fake()
    observe(
        [_local()], way, Questions(lambda _: (Query("who", ("echo", "me")), Query("who", ("echo", "me")))), 0
    )
    assert way.scripts[0].count("echo me") == 1


def test_the_clock_of_this_machine_is_not_ahead_of_itself() -> None:
    clock = observe([_local()], _Fake(), Questions(lambda _: (ID,)), 0.2)["here"].clock
    assert clock is not None
    assert clock.low_s <= 0 <= clock.high_s
    assert clock.high_s - clock.low_s < 1


def test_one_device_that_does_not_answer_hides_none() -> None:
    seen = observe(
        [_local("gone"), _local()], _Fake(), Questions(lambda _: (Query("q", ("echo", "x")),)), 0.1
    )
    assert list(seen) == ["gone", "here"]
    assert seen["gone"].error == "gone: no route to host"
    assert seen["gone"].answers == {}
    assert seen["here"].answers["q"].stdout == "x\n"


def test_a_bug_in_a_check_costs_one_device_only() -> None:
    def asks(device: Device) -> tuple[Query, ...]:
        return ((), (1 // 0,))[device.name == "gone"]  # type: ignore[return-value]

    seen = observe([_local("gone"), _local()], _Fake(), Questions(asks), 0)
    assert "ZeroDivisionError" in seen["here"].error or "ZeroDivisionError" in seen["gone"].error


def test_all_devices_are_watched_at_the_same_time() -> None:
    begun = time.monotonic()
    observe([_local(f"n{i}") for i in range(8)], _Fake(), Questions(lambda _: (ID,)), 0.5)
    assert time.monotonic() - begun < 3


def test_hundreds_of_devices_do_not_wait_for_each_other() -> None:
    many = 200
    together = threading.Barrier(many)

    class Slow(_Fake):
        def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
            del script, deadline_s
            together.wait(20)
            raise UnreachableError("all were asked", device=device.name)

    seen = observe([_local(f"n{i}") for i in range(many)], Slow(), Questions(lambda _: (ID,)), 1)
    assert {one.error.partition(": ")[2] for one in seen.values()} == {"all were asked"}


def test_a_device_without_a_shell_is_asked_again_for_what_counts() -> None:
    way = _Fake()
    port = Port(PortId("leaf1", "Ethernet1"))
    leaf = Device("leaf1", Role.SWITCH, "eos", Endpoint("leaf1", connection=NETWORK_CLI), (port,))
    seen = observe([leaf], way, Questions(lambda _: (Query("never", ("id",)),)), 0.2)["leaf1"]
    assert seen.error == ""
    first, again = way.lines
    assert set(again) < set(first)
    assert "show running-config" in first
    assert "show running-config" not in again
    assert "id" not in first
    assert seen.interval_s >= 0.2
    assert seen.answers == {}
    assert seen.clock is None


def test_a_device_of_which_nobody_wants_to_know_is_not_asked() -> None:
    way = _Fake()
    port = Port(PortId("leaf1", "Ethernet1"))
    leaf = Device("leaf1", Role.SWITCH, "eos", Endpoint("leaf1", connection=NETWORK_CLI), (port,))
    questions = Questions(lambda device: (ID,) if device.name == "n1" else (), readings=False)
    assert list(observe([_local("n1"), _local("n2"), leaf], way, questions, 0)) == ["n1"]
    assert (len(way.scripts), way.lines) == (1, [])


def test_a_device_with_neither_driver_nor_shell_is_told() -> None:
    leaf = Device("leaf1", Role.SWITCH, "", Endpoint("leaf1", connection=NETWORK_CLI), ())
    seen = observe([leaf], _Fake(), Questions(lambda _: ()), 0)["leaf1"]
    assert "neither a driver nor a shell" in seen.error


def test_programs_that_hang_one_after_the_other_do_not_void_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "QUERY_S", 1)
    monkeypatch.setattr(watching, "_ASKING_S", 2)
    hanging = tuple(Query(f"hangs {number}", ("sleep", "30")) for number in range(6))
    asks = (Query("count", ("echo", "1"), counts=True), *hanging)
    began = time.monotonic()
    seen = observe([_local()], _Fake(), Questions(lambda _: asks), 0.1)["here"]
    assert time.monotonic() - began < 20
    assert seen.error == ""
    assert seen.answers["count"].stdout == "1\n"
    assert {seen.answers[query.key].rc for query in hanging} == {124}
    assert seen.later["count"].rc == 124


def test_the_clock_does_not_count_what_was_asked_after_it() -> None:
    slow = Query("slow", ("sleep", "1.5"), counts=True)
    clock = observe([_local()], _Fake(), Questions(lambda _: (slow,)), 0.1)["here"].clock
    assert clock is not None
    assert -1 < clock.low_s <= 0 <= clock.high_s < 1
