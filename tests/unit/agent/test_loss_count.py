"""How the target of the loss probe counts: lost, late, out of order, twice, torn."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fabricctl.agent.wire import DEADLINE, PEER, Refusal
from fabricctl.probes.loss import node, spec
from fabricctl.probes.loss.spec import HEAD_BYTES, Layout, stamp, train_of

MTU = 256
LAYOUT = Layout(paths=4, packet_bytes=MTU, packets=300)
PARAMETERS = {"queue_pairs": 4, "packets": 300, "path_mtu_bytes": MTU, "ends_early": 1}
MS = 1_000_000


def _load() -> ModuleType:
    # Test folders are no packages: the module is loaded by its place.
    place = Path(__file__).parents[2] / "fakes" / "lossy.py"
    made = importlib.util.spec_from_file_location("fakes_lossy", place)
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    sys.modules["fakes_lossy"] = module
    made.loader.exec_module(module)
    return module


lossy = _load()
LOST, Fate = lossy.LOST, lossy.Fate


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def made(fates: Mapping[int, Any] | Callable[[int], Any], **fields: Any) -> Any:
        says = fates if callable(fates) else lambda number: fates.get(number, lossy.ARRIVES)
        link = lossy.LossyLink(fields.pop("layout", LAYOUT), says, **fields)
        monkeypatch.setattr(node, "perf_counter_ns", link.clock)
        monkeypatch.setattr(node.time, "sleep", link.sleep)
        return link

    return made


def play(link: Any, **parameters: int) -> Any:
    return node.target(link, {**PARAMETERS, **parameters}, None)  # type: ignore[arg-type]  # it is not asked


def numbers(link: Any, *names: str) -> dict[str, int]:
    found = play(link)["numbers"]
    return {name: found[name] for name in names}


COUNTS = ("sent", "missing", "corrupt", "reordered", "duplicate", "late", "unclear", "events")


def test_layout_rounds_up_to_full_trains_and_slots_do_not_overlap() -> None:
    assert (LAYOUT.slots, LAYOUT.train, LAYOUT.trains) == (32, 128, 3)
    offsets = [LAYOUT.slot(bank, place) for bank in range(2) for place in range(128)]
    assert offsets == list(range(HEAD_BYTES, LAYOUT.bytes, MTU))


@pytest.mark.parametrize(("paths", "slots"), [(1, 128), (8, 16), (16, 8), (41, 4), (256, 4)])
def test_more_paths_keep_no_more_packets_under_way_until_each_has_four(paths: int, slots: int) -> None:
    layout = Layout(paths, MTU, 3000)
    assert (layout.slots, layout.train) == (slots, paths * slots)


def test_setup_asks_for_unreliable_queue_pairs_and_a_reliable_one() -> None:
    setup = node.setup(PARAMETERS)
    assert setup.queue_pairs == ("UC", "UC", "UC", "UC", "RC")
    assert (setup.buffer_bytes, setup.depth) == (LAYOUT.bytes, 34)


def test_stamps_are_unique_tell_their_train_and_are_never_zero() -> None:
    stamps = {stamp(train, place): train for train in (1, 2, 3) for place in range(1000)}
    assert len(stamps) == 3000
    assert min(stamps) > 0
    assert all(train_of(stamped) == train for stamped, train in stamps.items())


def test_nothing_lost_is_nothing_missing(make: Callable[..., Any]) -> None:
    link = make({})
    assert numbers(link, *COUNTS) == {"sent": 384, **dict.fromkeys(COUNTS[1:], 0)}
    assert link.said == [1, 2, 3]
    assert link.now_ns < 5 * MS  # nothing was waited for


def test_lost_packets_are_counted_by_path_though_the_slot_held_an_older_one(make: Callable[..., Any]) -> None:
    lost = dict.fromkeys((256 + 5, 256 + 9, 256 + 17, 256 + 18), LOST)  # third train: paths 1, 1, 1 and 2
    result = play(make(lost))
    assert result["numbers"]["missing"] == 4
    assert [path["missing"] for path in result["numbers_by_path"]] == [0, 3, 1, 0]
    assert [path["events"] for path in result["numbers_by_path"]] == [0, 2, 1, 0]  # 5 and 9 follow each other
    assert [path["sent"] for path in result["numbers_by_path"]] == [96] * 4


def test_a_burst_over_the_end_of_a_train_is_one_event(make: Callable[..., Any]) -> None:
    lost = dict.fromkeys(
        (120, 124, 128, 132), LOST
    )  # all on path 0, the last two of one train, the first two
    assert numbers(make(lost), "missing", "events") == {"missing": 4, "events": 1}


def test_nothing_that_arrives_is_all_missing(make: Callable[..., Any]) -> None:
    found = play(make(lambda _number: LOST))["numbers"]
    assert (found["sent"], found["missing"], found["events"]) == (384, 384, 4)


def test_a_packet_that_comes_after_the_next_train_is_late_and_not_lost(make: Callable[..., Any]) -> None:
    # The first wait takes two seconds; the next train's, for it loses one as well, a fifth of one.
    link = make({9: Fate(delay_ns=2_100 * MS), 11: LOST, 140: LOST})
    assert numbers(link, *COUNTS) == {
        **dict.fromkeys(COUNTS, 0),
        "sent": 384,
        "missing": 2,
        "events": 2,
        "late": 1,
        "reordered": 1,
    }


def test_an_overtaken_packet_is_reordered_and_not_lost(make: Callable[..., Any]) -> None:
    link = make({5: Fate(delay_ns=30_000), 200: Fate(delay_ns=50 * MS)})
    assert numbers(link, *COUNTS) == {**dict.fromkeys(COUNTS, 0), "sent": 384, "reordered": 2}


def test_packets_that_come_in_order_are_never_called_reordered(make: Callable[..., Any]) -> None:
    assert numbers(make(lambda number: Fate(delay_ns=number * 700)), "reordered") == {"reordered": 0}


def test_a_second_copy_is_a_duplicate_whether_at_once_or_a_train_later(make: Callable[..., Any]) -> None:
    link = make({7: Fate(copy_ns=20_000), 8: Fate(copy_ns=150_000)})
    assert numbers(link, *COUNTS) == {**dict.fromkeys(COUNTS, 0), "sent": 384, "duplicate": 2}


def test_an_old_copy_in_the_place_of_a_lost_packet_leaves_it_open(make: Callable[..., Any]) -> None:
    link = make({7: Fate(copy_ns=300_000), 256 + 7: LOST})
    found = play(link)
    assert found["numbers"]["sent"] == 383
    assert (found["numbers"]["missing"], found["numbers"]["unclear"]) == (0, 1)
    assert found["numbers"]["duplicate"] == 1
    assert [path["sent"] for path in found["numbers_by_path"]] == [96, 96, 96, 95]


def test_a_packet_with_one_end_only_is_corrupt(make: Callable[..., Any]) -> None:
    link = make({4: Fate(tail=False), 130: Fate(head=False)})
    assert numbers(link, *COUNTS) == {**dict.fromkeys(COUNTS, 0), "sent": 384, "corrupt": 2, "events": 2}


class TestStalledReceiver:
    def test_packets_that_keep_coming_slowly_are_waited_for(self, make: Callable[..., Any]) -> None:
        """A receiver under load takes one packet every 150 ms: each starts the wait anew."""
        late = {number: Fate(delay_ns=150 * MS * (number - 99)) for number in range(100, 120)}
        assert numbers(make(late), "missing", "late", "sent") == {"missing": 0, "late": 0, "sent": 384}

    @pytest.mark.parametrize("stall_ms", [100, 300, 900, 1900])
    def test_a_driver_that_stands_still_loses_nothing(self, make: Callable[..., Any], stall_ms: int) -> None:
        link = make({100: Fate(delay_ns=MS)}, stalls={1: stall_ms * MS})
        assert numbers(link, "missing", "sent") == {"missing": 0, "sent": 384}

    @pytest.mark.parametrize("freeze_s", [1, 5, 60])
    def test_a_machine_that_stands_still_loses_nothing(self, make: Callable[..., Any], freeze_s: int) -> None:
        link = make({100: Fate(delay_ns=MS)}, freezes={1: freeze_s * 1000 * MS, 2: freeze_s * 1000 * MS})
        assert numbers(link, "missing") == {"missing": 0}

    def test_after_a_loss_the_wait_is_short_but_as_long_as_was_seen_to_be_needed(
        self, make: Callable[..., Any]
    ) -> None:
        link = make({100: LOST, 140: LOST})
        assert numbers(link, "missing") == {"missing": 2}
        # 2 s, and 0.2 s for the second; each is looked for once more when its train is closed.
        assert 2.2e9 < link.now_ns < 3e9
        link = make({99: Fate(delay_ns=300 * MS), 100: LOST, 140: Fate(delay_ns=700 * MS), 141: LOST})
        assert numbers(link, "missing", "late") == {"missing": 2, "late": 0}


def test_batches_are_of_equal_size_and_never_many() -> None:
    batches = node.Batches()
    for train in range(1000):
        batches.add(train % 2)
    # 64 trains make 32 batches of two, and so on: 62 of sixteen, and eight trains that are left out.
    found = batches.result(128)
    assert found == {"batches": 62, "batch_packets": 2048, "batch_lost": 496, "batch_squares": 62 * 64}


@pytest.mark.parametrize(
    ("packets", "paths", "ends_early", "low_s", "high_s"),
    [
        (2_995, 32, True, 24 * 5, 5 * 60),  # 1e-3: each of 24 trains may be an emulated one
        (299_572, 4, True, 2341 * 0.5, 30 * 60),  # 1e-5: no hours
        (299_572, 4, False, 2341 * (0.5 + spec.QUIET_S), 40 * 60),  # each may be waited for
        (2_995, 256, True, 3 * 8 * 5, 5 * 60),  # as long for the same packets in longer trains
    ],
)
def test_the_time_allowed_follows_the_trains(
    packets: int, paths: int, *, ends_early: bool, low_s: float, high_s: float
) -> None:
    assert low_s < spec.deadline_s(packets, paths, ends_early=ends_early) < high_s


class TestEnough:
    LONG = Layout(paths=4, packet_bytes=MTU, packets=128 * 100)

    def test_a_hundred_events_end_the_count(self, make: Callable[..., Any]) -> None:
        link = make(lambda number: LOST if number % 17 == 0 else lossy.ARRIVES, layout=self.LONG)
        found = play(link, packets=12_800)["numbers"]
        assert (found["sent"], found["missing"]) == (16 * 128, 121)  # looked at after 8 and after 16 trains
        assert link.buffer[0] == 1
        assert link.said[-1] == 16

    def test_total_loss_ends_it_too(self, make: Callable[..., Any]) -> None:
        found = play(make(lambda _number: LOST, layout=self.LONG), packets=12_800)["numbers"]
        assert (found["sent"], found["missing"], found["events"]) == (1024, 1024, 4)

    def test_it_goes_on_where_some_loss_is_tolerated(self, make: Callable[..., Any]) -> None:
        link = make(lambda number: LOST if number % 17 == 0 else lossy.ARRIVES, layout=self.LONG)
        assert play(link, packets=12_800, ends_early=0)["numbers"]["sent"] == 12_800
        assert link.buffer[0] == 0


class _Source:
    """The source's end, with a target that answers."""

    path_mtu_bytes = MTU

    def __init__(self, *, enough_at: int = 0, breaks_at: int = 0, kind: str = PEER) -> None:
        self.buffer = memoryview(bytearray(LAYOUT.bytes))
        self.enough_at, self.breaks_at, self.kind = enough_at, breaks_at, kind
        self.bursts: list[tuple[int, ...]] = []
        self.heard: list[int] = []

    def burst(self, first: int, step: int, count: int, paths: int, mark: int, guard: object) -> None:
        del guard
        if len(self.bursts) + 1 == self.breaks_at:
            raise Refusal(self.kind, "no answer")
        self.bursts.append((first, step, count, paths, mark))

    def word_out(self, value: int, guard: object) -> None:
        del guard
        assert value == len(self.bursts)

    def word_in(self, value: int, guard: object) -> None:
        del guard
        self.heard.append(value)
        if value == self.breaks_at and self.kind in {"in", "late"}:
            raise Refusal(PEER if self.kind == "in" else DEADLINE, "no answer")

    def round_trips(self, op: str, length: int, count: int, guard: object, *, pair: int) -> None:
        del guard
        assert (op, length, count, pair) == ("READ", 8, 1, 4)
        self.buffer[0] = int(bool(self.enough_at) and len(self.bursts) >= self.enough_at)


class TestSource:
    def test_it_sends_trains_into_the_banks_in_turn(self) -> None:
        link = _Source()
        assert node.source(link, PARAMETERS, None) == {}  # type: ignore[arg-type]
        banks = [LAYOUT.slot(bank, 0) for bank in (0, 1)]
        marks = [stamp(train, 0) for train in (1, 2, 3)]
        assert link.bursts == [
            (banks[1], MTU, 128, 4, marks[0]),
            (banks[0], MTU, 128, 4, marks[1]),
            (banks[1], MTU, 128, 4, marks[2]),
        ]

    def test_it_ends_when_the_target_has_seen_enough(self) -> None:
        link = _Source(enough_at=10)
        assert node.source(link, {**PARAMETERS, "packets": 12_800}, None) == {}  # type: ignore[arg-type]
        assert link.heard[-1] == 16

    @pytest.mark.parametrize(
        ("breaks_at", "kind", "text"),
        [
            (1, PEER, "no answer"),
            (1, DEADLINE, "no answer"),
            (2, PEER, "after 1 of 3 trains: no answer"),
            (3, PEER, "after 2 of 3 trains: no answer"),
            (3, DEADLINE, "after 2 of 3 trains: no answer"),
        ],
    )
    def test_a_connection_that_breaks_is_an_error_whenever(
        self, breaks_at: int, kind: str, text: str
    ) -> None:
        with pytest.raises(Refusal) as caught:
            node.source(_Source(breaks_at=breaks_at, kind=kind), PARAMETERS, None)  # type: ignore[arg-type]
        assert (caught.value.kind, caught.value.text) == (kind, text)


class TestBrokenTarget:
    @pytest.mark.parametrize("way", ["word_in", "word_out"])
    @pytest.mark.parametrize(
        ("at", "text"), [(1, "no answer"), (2, "after 1 of 3 trains: no answer")], ids=["first", "later"]
    )
    def test_a_connection_that_breaks_is_an_error_that_is_told_at_once(
        self, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, way: str, at: int, text: str
    ) -> None:
        link = make({})
        self._break(monkeypatch, link, at, way, PEER)
        if way == "word_out":
            text = f"after {at} of 3 trains: no answer"  # it was counted before it could be answered
        with pytest.raises(Refusal) as caught:
            play(link)
        assert (caught.value.kind, caught.value.text) == (PEER, text)

    def test_what_was_counted_stands_if_the_time_is_up(
        self, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        link = make({140: LOST})
        self._break(monkeypatch, link, 3)
        assert numbers(link, "sent", "missing") == {"sent": 256, "missing": 1}

    def test_nothing_counted_is_no_result(
        self, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        link = make({})
        self._break(monkeypatch, link, 1)
        with pytest.raises(Refusal):
            play(link)

    @staticmethod
    def _break(
        monkeypatch: pytest.MonkeyPatch, link: Any, at: int, way: str = "word_in", kind: str = DEADLINE
    ) -> None:
        word = getattr(link, way)

        def breaks(value: int, guard: Any) -> None:
            if value == at:
                raise Refusal(kind, "no answer")
            word(value, guard)

        monkeypatch.setattr(link, way, breaks)


class TestReliable:
    """Where the NIC has no unreliable connections."""

    def test_it_falls_back_to_reliable_queue_pairs(self) -> None:
        parameters = node.fall_back(PARAMETERS)
        assert node.setup(parameters).queue_pairs == ("RC",) * 5

    def test_the_target_answers_and_tells_the_packets(self) -> None:
        link = _Source()
        found = node.target(_Words(link), {**PARAMETERS, "unreliable": 0}, None)  # type: ignore[arg-type]
        assert found == {"numbers": {"operations": 384}}

    def test_a_connection_that_breaks_is_an_error(self) -> None:
        link = _Source(breaks_at=3, kind="in")
        with pytest.raises(Refusal) as caught:
            node.target(_Words(link), {**PARAMETERS, "unreliable": 0}, None)  # type: ignore[arg-type]
        assert (caught.value.kind, caught.value.text) == (PEER, "after 2 of 3 trains: no answer")

    def test_what_was_answered_before_the_time_was_up_stands(self) -> None:
        link = _Source(breaks_at=3, kind="late")
        found = node.target(_Words(link), {**PARAMETERS, "unreliable": 0}, None)  # type: ignore[arg-type]
        assert found == {"numbers": {"operations": 256}}

    def test_nothing_answered_is_no_result(self) -> None:
        link = _Source(breaks_at=1, kind="in")
        with pytest.raises(Refusal):
            node.target(_Words(link), {**PARAMETERS, "unreliable": 0}, None)  # type: ignore[arg-type]


class _Words:
    """The words of another link, heard before they are said."""

    path_mtu_bytes = MTU

    def __init__(self, link: _Source) -> None:
        self.word_in = link.word_in
        self.heard = link.heard

    def word_out(self, value: int, guard: object) -> None:
        del guard
        assert self.heard[-1] == value
