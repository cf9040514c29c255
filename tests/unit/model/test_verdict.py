from __future__ import annotations

import itertools

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
