"""Headroom: what physics asks for, what SONiC computes, and what a switch that was read gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.checks.headroom import SPECTRUM, Wire, computed, least_bytes, on_the_way_bytes, response_bytes
from fabricctl.model import facts, settings
from fabricctl.model.names import PortId
from fabricctl.model.reading import Missing
from fabricctl.model.verdict import Outcome

PORT = "leaf1/Ethernet0"
speeds = st.sampled_from([10, 25, 40, 50, 100, 200, 400, 800])
lengths = st.floats(min_value=0, max_value=2000)
mtus = st.integers(min_value=256, max_value=9216)


@pytest.mark.parametrize(
    ("speed", "length", "xoff", "size"),
    [
        (100, 5, 46_080, 65_536),
        (100, 100, 59_392, 78_848),
        (100, 300, 86_016, 105_472),
        (400, 5, 88_064, 136_192),
        (400, 100, 138_240, 186_368),
        (800, 5, 97_280, 145_408),
    ],
)
def test_a_spectrum_4_computes_as_sonic_does(speed: int, length: int, xoff: int, size: int) -> None:
    """MTU 4200 in the lossless class, 9216 on the port, half small packets; 8 lanes from 400 Gb/s on."""
    wire = Wire(speed, length, port_mtu_bytes=9216, lossless_mtu_bytes=4200)
    found = computed(SPECTRUM[4], wire, lanes=4 if speed == 100 else 8)
    assert (found.xoff, found.size) == (xoff, size)
    assert found.xoff > least_bytes(wire)


def test_a_shared_pool_keeps_only_xon_and_adds_no_margin() -> None:
    wire = Wire(100, 5, 9216, 4200)
    found = computed(SPECTRUM[4], wire, shared_pool=True)
    assert (found.xoff, found.xon, found.size) == (44_032, 19_456, 19_456)


def test_the_newest_needs_more_than_the_others() -> None:
    wire = Wire(400, 5, 9216, 4200)
    assert computed(SPECTRUM[6], wire).xoff > computed(SPECTRUM[5], wire).xoff + 8 * 1024
    assert computed(SPECTRUM[5], wire) == computed(SPECTRUM[4], wire)


@given(st.sampled_from(sorted(SPECTRUM)), speeds, lengths, mtus, mtus)
def test_no_asic_computes_less_than_physics_asks_for(
    generation: int, speed: int, length: float, port: int, lossless: int
) -> None:
    wire = Wire(speed, length, max(port, lossless), lossless)
    assert computed(SPECTRUM[generation], wire).xoff >= least_bytes(wire)


@given(speeds, lengths, lengths, mtus)
def test_both_grow_with_length(speed: int, one: float, other: float, mtu: int) -> None:
    short, long = sorted((one, other))
    a, b = (Wire(speed, length, 9216, mtu) for length in (short, long))
    assert least_bytes(a) <= least_bytes(b)
    assert computed(SPECTRUM[4], a).xoff <= computed(SPECTRUM[4], b).xoff


@given(speeds, speeds, lengths, mtus)
def test_both_grow_with_speed(one: int, other: int, length: float, mtu: int) -> None:
    slow, fast = sorted((one, other))
    a, b = (Wire(speed, length, 9216, mtu) for speed in (slow, fast))
    assert least_bytes(a) <= least_bytes(b)
    assert (
        computed(SPECTRUM[4], a, small_percent=100).xoff <= computed(SPECTRUM[4], b, small_percent=100).xoff
    )


@given(speeds, lengths, mtus, mtus)
def test_both_grow_with_the_port_mtu(speed: int, length: float, one: int, other: int) -> None:
    small, large = sorted((one, other))
    a, b = (Wire(speed, length, mtu, 256) for mtu in (small, large))
    assert least_bytes(a) <= least_bytes(b)
    assert (
        computed(SPECTRUM[4], a, small_percent=100).xoff <= computed(SPECTRUM[4], b, small_percent=100).xoff
    )


@pytest.mark.parametrize(
    ("speed", "quanta"),
    [(1, 0), (10, 67), (25, 80), (40, 118), (50, 147), (100, 394), (200, 453), (800, 905)],
)
def test_response_to_a_pause_by_speed(speed: int, quanta: int) -> None:
    assert response_bytes(speed) == quanta * 64


def test_the_cable_holds_five_nanoseconds_a_metre_both_ways() -> None:
    assert on_the_way_bytes(100, 100) == pytest.approx(12_626, abs=1)


@pytest.mark.parametrize("port", ["leaf1/Ethernet0", "leaf2/Ethernet1/1", "spine1/swp2", "pod1/Ethernet1/1"])
def test_headroom_of_zero_on_a_pfc_port_fails(site: Any, port: str) -> None:
    site.fact(port, facts.HEADROOM, (61_440, 0, 0, 0, 0, 0, 0, 0))
    assert site.fails("headroom") == [
        (port, "priority 3 has PFC and no headroom: packets are dropped in spite of PFC")
    ]


@pytest.mark.parametrize("state", ["down", Missing("not said")])
def test_headroom_of_zero_on_a_port_that_is_not_up_is_unknown(site: Any, state: Any) -> None:
    site.fact(PORT, facts.HEADROOM, (0,) * 8)
    site.fact(PORT, facts.LINK_STATE, state)
    assert site.bad("headroom") == [
        (Outcome.UNKNOWN, PORT, "priority 3 has PFC and no headroom, on a port that is not up")
    ]


def test_less_than_physics_asks_for_is_a_warning_never_a_failure(site: Any) -> None:
    site.fact(PORT, facts.HEADROOM, (0, 0, 0, 43_810, 0, 0, 0, 0))
    assert site.bad("headroom") == [
        (
            Outcome.UNKNOWN,
            PORT,
            (
                "headroom of priority 3 is 43810 bytes, less than the 43811 that physics asks for"
                " (MTU 9216 and 9000, 3 m at 100 Gb/s, and the response)"
            ),
        )
    ]
    site.fact(PORT, facts.HEADROOM, (0, 0, 0, 43_811, 0, 0, 0, 0))
    assert site.fails("headroom") == []


def test_the_formula_is_named_where_the_asic_is(site: Any) -> None:
    site.fact(PORT, facts.HEADROOM, (0, 0, 0, 20_000, 0, 0, 0, 0))
    site.fact(PORT, facts.DRIVER, "mellanox Spectrum-4 (ACS-SN5600)")
    ((_, _, what),) = site.bad("headroom")
    assert what.endswith("; SONiC computes about 50176 for a Spectrum-4")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (Missing("no row in APPL_DB"), "headroom_bytes: no row in APPL_DB"),
        ((1, 2), "headroom_bytes: unparsable: (1, 2)"),
        (("a",) * 8, "headroom_bytes: unparsable: ('a', 'a', 'a', 'a', 'a', 'a', 'a', 'a')"),
    ],
)
def test_headroom_that_was_not_read_is_unknown(site: Any, entry: Any, why: str) -> None:
    site.fact(PORT, facts.HEADROOM, entry)
    assert site.bad("headroom") == [(Outcome.UNKNOWN, PORT, why)]


def test_a_port_without_pfc_needs_none(site: Any) -> None:
    site.set(PORT, settings.PFC, ())
    site.fact(PORT, facts.HEADROOM, Missing("none"))
    assert site.fails("headroom") == []
    assert "PFC is off: no headroom is needed" in {f.what for f in site.judge("headroom")}


def test_pfc_that_was_not_read_is_unknown(site: Any) -> None:
    site.set(PORT, settings.PFC, Missing("unparsable"))
    assert site.bad("headroom") == [(Outcome.UNKNOWN, PORT, "pfc_priorities: unparsable")]


def test_offline_it_says_what_is_needed(site: Any) -> None:
    site.readings = None
    found = {f.subject: f for f in site.judge("headroom")}
    assert len(found) == 9
    assert {f.outcome for f in found.values()} == {Outcome.PASS}
    assert found[PORT].what == (
        "priorities 3 need 43811 bytes or more: MTU 9216 and 9000, 3 m at 100 Gb/s, and the response"
    )
    assert found[PORT].next_step == ""


def test_offline_a_length_that_is_not_known_is_a_note(site: Any) -> None:
    site.readings = None
    site.changed = {PortId.parse(PORT): {"cable_length_m": 0.0, "speed_gbps": 0}}
    (found,) = [f for f in site.judge("headroom") if f.subject == PORT]
    assert (found.outcome, found.next_step) == (
        Outcome.PASS,
        "give cable_length_m and speed_gbps in the inventory",
    )
    assert "18216 bytes or more: MTU 9216 and 9000, a cable of unknown length at unknown speed" in found.what


def test_no_switch_with_buffers_is_unknown_where_pfc_is_meant(site: Any) -> None:
    site.readings = {"node1": site.readings["node1"]}
    assert site.bad("headroom") == [
        (Outcome.UNKNOWN, "fabric", "no switch port was looked at: nothing was judged")
    ]


def test_offline_without_pfc_nothing_is_needed(site: Any) -> None:
    site.readings = None
    site.policy = replace(site.policy, pfc_priorities=(), watchdog=None)
    assert {f.what for f in site.judge("headroom")} == {"no PFC is meant: no headroom is needed"}
