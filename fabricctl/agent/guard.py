"""Keeps an agent from outliving its controller, and its loops from running for ever."""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Optional, TextIO

from fabricctl.agent.wire import DEADLINE, Refusal

SPARE_S = 10.0
"""Seconds that a request may take beyond its own deadline before the kernel ends the process."""


class Guard:
    """The time that is left for what the agent does now, and whether it was called off.

    A busy loop calls :meth:`check` every few hundred turns. Should the process hang inside a verb, which
    holds Python's lock, the kernel's alarm ends it: its handler is the default one, which needs no Python.

    Parameters
    ----------
    idle_s
        Seconds without any request, or sign of life of the controller, after which the process is ended.

    Attributes
    ----------
    flag
        Not 0 once what runs now was called off: for loops in C, which look at it without Python.
    until_ns
        When the time is up, on the monotonic clock.
    """

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self.until_ns = 0
        self.flag = ctypes.c_int(0)
        self._lock = threading.Lock()
        self._now: tuple[int, Optional[int]] = (0, None)
        self._called_off: set[tuple[int, Optional[int]]] = set()
        self._rests = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def begin(self, number: int, seconds: float) -> None:
        """Start the clock of request `number`, which may take `seconds`."""
        with self._lock:
            self._called_off = {off for off in self._called_off if off[0] >= number}
        self._turn_to(number, None)
        self.allow(seconds)

    def play(self, job: Optional[int], seconds: float) -> None:
        """Start the clock of a job of the request; None is what comes between two of them."""
        self._turn_to(self._now[0], job)
        self.allow(seconds)

    def _turn_to(self, number: int, job: Optional[int]) -> None:
        with self._lock:
            self._now = (number, job)
            self._look()

    def _look(self) -> None:
        number = self._now[0]
        self.flag.value = int((number, None) in self._called_off or self._now in self._called_off)

    def allow(self, seconds: float) -> None:
        """Let what runs now go on for `seconds` from now."""
        self.until_ns = perf_counter_ns() + int(seconds * 1e9)
        with self._lock:
            self._rests = False
            signal.setitimer(signal.ITIMER_REAL, seconds + SPARE_S)

    def rest(self) -> None:
        """Start the clock of waiting for a request."""
        with self._lock:
            self._rests = True
            signal.setitimer(signal.ITIMER_REAL, self._idle_s)

    def hear(self) -> None:
        """Start that clock anew, for the controller is there; a request's own goes on. From any thread."""
        with self._lock:
            if self._rests:
                signal.setitimer(signal.ITIMER_REAL, self._idle_s)

    def call_off(self, number: int, job: Optional[int] = None) -> None:
        """Make the next check within a request, or within one of its jobs, fail: it is not wanted any more.

        Nothing else is ended: a request that is over has no check left, one that waits ends when it begins.
        """
        with self._lock:
            self._called_off.add((number, job))
            self._look()

    def check(self, waiting_for: str = "the fabric") -> None:
        """Raise a Refusal (kind ``deadline``) if the time is up or this was called off."""
        if self.flag.value:
            raise Refusal(DEADLINE, f"called off by the controller while waiting for {waiting_for}")
        if perf_counter_ns() > self.until_ns:
            raise Refusal(DEADLINE, f"no answer in time from {waiting_for}")


class Inbox:
    """Requests as they arrive; the process ends when no more can come.

    A line holds one request, or several as a list; they are answered in their order.

    Parameters
    ----------
    stream
        Where the requests come from.
    guard
        Told at once when a request is called off, since then the main thread is in a loop.
    pong
        Called at once when the controller asks whether the agent is still alive.
    """

    def __init__(self, stream: TextIO, guard: Guard, pong: Callable[[], None]) -> None:
        self._stream, self._guard, self._pong = stream, guard, pong
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            if line.strip():
                self._take(line)
        os._exit(0)  # the controller is gone: the kernel takes back queue pairs and memory

    def _take(self, line: str) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            said = line.strip()
        for request in said if isinstance(said, list) else [said]:
            if not self._is_done_at_once(request):
                self._requests.put(request)

    def _is_done_at_once(self, request: Any) -> bool:
        """Do what must not wait for the request that runs."""
        op = request.get("op") if isinstance(request, dict) else None
        if op == "ping":
            self._guard.hear()
            self._pong()
        elif op == "call_off" and isinstance(request.get("of"), int):
            job = request.get("job")
            self._guard.call_off(request["of"], job if isinstance(job, int) else None)
        else:
            return False
        return True

    def next(self) -> Any:
        """Return the next request as it came, whatever it is; waits for it."""
        return self._requests.get()
