"""The course of a run: every couple of ports is probed as soon as both its ends are free.

Each end has its couples in the order of the rounds, so no two ever wait for each other. What comes next is
prepared right behind what runs: its request goes out together with the order to begin.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fabricctl.model.names import PairId, PortId
from fabricctl.model.probe import Round, Sample
from fabricctl.verify.agents import GONE, NoAnswerError
from fabricctl.verify.exchange import Exchange, Line, Reply, Request
from fabricctl.verify.pairing import Jobs, Parameters, Played

Sink = Callable[[list[Sample]], None]
"""Takes the samples of a couple that is done."""

STEP_S = 40.0
"""Seconds that an agent may take to prepare, to connect or to describe its port, beyond the patience.

A slow node with many large memories needs some; one that is frozen is known as such much sooner.
"""
AHEAD = 4
"""Rounds that are begun and not over: a couple that takes long holds up only those that need its ports."""


@dataclass(frozen=True, slots=True)
class Leg:
    """A round with what is probed in it.

    Parameters
    ----------
    probes
        By name, in the order in which they run: their parameters.
    alone
        Whether it may not overlap with any other round: its probes fill links.
    """

    round: Round
    probes: Mapping[str, Parameters]
    alone: bool = False


@dataclass(slots=True, eq=False)
class _Lap:
    """A leg under way; `left` couples are not done."""

    leg: Leg
    left: int = 0


@dataclass(slots=True, eq=False)
class _Stand:
    """One port: the couples that wait for it, the one that runs, and the one that is prepared."""

    line: Line
    rate_gbps: int
    waiting: deque[Couple] = field(default_factory=deque)
    current: Couple | None = None
    ahead: Couple | None = None
    busy_s: float = 0.0


def _drop(samples: list[Sample]) -> None:
    del samples


class Couple:
    """Two ports that are probed, from preparation to samples.

    Attributes
    ----------
    left
        Replies that this step still waits for.
    """

    __slots__ = ("done", "lap", "left", "played", "runs", "slots", "stands")

    def __init__(self, lap: _Lap, stands: tuple[_Stand, _Stand], played: Played) -> None:
        self.lap, self.stands, self.played = lap, stands, played
        self.slots = ["", ""]
        self.runs: list[Request] = []
        self.left = 2
        self.done = False

    @property
    def failed(self) -> bool:
        """Whether an end has said no, or nothing, to a request."""
        return bool(self.played.errors[0] or self.played.errors[1])


class Course:
    """Runs legs over the agents of an exchange.

    Parameters
    ----------
    stands
        By port: the line to its agent.
    rates_gbps
        By port: what the inventory says of its speed, 0 if nothing.

    Attributes
    ----------
    over
        Legs that are over.
    """

    def __init__(
        self, exchange: Exchange, stands: Mapping[PortId, Line], rates_gbps: Mapping[PortId, int]
    ) -> None:
        self.exchange = exchange
        self._sink: Sink = _drop
        self._stands = {port: _Stand(line, rates_gbps[port]) for port, line in stands.items()}
        self._jobs: dict[tuple[int, int, int], tuple[Mapping[str, Parameters], Jobs]] = {}
        self._laps: deque[_Lap] = deque()
        self._held: list[Couple] = []
        self.began = self.ended = 0.0
        self.over = 0

    @property
    def under_way(self) -> int:
        """Legs that were begun and are not over."""
        return len(self._laps)

    @property
    def measuring_share(self) -> float:
        """Seconds in which the busiest port was measured, by those from the first preparation to the end."""
        busy_s = max((stand.busy_s for stand in self._stands.values()), default=0.0)
        return busy_s / (self.ended - self.began) if self.ended > self.began else 0.0

    def run(self, legs: Iterable[Leg | None], sink: Sink) -> None:
        """Run all legs.

        Parameters
        ----------
        legs
            Asked for the next one when there is room; None means to ask again when another one is over.
        sink
            Takes each couple's samples as soon as there are some.
        """
        self._sink = sink
        coming = iter(legs)
        if not self.began:
            self.began = time.monotonic()
        more = self._begin_some(coming)
        while self._laps or more:
            self.exchange.turn()
            if more and len(self._laps) < AHEAD:
                more = self._begin_some(coming)

    def _begin_some(self, coming: Iterator[Leg | None]) -> bool:
        """Begin legs as long as there is room; return whether more may come."""
        while len(self._laps) < AHEAD:
            try:
                leg = next(coming)
            except StopIteration:
                return False
            if leg is None:
                return True
            self._begin(leg)
        return True

    def _begin(self, leg: Leg) -> None:
        lap = _Lap(leg)
        by_ends: dict[tuple[int, int], tuple[tuple[_Stand, _Stand], dict[int, PairId]]] = {}
        for pair in leg.round.pairs:
            near, far = self._stands[pair.source], self._stands[pair.target]
            reverse = by_ends.get((id(far), id(near)))
            if reverse is None:
                by_ends[id(near), id(far)] = ((near, far), {0: pair})
            else:
                reverse[1][1] = pair
        self._laps.append(lap)
        lap.left = len(by_ends)
        for stands, pairs in by_ends.values():
            agents = (stands[0].line.agent, stands[1].line.agent)
            couple = Couple(lap, stands, Played(agents, pairs, self._jobs_of(leg, stands, len(pairs))))
            for stand in stands:
                stand.waiting.append(couple)
        for stands, _ in by_ends.values():
            for stand in stands:
                self._advance(stand)
        self._sweep()

    def _jobs_of(self, leg: Leg, stands: tuple[_Stand, _Stand], directions: int) -> Jobs:
        rate = min(stands[0].rate_gbps, stands[1].rate_gbps)
        key = (id(leg.probes), directions, rate)
        if key not in self._jobs:
            given = {name: {**values, "line_rate_gbps": rate} for name, values in leg.probes.items()}
            # The probes stay referenced, so that nothing else can get their id.
            self._jobs[key] = (leg.probes, Jobs.of(f"j{len(self._jobs)}", given, range(directions)))
        return self._jobs[key][1]

    def _advance(self, stand: _Stand) -> None:
        """Prepare what comes next at a port, unless something is prepared already."""
        request = self._next(stand)
        if request is not None:
            self.exchange.ask(stand.line, request)

    def _next(self, stand: _Stand) -> Request | None:
        while stand.ahead is None and stand.waiting:
            couple = stand.waiting.popleft()
            if not couple.done:
                stand.ahead = couple
                return self._prepare(couple, couple.stands.index(stand))
        return None

    def _prepare(self, couple: Couple, end: int) -> Request:
        stand, jobs = couple.stands[end], couple.played.jobs
        running = stand.current
        couple.slots[end] = "b" if running and running.slots[running.stands.index(stand)] == "a" else "a"
        texts = ""
        name = f"{jobs.name}.{end}"
        if name not in stand.line.known:
            stand.line.known.add(name)
            texts = f',"jobs":{jobs.texts[end]}'
        return Request(
            f'"op":"prepare","slot":"{couple.slots[end]}",{stand.line.agent.use},'
            f'"leads":{"false" if end else "true"},"jobs_name":"{name}"{texts}',
            partial(self._prepared, couple, end),
            STEP_S,
        )

    def _prepared(self, couple: Couple, end: int, reply: Reply) -> None:
        stand = couple.stands[end]
        if couple.done:
            self._advance(stand)
            return
        self._keep(couple, "prepare", end, reply)
        if couple.failed:
            self._conclude(couple)
        elif not couple.left:
            if self._is_clear(couple.lap):
                self._connect(couple)
            else:
                self._held.append(couple)

    def _keep(self, couple: Couple, step: str, end: int, reply: Reply) -> None:
        couple.left -= 1
        if isinstance(reply, NoAnswerError):
            couple.played.errors[end].append(reply)
        else:
            couple.played.keep(step, end, reply)

    def _is_clear(self, lap: _Lap) -> bool:
        """Say whether a leg may begin to measure: none that may not overlap with it is under way."""
        for earlier in self._laps:
            if earlier is lap:
                return True
            if lap.leg.alone or earlier.leg.alone:
                return False
        return True

    def _connect(self, couple: Couple) -> None:
        couple.left = 2
        for end in (0, 1):
            peers = json.dumps(couple.played.prepared[1 - end]["addresses"])
            fields = f'"op":"connect","slot":"{couple.slots[end]}","peers":{peers}'
            self.exchange.ask(
                couple.stands[end].line, Request(fields, partial(self._connected, couple, end), STEP_S)
            )

    def _connected(self, couple: Couple, end: int, reply: Reply) -> None:
        self._keep(couple, "connect", end, reply)
        if couple.left:
            return
        if couple.failed:
            self._check(couple)
        else:
            self._start(couple)

    def _start(self, couple: Couple) -> None:
        """Have both ends begin, and right behind it prepare what each does next."""
        couple.left = 2
        couple.played.started_at = time.time()
        takes_s = couple.played.jobs.takes_s
        for end, stand in enumerate(couple.stands):
            stand.current, stand.ahead = couple, None
            run = Request(
                f'"op":"run","slot":"{couple.slots[end]}","deadline_s":{takes_s:g}',
                partial(self._ran, couple, end),
                takes_s,
                partial(self._job_failed, couple, end),
            )
            couple.runs.append(run)
            following = self._next(stand)
            self.exchange.ask(stand.line, *([run] if following is None else [run, following]))

    def _job_failed(self, couple: Couple, end: int, said: dict[str, Any]) -> None:
        """Tell the other end, which may be waiting in the same job; only that job ends there."""
        job = said.get("failed")
        if isinstance(job, int):
            other = 1 - end
            self.exchange.call_off(couple.stands[other].line, couple.runs[other].number, job)

    def _ran(self, couple: Couple, end: int, reply: Reply) -> None:
        stand = couple.stands[end]
        stand.current = None
        self._keep(couple, "run", end, reply)
        if couple.left:
            if not couple.played.is_clean(end):
                # The other end may have nobody left to play with.
                other = 1 - end
                self.exchange.call_off(couple.stands[other].line, couple.runs[other].number)
            self._advance(stand)
            return
        self._check(couple)
        self._advance(stand)

    def _check(self, couple: Couple) -> None:
        """Conclude; before that, have both ends show a sign of life if a "no" of the fabric's is in it.

        An end that is gone by now is the reason for the other one's error, though it had answered.
        """
        if not couple.played.is_doubtful:
            self._conclude(couple)
            return
        couple.left = 2
        for end, stand in enumerate(couple.stands):
            asked = Request(f'"op":"port",{stand.line.agent.use}', partial(self._lives, couple, end), STEP_S)
            self.exchange.ask(stand.line, asked)

    def _lives(self, couple: Couple, end: int, reply: Reply) -> None:
        couple.left -= 1
        if isinstance(reply, NoAnswerError) and reply.kind == GONE:
            couple.played.errors[end].append(reply)
        if not couple.left:
            self._conclude(couple)

    def _conclude(self, couple: Couple) -> None:
        couple.done = True
        couple.runs.clear()  # they refer to the couple, which would else be left to the garbage collector
        self.ended = time.monotonic()
        busy_s = couple.played.busy_s
        for stand in couple.stands:
            stand.busy_s += busy_s
            if stand.ahead is couple:
                stand.ahead = None
        self._sink(couple.played.samples())
        couple.lap.left -= 1
        for stand in couple.stands:
            self._advance(stand)
        if not couple.lap.left:
            self._sweep()

    def _sweep(self) -> None:
        """Take away the legs that are over, and begin couples that waited for them."""
        for lap in [lap for lap in self._laps if not lap.left]:
            self._laps.remove(lap)
            self.over += 1
        held, self._held = self._held, []
        for couple in held:
            if self._is_clear(couple.lap):
                self._connect(couple)
            elif not couple.done:
                self._held.append(couple)
