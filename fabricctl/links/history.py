"""What a run keeps for later ones: how often each port's link had gone down, and in which boot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from fabricctl.model import facts
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known
from fabricctl.model.run import Run
from fabricctl.plugin.surveying import PortPast, Survey

RECORD = "links"
"""Kind of the record in the store."""

KEPT = 50
"""So many earlier runs are looked at."""


class Records(Protocol):
    """The part of the store that is needed."""

    def records(self, kind: str, inventory: str | None = None) -> tuple[tuple[Run, dict[str, Any]], ...]:
        """Return all records of a kind, the newest run first."""
        ...


def load(store: Records, inventory: str) -> dict[PortId, tuple[PortPast, ...]]:
    """Return what earlier runs of an inventory saw of each port, newest first."""
    found: dict[PortId, tuple[PortPast, ...]] = {}
    for run, payload in store.records(RECORD, inventory)[:KEPT]:
        for name, (boot_id, downs) in payload.get("ports", {}).items():
            port = PortId.parse(name)
            found[port] = (*found.get(port, ()), PortPast(run.started_at, boot_id, downs))
    return found


def record(survey: Survey) -> dict[str, Any]:
    """Return what to keep of a run: ports of which the count or the boot is not known are left out."""
    ports: dict[str, list[object]] = {}
    for port, seen in survey.seen_ports():
        held = seen.port(port)
        boot = _value(seen.last.facts, facts.BOOT_ID)
        downs = _value(held.facts, facts.LINK_DOWNS) if held is not None else None
        if isinstance(boot, str) and isinstance(downs, int):
            ports[str(port)] = [boot, downs]
    return {"ports": ports}


def _value(entries: Mapping[str, Entry], name: str) -> object:
    found = entries.get(name)
    return found.value if isinstance(found, Known) else None


def summary(outcomes: Iterable[str]) -> str:
    """Return a run in one line: ``3 fail, 120 pass``."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome] = counts.get(outcome, 0) + 1
    return ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items())) or "nothing judged"
