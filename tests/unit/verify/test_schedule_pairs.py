"""Many pairs in little memory: a sequence like any other."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.verify.pairs import Pairs, circle, numbers
from fabricctl.verify.schedule import expand, rounds

Build = Callable[..., Fabric]

A, B, C = (PortId(f"node{n}", "eth1") for n in (1, 2, 3))
AB, BA, AC = PairId(A, B), PairId(B, A), PairId(A, C)


def test_it_is_a_sequence_of_pairs() -> None:
    pairs = Pairs.of([AB, BA, AC, AB])
    assert list(pairs) == [AB, BA, AC]
    assert pairs[0] == AB
    assert pairs[-1] == AC
    assert pairs[1:] == [BA, AC]
    assert BA in pairs
    assert PairId(C, A) not in pairs
    assert pairs.index(AC) == 2
    assert Pairs.of(pairs) is pairs
    assert not Pairs.of(())


def test_it_equals_the_same_pairs_and_nothing_else() -> None:
    pairs = Pairs.of([AB, AC])
    assert pairs == (AB, AC)
    assert hash(pairs) == hash((AB, AC))
    assert pairs == Pairs((C, B, A), array("H", [2, 2]), array("H", [1, 0]))
    assert pairs != (AC, AB)
    assert pairs != (AB,)
    assert pairs != "ab"
    assert pairs != 2


def test_it_shows_a_few() -> None:
    assert repr(Pairs.of([AB])) == "<1 pairs: node1/eth1 -> node2/eth1>"
    assert repr(Pairs.of([AB, BA, AC, PairId(C, A)])).endswith("node1/eth1 -> node3/eth1, ...>")


def test_parts_are_joined() -> None:
    pairs = Pairs.of([AB, BA, AC])
    assert Pairs.joined([pairs[2:], pairs[:2]]) == (AC, AB, BA)
    assert Pairs.joined([]) == ()
    assert pairs.at([2, 0]) == (AC, AB)
    assert pairs[:2].taking_part() == (A, B)


def test_both_ways_or_not() -> None:
    assert Pairs.of([AB, BA]).is_both_ways()
    assert not Pairs.of([AB, BA, AC]).is_both_ways()
    assert not Pairs.of([AB, AC, BA, PairId(C, A)]).is_both_ways()
    assert Pairs.of([]).is_both_ways()


def test_those_among_some_ports(star: Build) -> None:
    pairs = expand(star(6), "all")
    assert pairs.among(pairs.ports) is pairs
    four = pairs.among(pairs.ports[:4])
    assert four == expand(star(4), "all")
    assert len(rounds(four)) == 3
    assert pairs.among([]) == ()
    assert rounds(pairs.among([])) == rounds(pairs.among(pairs.ports[:1])) == ()
    assert Pairs.of([AB, BA, AC]).among([A, B]) == (AB, BA)


def test_many_ports_have_longer_numbers() -> None:
    assert numbers(65_536, [65_535]).itemsize == 2
    assert numbers(65_537, [65_536])[0] == 65_536


@pytest.mark.parametrize("seats", range(1, 12))
def test_in_the_circle_all_meet_once(seats: int) -> None:
    turns = circle(array("H", range(seats)))
    assert len(turns) == seats - 1 + seats % 2
    met = [frozenset(couple) for firsts, seconds in turns for couple in zip(firsts, seconds, strict=True)]
    assert len(met) == len(set(met)) == seats * (seats - 1) // 2
    assert all(len(set(firsts) | set(seconds)) == seats // 2 * 2 for firsts, seconds in turns)
