"""One couple of ports as seen from one of its ends: all its jobs, played in step with the other end."""

from __future__ import annotations

import importlib
import json
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from types import ModuleType
from typing import Any, Optional

from fabricctl.agent import sysfs
from fabricctl.agent.engines import Endpoint
from fabricctl.agent.guard import Guard
from fabricctl.agent.link import RC, WRITE, Setup
from fabricctl.agent.place import Place
from fabricctl.agent.timing import pinned, undisturbed
from fabricctl.agent.wire import DEADLINE, INTERNAL, PEER, SETUP, WIRE, Refusal

WORD_BYTES = 8
CONTROL = Setup(queue_pairs=(RC,), buffer_bytes=WORD_BYTES)
"""The connection over which both ends keep in step, by a word that each writes into the other's memory."""
SHORTEST_NAP_S, LONGEST_NAP_S = 50e-6, 50e-3
NAPS = 4
"""A nap is this part of the time waited so far: naps of 2 ms cost a READ 16 % on a target with one CPU."""
FELL_BACK = "fell_back"
"""In an address: it is that of the probe's second way, see :meth:`Session._prepare`."""
MEET_S = 10.0
"""Seconds that the other end may come later to a meeting than its job may last."""

Failed = Callable[[int], None]
"""Told at once of each job that fails, by its index: the other end may be waiting in it."""


def node_half(probe: str) -> ModuleType:
    """Return the module that runs `probe` here; Refusal (kind ``wire``) if there is none."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", probe):
        raise Refusal(WIRE, f"not the name of a probe: {probe!r}")
    try:
        return importlib.import_module(f"fabricctl.probes.{probe}.node")
    except ImportError as exc:
        raise Refusal(WIRE, f"this agent has no probe {probe!r}: {exc}") from exc


@dataclass
class Job:
    """One probe in one direction, and what came of it here.

    Parameters
    ----------
    role
        ``source`` or ``target``.
    parameters
        What the probe's plug-in on the controller gave, plus ``path_mtu_bytes`` (the largest wanted),
        ``traffic_class``, ``line_rate_gbps`` and ``deadline_s``.
    error
        Why it was not, or not wholly, played.
    fell_back
        Whether the probe's second way is prepared, for the NIC has not what the first one needs.
    began
        When this end began to play, in seconds on the clock of ``time.perf_counter``; 0 if it did not.
    took_s
        How long this end played, in seconds, without the meetings around it.
    """

    probe: str
    role: str
    parameters: dict[str, Any]
    endpoint: Optional[Endpoint] = None
    error: Optional[Refusal] = None
    result: dict[str, Any] = field(default_factory=dict)
    fell_back: bool = False
    began: float = 0.0
    took_s: float = 0.0

    @classmethod
    def of(cls, wanted: Mapping[str, Any]) -> Job:
        """Return the job that a request describes; Refusal (kind ``wire``) if there is no such role."""
        if wanted["role"] not in {"source", "target"}:
            raise Refusal(WIRE, f"no role of a probe: {wanted['role']!r}")
        return cls(str(wanted["probe"]), wanted["role"], dict(wanted["parameters"]))

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep what goes wrong in the block as this job's error: the other jobs go on."""
        try:
            yield
        except Refusal as refusal:
            self.error = refusal
        except Exception as exc:  # noqa: BLE001  one bad probe must not take the others with it
            traceback.print_exc(file=sys.stderr)
            self.error = Refusal(INTERNAL, f"{self.probe} failed here: {type(exc).__name__}: {exc}")

    def address(self) -> Optional[dict[str, Any]]:
        """Return what the peer must know; None if there is nothing to connect to."""
        if self.endpoint is None:
            return None
        address: dict[str, Any] = self.endpoint.address()
        return {**address, FELL_BACK: True} if self.fell_back else address

    def connect(self, peer: Optional[Mapping[str, Any]], mtu_bytes: int) -> None:
        """Connect to the peer's address; None if it has none, since it failed there."""
        if self.error is not None or self.endpoint is None:
            return
        with self.noted():
            if peer is None:
                raise Refusal(DEADLINE, f"not measured: the other end could not prepare {self.probe}")
            if bool(peer.get(FELL_BACK)) != self.fell_back:
                raise Refusal(SETUP, f"only one of the two NICs has the queue pairs that {self.probe} needs")
            traffic_class = int(self.parameters["traffic_class"])
            self.endpoint.connect(peer, path_mtu_bytes=mtu_bytes, traffic_class=traffic_class)

    def play(self, guard: Guard) -> None:
        """Play this end's part."""
        self.began = perf_counter()
        with self.noted():
            half = node_half(self.probe)
            play = half.source if self.role == "source" else half.target
            self.result = play(self.endpoint, self.parameters, guard)
        self.took_s = perf_counter() - self.began

    def said(self) -> dict[str, Any]:
        """Return it as the controller is told: its result, or its error."""
        if self.error is None:
            return self.result
        return {**self.result, "error": {"kind": self.error.kind, "text": self.error.text}}


class Session:
    """One end of a couple that is probed; close it.

    Parameters
    ----------
    leads
        Whether this end is the first to speak where both meet; the other end's is the opposite.
    """

    def __init__(
        self, place: Place, engine: str, wanted: Sequence[Mapping[str, Any]], *, leads: bool
    ) -> None:
        self._place, self._leads = place, leads
        self._gid = place.gid()
        self._nic = place.nic(engine)
        self._jobs = [Job.of(job) for job in wanted]
        self._meetings = 0
        self._peer_failed: set[str] = set()
        with ExitStack() as unless_complete:
            self._stack = unless_complete
            self._control = self._endpoint(CONTROL)
            self._words = self._control.buffer.cast("Q")
            for job in self._jobs:
                with job.noted():
                    job.endpoint = self._prepare(job)
            self._stack = unless_complete.pop_all()

    def _endpoint(self, setup: Setup) -> Endpoint:
        made: Endpoint = self._nic.endpoint(setup, self._gid)
        self._stack.callback(made.close)
        return made

    def _prepare(self, job: Job) -> Endpoint:
        """Make a job's endpoint; if the NIC refuses it and the probe knows another way, the one for that."""
        half = node_half(job.probe)
        try:
            # Both ends lay out their memory alike, so both count with the largest path MTU.
            return self._endpoint(half.setup(job.parameters))
        except Refusal as refusal:
            fall_back = getattr(half, "fall_back", None)
            if refusal.kind != SETUP or fall_back is None:
                raise
            job.parameters = fall_back(job.parameters)
            job.fell_back = True
        return self._endpoint(half.setup(job.parameters))

    def find_floors(self, guard: Guard) -> None:
        """Have the jobs' floors measured now; they are kept, so none is later, between two looks at counters.

        A port that does not talk to itself tries in vain, and its counters of retries rise.
        """
        for job in self._jobs:
            if job.endpoint is None or job.role != "source":
                continue
            floor = getattr(node_half(job.probe), "floor", None)
            if floor is not None:
                op, length = floor(job.parameters)
                with pinned(job.endpoint.local_cpus), undisturbed():
                    job.endpoint.floor_ns(op, length, guard)

    def prepared(self) -> dict[str, Any]:
        """Return what the controller must know, and as ``addresses`` a text for the peer alone."""
        control = self._control.address()
        jobs = [job.address() for job in self._jobs]
        return {
            "addresses": json.dumps([control, *jobs], separators=(",", ":")),
            "mtu_bytes": control["mtu_bytes"],
            "gid": str(self._gid or ""),
            "gid_index": self._gid.index if self._gid else -1,
        }

    def connect(self, addresses: str) -> dict[str, Any]:
        """Connect to the peer's addresses and return the path MTU that is used.

        Raises
        ------
        Refusal
            The connection on which both ends keep in step cannot be made.
        """
        control, *peers = json.loads(addresses)
        mtu = min(self._control.address()["mtu_bytes"], int(control["mtu_bytes"]))
        mtu = min([mtu, *(int(job.parameters["path_mtu_bytes"]) for job in self._jobs)])
        traffic_class = int(self._jobs[0].parameters["traffic_class"])
        self._control.connect(control, path_mtu_bytes=mtu, traffic_class=traffic_class)
        for job, peer in zip(self._jobs, peers):
            job.connect(peer, mtu)
        return {"path_mtu_bytes": mtu}

    def run(self, guard: Guard, failed: Failed) -> dict[str, Any]:
        """Play all jobs in step with the other end and return what each measured.

        A job that fails has its own error, and the next one follows. Where the ends do not meet any more, the
        first job left of each direction fails as the meeting did (what the fabric refuses to this connection
        it refuses to theirs), and the others are not measured.
        """
        began = perf_counter()
        counts = [sysfs.counters(self._place.port)]
        broken: Optional[Refusal] = None
        for index, job in enumerate(self._jobs):
            if broken is None:
                broken = self._step(index, job, guard, failed)
                counts.append(sysfs.counters(self._place.port))
            else:
                self._leave(job, broken)
        results = [
            {**job.said(), "at_s": max(0.0, job.began - began), "took_s": job.took_s} for job in self._jobs
        ]
        return {"results": results, **_rises(counts)}

    def _step(self, index: int, job: Job, guard: Guard, failed: Failed) -> Optional[Refusal]:
        """Play one job between two meetings; return why the ends do not meet any more, None if they do."""
        until = perf_counter() + float(job.parameters["deadline_s"])
        try:
            guard.play(None, MEET_S)
            self._meet(guard)
        except Refusal as refusal:
            self._leave(job, refusal)
            return refusal
        if job.error is None:
            guard.play(index, until - perf_counter())
            job.play(guard)
        if job.error is not None:
            failed(index)
        try:
            guard.play(None, max(0.0, until - perf_counter()) + MEET_S)
            self._meet(guard)
        except Refusal as refusal:
            return refusal
        return None

    def _leave(self, job: Job, broken: Refusal) -> None:
        """Give a job that is not played any more its error."""
        if job.error is not None:
            return
        if broken.kind == PEER and job.role not in self._peer_failed:
            self._peer_failed.add(job.role)
            job.error = broken
        else:
            job.error = Refusal(DEADLINE, f"not measured: both ends had lost each other: {broken.text}")

    def _meet(self, guard: Guard) -> None:
        """Wait until the other end has come as far.

        One end speaks first and the other one answers, so no word is ever overwritten before it was read.
        Whoever waits naps: a target that has nothing to do must leave its CPU to what answers the source.
        """
        self._meetings += 1
        question, reply = 2 * self._meetings, 2 * self._meetings + 1
        if self._leads:
            self._say(question, guard)
            self._await(reply, guard)
        else:
            self._await(question, guard)
            self._say(reply, guard)

    def _say(self, word: int, guard: Guard) -> None:
        self._words[0] = word
        self._control.round_trips(WRITE, WORD_BYTES, 1, guard)

    def _await(self, word: int, guard: Guard) -> None:
        began = perf_counter()
        while self._words[0] != word:
            guard.check("the other end of this couple")
            waited_s = perf_counter() - began
            time.sleep(min(max(SHORTEST_NAP_S, waited_s / NAPS), LONGEST_NAP_S))

    def close(self) -> None:
        """Give back everything, the last thing made first."""
        self._words.release()
        self._stack.close()


def _rises(counts: Sequence[dict[str, int]]) -> dict[str, Any]:
    """Return by how much the counters rose over each job, from what they were before, between and after.

    ``counted`` are the names of all that were read every time; ``counters`` has for each job those of them
    that did not stand still (None: went backwards), and the full account of all others. Most stand still, and
    a thousand nodes would say so half a million times.
    """
    always = set(counts[0]).intersection(*counts[1:])
    rises = []
    for before, after in zip(counts, counts[1:]):
        changed = sysfs.deltas(before, after)
        rises.append({name: rise for name, rise in changed.items() if rise != 0 or name not in always})
    return {"counted": " ".join(sorted(always)), "counters": rises}
