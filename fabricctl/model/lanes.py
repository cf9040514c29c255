"""Speeds of InfiniBand links: what a lane signals, and what the link is called."""

from __future__ import annotations

import re

LANES = {
    "SDR": (2.5, 2.5),
    "DDR": (5.0, 5.0),
    "QDR": (10.0, 10.0),
    "FDR10": (10.3125, 10.0),
    "FDR": (14.0625, 14.0),
    "EDR": (25.78125, 25.0),
    "HDR": (53.125, 50.0),
    "NDR": (106.25, 100.0),
    "XDR": (212.5, 200.0),
}
"""By name: Gb/s that a lane signals, and Gb/s that people say of it (four lanes of HDR are 200 Gb/s)."""

_NUMBER = re.compile(r"([\d.]+) ?Gbps(?: \((\w+)\))?")


def lane_gbps(said: str) -> float:
    """Return the signalling rate of a lane from what a tool printed: ``53.125 Gbps``, ``NDR``; 0 if unknown.

    A lane of FDR10 is printed as ``10.0 Gbps (FDR10)``.
    """
    said = said.strip()
    if said in LANES:
        return LANES[said][0]
    found = _NUMBER.fullmatch(said)
    if not found:
        return 0.0
    if found[2] in LANES:
        return LANES[found[2]][0]
    try:
        return float(found[1])
    except ValueError:
        return 0.0


def generation(lane: float) -> str:
    """Return the name of a lane's rate in Gb/s: ``HDR``; the rate itself if it has none."""
    for name, (rate, _) in LANES.items():
        if rate == lane:
            return name
    return f"{lane:g} Gb/s a lane"


def link_gbps(width: int, lane: float) -> float:
    """Return the speed in Gb/s that people say of a link: 200 for four lanes of HDR."""
    for rate, said in LANES.values():
        if rate == lane:
            return width * said
    return width * lane


def described(width: int, lane: float) -> str:
    """Return ``4X HDR (200 Gb/s)``."""
    return f"{width}X {generation(lane)} ({link_gbps(width, lane):g} Gb/s)"
