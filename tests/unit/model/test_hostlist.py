from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricctl.errors import UsageError
from fabricctl.model.hostlist import expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("node1", ("node1",)),
        ("node1,node2,node1", ("node1", "node2")),
        ("node[1-4,7]", ("node1", "node2", "node3", "node4", "node7")),
        ("n[08-10],login1", ("n08", "n09", "n10", "login1")),
        ("r[1-2]n[1,3]-ib", ("r1n1-ib", "r1n3-ib", "r2n1-ib", "r2n3-ib")),
        (" a , b[1] ", ("a", "b1")),
        ("gpu-a.site.example", ("gpu-a.site.example",)),
    ],
)
def test_expand(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "node[1-",
        "node]1",
        "node[]",
        "node[a-b]",
        "a,,b",
        ",a",
        "n[[1]]",
        "n[1-2-3]",
        "a\n",
        "a\tb",
        "n[\uff11]",
        "n[\u0661-2]",
    ],
)
def test_a_malformed_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no list of nodes; write"):
        expand(text)


@pytest.mark.parametrize("text", ["n[4-1]", "n[1-999999999]"])
def test_a_range_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="makes no sense"):
        expand(text)


def test_too_many_names_are_refused() -> None:
    with pytest.raises(UsageError, match="more than 100000"):
        expand("n[1-1000]x[1-1000]")


@settings(deadline=None)
@given(st.text(alphabet="n1-9[],0 \n\uff11", max_size=20))
def test_any_text_gives_names_or_our_error(text: str) -> None:
    try:
        names = expand(text)
    except UsageError:
        return
    assert len(set(names)) == len(names)
