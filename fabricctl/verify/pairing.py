"""One probe on one pair: both ends' agents in step, and the sample that comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fabricctl.model.names import PairId
from fabricctl.model.probe import Sample
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.plugin.judging import PEER_SAID_NO
from fabricctl.verify.agents import GONE, Agent, NoAnswerError

Parameters = Mapping[str, int | float | str]

CALLED_OFF = "deadline"
"""Kind of error of the end that was told to stop because the other one had failed."""


@dataclass
class _Step:
    """The two ends of a pair, asked at the same time."""

    source: Agent
    target: Agent
    errors: list[NoAnswerError] = field(default_factory=list)

    def both(
        self, op: str, fields: Callable[[str], Mapping[str, Any]], *, takes_s: float = 0.0
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ask both ends and wait for both; NoAnswerError (the weightiest) if one of them fails."""
        # The target first: it must be listening when the source begins.
        ends = {"target": self.target, "source": self.source}
        asked: dict[str, int] = {}
        for role, agent in ends.items():
            with self._noted():
                asked[role] = agent.send(op, takes_s=takes_s, **fields(role))
        replies: dict[str, dict[str, Any]] = {}
        # The source ends first: if it fails, the target need not wait any longer.
        for role in sorted(asked):
            with self._noted():
                if self.errors:
                    ends[role].call_off()
                replies[role] = ends[role].receive(asked[role], takes_s=0.0 if self.errors else takes_s)
        if any(error.kind == PEER_SAID_NO for error in self.errors):
            # An end that is gone by now is the reason for the other one's error, though it had answered.
            for agent in ends.values():
                with self._noted():
                    agent.describe()
        if self.errors:
            raise min(self.errors, key=_weight)
        return replies["source"], replies["target"]

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except NoAnswerError as exc:
            self.errors.append(exc)


def _weight(error: NoAnswerError) -> int:
    """Return 0 for an agent that is gone, which explains the most, 2 for one that only waited too long."""
    return {GONE: 0, CALLED_OFF: 2}.get(error.kind, 1)


def measure(pair: PairId, probe: str, parameters: Parameters, source: Agent, target: Agent) -> Sample:
    """Run a probe on a pair and return its sample; a failure is a sample with the reason."""
    started_at, began = time.time(), time.monotonic()
    engine = source.engine
    if target.engine != engine:
        engine = f"{engine}, target {target.engine}"
    try:
        found = _run(_Step(source, target), probe, parameters)
    except NoAnswerError as exc:
        return Sample(
            pair=pair,
            probe=probe,
            engine=engine,
            started_at=started_at,
            duration_s=time.monotonic() - began,
            error=str(exc) if exc.kind != GONE else exc.what,
            error_kind=exc.kind,
            error_device="" if exc.kind in {PEER_SAID_NO, CALLED_OFF} else exc.device,
            parameters=parameters,
        )
    return Sample(pair, probe, engine, started_at, time.monotonic() - began, **found)


def _run(step: _Step, probe: str, parameters: Parameters) -> dict[str, Any]:
    takes_s = float(parameters["deadline_s"])
    ports = {
        role: {"name": a.port.id.port, "rdma": a.port.rdma, "address": a.port.address}
        for role, a in (("source", step.source), ("target", step.target))
    }
    prepared = step.both(
        "prepare",
        lambda role: {"probe": probe, "role": role, "port": ports[role], "parameters": parameters},
    )
    peers = {"source": prepared[1]["address"], "target": prepared[0]["address"]}
    connected = step.both("connect", lambda role: {"peer": peers[role]})
    source, target = step.both("run", lambda _: {}, takes_s=takes_s)
    finished = step.both("finish", lambda _: {})
    used: dict[str, int | float | str] = {
        **parameters,
        "path_mtu_bytes": connected[0]["path_mtu_bytes"],
        "wanted_path_mtu_bytes": parameters["path_mtu_bytes"],
        "source_mtu_bytes": prepared[0]["address"]["mtu_bytes"],
        "target_mtu_bytes": prepared[1]["address"]["mtu_bytes"],
        "source_gid": prepared[0]["gid"],
        "target_gid": prepared[1]["gid"],
        "source_gid_index": prepared[0]["gid_index"],
        "target_gid_index": prepared[1]["gid_index"],
    }
    if stopped := source.get("stopped"):
        used["stopped"] = stopped
    return {
        "latencies_ns": tuple(source.get("latencies_ns", ())),
        "numbers": {**source.get("numbers", {}), **target.get("numbers", {})},
        "numbers_by_path": tuple(target.get("numbers_by_path", ())),
        "counters": {**_counters("source", finished[0]), **_counters("target", finished[1])},
        "parameters": used,
    }


def _counters(side: str, finished: Mapping[str, Any]) -> dict[str, Entry]:
    return {
        f"{side}/{name}": Missing("went backwards: it was reset") if rise is None else Known(rise)
        for name, rise in finished["counters"].items()
    }
