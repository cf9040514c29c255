"""Changing a switch: set, again, confirm, take back by hand and by its timer, and what goes wrong."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fabricctl.drivers.switch.dell_sonic import PLUGIN, script, terms
from fabricctl.errors import RefusedError, UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.plugin.protocols import PortGoal

APPLY = "apply-20261130-1"


def test_set_confirm_and_again_nothing_is_to_do(bench: Any) -> None:
    lines = bench.set()
    assert lines[-14:] == [
        "mtu 9216",
        "qos-map dscp-tc FABRICCTL_2F0770B8",
        "qos-map tc-queue FABRICCTL_4668AB13",
        "scheduler-policy FABRICCTL_0A9C30AE",
        "cable-length 5m",
        "qos-map tc-pg FABRICCTL_3E83104A",
        "qos-map pfc-priority-pg FABRICCTL_924592B9",
        "qos-map pfc-priority-queue FABRICCTL_924592B9",
        "priority-flow-control priority 3",
        "queue 3 wred-policy FABRICCTL_9ADB26FF",
        "priority-flow-control watchdog action drop",
        "priority-flow-control watchdog on detect-time 400",
        "priority-flow-control watchdog restore-time 400",
        "exit",
    ]
    assert bench.differs() == {}
    assert bench.known(settings.BOOT) == [settings.SAVED]
    assert bench.switch.timers() == {}
    assert bench.switch.left() == []
    assert bench.goals(bench.wanted()) == []


def test_the_same_lines_again_change_nothing(bench: Any) -> None:
    goals = bench.goals(bench.wanted())
    assert bench.push(goals) == (0, "")
    once = bench.running()
    assert bench.push(goals, slot=2) == (0, "")
    assert bench.running() == once


def test_revert_restores_the_first_configuration_and_leaves_nothing(bench: Any) -> None:
    first = bench.running()
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    assert bench.differs() == {}
    assert bench.revert() == (0, "")
    assert "fabricctl-port Eth1/1 0" in bench.said
    assert bench.running() == first
    assert (bench.switch.timers(), bench.switch.left(), bench.ours()) == ({}, [], [])


def test_revert_restores_what_an_operator_had_made_name_by_name(bench: Any) -> None:
    bench.by_hand()
    bench.port_by_hand("queue 0 wred-policy ROCE", "priority-flow-control asymmetric", "cable-length 300m")
    first = bench.running()
    other = {"pfc_priorities": (4,), "priority_tc": (0, 0, 0, 0, 4, 0, 6, 0), "mtu_bytes": 9000}
    assert bench.push(bench.goals(bench.wanted(**other))) == (0, "")
    assert bench.known(settings.PFC) == [(4,)]
    assert bench.revert() == (0, "")
    assert bench.running() == first


def test_the_switch_goes_back_by_itself_if_nobody_confirms(bench: Any) -> None:
    first = bench.running()
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    assert [after for after, _ in bench.switch.timers().values()] == ["600s"]
    assert bench.switch.time_passes() == ["fabricctl-port Eth1/1 0\nfabricctl-port Eth1/2 0\n"]
    assert bench.running() == first
    assert bench.switch.left() == []


def test_a_confirm_that_comes_too_late_fails(bench: Any) -> None:
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    bench.switch.time_passes()
    assert bench.confirm() == (78, "the change was reverted before it was confirmed")
    assert settings.MTU in bench.differs()["Eth1/1"]


def test_nothing_is_saved_before_the_confirm_so_that_a_reboot_goes_back(bench: Any) -> None:
    saved = bench.switch.state()["startup"]
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    assert bench.switch.state()["startup"] == saved
    assert bench.known(settings.BOOT) == [settings.NOT_KEPT]
    assert bench.confirm() == (0, "")
    assert bench.switch.state()["startup"] == bench.running()


def test_a_confirm_without_a_push_only_saves(bench: Any) -> None:
    bench.port_by_hand("mtu 9216")
    assert bench.confirm(slots=()) == (0, "")
    assert bench.switch.state()["startup"] == bench.running()


@pytest.mark.parametrize("apply_id", [APPLY, "apply-20261130-2"])
def test_a_confirm_without_a_push_saves_nothing_while_a_change_waits(bench: Any, apply_id: str) -> None:
    """What is in place may be another controller's, and is about to be reverted."""
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    saved = bench.switch.state()["startup"]
    rc, why = bench.confirm(slots=(), apply_id=apply_id)
    assert (rc, why) == (
        75,
        "another change waits to be confirmed on the switch; confirm it or let its timer revert it",
    )
    assert bench.switch.state()["startup"] == saved
    assert list(bench.switch.timers()) == [f"fabricctl-revert-{APPLY}.0001"]
    assert bench.confirm() == (0, "")
    assert bench.confirm(slots=(), apply_id=apply_id) == (0, "")


def test_a_confirm_stops_no_timer_while_another_change_waits(bench: Any) -> None:
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    assert bench.push(bench.goals(bench.wanted(mtu_bytes=9000)), slot=2) == (0, "")
    assert bench.confirm(slots=(2,))[0] == 75
    assert len(bench.switch.timers()) == 2
    assert bench.confirm(slots=(1, 2)) == (0, "")


def test_a_confirm_without_a_push_saves_nothing_where_the_shell_does_not_answer(bench: Any) -> None:
    bench.port_by_hand("mtu 9216")
    saved = bench.switch.state()["startup"]
    (bench.switch.folder / "no-sudo").touch()
    rc, why = bench.confirm(slots=())
    assert (rc, why.startswith("the switch's Linux shell did not answer")) == (77, True)
    assert bench.switch.state()["startup"] == saved


def test_one_port_is_reverted_and_the_other_stays_armed(bench: Any) -> None:
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    assert bench.revert("Eth1/1") == (0, "")
    assert bench.known(settings.MTU, settings.PFC) == [9100, ()]
    assert bench.known(settings.MTU, settings.PFC, number=2) == [9216, (3,)]
    assert list(bench.switch.timers()) == [f"fabricctl-revert-{APPLY}.0001"]
    assert bench.confirm() == (0, "")
    assert bench.differs().keys() == {"Eth1/1"}
    assert bench.switch.left() == []


def test_what_all_ports_share_goes_back_with_the_last_of_them(bench: Any) -> None:
    poll = "priority-flow-control watchdog polling-interval 200"
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    assert bench.revert("Eth1/1") == (0, "")
    assert poll in bench.running()
    assert bench.revert("Eth1/2") == (0, "")
    assert poll not in bench.running()
    assert (bench.switch.timers(), bench.switch.left()) == ({}, [])


def test_several_pushes_of_an_apply_are_taken_back_the_latest_first(bench: Any) -> None:
    first = bench.running()
    for slot, changes in enumerate(({}, {"mtu_bytes": 9000, "cable_length_m": 20.0}), 1):
        assert bench.push(bench.goals(bench.wanted(**changes)), slot=slot) == (0, "")
    assert bench.known(settings.MTU, settings.CABLE_LENGTH) == [9000, 40]
    assert bench.revert() == (0, "")
    assert bench.running() == first


def test_another_apply_that_waits_is_not_disturbed(bench: Any) -> None:
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    before = bench.running()
    rc, why = bench.push(bench.goals(bench.wanted(mtu_bytes=9000)), apply_id="apply-20261130-2")
    assert (rc, why.partition(";")[0]) == (75, "another change waits to be confirmed on the switch")
    assert bench.running() == before
    assert list(bench.switch.timers()) == [f"fabricctl-revert-{APPLY}.0001"]


def test_what_a_dead_apply_left_behind_is_cleared_away(bench: Any) -> None:
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    for path in (bench.switch.folder / "timers").iterdir():
        path.unlink()
    assert bench.push(bench.goals(bench.wanted(mtu_bytes=9000)), apply_id="apply-20261130-2") == (0, "")
    assert [name for name in bench.switch.left() if "/" not in name] == ["apply-20261130-2.0001"]


@pytest.mark.parametrize(
    ("trap", "rc", "why"),
    [
        ("no-sudo", 77, "the switch's Linux shell did not answer"),
        ("no-systemd", 76, "no timer could run sonic-cli on the switch"),
        ("no-timers", 77, "the timer that would revert could not be started (systemd-run)"),
    ],
)
def test_without_a_timer_nothing_is_changed(bench: Any, trap: str, rc: int, why: str) -> None:
    (bench.switch.folder / trap).touch()
    first = bench.running()
    found = bench.push(bench.goals(bench.wanted()))
    assert found[0] == rc
    assert found[1].startswith(why)
    assert found[1].endswith("; nothing was changed")
    assert bench.running() == first
    assert [name for name in bench.switch.left() if name.endswith(".undo")] == []


def test_a_login_that_leads_nowhere_but_into_sonic_cli_changes_nothing(bench: Any) -> None:
    bench.switch.login = "cli"
    first = bench.running()
    assert bench.push(bench.goals(bench.wanted())) == (
        1,
        "exit: the session ended before the device answered",
    )
    assert bench.running() == first


def test_a_refused_line_ends_the_push_and_all_of_it_is_taken_back(bench: Any) -> None:
    first = bench.running()
    bench.switch.change(odd_refusals={"cable-length 5m": "%Error: Unsupported on this platform"})
    goals = bench.goals(bench.wanted())
    assert bench.push(goals) == (1, "cable-length 5m: %Error: Unsupported on this platform")
    assert bench.known(settings.MTU, settings.PFC) == [9216, ()]
    bench.switch.change(odd_refusals={})
    assert bench.revert() == (0, "")
    assert bench.running() == first


def test_a_session_that_ends_in_the_middle_is_taken_back_by_the_timer(bench: Any) -> None:
    first = bench.running()
    session = bench.switch.session()
    session.answer("sonic-cli")
    answer = session.answer

    def breaks(line: str) -> str:
        if line == "interface Eth1/2":
            raise EOFError
        return str(answer(line))

    session.answer = breaks
    rc, why = bench.push(bench.goals(bench.wanted()), session=session)
    assert (rc, why) == (1, "interface Eth1/2: the session ended before the device answered")
    bench.switch.time_passes()
    assert bench.running() == first


def test_an_undo_that_the_switch_refuses_is_said_and_tried_again_by_the_timer(bench: Any) -> None:
    first = bench.running()
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    bench.switch.change(odd_refusals={"no cable-length": "%Error: Resource busy"})
    assert bench.revert() == (1, "not all of it was done; the switch's timer tries again")
    assert "fabricctl-port Eth1/1 1" in bench.said
    bench.switch.change(odd_refusals={})
    bench.switch.time_passes()
    assert bench.running() == first


def test_reverting_what_is_not_there_is_a_success(bench: Any) -> None:
    assert bench.revert() == (0, "")
    assert bench.revert("Eth1/1") == (0, "")


def test_ports_that_are_not_named_keep_every_line(make: Callable[..., Any]) -> None:
    bench = make(3)
    bench.by_hand()
    bench.port_by_hand("mtu 9000", "no queue 3 wred-policy", number=3)
    goals = [goal for goal in bench.goals(bench.wanted(mtu_bytes=8000)) if goal.port.id.port == "Eth1/1"]
    third = bench.running().partition("interface Eth1/2")[2]
    assert bench.push(goals) == (0, "")
    assert bench.running().partition("interface Eth1/2")[2] == third


def test_only_the_named_settings_are_set(bench: Any) -> None:
    (goal, _) = bench.goals(bench.wanted())
    only = PortGoal(goal.port, (settings.MTU,), goal.wanted, goal.before)
    assert bench.lines_of([only]) == ["interface Eth1/1", "mtu 9216", "exit"]
    assert bench.push([only]) == (0, "")
    assert bench.known(settings.MTU, settings.PFC, settings.ECN) == [9216, (), False]


def test_objects_of_others_that_hold_the_same_are_bound_and_never_touched(bench: Any) -> None:
    bench.by_hand()
    bench.port_by_hand(
        "no qos-map dscp-tc", "no scheduler-policy", "no queue 3 wred-policy", "no qos-map tc-pg"
    )
    assert bench.set() == [
        "interface Eth1/1",
        "qos-map dscp-tc ROCE",
        "scheduler-policy ROCE",
        "qos-map tc-pg ROCE",
        "queue 3 wred-policy ROCE",
        "exit",
    ]
    assert bench.ours() == []


def test_an_object_of_others_is_not_changed_in_place(bench: Any) -> None:
    bench.by_hand()
    rest = bench.running().partition("qos scheduler-policy")[2].partition("interface ")[0]
    bench.set(ecn=None)
    bench.set(mtu_bytes=9000)
    bench.set(tc_bandwidth_percent=(40, 0, 0, 60, 0, 0, 0, 0))
    assert rest.partition("qos map")[2] in bench.running()
    assert " weight 50" in bench.running()


def test_two_policies_on_one_switch_share_what_is_equal_and_nothing_else(bench: Any) -> None:
    first, second = bench.ports
    wanted = {
        **bench.wanted(),
        second.id: bench.wanted(tc_bandwidth_percent=(20, 0, 0, 80, 0, 0, 0, 0))[second.id],
    }
    assert bench.push(bench.goals(wanted)) == (0, "")
    assert bench.confirm() == (0, "")
    assert bench.differs(wanted) == {}
    assert len([line for line in bench.ours() if "scheduler-policy" in line]) == 2
    assert len([line for line in bench.ours() if "dscp-tc" in line]) == 1
    assert bench.known(settings.TC_BANDWIDTH, number=1) == [(50, 0, 0, 50, 0, 0, 0, 0)]
    assert first.id.port == "Eth1/1"


def test_what_is_ours_and_nobody_uses_any_more_goes_with_the_confirm(bench: Any) -> None:
    bench.set()
    old = set(bench.ours())
    bench.set(tc_bandwidth_percent=(20, 0, 0, 80, 0, 0, 0, 0), ecn=None)
    new = set(bench.ours())
    assert {line.split()[1] for line in old - new} == {"scheduler-policy", "wred-policy"}
    assert {line.split()[1] for line in new - old} == {"scheduler-policy"}


def test_rollback_by_values_reads_as_before(bench: Any) -> None:
    """What a later rollback does: the old values are wanted, and what had none is left as it is."""
    bench.by_hand()
    bench.port_by_hand("mtu 9000", "priority-flow-control watchdog off", "cable-length 40m")
    before = {
        n: e.value for n, e in bench.read().items() if hasattr(e, "value") and n in bench.wanted()[bench.id()]
    }
    classes = {"priority_tc": (0, 0, 0, 3, 4, 0, 6, 0), "tc_bandwidth_percent": (20, 0, 0, 60, 20, 0, 0, 0)}
    bench.set(pfc_priorities=(3, 4), **classes)
    assert bench.push(bench.goals({bench.id(): before})) == (0, "")
    assert {name: bench.read()[name].value for name in before} == before


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"pfc_priorities": (2, 3, 4)}, "pfc_priorities: a switch has PFC on 2 priorities at most"),
        ({"cable_length_m": 301.0}, "cable_length_m: the switch has headroom for 5, 40, 300 m, not 301"),
        ({"mtu_bytes": 9300}, "mtu_bytes: the switch takes 1312..9216, not 9300"),
    ],
)
def test_what_the_switch_cannot_hold_is_refused_before_anything_is_told(
    bench: Any, changes: dict[str, Any], why: str
) -> None:
    first = bench.running()
    rc, said = bench.push(bench.goals(bench.wanted(**changes)))
    assert (rc, said) == (1, f"Eth1/1: {why}\nfabricctl: Eth1/2: {why}")
    assert (bench.running(), bench.switch.left()) == (first, [])


def test_a_port_that_is_refused_does_not_stop_the_others(bench: Any) -> None:
    wanted = {**bench.wanted(), bench.id(2): bench.wanted(mtu_bytes=9300)[bench.id(2)]}
    rc, said = bench.push(bench.goals(wanted))
    assert (rc, said) == (1, "Eth1/2: mtu_bytes: the switch takes 1312..9216, not 9300")
    assert "fabricctl-port Eth1/2 1" in bench.said
    assert bench.known(settings.MTU) == [9216]
    assert bench.known(settings.MTU, number=2) == [9100]


def test_the_ports_of_a_switch_have_one_polling_interval(bench: Any) -> None:
    wanted = bench.wanted()
    wanted[bench.id(2)] = {**wanted[bench.id(2)], settings.WATCHDOG_POLL: 300}
    rc, said = bench.push(bench.goals(wanted))
    assert (rc, said) == (1, "Eth1/2: pfc_watchdog_poll_ms: the ports of a switch have one polling-interval")


def test_a_port_whose_configuration_was_not_read_is_refused(bench: Any) -> None:
    (goal, _) = bench.goals(bench.wanted())
    blind = PortGoal(goal.port, goal.names, goal.wanted, {})
    assert (
        bench.push([blind])[1]
        == "Eth1/1: configuration: it could not be read, so that nothing could restore it"
    )


def test_a_port_of_a_switch_whose_objects_were_not_read_is_refused(bench: Any) -> None:
    goals = [
        PortGoal(g.port, g.names, g.wanted, {k: v for k, v in g.before.items() if k != terms.OBJECTS})
        for g in bench.goals(bench.wanted())
    ]
    why = "configuration: it could not be read, so that nothing could restore it"
    assert bench.push(goals) == (1, f"Eth1/1: {why}\nfabricctl: Eth1/2: {why}")


def test_a_port_with_an_odd_line_is_refused(bench: Any) -> None:
    (goal, _) = bench.goals(bench.wanted())
    odd = {**goal.before, "dell_sonic.lines": ("mtu 9100", "priority-flow-control priority x")}
    rc, why = bench.push([PortGoal(goal.port, goal.names, goal.wanted, odd)])
    assert (rc, why) == (1, "Eth1/1: configuration: unparsable: 'x' is no list of numbers")


def test_names_are_checked(bench: Any) -> None:
    (goal, _) = bench.goals(bench.wanted())
    assert PLUGIN.method is not None
    with pytest.raises(RefusedError, match="no port of Enterprise SONiC"):
        PLUGIN.method.push(APPLY, 1, [PortGoal(Port(PortId("leaf1", "Eth1")), (), {}, {})], 600)
    with pytest.raises(UsageError, match="cannot be part of a file's name"):
        PLUGIN.method.push("a b", 1, [goal], 600)
    with pytest.raises(UsageError, match="smaller --batch"):
        script.command("x" * 60_000)


def test_a_full_switch_fits_into_one_line() -> None:
    names = tuple(f"Eth1/{number}" for number in range(1, 65))
    undo = {name: tuple(f"line {number} of {name}" for number in range(15)) for name in names}
    assert len(script.command(script.arm(f"{APPLY}.0001", undo, (), 600, ()))) < 60_000
    same = dict.fromkeys(names, ("mtu 9100", "no scheduler-policy"))
    assert len(script.command(script.arm(f"{APPLY}.0001", same, (), 600, ()))) < 7_000


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_scripts_are_good_shell(shell: str, tmp_path: Path) -> None:
    undo = {"Eth1/1": ("description it's $(touch pwned)",)}
    for text in (
        script.arm(f"{APPLY}.0001", undo, ("x",), 600, ("Eth1/2",)),
        script.revert(APPLY, ("Eth1/1",)),
        script.confirm(APPLY, (1, 2)),
        script.revert_body(f"{APPLY}.0001"),
    ):
        done = subprocess.run(
            [shell, "-n"], input=text, text=True, capture_output=True, check=False, cwd=tmp_path
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_no_line_for_the_shell_holds_what_a_terminal_takes_for_a_prompt(bench: Any) -> None:
    assert PLUGIN.method is not None
    text = PLUGIN.method.push(APPLY, 1, bench.goals(bench.wanted()), 600)
    (line,) = [line for line in text.splitlines() if line.startswith(" echo")]
    assert re.fullmatch(r" echo [A-Za-z0-9+/=]+ \| base64 -d \| sudo -n /bin/sh", line)
