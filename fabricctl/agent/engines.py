"""The engines that drive a NIC, found by what really loads here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from fabricctl.agent import native, verbs
from fabricctl.agent.ends import Endpoint, Nic
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.wire import WIRE, Refusal

__all__ = ["NATIVE", "PYVERBS", "Endpoint", "Nic", "available", "open_nic", "why_not"]

NATIVE = "native"
"""Loops in C: as exact as perftest."""
PYVERBS = "pyverbs"
"""Loops in Python: needs no library of ours, but some microseconds of each operation are its own."""
_ENGINES: Mapping[str, Any] = {NATIVE: native, PYVERBS: verbs}
"""The better first."""


def available() -> dict[str, str]:
    """Return the version of each engine that really loads, the better first."""
    return {name: engine.version() for name, engine in _ENGINES.items() if _refusal(engine) is None}


def why_not() -> dict[str, str]:
    """Return for each engine that does not load what to install."""
    refusals = {name: _refusal(engine) for name, engine in _ENGINES.items()}
    return {name: refusal.text for name, refusal in refusals.items() if refusal is not None}


def _refusal(engine: Any) -> Optional[Refusal]:
    try:
        engine.load()
    except Refusal as refusal:
        return refusal
    return None


def open_nic(engine: str, port: VerbsPort) -> Nic:
    """Open a port's device with an engine.

    Raises
    ------
    Refusal
        There is no such engine (kind ``wire``), it does not load, or the device cannot be opened or its port
        is not active (kind ``setup``).
    """
    if engine not in _ENGINES:
        raise Refusal(WIRE, f"no engine {engine!r}; there is {', '.join(_ENGINES)}")
    nic: Nic = _ENGINES[engine].Nic(port)
    return nic
