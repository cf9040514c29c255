from __future__ import annotations

import pickle

import pytest

from fabricctl import errors
from fabricctl.errors import DeadlineError, FabricctlError, UnreachableError


def test_an_error_is_one_line_with_place_and_next_step() -> None:
    error = UnreachableError("no answer\n on port 22", device="n7", next_step="is it up?")
    assert str(error) == "n7: no answer on port 22; is it up?"
    assert isinstance(error, ConnectionError)


def test_a_deadline_carries_its_seconds() -> None:
    error = DeadlineError("silent", device="n7", port="eth1", after_s=10.0)
    assert error.after_s == 10.0
    assert str(error) == "n7/eth1: silent"


@pytest.mark.parametrize("name", [n for n in dir(errors) if n.endswith("Error")])
def test_every_error_survives_pickling(name: str) -> None:
    kind = getattr(errors, name)
    extra: dict[str, object] = {"device": "d"} if issubclass(kind, errors.DeviceError) else {"where": "f:1"}
    if kind is DeadlineError:
        extra["after_s"] = 1.0
    error = kind("what", next_step="do", **extra)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    assert type(again) is kind
    assert str(again) == str(error)
    assert isinstance(again, FabricctlError)
