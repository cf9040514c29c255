"""A program's lines handed to one taker as they come, in place of being asked for."""

from __future__ import annotations

import queue
import threading

from fabricctl.errors import FabricctlError, UnreachableError
from fabricctl.transport.lines import LineProcess


class _Channel:
    """Says what is put into it; an empty block ends it."""

    def __init__(self) -> None:
        self.blocks: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read_stdout(self) -> bytes:
        return self.blocks.get()

    def read_stderr(self) -> bytes:
        return b""

    def write(self, content: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.blocks.put(b"")

    def status(self) -> str:
        return "exit status 3"


def test_lines_from_before_and_after_are_handed_over_in_order_and_the_end_is_last() -> None:
    channel, taken, ended = _Channel(), list[str | FabricctlError](), threading.Event()

    def take(said: str | FabricctlError) -> None:
        taken.append(said)
        if isinstance(said, FabricctlError):
            ended.set()

    process = LineProcess("node1", "agent", channel)
    channel.blocks.put(b"hello\none\ntw")
    assert process.receive(5.0) == "hello"
    process.watch(take)
    channel.blocks.put(b"o\nthree\n")
    channel.blocks.put(b"")
    assert ended.wait(5.0)
    assert taken[:3] == ["one", "two", "three"]
    (end,) = taken[3:]
    assert isinstance(end, UnreachableError)
    assert end.what == "agent ended: exit status 3"
    process.close()


def test_taker_that_waits_holds_up_the_program() -> None:
    channel, go_on, taken = _Channel(), threading.Event(), list[str | FabricctlError]()

    def take(said: str | FabricctlError) -> None:
        go_on.wait(5.0)
        taken.append(said)

    process = LineProcess("node1", "agent", channel)
    process.watch(take)
    for _ in range(3):
        channel.blocks.put(b"line\n")
    assert taken == []
    assert channel.blocks.qsize() >= 1
    go_on.set()
    channel.close()
    process._output.join(5.0)  # noqa: SLF001  it ends with the program's output
    assert taken[:3] == ["line"] * 3
    assert len(taken) == 4
    process.close()
