"""Setting a Nexus 9000: twice, undone by values, reverted by checkpoint or timer, confirmed, hindered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fabricctl.drivers.switch.nxos import PLUGIN
from fabricctl.errors import RefusedError, UsageError
from fabricctl.model import settings
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile
from fabricctl.model.reading import Known, Value
from fabricctl.plugin.protocols import PortGoal

MARKS = (
    "random-detect minimum-threshold 150000 bytes maximum-threshold 1500000 bytes"
    " drop-probability 7 weight 0 ecn"
)
TOO_LATE = 78
OTHER = "a20270115-090000-ffff"


def settings_of(bench: Any) -> dict[PortId, dict[str, Any]]:
    """Return all that is read of the ports' settings, without what only tells of the device's objects."""
    kept = {"nxos.objects", "nxos.timers", settings.BOOT}
    return {
        port: {n: e for n, e in r.settings.items() if n not in kept} for port, r in bench.readings().items()
    }


def without_feature(bench: Any) -> list[str]:
    """Return the configuration without the scheduler's feature, which stays on."""
    return sorted(line for line in bench.lines() if line != "feature scheduler")


def changed(bench: Any, before: Mapping[PortId, Mapping[str, Any]]) -> dict[PortId, dict[str, Value]]:
    """Return what a rollback is to restore: what an apply changed and was known."""
    now = bench.readings()
    return {
        port: {n: e.value for n, e in old.items() if isinstance(e, Known) and now[port].settings[n] != e}
        for port, old in before.items()
    }


def test_a_fresh_switch_is_set_with_these_lines(bench: Any) -> None:
    lines = bench.set({bench.id(): bench.wanted(watchdog=None)[bench.id()]})
    assert lines == [
        "class-map type qos match-any fabricctl-p3-29a68064",
        "match dscp 26",
        "class-map type qos match-any fabricctl-p6-c1f348f4",
        "match dscp 48",
        "policy-map type qos fabricctl-in-8b37ec78",
        "class fabricctl-p3-29a68064",
        "set qos-group 3",
        "class fabricctl-p6-c1f348f4",
        "set qos-group 7",
        "class class-default",
        "set qos-group 0",
        "policy-map type queuing fabricctl-out-a78bd14e",
        "class type queuing c-out-8q-q7",
        "priority level 1",
        *(
            line
            for queue in (6, 5, 4)
            for line in (f"class type queuing c-out-8q-q{queue}", "bandwidth remaining percent 0")
        ),
        "class type queuing c-out-8q-q3",
        "bandwidth remaining percent 50",
        MARKS,
        *(
            line
            for queue in (2, 1)
            for line in (f"class type queuing c-out-8q-q{queue}", "bandwidth remaining percent 0")
        ),
        "class type queuing c-out-8q-q-default",
        "bandwidth remaining percent 50",
        "policy-map type network-qos fabricctl-nq-ef093f07",
        "class type network-qos c-8q-nq3",
        "mtu 9216",
        "pause pfc-cos 3",
        "class type network-qos c-8q-nq-default",
        "mtu 9216",
        "interface Ethernet1/1",
        "mtu 9216",
        "service-policy type qos input fabricctl-in-8b37ec78",
        "system qos",
        "service-policy type network-qos fabricctl-nq-ef093f07",
        "interface Ethernet1/1",
        "priority-flow-control mode on",
        "service-policy type queuing output fabricctl-out-a78bd14e",
    ]


def test_trap_16_every_line_stands_in_the_running_configuration_as_it_was_sent(bench: Any) -> None:
    lines = [line for line in bench.set(bench.wanted()) if not line.startswith(("exit", "interface"))]
    kept = {line.strip() for line in bench.lines()}
    # A default is not shown.
    assert [line for line in lines if line not in kept] == [
        "priority-flow-control fixed-restore multiplier 0"
    ]


def test_set_twice_the_second_time_there_is_nothing_to_do(bench: Any) -> None:
    bench.set(bench.wanted())
    assert bench.goals(bench.wanted()) == []
    assert bench.known(settings.BOOT) == [settings.SAVED]


def test_undone_by_values_it_reads_as_at_first_and_nothing_of_ours_is_left(bench: Any) -> None:
    before = settings_of(bench)
    first = bench.lines()
    bench.set(bench.wanted())
    bench.set(changed(bench, before))
    assert settings_of(bench) == before
    assert bench.ours() == []
    assert without_feature(bench) == sorted(first)


def test_undone_by_values_what_others_made_is_bound_again(bench: Any) -> None:
    bench.blueprint()
    before, first = settings_of(bench), bench.lines()
    bench.set(bench.wanted(ecn=EcnProfile(950_000, 3_000_000, 7)))
    assert "service-policy type qos input QOS_CLASSIFICATION" in " ".join(bench.lines())
    bench.set(changed(bench, before))
    assert settings_of(bench) == before
    assert without_feature(bench) == sorted(first)


def test_undone_by_values_a_policy_with_more_in_it_is_bound_by_its_name(bench: Any) -> None:
    bench.blueprint()
    bench.switch.configure(
        "policy-map type queuing QOS_EGRESS_PORT", "class type queuing c-out-8q-q3", "queue-limit dynamic 3"
    )
    before, first = settings_of(bench), bench.lines()
    assert before[bench.id()]["nxos.queuing"] == Known("QOS_EGRESS_PORT")
    bench.set(bench.wanted())
    assert bench.known("nxos.queuing") == ["plain"]
    bench.set(changed(bench, before))
    assert settings_of(bench) == before
    assert without_feature(bench) == sorted(first)


def test_what_is_equal_and_anothers_is_left_as_it_is(bench: Any) -> None:
    bench.blueprint()
    same = bench.wanted(ecn=EcnProfile(150_000, 3_000_000, 7), watchdog=None)
    assert bench.goals(same) == []
    lines = bench.set(bench.wanted(ecn=EcnProfile(150_000, 3_000_000, 7), watchdog=None, mtu_bytes=9000))
    # The class MTU is the device's and in network-qos: only that is made anew, and the other's is kept.
    assert [line for line in lines if line.startswith(("policy-map", "no "))] == [
        "policy-map type network-qos fabricctl-nq-e25f7236"
    ]
    assert "policy-map type network-qos qos_network" in bench.lines()


def test_a_change_makes_a_new_policy_binds_it_and_removes_the_old_one_of_ours(bench: Any) -> None:
    bench.set(bench.wanted())
    old = [line.split()[-1] for line in bench.ours() if line.startswith("policy-map type queuing")]
    lines = bench.set(bench.wanted(ecn=EcnProfile(200_000, 1_500_000, 7)))
    new = [line.split()[-1] for line in bench.ours() if line.startswith("policy-map type queuing")]
    assert (len(old), len(new), old == new) == (1, 1, False)
    assert lines[-1] == f"no policy-map type queuing {old[0]}"
    at = lines.index(f"no service-policy type queuing output {old[0]}")
    assert lines[at - 1 : at + 2 : 2] == [
        "interface Ethernet1/1-2",
        f"service-policy type queuing output {new[0]}",
    ]
    assert lines.index(f"policy-map type queuing {new[0]}") == 0


def test_removal_is_in_the_reverse_order_of_making(bench: Any) -> None:
    before = settings_of(bench)
    bench.set(bench.wanted())
    lines = bench.set(changed(bench, before))
    removed = [line.split()[1:4] for line in lines if line.startswith(("no policy-map", "no class-map"))]
    assert removed == [
        ["policy-map", "type", "queuing"],
        ["policy-map", "type", "network-qos"],
        ["policy-map", "type", "qos"],
        ["class-map", "type", "qos"],
        ["class-map", "type", "qos"],
    ]
    assert lines.index("system qos") < lines.index(
        next(line for line in lines if line.startswith("no policy"))
    )


def test_a_policy_of_ours_that_another_port_uses_stays(bench: Any) -> None:
    bench.set(bench.wanted())
    bench.set({bench.id(1): bench.wanted(ecn=EcnProfile(200_000, 1_500_000, 7))[bench.id(1)]})
    assert len([line for line in bench.ours() if line.startswith("policy-map type queuing")]) == 2
    assert bench.differs({bench.id(2): bench.wanted()[bench.id(2)]}) == {}


def test_a_name_of_ours_that_somebody_changed_is_not_used_again(bench: Any) -> None:
    bench.set(bench.wanted())
    name = next(line for line in bench.ours() if line.startswith("policy-map type queuing")).split()[-1]
    bench.switch.configure(
        f"policy-map type queuing {name}", "class type queuing c-out-8q-q1", "bandwidth remaining percent 9"
    )
    bench.set(bench.wanted())
    assert [line.split()[-1] for line in bench.ours() if line.startswith("policy-map type queuing")] == [
        f"{name}a"
    ]


def test_batches_of_one_reading_do_not_stumble_over_each_other(bench: Any) -> None:
    bench.set(bench.wanted())
    for wanted in (bench.wanted(mtu_bytes=9000), bench.wanted(pfc_priorities=(), watchdog=None)):
        # A rollout reads once and pushes in batches: the second does not know what the first took away.
        for goal in bench.goals(wanted):
            assert bench.do(bench.push_text([goal])) == (0, "")
            assert bench.confirm() == (0, "")
        assert bench.differs(wanted) == {}
    assert len([line for line in bench.ours() if line.startswith("policy-map type network-qos")]) == 1


def test_ports_that_want_different_lossless_classes_are_refused(bench: Any) -> None:
    one = bench.wanted()[bench.id(1)]
    two = bench.wanted(pfc_priorities=(3, 4), priority_tc=(0, 0, 0, 3, 4, 0, 6, 0))[bench.id(2)]
    goals = bench.goals({bench.id(1): one, bench.id(2): two})
    with pytest.raises(RefusedError, match="for the whole device"):
        bench.push_text(goals)


def test_ports_that_are_put_back_to_pfc_off_do_not_contradict_the_others(bench: Any) -> None:
    bench.blueprint()
    bench.switch.configure("interface Ethernet1/2", "priority-flow-control mode off")
    before = settings_of(bench)
    bench.set(bench.wanted(pfc_priorities=(3, 4), priority_tc=(0, 0, 0, 3, 4, 0, 6, 0)))
    bench.set(changed(bench, before))
    assert settings_of(bench) == before


def test_only_what_is_named_is_set(bench: Any) -> None:
    (goal, _) = bench.goals(bench.wanted())
    text = bench.push_text([PortGoal(goal.port, (settings.MTU,), goal.wanted, goal.before)])
    assert (
        text.partition("\nconfigure terminal\ninterface")[2]
        == " Ethernet1/1\nmtu 9216\ninterface Ethernet1/1\nend\n"
    )


# revert, confirm, and what is in the way


def test_the_timer_reverts_by_itself(bench: Any) -> None:
    before = settings_of(bench)
    bench.set(bench.wanted(), confirm=False)
    assert settings_of(bench) != before
    bench.switch.clock.pass_by(661)
    bench.switch.tick()
    assert settings_of(bench) == before


def test_a_confirm_that_comes_too_late_fails_and_saves_nothing(bench: Any) -> None:
    bench.set(bench.wanted(), confirm=False)
    bench.switch.clock.pass_by(661)
    assert bench.confirm() == (TOO_LATE, "a20270115-080000-ab12 was reverted before it was confirmed")
    assert "copy running-config startup-config" not in bench.switch.log
    assert bench.known(settings.BOOT) == [settings.SAVED]


def test_a_confirm_stops_the_timer_saves_and_leaves_nothing(bench: Any) -> None:
    bench.set(bench.wanted())
    assert bench.switch.checkpoints == {}
    assert [line for line in bench.lines() if "scheduler" in line] == ["feature scheduler"]
    bench.switch.clock.pass_by(10_000)
    bench.switch.reboot()
    assert bench.differs(bench.wanted()) == {}


def test_a_confirm_that_broke_off_goes_on(bench: Any) -> None:
    bench.set(bench.wanted(), confirm=False)
    name = "fabricctl-a20270115-080000-ab12"
    bench.switch.configure(f"no scheduler schedule name {name}")
    assert bench.confirm() == (0, "")
    assert (bench.switch.checkpoints, bench.known(settings.BOOT)) == ({}, [settings.SAVED])


def test_a_confirm_without_a_push_only_saves(bench: Any) -> None:
    bench.set(bench.wanted())
    bench.switch.startup = None
    assert bench.confirm(slots=()) == (0, "")
    assert bench.known(settings.BOOT) == [settings.SAVED]


def test_a_revert_takes_back_at_once_and_leaves_nothing(bench: Any) -> None:
    first = bench.lines()
    bench.set(bench.wanted(), confirm=False)
    assert bench.revert() == (0, "")
    assert without_feature(bench) == sorted(first)
    assert bench.switch.checkpoints == {}
    bench.switch.clock.pass_by(661)
    bench.switch.tick()
    assert bench.switch.executed == {}


def test_a_revert_of_nothing_is_success(bench: Any) -> None:
    assert bench.revert() == (0, "")


def test_a_revert_after_the_timer_has_fired_cleans_up(bench: Any) -> None:
    bench.set(bench.wanted(), confirm=False)
    bench.switch.clock.pass_by(661)
    assert bench.revert() == (0, "")
    assert bench.switch.checkpoints == {}
    assert bench.ours() == []


def test_a_rollback_that_the_switch_refuses_leaves_timer_and_checkpoint(bench: Any) -> None:
    bench.set(bench.wanted(), confirm=False)
    bench.switch.rollback_fails = True
    rc, why = bench.revert()
    assert rc == 1
    assert "Rollback failed" in why
    assert list(bench.switch.checkpoints) == ["fabricctl-a20270115-080000-ab12"]
    bench.switch.rollback_fails = False
    bench.switch.clock.pass_by(661)
    bench.switch.tick()
    assert bench.known(settings.MTU) == [1500]


def test_a_revert_or_a_confirm_does_not_touch_anothers_change(bench: Any) -> None:
    assert bench.do(bench.push_text(bench.goals(bench.wanted()), apply_id=OTHER)) == (0, "")
    lines = bench.lines()
    assert bench.revert() == (0, "")
    assert bench.confirm()[0] == TOO_LATE
    assert bench.lines() == lines
    assert list(bench.switch.checkpoints) == [f"fabricctl-{OTHER}"]


def test_what_a_timer_that_fired_left_is_cleaned_by_the_next_change(bench: Any) -> None:
    bench.do(bench.push_text(bench.goals(bench.wanted()), apply_id=OTHER))
    bench.switch.clock.pass_by(661)
    bench.switch.tick()
    bench.set(bench.wanted())
    assert bench.switch.checkpoints == {}
    assert [line for line in bench.lines() if "scheduler" in line] == ["feature scheduler"]


def test_others_jobs_and_checkpoints_are_left_alone(bench: Any) -> None:
    bench.switch.configure(
        "feature scheduler",
        "scheduler job name backup",
        "copy running-config bootflash:backup",
        "end-job",
        "scheduler schedule name nightly",
        "job name backup",
        "time start 2030:01:01:03:00",
    )
    bench.switch.session().answer("checkpoint before-upgrade")
    bench.set(bench.wanted())
    assert list(bench.switch.checkpoints) == ["before-upgrade"]
    assert "scheduler schedule name nightly" in bench.lines()


@pytest.mark.parametrize(
    "refused",
    [
        "scheduler job name .*",
        "time start .*",
        "checkpoint .*",
        "service-policy type network-qos .*",
        "priority-flow-control mode on",
    ],
)
def test_a_line_that_is_refused_is_the_last(bench: Any, refused: str) -> None:
    import re  # noqa: PLC0415  only here

    answer = bench.switch.session

    def session() -> Any:
        made = answer()
        real = made.answer
        made.answer = lambda line: "% Permission denied" if re.fullmatch(refused, line) else real(line)
        return made

    before = settings_of(bench)
    text = bench.push_text(bench.goals(bench.wanted()))
    rc, why = bench.do(text, session())
    assert rc == 1
    assert "% Permission denied" in why
    assert bench.revert() == (0, "")
    assert settings_of(bench) == before
    assert bench.switch.checkpoints == {}


def test_no_more_than_ten_checkpoints_are_kept_by_the_switch(bench: Any) -> None:
    for number in range(10):
        bench.switch.session().answer(f"checkpoint mine-{number}")
    rc, why = bench.do(bench.push_text(bench.goals(bench.wanted())))
    assert rc == 1
    assert "Maximum number of checkpoints" in why
    assert bench.known(settings.MTU) == [1500]


@pytest.mark.parametrize("name", ["x" * 22, "a b", "a\nreload", "a;b"])
def test_an_apply_has_a_name_that_the_scheduler_takes(name: str) -> None:
    assert PLUGIN.method is not None
    with pytest.raises(UsageError, match="cannot be part of a name"):
        PLUGIN.method.revert(name, ())


def test_a_name_that_is_no_policy_maps_goes_into_no_line(bench: Any) -> None:
    (goal, _) = bench.goals(bench.wanted())
    wanted = {**goal.wanted, "nxos.queuing": "x\nreload"}
    with pytest.raises(UsageError, match="name of a policy-map"):
        bench.push_text([PortGoal(goal.port, ("nxos.queuing",), wanted, goal.before)])
