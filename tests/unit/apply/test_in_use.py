"""What an apply does about nodes on which jobs run, and how it drains them; against the stand-in Slurm."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.apply.disruption import disturbed
from fabricctl.apply.drains import KIND
from fabricctl.apply.flow import Options, apply, prepare
from fabricctl.apply.record import State, load
from fabricctl.apply.rollback import rollback
from fabricctl.apply.undrain import Undraining, undrain
from fabricctl.apply.usage import ask, scheduler_of
from fabricctl.errors import FabricctlError, UsageError
from fabricctl.model.names import PairId, PortId
from fabricctl.model.usage import Use
from fabricctl.model.verdict import Finding, Outcome, Verdict
from fabricctl.plugin import finder
from fabricctl.store import Store

Make = Callable[..., Any]
DRAIN = Options(drain_wait_s=30)
HELD = "not attempted: node2 runs job 1234 of alice (slurm); drain it first (--drain), or --disrupt"


def yes(_plan: object) -> bool:
    return True


@dataclass
class Site:
    """A fake world with a stand-in Slurm beside it."""

    world: Any
    slurm: Any
    fakes: Any
    store: Store
    probed: list[str]

    def tools(self) -> Any:
        return replace(
            self.world.tools(), scheduler=lambda: scheduler_of(self.world.fabric), sleep=self.sleep
        )

    def sleep(self, seconds: float) -> None:
        self.world.time += seconds

    def apply(self, options: Options = Options(), agree: Any = yes, **rules: Any) -> Any:  # noqa: B008
        rules = self.fakes.policy(**rules)
        return apply(self.world.fabric, rules, options, self.tools(), self.store, agree)

    def undrain(self, result: Any, *bad: str, outcome: Outcome = Outcome.FAIL) -> Any:
        def prove(spec: str) -> Sequence[Verdict]:
            self.probed.append(spec)
            found = []
            for pair in spec.split(","):
                ends = [PortId.parse(end) for end in pair.split(":")]
                wrong = any(end.device in bad for end in ends)
                finding = Finding("x", pair, outcome if wrong else Outcome.PASS, "y")
                found.append(Verdict(PairId(*ends), "same_leaf", (finding,)))
            return found

        return undrain(result, Undraining(self.world.fabric, self.tools(), self.store, prove))

    def mtu(self, port: str) -> str:
        return str(self.world.get(port, "mtu_bytes"))

    def said(self, text: str) -> bool:
        return any(text in line for line in self.world.said)


@pytest.fixture
def make_site(make_world: Make, make_slurm: Make, fakes: Any, store: Store) -> Make:
    def make(nodes: int = 3) -> Site:
        world = make_world(nodes)
        return Site(world, make_slurm(*(f"node{n}" for n in range(1, nodes + 1))), fakes, store, [])

    return make


@pytest.fixture
def site(make_site: Make) -> Site:
    made: Site = make_site()
    made.slurm.job("1234", "alice", "node2")
    return made


def test_a_node_with_a_job_is_held_with_its_switch_port_and_the_rest_goes_on(site: Site) -> None:
    port, far = PortId("node2", "eth1"), PortId("leaf1", "eth2")
    site.store.revoke = lambda selector, *_: revoked.append(selector)  # type: ignore[method-assign]
    revoked: list[str] = []
    result = site.apply()
    assert result.held == {port: HELD, far: HELD}
    assert (result.state, result.outcome, result.waits_for_nodes) == (State.DONE, Outcome.UNKNOWN, True)
    assert (result.proven, result.total) == (12, 18)
    assert (site.mtu("node1/eth1"), site.mtu("node2/eth1"), site.mtu("leaf1/eth2")) == (
        "4200",
        "1500",
        "1500",
    )
    assert not any("node2" in names for names in site.world.pushes)
    assert revoked == ["node1/eth1", "node3/eth1"]
    record = load(site.store, site.world.fabric.source)[0].record
    assert port not in record.before
    assert port not in record.proven
    assert site.slurm.updates() == []


def test_what_was_held_is_done_once_the_node_is_free(site: Site) -> None:
    site.apply()
    site.slurm.set(jobs=[])
    result = site.apply()
    assert (result.outcome, result.proven, result.total) == (Outcome.PASS, 18, 18)
    assert len(result.plan.steps) == 6


def test_steps_that_disturb_nobody_go_on_under_a_job(site: Site) -> None:
    for port in ("node2/eth1", "leaf1/eth2"):
        site.world.set(PortId.parse(port), "mtu_bytes", "4200")
    result = site.apply()
    assert (result.outcome, result.held, result.proven) == (Outcome.PASS, {}, 18)


def test_all_is_held_and_nothing_is_recorded(site: Site) -> None:
    site.slurm.job("9", "bob", "node1", "node3", state="SUSPENDED")
    result = site.apply()
    assert (result.run, result.state, result.waits_for_nodes) == (None, State.HELD, True)
    assert (result.proven, result.total, site.world.pushes) == (0, 18, [])
    assert load(site.store, site.world.fabric.source) == ()


def test_a_silent_scheduler_holds_everything(site: Site) -> None:
    site.slurm.set(gone=True)
    result = site.apply()
    assert (result.run, len(result.held)) == (None, 6)
    text = result.held[PortId("node1", "eth1")]
    assert "whether node1 is in use is not known: scontrol: slurm_load_node error: Unable to contact" in text
    assert site.world.pushes == []


def test_a_node_the_scheduler_does_not_know_is_held(site: Site) -> None:
    site.slurm.set(jobs=[], nodes={"node1": {}, "node3": {}})
    assert set(site.apply().held) == {PortId("node2", "eth1"), PortId("leaf1", "eth2")}


def test_the_scheduler_may_call_a_node_otherwise(site: Site) -> None:
    fabric = site.world.fabric
    renamed = [replace(d, scheduler_node="gpu-7") if d.name == "node1" else d for d in fabric.devices]
    site.world.fabric = replace(fabric, devices=tuple(renamed), scheduler="slurm")
    site.slurm.set(nodes={"gpu-7": {}, "node2": {}, "node3": {}}, jobs=[])
    site.slurm.job("5", "alice", "gpu-7")
    result = site.apply()
    assert "node1 runs job 5 of alice" in result.held[PortId("node1", "eth1")]
    uses = ask(site.world.fabric, ("node1", "node2"), finder.scheduler("slurm"))
    assert [uses[name].state for name in ("node1", "node2")] == [Use.BUSY, Use.FREE]


def test_disrupt_goes_on_and_says_so(site: Site) -> None:
    result = site.apply(Options(disrupt=True))
    assert (result.outcome, result.held) == (Outcome.PASS, {})
    assert result.notes == ("--disrupt: node2 runs job 1234 of alice (slurm)",)
    assert site.said("--disrupt: node2 runs job 1234 of alice (slurm)")
    assert site.mtu("node2/eth1") == "4200"


def test_a_failure_and_an_unreadable_device_count_for_more(site: Site) -> None:
    (site.world.root / "node1/refuse/mtu_bytes").touch()
    result = site.apply()
    assert (result.outcome, result.waits_for_nodes) == (Outcome.FAIL, False)
    (site.world.root / "node1/refuse/mtu_bytes").unlink()
    site.world.silent.add("node1")
    result = site.apply()
    assert (result.outcome, result.waits_for_nodes) == (Outcome.UNKNOWN, False)


def test_held_nodes_take_no_place_in_a_batch(make_site: Make) -> None:
    site = make_site(4)
    site.slurm.job("1", "bob", "node1")
    result = site.apply(Options(batch=2))
    assert [names for names in site.world.pushes if "leaf1" not in names] == [("node2",), ("node3", "node4")]
    assert result.waits_for_nodes


def test_a_job_that_starts_between_two_batches_is_seen(make_site: Make) -> None:
    site = make_site(4)
    site.world.before_push[3] = lambda: site.slurm.job("8", "bob", "node4")
    result = site.apply(Options(batch=2))
    held = result.held[PortId("node4", "eth1")]
    assert held == "not attempted: node4 runs job 8 of bob (slurm); drain it first (--drain), or --disrupt"
    assert set(result.held) == set(result.in_use) == {PortId("node4", "eth1"), PortId("leaf1", "eth4")}
    assert (site.mtu("node3/eth1"), site.mtu("node4/eth1"), site.mtu("leaf1/eth4")) == (
        "4200",
        "1500",
        "1500",
    )
    assert result.waits_for_nodes


def test_who_is_free_is_asked_again_after_a_long_think(site: Site) -> None:
    site.slurm.set(jobs=[])

    def slowly(_plan: object) -> bool:
        site.world.time += 60
        site.slurm.job("77", "bob", "node3")
        return True

    result = site.apply(agree=slowly)
    assert "node3 runs job 77 of bob" in result.held[PortId("node3", "eth1")]


def test_no_scheduler_is_asked_where_none_is_or_none_is_wanted(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fabric = site.world.fabric
    assert scheduler_of(fabric) is finder.scheduler("slurm")
    assert scheduler_of(replace(fabric, scheduler="none")) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert scheduler_of(fabric) is None
    named = replace(fabric, scheduler="slurm")
    assert scheduler_of(named) is finder.scheduler("slurm")
    site.world.fabric = named
    plan = prepare(named, site.fakes.policy(), (), site.tools()).plan
    assert set(plan.in_use) == set(disturbed(plan, named))  # named but not installed here: nothing is known


def test_two_schedulers_on_one_machine_have_to_be_chosen_from(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder, "names", lambda _kind: ("slurm", "slurm"))
    with pytest.raises(UsageError, match="name one in fabric_scheduler"):
        scheduler_of(site.world.fabric)


def test_rollback_holds_as_apply_does(site: Site) -> None:
    site.slurm.set(jobs=[])
    site.apply()
    site.slurm.job("1234", "alice", "node2")

    def back(options: Options) -> Any:
        return rollback(site.world.fabric, None, options, site.tools(), site.store, yes)

    result = back(Options())
    assert set(result.held) == {PortId("node2", "eth1"), PortId("leaf1", "eth2")}
    assert (site.mtu("node1/eth1"), site.mtu("node2/eth1")) == ("1500", "4200")
    assert result.waits_for_nodes
    result = back(Options())
    assert (result.run, result.state) == (None, State.HELD)
    assert back(Options(disrupt=True)).outcome is Outcome.PASS
    assert site.mtu("node2/eth1") == "1500"


def test_drain_waits_applies_verifies_and_undrains(site: Site) -> None:
    site.slurm.set(script=[{}, {}, {}, {}, {"jobs": []}])
    site.world.before_push[1] = lambda: during.append(site.slurm.drained())
    during: list[dict[str, str]] = []
    result = site.apply(Options(drain_wait_s=3600))
    assert (result.outcome, result.proven, result.total) == (Outcome.PASS, 18, 18)
    reason = f"fabricctl {result.run.id}"
    assert during == [dict.fromkeys(("node1", "node2", "node3"), reason)]
    assert site.slurm.drained() == during[0]
    after = site.undrain(result)
    assert site.slurm.drained() == {}
    assert (after.outcome, after.drain.left) == (Outcome.PASS, {})
    assert after.notes == ("undrained, read back and verified: node1, node2, node3",)
    assert site.probed == ["node1/eth1:node2/eth1,node2/eth1:node3/eth1,node3/eth1:node1/eth1"]
    assert site.said("waiting, 60 min left: node2 runs job 1234 of alice")
    assert site.slurm.updates() == [
        ["NodeName=node1,node2,node3", "State=DRAIN", f"Reason={reason}"],
        ["NodeName=node1,node2,node3", "State=UNDRAIN"],
    ]


def test_what_an_admin_drained_stays_drained_with_his_words(site: Site) -> None:
    site.slurm.set(jobs=[])
    site.slurm.node("node3", drain=True, reason="bad DIMM")
    after = site.undrain(site.apply(DRAIN))
    assert site.mtu("node3/eth1") == "4200"
    assert site.slurm.drained() == {"node3": "bad DIMM"}
    assert after.drain.nodes == ("node1", "node2")
    assert site.probed == ["node1/eth1:node2/eth1,node2/eth1:node1/eth1"]
    assert site.said("drained already, not by this run: node3")


def test_a_drain_that_an_admin_took_over_is_left_to_him(site: Site) -> None:
    site.slurm.set(jobs=[])
    result = site.apply(DRAIN)
    site.slurm.node("node2", reason="mine now")
    after = site.undrain(result)
    assert site.slurm.drained() == {"node2": "mine now"}
    assert 'node2 was drained by another in the meantime ("mine now")' in after.notes
    assert after.outcome is Outcome.PASS


def test_jobs_that_do_not_end_hold_their_node_and_it_is_undrained(site: Site) -> None:
    result = site.apply(DRAIN)
    why = "not attempted: node2 runs job 1234 of alice (slurm); that was still so when --drain-wait was over"
    assert result.held == {PortId("node2", "eth1"): why, PortId("leaf1", "eth2"): why}
    assert site.world.time >= 1_800_000_000 + 30
    after = site.undrain(result)
    assert site.slurm.drained() == {}
    assert "undrained, nothing was changed there: node2" in after.notes
    assert after.waits_for_nodes
    assert site.probed == ["node1/eth1:node3/eth1,node3/eth1:node1/eth1"]


def test_when_nobody_becomes_free_nothing_is_changed_and_all_is_undrained(site: Site) -> None:
    site.slurm.job("5", "bob", "node1", "node3")
    result = site.undrain(site.apply(DRAIN))
    assert (result.state, result.waits_for_nodes, site.world.pushes) == (State.HELD, True, [])
    assert (site.slurm.drained(), site.probed) == ({}, [])
    assert load(site.store, site.world.fabric.source) == ()


def test_ctrl_c_while_waiting_undrains_only_ours_and_changes_nothing(site: Site) -> None:
    site.slurm.node("node3", drain=True, reason="bad DIMM")

    def stop(_seconds: float) -> None:
        assert set(site.slurm.drained()) == {"node1", "node2", "node3"}
        raise KeyboardInterrupt

    site.sleep = stop  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        site.apply(DRAIN)
    assert site.slurm.drained() == {"node3": "bad DIMM"}
    assert (site.world.pushes, load(site.store, site.world.fabric.source)) == ([], ())
    assert site.said("undrained: node1, node2")
    assert site.store.runs()[0].summary == "broken off before anything was changed"


def test_what_cannot_be_undrained_on_the_way_out_is_said(site: Site) -> None:
    def stop(_seconds: float) -> None:
        site.slurm.set(gone=True)
        raise KeyboardInterrupt

    site.sleep = stop  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        site.apply(DRAIN)
    assert site.said("node1, node2, node3 stay drained: whether it is undrained is not known: scontrol")
    assert site.said("; to end that: scontrol update NodeName=node1,node2,node3 State=UNDRAIN")


def test_a_drain_that_slurm_refuses_ends_the_apply(site: Site) -> None:
    site.slurm.set(denies=True)
    with pytest.raises(FabricctlError, match="Invalid user id"):
        site.apply(DRAIN)
    assert (site.world.pushes, site.slurm.drained()) == ([], {})


def test_a_node_whose_verify_fails_stays_drained_with_its_partners(make_site: Make) -> None:
    site = make_site(4)
    result = site.apply(DRAIN)
    after = site.undrain(result, "node1")
    assert set(site.slurm.drained()) == {"node1", "node2", "node4"}
    assert (after.outcome, after.waits_for_nodes) == (Outcome.FAIL, False)
    assert after.drain.undrained == ("node3",)
    assert (
        "node1, node2 stay drained: the verify of node1/eth1 -> node2/eth1 came out as fail; "
        "to end that: scontrol update NodeName=node1,node2 State=UNDRAIN" in after.notes
    )
    site.apply()
    assert site.said(f"node1, node2, node4 are still drained by {result.run.id}; to end that: scontrol")


def test_a_verify_that_cannot_run_leaves_them_drained(site: Site) -> None:
    site.slurm.set(jobs=[])
    result = site.apply(DRAIN)

    def prove(_spec: str) -> Sequence[Verdict]:
        raise FabricctlError("another verify is at work")

    after = undrain(result, Undraining(site.world.fabric, site.tools(), site.store, prove))
    assert set(site.slurm.drained()) == {"node1", "node2", "node3"}
    assert after.outcome is Outcome.UNKNOWN
    after = undrain(result, Undraining(site.world.fabric, site.tools(), site.store, lambda _spec: ()))
    assert set(after.drain.left.values()) == {"the verify says nothing of it"}

    def stop(_spec: str) -> Sequence[Verdict]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        undrain(result, Undraining(site.world.fabric, site.tools(), site.store, stop))
    assert site.said("node1, node2, node3 stay drained: the verify was interrupted")


def test_a_node_that_is_not_proven_stays_drained(site: Site) -> None:
    site.slurm.set(jobs=[])
    (site.world.root / "node1/refuse/mtu_bytes").touch()
    after = site.undrain(site.apply(DRAIN))
    assert set(site.slurm.drained()) == {"node1"}
    assert after.outcome is Outcome.FAIL
    assert "node1/eth1 is not proven: fabricctl: eth1: mtu_bytes: the NIC refuses" in after.notes[-1]


def test_without_a_partner_the_read_back_decides(make_site: Make) -> None:
    site = make_site(1)
    after = site.undrain(site.apply(DRAIN))
    assert (site.slurm.drained(), site.probed, after.outcome) == ({}, [], Outcome.PASS)
    assert after.notes == (
        "undrained, read back: node1",
        "node1/eth1: no probe ran: no other free node has a port on its rail",
    )


def test_a_single_drained_node_is_probed_with_an_idle_one(site: Site) -> None:
    site.undrain(site.apply(replace(DRAIN, limit=("node1",))))
    assert site.probed == ["node1/eth1:node3/eth1"]  # node2 runs a job
    assert site.slurm.updates()[0][0] == "NodeName=node1"


def test_an_undrain_that_does_not_take_is_said(site: Site) -> None:
    site.slurm.set(jobs=[])
    result = site.apply(DRAIN)
    site.slurm.set(forgets=True)
    after = site.undrain(result)
    assert set(after.drain.left.values()) == {"slurm did not undrain it"}
    assert after.outcome is Outcome.UNKNOWN
    site.slurm.set(forgets=False, denies=True)
    after = site.undrain(result)
    assert "Invalid user id" in after.drain.left["node1"]
    site.slurm.set(gone=True)
    assert "whether it is undrained is not known" in site.undrain(result).drain.left["node1"]


@pytest.mark.parametrize("moment", ["waiting", "pushing"])
def test_a_killed_run_is_named_by_the_next_with_what_it_drained(site: Site, moment: str) -> None:
    if moment == "pushing":
        site.slurm.set(jobs=[])
        site.world.before_push[1] = lambda: os._exit(9)
    child = os.fork()
    if child == 0:
        with Store.open(site.store.path) as own:
            site.store = own
            site.sleep = lambda _s: os._exit(9)  # type: ignore[method-assign]
            site.apply(DRAIN)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert set(site.slurm.drained()) == {"node1", "node2", "node3"}
    ((killed, _),) = site.store.records(KIND)
    site.slurm.node("node3", drain=True, reason="bad DIMM")
    site.world.before_push.clear()
    site.apply()
    line = (
        f"node1, node2 are still drained by {killed.id}; to end that: "
        "scontrol update NodeName=node1,node2 State=UNDRAIN"
    )
    assert line in site.world.said
    site.world.said.clear()
    site.slurm.set(gone=True)
    site.apply()
    assert site.said(f"node1, node2 may still be drained by {killed.id}")
    site.slurm.set(gone=False, nodes={"node1": {}, "node2": {}, "node3": {}}, jobs=[])
    site.world.said.clear()
    site.apply()
    site.apply()
    assert not site.said("drained by")


def test_an_apply_that_breaks_off_leaves_them_drained_and_says_so(site: Site) -> None:
    site.slurm.set(jobs=[])

    def interrupt() -> None:
        raise KeyboardInterrupt

    site.world.before_push[2] = interrupt
    with pytest.raises(KeyboardInterrupt):
        site.apply(DRAIN)
    assert site.mtu("node1/eth1") == "1500"
    assert len(site.slurm.drained()) == 3
    assert site.said("node1, node2, node3 stay drained: the apply was broken off; to end that: scontrol")


def test_devices_that_changed_during_the_wait_are_asked_about_again(site: Site) -> None:
    answers = [True, False]
    site.world.time = time.time()

    def agree(_plan: object) -> bool:
        site.world.set(PortId("node1", "eth1"), "mtu_bytes", "1600")
        return answers.pop(0)

    site.slurm.set(jobs=[])
    assert site.apply(DRAIN, agree=agree) is None
    assert (answers, site.slurm.drained(), site.world.pushes) == ([], {}, [])


def test_a_drain_that_finds_nothing_left_to_do(site: Site) -> None:
    def agree(_plan: object) -> bool:
        with Store.open(site.store.path.parent / "other.sqlite") as other:
            quiet = replace(site.world.tools())
            source = replace(site.world.fabric, source="/site/other.yml")
            apply(source, site.fakes.policy(), Options(), quiet, other, yes)
        return True

    site.slurm.set(jobs=[])
    result = site.apply(DRAIN, agree=agree)
    assert (result.outcome, result.proven, site.slurm.drained()) == (Outcome.PASS, 18, {})


def test_a_drain_that_disturbs_nobody_drains_nobody(site: Site) -> None:
    for device in site.world.fabric.devices:
        for port in device.ports:
            site.world.set(port.id, "mtu_bytes", "4200")
    assert site.apply(DRAIN).outcome is Outcome.PASS
    assert site.slurm.updates() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (replace(DRAIN, disrupt=True), "opposites"),
        (replace(DRAIN, confirm_within_s=300), "cannot wait to be confirmed"),
    ],
)
def test_what_does_not_go_with_drain(site: Site, options: Options, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        site.apply(options)


def test_drain_needs_a_scheduler(site: Site) -> None:
    site.world.fabric = replace(site.world.fabric, scheduler="none")
    with pytest.raises(UsageError, match="no scheduler here to drain nodes with"):
        site.apply(DRAIN)
