from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fabricctl.cli.links import _wiring
from fabricctl.errors import UsageError
from fabricctl.infiniband.asking import parts


def test_a_saved_ibnetdiscover_is_read(pod: Any, tmp_path: Path) -> None:
    answers, _ = pod.answers("good")
    file = tmp_path / "fabric.topo"
    file.write_text(parts(next(iter(answers.values())))["topology"].stdout)
    found = _wiring(pod.fabric, file)
    assert found.source == str(file)
    assert ("leaf1/3", "node3/ib0") in found.cables
    assert len(found.cables) == 12


def test_a_file_that_holds_none_or_is_not_there(pod: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        _wiring(pod.fabric, tmp_path / "none")
    file = tmp_path / "empty"
    file.write_text("")
    with pytest.raises(UsageError, match="it holds no cables"):
        _wiring(pod.fabric, file)


def test_a_file_that_is_cut_off_is_no_topology(pod: Any, tmp_path: Path) -> None:
    answers, _ = pod.answers("good")
    text = parts(next(iter(answers.values())))["topology"].stdout
    file = tmp_path / "fabric.topo"
    file.write_text(text[: len(text) // 2])
    with pytest.raises(UsageError, match="it is cut off"):
        _wiring(pod.fabric, file)
