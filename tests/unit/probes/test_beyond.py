"""Long messages that every probe tries: what their judge makes of the counts."""

from __future__ import annotations

import pytest

from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Limits
from fabricctl.model.probe import Sample
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.beyond import holes

PAIR = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
COUNTS = {"small_bytes": 8, "small_answered": 1100, "large_bytes": 16_384, "large_asked": 4}


def sample(answered: int | None, *, error: str = "") -> Sample:
    numbers = {} if answered is None else {**COUNTS, "large_answered": answered}
    latencies = Histogram.of(range(1000, 2000))
    parameters: dict[str, str | int | float] = {
        "path_mtu_bytes": 4096,
        "stopped": "on queue pair 1: no answer",
    }
    return Sample(
        PAIR,
        "read_latency",
        "native 1",
        0.0,
        1.0,
        error=error,
        latencies=latencies,
        numbers=numbers,
        parameters=parameters,
    )


def test_all_answered_says_nothing() -> None:
    assert holes("read_latency", PAIR, [sample(4)]) == ()


@pytest.mark.parametrize("answered", [0, 1, 3])
def test_one_that_is_not_answered_fails(answered: int) -> None:
    (finding,) = holes("read_latency", PAIR, [sample(4), sample(answered)])
    assert finding.outcome is Outcome.FAIL
    assert finding.what == (
        "read_latency: messages of 16384 bytes do not arrive while those of 8 bytes do:"
        f" {answered} of 4 with packets of the path MTU 4096 were answered, all 1100 short ones were;"
        " on queue pair 1: no answer"
    )
    assert (finding.measured, finding.limit) == (f"{answered} of 4 long messages answered", "4 of 4")
    assert "fabricctl plan" in finding.next_step


def test_what_was_not_tried_is_left_to_the_probe() -> None:
    assert holes("read_latency", PAIR, [sample(None), sample(0, error="no answer")]) == ()


@pytest.mark.parametrize("probe", ["read_latency", "write_latency", "write_pingpong", "send_latency"])
def test_a_fast_path_with_a_hole_fails(probe: str) -> None:
    found = finder.probe(probe).judge(PAIR, "same_leaf", [sample(0)], Limits((), None))
    assert [finding.outcome for finding in found] == [Outcome.PASS, Outcome.FAIL]
    found = finder.probe(probe).judge(PAIR, "same_leaf", [sample(4)], Limits((), None))
    assert [finding.outcome for finding in found] == [Outcome.PASS]
