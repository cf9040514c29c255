"""Requests to many agents and their replies, in one thread.

With a thread for each pair that is probed, a thousand nodes cost more time in handing over than in measuring:
here whatever any agent says comes through one queue.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from fabricctl.errors import DeadlineError, FabricctlError, WireError
from fabricctl.verify import agents
from fabricctl.verify.agents import GONE, Agent, NoAnswerError, Patience

Reply = dict[str, Any] | NoAnswerError
"""What a request came to."""
Then = Callable[[Reply], None]
"""Called with what a request came to."""
Notice = Callable[[dict[str, Any]], None]
"""Called with what an agent says meanwhile."""

BACKLOG = 1000
"""Lines of one agent that wait to be read: beyond them its channel is not read any further."""
TALK = 1000
"""Lines that an agent may say beside the reply to one request."""
IDLE_PARTS = 3
"""An agent that waits for its turn is spoken to so often within the time after which it would end."""
NAP_S, MOST_NAP_S = 0.01, 60.0
"""How long a channel waits before it looks again, and in all for one line: whoever reads may be held up."""


def unheeded(said: dict[str, Any]) -> None:
    """Heed no notice."""
    del said


@dataclass(slots=True)
class Request:
    """One thing to ask.

    Parameters
    ----------
    fields
        The message without its id, as JSON without its braces: ``"op":"run","slot":"a"``.
    takes_s
        How long it may take, beyond the patience for an answer.
    """

    fields: str
    then: Then
    takes_s: float = 0.0
    notice: Notice = unheeded
    number: int = 0


class Line:
    """The connection to one agent: what it was asked and has not answered.

    Attributes
    ----------
    lost
        Empty, or why it is not listened to any more.
    known
        Names of the lists of jobs that it was told.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.name = agent.device.name
        self.lost = ""
        self.known: set[str] = set()
        self.open: deque[Request] = deque()
        self.number = 1
        self.heard = self.until = 0.0
        self.told = time.monotonic()
        self.pinged: float | None = None
        self.talk = 0
        # Each is counted by one thread only.
        self.came = self.taken = 0


class Exchange:
    """What goes to and fro between this program and its agents.

    Parameters
    ----------
    patience
        An agent that is silent for half of ``answer`` is asked for a sign of life, and given up after the
        other half: so a frozen node is known as such long before the longest probe would have ended.
    """

    def __init__(self, members: Iterable[Agent], patience: Patience) -> None:
        self._patience = patience
        self._tick_s = min(0.5, patience.answer / 8)
        self._came: SimpleQueue[tuple[Line, str | FabricctlError]] = SimpleQueue()
        self._failed: deque[tuple[Then, NoAnswerError]] = deque()
        self._next_look = 0.0
        self._is_made = False
        self.lines = [Line(agent) for agent in members]
        for line in self.lines:
            line.agent.process.watch(self._sink(line))
        self._is_made = True

    def _sink(self, line: Line) -> Callable[[str | FabricctlError], None]:
        came = self._came.put

        def take(said: str | FabricctlError) -> None:
            if not self._is_made and line.came >= BACKLOG:
                # The thread that is to read may be the one that hands over: it must not wait for itself.
                self._refuse(line)
                return
            line.came += 1
            came((line, said))
            until = time.monotonic() + MOST_NAP_S
            while line.came - line.taken > BACKLOG and not line.lost and time.monotonic() < until:
                time.sleep(NAP_S)

        return take

    def _refuse(self, line: Line) -> None:
        """Listen no further to an agent that says so much before it is asked; it is given up in a turn."""
        if line.came == BACKLOG:
            line.came += 1
            self._came.put((line, _too_much(line)))
            threading.Thread(target=line.agent.close, daemon=True).start()

    def close(self) -> None:
        """Listen to nobody any more."""
        for line in self.lines:
            line.lost = line.lost or f"{line.name} was dismissed"

    def ask(self, line: Line, *requests: Request) -> None:
        """Send requests, which the agent answers in this order; their `then` is called in a later turn."""
        for request in requests:
            line.number += 1
            request.number = line.number
        if line.lost:
            self._fail(line, requests, line.lost)
        else:
            texts = [f'{{"id":{request.number},{request.fields}}}' for request in requests]
            now = time.monotonic()
            if not line.open:
                line.heard, line.pinged, line.talk = now, None, 0
                line.until = now + requests[0].takes_s + self._patience.answer
            line.open.extend(requests)
            self._send(line, texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")

    def call_off(self, line: Line, number: int, job: int | None = None) -> None:
        """Make a request, or one job of it, end soon, with an error."""
        if not line.lost:
            of_job = "" if job is None else f',"job":{job}'
            self._send(line, f'{{"op":"call_off","of":{number}{of_job}}}')

    def _send(self, line: Line, text: str) -> None:
        line.told = time.monotonic()
        try:
            line.agent.process.send(text)
        except FabricctlError as exc:
            self._lose(line, exc)

    def turn(self) -> None:
        """Deal with what has come; waits for a moment if there is nothing."""
        failed, self._failed = self._failed, deque()
        for then, error in failed:
            then(error)
        try:
            said = self._came.get(timeout=0.0 if failed else self._tick_s)
            for _ in range(BACKLOG):
                self._hear(*said)
                said = self._came.get_nowait()
            self._hear(*said)
        except Empty:
            # Only now is an agent silent that was not heard: its answer may have waited among the others.
            now = time.monotonic()
            if now >= self._next_look:
                self._next_look = now + self._tick_s
                self._look(now)

    def _hear(self, line: Line, said: str | FabricctlError) -> None:
        now = time.monotonic()  # what was heard before may have taken long to deal with
        line.taken += 1
        if line.lost:
            return
        if isinstance(said, FabricctlError):
            self._lose(line, said)
            return
        expected = line.pinged is not None
        line.heard, line.pinged = now, None
        try:
            message = agents.parse(line.name, said)
            waiting = line.open
            if waiting and message.get("id") == waiting[0].number:
                self._answer(line, message, now)
            elif not (expected and "pong" in message):
                self._heed(line, message)
        except WireError as exc:
            self._lose(line, exc)

    def _answer(self, line: Line, message: dict[str, Any], now: float) -> None:
        reply: Reply
        try:
            reply = agents.result(line.name, message)
        except NoAnswerError as exc:
            reply = exc
        waiting = line.open
        request = waiting.popleft()
        line.talk = 0
        if waiting:
            line.until = now + waiting[0].takes_s + self._patience.answer
        request.then(reply)

    def _heed(self, line: Line, message: dict[str, Any]) -> None:
        line.talk += 1
        if line.talk > TALK:
            raise _too_much(line)
        if line.open and message.get("of") == line.open[0].number:
            line.open[0].notice(message)

    def _look(self, now: float) -> None:
        """Find the agents that are silent, and let none end by itself because nobody speaks to it."""
        half = self._patience.answer / 2
        for line in self.lines:
            if line.lost:
                continue
            if not line.open:
                if now - line.told > self._patience.idle / IDLE_PARTS:
                    line.pinged = now
                    self._send(line, '{"op":"ping"}')
                continue
            if now > (line.until if line.pinged is None else line.pinged + half):
                self._lose(line, DeadlineError("silence", device=line.name, after_s=self._patience.answer))
            elif line.pinged is None and now - line.heard > half:
                line.pinged = now
                self._send(line, '{"op":"ping"}')

    def _lose(self, line: Line, exc: FabricctlError) -> None:
        """Give an agent up: nothing that it says later can be trusted to be an answer."""
        if line.lost:
            return
        if isinstance(exc, DeadlineError):
            now = f"{line.name} did not answer for {exc.after_s:.0f} s"
        else:
            now = f"{line.name} is gone: {exc.what}"
        line.lost = f"{line.name} stopped answering at {time.strftime('%H:%M:%S')}"
        # Closing may take a second, in which the others must not wait.
        threading.Thread(target=line.agent.close, daemon=True).start()
        requests = list(line.open)
        line.open.clear()
        self._fail(line, requests[:1], now)
        self._fail(line, requests[1:], line.lost)

    def _fail(self, line: Line, requests: Sequence[Request], why: str) -> None:
        """Have requests answered with a no in the next turn: who asks is not called before it has asked."""
        for request in requests:
            self._failed.append((request.then, NoAnswerError(why, device=line.name, kind=GONE)))


def _too_much(line: Line) -> WireError:
    return WireError(f"the agent said {TALK} things that nobody asked for", where=line.name)
