"""The bandwidth probes' halves on the nodes, on a link in one process."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import pytest

from fabricctl.agent import streaming
from fabricctl.agent.link import Flow
from fabricctl.agent.wire import DEADLINE, PEER, Refusal
from fabricctl.model.histogram import Histogram
from fabricctl.plugin import finder

PARAMETERS = {
    "seconds": 0.5,
    "queue_pairs": 2,
    "sizes": "512,65536,1048576",
    "depth": 4,
    "path_mtu_bytes": 4096,
    "traffic_class": 106,
    "deadline_s": 5.0,
}
SMALL: dict[str, Any] = {"message_bytes": 8, "path_mtu_bytes": 4096}
TRIED = {
    "small_bytes": 8,
    "small_answered": 8,
    "large_bytes": 16_384,
    "large_asked": 8,
    "large_answered": 8,
}
CYCLE = (512, 512, 65_536, 65_536, 1_048_576, 1_048_576)
HEAD = streaming.HEAD_BYTES


def node(probe: str) -> Any:
    return importlib.import_module(f"fabricctl.probes.{probe}.node")


def made(links: Any, probe: str, **changed: Any) -> tuple[Any, Any, dict[str, Any]]:
    parameters = {**PARAMETERS, **changed}
    half = node(probe)
    return half, links.couple(half.setup, parameters), parameters


def streams(end: Any) -> list[Any]:
    return [call for call in end.calls if call[0] == "stream"]


@pytest.mark.parametrize(("probe", "op"), [("write_bandwidth", "WRITE"), ("read_bandwidth", "READ")])
class TestOneWay:
    def test_setup(self, links: Any, probe: str, op: str) -> None:
        _, (end, _), _ = made(links, probe)
        setup = end.setup
        assert setup.queue_pairs == ("RC", "RC", "RC")
        assert setup.buffer_bytes == HEAD + 1_048_576
        assert (setup.depth, setup.receives) == (4, 0)
        assert setup.reads == (4 if op == "READ" else 1)
        assert node(probe).setup({**PARAMETERS, "depth": 64}).reads == (16 if op == "READ" else 1)

    def test_room_for_long_messages_whatever_the_sizes(self, links: Any, probe: str, op: str) -> None:
        del links, op
        assert node(probe).setup({**PARAMETERS, "sizes": "8"}).buffer_bytes == HEAD + 16_384

    def test_numbers(self, links: Any, probe: str, op: str) -> None:
        half, ends, parameters = made(links, probe)
        source, target = links.play(half, ends, parameters)
        assert target == {}
        numbers = source["numbers"]
        assert source.keys() == {"numbers"}
        assert {name: numbers[name] for name in TRIED} == TRIED
        # 1 Gbit/s is simulated: half a second is 62,500,000 bytes, and the message that was under way.
        assert 62_500_000 <= numbers["bytes"] <= 62_500_000 + 1_048_576
        assert numbers["bytes"] * 8 == numbers["elapsed_ns"]
        assert numbers["largest_message_bytes"] == 1_048_576
        assert numbers["queue_pairs"] == 2
        assert numbers["warmup_messages"] == 6
        assert streams(ends[0]) == [
            ("stream", op, CYCLE, 0.0, 6, (0, 1), HEAD),
            ("stream", op, CYCLE, 0.5, 0, (0, 1), HEAD),
        ]
        assert ends[1].calls == []

    def test_short_ones_then_long_ones_are_tried_on_every_queue_pair(
        self, links: Any, probe: str, op: str
    ) -> None:
        half, ends, parameters = made(links, probe)
        links.play(half, ends, parameters)
        tried = [call[2:] for call in ends[0].calls if call[:2] == ("round_trips", op)]
        assert tried == [(8, 4, 0), (8, 4, 1), *[(16_384, 1, 0)] * 4, *[(16_384, 1, 1)] * 4]

    @pytest.mark.parametrize(("pair", "answered"), [(0, 0), (1, 4)])
    def test_a_hole_is_a_result(self, links: Any, probe: str, op: str, pair: int, answered: int) -> None:
        del op
        half, ends, parameters = made(links, probe)
        ends[0].holes = {pair: 1024}
        source, target = links.play(half, ends, parameters)
        assert source["numbers"] == {**TRIED, "large_answered": answered}
        assert source["stopped"] == f"on queue pair {pair + 1}: {links.LOST}"
        assert target == {}
        assert streams(ends[0]) == []

    def test_a_path_that_carries_nothing_is_an_error(self, links: Any, probe: str, op: str) -> None:
        del op
        half, ends, parameters = made(links, probe)
        ends[0].holes = {0: 0}
        source, _ = links.play(half, ends, parameters)
        assert isinstance(source, Refusal)
        assert source.kind == PEER

    def test_a_stream_that_breaks_is_an_error(self, links: Any, probe: str, op: str) -> None:
        del op
        half, ends, parameters = made(links, probe)
        ends[0].fails_after = 10
        source, _ = links.play(half, ends, parameters)
        assert isinstance(source, Refusal)
        assert source.kind == PEER

    def test_time_that_is_up_is_no_hole(self, links: Any, probe: str, op: str) -> None:
        del op
        half, ends, parameters = made(links, probe)
        source, _ = links.play(half, ends, parameters, seconds=-1.0)
        assert isinstance(source, Refusal)
        assert source.kind == DEADLINE


@pytest.mark.parametrize(
    ("messages", "paths", "largest"),
    [(0, 2, 0), (1, 2, 512), (4, 2, 512), (6, 2, 65_536), (10, 2, 1_048_576)],
)
def test_the_largest_message_is_one_that_surely_was_sent(messages: int, paths: int, largest: int) -> None:
    load = streaming.Load((512, 65_536, 1_048_576), paths, 4, 1.0)
    flow = Flow(messages, messages, messages)
    assert streaming.numbers(flow, load, 0)["largest_message_bytes"] == largest


class TestSend:
    probe = "send_bandwidth"

    def test_setup_has_receives(self, links: Any) -> None:
        _, (end, _), _ = made(links, self.probe)
        assert (end.setup.receives, end.setup.depth) == (8, 4)

    def test_the_target_takes_exactly_what_is_sent(self, links: Any) -> None:
        half, ends, parameters = made(links, self.probe)
        source, target = links.play(half, ends, parameters)
        sent = [call[4] for call in streams(ends[0])]
        absorbed = [call[1:] for call in ends[1].calls if call[0] == "absorb"]
        assert absorbed == [(1_048_576, count, (0, 1)) for count in sent]
        assert ends[1].arrived == 0
        numbers = source["numbers"]
        assert numbers["messages"] == sent[-1] == target["numbers"]["received_messages"]
        assert numbers["warmup_messages"] == sum(sent[:-1])
        # 24 messages take 71 ms at 1 Gbit/s, so 28 turns of 6 fill half a second.
        assert sent == [24, 168]
        assert numbers["elapsed_ns"] == pytest.approx(5e8, rel=0.05)
        assert {name: numbers[name] for name in TRIED} == TRIED

    def test_long_messages_are_tried_as_writes(self, links: Any) -> None:
        half, ends, parameters = made(links, self.probe)
        links.play(half, ends, parameters)
        assert {call[1] for call in ends[0].calls if call[0] == "round_trips"} == {"WRITE"}

    def test_after_a_hole_the_target_is_told(self, links: Any) -> None:
        half, ends, parameters = made(links, self.probe)
        ends[0].holes = {1: 4096}
        source, target = links.play(half, ends, parameters)
        assert source["numbers"]["large_answered"] == 4
        assert target == {"numbers": {"received_messages": 0}}
        assert not [call for call in ends[1].calls if call[0] == "absorb"]

    def test_a_target_that_is_told_nothing_gives_up(
        self, links: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(streaming, "PATIENCE_S", 0.2)
        half, ends, parameters = made(links, self.probe)
        ends[0].holes = {0: 4096, 2: 0}
        source, target = links.play(half, ends, parameters)
        assert (source.kind, target.kind) == (PEER, DEADLINE)
        assert source.text == f"{links.LOST}; long messages had stopped before on queue pair 1: {links.LOST}"
        assert target.text == "no word from the other side within 0.2 s"

    def test_a_short_time_is_not_below_one_turn(self, links: Any) -> None:
        half, ends, parameters = made(links, self.probe, seconds=0.001)
        source, target = links.play(half, ends, parameters)
        assert source["numbers"]["messages"] == target["numbers"]["received_messages"] == 24
        assert source["numbers"]["warmup_messages"] == 0

    @pytest.mark.parametrize(("gbps", "rounds"), [(400, [24, 1536, 67290]), (0.01, [24])])
    def test_the_number_of_messages_follows_the_speed(
        self, links: Any, gbps: float, rounds: list[int]
    ) -> None:
        half = node(self.probe)
        ends = links.couple(half.setup, PARAMETERS, gbps)
        source, _ = links.play(half, ends, PARAMETERS)
        assert [call[4] for call in streams(ends[0])] == rounds
        assert source["numbers"]["messages"] == rounds[-1]
        assert source["numbers"]["elapsed_ns"] >= 0.75 * 5e8


class TestBoth:
    probe = "write_bandwidth_both"

    def test_both_ends_stream(self, links: Any) -> None:
        half, ends, parameters = made(links, self.probe)
        source, target = links.play(half, ends, parameters)
        assert 62_500_000 <= source["numbers"]["bytes"] <= 62_500_000 + 1_048_576
        assert target["numbers"]["reverse_bytes"] == source["numbers"]["bytes"]
        assert {name.removeprefix("reverse_") for name in target["numbers"]} == set(source["numbers"])
        for end in ends:
            assert [call[3:5] for call in streams(end)] == [(0.0, 6), (0.5, 0)]

    @pytest.mark.parametrize("broken", [0, 1])
    @pytest.mark.parametrize("pair", [0, 1])
    def test_a_hole_in_one_direction_stops_both(self, links: Any, broken: int, pair: int) -> None:
        half, ends, parameters = made(links, self.probe)
        ends[broken].holes = {pair: 4096}
        source, target = links.play(half, ends, parameters)
        assert ("stopped" in source) is (broken == 0)
        assert source["numbers"]["large_answered"] == (8 if broken else 4 * pair)
        assert "bytes" not in source["numbers"]
        if broken:
            assert target["numbers"]["reverse_large_answered"] == 4 * pair
        else:
            # The source's queue pair has given up: to try anything on it would look like a dead path.
            assert target == {"numbers": {}}
            assert not [call for call in ends[1].calls if call[0] == "round_trips"]
        assert not streams(ends[0]) + streams(ends[1])

    @pytest.mark.parametrize("broken", [0, 1])
    def test_one_that_is_told_nothing_gives_up(
        self, links: Any, broken: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(streaming, "PATIENCE_S", 0.2)
        half, ends, parameters = made(links, self.probe)
        ends[broken].holes = {0: 4096, 2: 0}
        found = links.play(half, ends, parameters)
        assert (found[broken].kind, found[1 - broken].kind) == (PEER, DEADLINE)
        assert not streams(ends[0]) + streams(ends[1])


class TestSendLatency:
    parameters: ClassVar[dict[str, Any]] = SMALL | {"samples": 100, "warmup": 10}

    def test_half_round_trips_without_the_warmup(self, links: Any) -> None:
        half = node("send_latency")
        ends = links.couple(half.setup, self.parameters)
        source, target = links.play(half, ends, self.parameters)
        kept = Histogram.decode(source["latencies"])
        # Round trips of 2000, 2002, ... ns: the first ten are the warm-up.
        assert (kept.samples, kept.minimum, kept.maximum) == (100, 1010, 1109)
        assert source["warmup"] == 10
        assert source["numbers"] == {
            "small_bytes": 8,
            "small_answered": 110,
            "large_bytes": 16_384,
            "large_asked": 4,
            "large_answered": 4,
        }
        assert target == {"cpus": ""}
        assert ends[0].calls[0] == ("pingpong", "SEND", 8, 8, 110, True, 0)
        assert ends[1].calls == [("pingpong", "SEND", 8, 8, 110, False, 0)]
        assert ends[0].setup.receives == 4

    def test_it_runs_on_request(self) -> None:
        probe = finder.probe("send_latency")
        assert (probe.on_request, probe.fills_link) == (True, False)


@pytest.mark.parametrize("probe", ["read_latency", "write_latency", "write_pingpong", "send_latency"])
class TestLongMessagesOfLatencyProbes:
    parameters: ClassVar[dict[str, Any]] = SMALL | {"samples": 20, "warmup": 5, "path_mtu_bytes": 1024}

    def test_they_are_tried_after_the_short_ones(self, links: Any, probe: str) -> None:
        half = node(probe)
        ends = links.couple(half.setup, self.parameters)
        source, _ = links.play(half, ends, self.parameters)
        assert source["numbers"] == {
            "small_bytes": 8,
            "small_answered": 25,
            "large_bytes": 4096,
            "large_asked": 4,
            "large_answered": 4,
        }
        op = "READ" if probe == "read_latency" else "WRITE"
        assert ends[0].calls[-4:] == [("round_trips", op, 4096, 1, 0)] * 4

    def test_a_hole_leaves_the_latencies_as_they_are(self, links: Any, probe: str) -> None:
        half = node(probe)
        ends = links.couple(half.setup, self.parameters)
        ends[0].holes = {0: 1024}
        source, _ = links.play(half, ends, self.parameters)
        assert Histogram.decode(source["latencies"]).samples == 20
        assert source["numbers"]["large_answered"] == 0
        assert source["stopped"] == f"on queue pair 1: {links.LOST}"
