"""Counters that speak against a port's own cable, summed over all its samples; missing is not zero."""

from __future__ import annotations

from fabricctl.model.names import PairId, PortId
from fabricctl.model.probe import Sample
from fabricctl.model.reading import Known, Missing
from fabricctl.verify.telltales import telltales

A, B = PortId("node1", "eth1"), PortId("node2", "eth1")


def test_each_end_has_its_own_and_they_add_up() -> None:
    there = {
        "source/symbol_error": Known(3),
        "target/rx_icrc_encapsulated": Known(0),
        "source/packet_seq_err": Known(9),
        "target/symbol_error": Missing("no such file"),
    }
    back = {
        "target/symbol_error": Known(4),
        "target/link_downed": Known(1),
        "source/symbol_error": Known("x"),
    }
    samples = [
        Sample(PairId(A, B), "loss", "n", 0, 1, counters=there),
        Sample(PairId(B, A), "loss", "n", 0, 1, counters=back),
    ]
    assert telltales(samples) == {A: "link_downed +1, symbol_error +7"}
    assert telltales([]) == {}
