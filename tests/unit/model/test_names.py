"""Names of ports and pairs: how they read, sort and serve as keys."""

from __future__ import annotations

import copy

import pytest

from fabricctl.model.names import PairId, PortId

A, B = PortId("node1", "eth1"), PortId("node1", "eth2")


def test_names_are_read_and_written() -> None:
    assert str(PortId.parse("leaf1/ethernet1/1")) == "leaf1/ethernet1/1"
    assert (PortId.parse("leaf1/ethernet1/1").device, PortId.parse("a/b/c").port) == ("leaf1", "b/c")
    assert (f"{PairId(A, B)}", repr(A)) == (
        "node1/eth1 -> node1/eth2",
        "PortId(device='node1', port='eth1')",
    )
    for text in ("", "/", "node1", "node1/", "/eth1"):
        with pytest.raises(ValueError, match="not a port name"):
            PortId.parse(text)


def test_names_sort_by_device_and_serve_as_keys() -> None:
    other = PortId("node0", "eth9")
    assert sorted([B, A, other]) == [other, A, B]
    assert {A: 1}[PortId("node1", "eth1")] == 1
    pair = PairId(A, B)
    assert pair.reverse == PairId(B, A) != pair
    assert {pair, pair.reverse, PairId(A, B)} == {pair, pair.reverse}
    assert copy.deepcopy(pair) == pair


def test_names_do_not_change() -> None:
    with pytest.raises(AttributeError):
        A.port = "eth3"  # type: ignore[misc]
