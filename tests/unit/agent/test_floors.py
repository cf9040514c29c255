"""When a port's own time is measured: before counters are read, and once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fabricctl.agent import floor
from fabricctl.agent.link import Setup
from fabricctl.agent.session import Session

PARAMETERS = {
    "message_bytes": 64,
    "samples": 9,
    "warmup": 1,
    "queue_pairs": 2,
    "packets": 64,
    "path_mtu_bytes": 1024,
}


def _session(asked: list[tuple[str, int]], *jobs: tuple[str, str]) -> Session:
    def endpoint(setup: Setup, gid: object) -> Any:
        del gid
        return SimpleNamespace(
            buffer=memoryview(bytearray(setup.buffer_bytes)),
            local_cpus="",
            floor_ns=lambda op, length, _guard: asked.append((op, length)),
            close=lambda: None,
        )

    port = SimpleNamespace(is_iwarp=False)
    nic = SimpleNamespace(endpoint=endpoint)
    place: Any = SimpleNamespace(gid=lambda: None, nic=lambda _engine: nic, port=port)
    wanted = [{"probe": probe, "role": role, "parameters": PARAMETERS} for probe, role in jobs]
    return Session(place, "native", wanted, leads=True)


@pytest.mark.parametrize(
    ("jobs", "floors"),
    [
        ([("read_latency", "source")], [("READ", 64)]),
        ([("read_latency", "target"), ("write_latency", "source")], [("WRITE", 64)]),
        ([("write_latency", "source"), ("read_latency", "source")], [("WRITE", 64), ("READ", 64)]),
        ([("loss", "source"), ("write_pingpong", "source"), ("telepathy", "source")], []),
    ],
)
def test_sources_find_the_floors_that_their_jobs_will_ask_for(
    jobs: list[tuple[str, str]], floors: list[tuple[str, int]]
) -> None:
    asked: list[tuple[str, int]] = []
    session = _session(asked, *jobs)
    session.find_floors(None)  # type: ignore[arg-type]  # it is not asked
    assert asked == floors


def test_a_port_that_does_not_talk_to_itself_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, int]] = []
    monkeypatch.setattr(floor, "_measured", lambda _nic, _gid, op, length, _guard: tried.append((op, length)))
    nic: Any = SimpleNamespace(floors={})
    for op, length in (("READ", 8), ("WRITE", 8), ("READ", 64), ("READ", 8)):
        assert floor.floor_ns(nic, None, op, length, None) is None  # type: ignore[arg-type]  # nor here
    assert tried == [("READ", 8)]
