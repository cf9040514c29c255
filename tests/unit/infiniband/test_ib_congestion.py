from __future__ import annotations

from typing import Any

from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Outcome

CHECK = "ib_congestion"
CABLE = "leaf2/6 - spine2/2"


def test_a_quiet_fabric(pod: Any) -> None:
    found = pod.judge(CHECK, "good")
    assert len(found) == 12
    assert pod.odd(found) == {}
    assert found[CABLE].what == "nothing waited and nothing was discarded in 10.0 s"


def test_waits_and_discards_are_told_with_their_reasons_and_never_fail(pod: Any) -> None:
    pod.rules = LinkPolicy(congestion_per_s=50.0)
    found = pod.judge(CHECK, "rising")
    assert pod.odd(found) == {}
    one = found[CABLE]
    assert "PortXmitWait rose by 123456" in one.what
    assert (
        "PortXmitDiscards rose by 700 (70/s): 10 since the port was down, 690 since they waited too long"
        in (one.what)
    )
    assert one.next_step


def test_below_the_limit_it_is_no_note(pod: Any) -> None:
    pod.rules = LinkPolicy(congestion_per_s=100.0)
    assert not pod.judge(CHECK, "rising")[CABLE].next_step


def test_what_was_not_read_is_unknown(pod: Any) -> None:
    found = pod.judge(CHECK, "silent_later")
    assert pod.odd(found) == {"node6/ib0 - leaf2/2": Outcome.UNKNOWN}
