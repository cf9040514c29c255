from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.apply.confirm import confirm
from fabricctl.apply.drift import drift, line
from fabricctl.apply.flow import Options, apply
from fabricctl.apply.record import State, load
from fabricctl.apply.rollback import rollback
from fabricctl.errors import BusyError, FabricctlError, UsageError
from fabricctl.model import facts
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Stance
from fabricctl.model.reading import Known
from fabricctl.model.verdict import Outcome
from fabricctl.store import Store

Make = Callable[..., Any]


def yes(_plan: object) -> bool:
    return True


def run(world: Any, fakes: Any, store: Store, options: Options | None = None, **rules: Any) -> Any:
    return apply(world.fabric, fakes.policy(**rules), options or Options(), world.tools(), store, yes)


def take_back(world: Any, store: Store, name: str | None = None) -> Any:
    return rollback(world.fabric, name, Options(), world.tools(), store, yes)


def mtus(world: Any) -> dict[str, str]:
    return {
        str(port.id): world.get(str(port.id), "mtu_bytes")
        for device in world.fabric.devices
        for port in device.ports
    }


def test_apply_sets_switches_first_and_is_proved_and_kept(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    result = run(world, fakes, store)
    assert (result.state, result.outcome, result.proven, result.total) == (State.DONE, Outcome.PASS, 12, 12)
    assert world.pushes == [("leaf1",), ("node1", "node2"), ("node1", "node2", "leaf1")]
    assert result.tasks == {"leaf1": 2, "node1": 2, "node2": 2}
    assert set(mtus(world).values()) == {"4200"}
    assert world.timers() == []
    assert world.leftovers() == []


def test_second_apply_contacts_nobody(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    run(world, fakes, store)
    pushed = len(world.pushes)
    result = run(world, fakes, store)
    assert len(world.pushes) == pushed
    assert (result.run, result.tasks, result.proven, result.total) == (None, {}, 12, 12)
    assert len(load(store, world.fabric.source)) == 1


def test_intent_is_recorded_though_nothing_had_to_change(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    with Store.open(store.path.parent / "other.sqlite") as other:
        run(world, fakes, other)
    assert run(world, fakes, store).run is not None
    assert drift(world.fabric, load(store, world.fabric.source), (), world.tools()).checked == 12


def test_shrinking_mtu_goes_to_switches_last(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    run(world, fakes, store)
    world.pushes.clear()
    result = run(world, fakes, store, mtu=2000, pfc=(3, 4))
    assert result.outcome is Outcome.PASS
    assert world.pushes == [("leaf1",), ("node1", "node2"), ("leaf1",), ("node1", "node2", "leaf1")]
    assert set(mtus(world).values()) == {"2000"}
    assert world.leftovers() == []


def test_settings_survive_a_reboot_only_when_confirmed(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    run(world, fakes, store, Options(confirm_within_s=300))
    world.reboot("node1")
    assert world.get("node1/eth1", "mtu_bytes") == "1500"
    confirm(world.fabric, None, world.tools(), store)
    world.reboot("node2")
    assert world.get("node2/eth1", "mtu_bytes") == "4200"


def test_first_of_many_batches_is_one_node(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world(4)
    result = run(world, fakes, store, Options(batch=2))
    assert result.outcome is Outcome.PASS
    assert [names for names in world.pushes if "leaf1" not in names] == [
        ("node1",),
        ("node2", "node3"),
        ("node4",),
    ]
    assert world.leftovers() == []


def test_a_port_that_refuses_is_reverted_with_its_links_other_end(
    make_world: Make, fakes: Any, store: Store
) -> None:
    world = make_world()
    (world.root / "node1/refuse/pfc_priorities").touch()
    result = run(world, fakes, store)
    assert (result.state, result.outcome) == (State.FAILED, Outcome.FAIL)
    node, far = PortId("node1", "eth1"), PortId("leaf1", "eth1")
    assert result.failed[node].startswith("fabricctl: eth1: pfc_priorities: the NIC refuses")
    assert result.failed[far] == "its link's other end node1/eth1 failed (reverted, and read back so)"
    assert mtus(world) == {
        "node1/eth1": "1500",
        "node2/eth1": "4200",
        "leaf1/eth1": "1500",
        "leaf1/eth2": "4200",
    }
    assert world.timers() == []
    assert world.leftovers() == []
    record = load(store, world.fabric.source)[0].record
    assert set(record.proven) == {PortId("node2", "eth1"), PortId("leaf1", "eth2")}


def test_a_device_with_a_port_that_cannot_be_reverted_is_left_to_its_timer(
    make_world: Make, fakes: Any, store: Store
) -> None:
    world = make_world()
    (world.root / "node1/refuse/mtu_bytes").touch()
    stuck = world.root / "leaf1/refuse/eth1.mtu_bytes"
    world.before_push[3] = stuck.touch  # the third push reverts node1 and the switch port behind it
    result = run(world, fakes, store)
    assert "NOT reverted" in result.failed[PortId("leaf1", "eth1")]
    assert "left to the device's timer" in result.failed[PortId("leaf1", "eth2")]
    assert "its link's other end leaf1/eth2 failed (reverted" in result.failed[PortId("node2", "eth1")]
    assert len(world.timers()) == 1
    stuck.unlink()
    world.fire_timers("leaf1")
    assert set(mtus(world).values()) == {"1500"}
    assert (world.timers(), world.leftovers()) == ([], [])


def test_what_a_device_only_claims_to_have_done_is_reverted(
    make_world: Make, fakes: Any, store: Store, templates: Path
) -> None:
    world = make_world()
    text = (templates / "nic/fake/port.sh.j2").read_text()
    (templates / "nic/fake/port.sh.j2").write_text(
        text.replace("  mtu", "  never").replace("{{ name }})", "{{ 'x' if name == 'mtu_bytes' else name }})")
    )
    result = run(world, fakes, store)
    assert "mtu_bytes should be 4200, is 1500" in result.failed[PortId("node1", "eth1")]
    assert set(mtus(world).values()) == {"1500"}


def test_a_failed_canary_stops_the_rest(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world(4)
    (world.root / "node1/refuse/mtu_bytes").touch()
    result = run(world, fakes, store, Options(batch=2))
    assert result.held[PortId("node2", "eth1")] == "not attempted: an earlier batch failed"
    assert set(mtus(world).values()) == {"1500"}
    assert not any("node2" in names for names in world.pushes)


def test_an_unreadable_node_holds_its_switch_port(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    world.silent.add("node2")
    result = run(world, fakes, store)
    assert result.outcome is Outcome.UNKNOWN
    assert result.plan.unread == {"node2": "no route to host"}
    held = result.held[PortId("leaf1", "eth2")]
    assert held == "not attempted: its link's other end node2/eth1 could not be read: no route to host"
    assert world.get("leaf1/eth1", "mtu_bytes") == "4200"
    assert world.get("leaf1/eth2", "mtu_bytes") == "1500"
    assert (result.proven, result.total) == (6, 12)


def test_a_device_lost_in_mid_apply_reverts_by_its_timer(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    world.before_push[3] = lambda: world.silent.add("node1")
    result = run(world, fakes, store)
    assert "not confirmed, it reverts by itself at" in result.failed[PortId("node1", "eth1")]
    world.silent.clear()
    world.fire_timers("node1")
    assert world.get("node1/eth1", "mtu_bytes") == "1500"
    assert world.leftovers() == []


def test_without_a_timer_nothing_is_changed(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    (world.root / "leaf1/no-timers").touch()
    result = run(world, fakes, store)
    assert "nothing was changed" in result.failed[PortId("leaf1", "eth1")]
    assert set(mtus(world).values()) == {"1500"}


def test_another_unconfirmed_change_on_the_device_is_left_alone(
    make_world: Make, fakes: Any, store: Store
) -> None:
    world = make_world()
    (world.root / "leaf1/run/fabricctl/a1.0001").mkdir(parents=True)
    (world.root / "leaf1/timers/fabricctl-revert-a1.0001.timer").touch()
    result = run(world, fakes, store)
    assert "a1 waits to be confirmed here" in result.failed[PortId("leaf1", "eth1")]
    assert world.leftovers() == ["leaf1/run/fabricctl/a1.0001"]
    assert set(mtus(world).values()) == {"1500"}


def test_confirm_keeps_an_apply_that_waits(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    result = run(world, fakes, store, Options(confirm_within_s=300))
    assert (result.state, result.proven, result.total) == (State.WAITING, 8, 8)
    assert result.deadline == world.time + 300
    assert len(world.timers()) == 3
    with pytest.raises(BusyError, match="waits to be confirmed until"):
        run(world, fakes, store)
    kept = confirm(world.fabric, None, world.tools(), store)
    assert (kept.state, kept.outcome, kept.proven, kept.total) == (State.DONE, Outcome.PASS, 12, 12)
    assert world.timers() == []
    assert world.leftovers() == []
    assert run(world, fakes, store).run is None


def test_what_nobody_confirms_is_gone(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    run(world, fakes, store, Options(confirm_within_s=300))
    for device in world.fabric.devices:
        world.fire_timers(device.name)
    assert set(mtus(world).values()) == {"1500"}
    world.time += 400
    with pytest.raises(UsageError, match="does not wait to be confirmed: it is reverted"):
        confirm(world.fabric, None, world.tools(), store)
    assert run(world, fakes, store).outcome is Outcome.PASS


def test_confirm_comes_too_late_for_one_device(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    run(world, fakes, store, Options(confirm_within_s=300))
    world.fire_timers("node2")
    result = confirm(world.fabric, None, world.tools(), store)
    assert list(result.failed) == [PortId("node2", "eth1")]
    assert "was reverted before it was confirmed" in result.failed[PortId("node2", "eth1")]
    assert world.get("node1/eth1", "mtu_bytes") == "4200"


def test_interrupted_apply_leaves_nothing_half_done(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()

    def interrupt() -> None:
        raise KeyboardInterrupt

    world.before_push[2] = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(world, fakes, store)
    assert set(mtus(world).values()) == {"1500"}
    assert world.timers() == []
    assert load(store, world.fabric.source)[0].record.state is State.REVERTED


def test_a_killed_apply_is_cleaned_up_by_the_next(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    world.before_push[3] = lambda: os._exit(9)  # as kill -9 does: before anything is confirmed
    child = os.fork()
    if child == 0:
        with Store.open(store.path) as own:
            run(world, fakes, own)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert set(mtus(world).values()) == {"4200"}
    assert len(world.timers()) == 3
    world.before_push.clear()
    result = run(world, fakes, store)
    assert result.outcome is Outcome.PASS
    assert len(result.plan.steps) == 12  # the old change was reverted first, then all was applied anew
    killed = load(store, world.fabric.source)[1]
    assert killed.record.state is State.REVERTED
    assert any("was killed: reverting" in text for text in world.said)
    assert world.leftovers() == []


def test_the_timer_of_a_killed_apply_reverts_by_itself(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    run(world, fakes, store, Options(confirm_within_s=300))
    world.fire_timers("leaf1")
    assert world.get("leaf1/eth1", "mtu_bytes") == "1500"
    assert world.get("leaf1/eth2", "pfc_priorities") == "()"
    assert [name for name in world.leftovers() if name.startswith("leaf1")] == []


def test_saying_no_changes_nothing(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    result = apply(world.fabric, fakes.policy(), Options(), world.tools(), store, lambda _plan: False)
    assert result is None
    assert world.pushes == []
    assert load(store, world.fabric.source) == ()


def test_policy_may_refuse_what_devices_cannot_have(
    make_world: Make, fakes: Any, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    meant = fakes.intents(world.fabric, fakes.policy())
    marking = {port: replace(intent, ecn=EcnProfile(1000, 3000, 10)) for port, intent in meant.items()}
    monkeypatch.setattr("fabricctl.apply.flow.intents", lambda *_: marking)
    strict = replace(fakes.policy(), unsupported=Stance.REFUSE)
    with pytest.raises(FabricctlError, match=r"4 ports cannot have ecn \(it does not mark\)"):
        apply(world.fabric, strict, Options(), world.tools(), store, yes)
    assert world.pushes == []
    assert run(world, fakes, store).outcome is Outcome.PASS


def test_limit_touches_only_what_it_names(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    run(world, fakes, store, Options(limit=("node[1]",)))
    assert mtus(world)["node1/eth1"] == "4200"
    assert mtus(world)["leaf1/eth1"] == "1500"
    with pytest.raises(UsageError, match="did you mean node2"):
        run(world, fakes, store, Options(limit=("nod2",)))


def test_drift_names_setting_and_apply(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    with pytest.raises(UsageError, match="nothing is recorded"):
        drift(world.fabric, (), (), world.tools())
    first = run(world, fakes, store)
    history = load(store, world.fabric.source)
    assert drift(world.fabric, history, (), world.tools()).differences == ()
    world.set(PortId("node2", "eth1"), "pfc_priorities", "()")
    (world.root / "leaf1/enabled/fabricctl-port@eth1.service").unlink()
    world.silent.add("node1")
    found = drift(world.fabric, history, (), world.tools())
    assert line(found.differences[0]) == (
        f"node2/eth1 pfc_priorities: should be 3, is none (since apply {first.run.id})"
    )
    assert "leaf1/eth1 boot: should be kept over reboots, is lost at reboot" in line(found.differences[1])
    assert found.unread == {"node1": "no route to host"}
    assert found.checked == 9


def test_rollback_restores_what_was_read_before(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    world.set(PortId("node1", "eth1"), "mtu_bytes", "1600")
    run(world, fakes, store)
    result = take_back(world, store)
    assert (result.state, result.outcome) == (State.DONE, Outcome.PASS)
    assert mtus(world)["node1/eth1"] == "1600"
    assert mtus(world)["leaf1/eth1"] == "1500"
    assert list(world.root.glob("*/enabled/*")) == []
    assert list(world.root.glob("*/etc/fabricctl/ports/*")) == []
    history = load(store, world.fabric.source)
    with pytest.raises(UsageError, match="nothing is recorded"):
        drift(world.fabric, history, (), world.tools())
    with pytest.raises(UsageError, match="no apply to roll back"):
        take_back(world, store)


def test_rollback_restores_a_boot_script_that_another_store_knows(
    make_world: Make, fakes: Any, store: Store
) -> None:
    world = make_world()
    with Store.open(store.path.parent / "other.sqlite") as other:
        run(world, fakes, other, mtu=3000)
    kept = world.script_of(PortId("node1", "eth1")).read_text()
    run(world, fakes, store)
    assert world.script_of(PortId("node1", "eth1")).read_text() != kept
    result = take_back(world, store)
    assert (result.notes, result.failed) == ((), {})
    assert world.script_of(PortId("node1", "eth1")).read_text() == kept
    world.reboot("node1")
    assert world.get("node1/eth1", "mtu_bytes") == "3000"


def test_an_earlier_boot_script_that_could_not_be_read_does_not_leave_the_later_one(
    make_world: Make, fakes: Any, store: Store
) -> None:
    world = make_world()
    with Store.open(store.path.parent / "other.sqlite") as other:
        run(world, fakes, other, mtu=3000)
    blind = replace(world.tools(), boot_scripts=lambda _ports: ("another text\n",))
    apply(world.fabric, fakes.policy(), Options(), blind, store, yes)
    result = take_back(world, store)
    assert set(mtus(world).values()) == {"3000"}
    assert result.notes[0] == (
        "node1/eth1 boot: the earlier boot script is not recorded here; nothing sets the port at boot"
    )
    world.reboot("node1")
    assert world.get("node1/eth1", "mtu_bytes") == "1500"


def test_after_a_rollback_the_earlier_intent_is_in_force(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    first = run(world, fakes, store)
    run(world, fakes, store, mtu=9000)
    result = take_back(world, store)
    assert result.outcome is Outcome.PASS
    found = drift(world.fabric, load(store, world.fabric.source), (), world.tools())
    assert (found.differences, found.checked) == ((), 12)
    world.set(PortId("node2", "eth1"), "mtu_bytes", "1500")
    found = drift(world.fabric, load(store, world.fabric.source), (), world.tools())
    assert [item.since for item in found.differences] == [first.run.id]


def test_rollback_of_an_older_apply_takes_the_later_ones_with_it(
    make_world: Make, fakes: Any, store: Store
) -> None:
    world = make_world()
    first = run(world, fakes, store)
    run(world, fakes, store, mtu=9000, pfc=(3, 4))
    with pytest.raises(UsageError, match="there is no apply 'a0'"):
        take_back(world, store, "a0")
    take_back(world, store, first.run.id)
    assert set(mtus(world).values()) == {"1500"}
    states = [a.record.state for a in load(store, world.fabric.source)]
    assert states == [State.DONE, State.ROLLED_BACK, State.ROLLED_BACK]


def test_rollback_of_an_older_apply_restores_what_only_a_later_one_had_to_set(
    make_world: Make, fakes: Any, store: Store
) -> None:
    world = make_world()
    port = PortId("node1", "eth1")
    world.set(port, "pfc_priorities", "(3,)")  # as intended from the first
    first = run(world, fakes, store)
    world.set(port, "pfc_priorities", "(5,)")  # by hand, between the two
    run(world, fakes, store)
    take_back(world, store, first.run.id)
    assert world.get("node1/eth1", "pfc_priorities") == "(3,)"
    assert world.get("node1/eth1", "mtu_bytes") == "1500"


def test_rollback_of_a_waiting_apply_reverts_it_now(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    run(world, fakes, store, Options(confirm_within_s=300))
    result = take_back(world, store)
    assert (result.state, result.outcome) == (State.REVERTED, Outcome.PASS)
    assert set(mtus(world).values()) == {"1500"}
    assert world.timers() == []


def test_what_was_not_known_is_not_restored_and_said(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world()
    world.set(PortId("node1", "eth1"), "mtu_bytes", "unreadable")
    run(world, fakes, store)
    result = take_back(world, store)
    assert result.notes == ("node1/eth1 mtu_bytes: left as it is, what it was is not known (unparsable)",)
    assert mtus(world)["node1/eth1"] == "4200"
    assert world.get("node1/eth1", "pfc_priorities") == "()"


def test_a_timer_that_never_fired_is_found_and_its_change_taken_back(
    world: Any, fakes: Any, store: Store
) -> None:
    run(world, fakes, store, Options(confirm_within_s=300))
    world.time += 400
    assert world.timers() != []
    result = run(world, fakes, store, mtu=1500, pfc=())
    assert result.outcome is Outcome.PASS
    assert (world.timers(), world.leftovers()) == ([], [])
    assert world.get("leaf1/eth1", "mtu_bytes") == "1500"
    assert any("was not confirmed in time: seeing that its devices have reverted it" in s for s in world.said)
    (late,) = [each for each in store.runs(limit=10) if "not confirmed in time" in each.summary]
    assert late.summary == "not confirmed in time: reverted, and read back so"


def test_what_an_unconfirmed_apply_left_behind_is_named(world: Any, fakes: Any, store: Store) -> None:
    run(world, fakes, store, Options(confirm_within_s=300))
    world.time += 400
    world.silent.add("node2")
    with pytest.raises(UsageError, match="it is failed"):
        confirm(world.fabric, None, world.tools(), store)
    (late,) = [each for each in store.runs(limit=10) if "not confirmed in time" in each.summary]
    assert late.summary == "not confirmed in time: NOT all reverted: node2: no route to host"
    assert "  node2: no route to host" in world.said
    world.silent.clear()
    for timer in (world.root / "node2/timers").iterdir():
        timer.unlink()  # it was lost, and so nothing has reverted
    assert world.get("node2/eth1", "mtu_bytes") == "4200"
    assert take_back(world, store).outcome is Outcome.PASS
    assert set(mtus(world).values()) == {"1500"}


def test_a_port_of_which_nothing_can_be_read_is_no_step(world: Any, fakes: Any, store: Store) -> None:
    for setting in ("mtu_bytes", "pfc_priorities"):
        world.set(PortId("node2", "eth1"), setting, "unreadable")
    result = run(world, fakes, store)
    assert result.outcome is Outcome.UNKNOWN
    assert result.plan.unread_ports == {PortId("node2", "eth1"): "unparsable"}
    assert result.failed == {}
    assert {str(port): why for port, why in result.held.items()} == {
        "leaf1/eth2": "not attempted: its link's other end node2/eth1 could not be read: unparsable"
    }
    assert world.get("leaf1/eth2", "mtu_bytes") == "1500"
    assert world.get("leaf1/eth1", "mtu_bytes") == "4200"


def test_what_was_kept_before_an_interrupt_can_be_rolled_back(world: Any, fakes: Any, store: Store) -> None:
    confirms = world.push

    def push(jobs: Any) -> Any:
        if len(world.pushes) == 2:  # the third is the confirm: one device does it, then comes Ctrl-C
            confirms(jobs[:1])
            raise KeyboardInterrupt
        return confirms(jobs)

    tools = replace(world.tools(), push=push)
    with pytest.raises(KeyboardInterrupt):
        apply(world.fabric, fakes.policy(), Options(), tools, store, yes)
    assert {name for name, mtu in mtus(world).items() if mtu == "4200"} == {"node1/eth1"}
    (run_of,) = store.runs(limit=5)
    assert run_of.summary == (
        'interrupted; node1 may have kept the change ("fabricctl rollback" takes it back), '
        "the rest was reverted"
    )
    assert (
        'node1/eth1: interrupted (NOT reverted: mtu_bytes is 4200: it was kept already; "fabricctl rollback"'
        " takes it back)"
    ) in world.said
    assert take_back(world, store).outcome is Outcome.PASS
    assert set(mtus(world).values()) == {"1500"}


def test_what_changes_elsewhere_while_it_is_set_is_no_pass(world: Any, fakes: Any, store: Store) -> None:
    run(world, fakes, store)
    world.set(PortId("node1", "eth1"), "mtu_bytes", "1500")
    world.before_push[len(world.pushes) + 1] = lambda: world.set(PortId("leaf1", "eth2"), "mtu_bytes", "9000")
    world.set(PortId("leaf1", "eth1"), "mtu_bytes", "1500")
    result = run(world, fakes, store)
    assert result.outcome is Outcome.FAIL
    assert {str(port): why for port, why in result.failed.items()} == {
        "leaf1/eth2": "changed meanwhile: mtu_bytes should be 4200, is 9000"
    }
    assert result.state is State.FAILED


def test_the_far_end_in_an_earlier_batch_is_reverted_too(make_world: Make, fakes: Any, store: Store) -> None:
    world = make_world(3)
    (world.root / "node3/refuse/mtu_bytes").touch()
    result = run(world, fakes, store, Options(batch=1, confirm_within_s=300))
    assert {str(port) for port in result.failed} == {"node3/eth1", "leaf1/eth3"}
    assert all("(reverted, and read back so)" in why for why in result.failed.values())
    assert world.get("leaf1/eth3", "mtu_bytes") == "1500"


def test_a_change_that_waits_elsewhere_is_never_kept(
    world: Any, fakes: Any, store: Store, tmp_path: Path
) -> None:
    with Store.open(tmp_path / "other.sqlite") as other:
        run(world, fakes, other, Options(confirm_within_s=300))
    result = run(world, fakes, store)  # all is as intended already, but for the boot scripts
    assert result.outcome is Outcome.FAIL
    assert all("waits to be confirmed here" in why for why in result.failed.values())
    for device in world.fabric.devices:
        world.fire_timers(device.name)
    assert set(mtus(world).values()) == {"1500"}


def test_drift_is_not_clean_where_an_apply_failed(world: Any, fakes: Any, store: Store) -> None:
    (world.root / "node2/refuse/mtu_bytes").touch()
    assert run(world, fakes, store).outcome is Outcome.FAIL
    found = drift(world.fabric, load(store, world.fabric.source), (), world.tools())
    assert {str(port) for port in found.unproven} == {"node2/eth1", "leaf1/eth2"}


def test_nothing_compared_is_no_proof_that_it_was_reverted(world: Any, fakes: Any, store: Store) -> None:
    run(world, fakes, store, Options(confirm_within_s=300))
    world.time += 400
    left = world.fabric.devices[1:]
    world.fabric = replace(world.fabric, devices=left, links=world.fabric.links[1:])
    with pytest.raises(UsageError, match="it is failed"):
        confirm(world.fabric, None, world.tools(), store)
    (late,) = [each for each in store.runs(limit=10) if "not confirmed in time" in each.summary]
    assert late.summary == (
        "not confirmed in time: NOT all reverted: node1: what it was before is not known, or it is no longer "
        "in the inventory: nothing could be compared"
    )


def test_what_was_held_needs_no_proof_that_it_was_reverted(world: Any, fakes: Any, store: Store) -> None:
    world.facts[PortId("node1", "eth1")] = {facts.RIVALS: Known(("tuned",))}
    result = run(world, fakes, store, Options(confirm_within_s=300))
    assert {str(port) for port in result.held} == {"node1/eth1", "leaf1/eth1"}
    world.time += 400
    world.facts.clear()
    run(world, fakes, store)
    (late,) = [each for each in store.runs(limit=10) if "not confirmed in time" in each.summary]
    assert late.summary == "not confirmed in time: reverted, and read back so"


def test_nothing_compared_is_no_proof_of_what_was_taken_back_either(
    world: Any, fakes: Any, store: Store
) -> None:
    run(world, fakes, store, Options(confirm_within_s=300))
    world.fabric = replace(world.fabric, devices=world.fabric.devices[1:], links=world.fabric.links[1:])
    result = take_back(world, store)
    assert (result.outcome, result.state) == (Outcome.UNKNOWN, State.FAILED)
    assert list(result.plan.unread) == ["node1"]
    assert world.get("node2/eth1", "mtu_bytes") == "1500"
