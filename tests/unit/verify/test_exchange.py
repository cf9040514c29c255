"""Agents that say much: before they are asked, at the same time, and while nobody reads."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fabricctl.errors import FabricctlError, UnreachableError
from fabricctl.verify import exchange
from fabricctl.verify.agents import NoAnswerError, Patience
from fabricctl.verify.exchange import BACKLOG, TALK, Exchange, Request

Take = Callable[[str | FabricctlError], None]
PATIENCE = Patience(start=5, answer=0.4, idle=30)


class Process:
    """A process that has said some things already."""

    def __init__(self, said: list[str | FabricctlError]) -> None:
        self.said = said
        self.sent: list[str] = []
        self.take: Take
        self.closed = threading.Event()

    def watch(self, take: Take) -> None:
        for line in self.said:
            take(line)
        self.take = take

    def send(self, text: str) -> None:
        self.sent.append(text)


def made(*said: list[str | FabricctlError]) -> tuple[Exchange, list[Process]]:
    processes = [Process(lines) for lines in said]
    agents: list[Any] = [
        SimpleNamespace(process=p, device=SimpleNamespace(name=f"node{n}"), close=p.closed.set)
        for n, p in enumerate(processes, start=1)
    ]
    return within(lambda: Exchange(agents, PATIENCE)), processes


def within(do: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Return what a call returns; it must not take longer."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(do()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "it hangs"
    return found[0]


def answer(number: int) -> str:
    return json.dumps({"id": number, "ok": {"number": number}})


@pytest.mark.parametrize("lines", [BACKLOG - 1, BACKLOG, BACKLOG + 1, 3 * BACKLOG])
def test_an_agent_that_says_much_before_it_is_asked_is_given_up_and_no_hang(lines: int) -> None:
    talk, (one, two) = made(['{"news":1}'] * lines, [])
    replies: list[Any] = []
    for line in talk.lines:
        talk.ask(line, Request('"op":"port"', replies.append))
    two.take(answer(2))
    if lines <= BACKLOG:
        threading.Thread(target=one.take, args=(answer(2),)).start()
    for _ in range(4):
        talk.turn()
    if lines <= BACKLOG:
        assert [reply["number"] for reply in replies] == [2, 2]
        assert not one.closed.is_set()
    else:
        (lost,) = [reply for reply in replies if isinstance(reply, NoAnswerError)]
        assert str(lost) == f"node1: node1 is gone: the agent said {TALK} things that nobody asked for"
        assert [r["number"] for r in replies if not isinstance(r, NoAnswerError)] == [2]
        assert one.closed.wait(5)
    assert not two.closed.is_set()


def test_an_agent_that_ended_before_it_was_asked_is_gone() -> None:
    talk, _ = made([UnreachableError("the program ended", device="node1")])
    talk.turn()
    assert talk.lines[0].lost.startswith("node1 stopped answering")


@pytest.mark.parametrize("talkers", [1, 2, 3])
def test_answers_that_wait_are_heard_before_anybody_is_given_up(talkers: int) -> None:
    talk, processes = made(*[[] for _ in range(talkers + 1)])
    replies: list[list[Any]] = [[] for _ in processes]
    for line, heard in zip(talk.lines[:-1], replies, strict=False):
        talk.ask(line, *(Request('"op":"x"', heard.append) for _ in range(BACKLOG)))
    talk.ask(talk.lines[-1], Request('"op":"x"', replies[-1].append))
    for process in processes[:-1]:
        for number in range(2, BACKLOG + 2):
            process.take(answer(number))
    processes[-1].take(answer(2))
    # While this program did something else all have answered: who is late in the queue was not silent.
    time.sleep(3 * PATIENCE.answer)
    for _ in range(talkers + 1):
        talk.turn()
    assert [len(heard) for heard in replies] == [*[BACKLOG] * talkers, 1]
    assert [reply["number"] for reply in replies[-1]] == [2]
    assert {line.lost for line in talk.lines} == {""}


def test_what_takes_long_to_deal_with_is_not_taken_for_the_silence_of_others() -> None:
    talk, (one, two) = made([], [])
    replies: list[Any] = []

    def slow(_: Any) -> None:
        time.sleep(3 * PATIENCE.answer)

    talk.ask(talk.lines[0], Request('"op":"x"', slow))
    talk.ask(talk.lines[1], Request('"op":"x"', replies.append), Request('"op":"y"', replies.append))
    one.take(answer(2))
    two.take(answer(2))
    talk.turn()
    # The second request of node2 has its whole time from now on.
    talk.turn()
    assert talk.lines[1].lost == ""
    two.take(answer(3))
    talk.turn()
    assert [reply["number"] for reply in replies] == [2, 3]


def test_a_channel_waits_for_its_reader_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MOST_NAP_S", 0.3)
    talk, (one,) = made([])
    for _ in range(BACKLOG):
        one.take('{"news":1}')
    began = time.monotonic()
    one.take('{"news":1}')
    assert 0.3 <= time.monotonic() - began < 5
    talk.close()
    began = time.monotonic()
    one.take('{"news":1}')
    assert time.monotonic() - began < 0.3
