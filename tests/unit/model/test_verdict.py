from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.model.names import PairId, PortId
from fabricctl.model.verdict import Finding, Outcome, Verdict, worst

PAIR = PairId(PortId("a", "p"), PortId("b", "p"))


def test_the_order_of_outcomes() -> None:
    assert worst(Outcome) is Outcome.FAIL
    assert worst([Outcome.PASS, Outcome.UNKNOWN]) is Outcome.UNKNOWN
    assert worst([Outcome.UNKNOWN, Outcome.ERROR]) is Outcome.ERROR


def test_nothing_is_unknown() -> None:
    assert worst([]) is Outcome.UNKNOWN
    assert Verdict(PAIR, "same_leaf", ()).outcome is Outcome.UNKNOWN


@given(st.lists(st.sampled_from(Outcome), min_size=1, max_size=5))
def test_worst_is_the_same_for_every_permutation(outcomes: list[Outcome]) -> None:
    assert len({worst(order) for order in itertools.permutations(outcomes)}) == 1


@given(st.lists(st.sampled_from(Outcome), min_size=1, max_size=5))
def test_a_verdict_passes_only_if_every_finding_does(outcomes: list[Outcome]) -> None:
    verdict = Verdict(PAIR, "same_leaf", tuple(Finding("c", "s", o, "w") for o in outcomes))
    assert (verdict.outcome is Outcome.PASS) == all(o is Outcome.PASS for o in outcomes)


@pytest.mark.parametrize(
    ("subject", "what", "said"),
    [
        ("leaf1/e1 - node1/e1", "1 on leaf1/e1, 2 on node1/e1", "1 on \0000, 2 on \0001"),
        ("leaf1/e1", "'e1' is no port, leaf1/e11 is", "\0000 is no port, leaf1/e11 is"),
        ("leaf1", "leaf1 is off", "\0000 is off"),
    ],
)
def test_what_is_said_without_the_subjects_own_names(subject: str, what: str, said: str) -> None:
    assert Finding("check", subject, Outcome.FAIL, what).anonymous == said
