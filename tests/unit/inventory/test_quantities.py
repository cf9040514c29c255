from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.inventory.quantities import duration_s, size_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (30000, 30000),
        ("30000", 30000),
        ("100KB", 100_000),
        ("100 KB", 100_000),
        ("100KiB", 102_400),
        ("1.5MB", 1_500_000),
        ("4MiB", 4_194_304),
        ("0.3KB", 300),
        ("1GB", 1_000_000_000),
    ],
)
def test_sizes(text: object, expected: int) -> None:
    assert size_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "KB", "100kb", "100K", "-1", "1.0001KB", "1e3", None, True, 1.5, [1]])
def test_no_sizes(text: object) -> None:
    with pytest.raises(ValueError, match="must be a size in bytes"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7d", 604_800), ("12h", 43_200), ("90", 90), (60, 60), ("1.5m", 90), ("2w", 1_209_600)],
)
def test_durations(text: object, expected: int) -> None:
    assert duration_s(text) == expected


@pytest.mark.parametrize("text", ["7days", "d", "1.5", False, "-1s"])
def test_no_durations(text: object) -> None:
    with pytest.raises(ValueError, match="must be a number of seconds"):
        duration_s(text)


@given(st.integers(min_value=0, max_value=10**12), st.sampled_from(["KB", "KiB", "MB", "MiB"]))
def test_a_whole_number_of_units_is_exact(number: int, unit: str) -> None:
    base = 1024 if "i" in unit else 1000
    assert size_bytes(f"{number}{unit}") == number * base ** (1 if unit[0] == "K" else 2)


@given(st.text())
def test_any_text_is_a_size_or_refused(text: str) -> None:
    try:
        assert size_bytes(text) >= 0
    except ValueError as exc:
        assert "must be a size" in str(exc)  # noqa: PT017  either end is right
