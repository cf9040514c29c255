from __future__ import annotations

from pathlib import Path

import pytest

from fabricctl.cli.common import find_inventory, words
from fabricctl.errors import UsageError


def test_a_list_that_was_not_given_is_all() -> None:
    assert words(None, "--limit") == ()
    assert words("a, b,", "--limit") == ("a", "b")


@pytest.mark.parametrize("listed", ["", ",", " "])
def test_an_empty_list_never_means_all(listed: str) -> None:
    with pytest.raises(UsageError, match="--limit is empty"):
        words(listed, "--limit")


def test_an_inventory_that_the_environment_names_and_is_gone_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inventory.yml").touch()
    assert find_inventory(None) == Path("inventory.yml")
    monkeypatch.setenv("FABRICCTL_INVENTORY", str(tmp_path / "gone.yml"))
    with pytest.raises(UsageError, match="which is not there"):
        find_inventory(None)
    named = tmp_path / "named.yml"
    assert find_inventory(named) == named
    with pytest.raises(UsageError, match="two inventories"):
        find_inventory(named, tmp_path / "other.yml")
