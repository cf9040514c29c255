"""The timer of a change on a Nexus 9000: when it fires, and what becomes of one that another apply left."""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl.drivers.switch.nxos import PLUGIN, config, terms
from fabricctl.model import settings
from fabricctl.model.reading import Known

BUSY, TOO_LATE = 75, 78
OTHER = "a20270115-070000-ffff"


def arm_other(bench: Any, within_s: int = 600) -> None:
    """Have another apply set the switch, which nobody confirms."""
    text = bench.push_text(bench.goals(bench.wanted()), within_s, apply_id=OTHER)
    assert bench.do(text) == (0, "")


def timers(lines: Any) -> list[str]:
    return [line for line in lines if "fabricctl-a" in line]


# when it fires


@pytest.mark.parametrize("second", [0, 1, 17, 59])
@pytest.mark.parametrize(("within_s", "most_s"), [(600, 660), (90, 150), (60, 120), (10, 120), (1, 120)])
def test_it_never_fires_before_the_time_that_is_shown_and_at_most_so_much_later(
    bench: Any, within_s: int, most_s: int, second: int
) -> None:
    bench.switch.clock.seconds += second
    shown = bench.switch.clock() + within_s
    asked = bench.switch.clock()
    assert bench.do(bench.push_text(bench.goals(bench.wanted()), within_s)) == (0, "")
    while not bench.switch.executed:
        bench.switch.clock.pass_by(1)
        bench.switch.tick()
    assert shown < bench.switch.clock() <= asked + most_s


def test_it_is_never_in_the_minute_that_runs(bench: Any) -> None:
    # A switch that is told a minute that has begun might not run the job at all.
    bench.switch.clock.seconds += 58
    asked = bench.switch.clock()
    assert bench.do(bench.push_text(bench.goals(bench.wanted()), 1)) == (0, "")
    (row,) = bench.known(terms.TIMERS)[0]
    (start,) = [line.split()[-1] for line in bench.lines() if "time start" in line]
    assert row == f"fabricctl-a20270115-080000-ab12 {start} waits"
    bench.switch.clock.pass_by(60)
    bench.switch.tick()
    assert bench.switch.executed == {}
    assert bench.switch.clock() == asked + 60


def test_the_feature_is_switched_on_stays_and_is_left_as_it_was(bench: Any) -> None:
    bench.set(bench.wanted())
    assert [line for line in bench.lines() if "scheduler" in line] == ["feature scheduler"]
    bench.set(bench.wanted(mtu_bytes=9000))
    assert [line for line in bench.lines() if "scheduler" in line] == ["feature scheduler"]
    assert PLUGIN.method is not None
    texts = (
        PLUGIN.method.revert(OTHER, ()),
        PLUGIN.method.confirm(OTHER, (1,)),
        PLUGIN.method.confirm(OTHER, ()),
    )
    assert not any("no feature" in text for text in texts)


# one that another apply has left


def test_one_of_another_apply_that_is_armed_is_named_and_nothing_is_changed(bench: Any) -> None:
    arm_other(bench)
    lines = bench.lines()
    rc, why = bench.do(bench.push_text(bench.goals(bench.wanted(mtu_bytes=9000))))
    assert rc == BUSY
    assert why == (
        f"apply {OTHER} waits to be confirmed here, until 2027:01:15:08:11 by the switch's clock: confirm it"
        f' or let it revert; if it is over, "no scheduler schedule name fabricctl-{OTHER}" ends its timer'
    )
    assert bench.lines() == lines
    assert list(bench.switch.checkpoints) == [f"fabricctl-{OTHER}"]


def test_one_whose_time_cannot_be_read_is_named_without_it(bench: Any) -> None:
    bench.switch.configure("feature scheduler", f"scheduler schedule name fabricctl-{OTHER}")
    rc, why = bench.do(bench.push_text(bench.goals(bench.wanted())))
    assert rc == BUSY
    assert why.startswith(
        f"apply {OTHER} waits to be confirmed here: confirm it or let it revert; if it is over"
    )


def test_one_that_was_armed_after_the_reading_is_refused_too(bench: Any) -> None:
    text = bench.push_text(bench.goals(bench.wanted(mtu_bytes=9000)))
    arm_other(bench)
    lines = bench.lines()
    rc, why = bench.do(text)
    assert rc == BUSY
    assert '"show scheduler schedule" names it' in why
    assert bench.lines() == lines


def test_a_clock_that_stands_still_leaves_it_armed_and_nothing_is_pushed_or_saved(bench: Any) -> None:
    bench.switch.save()
    arm_other(bench)
    # All is as wanted but the saved configuration: an apply would only confirm.
    assert bench.differs(bench.wanted()) == {}
    assert bench.known(settings.BOOT) == [settings.NOT_KEPT]
    rc, why = bench.confirm(slots=())
    assert rc == BUSY
    assert '"show scheduler schedule" names it' in why
    assert timers(bench.switch.startup) == []
    assert timers(bench.lines()) != []
    # What the controller sends once it knows that the apply is over.
    assert bench.revert(OTHER) == (0, "")
    bench.set(bench.wanted())
    assert timers(bench.switch.startup) == timers(bench.lines()) == []


def test_one_whose_time_is_past_and_that_never_ran_goes_before_the_change(bench: Any) -> None:
    arm_other(bench)
    bench.switch.scheduler_works = False
    bench.switch.clock.pass_by(1200)
    (row,) = bench.known(terms.TIMERS)[0]
    assert row == f"fabricctl-{OTHER} 2027:01:15:08:11 over"
    bench.set(bench.wanted(mtu_bytes=9000))
    bench.switch.scheduler_works = True
    bench.switch.clock.pass_by(10_000)
    bench.switch.tick()
    assert (bench.switch.checkpoints, bench.switch.executed) == ({}, {})
    assert timers(bench.lines()) == timers(bench.switch.startup) == []
    assert bench.known(settings.MTU) == [9000]


def test_of_two_only_the_one_that_is_over_goes(bench: Any) -> None:
    arm_other(bench)
    bench.switch.scheduler_works = False
    bench.switch.clock.pass_by(1200)
    text = bench.push_text(bench.goals(bench.wanted(mtu_bytes=9000)))
    bench.switch.configure(
        "scheduler schedule name fabricctl-a20270115-080000-eeee", "time start 2027:01:15:09:00"
    )
    rc, _ = bench.do(text)
    assert rc == BUSY
    assert f"scheduler schedule name fabricctl-{OTHER}" in bench.lines()


def test_one_whose_time_is_past_by_less_than_a_minute_may_just_be_at_work(bench: Any) -> None:
    arm_other(bench)
    bench.switch.scheduler_works = False
    bench.switch.clock.pass_by(660 + 59)
    assert bench.known(terms.TIMERS)[0][0].endswith(" waits")
    bench.switch.clock.pass_by(1)
    assert bench.known(terms.TIMERS)[0][0].endswith(" over")


def test_one_whose_job_failed_goes_with_the_next_change_and_is_not_saved(bench: Any) -> None:
    arm_other(bench)
    bench.switch.rollback_fails = True
    bench.switch.clock.pass_by(661)
    bench.switch.tick()
    bench.switch.rollback_fails = False
    assert timers(bench.lines()) != []
    assert bench.confirm(slots=()) == (0, "")
    assert timers(bench.lines()) == timers(bench.switch.startup) == []
    assert bench.switch.checkpoints == {}
    assert bench.known(settings.BOOT) == [settings.SAVED]


def test_a_confirm_takes_others_that_are_over_away_before_it_saves(bench: Any) -> None:
    arm_other(bench)
    bench.switch.clock.pass_by(661)
    bench.switch.tick()
    left = {line: dict(bench.switch.running[line]) for line in timers(bench.lines()) if line[0] != " "}
    checkpoint = dict(bench.switch.checkpoints)
    bench.set(bench.wanted(), confirm=False)
    # As if somebody had put them there again.
    bench.switch.running |= left
    bench.switch.checkpoints |= checkpoint
    assert bench.confirm() == (0, "")
    assert timers(bench.lines()) == timers(bench.switch.startup) == []
    assert bench.switch.checkpoints == {}


def test_a_confirm_does_not_save_anothers_armed_timer(bench: Any) -> None:
    bench.set(bench.wanted(), confirm=False)
    saved = bench.switch.startup
    bench.switch.configure(f"scheduler schedule name fabricctl-{OTHER}", "time start 2027:01:15:09:00")
    assert bench.confirm()[0] == BUSY
    assert bench.switch.startup is saved
    # Its own timer still runs.
    bench.switch.clock.pass_by(661)
    bench.switch.tick()
    assert bench.known(settings.MTU) == [1500]


def test_a_saved_configuration_with_a_timer_in_it_is_not_as_it_should_be(bench: Any) -> None:
    bench.set(bench.wanted())
    assert bench.switch.startup is not None
    bench.switch.startup[f"scheduler schedule name fabricctl-{OTHER}"] = {"time start 2027:01:15:07:10": {}}
    assert bench.known(settings.BOOT) == [settings.NOT_KEPT]
    assert bench.confirm(slots=()) == (0, "")
    assert bench.known(settings.BOOT) == [settings.SAVED]


def test_a_revert_long_after_the_timer_fired_leaves_what_others_have_set_since(bench: Any) -> None:
    arm_other(bench)
    bench.switch.clock.pass_by(661)
    bench.switch.tick()
    bench.switch.configure("interface Ethernet1/2", "description rack 7")
    assert bench.revert(OTHER) == (0, "")
    assert "  description rack 7" in bench.lines()
    assert (bench.switch.checkpoints, timers(bench.lines())) == ({}, [])


def test_a_revert_after_a_job_that_failed_takes_back(bench: Any) -> None:
    arm_other(bench)
    bench.switch.rollback_fails = True
    bench.switch.clock.pass_by(661)
    bench.switch.tick()
    bench.switch.rollback_fails = False
    assert bench.known(settings.MTU) == [9216]
    assert bench.revert(OTHER) == (0, "")
    assert bench.known(settings.MTU) == [1500]
    assert bench.switch.checkpoints == {}


@pytest.mark.parametrize(
    ("time", "start", "state"),
    [
        ("!Time: Fri Jan 15 08:12:00 2027", "time start 2027:01:15:08:11", "over"),
        ("!Time: Fri Jan 15 08:11:59 2027", "time start 2027:01:15:08:11", "waits"),
        ("!Time: Fri Jan  1 00:00:00 2027", "time start 2026:12:31:23:59", "over"),
        ("!Time: Thu Dec 31 23:59:59 2026", "time start 2027:1:1:0:0", "waits"),
        # Where the time or the start is not known, it may yet fire.
        ("", "time start 2020:01:15:08:11", "waits"),
        ("!Time: Fri Foo 15 08:12:00 2027", "time start 2027:01:15:08:11", "waits"),
        ("!Time: Fri Jan 15 08:12:00 2027", "time daily 08:00", "waits"),
        ("!Time: Fri Jan 15 08:12:00 2027", "time start 2027:01:15:08:11 repeat 0:8:0", "waits"),
    ],
)
def test_a_timer_is_over_only_if_the_switchs_own_clock_says_so(time: str, start: str, state: str) -> None:
    said = f"{time}\ninterface Ethernet1/1\nscheduler schedule name fabricctl-{OTHER}\n  {start}\n"
    (row,) = config.read(said).timers
    assert row.split()[::2] == [f"fabricctl-{OTHER}", state]


def test_schedules_of_others_are_no_timers_of_ours() -> None:
    said = "interface Ethernet1/1\nscheduler schedule name nightly\n  time start 2027:01:15:08:11\n"
    assert config.read(said).timers == ()


def test_nothing_wants_timers(bench: Any) -> None:
    assert terms.TIMERS not in bench.wanted()[bench.id()]
    assert bench.read()[terms.TIMERS] == Known(())
    assert terms.TIMERS not in PLUGIN.unsupported
