"""Setting an EOS switch: the text that the driver composes, run against a switch that keeps its state."""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl.drivers import lines
from fabricctl.drivers.switch.eos import PLUGIN, terms
from fabricctl.errors import RefusedError, UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.policy import EcnProfile, Watchdog
from fabricctl.model.reading import Known
from fabricctl.plugin.protocols import PortGoal

PORT, OTHER = "Ethernet1/1", "Ethernet2/1"
OURS = "fabricctl-apply-1-0001"
WAITS = (
    "another change waits to be confirmed here (show configuration sessions); confirm it or let its timer "
    "revert it"
)


def _sessions(world: Any) -> list[str]:
    return sorted(world.switch.sessions)


def test_set_again_and_nothing_is_left_to_do(world: Any, want: Any) -> None:
    world.set(want())
    assert world.left(want()) == {}
    assert world.left(want(), OTHER) == {}
    assert world.goals(want()) == []
    assert world.value(settings.BOOT) == "saved"


def test_what_is_running_is_not_saved_before_it_is_confirmed(world: Any, want: Any) -> None:
    assert world.push(want()) == (0, "")
    assert world.value(settings.BOOT) == "none"
    assert "fabricctl-" not in world.switch.startup
    assert world.confirm(1) == (0, "")
    assert world.value(settings.BOOT) == "saved"


def test_confirming_without_a_push_only_saves(world: Any, want: Any) -> None:
    world.switch.operate("interface Ethernet1/1", "mtu 9000")
    assert world.value(settings.BOOT) == "none"
    assert world.confirm() == (0, "")
    assert world.value(settings.BOOT) == "saved"
    assert want()[settings.MTU] == 9214


@pytest.mark.parametrize("version", ["4.31.2F", "4.32.1F"])
@pytest.mark.parametrize("name", ["fabricctl-apply-0-0001", OURS, "cvp-1"])
def test_confirming_without_a_push_saves_nothing_while_a_timer_runs(
    make: Any, version: str, name: str
) -> None:
    """What is in place may be another controller's, and is about to be reverted."""
    world = make(version=version)
    world.switch.open(name).config.take((), "hostname other")
    world.switch.commit(name, 600)
    saved = world.switch.startup
    rc, why, sent = world.send(PLUGIN.method.confirm("apply-1", ()))
    assert (rc, why) == (lines.RC_BUSY, WAITS)
    assert sent == ["show configuration sessions detail | json"]
    assert (world.switch.startup, world.switch.timer.session) == (saved, name)
    world.clock.pass_by(601)
    assert world.confirm() == (0, "")


def test_a_confirm_of_its_own_saves_nothing_while_another_timer_runs(world: Any, want: Any) -> None:
    """A timer that another hand starts between the commit and the copy."""
    assert world.push(want()) == (0, "")
    saved, commit = world.switch.startup, world.switch.commit

    def commits(name: str, seconds: int | None) -> str:
        said = str(commit(name, seconds))
        world.switch.open("cvp-1")
        commit("cvp-1", 600)
        return said

    world.switch.commit = commits
    assert world.confirm(1) == (lines.RC_BUSY, WAITS)
    assert world.switch.startup == saved


@pytest.mark.parametrize("said", ["", "\n", "{}"])
def test_nothing_is_pushed_nor_saved_where_the_sessions_are_not_shown(
    world: Any, want: Any, said: str
) -> None:
    before = (world.switch.text(), world.switch.startup)
    push, confirm = world.goals(want()), PLUGIN.method.confirm("apply-1", ())
    world.switch.faults.refuse["show configuration sessions .*"] = said
    unknown = "the switch does not show its configuration sessions: what waits to be confirmed is not known"
    assert world.run(PLUGIN.method.push("apply-1", 1, push, 600)) == (1, unknown)
    assert world.run(confirm) == (1, unknown)
    assert (world.switch.text(), world.switch.startup) == before


def test_a_confirm_while_the_configuration_is_locked_says_that_it_still_reverts(
    world: Any, want: Any
) -> None:
    before = world.switch.text()
    assert world.push(want()) == (0, "")
    world.switch.faults.refuse["configure session .* commit"] = "% Configuration is locked by user cvp"
    rc, why = world.confirm(1)
    assert (rc, why.partition(": ")[0]) == (1, "the switch's configuration is locked")
    assert why.endswith(f"{OURS} is not confirmed and reverts by itself unless a later confirm succeeds")
    assert world.switch.timer is not None
    world.switch.faults.refuse.clear()
    assert world.confirm(1) == (0, "")
    assert world.switch.text() != before


def test_a_confirm_that_does_nothing_says_that_it_still_reverts(world: Any, want: Any) -> None:
    assert world.push(want()) == (0, "")
    world.switch.faults.refuse["configure session .* commit"] = ""
    assert world.confirm(1) == (1, f"the timer of {OURS} still runs: it reverts by itself")


@pytest.mark.parametrize("version", ["4.31.2F", "4.32.1F"])
def test_what_is_not_confirmed_is_reverted_by_the_switch(make: Any, want: Any, version: str) -> None:
    world = make(version=version)
    before = world.read().settings
    assert world.push(want(), within_s=300) == (0, "")
    assert world.left(want()) == {}
    world.clock.pass_by(299)
    assert world.left(want()) == {}
    world.clock.pass_by(2)
    assert world.read().settings == before
    assert world.switch.timer is None


@pytest.mark.parametrize("version", ["4.31.2F", "4.32.1F"])
def test_a_confirm_that_comes_too_late_fails_and_saves_nothing(make: Any, want: Any, version: str) -> None:
    world = make(version=version)
    assert world.push(want(), within_s=60) == (0, "")
    world.clock.pass_by(61)
    saved = world.switch.startup
    assert world.confirm(1) == (lines.RC_TOO_LATE, f"{OURS} was reverted before it was confirmed")
    assert world.switch.startup == saved


@pytest.mark.parametrize("version", ["4.31.2F", "4.32.1F"])
def test_a_revert_restores_everything_at_once_and_leaves_no_session(
    make: Any, want: Any, version: str
) -> None:
    world = make(version=version)
    before, text = world.read().settings, world.switch.text()
    assert world.push(want()) == (0, "")
    assert world.revert() == (0, "")
    assert (world.read().settings, world.switch.text()) == (before, text)
    assert (_sessions(world), world.switch.timer) == ([], None)


@pytest.mark.parametrize("version", ["4.31.2F", "4.32.1F"])
def test_a_revert_without_anything_to_revert_is_a_success(make: Any, want: Any, version: str) -> None:
    world = make(version=version)
    assert world.revert() == (0, "")
    world.set(want())
    assert world.revert() == (0, "")
    assert world.left(want()) == {}


def test_a_revert_leaves_the_sessions_of_others_alone(world: Any) -> None:
    world.switch.open("fabricctl-apply-12-0001")
    world.switch.open("cvp-1")
    world.switch.open(OURS)
    assert world.revert() == (0, "")
    assert _sessions(world) == ["cvp-1", "fabricctl-apply-12-0001"]


@pytest.mark.parametrize("version", ["4.31.2F", "4.32.1F"])
def test_nothing_is_changed_while_another_commit_timer_runs(make: Any, want: Any, version: str) -> None:
    world = make(version=version)
    world.switch.open("cvp-1")
    world.switch.commit("cvp-1", 600)
    rc, why, sent = world.send(PLUGIN.method.push("apply-1", 1, world.goals(want()), 600))
    assert rc == lines.RC_BUSY
    assert why == WAITS
    assert sent == ["show configuration sessions detail | json"]


def test_a_second_push_waits_for_the_first_to_be_confirmed(world: Any, want: Any) -> None:
    assert world.push(want(), PORT) == (0, "")
    assert world.push(want(), OTHER, slot=2)[0] == lines.RC_BUSY
    assert world.confirm(1) == (0, "")
    assert world.push(want(), OTHER, slot=2) == (0, "")
    assert world.confirm(2) == (0, "")
    assert world.left(want(), OTHER) == {}


def test_a_line_that_is_refused_is_named_and_nothing_is_committed(world: Any, want: Any) -> None:
    no = "% Unavailable command (not supported on this hardware platform)"
    world.switch.faults.refuse["random-detect ecn count"] = no
    before = world.switch.text()
    assert world.push(want()) == (1, f"random-detect ecn count: {no}")
    assert (world.switch.text(), world.switch.timer) == (before, None)
    assert _sessions(world) == [OURS]
    assert world.revert() == (0, "")
    assert _sessions(world) == []


def test_a_commit_that_is_refused_changes_nothing(world: Any, want: Any) -> None:
    world.switch.faults.refuse["configure session .* commit timer .*"] = "% Cannot commit: internal error"
    before = world.switch.text()
    rc, why = world.push(want())
    assert (rc, why.endswith("commit timer 00:10:00: % Cannot commit: internal error")) == (1, True)
    assert world.switch.text() == before


def test_a_commit_that_says_nothing_and_does_nothing_is_noticed(world: Any, want: Any) -> None:
    world.switch.faults.refuse["configure session .* commit timer .*"] = ""
    assert world.push(want()) == (1, f"{OURS} was not committed with a timer")


@pytest.mark.parametrize(
    "line", ["interface Ethernet1/1", "show session-config diffs", "configure session .* commit timer .*"]
)
def test_a_session_that_drops_in_the_middle_leaves_what_was(world: Any, want: Any, line: str) -> None:
    world.switch.faults.drop_before = line
    before = world.switch.text()
    rc, why = world.push(want())
    assert (rc, why.endswith("the session ended before the device answered")) == (1, True)
    assert (world.switch.text(), world.switch.timer) == (before, None)
    assert world.revert() == (0, "")
    assert _sessions(world) == []
    world.set(want())
    assert world.left(want()) == {}


def test_a_configuration_that_is_not_saved_is_no_confirm(world: Any, want: Any) -> None:
    assert world.push(want()) == (0, "")
    world.switch.faults.refuse["copy running-config startup-config"] = "Copy failed: no space left"
    assert world.confirm(1) == (1, "what apply-1 set was not saved: it holds until the switch boots")


def test_a_value_that_the_switch_rounds_is_seen_in_the_reading(world: Any, want: Any) -> None:
    world.switch.rounds["minimum-threshold 150000 bytes"] = "minimum-threshold 159744 bytes"
    assert world.push(want()) == (0, "")
    assert world.left(want()) == {settings.ECN_KMIN: Known(159_744)}


def test_what_drifts_is_set_again_by_a_profile_of_another_name(ready: Any, want: Any) -> None:
    (name,) = (n for n in ready.switch.running.users() if n.startswith("fabricctl-"))
    ready.switch.operate(f"qos profile {name}", "priority-flow-control priority 4 no-drop")
    assert ready.value(settings.PFC) == (3, 4)
    ready.set(want())
    assert ready.left(want()) == {}
    assert list(ready.switch.running.users()) == [f"{name}x"]
    assert f"qos profile {name}" not in ready.switch.running.root.sections


# only what is named


def test_only_named_ports_are_touched_besides_the_maps_of_the_switch(world: Any, want: Any) -> None:
    before = world.switch.running.section((f"interface {OTHER}",)).lines.copy()
    world.set(want(), PORT)
    assert world.left(want()) == {}
    assert world.switch.running.section((f"interface {OTHER}",)).lines == before
    assert world.value(settings.PFC, OTHER) == ()


def test_only_named_settings_change(ready: Any, want: Any) -> None:
    (goal, _) = ready.goals({**want(), settings.ECN_KMIN: 200_000, settings.MTU: 9000})
    only = PortGoal(goal.port, (settings.ECN_KMIN,), goal.wanted, goal.before)
    before = dict(ready.read().settings)
    assert ready.run(PLUGIN.method.push(ready.apply, 1, [only], 600)) == (0, "")
    after = dict(ready.read().settings)
    changed = {name for name in after if after[name] != before[name] and not name.startswith("eos.")}
    assert changed == {settings.ECN_KMIN, settings.BOOT}
    assert after[settings.ECN_KMIN] == Known(200_000)


def test_ports_that_are_to_be_alike_share_one_profile(ready: Any) -> None:
    assert [sorted(ports) for ports in ready.switch.running.users().values()] == [[PORT, OTHER]]


def test_two_policies_on_one_switch_have_a_profile_each(ready: Any, want: Any) -> None:
    slow = want(ecn=EcnProfile(100_000, 400_000, 20))
    ready.set(slow, OTHER)
    assert ready.left(want()) == {}
    assert ready.left(slow, OTHER) == {}
    assert len(ready.switch.running.users()) == 2


def test_a_profile_that_no_port_has_any_more_goes(ready: Any, want: Any) -> None:
    old = list(ready.switch.running.users())
    slow = want(ecn=EcnProfile(100_000, 400_000, 20))
    ready.set(slow, PORT)
    assert f"qos profile {old[0]}" in ready.switch.running.root.sections
    ready.set(slow, OTHER)
    assert f"qos profile {old[0]}" not in ready.switch.running.root.sections
    assert len([h for h in ready.switch.running.root.sections if h.startswith("qos profile")]) == 1


FOREIGN = (
    "qos profile SITE",
    "qos trust dscp",
    "service-policy type qos input SITE-IN",
    "uc-tx-queue 2",
    "shape rate 50 percent",
    "exit",
    "exit",
    "interface Ethernet1/1",
    "service-profile SITE",
    "exit",
    "interface Ethernet2/1",
    "service-profile SITE",
)


def test_a_profile_of_others_is_left_and_what_is_not_ours_in_it_moves_along(world: Any, want: Any) -> None:
    world.switch.operate(*FOREIGN)
    world.set(want(), PORT)
    assert world.left(want()) == {}
    text = world.switch.running.text()
    assert (
        "service-policy type qos input SITE-IN\n   !\n   uc-tx-queue 2\n      shape rate 50 percent\n!"
        in text
    )
    assert world.switch.running.users()["SITE"] == [OTHER]
    (name,) = (n for n in world.switch.running.users() if n != "SITE")
    section = world.switch.running.section((f"qos profile {name}",))
    assert section.lines["service-policy type qos input"] == "service-policy type qos input SITE-IN"
    assert section.sections["uc-tx-queue 2"].lines == {"shape rate": "shape rate 50 percent"}


def test_an_undo_by_values_finds_the_profile_that_was_there(world: Any, want: Any) -> None:
    world.switch.operate(*FOREIGN)
    before = world.read().settings
    names = [name for name in want() if isinstance(before[name], Known)]
    world.set(want())
    old = {name: before[name].value for name in names}
    world.set(old, PORT, OTHER)
    assert {name: world.read().settings[name] for name in names} == {name: before[name] for name in names}
    assert world.switch.running.users() == {"SITE": [PORT, OTHER]}
    assert not [head for head in world.switch.running.root.sections if "fabricctl" in head]


def test_an_undo_by_values_takes_the_profile_off_a_port_that_had_none(world: Any, want: Any) -> None:
    before = world.read().settings
    world.set(want(), PORT)
    world.set({name: before[name].value for name in want() if isinstance(before[name], Known)}, PORT)
    assert world.switch.running.users() == {}
    assert "fabricctl" not in world.switch.running.text()
    assert world.value(settings.MTU) == 1500


def test_what_an_interface_says_itself_is_taken_back(world: Any, want: Any) -> None:
    world.switch.operate(
        "interface Ethernet1/1",
        "qos trust cos",
        "priority-flow-control priority 5 no-drop",
        "priority-flow-control pause watchdog",
        "uc-tx-queue 3",
        "random-detect ecn minimum-threshold 1 mbytes maximum-threshold 2 mbytes max-mark-probability 5",
        "bandwidth percent 10",
        "shape rate 10 percent",
    )
    assert world.value(settings.TRUST) == "pcp"
    assert world.value(settings.LOSSLESS_BUFFERS) == (5,)
    assert world.value(settings.ECN_KMIN) == 1_000_000
    world.set(want(), PORT)
    assert world.left(want()) == {}
    section = world.switch.running.section(("interface Ethernet1/1",))
    assert section.lines.keys() == {"switchport", "mtu", "service-profile"}
    assert section.sections["uc-tx-queue 3"].lines == {"shape rate": "shape rate 10 percent"}


# what was not read


def _blind(goals: Any, *names: str) -> list[PortGoal]:
    """Return the goals without what was read of these."""
    return [
        PortGoal(g.port, g.names, g.wanted, {k: v for k, v in g.before.items() if k not in names})
        for g in goals
    ]


@pytest.mark.parametrize(
    "lacks",
    [
        settings.PFC,
        terms.PROFILE,
        terms.PROFILES,
        terms.REST,
        terms.GUARANTEED,
        terms.OWN_LINES,
        terms.QUEUE_MODE,
        terms.MAP_MODE,
        settings.DSCP_PRIORITY,
        settings.PRIORITY_TC,
    ],
)
def test_a_port_of_which_something_was_not_read_is_not_set(world: Any, want: Any, lacks: str) -> None:
    world.switch.operate(*FOREIGN)
    with pytest.raises(RefusedError) as caught:
        PLUGIN.method.push("apply-1", 1, _blind(world.goals(want()), lacks), 600)
    assert str(caught.value) == (
        f"leaf1/{PORT}: its configuration was not read ({lacks}), so that nothing is set; try again"
    )


@pytest.mark.parametrize("lacks", [settings.TRUST, settings.ECN, settings.WATCHDOG, terms.ECN_QUEUES])
def test_what_is_to_stay_in_the_profile_must_have_been_read(ready: Any, want: Any, lacks: str) -> None:
    goals = [
        PortGoal(g.port, (settings.ECN_KMIN,), g.wanted, g.before)
        for g in ready.goals({**want(), settings.ECN_KMIN: 200_000})
    ]
    with pytest.raises(RefusedError, match=rf"its configuration was not read \({lacks}\)"):
        PLUGIN.method.push(ready.apply, 1, _blind(goals, lacks), 600)
    named = [PortGoal(g.port, (*g.names, lacks), g.wanted, g.before) for g in goals]
    assert PLUGIN.method.push(ready.apply, 1, _blind(named, lacks), 600)


def test_a_configuration_that_came_cut_loses_no_profile_of_the_operator(world: Any, want: Any) -> None:
    world.switch.operate(*FOREIGN)
    text, world.switch.text = world.switch.text, lambda: text().removesuffix("end\n")
    goals = world.goals(want())
    assert goals
    world.switch.text = text
    before = text()
    with pytest.raises(RefusedError, match="its configuration was not read"):
        world.run(PLUGIN.method.push("apply-1", 1, goals, 600))
    assert text() == before
    world.set(want())
    assert "shape rate 50 percent" in text()


# platforms


def test_jericho_has_tx_queues_without_a_weight_and_counts_marks_only_with_the_feature(
    make: Any, want: Any
) -> None:
    world = make(model="DCS-7280CR3-32P4-F", mode="tx-queue")
    text = PLUGIN.method.push("apply-1", 1, world.goals(want()), 600)
    assert "uc-tx-queue" not in text
    assert "max-mark-probability 100\n" in text
    assert "hardware counter feature ecn out\n" in text
    world.set(want())
    assert world.left(want()) == {}
    world.switch.running.root.lines.pop("hardware counter feature ecn out")
    assert list(world.left(want())) == ["eos.ecn_counted"]


def test_tomahawk_has_unicast_queues_with_the_instantaneous_weight(world: Any, want: Any) -> None:
    text = PLUGIN.method.push("apply-1", 1, world.goals(want()), 600)
    assert "\nuc-tx-queue 3\n" in text
    assert "max-mark-probability 100 weight 0\n" in text
    assert "hardware counter" not in text


# what the switch imposes


def test_9216_is_9214_here(want: Any) -> None:
    assert want(mtu_bytes=9216)[settings.MTU] == 9214
    assert want(mtu_bytes=9000)[settings.MTU] == 9000


def test_traffic_class_7_stays_in_its_queue(world: Any, want: Any) -> None:
    assert want()[settings.PRIORITY_TC] == (0, 0, 0, 3, 0, 0, 6, 7)
    assert want()[settings.TC_SCHEDULER][7] == "strict"
    assert "traffic-class 7 to" not in PLUGIN.method.push("apply-1", 1, world.goals(want()), 600)


def test_the_watchdog_polls_at_most_half_of_its_shorter_time(want: Any) -> None:
    watchdog = Watchdog(poll_ms=200, detect_ms=405, restore_ms=300)
    found = want(watchdog=watchdog)
    assert (found[settings.WATCHDOG_DETECT], found[settings.WATCHDOG_RESTORE]) == (410, 300)
    assert found[settings.WATCHDOG_POLL] == 150


def test_forwarding_what_a_stormed_queue_holds_is_only_a_notice_here(world: Any, want: Any) -> None:
    found = want(watchdog=Watchdog(action="forward"))
    assert found[settings.WATCHDOG_ACTION] == "notify-only"
    world.set(found)
    assert world.left(found) == {}


def test_a_watchdog_that_is_off_leaves_no_guarantee_of_ours(ready: Any, want: Any) -> None:
    assert ready.value("eos.guaranteed") == ("3 percent 1",)
    off = want(watchdog=Watchdog(on=False))
    ready.set(off)
    assert ready.left(off) == {}
    assert ready.value("eos.guaranteed") == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"ecn": None, "roce_tos": 104},
        {"pfc_priorities": (), "watchdog": None},
        {"watchdog": None},
        {"trust": "pcp"},
        {"dscp_priority": tuple({26: 3, 48: 6}.get(dscp, dscp >> 3) for dscp in range(64))},
        {
            "pfc_priorities": (),
            "ecn": None,
            "watchdog": None,
            "priority_tc": (0,) * 8,
            "dscp_priority": (0,) * 64,
            "tc_scheduler": ("ets",) * 8,
            "tc_bandwidth_percent": (100,) + (0,) * 7,
        },
    ],
)
def test_every_policy_can_be_set_and_changed_into_the_full_one_and_back(
    world: Any, want: Any, changes: dict[str, Any]
) -> None:
    for meant in (want(**changes), want(), want(**changes)):
        world.set(meant)
        assert world.left(meant) == {}


def test_without_pfc_the_class_of_its_own_marks(want: Any) -> None:
    assert want(pfc_priorities=(), watchdog=None)["eos.ecn_queues"] == (3,)
    best_effort = want(pfc_priorities=(), watchdog=None, priority_tc=(0,) * 8, tc_scheduler=("ets",) * 8)
    assert best_effort["eos.ecn_queues"] == (0,)


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        (settings.DSCP_PRIORITY, Disruption.SYSTEM_WIDE),
        (settings.PRIORITY_TC, Disruption.SYSTEM_WIDE),
        (settings.PFC, Disruption.BUFFERS),
        (settings.MTU, Disruption.MTU_CHANGE),
        (settings.PAUSE, Disruption.LINK_FLAP),
        (settings.ECN_KMIN, Disruption.NONE),
    ],
)
def test_what_a_change_disrupts(setting: str, what: Disruption) -> None:
    assert PLUGIN.disruption(setting, Known(0), 1) is what


# what cannot be sent


@pytest.mark.parametrize("name", ["Ethernet1/1 ", "Et1; reload", "", "Ethernet1/1\nreload", "-rf", "Vlan 3"])
def test_a_name_that_is_none_of_an_interface_is_refused(name: str) -> None:
    port = Port(PortId("leaf1", name))
    with pytest.raises(RefusedError, match="no name of a switch port"):
        PLUGIN.queries([port])
    with pytest.raises(RefusedError, match="no name of a switch port"):
        PLUGIN.method.push("apply-1", 1, [PortGoal(port, (settings.MTU,), {settings.MTU: 9000}, {})], 600)


@pytest.mark.parametrize("setting", ["eos.profile_rest", "eos.profiles", "eos.interface_lines"])
def test_lines_of_the_device_that_hold_more_than_a_line_are_refused(
    world: Any, want: Any, setting: str
) -> None:
    (goal, _) = world.goals(want())
    bad = PortGoal(goal.port, goal.names, goal.wanted, {**goal.before, setting: ("shape rate 5\nreload",)})
    with pytest.raises(RefusedError, match="cannot stand in a line"):
        PLUGIN.method.push("apply-1", 1, [bad], 600)


def test_an_apply_whose_name_is_a_pattern_is_refused() -> None:
    for name in (".*", "a b", "", 'x"'):
        with pytest.raises(UsageError):
            PLUGIN.method.revert(name, ())


@pytest.mark.parametrize(
    ("seconds", "shown"), [(1, "00:00:01"), (300, "00:05:00"), (3661, "01:01:01"), (10**6, "23:59:59")]
)
def test_the_timer_is_in_hours_minutes_and_seconds(world: Any, want: Any, seconds: int, shown: str) -> None:
    assert f"commit timer {shown}\n" in PLUGIN.method.push("apply-1", 1, world.goals(want()), seconds)
