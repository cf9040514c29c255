"""Keeps an agent from outliving its controller, and its loops from running for ever."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import TextIO

from fabricctl.agent.wire import DEADLINE, Refusal, decode

SPARE_S = 10.0
"""Seconds that a request may take beyond its own deadline before the kernel ends the process."""


class Guard:
    """The time that is left for what the agent does now.

    A busy loop calls :meth:`check` every few hundred turns. Should the process hang inside a verb, which
    holds Python's lock, the kernel's alarm ends it: its handler is the default one, which needs no Python.

    Parameters
    ----------
    idle_s
        Seconds without any request after which the process is ended.
    """

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._until_ns = 0
        self._called_off = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def allow(self, seconds: float) -> None:
        """Start the clock of a request that may take `seconds`."""
        self._called_off = False
        self._until_ns = perf_counter_ns() + int(seconds * 1e9)
        signal.setitimer(signal.ITIMER_REAL, seconds + SPARE_S)

    def rest(self) -> None:
        """Start the clock of waiting for a request."""
        signal.setitimer(signal.ITIMER_REAL, self._idle_s)

    def call_off(self) -> None:
        """Make the next check fail: the controller no longer wants the answer."""
        self._called_off = True

    def check(self, waiting_for: str = "the fabric") -> None:
        """Raise a Refusal (kind ``deadline``) if the time is up or the request was called off."""
        if self._called_off:
            raise Refusal(DEADLINE, f"called off by the controller while waiting for {waiting_for}")
        if perf_counter_ns() > self._until_ns:
            raise Refusal(DEADLINE, f"no answer in time from {waiting_for}")


class Inbox:
    """Requests as they arrive; the process ends when no more can come.

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
        self._stream = stream
        self._at_once = {"call_off": guard.call_off, "ping": pong}
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            now = self._at_once.get(_operation(line))
            if now is not None:
                now()
            elif line.strip():
                self._lines.put(line)
        os._exit(0)  # the controller is gone: the kernel takes back queue pairs and memory

    def next(self) -> str:
        """Return the next request's line; waits for it."""
        return self._lines.get()


def _operation(line: str) -> str:
    try:
        return str(decode(line).get("op"))
    except Refusal:
        return ""
