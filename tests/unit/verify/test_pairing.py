"""A couple's samples: what both ends said, put together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.probe import Sample
from fabricctl.model.reading import ZERO, Entry, Known, Missing
from fabricctl.verify.pairing import Jobs, Played

PAIR = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
RESET = Missing("went backwards: it was reset")
GIVEN = {"deadline_s": 5.0, "path_mtu_bytes": 4096}


def played(near: dict[str, Any], far: dict[str, Any], counters: Any = ([{}], [{}])) -> list[Sample]:
    """Return the samples of one job of one direction."""
    agents: Any = tuple(
        SimpleNamespace(device=SimpleNamespace(name=name), engine="native 1") for name in ("node1", "node2")
    )
    made = Played(agents, {0: PAIR}, Jobs.of("j0", {"loss": GIVEN}, (0,)))
    for end, (found, moved) in enumerate(zip((near, far), counters, strict=True)):
        made.keep("prepare", end, {"addresses": "", "mtu_bytes": 9000, "gid": f"g{end}", "gid_index": end})
        made.keep("connect", end, {"path_mtu_bytes": 4096})
        result = {"at_s": 0.5, "took_s": 2, **found}
        made.keep("run", end, {"results": [result], "counted": f"a b{end}", "counters": moved})
    return made.samples()


STILL: dict[str, Entry] = {"source/a": ZERO, "source/b0": ZERO, "target/a": ZERO, "target/b1": ZERO}


@pytest.mark.parametrize(
    ("counters", "changed"),
    [
        (([{}], [{}]), {}),
        (([{"a": 3}], [{}]), {"source/a": Known(3)}),
        (([{}], [{"a": 3, "c": 4}]), {"target/a": Known(3), "target/c": Known(4)}),
        (([{"a": None}], [{"b1": 1}]), {"source/a": RESET, "target/b1": Known(1)}),
        (([{}], []), {"target/a": None, "target/b1": None}),
        (([], [{}]), {"source/a": None, "source/b0": None}),
        (([], []), dict.fromkeys(STILL)),
        (([{}, {"a": 9}], [{}]), {}),
    ],
)
def test_counters_are_those_of_both_ends(counters: Any, changed: dict[str, Entry | None]) -> None:
    (sample,) = played({}, {}, counters)
    expected = {name: entry for name, entry in (STILL | changed).items() if entry is not None}
    assert dict(sample.counters) == expected
    assert sample.error == ""


@pytest.mark.parametrize(
    ("near", "far", "numbers"),
    [
        ({}, {}, {}),
        ({"numbers": {"sent": 3}}, {}, {"sent": 3}),
        ({}, {"numbers": {"missing": 1}}, {"missing": 1}),
        ({"numbers": {"sent": 3, "events": 0}}, {"numbers": {"sent": 2}}, {"sent": 2, "events": 0}),
    ],
)
def test_numbers_are_those_of_both_ends_and_the_target_knows_better(
    near: dict[str, Any], far: dict[str, Any], numbers: dict[str, int]
) -> None:
    (sample,) = played(near, far)
    assert sample.numbers == numbers
    assert (sample.started_at, sample.duration_s, sample.numbers_by_path) == (0.5, 2, ())


def test_paths_latencies_and_parameters_join_a_sample() -> None:
    held = Histogram.of([5, 7])
    near = {"latencies": held.encode(), "warmup": 3, "odd": [1], "numbers_by_path": [{"sent": 1}]}
    (sample,) = played(near, {})
    assert sample.latencies == held
    assert sample.numbers_by_path == ({"sent": 1},)
    assert sample.parameters == {
        **GIVEN,
        "wanted_path_mtu_bytes": 4096,
        "source_mtu_bytes": 9000,
        "target_mtu_bytes": 9000,
        "source_gid": "g0",
        "target_gid": "g1",
        "source_gid_index": 0,
        "target_gid_index": 1,
        "warmup": 3,
    }
    (other,) = played(near, {"numbers_by_path": [{"sent": 4}, {}]})
    assert other.numbers_by_path == ({"sent": 4}, {})


NUMBERS, PATHS = "its counts are no numbers", "its counts by path are no list"
MAKES_NO = "its reply to run makes no sense: results"


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        ({"numbers": {"sent": True}}, NUMBERS),
        ({"numbers": {"sent": 1.0}}, NUMBERS),
        ({"numbers": {"sent": None}}, NUMBERS),
        ({"numbers": []}, NUMBERS),
        ({"numbers": None}, NUMBERS),
        ({"numbers_by_path": {}}, PATHS),
        ({"numbers_by_path": None}, PATHS),
        ({"numbers_by_path": [3]}, NUMBERS),
        ({"numbers_by_path": [{"sent": "1"}]}, NUMBERS),
        ({"at_s": -1}, MAKES_NO),
        ({"at_s": True}, MAKES_NO),
        ({"took_s": float("inf")}, MAKES_NO),
        ({"took_s": float("nan")}, MAKES_NO),
        ({"took_s": "1"}, MAKES_NO),
        ({"at_s": None}, MAKES_NO),
        ({"error": "no"}, MAKES_NO),
        ({"error": {"kind": "peer"}}, MAKES_NO),
    ],
)
@pytest.mark.parametrize("end", [0, 1])
def test_an_end_that_lies_is_named_with_what_makes_no_sense(lie: dict[str, Any], says: str, end: int) -> None:
    (sample,) = played(*([lie, {}] if end == 0 else [{}, lie]))
    assert (sample.error, sample.error_kind) == (f"node{end + 1}: {says}", "wire")
    assert sample.error_device == f"node{end + 1}"


@pytest.mark.parametrize("lie", [None, 3, "", "1.3", "1.3.10.20.2.BB.@@@@"])
def test_latencies_that_make_no_sense_are_the_sources_lie(lie: object) -> None:
    (sample,) = played({"latencies": lie}, {})
    assert sample.error.startswith("node1: loss: its latencies make no sense: no ")
    assert (sample.error_kind, sample.latencies.samples) == ("wire", 0)
