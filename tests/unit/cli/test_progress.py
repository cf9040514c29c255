from __future__ import annotations

import re
import threading
import time

import pytest

from fabricctl.cli import common, progress


def test_without_a_terminal_a_line_comes_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(common, "tell", lines.append)
    monkeypatch.setattr(progress, "EVERY_S", 0.02)
    with progress.progress() as show:
        _wait_for(lines, "verify: no pair begun after ")
        show(0, 12)
        show(4, 12)
        _wait_for(lines, "verify: 4 of 12 pairs after ")
    assert all(re.fullmatch(r"verify: (no pair begun|[04] of 12 pairs) after \d+ s", line) for line in lines)
    said = len(lines)
    time.sleep(0.1)
    assert len(lines) == said


def _wait_for(lines: list[str], start: str) -> None:
    end = time.monotonic() + 30
    while not any(line.startswith(start) for line in lines):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_short_run_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress() as show:
        show(1, 1)
    assert capsys.readouterr().err == ""
    assert progress.EVERY_S == 15


def test_an_error_ends_the_lines_too() -> None:
    with pytest.raises(KeyboardInterrupt), progress.progress():
        raise KeyboardInterrupt
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


def test_on_a_terminal_it_is_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "on_terminal", lambda: True)
    with progress.progress() as show:
        show(0, 2)
        show(2, 2)
    assert "verify:" not in capsys.readouterr().err
