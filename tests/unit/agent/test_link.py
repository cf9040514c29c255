"""The link's contract, which both engines keep: the same tests on both."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pytest

from fabricctl.agent import connection, engines
from fabricctl.agent.gid import Gid
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, READ, SEND, UC, WRITE, Flow, Setup
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.wire import Refusal

NEVER = str(1 << 60)
Make = Callable[..., Any]


def _fill(memory: memoryview, seed: int) -> bytes:
    content = bytes((seed + 7 * i) & 0xFF for i in range(len(memory)))
    memory[:] = content
    return content


def _refusal(function: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(Refusal) as caught:
        function()
    return caught.value.kind, caught.value.text


# One operation at a time


def test_read_brings_the_peers_bytes_here_and_changes_nothing_there(couple: Make, guard: Guard) -> None:
    ends = couple(RC)
    near, far = _fill(ends.near.buffer, 1), _fill(ends.far.buffer, 99)
    took = ends.near.round_trips(READ, 1000, 20, guard)
    assert len(took) == 20
    assert min(took) > 0
    assert bytes(ends.near.buffer) == far[:1000] + near[1000:]
    assert bytes(ends.far.buffer) == far


def test_write_brings_the_bytes_there(couple: Make, guard: Guard) -> None:
    ends = couple(RC)
    near, far = _fill(ends.near.buffer, 1), _fill(ends.far.buffer, 99)
    assert len(ends.near.round_trips(WRITE, 300, 5, guard)) == 5
    assert bytes(ends.far.buffer) == near[:300] + far[300:]
    assert bytes(ends.near.buffer) == near


@pytest.mark.parametrize("kind", [RC, UC])
def test_send_is_absorbed_though_there_are_more_messages_than_receives(
    couple: Make, guard: Guard, kind: str
) -> None:
    ends = couple(kind, receives=3)
    near = _fill(ends.near.buffer, 1)
    took, came = ends.both(
        lambda link: link.round_trips(SEND, 64, 40, guard), lambda link: link.absorb(64, 40, guard)
    )
    assert (len(took), came) == (40, 40)
    assert bytes(ends.far.buffer[:64]) == near[:64]


def test_none_is_none(couple: Make, guard: Guard) -> None:
    assert len(couple(RC).near.round_trips(READ, 8, 0, guard)) == 0
    assert couple(RC, receives=1).near.absorb(8, 0, guard) == 0


def test_every_queue_pair_can_be_named(couple: Make, guard: Guard) -> None:
    ends = couple(UC, RC, RC)
    assert [len(ends.near.round_trips(WRITE, 8, 3, guard, pair=pair)) for pair in (0, 1, 2)] == [3, 3, 3]


def test_round_trip_has_the_time_of_its_completion_inside(
    couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = sorted(couple(RC).near.round_trips(READ, 8, 50, guard))[25]
    monkeypatch.setenv("FAKE_DELAY", "20000")
    slow = sorted(couple(RC).near.round_trips(READ, 8, 50, guard))[25]
    assert slow > 3 * quick


def test_first_request_that_fails_ends_it_and_is_the_peers(
    couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_STATUS", "12@5")
    near = couple(RC).near
    assert len(near.round_trips(READ, 8, 4, guard)) == 4
    kind, text = _refusal(lambda: near.round_trips(READ, 8, 1, guard))
    assert kind == "peer"
    assert text.startswith("no answer from the peer")
    assert text.endswith("[status 12]")


def test_message_that_is_longer_than_its_receive_is_refused_on_both_sides(couple: Make, guard: Guard) -> None:
    ends = couple(RC, receives=1)
    ends.both(lambda link: link.round_trips(SEND, 64, 1, guard), lambda link: link.absorb(64, 1, guard))
    kind, text = _refusal(lambda: ends.near.round_trips(SEND, 65, 1, guard))
    assert (kind, text[-10:]) == ("peer", "[status 9]")
    kind, text = _refusal(lambda: ends.far.absorb(64, 1, guard))
    assert (kind, text[-10:]) == ("peer", "[status 1]")


def test_message_without_a_receive_waits_for_one(couple: Make, guard: Guard) -> None:
    ends = couple(RC, receives=1)

    def late(link: Any) -> Any:
        time.sleep(0.6)
        return link.absorb(8, 2, guard)

    took, came = ends.both(lambda link: link.round_trips(SEND, 8, 2, guard), late)
    assert came == 2
    assert max(took) > 100_000_000


# Deadline and call-off


LOOPS: dict[str, Callable[[Any, Guard], object]] = {
    "round_trips": lambda link, guard: link.round_trips(READ, 8, 1, guard),
    "pingpong_first": lambda link, guard: link.pingpong(WRITE, 8, 64, 1, guard, first=True),
    "pingpong_second": lambda link, guard: link.pingpong(WRITE, 8, 64, 1, guard, first=False),
    "messages_second": lambda link, guard: link.pingpong(SEND, 8, 64, 1, guard, first=False),
    "absorb": lambda link, guard: link.absorb(8, 1, guard),
    "stream": lambda link, guard: link.stream(WRITE, (8,), guard, count=1),
    "stream_seconds": lambda link, guard: link.stream(WRITE, (8,), guard, seconds=3600),
    "word_out": lambda link, guard: link.word_out(1, guard),
    "word_in": lambda link, guard: link.word_in(1, guard),
    "burst": lambda link, guard: link.burst(0, 64, 1, 1, 1, guard),
}


@pytest.mark.parametrize("name", LOOPS)
def test_every_loop_ends_when_the_time_is_up(
    couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("FAKE_DELAY", NEVER)
    near = couple(RC, receives=1).near
    guard.until_ns = perf_counter_ns() + 50_000_000
    began = time.monotonic()
    kind, text = _refusal(lambda: LOOPS[name](near, guard))
    assert kind == "deadline"
    assert text.startswith("no answer in time from the ")
    assert 0.04 < time.monotonic() - began < 5


@pytest.mark.parametrize("name", LOOPS)
def test_every_loop_can_be_called_off_by_another_thread(
    couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("FAKE_DELAY", NEVER)
    near = couple(RC, receives=1).near
    timer = threading.Timer(0.1, lambda: guard.call_off(0))
    timer.start()
    kind, text = _refusal(lambda: LOOPS[name](near, guard))
    timer.join()
    assert kind == "deadline"
    assert text.startswith("called off by the controller while waiting for the ")


# The floor


@pytest.mark.parametrize("op", [READ, WRITE, SEND])
def test_floor_is_measured_once_between_two_ends_of_the_own_port(
    couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    ends = couple(RC)
    found = ends.near.floor_ns(op, 64, guard)
    assert found > 0
    monkeypatch.setenv("FAKE_STATUS", "12@1")  # a second measurement would fail
    assert ends.far.floor_ns(op, 64, guard) == found
    assert ends.far.floor_ns(op, 65, guard) is None
    assert ends.far.floor_ns(op, 65, guard) is None


def test_floor_that_is_not_found_in_time_is_not_taken_for_refused(
    couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DELAY", NEVER)
    near = couple(RC).near
    guard.until_ns = perf_counter_ns() + 50_000_000
    assert _refusal(lambda: near.floor_ns(READ, 8, guard))[0] == "deadline"
    monkeypatch.delenv("FAKE_DELAY")
    guard.until_ns = perf_counter_ns() + 60_000_000_000
    assert near.floor_ns(READ, 8, guard) > 0


# To and fro


@pytest.mark.parametrize("length", [1, 8, 4096])
def test_pingpong_counts_on_one_side_over_several_calls(couple: Make, guard: Guard, length: int) -> None:
    ends = couple(RC, buffer_bytes=8192)
    for count in (1, 260, 3):
        took, none = ends.both(
            lambda link, count=count: link.pingpong(WRITE, length, 4096, count, guard, first=True),
            lambda link, count=count: link.pingpong(WRITE, length, 4096, count, guard, first=False),
        )
        assert (len(took), len(none)) == (count, 0)
        assert min(took) > 0
    last = (1 + 260 + 3) & 0xFF
    for end in (ends.near, ends.far):
        assert [end.buffer[length - 1], end.buffer[4096 + length - 1]] == [last, last]


def test_pingpong_of_messages(couple: Make, guard: Guard) -> None:
    ends = couple(RC, receives=1)
    for count in (1, 100):
        took, none = ends.both(
            lambda link, count=count: link.pingpong(SEND, 32, 0, count, guard, first=True),
            lambda link, count=count: link.pingpong(SEND, 32, 0, count, guard, first=False),
        )
        assert (len(took), len(none)) == (count, 0)
        assert min(took) > 0


def test_pingpong_round_trip_has_the_peers_time_inside(couple: Make, guard: Guard) -> None:
    ends = couple(RC)

    def late(link: Any) -> Any:
        time.sleep(0.6)
        return link.pingpong(WRITE, 8, 64, 1, guard, first=False)

    took, _ = ends.both(lambda link: link.pingpong(WRITE, 8, 64, 1, guard, first=True), late)
    assert took[0] > 100_000_000


# Streams


@pytest.mark.parametrize("depth", [1, 3, 4, 5, 64])
@pytest.mark.parametrize("count", [1, 7, 200])
def test_stream_sends_as_many_messages_as_asked_in_turn(
    couple: Make, guard: Guard, depth: int, count: int
) -> None:
    ends = couple(RC, RC, depth=depth)
    flow = ends.near.stream(WRITE, (100, 7, 1000), guard, count=count, pairs=(1, 0))
    lengths = [(100, 7, 1000)[i % 3] for i in range(count)]
    assert flow.messages == count
    # Each engine takes the lengths in turn, on each queue pair or over all of them.
    by_pair = sum(1107 * (n // 3) + sum((100, 7, 1000)[: n % 3]) for n in _shares(count, flow.bytes, lengths))
    assert flow.bytes in {sum(lengths), by_pair}
    assert flow.nanoseconds > 0


def _shares(count: int, total: int, lengths: list[int]) -> tuple[int, ...]:
    if total == sum(lengths):
        return (count,)
    one = (100, 7, 1000)
    for first in range(count + 1):
        parts = first, count - first
        if sum(1107 * (n // 3) + sum(one[: n % 3]) for n in parts) == total:
            return parts
    return ()


def test_stream_brings_the_bytes_at_its_offset(couple: Make, guard: Guard) -> None:
    ends = couple(RC, depth=8)
    near, far = _fill(ends.near.buffer, 1), _fill(ends.far.buffer, 99)
    assert ends.near.stream(WRITE, (50,), guard, count=9, offset=200).bytes == 450
    assert bytes(ends.far.buffer) == far[:200] + near[200:250] + far[250:]
    assert ends.near.stream(READ, (10,), guard, count=1, offset=300).messages == 1
    assert bytes(ends.near.buffer) == near[:300] + far[300:310] + near[310:]


@pytest.mark.parametrize("pairs", [(0,), (0, 1), (1,)])
def test_stream_ends_after_its_time(couple: Make, guard: Guard, pairs: tuple[int, ...]) -> None:
    flow = couple(RC, RC, depth=16).near.stream(WRITE, (64,), guard, seconds=0.2, pairs=pairs)
    assert 0.19e9 <= flow.nanoseconds < 2e9  # the last completion may come before the time is looked at
    assert flow.messages > 100
    assert flow.bytes == 64 * flow.messages


def test_stream_ends_by_what_comes_first(couple: Make, guard: Guard) -> None:
    near = couple(RC, depth=4).near
    assert near.stream(WRITE, (8,), guard, seconds=60, count=11).messages == 11
    assert near.stream(WRITE, (8,), guard, seconds=0.05, count=1 << 40).nanoseconds < 2e9


def test_stream_of_nothing_is_nothing(couple: Make, guard: Guard) -> None:
    assert couple(RC).near.stream(WRITE, (8,), guard) == Flow(0, 0, 0)


def test_stream_that_fails_is_refused(couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_STATUS", "10@9")
    near = couple(RC, depth=8).near
    kind, text = _refusal(lambda: near.stream(WRITE, (8,), guard, count=20))
    assert kind == "peer"
    assert text.startswith("the peer's NIC refused access to its memory")


def test_stream_of_messages_is_absorbed(couple: Make, guard: Guard) -> None:
    ends = couple(RC, RC, depth=16, receives=32)
    flow, came = ends.both(
        lambda link: link.stream(SEND, (256,), guard, count=500), lambda link: link.absorb(256, 500, guard)
    )
    assert (flow.messages, flow.bytes, came) == (500, 128_000, 500)


# Words of control


def test_word_arrives_beside_the_buffer(couple: Make, guard: Guard) -> None:
    ends = couple(RC, UC, buffer_bytes=100)
    near, far = _fill(ends.near.buffer, 1), _fill(ends.far.buffer, 99)
    for word in (1, (1 << 64) - 1, 7):
        ends.near.word_out(word, guard)
        ends.far.word_in(word, guard)
        ends.far.word_out(word, guard)
        ends.near.word_in(word, guard)
    assert (bytes(ends.near.buffer), bytes(ends.far.buffer)) == (near, far)


def test_word_that_was_not_meant_is_waited_over(couple: Make, guard: Guard) -> None:
    ends = couple(RC)
    ends.near.word_out(5, guard)
    guard.until_ns = perf_counter_ns() + 50_000_000
    kind, text = _refusal(lambda: ends.far.word_in(6, guard))
    assert (kind, text) == ("deadline", "no answer in time from the other side's word")


def test_words_need_a_reliable_queue_pair(couple: Make, guard: Guard) -> None:
    near = couple(UC).near
    assert _refusal(lambda: near.word_out(1, guard)) == (
        "wire",
        "words of control need a reliable queue pair",
    )


# Trains


def test_burst_without_loss_is_all_there(couple: Make, guard: Guard) -> None:
    ends = couple(UC, UC, UC, RC, buffer_bytes=64 * 100, depth=34)
    assert ends.far.absent(0, 64, 100, 1 << 20) == list(range(100))
    ends.near.burst(0, 64, 100, 3, 1 << 20, guard)
    assert ends.far.absent(0, 64, 100, 1 << 20) == []
    assert ends.far.absent(0, 64, 100, 2 << 20) == list(range(100))
    words = ends.far.buffer.cast("Q")
    assert [words[8 * 42], words[8 * 42 + 7]] == [(1 << 20) + 42] * 2


def test_burst_lies_where_it_was_asked_for(couple: Make, guard: Guard) -> None:
    ends = couple(UC, buffer_bytes=4096, depth=4)
    ends.near.burst(1024, 16, 4, 1, 9, guard)
    assert ends.far.absent(1024, 16, 4, 9) == []
    assert bytes(ends.far.buffer[:1024]) == bytes(1024)
    assert bytes(ends.far.buffer[1024 + 64 :]) == bytes(4096 - 1024 - 64)


def test_lost_packets_of_a_burst_are_absent(
    couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LOSS", "0.25")
    ends = couple(UC, UC, RC, buffer_bytes=8 * 400, depth=202)
    ends.near.burst(0, 8, 400, 2, 1 << 20, guard)
    absent = ends.far.absent(0, 8, 400, 1 << 20)
    assert absent == [place for place in range(400) if not ends.far.buffer.cast("Q")[place]]
    assert 40 < len(absent) < 160


def test_torn_packet_is_absent(couple: Make, guard: Guard) -> None:
    ends = couple(UC, buffer_bytes=256, depth=4)
    ends.near.burst(0, 64, 4, 1, 5, guard)
    ends.far.buffer.cast("Q")[8 * 2 + 7] = 0
    ends.far.buffer.cast("Q")[8 * 3] = 0
    assert ends.far.absent(0, 64, 4, 5) == [2, 3]


def test_more_paths_than_slots(couple: Make, guard: Guard) -> None:
    ends = couple(UC, UC, UC, UC, buffer_bytes=128, depth=1)
    ends.near.burst(0, 64, 2, 4, 1, guard)
    assert ends.far.absent(0, 64, 2, 1) == []


# What makes no sense is refused before the NIC sees it


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda link, guard: link.round_trips("FLY", 8, 1, guard), "no operation 'FLY' on a queue pair"),
        (lambda link, guard: link.round_trips(READ, 8, 1, guard, pair=2), "no queue pairs [2]; there are 2"),
        (lambda link, guard: link.round_trips(READ, 8, 1, guard, pair=1), "no READ on a queue pair"),
        (lambda link, guard: link.stream(READ, (8,), guard, count=1, pairs=(0, 1)), "no READ on a queue"),
        (lambda link, guard: link.stream(READ, (), guard, count=1), "messages of [] bytes at 0 do not lie"),
        (lambda link, guard: link.stream(WRITE, (8, 1 << 20), guard, count=1), "messages of [8, 1048576]"),
        (lambda link, guard: link.stream(WRITE, (8,), guard, count=1, offset=-8), "messages of [8] bytes"),
        (lambda link, guard: link.round_trips(WRITE, 0, 1, guard), "messages of [0] bytes at 0"),
        (lambda link, guard: link.pingpong(WRITE, 8, 4090, 1, guard, first=True), "messages of [8] bytes"),
        (lambda link, guard: link.absorb(4097, 1, guard), "messages of [4097] bytes at 0"),
        (lambda link, guard: link.burst(0, 60, 2, 1, 1, guard), "slots of 60 bytes from 0 on are not al"),
        (lambda link, guard: link.burst(0, 64, 65, 1, 1, guard), "messages of [4160] bytes at 0"),
        (lambda link, guard: link.burst(0, 64, 7, 2, 1, guard), "4 requests at once on a queue pair that t"),
        (lambda link, guard: link.burst(0, 64, 4, 3, 1, guard), "no queue pairs [0, 1, 2]; there are 2"),
        (lambda link, _: link.absent(4, 64, 1, 1), "slots of 64 bytes from 4 on are not aligned"),
    ],
)
def test_senseless_call_is_refused(
    couple: Make, guard: Guard, call: Callable[[Any, Guard], object], text: str
) -> None:
    near = couple(RC, UC, depth=3).near
    kind, said = _refusal(lambda: call(near, guard))
    assert (kind, said[: len(text)]) == ("wire", text)


# Devices, addresses, memory


def test_address_is_the_same_json_for_both_engines(couple: Make) -> None:
    address = couple(RC, UC, buffer_bytes=5000, reads=4).near.address()
    assert json.loads(json.dumps(address)) == address
    assert sorted(address) == [
        "buffer", "control", "gid", "lid", "mtu_bytes", "psn", "queue_pairs", "reads", "rkey",
    ]  # fmt: skip
    assert address["control"] - address["buffer"] == 8192
    assert (address["lid"], address["mtu_bytes"], address["reads"]) == (7, 4096, 4)
    assert address["gid"].endswith("ffff:0a0a:0001")
    assert len(set(address["queue_pairs"])) == len(address["psn"]) == 2


def test_device_that_can_do_fewer_reads_does_as_many(couple: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_READS", "2")
    assert couple(RC, reads=16).near.address()["reads"] == 2
    monkeypatch.setenv("FAKE_READS", "0")
    assert couple(RC, reads=16).near.address()["reads"] == 1


def test_device_that_takes_nothing_within_a_request_is_used_without(
    couple: Make, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_INLINE", "0")
    ends = couple(RC, RC)
    near = _fill(ends.near.buffer, 3)
    assert len(ends.near.round_trips(WRITE, 8, 3, guard)) == 3
    assert bytes(ends.far.buffer[:8]) == near[:8]


def test_memory_is_zeroed_and_writable(couple: Make) -> None:
    near = couple(RC, buffer_bytes=12345).near
    assert bytes(near.buffer) == bytes(12345)
    assert not near.buffer.readonly
    assert near.path_mtu_bytes == 1024


def test_cpus_near_the_nic_come_from_its_pci_device(couple: Make, tmp_path: Path) -> None:
    assert couple(RC).near.local_cpus == ""
    folder = tmp_path / "sys" / "class" / "infiniband" / "fake0" / "device"
    folder.mkdir(parents=True)
    (folder / "local_cpulist").write_text("0-15,32-47\n")
    assert couple(RC).near.local_cpus == "0-15,32-47"


def test_small_memlock_limit_is_said_with_its_remedy(
    engine: str, port: VerbsPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MEMLOCK", "65536")
    nic = engines.open_nic(engine, port)
    nic.try_memory(65536)
    for attempt in (lambda: nic.try_memory(65537), lambda: nic.endpoint(Setup((RC,), 1 << 20), None)):
        kind, text = _refusal(attempt)
        assert kind == "setup"
        assert "bytes cannot be registered with the NIC: the limit on locked memory (ulimit -l) is" in text
        assert "LimitMEMLOCK=infinity" in text


def test_port_that_is_down_is_said(engine: str, port: VerbsPort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_STATE", "1")
    nic = engines.open_nic(engine, port)
    kind, text = _refusal(nic.state)
    assert (kind, text[:31]) == ("setup", "port 1 of fake0 is not active: ")


def test_state_is_what_the_port_is_now(engine: str, port: VerbsPort, monkeypatch: pytest.MonkeyPatch) -> None:
    nic = engines.open_nic(engine, port)
    assert nic.state() == {"lid": 7, "mtu_bytes": 4096}
    monkeypatch.setenv("FAKE_MTU", "3")
    assert nic.state() == {"lid": 7, "mtu_bytes": 1024}


def test_device_that_cannot_be_opened_is_said(engine: str, tmp_path: Path) -> None:
    kind, text = _refusal(lambda: engines.open_nic(engine, VerbsPort("broken0", 1, "eth1", tmp_path)))
    assert (kind, text[:26]) == ("setup", "broken0 cannot be opened: ")


def test_peer_without_a_route_is_the_peers(engine: str, port: VerbsPort) -> None:
    gid = Gid(0, "0000:0000:0000:0000:0000:ffff:0a0a:0001", "RoCE v2", "eth1")
    end = engines.open_nic(engine, port).endpoint(Setup((RC,), 64), gid)
    peer = {**end.address(), "gid": "0000:0000:0000:0000:0000:ffff:0a0a:dead"}
    kind, text = _refusal(lambda: end.connect(peer, path_mtu_bytes=1024, traffic_class=0))
    assert kind == "peer"
    assert text.startswith(
        "no connection from 0 RoCE v2 10.10.0.1 to 0000:0000:0000:0000:0000:ffff:0a0a:dead:"
    )
    end.close()


def test_unknown_kind_of_queue_pair_is_refused(engine: str, port: VerbsPort) -> None:
    nic = engines.open_nic(engine, port)
    assert _refusal(lambda: nic.endpoint(Setup(("UD",), 64), None)) == (
        "wire",
        "no queue pair 'UD'; there is RC and UC",
    )


def test_engines_are_what_loads(engine: str) -> None:
    loaded, why_not = engines.found(engine)
    assert (list(loaded), why_not) == ([engine], {})


def test_unknown_engine_is_refused(port: VerbsPort) -> None:
    kind, text = _refusal(lambda: engines.open_nic("warp", port))
    assert (kind, text) == ("wire", "no engine 'warp'; there is native, pyverbs")


def test_retries_of_a_link_that_receives_have_no_end() -> None:
    assert connection.rnr_retries(Setup((RC,), 8)) == 6
    assert connection.rnr_retries(Setup((RC,), 8, receives=1)) == 7
