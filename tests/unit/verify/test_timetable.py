"""Which rounds are granted, and what is said of those that are not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fabricctl.model.fabric import Fabric
from fabricctl.model.past import Past
from fabricctl.verify import timetable
from fabricctl.verify.schedule import expand
from fabricctl.verify.timetable import Budget, Timetable

QUIET = {"read_latency": {"samples": 100, "deadline_s": 9.0}, "loss": {"packets": 100, "deadline_s": 9.0}}
FILLING = {"write_bandwidth": {"seconds": 1.0, "deadline_s": 9.0}}


class _Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1e9 + self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(timetable, "time", made)
    return made


def _course() -> Any:
    return SimpleNamespace(over=0, under_way=0)


def _table(fabric: Fabric, budget_s: float | None, told: list[str], *probes: Any) -> Timetable:
    return Timetable(fabric, Past(), Budget(budget_s, 0.0), (probes[0], probes[1]), told.append)


def test_without_a_budget_all_rounds_are_granted_the_quiet_ones_first(
    star: Callable[..., Fabric], clock: _Clock
) -> None:
    del clock
    fabric, told = star(4), list[str]()
    pairs = expand(fabric, "all")
    table = _table(fabric, None, told, QUIET, FILLING)
    legs = [leg for leg in table.legs(pairs, _course()) if leg is not None]
    assert [leg.alone for leg in legs] == [False] * 3 + [True] * 3
    assert [set(leg.probes) for leg in legs] == [set(QUIET)] * 3 + [set(FILLING)] * 3
    for kind in (False, True):
        assert sorted(p for leg in legs if leg.alone is kind for p in leg.round.pairs) == sorted(pairs)
    assert list(table.left_out()) == []
    assert told == []


@pytest.mark.parametrize(("probes", "alone"), [((QUIET, {}), False), (({}, FILLING), True)])
def test_kind_without_probes_has_no_rounds(star: Callable[..., Fabric], probes: Any, *, alone: bool) -> None:
    fabric = star(4)
    table = _table(fabric, None, [], *probes)
    legs = [leg for leg in table.legs(expand(fabric, "all"), _course()) if leg is not None]
    assert [leg.alone for leg in legs] == [alone] * 3


def test_second_round_waits_until_it_is_known_what_one_takes(
    star: Callable[..., Fabric], clock: _Clock
) -> None:
    fabric, course = star(6), _course()  # 5 rounds
    table = _table(fabric, 100.0, [], QUIET, {})
    legs = table.legs(expand(fabric, "all"), course)
    assert next(legs) is not None
    course.under_way = 1
    assert [next(legs), next(legs)] == [None, None]
    course.over, course.under_way, clock.now = 1, 0, 30.0
    assert next(legs) is not None  # 70 s are left, each takes 30
    course.under_way = 1
    assert next(legs) is not None  # 70 s, of which 30 are taken by the one under way
    course.under_way = 2
    assert next(legs, "the end") == "the end"
    left = list(table.left_out())
    assert len(left) == 2 * 6 * len(QUIET)
    assert {(s.error, s.error_kind) for s in left} == {
        ("left out: --time-budget 100 s was used up", "budget")
    }


def test_pairs_that_are_not_covered_are_left_out_of_both_kinds(
    star: Callable[..., Fabric], clock: _Clock
) -> None:
    del clock
    fabric, told, course = star(4), list[str](), _course()
    table = _table(fabric, 0.5, told, QUIET, FILLING)
    legs = []
    for leg in table.legs(expand(fabric, "all"), course):
        assert leg is not None
        legs.append(leg)
        course.over += 1
    assert [leg.alone for leg in legs] == [False, True]
    assert sorted(legs[0].round.pairs) == sorted(legs[1].round.pairs)
    left = list(table.left_out())
    assert len(left) == 8 * 3
    assert len({(s.pair, s.probe) for s in left}) == 8 * 3
    assert not {s.pair for s in left} & set(legs[0].round.pairs)
    assert told[0].startswith("the time budget has 0 s left: 1 round of about ")
    assert told[0].endswith("cover 4 of 12 pairs (4 never tested) and leave 8 (8 never tested)")
