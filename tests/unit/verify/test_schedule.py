"""Pairs and rounds: every pair once, no port twice in a round, as few rounds as can be."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricctl.errors import UsageError
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.past import Past
from fabricctl.model.probe import Round
from fabricctl.verify.schedule import bandwidth_rounds, expand, rounds
from tests.fakes.fabrics import build

Build = Callable[..., Fabric]
Fabrics = Callable[..., Fabric]


@pytest.fixture
def fabrics() -> Fabrics:
    return build


def shown(pairs: Sequence[PairId]) -> set[str]:
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


def test_changed_is_all_where_nothing_is_known(star: Build) -> None:
    assert expand(star(4), "changed") == expand(star(4), "changed", past=Past()) == expand(star(4), "rail")


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
        ("everything", "--pairs everything: not understood; write all, rail, all-rails, leaf, ring, changed"),
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


def sound(found: Sequence[Round], pairs: Sequence[PairId]) -> int:
    """Assert that the rounds are sound and return how many there are."""
    assert [r.number for r in found] == list(range(1, len(found) + 1))
    for this in found:
        assert this.pairs
        couples = Counter(frozenset((pair.source, pair.target)) for pair in this.pairs)
        assert set(Counter(port for couple in couples for port in couple).values()) == {1}
        ends = [frozenset((pair.source, pair.target)) for pair in this.pairs]
        assert [one for one, other in pairwise([*ends, frozenset()]) if one != other] == list(couples)
    assert Counter(pair for r in found for pair in r.pairs) == Counter(set(pairs))
    where = {pair: r.number for r in found for pair in r.pairs}
    assert all(where[pair] == where.get(pair.reverse, where[pair]) for pair in where)
    return len(found)


@pytest.mark.parametrize("nodes", range(2, 14))
def test_all_pairs_take_the_fewest_rounds(star: Build, nodes: int) -> None:
    pairs = expand(star(nodes, 2), "all")
    fewest = nodes - 1 if nodes % 2 == 0 else nodes
    assert sound(rounds(pairs), pairs) == fewest
    assert sound(rounds(tuple(pairs)), pairs) == fewest
    assert sound(rounds(pairs, star(nodes, 2)), pairs) == fewest


def test_few_pairs_take_few_rounds(star: Build) -> None:
    for spec, fewest in (("ring", 2), ("node3:all", 9), ("node1:node2,node3:node4", 1)):
        pairs = expand(star(10), spec)
        assert sound(rounds(pairs), pairs) == fewest
    assert rounds(()) == ()


def test_ports_of_one_node_on_one_rail_are_not_paired(star: Build) -> None:
    fabric = star(4, 2)
    alike = replace(
        fabric,
        devices=tuple(
            replace(d, ports=tuple(replace(p, rail=None) for p in d.ports)) for d in fabric.devices
        ),
    )
    pairs = expand(alike, "all")
    assert set(pairs) == set(expand(fabric, "all-rails"))
    assert len(pairs) == 48
    assert sound(rounds(pairs, fabric), pairs) <= 7


def test_one_direction_stays_one(star: Build) -> None:
    pairs = expand(star(6), "all")
    some = [pair for pair in pairs if str(pair) != "node2/eth1 -> node5/eth1"][1:]
    assert sound(rounds(some), some) == 5
    assert sound(rounds(some[::-1]), some) == 5


PORTS = st.builds(PortId, st.sampled_from([f"n{i}" for i in range(9)]), st.sampled_from(["eth1", "eth2"]))


@settings(deadline=None)
@given(st.lists(st.tuples(PORTS, PORTS).filter(lambda ends: ends[0] != ends[1])))
def test_any_pairs_once_each_and_no_port_shared(ends: list[tuple[PortId, PortId]]) -> None:
    pairs = tuple(PairId(a, b) for a, b in ends)
    count = sound(rounds(pairs), pairs)
    degree = Counter(p for e in {frozenset(ends) for ends in ends} for p in e)
    assert count <= max(2 * max(degree.values(), default=0) - 1, 0)


def test_the_first_rounds_touch_all_ports_and_all_leaves_with_all(fabrics: Fabrics) -> None:
    fabric = fabrics(leaves=8, nodes=8)  # 36 pairs of leaves with themselves, 32 couples a round
    found = rounds(expand(fabric, "all"), fabric)
    assert len(found) == 63
    leaf = {port.id: str(fabric.peer(port.id)).partition("/")[0] for port in fabric.node_ports()}
    touched = [{frozenset((leaf[p.source], leaf[p.target])) for p in r.pairs} for r in found]
    assert {port for pair in found[0].pairs for port in (pair.source, pair.target)} == set(leaf)
    assert len(touched[0]) >= 22
    assert len(set().union(*touched[:4])) == 36
    # Without the fabric nobody knows of leaves; the rounds are the same, in another order.
    assert {frozenset(r.pairs) for r in rounds(expand(fabric, "all"))} == {frozenset(r.pairs) for r in found}


def test_no_round_goes_all_across(fabrics: Fabrics) -> None:
    fabric = fabrics(leaves=2, nodes=16)
    leaf = {port.id: str(fabric.peer(port.id)).partition("/")[0] for port in fabric.node_ports()}
    for this in rounds(expand(fabric, "all"), fabric):
        across = sum(leaf[p.source] != leaf[p.target] for p in this.pairs) / len(this.pairs)
        assert 0.1 < across < 0.95


def test_ports_without_cables_are_scheduled_too(star: Build) -> None:
    fabric = replace(star(6), links=())
    pairs = expand(fabric, "all")
    assert sound(rounds(pairs, fabric), pairs) == 5
    assert sound(bandwidth_rounds(fabric, pairs), pairs) == 5


def loads(fabric: Fabric, this: Round) -> dict[str, list[int]]:
    """Return the rates of the couples that cross each leaf's uplinks in a round."""
    found: dict[str, list[int]] = {}
    for ends in {frozenset((pair.source, pair.target)) for pair in this.pairs}:
        one, other = sorted(ends)
        here, there = fabric.peer(one), fabric.peer(other)
        assert here
        assert there
        if here.device != there.device:
            rate = min(fabric.port(one).speed_gbps, fabric.port(other).speed_gbps)
            for name in (here.device, there.device):
                found.setdefault(name, []).append(rate)
    return found


def capacity(fabric: Fabric, leaf: str) -> int:
    return sum(
        fabric.port(end).speed_gbps
        for link in fabric.links
        for end, other in ((link.a, link.b), (link.b, link.a))
        if end.device == leaf and other.device.startswith("spine")
    )


@pytest.mark.parametrize(
    ("leaves", "nodes", "uplinks", "fewest"),
    [
        (4, 8, 8, 31),  # as much up as down: the plain rounds
        (4, 8, 4, 48),  # each leaf has 8 * 24 couples across, and room for 4
        (2, 8, 2, 32),
        (4, 8, 1, 192),
        (8, 4, 2, 56),
        (1, 8, 0, 7),
    ],
)
def test_rounds_for_known_uplinks(
    fabrics: Fabrics, leaves: int, nodes: int, uplinks: int, fewest: int
) -> None:
    fabric = fabrics(leaves=leaves, nodes=nodes, uplinks=uplinks)
    pairs = expand(fabric, "all")
    found = bandwidth_rounds(fabric, pairs)
    assert fewest <= sound(found, pairs) <= fewest * 1.1 + 1
    assert max(sum(r) // 100 for this in found for r in loads(fabric, this).values() or [[0]]) <= uplinks


def test_rails_alike_are_scheduled_alike(fabrics: Fabrics) -> None:
    fabric = fabrics(leaves=4, nodes=4, uplinks=2, rails=3)
    pairs = expand(fabric, "all")
    found = bandwidth_rounds(fabric, pairs)
    assert sound(found, pairs) == len(bandwidth_rounds(fabric, expand(fabrics(4, 4, 2), "all")))
    assert {len(r.pairs) % 3 for r in found} == {0}
    # With pods above them the rails share uplinks, or one rail's are fewer: then each is thought about.
    for other in (fabrics(4, 4, 2, 3, pods=2), fabrics(4, 4, 2, 3, less=True)):
        found = bandwidth_rounds(other, pairs)
        sound(found, pairs)
        for this in found:
            assert all(sum(r) <= capacity(other, name) for name, r in loads(other, this).items())


def test_pods_share_what_leads_out_of_them(fabrics: Fabrics) -> None:
    # 2 leaves of 4 nodes in each of 2 pods; leaves have room for all, pods for 2: 8 * 8 couples across pods.
    fabric = fabrics(leaves=4, nodes=4, uplinks=4, pods=2)
    pairs = expand(fabric, "all")
    found = bandwidth_rounds(fabric, pairs)
    assert 32 <= sound(found, pairs) <= 36
    for this in found:
        pods = [{fabric.device(end.device).pod for end in (p.source, p.target)} for p in this.pairs]
        assert sum(len(pod) > 1 for pod in pods) <= 2 * 2  # both directions


def test_a_couple_that_is_too_much_runs_alone(fabrics: Fabrics) -> None:
    fabric = fabrics(leaves=2, nodes=2, uplinks=1, up_gbps=50)
    pairs = expand(fabric, "all")
    found = bandwidth_rounds(fabric, pairs)
    assert sound(found, pairs) == 5  # each of four across alone; those on a leaf need both of its ports
    assert all(len(r) == 1 for this in found for r in loads(fabric, this).values())


def test_one_direction_stays_one_within_uplinks_too(fabrics: Fabrics) -> None:
    fabric = fabrics(leaves=2, nodes=4, uplinks=1)
    pairs = expand(fabric, "all")[1:]
    found = bandwidth_rounds(fabric, pairs)
    assert 16 <= sound(found, pairs) <= 18
    assert all(len(rates) == 1 for this in found for rates in loads(fabric, this).values())


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_any_fabric_keeps_within_its_uplinks(data: st.DataObject) -> None:
    leaves = data.draw(st.integers(1, 5))
    fabric = build(
        leaves,
        data.draw(st.integers(1, 5)),
        data.draw(st.integers(0, 4)),
        data.draw(st.integers(1, 2)),
        up_gbps=data.draw(st.sampled_from([25, 100, 400])),
        speeds=data.draw(st.lists(st.sampled_from([25, 100, 200]), min_size=1, max_size=3)),
    )
    ports = [port.id for port in fabric.node_ports()]
    couples = [PairId(a, b) for a in ports for b in ports if a.device != b.device]
    pairs = data.draw(st.lists(st.sampled_from(couples), max_size=60) if couples else st.just([]))
    found = bandwidth_rounds(fabric, pairs)
    sound(found, pairs)
    for this in found:
        for leaf, rates in loads(fabric, this).items():
            assert len(rates) == 1 or sum(rates) <= capacity(fabric, leaf)


def test_1024_nodes_are_scheduled_in_two_seconds(star: Build) -> None:
    fabric = star(1024)
    began = time.process_time()
    pairs = expand(fabric, "all")
    assert len(pairs) == 1_047_552
    assert len(rounds(pairs, fabric)) == 1023
    assert time.process_time() - began < 2
