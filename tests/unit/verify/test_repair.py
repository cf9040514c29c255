"""How many couples are asked for at a time; who meets whom is with the coverage's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId
from fabricctl.model.verdict import Outcome, Verdict
from fabricctl.verify.repair import MOST, repair
from fabricctl.verify.schedule import expand

Build = Callable[..., Fabric]
Judged = Callable[[Iterable[PairId], Callable[[PairId], Outcome]], tuple[Verdict, ...]]


@pytest.mark.parametrize("bad", [1, 7, 8, 9, 40])
def test_no_more_than_so_many_couples_at_a_time(star: Build, judged: Judged, bad: int) -> None:
    fabric = star(2 * bad + 8)
    good = f",node{2 * bad + 1}:node{2 * bad + 2},node{2 * bad + 3}:node{2 * bad + 4}"
    failing = ",".join(f"node{n}:node{bad + n}" for n in range(1, bad + 1)) + good
    ailing = {f"node{n}" for n in range(1, bad + 1)}
    verdicts = judged(
        expand(fabric, failing),
        lambda p: Outcome.FAIL if {p.source.device, p.target.device} & ailing else Outcome.PASS,
    )
    found = repair(verdicts, fabric)
    # Both ends of each pair that failed are suspects, and each is to meet two good ports.
    assert len(found) == 2 * min(4 * bad, MOST)
    assert len(set(found)) == len(found)
    assert set(found) == {pair.reverse for pair in found}


def test_who_asks_again_gets_the_next(star: Build, judged: Judged) -> None:
    fabric = star(60)
    spec = ",".join(f"node{n}:node{n + 1}" for n in range(1, 40, 2)) + ",node51:node52,node53:node54"
    ailing = {f"node{n}" for n in range(1, 41)}

    def outcome(pair: PairId) -> Outcome:
        return Outcome.FAIL if {pair.source.device, pair.target.device} & ailing else Outcome.PASS

    verdicts = judged(expand(fabric, spec), outcome)
    first = repair(verdicts, fabric)
    assert len(first) == 2 * MOST
    # All of them passed: the pairs are bad, not the ports.
    verdicts += judged(first, lambda _: Outcome.PASS)
    second = repair(verdicts, fabric)
    assert len(second) == 2 * MOST
    assert not set(first) & set(second)
