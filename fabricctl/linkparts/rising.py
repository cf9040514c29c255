"""By how much the counters of a port rose while it was watched, as far as they say something of its link."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from fabricctl.linkparts.counters import FAULTS, Kind, Meaning, meaning
from fabricctl.linkparts.ends import End
from fabricctl.model.fabric import Role
from fabricctl.model.reading import Known
from fabricctl.plugin.surveying import Observation, Survey


@dataclass(frozen=True, slots=True)
class Rise:
    """What became of a counter within the interval.

    Parameters
    ----------
    by
        How much it rose; of a gauge, what it is at last.
    per_s
        The same each second.
    """

    counter: str
    meaning: Meaning
    by: int
    per_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """The counters of a port.

    Parameters
    ----------
    rises
        Those that were read twice, the ones that did not rise too.
    odd
        Why others that tell of faults are not known though they were read at least once.
    gap
        Why nothing is known; empty if something is.
    """

    rises: tuple[Rise, ...] = ()
    odd: tuple[str, ...] = ()
    gap: str = ""


def rises(end: End, survey: Survey) -> Seen:
    """Return what became of all counters of an end that mean something."""
    seen, reading = end.seen, end.reading
    if seen is None or reading is None:
        return Seen(gap=end.gap)
    if seen.interval_s <= 0:
        return Seen(gap="it was read only once")
    found: list[Rise] = []
    odd: list[str] = []
    for name, what in _meant(end.driver, _names(seen, end)):
        by = _last(seen, end, name) if what.gauge else seen.rise(end.port.id, name)
        if isinstance(by, int):
            found.append(Rise(name, what, by, by / seen.interval_s))
        elif what.kind in FAULTS and _was_known(seen, end, name):
            odd.append(by)
    return Seen(tuple(_by_class(found, _lossless(end, survey))), tuple(odd))


def _names(seen: Observation, end: End) -> tuple[str, ...]:
    """Return the counters of both looks: what only one of them has is not known, and no reason to pass."""
    held = (reading.ports.get(end.port.id) for reading in (seen.last, seen.first))
    return tuple(dict.fromkeys(name for port in held if port is not None for name in port.counters))


@functools.lru_cache(maxsize=4096)
def _meant(driver: str, names: tuple[str, ...]) -> tuple[tuple[str, Meaning], ...]:
    """Return the counters that mean something: ports of one kind have the same, hundreds each."""
    return tuple((name, what) for name in names if (what := meaning(driver, name)) is not None)


def _by_class(found: list[Rise], lossless: frozenset[int]) -> Iterator[Rise]:
    """Walk the rises; discards of a class in which dropping is allowed are congestion.

    A total of all classes says nothing more where the classes that must not drop have counters of their own.
    """
    split = {
        rise.meaning.sending
        for rise in found
        if rise.meaning.kind is Kind.DISCARD and rise.meaning.queue in lossless
    }
    for rise in found:
        queue = rise.meaning.queue
        elsewhere = bool(lossless) and queue is not None and queue not in lossless
        covered = rise.meaning.total and rise.meaning.sending in split
        if rise.meaning.kind is Kind.DISCARD and (elsewhere or covered):
            yield Rise(rise.counter, _as_congestion(rise.meaning), rise.by, rise.per_s)
        else:
            yield rise


@functools.lru_cache(maxsize=1024)
def _as_congestion(what: Meaning) -> Meaning:
    return dataclasses.replace(what, kind=Kind.CONGESTION)


def _lossless(end: End, survey: Survey) -> frozenset[int]:
    """Return the classes that must not drop as the end numbers them: NICs by priority, switches by class."""
    policy, intent = survey.policy, survey.intents.get(end.port.id)
    own = (policy.lossless.priority,) if policy.lossless is not None else ()
    priorities = {*policy.pfc_priorities, *own}
    if end.role is Role.NODE or intent is None or not intent.priority_tc:
        return frozenset(priorities)
    return frozenset(intent.priority_tc[priority] for priority in priorities)


def _last(seen: Observation, end: End, name: str) -> int | str:
    held = seen.port(end.port.id)
    found = held.counters.get(name) if held is not None else None
    if isinstance(found, Known) and isinstance(found.value, int):
        return int(found.value)
    return f"{name}: not known"


def _was_known(seen: Observation, end: End, name: str) -> bool:
    """Say whether a counter was read at least once: one that is never there is none."""
    held = (reading.ports.get(end.port.id) for reading in (seen.first, seen.last))
    return any(isinstance(port.counters.get(name), Known) for port in held if port is not None)
