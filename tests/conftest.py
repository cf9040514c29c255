"""Rules for every test: no sockets outside the lab, and a skip that nobody expects fails the run."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import settings

# Machines that emulate guests at the same time are slow now and then; speed is measured in tests/bench.
settings.register_profile("fabricctl", deadline=None)
settings.load_profile("fabricctl")

EXPECTED_SKIPS: frozenset[str] = frozenset()
"""Node ids of tests that may be skipped on a machine without RDMA hardware; CI counts them."""

_skipped: set[str] = set()


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "lab" not in request.keywords:
        real = socket.socket.connect

        def refuse(self: socket.socket, address: Any) -> None:
            if self.family != socket.AF_UNIX:
                message = f"a unit test opened a connection to {address!r}"
                raise AssertionError(message)
            real(self, address)

        monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(autouse=True)
def _own_state(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Keep every test away from the user's own store and settings."""
    if "lab" not in request.keywords:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    for name in ("FABRICCTL_INVENTORY", "FABRICCTL_STORE"):
        monkeypatch.delenv(name, raising=False)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    unexpected = _skipped - EXPECTED_SKIPS
    if unexpected and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\n{len(unexpected)} unexpected skips: {sorted(unexpected)}")  # noqa: T201  pytest's own output
