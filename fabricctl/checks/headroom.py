"""PFC priorities of switch ports have headroom for what is still on the way when they pause.

Offline, passes and says the least headroom that a switch port's PFC priorities need; a cable length or speed
that the inventory does not name counts as nothing, with a note.

With readings, the device's own computation is the truth. Passes if it gives every PFC priority at least what
physics asks for. Fails if it gives none to a priority with PFC on a port that is up: packets are dropped in
spite of PFC. Unknown if it gives less than physics asks for, if it gives none on a port that is not up (some
systems take it back there), if it has not said, or if headroom was used and no pause was ever sent. Node
ports, and switches whose driver has no such buffers, are left out.

Sources: IEEE 802.3 annex 31B.3.7 for the response to a pause; SONiC's computation for Mellanox ASICs
(``buffer_headroom_mellanox.lua``, ``asic_table.j2``) for the formula by ASIC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabricctl.model import facts, settings
from fabricctl.model.fabric import Fabric, LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.holding import PRIORITIES, Held, look, said

_NAME = "headroom"
_KIB = 1024
_LIGHT_M_PER_S = 198_000_000
"""Speed of light in glass and copper, as SONiC counts it."""
_RESPONSE_QUANTA = ((10, 67), (25, 80), (40, 118), (50, 147), (100, 394), (200, 453), (400, 905), (800, 905))
"""Time that a port may take to react to a pause, by speed in Gb/s: quanta of 512 bit times, 64 bytes each."""
_QUANTUM_BYTES = 64
_LANES = 8


@dataclass(frozen=True, slots=True)
class Wire:
    """What headroom depends on.

    Parameters
    ----------
    port_mtu_bytes
        The longest packet that this port may be sending when it wants to pause.
    lossless_mtu_bytes
        The longest packet that the other end may have begun to send.
    """

    speed_gbps: float
    length_m: float
    port_mtu_bytes: int
    lossless_mtu_bytes: int


@dataclass(frozen=True, slots=True)
class Asic:
    """Constants of a Spectrum ASIC.

    Parameters
    ----------
    extra_bytes
        What it needs besides.
    per_gbps_bytes
        What it needs besides for every Gb/s.
    """

    cell_bytes: int
    pipeline_kib: int = 19
    mac_phy_kib: float = 0.8
    extra_bytes: int = 0
    per_gbps_bytes: int = 0


SPECTRUM: Mapping[int, Asic] = {
    1: Asic(96),
    2: Asic(144),
    3: Asic(144),
    4: Asic(192, per_gbps_bytes=15),
    5: Asic(192, per_gbps_bytes=15),
    6: Asic(256, pipeline_kib=42, extra_bytes=18 * _KIB),
}
"""By generation."""


@dataclass(frozen=True, slots=True)
class Computed:
    """Sizes in bytes as a Spectrum computes them."""

    xoff: int
    xon: int
    size: int


def response_bytes(speed_gbps: float) -> int:
    """Return what arrives while the other end reacts to a pause; of the next lower speed that is defined."""
    quanta = [quanta for speed, quanta in _RESPONSE_QUANTA if speed <= speed_gbps]
    return quanta[-1] * _QUANTUM_BYTES if quanta else 0


def on_the_way_bytes(speed_gbps: float, length_m: float) -> float:
    """Return what is in the cable, both ways."""
    return 2 * length_m * speed_gbps * 1e9 / (8 * _LIGHT_M_PER_S)


def least_bytes(wire: Wire) -> int:
    """Return what physics asks for: a packet each way, what is in the cable, and the response."""
    flying = on_the_way_bytes(wire.speed_gbps, wire.length_m) + response_bytes(wire.speed_gbps)
    return wire.port_mtu_bytes + wire.lossless_mtu_bytes + math.ceil(flying)


def computed(
    asic: Asic, wire: Wire, *, small_percent: int = 50, lanes: int = 4, shared_pool: bool = False
) -> Computed:
    """Return what SONiC computes for a port of a Spectrum.

    Parameters
    ----------
    small_percent
        Share of packets of 64 bytes, 0..100, that the computation assumes (``small_packet_percentage``).
    lanes
        Serial lanes of the port: with 8 its thresholds are larger.
    shared_pool
        Whether ports share a pool of headroom.
    """
    xoff = _xoff(asic, wire, small_percent)
    worst = _xoff(asic, wire, 100)
    margin = 2 * _KIB
    if small_percent < 100 and not shared_pool and worst - xoff > margin:  # noqa: PLR2004  percent
        xoff += margin
    many = lanes == _LANES
    xon = asic.pipeline_kib * _KIB * (2 if many else 1)
    size = xon if shared_pool else xoff + xon + (wire.port_mtu_bytes if many else 0)
    return Computed(xoff, xon, size)


def _xoff(asic: Asic, wire: Wire, small_percent: int) -> int:
    cell = asic.cell_bytes
    worst_cells = math.ceil(cell / 64) if cell > 128 else 2 * cell / (1 + cell)  # noqa: PLR2004  bytes
    mean = (small_percent * 64 + (100 - small_percent) * wire.lossless_mtu_bytes) / 100
    small = 6400 / mean
    occupancy = (100 - small + small * worst_cells) / 100
    flying = (
        wire.port_mtu_bytes
        + on_the_way_bytes(wire.speed_gbps, wire.length_m)
        + asic.mac_phy_kib * _KIB
        + response_bytes(wire.speed_gbps)
        + wire.speed_gbps * asic.per_gbps_bytes
    )
    return _kib(wire.lossless_mtu_bytes + flying * occupancy) + asic.extra_bytes


def _kib(size: float) -> int:
    return math.ceil(size / _KIB) * _KIB


class Headroom:
    """Holds each switch port's headroom against what physics asks for."""

    name = _NAME

    def judge(
        self,
        fabric: Fabric,
        policy: Policy,
        intents: Mapping[PortId, PortIntent],
        readings: Mapping[str, DeviceReading] | None,
    ) -> tuple[Finding, ...]:
        """Return the findings of each Ethernet port of a switch."""
        ports = [
            port.id
            for device in fabric.switches()
            for port in device.ports
            if readings is None or device.name in readings
        ]
        found: list[Finding] = []
        for port in ports:
            intent = intents.get(port)
            if intent is None:
                found.append(Finding(_NAME, str(port), Outcome.UNKNOWN, f"there is no intent for {port}"))
            elif intent.link_layer is LinkLayer.INFINIBAND or readings is None:
                found.append(_offline(intent, _wire(fabric, intents, intent)))
            else:
                held = look(fabric, port, intents, readings)
                found += _read(port, held, _wire(fabric, intents, intent))
        if found:
            return tuple(found)
        if readings is not None and ports:
            what = "no switch that was read has buffers with headroom to judge"
            outcome = Outcome.UNKNOWN if policy.pfc_priorities else Outcome.PASS
            return (Finding(_NAME, "fabric", outcome, what),)
        what = "no switch port was looked at: nothing was judged"
        return (Finding(_NAME, "fabric", Outcome.UNKNOWN, what, next_step="add switch ports, or read them"),)


def _wire(fabric: Fabric, intents: Mapping[PortId, PortIntent], intent: PortIntent) -> Wire:
    peer = fabric.peer(intent.port)
    other = intents.get(peer) if peer else None
    mtu = intent.mtu_bytes if other is None else other.mtu_bytes
    return Wire(intent.speed_gbps, intent.cable_length_m, intent.mtu_bytes, mtu)


def _offline(intent: PortIntent, wire: Wire) -> Finding:
    subject = str(intent.port)
    if intent.link_layer is LinkLayer.INFINIBAND or not intent.pfc_priorities:
        return Finding(_NAME, subject, Outcome.PASS, "no PFC is meant: no headroom is needed")
    what = (
        f"priorities {said(intent.pfc_priorities)} need {least_bytes(wire)} bytes or more: {_because(wire)}"
    )
    lacking = [
        name
        for name, value in (("cable_length_m", wire.length_m), ("speed_gbps", wire.speed_gbps))
        if not value
    ]
    advice = f"give {' and '.join(lacking)} in the inventory" if lacking else ""
    return Finding(_NAME, subject, Outcome.PASS, what, next_step=advice)


def _because(wire: Wire) -> str:
    length = f"{wire.length_m:g} m" if wire.length_m else "a cable of unknown length"
    speed = f"{wire.speed_gbps:g} Gb/s" if wire.speed_gbps else "unknown speed"
    return f"MTU {wire.port_mtu_bytes} and {wire.lossless_mtu_bytes}, {length} at {speed}, and the response"


def _read(port: PortId, held: Held | str, wire: Wire) -> list[Finding]:
    if isinstance(held, str):
        return [Finding(_NAME, str(port), Outcome.UNKNOWN, held)]
    if settings.LOSSLESS_BUFFERS not in held.wanted:
        return []
    pfc = held.known.get(settings.PFC)
    if not isinstance(pfc, tuple):
        why = f"{settings.PFC}: {held.gaps.get(settings.PFC, 'it was not read')}"
        return [Finding(_NAME, str(port), Outcome.UNKNOWN, why)]
    priorities = [priority for priority in pfc if isinstance(priority, int)]
    if not priorities:
        return [Finding(_NAME, str(port), Outcome.PASS, "PFC is off: no headroom is needed")]
    given = held.fact(facts.HEADROOM)
    if not isinstance(given, tuple) or len(given) != PRIORITIES:
        return [Finding(_NAME, str(port), Outcome.UNKNOWN, held.fact_gap(facts.HEADROOM))]
    bad = [*_too_little(held, priorities, given, wire), *_unpaused(held, priorities)]
    if bad:
        return bad
    shown = ", ".join(f"{given[p]} bytes on priority {p}" for p in priorities)
    return [Finding(_NAME, str(port), Outcome.PASS, f"{shown}; {least_bytes(wire)} are needed")]


def _too_little(
    held: Held, priorities: list[int], given: tuple[int | str, ...], wire: Wire
) -> Iterator[Finding]:
    subject = str(held.port)
    up = held.fact(facts.LINK_STATE) == "up"
    for priority in priorities:
        size = given[priority]
        if not isinstance(size, int):
            yield Finding(_NAME, subject, Outcome.UNKNOWN, held.fact_gap(facts.HEADROOM))
        elif size <= 0 and up:
            what = f"priority {priority} has PFC and no headroom: packets are dropped in spite of PFC"
            step = "see the cable length that the switch is set to, and its buffer profile for this speed"
            yield Finding(
                _NAME, subject, Outcome.FAIL, what, f"{size} bytes", next_step=step, culprit=subject
            )
        elif size <= 0:
            what = f"priority {priority} has PFC and no headroom, on a port that is not up"
            yield Finding(_NAME, subject, Outcome.UNKNOWN, what, next_step="bring the link up and read again")
        elif size < least_bytes(wire):
            what = (
                f"headroom of priority {priority} is {size} bytes, less than the {least_bytes(wire)} that"
                f" physics asks for ({_because(wire)}){_by_formula(held, wire)}"
            )
            step = "compare cable_length_m, speed and MTU with what the switch computes from"
            limit = f">= {least_bytes(wire)} bytes"
            yield Finding(_NAME, subject, Outcome.UNKNOWN, what, f"{size} bytes", limit, next_step=step)


def _by_formula(held: Held, wire: Wire) -> str:
    """Return what SONiC would compute, where the reading names a Spectrum."""
    match = re.search(r"(?:spectrum|spc)-?([1-6])", str(held.fact(facts.DRIVER)), re.IGNORECASE)
    if match is None:
        return ""
    return f"; SONiC computes about {computed(SPECTRUM[int(match[1])], wire).xoff} for a Spectrum-{match[1]}"


def _unpaused(held: Held, priorities: list[int]) -> Iterator[Finding]:
    """Yield priorities whose headroom was used though no pause was ever sent."""
    for priority in priorities:
        used = held.counter(f"group{priority}.headroom_watermark_bytes")
        sent = held.counter(f"pfc{priority}.tx_frames")
        if used and sent == 0:
            what = (
                f"{used} bytes of the headroom of priority {priority} were used, and no pause was ever sent:"
                " this port may not be able to pause (MACsec, for one)"
            )
            step = "provoke congestion and watch the PFC frames that it sends"
            yield Finding(_NAME, str(held.port), Outcome.UNKNOWN, what, next_step=step)


PLUGIN = Headroom()
