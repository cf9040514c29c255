"""A NIC without unreliable connections: both ends fall back alike, or the job says why it was not played."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fabricctl.agent.link import Setup
from fabricctl.agent.session import Session
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.wire import SETUP, Refusal

PARAMETERS = {"queue_pairs": 2, "packets": 64, "path_mtu_bytes": 1024, "traffic_class": 0, "deadline_s": 9.0}


class _Nic:
    def __init__(self, refuses: tuple[str, ...]) -> None:
        self.refuses = refuses
        self.made: list[tuple[str, ...]] = []

    def endpoint(self, setup: Setup, gid: object) -> Any:
        del gid
        if set(self.refuses) & set(setup.queue_pairs):
            raise Refusal(SETUP, "queue pairs cannot be made: not supported")
        self.made.append(setup.queue_pairs)
        return SimpleNamespace(
            buffer=memoryview(bytearray(setup.buffer_bytes)),
            address=lambda: {"mtu_bytes": 1024},
            connect=lambda *_a, **_k: None,
            close=lambda: None,
        )


def _session(nic: _Nic) -> Session:
    place: Any = SimpleNamespace(gid=lambda: None, nic=lambda _engine: nic, port=SimpleNamespace())
    return Session(
        place, "native", [{"probe": "loss", "role": "source", "parameters": PARAMETERS}], leads=True
    )


def _address(session: Session) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = json.loads(session.prepared()["addresses"])[1]
    return found


def _error(session: Session) -> Refusal | None:
    return session._jobs[0].error  # noqa: SLF001  what it would say


def test_a_nic_that_has_them_uses_them() -> None:
    nic = _Nic(())
    assert _address(_session(nic)) == {"mtu_bytes": 1024}
    assert nic.made[-1] == ("UC", "UC", "RC")


def test_a_nic_that_refuses_them_gets_reliable_ones_and_says_so() -> None:
    nic = _Nic(("UC",))
    session = _session(nic)
    assert _address(session) == {"mtu_bytes": 1024, "fell_back": True}
    assert nic.made[-1] == ("RC", "RC", "RC")
    session.connect(_session(_Nic(("UC",))).prepared()["addresses"])
    assert _error(session) is None


@pytest.mark.parametrize("refuses", [((), ("UC",)), (("UC",), ())])
def test_if_only_one_end_has_them_it_is_not_played(refuses: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    near, far = (_session(_Nic(one)) for one in refuses)
    near.connect(far.prepared()["addresses"])
    error = _error(near)
    assert error is not None
    assert (error.kind, error.text) == (SETUP, "only one of the two NICs has the queue pairs that loss needs")


@pytest.mark.parametrize(("node_type", "is_iwarp"), [("4: RNIC", True), ("1: CA", False), (None, False)])
def test_the_kernel_says_which_devices_are_iwarp(
    tmp_path: Path,
    node_type: str | None,
    is_iwarp: bool,  # noqa: FBT001  a case of the test
) -> None:
    folder = tmp_path / "class" / "infiniband" / "irdma0"
    folder.mkdir(parents=True)
    if node_type:
        (folder / "node_type").write_text(node_type + "\n")
    assert VerbsPort("irdma0", 1, "eth1", tmp_path).is_iwarp is is_iwarp
