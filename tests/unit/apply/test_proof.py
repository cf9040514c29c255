"""What plan and apply make of the checks: what is wrong now, what stays wrong, what nobody knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from click.testing import Result

from fabricctl.apply import proof
from fabricctl.apply.proof import Judged, planned
from fabricctl.apply.show import judged_lines, summary
from fabricctl.model import facts, settings
from fabricctl.model.fabric import LinkLayer
from fabricctl.model.names import PortId
from fabricctl.model.plan import DevicePlan, Plan, Step
from fabricctl.model.reading import DeviceReading, Known, Missing, PortReading
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder

Call = Callable[..., Result]

NODE, LEAF = PortId("node1", "eth1"), PortId("leaf1", "eth1")
SLOW = (
    "fail: leaf1/eth1 - node1/eth1: the speed is 1 Gb/s on leaf1/eth1 and 0.1 Gb/s on node1/eth1:"
    " node1/eth1 is wrong, the inventory says 1 Gb/s; look at the cable, its transceivers, and the speed that"
    " both ports are set to [agreement]"
)


def test_a_difference_that_the_plan_mends_is_named_as_of_now(call: Call, world: Any) -> None:
    call("apply", "--yes")
    world.set(LEAF, settings.PFC, "(3, 4)")

    found = call("plan")

    assert found.exit_code == 3
    lines = [line for line in found.stdout.splitlines() if line.startswith("now")]
    assert lines == [
        (
            "now, until it is applied: leaf1/eth1 - node1/eth1: PFC priorities are 3,4 on leaf1/eth1 and 3 on"
            " node1/eth1: leaf1/eth1 is wrong, the policy says 3"
        ),
        "now, until it is applied: leaf1/eth1: PFC is on for priority 4, which the policy does not name",
    ]
    assert call("apply", "--yes").exit_code == 0
    assert call("plan").stdout.splitlines() == ["nothing to do: every setting is as intended"]


def test_a_difference_that_no_step_mends_never_looks_like_nothing_to_do(call: Call, world: Any) -> None:
    call("apply", "--yes")
    world.facts[NODE] = {facts.SPEED: Known(100)}

    found = call("plan")

    assert found.exit_code == 1
    assert found.stdout.splitlines() == [SLOW, "nothing to set; 1 fault that no setting mends"]
    applied = call("apply", "--yes")
    assert applied.exit_code == 1
    assert SLOW in applied.stdout.splitlines()
    assert "nothing to set; 1 fault that no setting mends; 0 tasks on 0 devices" in applied.stdout
    assert "nothing to do" not in found.stdout + applied.stdout


def test_changes_that_are_pending_go_before_a_fault_that_stays(call: Call, world: Any) -> None:
    world.facts[NODE] = {facts.SPEED: Known(100)}

    found = call("plan")

    assert found.exit_code == 3
    assert SLOW in found.stdout.splitlines()
    assert found.stdout.splitlines()[-1].endswith("; 1 fault that no setting mends")


def test_an_apply_that_sets_everything_and_leaves_a_fault_exits_1(call: Call, world: Any) -> None:
    world.facts[NODE] = {facts.SPEED: Known(100)}

    done = call("apply", "--yes", "--json")

    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert report["state"] == "done"
    assert report["outcome"] == "pass"
    assert [(f["subject"], f["culprit"]) for f in report["faults"]] == [
        ("leaf1/eth1 - node1/eth1", "node1/eth1")
    ]


def test_what_an_apply_could_not_set_is_not_said_twice(call: Call, world: Any) -> None:
    """A port that failed is named as failed; the faults are those that no step was to mend."""
    (world.root / "node1/refuse/pfc_priorities").touch()
    failed = call("apply", "--yes", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["faults"] == []


def test_what_is_not_known_is_said_and_changes_no_exit_code(call: Call, world: Any) -> None:
    call("apply", "--yes")
    for node in ("node1", "node2"):
        world.facts[PortId(node, "eth1")] = {facts.SPEED: Missing("the link is down")}

    found = call("plan")

    assert found.exit_code == 0
    assert found.stdout.splitlines() == [
        "not proven: node1/eth1, node2/eth1: speed_mbps: the link is down",
        "nothing to do: every setting is as intended",
    ]


def test_the_far_ends_that_limit_leaves_out_are_not_proven(call: Call) -> None:
    call("apply", "--yes")
    found = call("plan", "--limit", "node1")
    assert found.exit_code == 0
    assert found.stdout.splitlines()[0] == "not proven: leaf1/eth1 - node1/eth1: leaf1 was not read"


def test_plan_as_json_has_the_findings(call: Call, world: Any) -> None:
    world.facts[NODE] = {facts.SPEED: Known(100)}
    checks = json.loads(call("plan", "--json").stdout)["checks"]
    assert set(checks) == {"mended", "left", "unproven"}
    assert [f["culprit"] for f in checks["left"]] == ["node1/eth1"]
    assert {f["check"] for f in checks["mended"]} == {"agreement", "chain"}


def step(port: PortId, setting: str, new: Any) -> Step:
    return Step(port, setting, Missing("x"), new)


def plan_of(*steps: Step, **more: Any) -> Plan:
    return Plan((DevicePlan("leaf1", "fake", steps, {}),), **more)


def leaf(**known: Any) -> dict[str, DeviceReading]:
    held = {settings.MTU: Known(1500), settings.PFC: Known(())}
    return {"leaf1": DeviceReading("leaf1", 1.0, {LEAF: PortReading(LEAF, held, known)})}


def test_what_a_plan_leaves_to_a_rival_stays_as_it_is() -> None:
    plan = plan_of(step(LEAF, settings.PFC, (3,)))
    assert planned(leaf(), plan)["leaf1"].ports[LEAF].settings[settings.PFC] == Known((3,))
    rivalled = replace(plan, rivals={LEAF: ("lldpad.service",)})
    assert planned(leaf(), rivalled) == leaf()


@pytest.mark.parametrize(
    ("setting", "forgotten"),
    [
        (settings.PFC, True),
        (settings.MTU, True),
        (settings.LOSSLESS_BUFFERS, True),
        (settings.CABLE_LENGTH, True),
        ("sonic.tc_group", True),
        (settings.TRUST, False),
        (settings.BOOT, False),
    ],
)
def test_headroom_says_nothing_once_it_is_to_be_worked_out_anew(setting: str, *, forgotten: bool) -> None:
    read = leaf(headroom_bytes=Known((0,) * 8))
    found = planned(read, plan_of(step(LEAF, setting, "x")))["leaf1"].ports[LEAF].facts[facts.HEADROOM]
    assert isinstance(found, Missing) is forgotten


def test_the_rdma_mtu_follows_the_mtu() -> None:
    read = leaf(rdma_mtu_bytes=Known(1024))
    after = planned(read, plan_of(step(LEAF, settings.MTU, 4200)))["leaf1"].ports[LEAF]
    assert isinstance(after.facts[facts.RDMA_MTU], Missing)
    other = planned(read, plan_of(step(LEAF, settings.PFC, (3,))))["leaf1"].ports[LEAF]
    assert other.facts[facts.RDMA_MTU] == Known(1024)


class Said:
    """A check that says what it was told to, by whether PFC is on."""

    name = "said"

    def __init__(self, off: list[Finding], on: list[Finding]) -> None:
        self.off, self.on = tuple(off), tuple(on)

    def judge(self, *given: Any) -> tuple[Finding, ...]:
        held = given[-1]["leaf1"].ports[LEAF].settings[settings.PFC]
        return self.on if held == Known((3,)) else self.off


def finding(outcome: Outcome, what: str, subject: str = "leaf1/eth1") -> Finding:
    return Finding("said", subject, outcome, what)


def judged(monkeypatch: pytest.MonkeyPatch, off: list[Finding], on: list[Finding], plan: Plan) -> Judged:
    monkeypatch.setattr(finder, "names", lambda _: ("said",))
    monkeypatch.setattr(finder, "check", lambda _: Said(off, on))
    none: Any = None
    return proof.judge(none, none, {}, leaf(), plan)


def test_findings_are_parted_by_what_the_steps_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    mended, stays = finding(Outcome.FAIL, "mended"), finding(Outcome.FAIL, "stays")
    new, gap = finding(Outcome.FAIL, "comes with it"), finding(Outcome.UNKNOWN, "a gap")
    filled, passed = finding(Outcome.UNKNOWN, "filled"), finding(Outcome.PASS, "good")
    nothing = finding(Outcome.UNKNOWN, "nothing was judged", "fabric")
    plan = plan_of(step(LEAF, settings.PFC, (3,)))

    found = judged(monkeypatch, [mended, stays, stays, gap, filled, nothing], [stays, new, gap, passed], plan)

    assert found == Judged(mended=(mended,), left=(stays, new), unproven=(gap,))
    without = judged(monkeypatch, [mended, gap], [], Plan(()))
    assert without == Judged(left=(mended,), unproven=(gap,))


def test_many_findings_of_now_are_cut_short_and_those_that_stay_are_not() -> None:
    many = tuple(finding(Outcome.FAIL, f"no {n}") for n in range(12))
    now = list(judged_lines(Judged(mended=many), {}))
    assert len(now) == 9
    assert now[-1] == "now, until it is applied: 4 more (--json has them all)"
    assert len(list(judged_lines(Judged(left=many), {}))) == 12
    assert summary(Plan(()), Judged(left=many)) == "nothing to set; 12 faults that no setting mends"


def test_the_same_said_of_many_with_their_own_names_stands_together() -> None:
    slow = "the RDMA MTU is 1024 on {0}: {0} is wrong, the policy says 4096"
    links = {"leaf1/eth1 - node1/eth1": "node1/eth1", "leaf1/eth11 - node11/eth1": "node11/eth1"}
    found = [finding(Outcome.FAIL, slow.format(node), link) for link, node in links.items()]
    found.append(finding(Outcome.FAIL, slow.format("leaf1/eth2"), "leaf1/eth2 - node2/eth1"))
    assert list(judged_lines(Judged(mended=tuple(found)), {})) == [
        (
            f"now, until it is applied: leaf1/eth1 - node1/eth1: {slow.format('node1/eth1')}"
            "; the same goes for leaf1/eth11 - node11/eth1"
        ),
        f"now, until it is applied: leaf1/eth2 - node2/eth1: {slow.format('leaf1/eth2')}",
    ]


def test_the_same_said_of_many_stands_together() -> None:
    same = tuple(finding(Outcome.UNKNOWN, "it is down", f"leaf1/eth{n}") for n in range(8))
    assert list(judged_lines(Judged(unproven=same), {})) == [
        f"not proven: {', '.join(f'leaf1/eth{n}' for n in range(6))} and 2 more: it is down"
    ]


def test_infiniband_ports_do_not_fail_a_plan(call: Call, world: Any) -> None:
    call("apply", "--yes")
    devices = tuple(
        replace(d, ports=tuple(replace(p, link_layer=LinkLayer.INFINIBAND) for p in d.ports))
        for d in world.fabric.devices
    )
    world.fabric = replace(world.fabric, devices=devices)
    assert call("plan").exit_code in {0, 3}
