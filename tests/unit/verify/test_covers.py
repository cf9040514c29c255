"""The smallest sets: all of them, split where they do not hang together, greedy where there are too many."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricctl.verify import covers as module
from fabricctl.verify.covers import WINDOW, Cover, covers
from fabricctl.verify.likelihood import Choice, bits, together

PLAIN = Choice()
NIC = Choice(common=True)


def rows(*sets: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return facts by the choices that explain them, each seen once."""
    return [(sum(1 << choice for choice in held), 1) for held in sets]


def test_bits() -> None:
    assert list(bits(0b10110)) == [1, 2, 4]


def test_nothing_to_explain() -> None:
    assert covers([], [PLAIN]) == ()


def test_what_only_one_explains_is_forced() -> None:
    assert covers(rows((0,), (0, 1), (2,)), [PLAIN] * 3) == (Cover((((0,),),)), Cover((((2,),),)))


def test_those_that_explain_the_same_are_one_place() -> None:
    assert covers(rows((0, 1), (0, 1, 2)), [PLAIN] * 3) == (Cover((((0, 1),),)),)


def test_all_equally_small_sets_are_found() -> None:
    (found,) = covers(rows((0, 1), (1, 2), (2, 3), (3, 0)), [PLAIN] * 4)
    assert found.sets == (((0,), (2,)), ((1,), (3,)))
    assert found.exact


def test_groups_that_share_nothing_are_apart() -> None:
    found = covers(rows((0, 1), (4, 5), (1, 2), (5, 6)), [PLAIN] * 7)
    assert [cover.sets for cover in found] == [(((1,),),), (((5,),),)]


def test_a_late_fact_joins_groups_of_either_size() -> None:
    (found,) = covers(rows((0, 1), (0, 2), (4, 5), (0, 4, 9)), [PLAIN] * 10)
    assert found.sets == (((0,), (4,)), ((0,), (5,)))
    (found,) = covers(rows((0, 1), (4, 5), (4, 6), (4, 7), (0, 4, 9)), [PLAIN] * 10)
    assert found.sets == (((0,), (4,)), ((1,), (4,)))


def test_two_nics_stand_against_one_switch_but_three_do_not() -> None:
    two = rows((0, 2), (1, 2))
    assert covers(two, [NIC, NIC, PLAIN])[0].sets == (((2,),), ((0,), (1,)))
    assert covers(two, [PLAIN, NIC, PLAIN])[0].sets == (((2,),),)
    assert covers(two, [NIC, NIC, NIC])[0].sets == (((2,),),)
    three = rows((0, 3), (1, 3), (2, 3))
    assert covers(three, [NIC, NIC, NIC, PLAIN])[0].sets == (((3,),),)


def test_one_thing_in_two_directions_is_not_two_things() -> None:
    one_way = [Choice(common=True, what="a"), Choice(common=True, what="a"), PLAIN]
    assert covers(rows((0, 2), (1, 2)), one_way)[0].sets == (((2,),),)


def test_likelihood() -> None:
    assert Choice(0, 5, 0.5).unlikely() == 0.0
    # Of ten that cross it half the time five fail: ten fair coins.
    assert Choice(5, 5, 0.5).unlikely() == pytest.approx(10 * 0.6931, rel=1e-3)
    # The chance is never less than the share, and what others explain does not count.
    assert Choice(5, 5, 0.5).unlikely(0.0) == pytest.approx(5 * 0.6931, rel=1e-3)


def test_of_those_that_explain_the_same_the_unlikely_ones_are_left_out() -> None:
    near, far = Choice(8, 8, 0.5), Choice(60, 8, 0.5)
    assert far.unlikely() - near.unlikely() > WINDOW
    assert covers(rows((0, 1, 2)), [near, far, near])[0].sets == (((0, 2),),)


def test_two_likely_ones_beat_one_that_takes_much_luck() -> None:
    lucky = Choice(40, 40, 0.5)
    assert covers(rows((0, 2), (1, 2)), [PLAIN, PLAIN, lucky])[0].sets == (((0,), (1,)),)


def test_what_makes_a_lucky_explanation_much_likelier_is_added() -> None:
    # Choice 0 may have been crossed by 200 of which 120 failed; choice 1 explains 60 of those without luck.
    found = covers([(0b101, 60), (0b011, 60)], [Choice(80, 120, 0.3), PLAIN, Choice(300, 60, 0.1)])
    assert found[0].sets == (((0,), (1,)), ((0,),))


def test_one_element_more_is_named_where_the_counts_speak_for_it() -> None:
    # Of 40 that may have crossed choice 0, or 2, ten failed; four of those choice 1 explains as well.
    facts = [(0b111, 4), (0b101, 6)]
    lucky = Choice(30, 10, 0.2)
    assert covers(facts, [lucky, PLAIN, lucky])[0].sets == (((0, 2),), ((0, 2), (1,)))
    # Where nothing of it is luck, nothing is gained.
    assert covers(facts, [PLAIN] * 3)[0].sets == (((0, 2),),)
    # What fails less than half of the time, of which at least half must fail, gains nothing.
    assert covers(facts, [lucky, Choice(9, 4, 0.5), lucky])[0].sets == (((0, 2),),)


def test_how_likely_two_are_together() -> None:
    assert together({0: Choice(30, 10, 0.2)}, {1: 10}) == pytest.approx(22.493, abs=1e-3)
    # What the other surely explains was left out: six of 36, but no less than the share.
    assert together({0: Choice(30, 10, 0.2)}, {1: 6}) == pytest.approx(16.351, abs=1e-3)
    assert together({0: Choice(30, 0, 0.2)}, {}) == pytest.approx(-30 * math.log(0.8))
    # Where many facts count as one.
    assert together({0: Choice(3, 1, 0.2, weight=0.1)}, {1: 10}) == pytest.approx(2.2493, abs=1e-4)
    two = {0: Choice(30, 20, 0.1), 1: Choice(10, 15, 0.1)}
    facts = {0b01: 10, 0b10: 5, 0b11: 10}
    steps = [step / 200 for step in range(20, 200)]
    grid = min(
        -10 * math.log(p)
        - 5 * math.log(q)
        - 10 * math.log(p + q - p * q)
        - 30 * math.log(1 - p)
        - 10 * math.log(1 - q)
        for p in steps
        for q in steps
    )
    assert together(two, facts) == pytest.approx(grid, abs=1e-2)


def test_more_than_three_that_hang_together_are_chosen_greedily() -> None:
    # Every two of five: any four explain it.
    (found,) = covers(rows(*combinations(range(5), 2)), [PLAIN] * 5)
    assert not found.exact
    assert [len(held) for held in found.sets] == [4]


def test_too_much_work_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = rows((0, 1), (1, 2), (2, 3), (3, 0))
    monkeypatch.setattr(module, "_EFFORT", 3)
    (nothing,) = covers(ring, [PLAIN] * 4)
    assert (nothing.exact, len(nothing.sets[0])) == (False, 2)
    monkeypatch.setattr(module, "_EFFORT", 7)
    (something,) = covers(ring, [PLAIN] * 4)
    assert (something.exact, something.sets[0]) == (False, ((0,), (2,)))
    monkeypatch.setattr(module, "_ROWS", 1)
    (found,) = covers(rows((0, 1), (1, 2)), [PLAIN] * 3)
    assert (found.exact, found.sets) == (False, (((1,),),))


def test_of_very_many_facts_a_part_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", 2)
    found = covers(rows((0,), (0, 1), (3,), (0, 2), (4,)), [PLAIN] * 5)
    assert {held for cover in found for held in cover.sets} == {((0,),), ((3,),), ((4,),)}
    assert not all(cover.exact for cover in found)


@settings(max_examples=200, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_the_smallest_are_the_smallest(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  sets to be repeated
    sets = {frozenset(rng.sample(range(7), rng.randint(1, 3))) for _ in range(rng.randint(1, 6))}
    found = covers(rows(*(tuple(held) for held in sets)), [PLAIN] * 7)
    if not all(cover.exact for cover in found):
        return
    smallest = next(
        size for size in range(1, 8) if any(_explain(set(c), sets) for c in combinations(range(7), size))
    )
    assert sum(len(cover.sets[0]) for cover in found) == smallest
    wanted = {frozenset(c) for c in combinations(range(7), smallest) if _explain(set(c), sets)}
    assert _all(found) == wanted


def _explain(chosen: set[int], sets: set[frozenset[int]]) -> bool:
    return all(chosen & held for held in sets)


def _all(found: tuple[Cover, ...]) -> set[frozenset[int]]:
    """Return all sets that the parts come to."""
    whole: set[frozenset[int]] = {frozenset()}
    for cover in found:
        one: set[frozenset[int]] = set()
        for held in cover.sets:
            grown: set[frozenset[int]] = {frozenset()}
            for members in held:
                grown = {so_far | {member} for so_far in grown for member in members}
            one |= grown
        whole = {so_far | more for so_far in whole for more in one}
    return whole
