"""The engines that drive a NIC, found by what really loads here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from fabricctl.agent import native, verbs
from fabricctl.agent.ends import Endpoint, Nic
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.wire import WIRE, Refusal

__all__ = ["AUTO", "NATIVE", "PYVERBS", "Endpoint", "Nic", "found", "open_nic"]

NATIVE = "native"
"""Loops in C, as perftest's are."""
PYVERBS = "pyverbs"
"""Loops in Python: needs no library of ours, but some microseconds of each operation are its own."""
AUTO = "auto"
"""Whichever is the best that loads."""
_ENGINES: Mapping[str, Any] = {NATIVE: native, PYVERBS: verbs}
"""The better first."""


def found(wanted: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the engine to use with its version, none if none loads, and why those before it do not.

    Parameters
    ----------
    wanted
        An engine, or ``auto`` for the best that loads. Nothing else is loaded: pyverbs takes half a second.

    Raises
    ------
    Refusal
        There is no such engine (kind ``wire``).
    """
    why_not: dict[str, str] = {}
    for name in _ENGINES if wanted == AUTO else (wanted,):
        engine = _named(name)
        refusal = _refusal(engine)
        if refusal is None:
            return {name: engine.version()}, why_not
        why_not[name] = refusal.text
    return {}, why_not


def _named(name: str) -> Any:
    if name not in _ENGINES:
        raise Refusal(WIRE, f"no engine {name!r}; there is {', '.join(_ENGINES)}")
    return _ENGINES[name]


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
    nic: Nic = _named(engine).Nic(port)
    return nic
