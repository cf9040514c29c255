"""The gate's decision: what lets a job in, what keeps it out, and the one line that says so."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricctl.gate.decide import decide, undecided
from fabricctl.model.certificate import Answer, Certificate
from fabricctl.model.names import PortId
from fabricctl.model.policy import GatePolicy, Stance
from fabricctl.model.verdict import Finding, Outcome

NOW = 1_796_000_000.0
HOUR = 3600.0
PASS, FAIL, UNKNOWN, ERROR = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN, Outcome.ERROR


def cert(
    name: str, peers: Mapping[str, Outcome], *, age_h: float = 1, outcome: Outcome = PASS, rails: int = 1
) -> Certificate:
    port = PortId.parse(name)
    issued = NOW - age_h * HOUR
    return Certificate(
        id=f"v{issued}:{port}",
        port=port,
        run_id="v20261129-201730-3f2a",
        outcome=outcome,
        peers=peers,
        findings=(Finding("loss", f"{name} -> node1/eth1", outcome, "118 of 6000 packets lost"),),
        fingerprint={"boot_id": "one"},
        engine="pyverbs",
        policy="site",
        policy_digest="d",
        issued_at=issued,
        expires_at=issued + 24 * HOUR,
        rail=int(name[-1]) - 1,
        node_ports=tuple(PortId(port.device, f"eth{r + 1}") for r in range(rails)),
    )


def mesh(*names: str, outcome: Outcome = PASS, age_h: float = 1) -> list[Certificate]:
    """Certificates of nodes with one port each, all of whose pairs have one outcome."""
    ports = [f"{name}/eth1" for name in names]
    return [cert(p, {q: outcome for q in ports if q != p}, age_h=age_h) for p in ports]


def test_yes_when_all_ports_and_pairs_passed() -> None:
    decision = decide(mesh("n1", "n2", "n3"), ("n1", "n2"), NOW)
    assert (decision.answer, decision.allow) == (Answer.YES, True)
    assert decision.line.startswith("yes: 2 nodes, 2 ports certified by policy site, the oldest 2026-11-")
    assert (decision.nodes, decision.at) == (("n1", "n2"), NOW)


def test_a_job_on_one_node_needs_no_pair() -> None:
    decision = decide(mesh("n1", "n2", outcome=PASS), ("n1", "n1"), NOW)
    assert decision.line.startswith("yes: 1 node, 1 port certified")
    assert decision.nodes == ("n1",)


def test_no_nodes_is_unknown() -> None:
    assert decide([], (), NOW).line == "unknown: no nodes are named"


def test_a_node_without_a_certificate_is_unknown() -> None:
    decision = decide(mesh("n1", "n2"), ("n1", "n9"), NOW)
    assert (decision.answer, decision.allow) == (Answer.UNKNOWN, False)
    assert decision.line == 'unknown: n9 has no certificate; run "fabricctl verify --pairs n9:all"'


def test_a_second_port_without_a_certificate_is_unknown() -> None:
    decision = decide([cert("n1/eth1", {}, rails=2)], ("n1",), NOW)
    assert decision.line == 'unknown: n1/eth2 has no certificate; run "fabricctl verify --pairs n1:all"'


def test_a_port_that_its_node_has_no_more_does_not_count() -> None:
    gone = cert("n1/eth2", {}, age_h=40, outcome=FAIL, rails=2)
    assert decide([gone, cert("n1/eth1", {})], ("n1",), NOW).answer is Answer.YES


def test_a_failed_port_is_no_with_the_suspect_and_the_way_out() -> None:
    bad = replace(cert("n2/eth1", {"n1/eth1": FAIL}, outcome=FAIL), suspects=("link n2/eth1 - leaf1/eth2",))
    decision = decide([*mesh("n1"), bad], ("n1", "n2"), NOW)
    assert (decision.answer, decision.allow) == (Answer.NO, False)
    assert decision.line.startswith("no: n2/eth1 failed 2026-11-")
    assert (
        "n2/eth1 -> node1/eth1: 118 of 6000 packets lost; suspect link n2/eth1 - leaf1/eth2;"
        ' run "fabricctl explain v20261129-201730-3f2a"; reseat or replace the cable,'
        ' then "fabricctl verify --pairs n2:all" (and 1 more)'
    ) in decision.line
    assert "\n" not in decision.line


def test_a_failed_port_without_a_suspect_or_a_finding() -> None:
    bad = replace(cert("n2/eth1", {}, outcome=FAIL), findings=())
    line = decide([bad], ("n2",), NOW).line
    assert "there is no finding on record; run" in line
    assert "repair it, then" in line


@pytest.mark.parametrize("outcome", [UNKNOWN, ERROR])
def test_a_port_that_could_not_be_judged_is_unknown(outcome: Outcome) -> None:
    decision = decide([cert("n2/eth1", {}, outcome=outcome)], ("n2",), NOW)
    assert decision.answer is Answer.UNKNOWN
    assert "n2/eth1 could not be judged 2026-11-" in decision.line


def test_expired_is_unknown_at_the_very_second() -> None:
    held = cert("n1/eth1", {})
    assert decide([held], ("n1",), held.expires_at - 1).allow
    decision = decide([held], ("n1",), held.expires_at)
    assert decision.answer is Answer.UNKNOWN
    assert "n1/eth1: its certificate expired 2026-" in decision.line


def test_dated_in_the_future_is_unknown_but_clocks_may_differ_a_little() -> None:
    held = cert("n1/eth1", {})
    assert decide([held], ("n1",), held.issued_at - 60).allow
    decision = decide([held], ("n1",), held.issued_at - 61)
    assert decision.answer is Answer.UNKNOWN
    assert "in the future; set the clocks right" in decision.line


def test_revoked_is_no() -> None:
    held = replace(cert("n1/eth1", {}), revoked="by kim at 2026-11-29 20:17: flaps")
    decision = decide([held], ("n1",), NOW)
    assert decision.answer is Answer.NO
    assert "its certificate was revoked by kim at 2026-11-29 20:17: flaps; run" in decision.line


def test_a_newer_failure_beats_an_older_pass_in_any_order() -> None:
    both = [cert("n1/eth1", {}, age_h=2), cert("n1/eth1", {}, age_h=1, outcome=FAIL)]
    for order in itertools.permutations(both):
        assert decide(order, ("n1",), NOW).answer is Answer.NO


def test_known_bad_comes_before_unknown() -> None:
    decision = decide([cert("n2/eth1", {}, outcome=FAIL)], ("n1", "n2"), NOW)
    assert decision.line.startswith("no: n2/eth1 failed")
    assert decision.line.endswith("(and 1 more)")


def test_a_pair_that_failed_together_is_no_though_both_ports_passed() -> None:
    held = [cert("n1/eth1", {"n2/eth1": FAIL, "n3/eth1": PASS}), cert("n2/eth1", {"n1/eth1": FAIL})]
    decision = decide(held, ("n1", "n2"), NOW)
    assert decision.answer is Answer.NO
    assert "n1/eth1 and n2/eth1 failed together 2026-" in decision.line
    assert "more)" not in decision.line


def test_a_pair_that_was_never_probed_is_unknown() -> None:
    decision = decide([cert("n1/eth1", {}), cert("n2/eth1", {})], ("n1", "n2"), NOW)
    assert decision.line == (
        "unknown: n1/eth1 and n2/eth1 have not been proved together;"
        ' run "fabricctl verify --pairs n1/eth1:n2/eth1"'
    )


def test_a_pair_that_could_not_be_judged_is_unknown() -> None:
    decision = decide(mesh("n1", "n2", outcome=UNKNOWN), ("n1", "n2"), NOW)
    assert "n1/eth1 and n2/eth1 could not be judged" in decision.line


def test_both_ends_must_vouch_for_a_pair() -> None:
    held = [cert("n1/eth1", {"n2/eth1": PASS}), cert("n2/eth1", {})]
    assert decide(held, ("n1", "n2"), NOW).answer is Answer.UNKNOWN
    held = [cert("n1/eth1", {}), cert("n2/eth1", {"n1/eth1": FAIL})]
    assert decide(held, ("n1", "n2"), NOW).answer is Answer.NO


def test_pairs_do_not_matter_where_the_policy_says_so() -> None:
    held = [replace(c, gate=GatePolicy(pairs="ports")) for c in mesh("n1", "n2", outcome=FAIL)]
    assert decide(held, ("n1", "n2"), NOW).answer is Answer.YES


def test_ports_on_different_rails_or_of_one_node_need_no_pair() -> None:
    held = [cert("n1/eth1", {}, rails=2), cert("n1/eth2", {}, rails=2)]
    assert decide(held, ("n1",), NOW).allow
    held = [replace(c, rail=0) for c in held]
    assert decide(held, ("n1",), NOW).allow


def test_an_older_certificate_speaks_for_pairs_that_the_newest_did_not_test() -> None:
    held = [
        *mesh("n1", "n2", "n3", age_h=5),
        cert("n1/eth1", {"n2/eth1": PASS}),
        cert("n2/eth1", {"n1/eth1": PASS}),
    ]
    assert decide(held, ("n1", "n2", "n3"), NOW).allow


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": {"boot_id": "another"}},
        {"fingerprint": {}},
        {"fingerprint": {"firmware": "1"}},
        {"simulated": "a simulation"},
        {"revoked": "by kim"},
        {"expires_at": NOW},
        {"issued_at": NOW + 1},
    ],
    ids=lambda change: str(*change),
)
def test_an_older_certificate_that_no_longer_holds_is_silent(change: dict[str, object]) -> None:
    newest = cert("n1/eth1", {"n2/eth1": PASS})
    if "issued_at" in change:
        newest = replace(newest, issued_at=NOW + 2)
    old = [replace(c, **change) for c in mesh("n1", "n2", "n3", age_h=5)]  # type: ignore[arg-type]  # by name
    held = [old[0], newest, *mesh("n1", "n2", "n3", age_h=5)[1:]]
    assert decide(held, ("n1", "n3"), NOW).answer is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("stance", "allow"), [(Stance.REFUSE, False), (Stance.WARN, True), (Stance.ALLOW, True)]
)
def test_the_policy_says_what_unknown_does(stance: Stance, allow: bool) -> None:  # noqa: FBT001
    held = [replace(c, gate=GatePolicy(unknown=stance)) for c in mesh("n1")]
    decision = decide(held, ("n1", "n2"), NOW)
    assert (decision.answer, decision.allow) == (Answer.UNKNOWN, allow)
    assert decision.line.endswith(f"(let in: the policy's gate.unknown is {stance})") is allow


def test_unknown_that_is_let_in_does_not_let_in_a_known_fault() -> None:
    held = [replace(c, gate=GatePolicy(unknown=Stance.ALLOW)) for c in mesh("n1", "n2", outcome=FAIL)]
    decision = decide(held, ("n1", "n2", "n9"), NOW)
    assert (decision.answer, decision.allow) == (Answer.NO, False)


@pytest.mark.parametrize(
    ("stance", "start"),
    [
        (Stance.REFUSE, "no: SIMULATED evidence (lab) proves nothing about real hardware"),
        (Stance.WARN, "yes, with a warning: 1 node"),
        (Stance.ALLOW, "yes: 1 node"),
    ],
)
def test_simulated_evidence_is_always_called_so(stance: Stance, start: str) -> None:
    held = [replace(c, gate=GatePolicy(simulated=stance), simulated="lab") for c in mesh("n1")]
    decision = decide(held, ("n1",), NOW)
    assert decision.line.startswith(start)
    assert "SIMULATED evidence (lab)" in decision.line
    assert decision.allow is (stance is not Stance.REFUSE)


def test_simulated_evidence_is_refused_where_unknown_is_let_in() -> None:
    policy = GatePolicy(unknown=Stance.ALLOW)
    held = [replace(c, gate=policy, simulated="lab") for c in mesh("n1")]
    assert not decide(held, ("n1", "n2"), NOW).allow


def test_the_newest_certificate_brings_the_policy() -> None:
    old = replace(cert("n1/eth1", {}, age_h=3), gate=GatePolicy(unknown=Stance.ALLOW))
    assert not decide([old, cert("n2/eth1", {})], ("n1", "n2"), NOW).allow


def test_what_cannot_be_read_is_refused_unless_the_policy_is_known() -> None:
    assert undecided("the store is gone; restore it", ("n1",), NOW).line == (
        "unknown: the store is gone; restore it"
    )
    assert not undecided("x", ("n1",), NOW).allow
    assert undecided("x", ("n1",), NOW, GatePolicy(unknown=Stance.WARN)).allow


@settings(deadline=None)
@given(st.permutations([(PASS, 1.0), (FAIL, 2.0), (UNKNOWN, 3.0), (PASS, 30.0), (ERROR, -2.0)]), st.data())
def test_the_order_of_certificates_does_not_matter(
    order: list[tuple[Outcome, float]], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(order), unique=True))
    held = [cert("n1/eth1", {}, age_h=age, outcome=outcome) for outcome, age in chosen]
    assert decide(held, ("n1",), NOW) == decide(held[::-1], ("n1",), NOW)
    newest = min(chosen, key=lambda item: item[1], default=None)
    assert decide(held, ("n1",), NOW).allow is (newest == (PASS, 1.0))


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ({"policy_digest": "e", "policy": "lax"}, "by different limits (policies site and lax)"),
        ({"inventory": "/b.yml"}, "from different inventories ( and /b.yml)"),
        ({"simulated": "lab"}, "on different fabrics (real and simulated (lab))"),
    ],
)
def test_certificates_that_cannot_be_put_together_are_no_yes(change: dict[str, str], how: str) -> None:
    one, other = (replace(c, gate=GatePolicy(simulated=Stance.ALLOW)) for c in mesh("n1", "n2"))
    decision = decide([one, replace(other, **change)], ("n1", "n2"), NOW)  # type: ignore[arg-type]  any text field
    assert (decision.answer, decision.allow) == (Answer.UNKNOWN, False)
    assert decision.line.startswith(f"unknown: n1/eth1 and n2/eth1 are certified {how}; verify both with one")


@pytest.mark.parametrize("change", [{"policy_digest": "lax"}, {"inventory": "/b.yml"}])
def test_a_pair_that_passed_by_other_limits_only_has_not_been_proved(change: dict[str, str]) -> None:
    lax = [replace(c, **change) for c in mesh("n1", "n2", age_h=3)]  # type: ignore[arg-type]  any text field
    strict = [cert("n1/eth1", {"n3/eth1": PASS}), cert("n2/eth1", {"n3/eth1": PASS})]
    decision = decide([*lax, *strict], ("n1", "n2"), NOW)
    assert (decision.answer, decision.allow) == (Answer.UNKNOWN, False)
    assert "n1/eth1 and n2/eth1 have not been proved together" in decision.line


@pytest.mark.parametrize(
    ("check", "step", "cure"),
    [
        ("loss", "look", "; reseat or replace the cable, then"),
        ("settings", '"fabricctl apply" sets it', '; "fabricctl apply" sets it, then'),
        ("read_latency", "look for a busy host", "; look for a busy host, then"),
        ("settings", "", "; repair it, then"),
    ],
)
def test_the_advice_follows_from_what_failed(check: str, step: str, cure: str) -> None:
    finding = Finding(check, "n1/eth1 -> n2/eth1", FAIL, "bad", next_step=step)
    suspects = ("link n1/eth1 - leaf1/eth1",)
    held = replace(cert("n1/eth1", {}, outcome=FAIL), findings=(finding,), suspects=suspects)
    assert cure in decide([held], ("n1",), NOW).line
