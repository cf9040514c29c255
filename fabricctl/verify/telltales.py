"""What a NIC's own counters say against its cable: errors that only what it received can have caused."""

from __future__ import annotations

from collections.abc import Iterable

from fabricctl.model.names import PortId
from fabricctl.model.probe import Sample
from fabricctl.model.reading import Known

DAMAGE = frozenset(
    {
        "rx_icrc_encapsulated",  # mlx5: RoCE packets whose invariant CRC is wrong
        "symbol_error",  # InfiniBand: SymbolErrorCounter
        "port_rcv_errors",  # InfiniBand: PortRcvErrors
        "local_link_integrity_errors",  # InfiniBand
        "link_error_recovery",  # InfiniBand: the link trained again
        "link_downed",  # InfiniBand: training failed, the link went down
    }
)
"""Counters of a port that damaged packets or a failing link move, by the names in sysfs."""


def telltales(samples: Iterable[Sample]) -> dict[PortId, str]:
    """Return by port which of its counters moved, and by how much (``symbol_error +12``)."""
    moved: dict[PortId, dict[str, int]] = {}
    for sample in samples:
        for key, entry in sample.counters.items():
            side, _, name = key.partition("/")
            if (
                name in DAMAGE
                and isinstance(entry, Known)
                and isinstance(entry.value, int)
                and entry.value > 0
            ):
                port = sample.pair.source if side == "source" else sample.pair.target
                held = moved.setdefault(port, {})
                held[name] = held.get(name, 0) + entry.value
    return {
        port: ", ".join(f"{name} +{count}" for name, count in sorted(held.items()))
        for port, held in moved.items()
    }
