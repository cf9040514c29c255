"""What a run keeps for later ones: how often each port's link had gone down, and in which boot."""

from __future__ import annotations

import getpass
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from fabricctl.model import facts
from fabricctl.model.names import PortId
from fabricctl.model.reading import DeviceReading, Entry, Known
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Finding, Outcome, worst
from fabricctl.plugin.surveying import PortPast, Survey

RECORD = "links"
"""Kind of the record in the store."""

_WITHIN, _BEFORE = 500, 50
"""So many runs are looked at that began within the stable time, and of those before it: of the latter only
the newest look at each port counts."""


class Records(Protocol):
    """The part of the store that is needed."""

    def begin(self, kind: RunKind, by: str, inventory: str, *, now: float | None = None) -> Run:
        """Record that a run starts."""
        ...

    def finish(self, run: Run, outcome: Outcome, summary: str, *, now: float | None = None) -> Run:
        """Record how it ended."""
        ...

    def put_record(self, run_id: str, kind: str, payload: Mapping[str, Any]) -> None:
        """Keep JSON values with a run."""
        ...

    def records(
        self,
        kind: str,
        inventory: str | None = None,
        newest: int = -1,
        between: tuple[float, float] = (-math.inf, math.inf),
    ) -> tuple[tuple[Run, dict[str, Any]], ...]:
        """Return records of a kind, the newest run first."""
        ...


class History:
    """What the runs of one inventory saw of its ports; of a watch, only rounds that differ are kept."""

    def __init__(self, store: Records, inventory: str) -> None:
        self._store, self._inventory = store, inventory
        self._kept: tuple[str, Mapping[PortId, tuple[str, int]]] = ("", {})
        self._said = ""
        self._last: dict[PortId, tuple[PortPast, ...]] = {}

    def ports(self, since: float) -> dict[PortId, tuple[PortPast, ...]]:
        """Return what earlier runs and rounds saw of each port, newest first.

        Parameters
        ----------
        since
            Unix time in seconds; of what was seen before it, only the newest of each port is returned.
        """
        found: dict[PortId, set[PortPast]] = {port: set(looks) for port, looks in self._last.items()}
        records = self._store.records
        within = records(RECORD, self._inventory, _WITHIN, (since, math.inf))
        before = records(RECORD, self._inventory, _BEFORE, (-math.inf, since))
        for _, payload in (*within, *before):
            for look in (payload, payload.get("first", {})):
                for name, (boot_id, downs) in look.get("ports", {}).items():
                    past = PortPast(look["at"], boot_id, downs)
                    found.setdefault(PortId.parse(name), set()).add(past)
        # A run may be about some ports only: how far back to go is another question for each port.
        return {port: _reach(looks, since) for port, looks in found.items()}

    def keep(self, survey: Survey, findings: Sequence[Finding], began_at: float) -> str:
        """Keep a run; return its name, or that of the last one if nothing is other than it was then.

        Parameters
        ----------
        began_at
            Unix time in seconds.
        """
        outcomes = [finding.outcome for finding in findings]
        said = f"{worst(outcomes)}: {summary(outcomes)}"
        looks = _looks(survey, began_at)
        run_id, before = self._kept
        seen = {port: (past[0].boot_id, past[0].link_downs) for port, past in looks.items()}
        if not run_id or seen != before or said != self._said:
            run = self._store.begin(RunKind.LINKS, getpass.getuser(), self._inventory, now=began_at)
            if looks:
                self._store.put_record(run.id, RECORD, _payload(survey, looks, began_at))
            self._store.finish(run, worst(outcomes), summary(outcomes))
            self._kept, self._said = (run.id, seen), said
        self._last |= looks
        return self._kept[0]


def _reach(looks: Iterable[PortPast], since: float) -> tuple[PortPast, ...]:
    """Return looks at a port, newest first, as far as the first one before `since`."""
    found: list[PortPast] = []
    for look in sorted(looks, key=lambda one: (one.at, one.link_downs), reverse=True):
        found.append(look)
        if look.at < since:
            break
    return tuple(found)


def _looks(survey: Survey, began_at: float) -> dict[PortId, tuple[PortPast, ...]]:
    """Return what to keep, newest first: two looks if the count rose between them.

    Ports of which the count or the boot is not known are left out.
    """
    found: dict[PortId, tuple[PortPast, ...]] = {}
    for port, seen in survey.seen_ports():
        boot = _value(seen.last.facts, facts.BOOT_ID)
        before, downs = _downs(seen.first, port), _downs(seen.last, port)
        if not isinstance(boot, str) or downs is None:
            continue
        last = PortPast(survey.now, boot, downs)
        # The first look was somewhat later than the run's begin: "not before" holds for both.
        found[port] = (last,)
        if before is not None and before < downs:
            found[port] = (last, PortPast(began_at, boot, before))
    return found


def _downs(reading: DeviceReading, port: PortId) -> int | None:
    held = reading.ports.get(port)
    found = _value(held.facts, facts.LINK_DOWNS) if held is not None else None
    return found if isinstance(found, int) else None


def _payload(survey: Survey, looks: Mapping[PortId, tuple[PortPast, ...]], began_at: float) -> dict[str, Any]:
    """Return the record of a run; ``first`` is what it saw at first where that is another count."""
    return {
        "at": survey.now,
        "ports": {str(port): [seen[0].boot_id, seen[0].link_downs] for port, seen in looks.items()},
        "first": {
            "at": began_at,
            "ports": {
                str(port): [seen[1].boot_id, seen[1].link_downs]
                for port, seen in looks.items()
                if len(seen) > 1
            },
        },
    }


def _value(entries: Mapping[str, Entry], name: str) -> object:
    found = entries.get(name)
    return found.value if isinstance(found, Known) else None


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return a run in one line: ``120 pass, 3 fail``."""
    counts = Counter(outcomes)
    return ", ".join(f"{counts[o]} {o}" for o in Outcome if counts[o]) or "nothing was judged"
