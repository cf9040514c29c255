"""What a lab remembers, where, and its lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricctl.errors import BusyError, LabError, UsageError
from fabricctl.lab import state
from fabricctl.lab.fabric import Shape
from fabricctl.lab.state import Fault, Places, Record, State

FULL = State(
    name="lab",
    shape=Shape(2),
    run_folder="/run/x",
    nics=8,
    accelerator="tcg",
    phase="up",
    guests=(Record("node1", 7, 8, 40001, 1, restored=True),),
    faults=(Fault("loss", "node1", "eth1", 2.5, "in"),),
)


def places(tmp_path: Path) -> Places:
    return Places("lab", tmp_path / "state", tmp_path / "cache")


def test_state_survives_writing_and_reading(tmp_path: Path) -> None:
    where = places(tmp_path)
    assert state.load(where) is None
    state.save(where, FULL)
    assert state.load(where) == FULL
    assert where.state_file.stat().st_mode & 0o777 == 0o600
    assert where.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["", "{}", '{"version": 99}', "[]"])
def test_a_damaged_state_says_how_to_get_rid_of_it(tmp_path: Path, text: str) -> None:
    where = places(tmp_path)
    state.save(where, FULL)
    where.state_file.write_text(text)
    with pytest.raises(LabError, match="lab down --name lab"):
        state.load(where)


def test_a_record_is_replaced_not_doubled() -> None:
    new = FULL.with_record(Record("node1", 9)).with_record(Record("node2", 5))
    assert [(r.name, r.pid) for r in new.guests] == [("node1", 9), ("node2", 5)]
    assert new.record("node3") == Record("node3")


def test_a_lock_is_held_by_one_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "lock"
    with (
        state.locked(path, wait=False, remove=True),
        pytest.raises(BusyError),
        state.locked(path, wait=False),
    ):
        pass
    assert not path.exists()
    with state.locked(path, wait=False):
        pass


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "a" * 25, "-a", "a b"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        state.places(name)
