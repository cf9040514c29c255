from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.model.words import count, quoted


@pytest.mark.parametrize(("number", "text"), [(0, "0 pairs"), (1, "1 pair"), (2, "2 pairs")])
def test_count(number: int, text: str) -> None:
    assert count(number, "pair") == text
    assert count(number, "switch", "switches") == text.replace("pair", "switch").replace("hs", "hes")


@pytest.mark.parametrize(
    ("name", "text"), [("node1", "node1"), ("n1; reboot", "'n1; reboot'"), ("a\nb", "'a\\nb'"), ("", "''")]
)
def test_quoted(name: str, text: str) -> None:
    assert quoted(name) == text


@given(st.text())
def test_a_quoted_name_is_one_printable_word(name: str) -> None:
    assert quoted(name).isprintable()
    assert len(shlex.split(quoted(name))) == 1
