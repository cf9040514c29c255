"""What a run keeps for later ones: how often each port's link had gone down, and in which boot."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from fabricctl.model import facts
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Finding, Outcome, worst
from fabricctl.plugin.surveying import PortPast, Survey

RECORD = "links"
"""Kind of the record in the store."""

_NEWEST = 100
"""So many earlier runs are looked at."""


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
        self, kind: str, inventory: str | None = None, newest: int = -1
    ) -> tuple[tuple[Run, dict[str, Any]], ...]:
        """Return records of a kind, the newest run first."""
        ...


class History:
    """What the runs of one inventory saw of its ports; of a watch, only rounds that differ are kept."""

    def __init__(self, store: Records, inventory: str) -> None:
        self._store, self._inventory = store, inventory
        self._kept: tuple[str, dict[PortId, PortPast]] = ("", {})
        self._said = ""
        self._last: dict[PortId, PortPast] = {}

    def ports(self, since: float) -> dict[PortId, tuple[PortPast, ...]]:
        """Return what earlier runs and rounds saw of each port, newest first.

        Parameters
        ----------
        since
            Unix time in seconds; of runs before it only the newest is looked at.
        """
        found: dict[PortId, tuple[PortPast, ...]] = {port: (past,) for port, past in self._last.items()}
        for _, payload in self._store.records(RECORD, self._inventory, _NEWEST):
            for name, (boot_id, downs) in payload["ports"].items():
                port = PortId.parse(name)
                found[port] = (*found.get(port, ()), PortPast(payload["at"], boot_id, downs))
            if payload["at"] < since:
                break
        return found

    def keep(self, survey: Survey, findings: Sequence[Finding], began_at: float) -> str:
        """Keep a run; return its name, or that of the last one if nothing is other than it was then.

        Parameters
        ----------
        began_at
            Unix time in seconds.
        """
        outcomes = [finding.outcome for finding in findings]
        said = f"{worst(outcomes)}: {summary(outcomes)}"
        seen = _ports(survey)
        run_id, before = self._kept
        same = {port: past.link_downs for port, past in before.items()} == {
            port: past.link_downs for port, past in seen.items()
        }
        if not run_id or not same or said != self._said:
            run = self._store.begin(RunKind.LINKS, getpass.getuser(), self._inventory, now=began_at)
            ports = {str(port): [past.boot_id, past.link_downs] for port, past in seen.items()}
            self._store.put_record(run.id, RECORD, {"at": survey.now, "ports": ports})
            self._store.finish(run, worst(outcomes), summary(outcomes))
            self._kept, self._said = (run.id, seen), said
        self._last = seen
        return self._kept[0]


def _ports(survey: Survey) -> dict[PortId, PortPast]:
    """Return what to keep; ports of which the count or the boot is not known are left out."""
    found: dict[PortId, PortPast] = {}
    for port, seen in survey.seen_ports():
        held = seen.port(port)
        boot = _value(seen.last.facts, facts.BOOT_ID)
        downs = _value(held.facts, facts.LINK_DOWNS) if held is not None else None
        if isinstance(boot, str) and isinstance(downs, int):
            found[port] = PortPast(survey.now, boot, downs)
    return found


def _value(entries: Mapping[str, Entry], name: str) -> object:
    found = entries.get(name)
    return found.value if isinstance(found, Known) else None


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return a run in one line: ``120 pass, 3 fail``."""
    counts = Counter(outcomes)
    return ", ".join(f"{counts[o]} {o}" for o in Outcome if counts[o]) or "nothing was judged"
