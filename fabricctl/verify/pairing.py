"""A couple of ports: the jobs that its two agents are given, and the samples that come of their replies."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId
from fabricctl.model.probe import Sample
from fabricctl.model.reading import ZERO, Entry, Known, Missing
from fabricctl.plugin.judging import PEER_SAID_NO
from fabricctl.verify.agents import GONE, Agent, NoAnswerError

Parameters = Mapping[str, int | float | str]

CALLED_OFF = "deadline"
"""Kind of error of the end that was told to stop because the other one had failed."""
LIE = "wire"
"""Kind of error of an end whose reply makes no sense."""
JOB_S = 20.0
"""Seconds that a job may take beyond its deadline: meeting the other end, reading counters."""
SIDES = ("source", "target")
OWN = frozenset({"latencies", "numbers", "numbers_by_path", "error", "at_s", "took_s"})
"""Keys of a result that have a place of their own in a sample; others, if simple, join its parameters."""


@dataclass(frozen=True, slots=True)
class Job:
    """One probe in one direction of a couple.

    Parameters
    ----------
    source
        Which end sends: 0 is the one that leads, 1 the other.
    """

    probe: str
    source: int
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class Jobs:
    """What every couple of one kind plays, in this order.

    Parameters
    ----------
    name
        By which agents remember it.
    texts
        The list as JSON, for the end that leads and for the other one.
    takes_s
        Longest time that all of it may take, in seconds.
    """

    name: str
    jobs: tuple[Job, ...]
    texts: tuple[str, str]
    takes_s: float

    @classmethod
    def of(cls, name: str, probes: Mapping[str, Parameters], sources: Sequence[int]) -> Jobs:
        """Return the jobs of all probes, each in the directions with the ends in `sources` as source."""
        jobs = tuple(Job(probe, source, given) for probe, given in probes.items() for source in sources)
        texts = tuple(json.dumps([_role(job, end) for job in jobs], separators=(",", ":")) for end in (0, 1))
        takes_s = sum(float(job.parameters["deadline_s"]) + JOB_S for job in jobs)
        return cls(name, jobs, (texts[0], texts[1]), takes_s)


def _role(job: Job, end: int) -> dict[str, object]:
    return {"probe": job.probe, "role": SIDES[job.source != end], "parameters": dict(job.parameters)}


@dataclass(slots=True)
class Played:
    """What both ends of a couple have said, by end: 0 leads.

    Parameters
    ----------
    pairs
        By the source's end: the directed pair.
    errors
        By end, in its own words: why it has not answered a request. Both ends' weightiest counts.
    started_at
        Unix time in seconds at which both were told to begin.
    clean
        By end: whether it has run and none of its jobs failed.
    """

    agents: tuple[Agent, Agent]
    pairs: Mapping[int, PairId]
    jobs: Jobs
    errors: tuple[list[NoAnswerError], list[NoAnswerError]] = field(default_factory=lambda: ([], []))
    prepared: list[dict[str, Any]] = field(default_factory=lambda: [{}, {}])
    connected: list[dict[str, Any]] = field(default_factory=lambda: [{}, {}])
    ran: list[dict[str, Any]] = field(default_factory=lambda: [{}, {}])
    started_at: float = 0.0
    clean: list[bool] = field(default_factory=lambda: [False, False])

    @property
    def is_doubtful(self) -> bool:
        """Whether a "no" of the fabric's or of the other end's is in it, which a dead node would explain."""
        if self.is_clean(0) and self.is_clean(1):
            return False
        return any(error.kind == PEER_SAID_NO for errors in self.errors for error in errors) or any(
            "error" in found and found["error"]["kind"] == PEER_SAID_NO
            for ran in self.ran
            for found in ran.get("results", ())
        )

    def is_clean(self, end: int) -> bool:
        """Whether an end has played all its jobs without an error."""
        return self.clean[end] and not self.errors[end]

    @property
    def busy_s(self) -> float:
        """Seconds in which this couple was measured."""
        return sum(
            float(self.ran[job.source]["results"][number]["took_s"])
            for number, job in enumerate(self.jobs.jobs)
            if self.ran[job.source]
        )

    def keep(self, step: str, end: int, reply: dict[str, Any]) -> None:
        """Keep a reply, or why it makes no sense."""
        why = _REFUSALS[step](reply, len(self.jobs.jobs))
        if why:
            self.errors[end].append(_lie(self.agents[end], f"its reply to {step} makes no sense: {why}"))
        elif step == "run":
            self.ran[end] = reply
            self.clean[end] = not any("error" in found for found in reply["results"])
        else:
            (self.prepared if step == "prepare" else self.connected)[end] = reply

    def samples(self) -> list[Sample]:
        """Return a sample for each job; a failure is a sample with the reason."""
        used = [self._used(source) if self.ran[0] and self.ran[1] else {} for source in (0, 1)]
        engines = (self._engine(0), self._engine(1))
        is_clean = self.is_clean(0) and self.is_clean(1)
        made = []
        for number, job in enumerate(self.jobs.jobs):
            error = None if is_clean else self._error(number, job)
            if error is None:
                try:
                    made.append(self._sample(number, job, used[job.source], engines[job.source]))
                    continue
                except NoAnswerError as lie:
                    error = lie
            made.append(self._failure(number, job, error))
        return made

    def _error(self, number: int, job: Job) -> NoAnswerError | None:
        """Return why a job has no result: of both ends' reasons the weightiest, the source's first."""
        found = []
        for end in (job.source, 1 - job.source):
            found += [(_weight(error), error) for error in self.errors[end]]
            if self.ran[end] and "error" in (result := self.ran[end]["results"][number]):
                said = result["error"]
                error = NoAnswerError(said["text"], device=self.agents[end].device.name, kind=said["kind"])
                found.append((3 if error.kind == CALLED_OFF else 2, error))
        if not found and not (self.ran[0] and self.ran[1]):
            return NoAnswerError("it was not begun", device="", kind=CALLED_OFF)
        return min(found, key=lambda weighed: weighed[0])[1] if found else None

    def _failure(self, number: int, job: Job, error: NoAnswerError) -> Sample:
        ran = self.ran[job.source]
        return Sample(
            pair=self.pairs[job.source],
            probe=job.probe,
            engine=self._engine(job.source),
            started_at=self.started_at or time.time(),
            duration_s=ran["results"][number]["took_s"] if ran else 0.0,
            error=error.what if error.kind == GONE else str(error),
            error_kind=error.kind,
            error_device="" if error.kind in {PEER_SAID_NO, CALLED_OFF} else error.device,
            parameters=job.parameters,
        )

    def _sample(self, number: int, job: Job, used: Parameters, engine: str) -> Sample:
        near, far = job.source, 1 - job.source
        source, target = self.ran[near]["results"][number], self.ran[far]["results"][number]
        latencies = _NOTHING
        if "latencies" in source:
            try:
                latencies = Histogram.decode(source["latencies"], at_hand=True)
            except ValueError as exc:
                raise _lie(self.agents[near], f"{job.probe}: its latencies make no sense: {exc}") from exc
        numbers, others = self._numbers(near, source), self._numbers(far, target)
        if others:
            numbers = {**numbers, **others} if numbers else others
        paths: tuple[Mapping[str, int], ...] = ()
        if "numbers_by_path" in source or "numbers_by_path" in target:
            paths = self._numbers_by_path(far, target) or self._numbers_by_path(near, source)
        return Sample(
            self.pairs[near],
            job.probe,
            engine,
            self.started_at + source["at_s"],
            source["took_s"],
            latencies=latencies,
            numbers=numbers,
            numbers_by_path=paths,
            counters=self._counters(near, number),
            parameters={**job.parameters, **used, **_simple(source)},
        )

    def _engine(self, source: int) -> str:
        near, far = self.agents[source].engine, self.agents[1 - source].engine
        return near if near == far else f"{near}, target {far}"

    def _used(self, source: int) -> Parameters:
        near, far = self.prepared[source], self.prepared[1 - source]
        return {
            "path_mtu_bytes": self.connected[source]["path_mtu_bytes"],
            "wanted_path_mtu_bytes": self.jobs.jobs[0].parameters["path_mtu_bytes"],
            "source_mtu_bytes": near["mtu_bytes"],
            "target_mtu_bytes": far["mtu_bytes"],
            "source_gid": near["gid"],
            "target_gid": far["gid"],
            "source_gid_index": near["gid_index"],
            "target_gid_index": far["gid_index"],
        }

    def _numbers(self, end: int, result: Mapping[str, Any]) -> Mapping[str, int]:
        numbers = result.get("numbers", _NO_NUMBERS)
        if type(numbers) is not dict or not _WHOLE.issuperset(map(type, numbers.values())):
            raise _lie(self.agents[end], "its counts are no numbers")
        return numbers

    def _numbers_by_path(self, end: int, result: Mapping[str, Any]) -> tuple[Mapping[str, int], ...]:
        paths = result.get("numbers_by_path", ())
        if not isinstance(paths, (list, tuple)):
            raise _lie(self.agents[end], "its counts by path are no list")
        return tuple(self._numbers(end, {"numbers": path}) for path in paths)

    def _counters(self, source: int, number: int) -> Mapping[str, Entry]:
        near, far = self.ran[source], self.ran[1 - source]
        if (
            number < len(near["counters"])
            and number < len(far["counters"])
            and not near["counters"][number]
            and not far["counters"][number]
        ):
            return _all_still(near["counted"], far["counted"])
        found: dict[str, Entry] = {}
        for side, ran in (("source", near), ("target", far)):
            if number < len(ran["counters"]):
                found.update(_still(side, ran["counted"]))
                for name, rise in ran["counters"][number].items():
                    found[f"{side}/{name}"] = _WENT_BACK if rise is None else Known(rise)
        return found


_NOTHING = Histogram()
_NO_NUMBERS: dict[str, int] = {}
_WHOLE = frozenset({int})
_WENT_BACK = Missing("went backwards: it was reset")


@lru_cache(maxsize=4096)
def _still(side: str, counted: str) -> Mapping[str, Entry]:
    """Return counters that did not move; most do not, and most nodes have the same."""
    return {f"{side}/{name}": ZERO for name in counted.split(" ") if name}


@lru_cache(maxsize=4096)
def _all_still(near: str, far: str) -> Mapping[str, Entry]:
    """Return the counters of both ends if none moved at either; samples share them."""
    return {**_still("source", near), **_still("target", far)}


def _simple(result: Mapping[str, Any]) -> dict[str, int | float | str]:
    return {name: value for name, value in result.items() if name not in OWN and isinstance(value, _PLAIN)}


_PLAIN = (int, float, str)


def _lie(agent: Agent, what: str) -> NoAnswerError:
    return NoAnswerError(what, device=agent.device.name, kind=LIE)


def _weight(error: NoAnswerError) -> int:
    """Return the weight of an end's silence or "no" to a whole request; the smallest explains the most.

    0 is an agent that is gone. An end that failed by itself took its connections with it, which is why the
    other one's jobs failed (2), not the other way round. One that only waited too long (3) explains nothing.
    """
    return {GONE: 0, PEER_SAID_NO: 2, CALLED_OFF: 3}.get(error.kind, 1)


def _odd_prepared(reply: Mapping[str, Any], jobs: int) -> str:
    del jobs
    kinds = {"addresses": str, "mtu_bytes": int, "gid": str, "gid_index": int}
    return ", ".join(name for name, kind in kinds.items() if type(reply.get(name)) is not kind)


def _odd_connected(reply: Mapping[str, Any], jobs: int) -> str:
    del jobs
    return "" if type(reply.get("path_mtu_bytes")) is int else "path_mtu_bytes"


def _odd_run(reply: Mapping[str, Any], jobs: int) -> str:
    results, counters = reply.get("results"), reply.get("counters")
    if type(results) is not list or len(results) != jobs:
        return "results"
    if not all(map(_is_result, results)):
        return "results"
    if type(reply.get("counted")) is not str:
        return "counted"
    if type(counters) is not list:
        return "counters"
    for rises in counters:
        if type(rises) is not dict or not _RISE.issuperset(map(type, rises.values())):
            return "counters"
    return ""


_RISE = frozenset({int, type(None)})
_TIME = frozenset({int, float})


def _is_result(found: Any) -> bool:
    if type(found) is not dict:
        return False
    for value in (found.get("at_s"), found.get("took_s")):
        if type(value) not in _TIME or not 0 <= value < math.inf:  # type: ignore[operator]  # it is a number
            return False
    if "error" not in found:
        return True
    error = found["error"]
    return type(error) is dict and type(error.get("kind")) is str and type(error.get("text")) is str


_REFUSALS: Mapping[str, Callable[[Mapping[str, Any], int], str]] = {
    "prepare": _odd_prepared,
    "connect": _odd_connected,
    "run": _odd_run,
}
"""By request: what of a reply to it makes no sense, empty if all does. An agent may say anything."""
