"""Pairs and rounds: every pair once, no port twice in a round, as few rounds as can be."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricctl.errors import UsageError
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.verify.schedule import expand, rounds

Build = Callable[..., Fabric]


def shown(pairs: tuple[PairId, ...]) -> set[str]:
    return {str(pair) for pair in pairs}


def test_all_pairs_of_a_rail_both_ways(star: Build) -> None:
    pairs = expand(star(3, 2), "all")
    assert len(pairs) == len(set(pairs)) == 12
    assert shown(pairs) >= {"node1/eth1 -> node3/eth1", "node3/eth1 -> node1/eth1"}
    assert not any(pair.source.port != pair.target.port for pair in pairs)
    assert expand(star(3, 2), " rail ") == pairs


def test_across_rails_only_on_request(star: Build) -> None:
    pairs = expand(star(3, 2), "all-rails")
    assert len(pairs) == 24
    assert "node1/eth1 -> node2/eth2" in shown(pairs)
    assert "node1/eth1 -> node1/eth2" not in shown(pairs)


def test_one_port_of_each_leaf(clos: Build) -> None:
    assert shown(expand(clos(3), "leaf")) == {
        f"node{a}1/eth1 -> node{b}1/eth1" for a in (1, 2, 3) for b in (1, 2, 3) if a != b
    }


def test_without_cables_every_port_stands_for_itself(star: Build) -> None:
    assert len(expand(replace(star(3), links=()), "leaf")) == 6


def test_ring(star: Build) -> None:
    assert shown(expand(star(3), "ring")) == shown(expand(star(3), "all"))
    assert len(expand(star(5), "ring")) == 10
    assert len(expand(star(2), "ring")) == 2


def test_sample_is_spread_repeatable_and_both_ways(star: Build) -> None:
    fabric = star(8)
    pairs = expand(fabric, "sample=4", seed=7)
    assert len(pairs) == 8
    assert pairs == expand(fabric, "sample=4", seed=7)
    assert pairs != expand(fabric, "sample=4", seed=8)
    # Four couples of eight ports: every port once.
    assert Counter(pair.source.device for pair in pairs) == dict.fromkeys(
        (f"node{n}" for n in range(1, 9)), 1
    )
    assert set(expand(fabric, "sample=999")) == set(expand(fabric, "all"))


def test_named(star: Build) -> None:
    fabric = star(4, 2)
    assert len(expand(fabric, "node2:all")) == 12
    assert shown(expand(fabric, "node1:node2")) == {
        "node1/eth1 -> node2/eth1",
        "node2/eth1 -> node1/eth1",
        "node1/eth2 -> node2/eth2",
        "node2/eth2 -> node1/eth2",
    }
    assert shown(expand(fabric, "node1/eth1:node2/eth2")) == {
        "node1/eth1 -> node2/eth2",
        "node2/eth2 -> node1/eth1",
    }
    assert shown(expand(fabric, "node1/eth2 : node2, node1/eth2:node3")) == {
        "node1/eth2 -> node2/eth2",
        "node2/eth2 -> node1/eth2",
        "node1/eth2 -> node3/eth2",
        "node3/eth2 -> node1/eth2",
    }


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("al", "--pairs al: not understood; did you mean all?"),
        ("everything", "--pairs everything: not understood; write all, rail"),
        ("sample=x", "not a count; write sample=100"),
        ("sample=0", "not a count"),
        ("sample=²", "not a count"),
        ("node1:nod2", "no node or node port 'nod2'; did you mean node2?"),
        ("node1:xyzzy", "no node or node port 'xyzzy'; nodes: node1, node2, node3, node4"),
        ("node1:leaf1", "no node or node port 'leaf1'"),
        ("node1:node1", "comes to no pair"),
        ("node1/eth1:node2/eth1,", "not understood|no node or node port ''"),
        ("leaf", "--pairs leaf comes to no pair; it takes two nodes"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(star: Build, spec: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand(star(), spec)
    assert any(part in str(caught.value) for part in line.split("|"))


def test_many_nodes_are_not_all_listed(star: Build) -> None:
    with pytest.raises(UsageError, match=r"node8, \.\.\. \(12\)"):
        expand(star(12), "xyzzy:all")


def check(pairs: tuple[PairId, ...]) -> int:
    """Assert that the rounds are sound and return how many there are."""
    found = rounds(pairs)
    assert [r.number for r in found] == list(range(1, len(found) + 1))
    for this in found:
        ports = [port for pair in this.pairs for port in (pair.source, pair.target)]
        assert ports
        assert len(ports) == len(set(ports))
    assert Counter(pair for r in found for pair in r.pairs) == Counter(set(pairs))
    return len(found)


@pytest.mark.parametrize("nodes", range(2, 14))
def test_all_pairs_take_the_fewest_rounds(star: Build, nodes: int) -> None:
    pairs = expand(star(nodes, 2), "all")
    assert check(pairs) == 2 * (nodes - 1 if nodes % 2 == 0 else nodes)


def test_few_pairs_take_few_rounds(star: Build) -> None:
    assert check(expand(star(10), "ring")) == 4
    assert check(expand(star(10), "node3:all")) == 18
    assert check(expand(star(10), "node1:node2,node3:node4")) == 2
    assert rounds(()) == ()


PORTS = st.builds(PortId, st.sampled_from([f"n{i}" for i in range(9)]), st.sampled_from(["eth1", "eth2"]))


@settings(deadline=None)
@given(st.lists(st.tuples(PORTS, PORTS).filter(lambda ends: ends[0] != ends[1])))
def test_any_pairs_once_each_and_no_port_shared(ends: list[tuple[PortId, PortId]]) -> None:
    pairs = tuple(PairId(a, b) for a, b in ends)
    count = check(pairs)
    degree = Counter(p for e in {frozenset(ends) for ends in ends} for p in e)
    assert count <= 2 * max(2 * max(degree.values(), default=0) - 1, 0)


def test_512_ports_are_scheduled_in_seconds(star: Build) -> None:
    began = time.process_time()
    pairs = expand(star(512), "all")
    assert len(rounds(pairs)) == 1022
    assert time.process_time() - began < 20
